/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_HTTP_HOSTS_H
#define SNP_BASE_CLI_HTTP_HOSTS_H

/* --allow-host of HTTP servers. */

#include "base/cli/opt.h"
#include "base/err.h"

enum {
    SNP_HTTP_HOSTS_MAX = 16,
};

struct snp_http_hosts {
    char *names[SNP_HTTP_HOSTS_MAX]; /* owned; lower case, without scheme and port */
    size_t n;
};

/* Zero names before; call snp_http_hosts_done even on failure. SNP_E_INVALID, SNP_E_LIMIT. */
int snp_http_hosts_read(const struct snp_opts *opts,
                        struct snp_http_hosts *ret,
                        struct snp_err *err) SNP_NODISCARD;

void snp_http_hosts_done(struct snp_http_hosts *hosts);

#endif
