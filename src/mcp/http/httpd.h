/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_HTTP_HTTPD_H
#define SNP_MCP_HTTP_HTTPD_H

/*
 * The HTTP transport (Streamable HTTP): any number of clients, each request handled independently.
 */

#include "base/httpd/listen.h"
#include "mcp/peer.h"

struct snp_httpd_options {
    struct snp_httpd_address address;
    const char *token;        /* required from clients; borrowed; NULL = not required */
    const char *const *names; /* further hosts that clients may name; lower case; borrowed */
    size_t n_names;
    uint64_t patience_ms; /* the longest a client may be slow; 0 = see mcp/caps.h */
    /* It listens at url. May be NULL. */
    void (*listening)(void *ctx, const char *url);
    /* We exit: cancel calls. May be NULL. */
    void (*ending)(void *ctx);
    /* Whether no message of ours is pending elsewhere. May be NULL. */
    bool (*is_settled)(void *ctx);
    void *ctx;
};

/*
 * Serve until SIGINT, SIGTERM or SIGHUP; then exits in under a second. Runs the hub's loop.
 * SNP_E_LIMIT: the address is in use.
 */
int snp_httpd_run(struct snp_mcp_hub *hub,
                  const struct snp_httpd_options *options,
                  struct snp_err *err) SNP_NODISCARD;

#endif
