/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_CODE_PROMPT_H
#define SNP_RUN_CODE_PROMPT_H

/*
 * The record of a prompt that was run as Python: like a run whose model called execute_code once.
 * So `logs`, `runs`, `visualize` and `replay` support it; `resume` has nothing to do.
 */

#include "run/spec.h"
#include "run/tool/feedback.h"
#include "trajectory/reader.h"

struct snp_run_plain;

/*
 * Begin it, before the code runs. key: of SNP_CHAIN_KEY bytes. *ret is the caller's:
 * snp_run_plain_free().
 */
int snp_run_plain_new(const struct snp_run_spec *spec,
                      const unsigned char *key,
                      struct snp_run_plain **ret,
                      struct snp_err *err) SNP_NODISCARD;

/* End it: result as in docs/result.md, with its output. */
int snp_run_plain_end(struct snp_run_plain *plain,
                      const json_t *result,
                      const struct snp_feedback_output *output,
                      struct snp_err *err) SNP_NODISCARD;

/* Delete the record: the prompt was not Python, and nothing ran. */
void snp_run_plain_forget(struct snp_run_plain *plain);

const char *snp_run_plain_id(const struct snp_run_plain *plain);
void snp_run_plain_free(struct snp_run_plain *plain);

/* Whether the head of a record is one of these. */
bool snp_run_is_plain(const json_t *head);
/* Whether `resume` can continue a run: it has no end or a failed one, and is not such a record. */
bool snp_run_is_open(const struct snp_trajectory_info *info);

#endif
