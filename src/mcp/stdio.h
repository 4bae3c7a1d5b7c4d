/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_STDIO_H
#define SNP_MCP_STDIO_H

/* The stdio transport: one JSON message a line, one client. */

#include "mcp/peer.h"

struct snp_mcp_stdio_options {
    int in_fd; /* borrowed */
    int out_fd;
    /* We end: give up what goes on. May be NULL. */
    void (*ending)(void *ctx);
    /* Whether nothing of ours waits to be sent elsewhere. May be NULL. */
    bool (*is_settled)(void *ctx);
    void *ctx;
};

/*
 * Serve until the client closes its end (calls in flight then get a moment more) or SIGINT, SIGTERM
 * or SIGHUP comes; under a second in all. Runs the hub's loop.
 */
int snp_mcp_stdio_run(struct snp_mcp_hub *hub,
                      const struct snp_mcp_stdio_options *options,
                      struct snp_err *err) SNP_NODISCARD;

#endif
