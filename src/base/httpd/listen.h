/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_HTTPD_LISTEN_H
#define SNP_BASE_HTTPD_LISTEN_H

/* Where the HTTP server listens: an address of this machine, or a unix socket. */

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

struct snp_httpd_address {
    struct sockaddr_storage where;
    socklen_t len;
    bool is_loopback; /* reachable from this machine only; also true for unix sockets */
    bool is_unix;
    char host[64]; /* in URL form: "127.0.0.1", "[::1]"; "localhost" for a unix socket */
};

/*
 * "PORT", "HOST:PORT" with HOST a number, [a number] or localhost, or "unix:PATH". SNP_E_INVALID
 * with the accepted forms.
 */
int snp_httpd_address_parse(const char *text,
                            struct snp_httpd_address *ret,
                            struct snp_err *err) SNP_NODISCARD;

/*
 * Listen there: *ret_fd is non-blocking and the caller's. A unix socket gets mode 0600, and
 * replaces a stale one. *ret_port: the chosen port if 0 was requested. SNP_E_LIMIT: the address is
 * in use.
 */
int snp_httpd_listen(const struct snp_httpd_address *address,
                     int *ret_fd,
                     unsigned *ret_port,
                     struct snp_err *err) SNP_NODISCARD;

#endif
