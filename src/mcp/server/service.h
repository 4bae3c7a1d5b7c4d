/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_SERVICE_H
#define SNP_MCP_SERVER_SERVICE_H

/* The service of our MCP server: sandboxes, through the daemon. */

#include "mcp/server/sandboxes.h"

/*
 * options->exec is consumed, the rest borrowed. *ret is the caller's: snp_mcp_sandboxes_free().
 * SNP_E_INVALID: options->tools has an unknown name.
 */
int snp_mcp_sandboxes_new(uv_loop_t *loop,
                          const struct snp_mcp_options *options,
                          struct snp_mcp_sandboxes **ret,
                          struct snp_err *err) SNP_NODISCARD;
void snp_mcp_sandboxes_free(struct snp_mcp_sandboxes *service);

/* The server exits: interrupt running cells, detach agents. ctx: the service. */
void snp_mcp_sandboxes_ending(void *ctx);
/* Whether all requests reached the daemon, and no agent is left. ctx: the service. */
bool snp_mcp_sandboxes_settled(void *ctx);

#endif
