/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_RECORDED_H
#define SNP_RUN_RECORDED_H

/*
 * Run the recorded tool calls of a run again, in a new session without any model, and compare the
 * results. Times are not compared.
 */

#include <uv.h>

#include "base/err.h"
#include "base/json.h"
#include "snipara/sandbox.h"

/* The outcome; the caller's: snp_run_again_done(). */
struct snp_run_again {
    size_t n_calls; /* that were run */
    /* {"call": number from 1, "name", "arguments", "recorded", "now"}; NULL = none */
    json_t *difference;
};
void snp_run_again_done(struct snp_run_again *again);

/*
 * Run them until one differs. records: the whole trajectory. exec: members of every exec request;
 * NULL: the recorded ones, only for a record of the user's own. loop: of sandbox, run to the end.
 * SNP_E_INVALID: not the record of a run; others: a cell could not be run.
 */
int snp_run_again(uv_loop_t *loop,
                  struct snipara *sandbox,
                  const json_t *exec,
                  const json_t *records,
                  struct snp_run_again *ret,
                  struct snp_err *err) SNP_NODISCARD;

#endif
