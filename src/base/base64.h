/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_BASE64_H
#define SNP_BASE_BASE64_H

#include <stddef.h>

#include "base/buf.h"

/* RFC 4648 with padding, NUL-terminated; the caller frees. NULL when out of memory. */
char *snp_base64(const void *bytes, size_t n);

/* Decode output of snp_base64 to *ret_n bytes; the caller frees. NULL when out of memory. */
unsigned char *snp_base64_decode(const char *text, size_t n, size_t *ret_n);

/*
 * Decode base64 from any source and append the bytes. Line ends are allowed. SNP_E_INVALID: not
 * digits in groups of four with at most two "=" at the end. SNP_E_LIMIT, SNP_E_NOMEM.
 */
int snp_base64_take(const char *text, size_t n, struct snp_buf *out) SNP_NODISCARD;

#endif
