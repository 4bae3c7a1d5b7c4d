/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_EVAL_TASKS_H
#define SNP_CLI_EVAL_TASKS_H

/*
 * A data set, and samples of solutions, as files of JSON lines. docs/reference/eval.md describes
 * them.
 */

#include "base/err.h"
#include "base/json.h"
#include "base/patch/patch.h"

/*
 * A task in its common form: {"id", "prompt", "setup", "test", "entry"}, or {"id", "prompt",
 * "repo", "test", "regress"}.
 */
struct snp_tasks {
    json_t *list;                        /* owned */
    json_t *samples;                     /* owned: id -> array of texts */
    char sha256[SNP_PATCH_HASH_LEN + 1]; /* of both files */
};
void snp_tasks_done(struct snp_tasks *tasks);

/* SNP_E_INVALID names the line. */
int snp_tasks_read(const char *path, struct snp_tasks *ret, struct snp_err *err) SNP_NODISCARD;
int snp_tasks_samples(const char *path, struct snp_tasks *tasks, struct snp_err *err) SNP_NODISCARD;

/* Whether the solution of a task is a change of a project. */
bool snp_task_is_repair(const json_t *task);

#endif
