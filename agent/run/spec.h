/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_SPEC_H
#define SNP_RUN_SPEC_H

/* What a run consists of, who looks on, and what it works with. */

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
    /* what an agent begins with of its project, as it is told; NULL = nothing */
    const char *context;
    const char *model;    /* NULL = the configured one */
    const json_t *schema; /* JSON Schema that the answer follows; NULL = text */
    struct snp_run_budget budget;
    struct snp_trajectory_place log;
    const char *environment; /* for the record */
    const json_t *exec;      /* members of every exec request */
    uint64_t cell_ms;        /* wall clock of a cell, at most; 0 = 30 s */
    const json_t *repair; /* what the work of an agent is judged by, for `judge`; NULL = nothing */
};

/* Who looks on. ctx and callbacks are borrowed until the run is freed. */
struct snp_run_watch {
    /* A record, as it was written. NULL = ignore. */
    void (*record)(void *ctx, const json_t *record, const struct snp_run_state *state);
    /* Something of the model, as it comes. NULL = ignore. */
    void (*model)(void *ctx, const struct snp_model_event *event);
    /*
     * The end, once, never before snp_run_new or snp_run_resume has returned; everything is on
     * record. err: NULL, or the run could not go on for a reason that is none of its limits.
     */
    void (*done)(void *ctx, const struct snp_err *err);
    void *ctx;
};

struct snp_run_with {
    uv_loop_t *loop;
    struct snp_models *models;
    struct snp_async *async;
    /*
     * Tools besides ours, borrowed until the run is freed; nothing is added meanwhile. NULL = none.
     */
    struct snp_usertools *usertools;
    unsigned parallel; /* calls of these that may run at once; 0 = 1 */
    /*
     * An agent has given its final answer, and `repair` is on record: the verdict on it,
     * {"verdict", "reasons", "feedback": what the model is told to go on, or null}. attempt: more
     * for the evidence. *ret is the caller's. Blocks; when it is interrupted it fails, and has
     * called snp_run_cancel.
     */
    int (*judge)(void *ctx,
                 const json_t *repair,
                 const char *session,
                 const json_t *attempt,
                 json_t **ret,
                 struct snp_err *err);
    void *judge_ctx;
    /* SNP_CHAIN_KEY bytes that the record is authenticated with, borrowed during new and resume. */
    const unsigned char *key;
};

#endif
