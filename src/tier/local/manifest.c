/* SPDX-License-Identifier: Apache-2.0 */
/* What is enforced without namespaces, and what that leaves open. */
#include <stdio.h>

#include "tier/engine/about.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/supervisor.h"
#include "tier/local/local.h"

enum {
    ABI_TCP = 4,
    ABI_SCOPES = 6
};

static json_t *masked_paths(const struct snp_sandbox *s)
{
    json_t *shown = json_array();
    size_t i;
    json_t *path;

    json_array_foreach(s->masked, i, path)
    {
        if (i < SNP_MASKED_SHOWN) {
            (void)json_array_append(shown, path);
        }
    }
    return shown;
}

static const char *const guarantees[] = {"network",   "filesystem", "syscalls",
                                         "resources", "disposable", NULL};
static const char *const verbs[] = {NULL};
const struct snp_about snp_local_about = {.rank = 50, .guarantees = guarantees, .verbs = verbs};

json_t *snp_local_controls(const struct snp_sandbox *s, json_t *resources)
{
    const struct snp_supervisor *supervisor = s->supervisor;
    json_t *network =
        json_pack("{s:b,s:s,s:b}", "enforced", 1, "how",
                  "no call that makes or connects a socket, connected pairs excepted",
                  "landlock_tcp", s->landlock_abi >= ABI_TCP);
    json_t *files =
        json_pack("{s:b,s:s,s:s,s:o,s:i,s:i}", "enforced", 1, "root",
                  "the host's, of which Landlock opens /usr and a few files only", "workspace",
                  s->spec.project == NULL ? "a folder of its own" : "a copy of the project",
                  "masked", masked_paths(s), "masked_total", (int)json_array_size(s->masked),
                  "landlock_abi", s->landlock_abi);
    json_t *calls =
        json_pack("{s:b,s:s,s:b,s:i,s:s,s:b}", "enforced", 1, "seccomp",
                  "allow-list, refusals recorded", "no_new_privs", 1, "capabilities", 0,
                  "signals", "sent by the supervisor, inside the session only",
                  "landlock_scopes", s->landlock_abi >= ABI_SCOPES);
    json_t *disposable =
        json_pack("{s:b,s:s,s:b}", "enforced", 1, "how",
                  "killed and removed from outside: descendants of one process, "
                  "which adopts orphans",
                  "own_ids", supervisor->is_root);

    return json_pack("{s:o,s:o,s:o,s:o,s:o}", "network", network, "resources", resources,
                     "filesystem", files, "syscalls", calls, "disposable", disposable);
}

void snp_local_degraded(const struct snp_supervisor *supervisor, json_t *list)
{
    static const char *const always[] = {
        "namespaces: none; names, sizes and owners of the host's files and the existence of "
        "its "
        "processes can be seen",
        "disk: workspace and tmp are measured, not capped",
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(always); i++) {
        (void)json_array_append_new(list, json_string(always[i]));
    }
    if (!supervisor->is_root) {
        (void)json_array_append_new(
            list,
            json_string("user: the code runs as you; filter and Landlock alone keep it from "
                        "your processes and files"));
    }
    if (supervisor->landlock_abi < ABI_SCOPES) {
        (void)json_array_append_new(
            list,
            json_sprintf("landlock: ABI %d has no fence around signals and abstract sockets; "
                         "the filter alone refuses them",
                         supervisor->landlock_abi));
    }
}
