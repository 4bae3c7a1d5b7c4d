/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_HASHER_H
#define SNP_STORE_HASHER_H

/*
 * SHA-256 of one content after the other, in parallel to other work on the bytes: large pieces are
 * hashed by a thread, which is started with the first of them. One user.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SNP_HASHER_BYTES = 32,
};

struct snp_hasher;

/* *ret is freed by snp_hasher_free. */
int snp_hasher_new(struct snp_hasher **ret, struct snp_err *err) SNP_NODISCARD;
/* Waits for the added pieces. NULL is allowed. */
void snp_hasher_free(struct snp_hasher *hasher);

/*
 * Hash further large pieces in a thread; their bytes must stay unchanged until snp_hasher_wait() or
 * snp_hasher_end(). Without it the caller may reuse them at once.
 */
void snp_hasher_use_thread(struct snp_hasher *hasher);

/* Begin a new content; waits for earlier pieces. */
int snp_hasher_begin(struct snp_hasher *hasher, struct snp_err *err) SNP_NODISCARD;
int snp_hasher_add(struct snp_hasher *hasher, const void *bytes, size_t n, struct snp_err *err)
    SNP_NODISCARD;
int snp_hasher_end(struct snp_hasher *hasher,
                   uint8_t ret[SNP_HASHER_BYTES],
                   struct snp_err *err) SNP_NODISCARD;

/* The number of pieces added so far, for snp_hasher_wait. */
uint64_t snp_hasher_mark(const struct snp_hasher *hasher);
/* Wait until the first `mark` pieces are hashed. */
void snp_hasher_wait(struct snp_hasher *hasher, uint64_t mark);

#endif
