/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_HTTP_URL_H
#define SNP_BASE_HTTP_URL_H

/* Check URLs before anything secret is sent to them. */

#include <stdbool.h>

#include "base/err.h"

enum {
    SNP_HTTP_URL_MAX = 4096,
    /* flag: allow http to other machines too, without encryption */
    SNP_HTTP_URL_PLAIN = 1,
};

/*
 * SNP_E_INVALID with the reason: no http or https URL with a host; a user or password in it (which
 * end up in logs); control characters, blanks or a fragment; http to another machine without the
 * flag.
 */
int snp_http_url_check(const char *url, unsigned flags, struct snp_err *err) SNP_NODISCARD;

#endif
