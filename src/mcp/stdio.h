/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_STDIO_H
#define SNP_MCP_STDIO_H

/* The stdio transport: one JSON message per line, one client. */

#include "mcp/peer.h"

struct snp_mcp_stdio_options {
    int in_fd; /* borrowed */
    int out_fd;
    /* We exit: cancel calls. May be NULL. */
    void (*ending)(void *ctx);
    /* Whether no message of ours is pending elsewhere. May be NULL. */
    bool (*is_settled)(void *ctx);
    void *ctx;
};

/*
 * Serve until the client closes its end (calls in flight then get a short grace period) or SIGINT,
 * SIGTERM or SIGHUP arrives; exits in under a second. Runs the hub's loop.
 */
int snp_mcp_stdio_run(struct snp_mcp_hub *hub,
                      const struct snp_mcp_stdio_options *options,
                      struct snp_err *err) SNP_NODISCARD;

#endif
