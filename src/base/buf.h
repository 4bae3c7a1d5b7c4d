/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_BUF_H
#define SNP_BASE_BUF_H

/*
 * A growing byte buffer with a cap that must be declared. Also a queue: bytes are
 * appended at the end and consumed at the front.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/macro.h"

struct snp_buf {
    char *data;   /* owned; data + start is the first unconsumed byte */
    size_t start; /* consumed bytes at the front */
    size_t len;   /* unconsumed bytes */
    size_t cap;   /* allocated bytes */
    size_t max;   /* len never exceeds it */
};

/* max: the most bytes it may ever hold at once. Allocates nothing yet. */
#define SNP_BUF(max_) \
    {                 \
        .max = (max_) \
    }
void snp_buf_init(struct snp_buf *buf, size_t max);
/* Free the memory; the buffer is as after init and may be used again. */
void snp_buf_done(struct snp_buf *buf);

/*
 * First unconsumed byte; valid until the next call that changes the buffer. May be NULL if len
 * is 0.
 */
static inline char *snp_buf_bytes(const struct snp_buf *buf)
{
    return buf->data == NULL ? NULL : buf->data + buf->start;
}

/* Append. SNP_E_LIMIT if max would be passed (nothing is added), SNP_E_NOMEM. */
int snp_buf_add(struct snp_buf *buf, const void *bytes, size_t n) SNP_NODISCARD;
int snp_buf_adds(struct snp_buf *buf, const char *text) SNP_NODISCARD;
int snp_buf_addf(struct snp_buf *buf, const char *fmt, ...) SNP_PRINTF(2, 3) SNP_NODISCARD;

/*
 * Make room for n more bytes at the end and set ret_space to it; then call snp_buf_commit with the
 * number of bytes written, at most n.
 */
int snp_buf_reserve(struct snp_buf *buf, size_t n, char **ret_space) SNP_NODISCARD;
void snp_buf_commit(struct snp_buf *buf, size_t n);

/* Drop n bytes (at most len) from the front. */
void snp_buf_consume(struct snp_buf *buf, size_t n);
void snp_buf_clear(struct snp_buf *buf);

/* NUL-terminate (not counted in len) and return the text; NULL when out of memory. Borrowed. */
char *snp_buf_cstr(struct snp_buf *buf);

#define snp_autobuf snp_cleanup(snp_buf_done)

#endif
