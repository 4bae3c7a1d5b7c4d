/* SPDX-License-Identifier: Apache-2.0 */
/* Tools of a user, for runs on the command line. */
#include "cli/run/tools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/spawn.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"
#include "run/tool/feedback.h"

enum {
    FILE_MAX_BYTES = 1 << 20,
    CONTEXT_MAX = 4 << 20,
    QUERY_MAX = 1000, /* bytes of a task that are searched for */
    TOKEN = 4,        /* characters */
};

static const char *const tables[] = {"tools", "mcp_servers"};

/* {"mcpServers": {...}} of a file. */
static int file_add(struct snp_toolbox *box, const char *path, struct snp_err *err)
{
    snp_autofree char *text = NULL;
    snp_autojson json_t *document = NULL;
    const json_t *servers;
    size_t n = 0;
    int r = snp_file_read(path, FILE_MAX_BYTES, &text, &n, err);

    r = r < 0 ? r : snp_json_parse(text, n, &document, err);
    if (r < 0) {
        return snp_err_wrap(err, "--mcp-config %.150s", path);
    }
    servers = json_object_get(document, "mcpServers");
    return json_is_object(servers)
               ? snp_toolbox_add_servers(box, servers, path, err)
               : snp_fail(err, SNP_E_INVALID, "--mcp-config %.150s has no \"mcpServers\"", path);
}

int snp_run_tools_make(uv_loop_t *loop,
                       const struct snp_opts *opts,
                       const struct snp_config *config,
                       struct snp_toolbox **ret,
                       struct snp_err *err)
{
    const json_t *configured =
        snp_opts_flag(opts, "allow-tools", false) ? snp_config_tools(config) : NULL;
    const char *const *files = NULL;
    size_t n = snp_opts_list(opts, "mcp-config", &files);
    int r;

    if (snp_opts_flag(opts, "allow-tools", false) && configured == NULL) {
        return snp_fail(err, SNP_E_INVALID,
                        "--allow-tools: %.200s names no tools and no mcp_servers",
                        snp_config_file(config) == NULL ? "no configuration file was found, it"
                                                        : snp_config_file(config));
    }
    if (configured == NULL && n == 0) {
        return 0;
    }
    r = snp_toolbox_new(loop, ret, err);
    if (r == 0 && configured != NULL) {
        r = snp_toolbox_add_commands(*ret, json_object_get(configured, tables[0]),
                                     snp_config_file(config), err);
        r = r < 0 ? r
                  : snp_toolbox_add_servers(*ret, json_object_get(configured, tables[1]),
                                            snp_config_file(config), err);
    }
    for (size_t i = 0; i < n && r == 0; i++) {
        r = file_add(*ret, files[i], err);
    }
    return r;
}

char *snp_run_tools_unused(const struct snp_opts *opts, const struct snp_config *config)
{
    if (snp_config_tools(config) == NULL || snp_opts_flag(opts, "allow-tools", false)) {
        return NULL;
    }
    return snp_need_format("%s names tools that are not used: they run outside the sandbox, "
                           "with your rights; check them, then use --allow-tools",
                           snp_config_file(config));
}

void snp_run_tools_show(const struct snp_opts *opts, const struct snp_config *config)
{
    static const char *const titles[] = {"User Tools", "MCP Servers"};
    const json_t *configured = snp_config_tools(config);
    bool is_used = snp_opts_flag(opts, "allow-tools", false);

    for (size_t i = 0; i < SNP_ARRAY_LEN(tables); i++) {
        json_t *table = json_object_get(configured, tables[i]);
        const char *between = "";
        const char *name;
        json_t *value;

        if (json_object_size(table) == 0) {
            continue;
        }
        (void)printf("  %s: ", titles[i]);
        json_object_foreach(table, name, value)
        {
            (void)fputs(between, stdout);
            (void)!snp_term_write(stdout, name, strlen(name));
            between = ", ";
        }
        (void)puts(is_used ? "" : " (not used without --allow-tools)");
    }
}

/* Sections of `context query --json`, in the form printed for people. */
static void sections_write(const json_t *answer, struct snp_buf *out)
{
    const json_t *sections = json_object_get(answer, "sections");

    for (size_t i = 0; i < json_array_size(sections); i++) {
        const json_t *one = json_array_get(sections, i);
        const json_t *lines = json_object_get(one, "lines");

        (void)!snp_buf_addf(out, "%s:%lld-%lld  # %s\n%s\n", snp_json_str(one, "file", "?"),
                            (long long)json_integer_value(json_array_get(lines, 0)),
                            (long long)json_integer_value(json_array_get(lines, 1)),
                            snp_json_str(one, "why", ""), snp_json_str(one, "content", ""));
    }
}

char *snp_run_tools_context(const char *project,
                            const char *task,
                            int64_t max_tokens,
                            struct snp_err *err)
{
    size_t n =
        strlen(task) > QUERY_MAX ? QUERY_MAX - snp_utf8_begun(task, QUERY_MAX) : strlen(task);
    snp_autojson json_t *call =
        snp_need(json_pack("{s:s%, s:I}", "query", task, n, "max_tokens", (json_int_t)max_tokens));
    snp_autofree char *text = snp_need(snp_json_text(call));
    /* the program inherits the task as a file, so no list of processes shows it */
    snp_autoclose int fd = memfd_create("snipara-call", 0); /* NOLINT(android-cloexec-*) */
    snp_autofree char *path = snp_need_format("/proc/self/fd/%d", fd);
    snp_autobuf struct snp_buf out = SNP_BUF(CONTEXT_MAX);
    snp_autobuf struct snp_buf shown = SNP_BUF(CONTEXT_MAX);
    snp_autofree char *program = NULL;
    snp_autojson json_t *answer = NULL;
    snp_autojson json_t *ignored = NULL;
    struct snp_usercall_end end = {.most = (size_t)max_tokens * TOKEN * 2};
    int r = snp_own_program("context", &program, err);

    if (r == 0 && (fd < 0 || snp_write_all(fd, text, strlen(text)) < 0)) {
        r = snp_fail_sys(err, errno, "keep a call in memory");
    }
    if (r == 0) {
        const char *const argv[] = {program, "context", "call", "context_query", path, "--dir",
                                    project, "--json",  NULL};

        r = snp_spawn(argv, &out, err);
    }
    SNP_THEN(r, snp_json_parse(snp_buf_bytes(&out), out.len, &answer, err));
    if (r < 0) {
        return NULL;
    }
    err->code = 0;
    sections_write(answer, &shown);
    end.bytes = shown.len == 0 ? "" : snp_buf_bytes(&shown);
    end.n = shown.len;
    return shown.len == 0 ? NULL : snp_feedback_outside(&end, &ignored);
}
