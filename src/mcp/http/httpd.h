/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_HTTP_HTTPD_H
#define SNP_MCP_HTTP_HTTPD_H

/* The HTTP transport (Streamable HTTP): any number of clients, each request decided by itself. */

#include "mcp/http/listen.h"
#include "mcp/peer.h"

struct snp_httpd_options {
    struct snp_httpd_address address;
    const char *token;        /* clients must send it; borrowed; NULL = none is wanted */
    const char *const *names; /* further hosts that clients may name; lower case; borrowed */
    size_t n_names;
    uint64_t patience_ms; /* the longest a client may be slow at anything; 0 = as mcp/caps.h says */
    /* It listens: url is where. May be NULL. */
    void (*listening)(void *ctx, const char *url);
    /* We end: give up what goes on. May be NULL. */
    void (*ending)(void *ctx);
    /* Whether nothing of ours waits to be sent elsewhere. May be NULL. */
    bool (*is_settled)(void *ctx);
    void *ctx;
};

/*
 * Serve until SIGINT, SIGTERM or SIGHUP; then ends in under a second. Runs the hub's loop.
 * SNP_E_LIMIT: somebody else listens there.
 */
int snp_httpd_run(struct snp_mcp_hub *hub,
                  const struct snp_httpd_options *options,
                  struct snp_err *err) SNP_NODISCARD;

#endif
