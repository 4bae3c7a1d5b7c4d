/* SPDX-License-Identifier: Apache-2.0 */
/* Facts for a model before its first call, from this host and configuration. */
#include "cli/mcp/facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/registry/packages.h"
#include "base/rundir.h"
#include "base/str.h"
#include "mcp/server/session.h"

enum {
    NAMES_MAX = 1024,     /* bytes of a list of packages */
    LIMIT_MS = 30 * 1000, /* the default limit */
};

/* Write into python and packages; without an interpreter, a text that fits any. */
static void python_tell(const struct snp_config *config,
                        const json_t *exec,
                        const char *project,
                        struct snp_buf *python,
                        struct snp_buf *packages)
{
    const char *home = snp_config_process_env(config, "HOME");
    const char *program = snp_config_process_env(config, "SNIPARA_SANDBOX_PYTHON");
    snp_autofree char *real_home = home == NULL ? NULL : realpath(home, NULL);
    snp_autofree char *state = NULL;
    struct snp_python_query query = {
        .name = snp_json_str(json_object_get(exec, "defaults"), "template", NULL),
        .project = project,
        .default_python = program == NULL || program[0] == '\0' ? "/usr/bin/python3" : program,
        .home = real_home,
    };
    struct snp_err err;
    unsigned minor = 0;

    if (snp_state_dir(&state, &err) == 0) {
        query.state_dir = state;
        (void)!snp_packages_find(&query, &minor, packages, &err);
    }
    (void)!(minor == 0 ? snp_buf_adds(python, "Python")
                       : snp_buf_addf(python, "Python 3.%u", minor));
}

json_t *snp_mcp_facts(const struct snp_config *config, const json_t *exec, const char *project)
{
    snp_autobuf struct snp_buf python = {0};
    snp_autobuf struct snp_buf packages = {0};
    char session[SNP_SESSION_NAME_MAX + 1];
    json_int_t limit_ms = snp_json_int(json_object_get(exec, "defaults"), "timeout_ms", LIMIT_MS);

    snp_mcp_default_session(project, session);
    snp_buf_init(&python, NAMES_MAX);
    snp_buf_init(&packages, NAMES_MAX);
    python_tell(config, exec, project, &python, &packages);
    if (packages.len == 0) {
        (void)!snp_buf_adds(&packages, "only the standard library");
    }
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o}", "python", snp_buf_cstr(&python), "packages",
        snp_buf_cstr(&packages), "figures",
        strstr(snp_buf_cstr(&packages), "matplotlib") == NULL
            ? ""
            : " Open figures are kept when a call ends; the result says how to view them.",
        "limit", json_sprintf("%g s", (double)limit_ms / 1000), "project",
        json_sprintf(project == NULL
                         ? "/workspace begins empty; the user copies files out with: "
                           "snipara-sandbox get %s:FILE"
                         : "/workspace shows the user's project, which never changes: edits "
                           "stay in the sandbox until the user runs: "
                           "snipara-sandbox apply %s --unverified",
                     session));
}
