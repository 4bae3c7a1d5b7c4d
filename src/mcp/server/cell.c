/* SPDX-License-Identifier: Apache-2.0 */
/* A cell's output and displays from events. */
#include "mcp/server/cell.h"

#include <string.h>

#include "base/str.h"
#include "base/text/text.h"

enum {
    DISPLAYS_MAX = 32,
    DISPLAY_TEXT = 2000, /* characters */
    DISPLAY_BYTES = 128 << 10,
    BUILD_MAX = 8 * DISPLAY_BYTES,
};

static const char *const stream_names[] = {"stdout", "stderr"};

void snp_cell_init(struct snp_mcp_cell *cell)
{
    *cell = (struct snp_mcp_cell){.displays = json_array()};
    for (int i = 0; i < SNP_CELL_STREAMS; i++) {
        snp_buf_init(&cell->stream[i].text, SNP_CELL_STREAM_MAX);
    }
}

void snp_cell_done(struct snp_mcp_cell *cell)
{
    for (int i = 0; i < SNP_CELL_STREAMS; i++) {
        snp_buf_done(&cell->stream[i].text);
    }
    json_decref(cell->displays);
    *cell = (struct snp_mcp_cell){0};
}

int snp_cell_news(
    const struct snp_cell_stream *stream, size_t n, size_t max, struct snp_buf *out, bool *ret_cut)
{
    const char *bytes = stream->text.len == 0 ? "" : snp_buf_bytes(&stream->text);
    bool has_gap = stream->has_gap && stream->gap_at >= stream->told && stream->gap_at <= n;
    size_t first = has_gap ? stream->gap_at : n;
    struct snp_text_gap gap = {.chars = has_gap ? (size_t)stream->gap : 0};
    snp_autobuf struct snp_buf clean = SNP_BUF((size_t)SNP_CELL_STREAM_MAX * 8);
    int r;

    r = snp_text_output(&clean, bytes + stream->told, first - stream->told);
    gap.at = clean.len;
    r = r < 0 ? r : snp_text_output(&clean, bytes + first, n - first);
    while (clean.len > (has_gap ? gap.at : 0) && snp_buf_bytes(&clean)[clean.len - 1] == '\n') {
        clean.len--;
    }
    r = r < 0 ? r
              : snp_text_output_cut(out, clean.len == 0 ? "" : snp_buf_bytes(&clean), clean.len,
                                    &gap, max, ret_cut);
    *ret_cut = *ret_cut || stream->was_cut || stream->has_spill;
    return r;
}

static void on_output(struct snp_cell_stream *stream, const char *raw, size_t n)
{
    size_t room = SNP_CELL_STREAM_MAX - stream->text.len;

    stream->has_spill = stream->has_spill || n > room;
    if (snp_buf_add(&stream->text, raw, n < room ? n : room) < 0) {
        stream->has_spill = true;
    }
}

/* One part of a display; new reference. Parts other than plain text are kept for later reading. */
static json_t *part_json(struct snp_mcp_kept *kept, const char *mime, const char *bytes, size_t n)
{
    snp_autobuf struct snp_buf text = {0};
    uint64_t number;

    if (strcmp(mime, "text/plain") == 0) {
        snp_buf_init(&text, BUILD_MAX);
        return snp_text_add(&text, bytes, n < DISPLAY_BYTES ? n : DISPLAY_BYTES, DISPLAY_TEXT,
                            NULL) < 0
                   ? NULL
                   : json_pack("{s:o}", "text", snp_text_json(&text));
    }
    number = snp_mcp_kept_add(kept, mime, bytes, n);
    return number == 0 ? NULL
                       : json_pack("{s:o, s:o, s:I}", "path",
                                   json_sprintf("kept:%llu", (unsigned long long)number), "mime",
                                   snp_json_bytes(mime, strlen(mime)), "bytes", (json_int_t)n);
}

static void on_display(struct snp_mcp_cell *cell,
                       struct snp_mcp_kept *kept,
                       const json_t *head,
                       const char *raw,
                       size_t raw_len)
{
    const json_t *parts = json_object_get(head, "mime");
    size_t n = json_array_size(parts);
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        const json_t *part = json_array_get(parts, i);
        const char *mime = json_string_value(json_array_get(part, 0));
        json_int_t len = json_integer_value(json_array_get(part, 1));
        json_t *shown;

        if (mime == NULL || len < 0 || (uint64_t)len > raw_len - at ||
            json_array_size(cell->displays) >= DISPLAYS_MAX) {
            return;
        }
        /* An image is more useful than the name of its object. */
        shown = n > 1 && strcmp(mime, "text/html") == 0
                    ? NULL
                    : part_json(kept, mime, raw + at, (size_t)len);
        if (shown != NULL) {
            (void)json_array_append_new(cell->displays, shown);
        }
        at += (size_t)len;
    }
}

void snp_cell_event(struct snp_mcp_cell *cell,
                    struct snp_mcp_kept *kept,
                    const json_t *head,
                    const char *raw,
                    size_t raw_len)
{
    const char *event = snp_json_str(head, "event", "");
    const char *name = snp_json_str(head, "stream", event);

    for (int i = 0; i < SNP_CELL_STREAMS; i++) {
        struct snp_cell_stream *stream = &cell->stream[i];

        if (strcmp(name, stream_names[i]) != 0) {
            continue;
        }
        if (strcmp(event, "gap") == 0) {
            stream->has_gap = true;
            stream->gap_at = stream->text.len;
            stream->gap = snp_json_int(head, "omitted_chars", 0);
        } else {
            on_output(stream, raw, raw_len);
        }
    }
    if (kept != NULL && strcmp(event, "display") == 0) {
        on_display(cell, kept, head, raw, raw_len);
    }
}
