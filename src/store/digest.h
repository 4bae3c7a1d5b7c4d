/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_DIGEST_H
#define SNP_STORE_DIGEST_H

/* SHA-256 of what comes in pieces. */

#include <stddef.h>

#include "base/err.h"

struct snp_digest;

enum {
    SNP_DIGEST_HEX = 64, /* digits */
};

/* The caller frees with snp_digest_free; NULL when out of memory. */
struct snp_digest *snp_digest_new(void);
void snp_digest_free(struct snp_digest *digest);

int snp_digest_add(struct snp_digest *digest, const void *bytes, size_t n, struct snp_err *err)
    SNP_NODISCARD;

/* Of all that was added, in lower case, with a NUL; nothing can be added after. */
int snp_digest_end(struct snp_digest *digest,
                   char hex[SNP_DIGEST_HEX + 1],
                   struct snp_err *err) SNP_NODISCARD;

#endif
