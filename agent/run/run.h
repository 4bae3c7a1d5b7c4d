/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_RUN_H
#define SNP_RUN_RUN_H

/*
 * A run: a model is called in turns, its code runs in a session, and every step is recorded before
 * the next one. Everything runs on the loop; only the syncing of the record blocks.
 */

#include "run/spec.h"

/*
 * Begin a run. *ret is the caller's: snp_run_free(), after done. SNP_E_SYS and others: the record
 * cannot be written; SNP_E_INVALID: the model cannot be called, or a cost limit is set and its
 * price is unknown.
 */
int snp_run_new(const struct snp_run_with *with,
                const struct snp_run_spec *spec,
                const struct snp_run_watch *watch,
                struct snp_run **ret,
                struct snp_err *err) SNP_NODISCARD;

/* Changes for a resumed run. */
struct snp_run_changes {
    json_t *budget;      /* borrowed: members that replace recorded ones, or NULL */
    const char *recover; /* of exec requests; NULL = not chosen */
    bool is_log_beneath; /* no change: as in struct snp_trajectory_place */
};

/*
 * Resume the run of a trajectory after its last recorded step. SNP_E_LIMIT: it is running;
 * SNP_E_INVALID: it is over, or its record is damaged; SNP_E_DENIED: it was not written with this
 * key. On failure nothing is called, run or written.
 */
int snp_run_resume(const struct snp_run_with *with,
                   const char *path,
                   const struct snp_run_changes *changes,
                   const struct snp_run_watch *watch,
                   struct snp_run **ret,
                   struct snp_err *err) SNP_NODISCARD;

/* Stop: running work is interrupted, the end is recorded, done is called as usual. */
void snp_run_cancel(struct snp_run *run);

const struct snp_run_state *snp_run_state(const struct snp_run *run);
/* Remaining milliseconds; INT64_MAX = no limit. */
int64_t snp_run_may_take_ms(const struct snp_run *run);
/* RLMResult or AgentResult, after done. New reference, NULL when out of memory. */
json_t *snp_run_result(const struct snp_run *run, bool has_events);

void snp_run_free(struct snp_run *run);

#endif
