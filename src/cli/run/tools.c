/* SPDX-License-Identifier: Apache-2.0 */
/* Tools of a user, for runs on the command line. */
#include "cli/run/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/need.h"
#include "cli/show/term.h"

enum {
    FILE_MAX_BYTES = 1 << 20
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
               : snp_fail(err, SNP_E_INVALID, "--mcp-config %.150s has no \"mcpServers\"",
                          path);
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
