/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_EVAL_SCORE_H
#define SNP_CLI_EVAL_SCORE_H

/* One sample of one task, judged in a separate session. */

#include "base/cli/cli.h"
#include "cli/verify/verify.h"

struct snp_score {
    struct snp_cli *cli;
    json_t *defaults;        /* borrowed: of every session */
    uint64_t wall_ms;        /* of a sample's tests, or of one command */
    struct snp_verify proof; /* other files that verify uses for changes of a project */
    const char *model;       /* called for a missing sample; NULL = none */
    const char *cost;        /* its --cost-limit; NULL = as configured */
    const char *config;      /* its --config; NULL = none */
    const char *log_dir;     /* of its records */
};

/*
 * text: the sample; NULL = call the model. *ret, the caller's: {"outcome": "passed" | "failed" |
 * "error" | "timeout" | "unproven", "why", and measures}; unknown values are null.
 */
int snp_score_task(const struct snp_score *with,
                   const json_t *task,
                   const char *text,
                   json_t **ret,
                   struct snp_err *err) SNP_NODISCARD;

#endif
