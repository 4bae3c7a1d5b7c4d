/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_FILES_DIGEST_H
#define SNP_GUEST_FILES_DIGEST_H

/* XXH3-128 over pieces: the key of an item of a bundle (docs/wire.md). Not cryptographic. */

#include <stddef.h>

enum {
    SNP_DIGEST_LEN = 32 /* hexadecimal digits */
};

struct snp_digest;

/* NULL when out of memory. */
struct snp_digest *snp_digest_new(void);
void snp_digest_add(struct snp_digest *digest, const void *bytes, size_t len);
/* The digits and a NUL; digest is freed. */
void snp_digest_end(struct snp_digest *digest, char ret_text[SNP_DIGEST_LEN + 1]);

#endif
