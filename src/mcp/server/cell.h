/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_CELL_H
#define SNP_MCP_SERVER_CELL_H

/* A cell's output as it arrives, and its result for a model. */

#include "base/text/say.h"
#include "mcp/kept.h"

enum {
    SNP_CELL_STDOUT = 0,
    SNP_CELL_STDERR,
    SNP_CELL_STREAMS,
};

enum {
    SNP_CELL_STREAM_MAX = 4 << 20, /* bytes of a stream held here */
};

struct snp_cell_stream {
    struct snp_buf text;
    bool has_gap;   /* the daemon cut the middle */
    size_t gap_at;  /* bytes of text before it */
    int64_t gap;    /* characters missing there */
    bool has_spill; /* more arrived than is kept here */
    size_t told;    /* bytes shown by earlier answers */
    bool was_cut;   /* at that time */
};

/* Embedded; zero, then snp_cell_init. */
struct snp_mcp_cell {
    struct snp_cell_stream stream[SNP_CELL_STREAMS];
    json_t *displays; /* owned: [{mime: kept number, "text/plain": text}] */
};

void snp_cell_init(struct snp_mcp_cell *cell);
void snp_cell_done(struct snp_mcp_cell *cell);

/* Handle an event of `exec`. Displays go to kept; NULL = dropped. Invalid events are ignored. */
void snp_cell_event(struct snp_mcp_cell *cell,
                    struct snp_mcp_kept *kept,
                    const json_t *head,
                    const char *raw,
                    size_t raw_len);

/* The parts of a result besides the output. */
struct snp_cell_view {
    const json_t *head; /* the daemon's result */
    const char *code;   /* Python, to quote the failing line; NULL = a command */
    size_t code_len;
    const char *session_id; /* the caller's session_id */
    const char *notes;      /* lines to add; "" = none */
};

/*
 * A program's text on separate lines below a label; nothing if it is empty. Lines that look like
 * ours are indented by a blank.
 */
void snp_cell_labelled(struct snp_say *out, const char *label, const json_t *text);

/*
 * The unreported part of the first n bytes of a stream, clean, without the last line end, at most
 * max characters. *ret_cut: part of it, or of earlier reports, is missing.
 */
int snp_cell_news(const struct snp_cell_stream *stream,
                  size_t n,
                  size_t max,
                  struct snp_buf *out,
                  bool *ret_cut) SNP_NODISCARD;

/*
 * The result of tools/call: text, structuredContent, isError. New reference, NULL when out
 * of memory.
 */
json_t *snp_cell_result(const struct snp_mcp_cell *cell,
                        struct snp_mcp_kept *kept,
                        const struct snp_cell_view *view);

/* Append "Error: ...", the first line of a failed cell; nothing if it did not fail. */
void snp_cell_error(struct snp_say *out, const struct snp_cell_view *view);

/*
 * The same as {type, message, line?, traceback?}; reason: for all but exceptions, which have a
 * message. *ret_frames: of the user's code, in the traceback. New reference, NULL when out of
 * memory.
 */
json_t *snp_cell_error_data(const struct snp_cell_view *view,
                            const char *reason,
                            size_t *ret_frames);

#endif
