/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_ARCHIVE_SUM_H
#define SNP_DAEMON_ARCHIVE_SUM_H

/*
 * The last frame of an exported file: the SHA-256 of all bytes before it, so that one that was
 * damaged on the way is found. It is no seal: who changes a file on purpose changes it too.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/hasher.h"

enum {
    SNP_ARCHIVE_SUM_LEN = 16 + 11 + 2 * SNP_HASHER_BYTES + 2, /* bytes of the frame */
};

/*
 * The bytes of a file as they pass by; of the last ones it is not known yet whether they are
 * the frame.
 */
struct snp_archive_sum {
    struct snp_hasher *hasher; /* owned */
    unsigned char last[SNP_ARCHIVE_SUM_LEN];
    size_t n_last;
};

int snp_archive_sum_init(struct snp_archive_sum *sum, struct snp_err *err) SNP_NODISCARD;
void snp_archive_sum_done(struct snp_archive_sum *sum);

int snp_archive_sum_add(struct snp_archive_sum *sum,
                        const char *bytes,
                        size_t n,
                        struct snp_err *err) SNP_NODISCARD;

/* Of a file that is written: the frame that ends it. out: room for SNP_ARCHIVE_SUM_LEN. */
int snp_archive_sum_write(struct snp_archive_sum *sum,
                          struct snp_buf *out,
                          struct snp_err *err) SNP_NODISCARD;

/*
 * Of a file that was read to its end. *ret_has: it ends with such a frame. SNP_E_INVALID: what
 * that says is not so.
 */
int snp_archive_sum_check(struct snp_archive_sum *sum,
                          bool *ret_has,
                          struct snp_err *err) SNP_NODISCARD;

#endif
