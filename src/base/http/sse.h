/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_HTTP_SSE_H
#define SNP_BASE_HTTP_SSE_H

/* Server-sent events (text/event-stream), parsed as they arrive. */

#include "base/buf.h"
#include "base/err.h"

/* Borrowed until the callback returns. Texts are NUL-terminated and unchecked: maybe not UTF-8. */
struct snp_sse_event {
    const char *event; /* "message" by default */
    const char *data;  /* lines joined by newlines */
    size_t data_len;
    const char *id;    /* the last one, also from earlier events; "" = none */
    uint64_t retry_ms; /* the last one; 0 = none */
};

/* Below 0 ends the parsing; *err is passed on. Must not free the parser. */
typedef int (*snp_sse_on_event)(void *ctx, const struct snp_sse_event *event, struct snp_err *err);

struct snp_sse {
    snp_sse_on_event on_event;
    void *ctx;
    struct snp_buf line;
    struct snp_buf data;
    char event[64];
    char id[256];      /* the last one, with or without data; "" = none */
    uint64_t retry_ms; /* the same; 0 = none */
    bool has_data;
    bool is_after_cr;
    size_t n_bom; /* bytes of a byte order mark seen; above 3: past the start */
};

/* event_max: maximum bytes of one event or line. */
void snp_sse_init(struct snp_sse *sse, size_t event_max, snp_sse_on_event on_event, void *ctx);
void snp_sse_done(struct snp_sse *sse);

/* Parse more bytes of the stream. SNP_E_LIMIT: an event or line is too long. */
int snp_sse_feed(struct snp_sse *sse, const char *bytes, size_t n, struct snp_err *err)
    SNP_NODISCARD;

#endif
