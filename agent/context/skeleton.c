/* SPDX-License-Identifier: Apache-2.0 */
#include "context/skeleton.h"

#include <string.h>

#include "base/err.h"

enum {
    LINE_MAX_BYTES = 400,
    INDENT = 4,
    DEPTH_MAX = 20,
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/*
 * Append on one line, with runs of blanks as one, at most LINE_MAX_BYTES; characters are not cut.
 */
static int flat(struct snp_buf *out, const char *text, size_t n)
{
    bool is_cut = n > LINE_MAX_BYTES;

    n = is_cut ? LINE_MAX_BYTES : n;
    while (is_cut && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) {
        n--;
    }
    while (n > 0 && is_blank(text[n - 1])) {
        n--;
    }
    for (size_t i = 0; i < n; i++) {
        bool is_run = is_blank(text[i]) && i > 0 && is_blank(text[i - 1]);

        SNP_TRY(is_run ? 0 : snp_buf_add(out, is_blank(text[i]) ? " " : &text[i], 1));
    }
    return is_cut ? snp_buf_adds(out, " ...") : 0;
}

int snp_skeleton_line(const struct snp_chunk *chunk, const char *text, struct snp_buf *out)
{
    return flat(out, text + chunk->signature.start, chunk->signature.end - chunk->signature.start);
}

/* The first line with text, without the marks of comments and strings. */
static int doc_line(const struct snp_chunk *chunk, const char *text, struct snp_buf *out)
{
    const char *at = text + chunk->doc.start;
    const char *end = text + chunk->doc.end;
    const char *line;

    while (at < end && (is_blank(*at) || strchr("\"'/*#!-", *at) != NULL)) {
        at++;
    }
    line = at;
    while (at < end && *at != '\n') {
        at++;
    }
    while (at > line && (is_blank(at[-1]) || strchr("\"'/*", at[-1]) != NULL)) {
        at--;
    }
    if (at == line) {
        return 0;
    }
    SNP_TRY(snp_buf_adds(out, "  # "));
    return flat(out, line, (size_t)(at - line));
}

static unsigned depth_of(const struct snp_chunks *chunks, size_t i, size_t top)
{
    unsigned depth = 0;

    for (; i != top && i != 0 && depth < DEPTH_MAX; i = chunks->items[i].parent) {
        depth++;
    }
    return depth - (top == 0 && depth > 0);
}

int snp_skeleton(const struct snp_chunks *chunks,
                 size_t i,
                 const char *text,
                 bool is_documented,
                 struct snp_buf *out)
{
    const struct snp_chunk *top = &chunks->items[i];

    for (size_t at = top->kind == SNP_CHUNK_FILE ? i + 1 : i;
         at < chunks->n && (at == i || chunks->items[at].all.start < top->all.end); at++) {
        const struct snp_chunk *chunk = &chunks->items[at];

        SNP_TRY(snp_buf_addf(out, "%*s", (int)(depth_of(chunks, at, i) * INDENT), ""));
        SNP_TRY(snp_skeleton_line(chunk, text, out));
        SNP_TRY(is_documented ? doc_line(chunk, text, out) : 0);
        SNP_TRY(snp_buf_adds(out, "\n"));
    }
    return 0;
}
