/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_HTTP_LISTEN_H
#define SNP_MCP_HTTP_LISTEN_H

/* Where the HTTP server listens: an address of this machine, or a unix socket. */

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

struct snp_httpd_address {
    struct sockaddr_storage where;
    socklen_t len;
    bool is_loopback; /* nobody else can reach it; also of unix sockets */
    bool is_unix;
    char host[64]; /* as a URL names it: "127.0.0.1", "[::1]"; "localhost" of a unix socket */
};

/*
 * "PORT", "HOST:PORT" with HOST a number, [a number] or localhost, or "unix:PATH". SNP_E_INVALID
 * says how.
 */
int snp_httpd_address_parse(const char *text,
                            struct snp_httpd_address *ret,
                            struct snp_err *err) SNP_NODISCARD;

/*
 * Listen there: *ret_fd does not block and is the caller's. A unix socket is made with mode 0600,
 * over one that nobody listens on any more. *ret_port: what was chosen where 0 was asked for.
 * SNP_E_LIMIT: somebody else listens.
 */
int snp_httpd_listen(const struct snp_httpd_address *address,
                     int *ret_fd,
                     unsigned *ret_port,
                     struct snp_err *err) SNP_NODISCARD;

#endif
