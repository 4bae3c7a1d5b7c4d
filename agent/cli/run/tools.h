/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_TOOLS_H
#define SNP_CLI_RUN_TOOLS_H

/*
 * A user's tools for runs on the command line. They run outside the sandbox, so they are used only
 * if an option of this command allows it: a configuration file in a folder is not enough.
 */

#include <uv.h>

#include "base/cli/cli.h"
#include "usertool/toolbox.h"

#define SNP_RUN_TOOLS_OPTS                                                                        \
    {"allow-tools",                                                                               \
     0,                                                                                           \
     SNP_OPT_FLAG,                                                                                \
     NULL,                                                                                        \
     "let the model use the tools and MCP servers of the configuration file; they run "           \
     "outside the sandbox, with your rights",                                                     \
     0},                                                                                          \
    {                                                                                             \
        "mcp-config", 0, SNP_OPT_LIST, "FILE",                                                    \
            "let the model use the MCP servers in this file, which has the format of .mcp.json; " \
            "may be repeated",                                                                    \
            0                                                                                     \
    }

/*
 * Make a toolbox of the tools that the options allow; *ret NULL = none. Servers begin to open. *ret
 * is the caller's, also on failure if it is not NULL: snp_toolbox_close().
 */
int snp_run_tools_make(uv_loop_t *loop,
                       const struct snp_opts *opts,
                       const struct snp_config *config,
                       struct snp_toolbox **ret,
                       struct snp_err *err) SNP_NODISCARD;

/* A note on configured tools that are not used. The caller frees; NULL = none. */
char *snp_run_tools_unused(const struct snp_opts *opts, const struct snp_config *config);

/* The names of the tools for --show-config: "  User Tools: lookup, ...". */
void snp_run_tools_show(const struct snp_opts *opts, const struct snp_config *config);

/*
 * The context of a task from a project's index, as text for a model; the caller frees. NULL: none;
 * *err has the reason, or code 0.
 */
char *snp_run_tools_context(const char *project,
                            const char *task,
                            int64_t max_tokens,
                            struct snp_err *err);

#endif
