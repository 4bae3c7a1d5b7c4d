/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_BASE64_H
#define SNP_BASE_BASE64_H

#include <stddef.h>

#include "base/buf.h"

/* RFC 4648 with padding, NUL-terminated; the caller frees. NULL when out of memory. */
char *snp_base64(const void *bytes, size_t n);

/* The bytes of what snp_base64 made, *ret_n of them; the caller frees. NULL when out of memory. */
unsigned char *snp_base64_decode(const char *text, size_t n, size_t *ret_n);

/*
 * The bytes of what anybody made, appended. SNP_E_INVALID: it is not digits in fours with at most
 * two "=" at the end; line ends may stand between. SNP_E_LIMIT, SNP_E_NOMEM.
 */
int snp_base64_take(const char *text, size_t n, struct snp_buf *out) SNP_NODISCARD;

#endif
