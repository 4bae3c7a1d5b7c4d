/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_SERVICE_H
#define SNP_MCP_SERVER_SERVICE_H

/* What our MCP server offers: sandboxes, through the daemon. */

#include "mcp/server/sandboxes.h"

/*
 * options->exec is taken over, the rest borrowed. *ret is the caller's: snp_mcp_sandboxes_free().
 * SNP_E_INVALID: options->tools names what does not exist.
 */
int snp_mcp_sandboxes_new(uv_loop_t *loop,
                          const struct snp_mcp_options *options,
                          struct snp_mcp_sandboxes **ret,
                          struct snp_err *err) SNP_NODISCARD;
void snp_mcp_sandboxes_free(struct snp_mcp_sandboxes *service);

/* The server ends: cells that run are interrupted, agents left. ctx: the service. */
void snp_mcp_sandboxes_ending(void *ctx);
/* Whether the daemon has been told everything, and no agent is there. ctx: the service. */
bool snp_mcp_sandboxes_settled(void *ctx);

#endif
