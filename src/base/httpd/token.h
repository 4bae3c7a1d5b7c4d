/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_HTTPD_TOKEN_H
#define SNP_BASE_HTTPD_TOKEN_H

/* The secret of an HTTP client: a file that only its owner can read. And values derived from it. */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum {
    SNP_HTTPD_TOKEN_MIN = 32,  /* characters */
    SNP_HTTPD_TOKEN_MAX = 256, /* the same */
    SNP_HTTPD_MAC_LEN = 32,    /* hex digits */
};

/*
 * The token in the file at path, created with mode 0600 and a new random token if missing. *ret is
 * the caller's (snp_httpd_token_free). SNP_E_DENIED: others may read the file, or it belongs to
 * another user; SNP_E_INVALID: it has no token.
 */
int snp_httpd_token_load(const char *path, char **ret, struct snp_err *err) SNP_NODISCARD;
/* Wipe and free; may be NULL. */
void snp_httpd_token_free(char *token);

/* Whether n bytes are the token, in constant time. */
bool snp_httpd_token_equal(const char *token, const char *bytes, size_t n);

/* A MAC of text under key: hex digits and a NUL. 0 or -1. */
int snp_httpd_mac(const char *key, const char *text, char out[SNP_HTTPD_MAC_LEN + 1]) SNP_NODISCARD;

#endif
