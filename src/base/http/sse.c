/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parser of event streams, as the HTML standard describes it: lines end with LF, CR or CRLF; a
 * blank line ends an event; an event without data, or cut off by the end of the stream, is none.
 */
#include "base/http/sse.h"

#include <string.h>

#include "base/str.h"

enum {
    BOM_BYTES = 3,
    BOM_PAST = 4,
};

static const char bom[BOM_BYTES] = {'\xef', '\xbb', '\xbf'};

void snp_sse_init(struct snp_sse *sse, size_t event_max, snp_sse_on_event on_event, void *ctx)
{
    *sse = (struct snp_sse){.on_event = on_event, .ctx = ctx};
    snp_buf_init(&sse->line, event_max);
    snp_buf_init(&sse->data, event_max);
}

void snp_sse_done(struct snp_sse *sse)
{
    snp_buf_done(&sse->line);
    snp_buf_done(&sse->data);
}

static int too_long(const struct snp_sse *sse, int r, struct snp_err *err)
{
    return r == SNP_E_LIMIT
               ? snp_fail(err, SNP_E_LIMIT, "an event of the stream is longer than %zu bytes",
                          sse->data.max)
               : snp_fail(err, SNP_E_NOMEM, "out of memory");
}

static int dispatch(struct snp_sse *sse, struct snp_err *err)
{
    struct snp_sse_event event = {
        .event = sse->event[0] != '\0' ? sse->event : "message",
        .data = snp_buf_cstr(&sse->data),
        .data_len = sse->data.len,
        .id = sse->id,
        .retry_ms = sse->retry_ms,
    };
    int r = 0;

    if (event.data == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (sse->has_data) {
        r = sse->on_event(sse->ctx, &event, err);
    }
    snp_buf_clear(&sse->data);
    sse->event[0] = '\0';
    sse->has_data = false;
    return r;
}

/* Store a value if it fits, else keep the old one. */
static void take(char *into, size_t room, const char *value, size_t n)
{
    if (n < room && memchr(value, '\0', n) == NULL) {
        memcpy(into, value, n);
        into[n] = '\0';
    }
}

static bool is_field(const char *line, size_t n, const char *name)
{
    return n == strlen(name) && memcmp(line, name, n) == 0;
}

static int field(struct snp_sse *sse, char *line, size_t n, struct snp_err *err)
{
    const char *colon = memchr(line, ':', n);
    size_t name_len = colon == NULL ? n : (size_t)(colon - line);
    size_t at = colon == NULL ? n : name_len + 1;

    at += at < n && line[at] == ' ' ? 1 : 0;
    const char *value = line + at;
    size_t value_len = n - at;
    if (is_field(line, name_len, "data")) {
        int r = sse->has_data ? snp_buf_add(&sse->data, "\n", 1) : 0;
        sse->has_data = true;
        r = r < 0 ? r : snp_buf_add(&sse->data, value, value_len);
        return r < 0 ? too_long(sse, r, err) : 0;
    }
    if (is_field(line, name_len, "event")) {
        take(sse->event, sizeof(sse->event), value, value_len);
    } else if (is_field(line, name_len, "id")) {
        take(sse->id, sizeof(sse->id), value, value_len);
    } else if (is_field(line, name_len, "retry")) {
        /* digits only; else the old one is kept */
        (void)!snp_parse_u64(value, &sse->retry_ms);
    }
    return 0; /* unknown fields and comments are ignored */
}

static int end_line(struct snp_sse *sse, struct snp_err *err)
{
    char *line = snp_buf_cstr(&sse->line);
    size_t n = sse->line.len;

    if (line == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    int r = n == 0 ? dispatch(sse, err) : field(sse, line, n, err);
    snp_buf_clear(&sse->line);
    return r;
}

/* Skip a byte order mark at the very start, even in pieces. */
static int skip_bom(struct snp_sse *sse, const char **at, const char *end, struct snp_err *err)
{
    while (*at < end && sse->n_bom < BOM_BYTES && **at == bom[sse->n_bom]) {
        sse->n_bom++;
        (*at)++;
    }
    if (*at < end && sse->n_bom < BOM_BYTES) {
        int r = snp_buf_add(&sse->line, bom, sse->n_bom); /* it was not a byte order mark */
        sse->n_bom = BOM_PAST;
        return r < 0 ? too_long(sse, r, err) : 0;
    }
    return 0;
}

int snp_sse_feed(struct snp_sse *sse, const char *bytes, size_t n, struct snp_err *err)
{
    const char *at = bytes;
    const char *end = bytes + n;
    int r = sse->n_bom < BOM_BYTES && n > 0 ? skip_bom(sse, &at, end, err) : 0;

    while (r == 0 && at < end) {
        if (sse->is_after_cr && *at == '\n') {
            sse->is_after_cr = false;
            at++;
            continue;
        }
        sse->is_after_cr = false;
        const char *stop = at;
        while (stop < end && *stop != '\n' && *stop != '\r') {
            stop++;
        }
        r = stop > at ? snp_buf_add(&sse->line, at, (size_t)(stop - at)) : 0;
        if (r < 0) {
            return too_long(sse, r, err);
        }
        if (stop < end) {
            sse->is_after_cr = *stop == '\r';
            r = end_line(sse, err);
            stop++;
        }
        at = stop;
    }
    return r;
}
