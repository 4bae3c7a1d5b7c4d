/* SPDX-License-Identifier: Apache-2.0 */
/* Text for models. */
#include "base/text/text.h"

#include <string.h>

#include "base/str.h"
#include "base/text/escape.h"

enum {
    ESC = 0x1b,
    BEL = 0x07,
    SEQUENCE_MAX = 4096, /* bytes of one terminal sequence */
    GROWTH = 8,          /* bytes of output per byte of input, at most */
    SHORT_STRING = 100,  /* characters of a string that is not cut further */
    NUMBER_CHARS = 20,
};

/* The length of the terminal sequence at the front (ESC is the first byte); 1 if it is none. */
static size_t sequence_length(const char *bytes, size_t n)
{
    size_t most = n < SEQUENCE_MAX ? n : SEQUENCE_MAX;
    size_t i = 2;

    if (n < 2) {
        return 1;
    }
    if (bytes[1] == '[') { /* CSI: parameters, then a final byte */
        while (i < most && bytes[i] >= 0x20 && bytes[i] <= 0x3f) {
            i++;
        }
        return i < most && bytes[i] >= 0x40 && bytes[i] <= 0x7e ? i + 1 : 1;
    }
    if (bytes[1] == ']' || bytes[1] == 'P' || bytes[1] == '_' || bytes[1] == '^') {
        for (; i < most; i++) { /* OSC and similar: up to BEL or ESC \ */
            if (bytes[i] == BEL) {
                return i + 1;
            }
            if (bytes[i] == ESC && i + 1 < most && bytes[i + 1] == '\\') {
                return i + 2;
            }
        }
        return 1;
    }
    return bytes[1] >= 0x30 && bytes[1] <= 0x7e ? 2 : 1;
}

int snp_text_clean(struct snp_buf *out, const char *bytes, size_t n)
{
    size_t from = 0;
    size_t i = 0;
    int r = 0;

    while (r == 0 && i < n) {
        size_t skip = bytes[i] == ESC ? sequence_length(bytes + i, n - i) : 1;

        if (bytes[i] != '\r' && skip == 1) {
            i++;
            continue;
        }
        r = snp_escape(out, bytes + from, i - from);
        if (r == 0 && bytes[i] == '\r' && (i + 1 == n || bytes[i + 1] != '\n')) {
            r = snp_buf_add(out, "\n", 1);
        }
        i += skip;
        from = i;
    }
    return r < 0 ? r : snp_escape(out, bytes + from, n - from);
}

/* Drop the parts of lines that were overwritten on a terminal. */
static int lines_settle(struct snp_buf *out, const char *bytes, size_t n)
{
    int r = 0;

    while (n > 0 && r == 0) {
        const char *end = memchr(bytes, '\n', n);
        size_t len = end == NULL ? n : (size_t)(end - bytes);
        size_t shown = len;
        const char *last;

        while (shown > 0 && bytes[shown - 1] == '\r') {
            shown--;
        }
        last = shown == 0 ? NULL : memrchr(bytes, '\r', shown);
        if (last != NULL) {
            r = snp_buf_add(out, last + 1, (size_t)(bytes + shown - (last + 1)));
        } else {
            r = snp_buf_add(out, bytes, shown);
        }
        len += end == NULL ? 0 : 1;
        r = r < 0 || end == NULL ? r : snp_buf_add(out, "\n", 1);
        bytes += len;
        n -= len;
    }
    return r;
}

int snp_text_output(struct snp_buf *out, const char *bytes, size_t n)
{
    snp_autobuf struct snp_buf settled = {0};
    int r;

    if (n == 0 || memchr(bytes, '\r', n) == NULL) {
        return snp_text_clean(out, bytes, n);
    }
    snp_buf_init(&settled, n + 1);
    r = lines_settle(&settled, bytes, n);
    return r < 0 || settled.len == 0 ? r
                                     : snp_text_clean(out, snp_buf_bytes(&settled), settled.len);
}

/* Bytes of the first (of_end false) or last `chars` characters of clean text. */
static size_t bytes_of(const char *text, size_t n, size_t chars, bool of_end)
{
    size_t at = of_end ? n : 0;

    while (chars > 0 && (of_end ? at > 0 : at < n)) {
        if (of_end) {
            at--;
            while (at > 0 && ((unsigned char)text[at] & 0xc0U) == 0x80U) {
                at--;
            }
        } else {
            at++;
            while (at < n && ((unsigned char)text[at] & 0xc0U) == 0x80U) {
                at++;
            }
        }
        chars--;
    }
    return of_end ? n - at : at;
}

