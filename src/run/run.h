/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_RUN_H
#define SNP_RUN_RUN_H

/*
 * A run: a model asked in turns, its code run in a session, every step on record before the next
 * one. Everything happens on the loop; nothing here blocks but the syncing of the record.
 */

#include <uv.h>

#include "base/err.h"
#include "base/json.h"
#include "client/async.h"
#include "model/model.h"
#include "run/budget.h"
#include "run/state.h"
#include "run/tool/usertool.h"
#include "trajectory/writer.h"

struct snp_run;

/* What a run consists of. All borrowed during snp_run_new. */
struct snp_run_spec {
    enum snp_run_kind kind;
    const char *prompt;
    const char *system; /* NULL = none */
    const char *model;  /* NULL = the configured one */
    struct snp_run_budget budget;
    struct snp_trajectory_place log;
    const char *environment; /* for the record */
    const json_t *exec;      /* members of every exec request */
    uint64_t cell_ms;        /* wall clock of a cell, at most; 0 = 30 s */
};

/* Who looks on. ctx and callbacks are borrowed until the run is freed. */
struct snp_run_watch {
    /* A record, as it was written. NULL = ignore. */
    void (*record)(void *ctx, const json_t *record, const struct snp_run_state *state);
    /* Something of the model, as it comes. NULL = ignore. */
    void (*model)(void *ctx, const struct snp_model_event *event);
    /*
     * The end, once, never before snp_run_new or snp_run_resume has returned; everything is on record.
     * err: NULL, or the run could not go on for a reason that is none of its limits.
     */
    void (*done)(void *ctx, const struct snp_err *err);
    void *ctx;
};

struct snp_run_with {
    uv_loop_t *loop;
    struct snp_models *models;
    struct snp_async *async;
    /* Tools besides ours, borrowed until the run is freed; nothing is added meanwhile. NULL = none. */
    struct snp_usertools *usertools;
    unsigned parallel; /* calls of these that may run at once; 0 = 1 */
    /* SNP_CHAIN_KEY bytes that the record is authenticated with, borrowed during new and resume. */
    const unsigned char *key;
};

/*
 * Begin. *ret is the caller's: snp_run_free(), after done. SNP_E_SYS and others: the record cannot be
 * written; SNP_E_INVALID: the model cannot be asked, or its price is not known and a cost limit is set.
 */
int snp_run_new(const struct snp_run_with *with,
                const struct snp_run_spec *spec,
                const struct snp_run_watch *watch,
                struct snp_run **ret,
                struct snp_err *err) SNP_NODISCARD;

/* What may be changed when a run goes on. */
struct snp_run_changes {
    const json_t *budget; /* members that replace those on record, or NULL */
    const char *recover;  /* of exec requests; NULL = ask */
    bool is_log_beneath;  /* no change: as in struct snp_trajectory_place */
};

/*
 * Go on with the run of a trajectory, from its last step on record. SNP_E_LIMIT: it runs; SNP_E_INVALID: it is
 * over, or its record is damaged; SNP_E_DENIED: it was not written with this key. Then nothing is asked, run or written.
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
/* RLMResult or AgentResult, after done. New reference, NULL when out of memory. */
json_t *snp_run_result(const struct snp_run *run, bool has_events);

void snp_run_free(struct snp_run *run);

#endif
