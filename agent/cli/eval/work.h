/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_EVAL_WORK_H
#define SNP_CLI_EVAL_WORK_H

/*
 * All samples of all tasks, by a few processes at once; results in a file that a later start goes
 * on with.
 */

#include "cli/eval/score.h"
#include "cli/eval/tasks.h"

struct snp_eval_work {
    const struct snp_score *with;
    const struct snp_tasks *tasks;
    size_t per_task;    /* samples that the model is asked for; 0: those of the file */
    size_t parallel;    /* processes */
    const char *folder; /* results.jsonl is there, and made if it is not */
    const json_t *head; /* what the results are of: its first line */
    bool is_quiet;
};

/*
 * Do what has no result yet. *ret, the caller's: an array of results, {"task", "sample", "outcome",
 * ...}. SNP_E_DENIED: the folder has results of something else, or another process works there;
 * SNP_E_PEER: some could not be judged, and none is on record of these.
 */
int snp_work_do(const struct snp_eval_work *work, json_t **ret, struct snp_err *err) SNP_NODISCARD;

#endif
