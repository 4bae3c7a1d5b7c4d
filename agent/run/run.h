/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_RUN_H
#define SNP_RUN_RUN_H

/*
 * A run: a model asked in turns, its code run in a session, every step on record before the next
 * one. Everything happens on the loop; nothing here blocks but the syncing of the record.
 */

#include "run/spec.h"

/*
 * Begin. *ret is the caller's: snp_run_free(), after done. SNP_E_SYS and others: the record cannot
 * be written; SNP_E_INVALID: the model cannot be asked, or its price is not known and a cost limit
 * is set.
 */
int snp_run_new(const struct snp_run_with *with,
                const struct snp_run_spec *spec,
                const struct snp_run_watch *watch,
                struct snp_run **ret,
                struct snp_err *err) SNP_NODISCARD;

/* What may be changed when a run goes on. */
struct snp_run_changes {
    json_t *budget;      /* borrowed: members that replace those of the record, or NULL */
    const char *recover; /* of exec requests; NULL = not chosen */
    bool is_log_beneath; /* no change: as in struct snp_trajectory_place */
};

/*
 * Go on with the run of a trajectory, from its last step on record. SNP_E_LIMIT: it runs;
 * SNP_E_INVALID: it is over, or its record is damaged; SNP_E_DENIED: it was not written with this
 * key. Then nothing is asked, run or written.
 */
int snp_run_resume(const struct snp_run_with *with,
                   const char *path,
                   const struct snp_run_changes *changes,
                   const struct snp_run_watch *watch,
                   struct snp_run **ret,
                   struct snp_err *err) SNP_NODISCARD;

/* Stop: what runs is interrupted, the end goes on record, done is called as usual. */
void snp_run_cancel(struct snp_run *run);

const struct snp_run_state *snp_run_state(const struct snp_run *run);
/* Milliseconds that it may still take; INT64_MAX = no limit. */
int64_t snp_run_may_take_ms(const struct snp_run *run);
/* RLMResult or AgentResult, after done. New reference, NULL when out of memory. */
json_t *snp_run_result(const struct snp_run *run, bool has_events);

void snp_run_free(struct snp_run *run);

#endif
