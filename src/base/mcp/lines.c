/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines. A returned line stays in the buffer until the next call. When bytes are added the buffer
 * holds at most one unfinished line, so only the new bytes are searched.
 */
#include "base/mcp/lines.h"

#include <string.h>

#include "base/err.h"

enum {
    SLACK = 1 << 20, /* room for one read */
};

void snp_mcp_lines_init(struct snp_mcp_lines *lines, size_t max)
{
    *lines = (struct snp_mcp_lines){.max = max};
    snp_buf_init(&lines->buf, max + SLACK);
}

void snp_mcp_lines_done(struct snp_mcp_lines *lines)
{
    snp_buf_done(&lines->buf);
}

static void taken_drop(struct snp_mcp_lines *lines)
{
    snp_buf_consume(&lines->buf, lines->taken);
    lines->taken = 0;
}

int snp_mcp_lines_add(struct snp_mcp_lines *lines, const char *bytes, size_t n)
{
    const char *end = memchr(bytes, '\n', n);
    size_t first = end == NULL ? n : (size_t)(end - bytes) + 1; /* bytes of the begun line */
    bool is_long;
    int r;

    taken_drop(lines);
    is_long = !lines->is_skipping && lines->buf.len + first > lines->max;
    if (is_long || lines->is_skipping) {
        snp_buf_clear(&lines->buf);
        lines->is_skipping = end == NULL;
        bytes += first;
        n -= first;
    }
    r = snp_buf_add(&lines->buf, bytes, n);
    return r < 0 ? r : is_long ? 1 : 0;
}

bool snp_mcp_lines_next(struct snp_mcp_lines *lines, const char **ret_text, size_t *ret_n)
{
    const char *text;
    const char *end;
    size_t n;

    taken_drop(lines);
    text = snp_buf_bytes(&lines->buf);
    end = lines->buf.len == 0 ? NULL : memchr(text, '\n', lines->buf.len);
    if (end == NULL) {
        return false;
    }
    n = (size_t)(end - text);
    lines->taken = n + 1;
    *ret_text = text;
    *ret_n = n > 0 && text[n - 1] == '\r' ? n - 1 : n;
    return true;
}
