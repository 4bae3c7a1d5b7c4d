/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_HTTPD_PAGES_H
#define SNP_BASE_HTTPD_PAGES_H

/*
 * Pages for the user's browser: GET only, below a secret in their address that is new at each
 * start. Other users of the machine and web pages, under any name they use for us, get none.
 */

#include "base/buf.h"
#include "base/err.h"
#include "base/httpd/listen.h"

struct snp_httpd_pages {
    struct snp_httpd_address address;
    const char *const *names; /* further hosts that browsers may name; lower case; borrowed */
    size_t n_names;
    const char *policy;   /* Content-Security-Policy of the pages; borrowed */
    size_t page_max;      /* bytes of a page */
    const char *page_arg; /* of the page whose address is reported: the part after the secret;
                           * borrowed */
    /* It listens; url is the page. */
    void (*listening)(void *ctx, const char *url);
    /*
     * Make the page `name` ("" or the part after the secret; at most 128 characters, of A-Z a-z 0-9
     * - _ .). Called in another thread, one call at a time. SNP_E_NOT_FOUND: no such page.
     */
    int (*make)(void *ctx, const char *name, struct snp_buf *out, struct snp_err *err);
    void *ctx;
};

/* Serve until SIGINT, SIGTERM or SIGHUP. SNP_E_LIMIT: the address is in use. */
int snp_httpd_pages_run(const struct snp_httpd_pages *pages, struct snp_err *err) SNP_NODISCARD;

#endif
