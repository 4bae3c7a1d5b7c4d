/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_ARCHIVE_SUM_H
#define SNP_DAEMON_ARCHIVE_SUM_H

/*
 * The last frame of an exported file: the SHA-256 of all bytes before it, to detect damage. It is
 * no protection against deliberate changes: their author can change the sum, too.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/hasher.h"

enum {
    SNP_ARCHIVE_SUM_LEN = 16 + 11 + 2 * SNP_HASHER_BYTES + 2, /* bytes of the frame */
};

/* Hash a file in a stream; the last bytes are held back, because they may be the frame. */
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

/* For a file being written: make its last frame. out: room for SNP_ARCHIVE_SUM_LEN. */
int snp_archive_sum_write(struct snp_archive_sum *sum,
                          struct snp_buf *out,
                          struct snp_err *err) SNP_NODISCARD;

/*
 * For a file read to its end: check the sum. *ret_has: the file ends with a sum. SNP_E_INVALID: the
 * sum does not match.
 */
int snp_archive_sum_check(struct snp_archive_sum *sum,
                          bool *ret_has,
                          struct snp_err *err) SNP_NODISCARD;

#endif