/* Keep the first three fifths of max characters before the gap, the rest from the end. */
static int cut(struct snp_buf *out,
               const char *text,
               size_t n,
               const struct snp_text_gap *gap,
               size_t max,
               const char *what)
{
    size_t before = gap->chars == 0 ? n : gap->at;
    size_t head = bytes_of(text, before, max * 3 / 5, false);
    size_t head_chars = head == 0 ? 0 : snp_utf8_count(text, head);
    size_t from = gap->chars == 0 ? head : before; /* where the tail begins */
    size_t tail = bytes_of(text + from, n - from, max - head_chars, true);
    size_t tail_chars = tail == 0 ? 0 : snp_utf8_count(text + n - tail, tail);
    size_t omitted = snp_utf8_count(text, n) + gap->chars - head_chars - tail_chars;
    int r = snp_buf_add(out, text, head);

    r = r < 0 ? r : snp_buf_addf(out, "\n... (%s%zu characters omitted) ...\n", what, omitted);
    return r < 0 ? r : snp_buf_add(out, text + n - tail, tail);
}

int snp_text_cut(struct snp_buf *out, const char *text, size_t n, size_t max, bool *ret_cut)
{
    const struct snp_text_gap none = {0};
    bool is_cut = n > max && snp_utf8_count(text, n) > max;

    if (ret_cut != NULL) {
        *ret_cut = is_cut;
    }
    return is_cut ? cut(out, text, n, &none, max, "") : snp_buf_add(out, text, n);
}

int snp_text_output_cut(struct snp_buf *out,
                        const char *text,
                        size_t n,
                        const struct snp_text_gap *gap,
                        size_t max,
                        bool *ret_cut)
{
    *ret_cut = gap->chars > 0 || (n > max && snp_utf8_count(text, n) > max);
    return *ret_cut ? cut(out, text, n, gap, max, "output truncated: ") : snp_buf_add(out, text, n);
}

int snp_text_add(struct snp_buf *out, const char *bytes, size_t n, size_t max, bool *ret_cut)
{
    snp_autobuf struct snp_buf clean = {0};
    int r;

    snp_buf_init(&clean, n * GROWTH + 1);
    r = snp_text_clean(&clean, bytes, n);
    return r < 0 ? r
                 : snp_text_cut(out, clean.len == 0 ? "" : snp_buf_bytes(&clean), clean.len, max,
                                ret_cut);
}

int snp_text_line(struct snp_buf *out, const char *bytes, size_t n, size_t max)
{
    snp_autobuf struct snp_buf clean = {0};
    size_t len;
    int r;

    snp_buf_init(&clean, n * GROWTH + 1);
    r = snp_text_clean(&clean, bytes, n);
    if (r < 0 || clean.len == 0) {
        return r;
    }
    for (size_t i = 0; i < clean.len; i++) {
        char *c = snp_buf_bytes(&clean) + i;

        *c = *c == '\n' || *c == '\t' ? ' ' : *c;
    }
    len = bytes_of(snp_buf_bytes(&clean), clean.len, max, false);
    r = snp_buf_add(out, snp_buf_bytes(&clean), len);
    return r == 0 && len < clean.len ? snp_buf_adds(out, "...") : r;
}

/* Size of a JSON value: characters of its text, and its longest string. */
struct measure {
    size_t chars;
    json_t *longest; /* borrowed; NULL = no string */
    size_t longest_chars;
};

static void string_measure(json_t *value, struct measure *measure)
{
    const char *text = json_string_value(value);
    size_t n = json_string_length(value);
    size_t chars = snp_utf8_count(text, n) + 2;

    for (size_t i = 0; i < n; i++) {
        chars += text[i] == '"' || text[i] == '\\' || text[i] == '\n' || text[i] == '\t' ? 1 : 0;
    }
    measure->chars += chars;
    if (chars > measure->longest_chars) {
        measure->longest = value;
        measure->longest_chars = chars;
    }
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as what we have made ourselves */
static void json_measure(json_t *value, struct measure *measure)
{
    const char *key;
    json_t *member;
    size_t i;

    if (json_is_string(value)) {
        string_measure(value, measure);
        return;
    }
    measure->chars += json_is_object(value) || json_is_array(value) ? 2 : NUMBER_CHARS;
    json_object_foreach(value, key, member)
    {
        measure->chars += strlen(key) + 4;
        json_measure(member, measure);
    }
    json_array_foreach(value, i, member)
    {
        measure->chars++;
        json_measure(member, measure);
    }
}

int snp_text_bound(json_t *value, size_t max)
{
    struct measure measure = {0};
    int r = 0;

    json_measure(value, &measure);
    while (r == 0 && measure.chars > max && measure.longest_chars > SHORT_STRING) {
        snp_autobuf struct snp_buf cut = {0};
        const char *text = json_string_value(measure.longest);
        size_t n = json_string_length(measure.longest);

        snp_buf_init(&cut, n + SHORT_STRING);
        r = snp_text_cut(&cut, text, n, snp_utf8_count(text, n) / 2, NULL);
        if (r == 0 && json_string_setn_nocheck(measure.longest, snp_buf_bytes(&cut), cut.len) < 0) {
            r = SNP_E_NOMEM;
        }
        measure = (struct measure){0};
        json_measure(value, &measure);
    }
    return r;
}

json_t *snp_text_json(const struct snp_buf *buf)
{
    return snp_json_bytes(buf->len == 0 ? "" : snp_buf_bytes(buf), buf->len);
}
