/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The growing byte buffer.
 *
 * Invariants: start + len <= cap, len <= max, and data is NULL exactly when cap is 0. Room for one
 * byte beyond max may be allocated, for the NUL of snp_buf_cstr. Queued bytes are moved only after
 * at least as many were consumed, or into twice the space, so a byte costs O(1) however long the
 * queue is.
 */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum {
    BUF_FIRST = 256,
    BUF_KEEP = 256 << 10, /* an empty buffer larger than this is freed */
};

void snp_buf_init(struct snp_buf *buf, size_t max)
{
    *buf = (struct snp_buf){.max = max < SIZE_MAX / 4 ? max : SIZE_MAX / 4};
}

void snp_buf_done(struct snp_buf *buf)
{
    free(buf->data);
    snp_buf_init(buf, buf->max);
}

/* Make start + len + extra <= cap. The caller has checked max. */
static int make_room(struct snp_buf *buf, size_t extra)
{
    size_t need = buf->len + extra;
    if (buf->data != NULL && buf->cap - buf->start >= need) {
        return 0;
    }
    if (buf->data != NULL && buf->cap >= need && buf->start >= buf->len) {
        memmove(buf->data, buf->data + buf->start, buf->len);
        buf->start = 0;
        return 0;
    }
    size_t copies = buf->start == 0 ? 1 : 2;
    size_t cap = buf->cap > BUF_FIRST ? buf->cap : BUF_FIRST;
    while (cap < copies * need) {
        cap *= 2;
    }
    if (cap > copies * (buf->max + 1)) {
        cap = copies * (buf->max + 1);
    }
    char *data = malloc(cap);
    if (data == NULL) {
        return SNP_E_NOMEM;
    }
    if (buf->data != NULL && buf->len > 0) {
        memcpy(data, buf->data + buf->start, buf->len);
    }
    free(buf->data);
    buf->data = data;
    buf->start = 0;
    buf->cap = cap;
    return 0;
}

int snp_buf_reserve(struct snp_buf *buf, size_t n, char **ret_space)
{
    if (n > buf->max - buf->len) {
        return SNP_E_LIMIT;
    }
    int r = make_room(buf, n);
    if (r < 0) {
        return r;
    }
    *ret_space = buf->data + buf->start + buf->len;
    return 0;
}

void snp_buf_commit(struct snp_buf *buf, size_t n)
{
    SNP_ASSERT(n <= buf->max - buf->len && n <= buf->cap - buf->start - buf->len);
    buf->len += n;
}

int snp_buf_add(struct snp_buf *buf, const void *bytes, size_t n)
{
    if (n == 0) {
        return 0;
    }
    char *space = NULL;
    int r = snp_buf_reserve(buf, n, &space);
    if (r < 0) {
        return r;
    }
    memcpy(space, bytes, n);
    buf->len += n;
    return 0;
}

int snp_buf_adds(struct snp_buf *buf, const char *text)
{
    return snp_buf_add(buf, text, strlen(text));
}

int snp_buf_addf(struct snp_buf *buf, const char *fmt, ...)
{
    char small[256];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(small, sizeof(small), fmt, args);
    va_end(args);
    if (n < 0) {
        return SNP_E_INTERNAL;
    }
    if ((size_t)n < sizeof(small)) {
        return snp_buf_add(buf, small, (size_t)n);
    }
    if ((size_t)n > buf->max - buf->len) {
        return SNP_E_LIMIT;
    }
    int r = make_room(buf, (size_t)n + 1);
    if (r < 0) {
        return r;
    }
    va_start(args, fmt);
    n = vsnprintf(buf->data + buf->start + buf->len, (size_t)n + 1, fmt, args);
    va_end(args);
    if (n < 0) {
        return SNP_E_INTERNAL;
    }
    buf->len += (size_t)n;
    return 0;
}

void snp_buf_consume(struct snp_buf *buf, size_t n)
{
    SNP_ASSERT(n <= buf->len);
    buf->start += n;
    buf->len -= n;
    if (buf->len > 0) {
        return;
    }
    buf->start = 0;
    if (buf->cap > BUF_KEEP) {
        free(buf->data);
        buf->data = NULL;
        buf->cap = 0;
    }
}

void snp_buf_clear(struct snp_buf *buf)
{
    snp_buf_consume(buf, buf->len);
}

char *snp_buf_cstr(struct snp_buf *buf)
{
    if (make_room(buf, 1) < 0) {
        return NULL;
    }
    char *text = buf->data + buf->start;
    text[buf->len] = '\0';
    return text;
}
