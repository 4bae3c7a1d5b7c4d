/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_MCP_SERVE_H
#define SNP_CLI_MCP_SERVE_H

/*
 * Shared code of the two programs of `mcp-serve`: snipara-sandbox, which serves standard input and
 * output, and mcp-http, which it becomes for --http. Only mcp-http loads the HTTP library, so that
 * nothing else starts more slowly.
 */

#include "cli/cli.h"
#include "mcp/server/service.h"

#define SNP_MCP_ROW(name_, short_, type_, metavar_, help_, key_) \
    {                                                            \
        name_, short_, type_, metavar_, help_, key_              \
    }
/* Options of a server for any transport: rows of all verbs that configure one. */
#define SNP_MCP_OPT_SERVED                                                                       \
    SNP_MCP_ROW("tools", 0, SNP_OPT_STRING, "LIST",                                              \
                "tools to offer: all (default; includes agent if a model is configured), core, " \
                "or toolsets and names, separated by commas",                                    \
                0),                                                                              \
        SNP_MCP_ROW("project", 0, SNP_OPT_STRING, "DIR",                                         \
                    "folder shown at /workspace (default: the working directory)", 0),           \
        SNP_MCP_ROW("no-project", 0, SNP_OPT_FLAG, NULL, "show no folder at /workspace", 0),     \
        SNP_MCP_ROW("env", 'e', SNP_OPT_STRING, "TIER",                                          \
                    "tier: native, docker, local (weaker), or auto (default): the "              \
                    "strongest available",                                                       \
                    SNP_KEY_ENVIRONMENT),                                                        \
        SNP_MCP_ROW("template", 0, SNP_OPT_STRING, "NAME",                                       \
                    "template of new sessions: base, data (numpy, pandas), plot (matplotlib), "  \
                    "or one that you added",                                                     \
                    SNP_KEY_TEMPLATE),                                                           \
        SNP_CLI_OPT_LIMITS,                                                                      \
        SNP_MCP_ROW("allow-degraded", 0, SNP_OPT_FLAG, NULL,                                     \
                    "run even if this host lacks a control; results name it", 0),                \
        SNP_MCP_ROW("require-exact", 0, SNP_OPT_BOOL, NULL,                                      \
                    "refuse if a control or limit is missing or only approximate here",          \
                    SNP_KEY_REQUIRE_EXACT)

/* Run one transport until it ends. ctx: as given to snp_mcp_serve. */
typedef int (*snp_mcp_transport)(struct snp_mcp_sandboxes *service, void *ctx, struct snp_err *err);

/* The common part of the verb: configuration, project, service, transport, shutdown. */
int snp_mcp_serve(struct snp_cli *cli,
                  const struct snp_opts *opts,
                  snp_mcp_transport transport,
                  void *ctx,
                  struct snp_err *err) SNP_NODISCARD;

/* The verb in mcp-http. */
int snp_mcp_http_verb(struct snp_cli *cli, const struct snp_opts *opts);

#endif
