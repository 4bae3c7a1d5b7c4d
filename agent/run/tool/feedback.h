/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_TOOL_FEEDBACK_H
#define SNP_RUN_TOOL_FEEDBACK_H

/*
 * Feedback for the model: JSON objects in which everything from the sandbox is a string, so that no
 * output can imitate other parts; without terminal sequences and secrets, bounded, and labelled as
 * untrusted.
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
/* The same for a sandbox answer: redacted but not cut. */
json_t *snp_feedback_answer(const char *bytes, size_t n);

/* Output of a cell. */
struct snp_feedback_output {
    const struct snp_buf *out; /* standard output */
    const struct snp_buf *err;
    struct snp_text_gap out_gap; /* parts that the daemon cut */
    struct snp_text_gap err_gap;
};

/*
 * The text for a cell's result (docs/result.md); *ret_error (may stay NULL): the error in it, the
 * caller's. NULL when out of memory.
 */
char *snp_feedback_cell(const json_t *result,
                        const struct snp_feedback_output *output,
                        json_t **ret_error);

/* The text for a file tool's result, written by tools.py; *ret_is_error: it reports an error. */
char *snp_feedback_tool(const char *text, size_t n, bool *ret_is_error);

/*
 * The text for the answer of a tool outside the sandbox; *ret_error (may stay NULL): the error in
 * it, the caller's. NULL when out of memory.
 */
char *snp_feedback_outside(const struct snp_usercall_end *end, json_t **ret_error);

/* {"error": text}: an error message of this program. */
char *snp_feedback_error(const char *text);

#endif
