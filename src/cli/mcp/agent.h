/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_MCP_AGENT_H
#define SNP_CLI_MCP_AGENT_H

/* The command that runs agents for mcp-serve, with the settings of mcp-serve itself. */

#include "cli/cli.h"

enum {
    SNP_MCP_AGENT_ARGS = 16,
    SNP_MCP_AGENT_WALL_S = 600, /* the longest run, not configurable */
};

/* Zero; then snp_mcp_agent_make. */
struct snp_mcp_agent {
    const char *argv[SNP_MCP_AGENT_ARGS]; /* NULL-terminated, borrowed from here and from options */
    const char **env;                     /* owned array, NULL-terminated */
    char *program;                        /* owned */
    char *timeout;                        /* owned */
    char **set;                           /* owned, with its texts: variables that options became */
    size_t n_set;
};

/*
 * Always call snp_mcp_agent_done. project: NULL = none; everything is borrowed until then. If the
 * command is not found, argv stays empty and the server starts no agents.
 */
int snp_mcp_agent_make(struct snp_mcp_agent *agent,
                       const struct snp_opts *opts,
                       const struct snp_config *config,
                       const char *project,
                       struct snp_err *err) SNP_NODISCARD;
void snp_mcp_agent_done(struct snp_mcp_agent *agent);

#endif
