/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SESSION_RESULT_H
#define SNP_BASE_CLI_SESSION_RESULT_H

/*
 * A cell's output and result, for people and as JSON (docs/result.md). Everything from the sandbox
 * is hostile text and printed through term.h only.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum snp_stream {
    SNP_STREAM_STDOUT = 0,
    SNP_STREAM_STDERR,
    SNP_STREAM_N,
};

/* Embedded; fields are private to result.c, except the first three. */
struct snp_view {
    bool is_live;            /* print output as it arrives */
    bool is_quiet;           /* false after snp_view_init; print only how the cell failed or
                              * ended */
    const json_t *argv;      /* borrowed; a command that a person typed, else NULL */
    struct snp_buf said;     /* the beginning of its standard error */
    const char *display_dir; /* borrowed; NULL = displays are not saved */
    struct snp_buf text[SNP_STREAM_N];
    bool has_gap[SNP_STREAM_N];
    size_t gap_at[SNP_STREAM_N]; /* bytes of text before the gap */
    uint64_t gap_chars[SNP_STREAM_N];
    struct snp_buf pending[SNP_STREAM_N]; /* incomplete UTF-8 character at a chunk's end */
    bool at_line_start;                   /* of our standard output */
    json_t *displays;                     /* owned, as in the result */
};

void snp_view_init(struct snp_view *view, bool is_live, const char *display_dir);
void snp_view_done(struct snp_view *view);

/* Handle an event of `exec`. SNP_E_PEER: not an event; SNP_E_LIMIT: too much output. */
int snp_view_event(void *ctx,
                   const json_t *head,
                   const char *raw,
                   size_t raw_len,
                   struct snp_err *err) SNP_NODISCARD;

/*
 * The whole result object: head with stdout, stderr and displays from the events, members
 * in the order of docs/result.md. New reference.
 */
json_t *snp_view_result(const struct snp_view *view, json_t *head);

/*
 * Print the part after the output: value, error, and a line for each notable member. Saves
 * displays. Failures to save are reported on stderr and return -1.
 */
int snp_view_finish(struct snp_view *view, json_t *head);

/* Save displays into display_dir, and list them on stderr. */
int snp_view_save(const struct snp_view *view,
                  const json_t *head,
                  struct snp_err *err) SNP_NODISCARD;

/* The number of a signal named "TERM", "SIGTERM" or "15"; 0 = none such. */
int snp_signal_number(const char *name);

enum snp_exit_of {
    SNP_EXIT_OF_PYTHON,
    SNP_EXIT_OF_SHELL_LINES, /* also for failed shell lines in a finished cell */
    SNP_EXIT_OF_COMMAND,
};

/*
 * Exit code for a result: of SystemExit or of a command (128 + n for a signal, 124 for a timeout),
 * else 0 or 1.
 */
int snp_result_exit(const json_t *head, enum snp_exit_of of);

#endif
