/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_EVAL_WORK_H
#define SNP_CLI_EVAL_WORK_H

/*
 * Process all samples of all tasks, in several processes; a later start continues the same file of
 * results.
 */

#include "cli/eval/score.h"
#include "cli/eval/tasks.h"

struct snp_eval_work {
    const struct snp_score *with;
    const struct snp_tasks *tasks;
    size_t per_task;    /* samples requested from the model; 0: those of the file */
    size_t parallel;    /* processes */
    const char *folder; /* holds results.jsonl; created if missing */
    const json_t *head; /* describes the evaluation; the first line of the results */
    bool is_quiet;
};

/*
 * Process the samples without a result. *ret, the caller's: an array of results, {"task", "sample",
 * "outcome", ...}. SNP_E_DENIED: the folder has results of another evaluation, or is in use;
 * SNP_E_PEER: some samples could not be judged, and have no recorded result.
 */
int snp_work_do(const struct snp_eval_work *work, json_t **ret, struct snp_err *err) SNP_NODISCARD;

#endif
