/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_TOOL_FEEDBACK_H
#define SNP_RUN_TOOL_FEEDBACK_H

/*
 * What goes back to the model: JSON objects in which everything that comes from the sandbox is a
 * string, so that no output can pretend to be more; without terminal sequences, without secrets,
 * bounded, and labelled as untrusted.
 */

#include "base/buf.h"
#include "base/json.h"
#include "base/text/text.h"
#include "run/tool/usertool.h"

/*
 * Untrusted bytes as a string: clean, redacted, then cut to max characters (head and tail).
 * New reference, NULL when out of memory.
 */
json_t *snp_feedback_text(const char *bytes, size_t n, size_t max);
/* The same of an answer that the sandbox gave: redacted and otherwise whole. */
json_t *snp_feedback_answer(const char *bytes, size_t n);

/* What a cell has printed. */
struct snp_feedback_output {
    const struct snp_buf *out; /* standard output */
    const struct snp_buf *err;
    struct snp_text_gap out_gap; /* what the daemon left out of them */
    struct snp_text_gap err_gap;
};

/*
 * The text for a cell's result (docs/result.md); *ret_error (may stay NULL): the error in it, the
 * caller's. NULL when out of memory.
 */
char *snp_feedback_cell(const json_t *result,
                        const struct snp_feedback_output *output,
                        json_t **ret_error);

/* The text for a file tool's result, as tools.py wrote it; *ret_is_error: it says an error. */
char *snp_feedback_tool(const char *text, size_t n, bool *ret_is_error);

/*
 * The text for what a tool outside the sandbox has answered; *ret_error (may stay NULL): the error
 * in it, the caller's. NULL when out of memory.
 */
char *snp_feedback_outside(const struct snp_usercall_end *end, json_t **ret_error);

/* {"error": text}: what we say ourselves. */
char *snp_feedback_error(const char *text);

#endif
