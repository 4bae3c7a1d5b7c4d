/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_SPEC_H
#define SNP_RUN_SPEC_H

/* Definition, viewers and resources of a run. */

#include <uv.h>

#include "base/err.h"
#include "base/json.h"
#include "model/model.h"
#include "run/budget.h"
#include "run/state.h"
#include "run/tool/usertool.h"
#include "snipara/sandbox.h"
#include "trajectory/writer.h"

struct snp_run;

/* Definition of a run. All borrowed during snp_run_new. */
struct snp_run_spec {
    enum snp_run_kind kind;
    const char *prompt;
    const char *system; /* NULL = none */
    /* an agent's initial context on its project; NULL = none */
    const char *context;
    const char *model;    /* NULL = the configured one */
    const json_t *schema; /* JSON Schema of the answer; NULL = text */
    struct snp_run_budget budget;
    struct snp_trajectory_place log;
    const char *environment; /* for the record */
    const json_t *exec;      /* members of every exec request */
    uint64_t cell_ms;        /* wall clock of a cell, at most; 0 = 30 s */
    const json_t *repair;    /* for `judge` of an agent's work; NULL = none */
};

/* Viewers. ctx and callbacks are borrowed until the run is freed. */
struct snp_run_watch {
    /* A written record. NULL = ignore. */
    void (*record)(void *ctx, const json_t *record, const struct snp_run_state *state);
    /* Streamed output of the model. NULL = ignore. */
    void (*model)(void *ctx, const struct snp_model_event *event);
    /*
     * The end, once, never before snp_run_new or snp_run_resume has returned; everything is
     * recorded. err: NULL, or the run could not continue for a reason other than its limits.
     */
    void (*done)(void *ctx, const struct snp_err *err);
    void *ctx;
};

struct snp_run_with {
    uv_loop_t *loop;
    struct snp_models *models;
    struct snipara *sandbox; /* stepped in the loop */
    /* User tools, borrowed until the run is freed and not extended before. NULL = none. */
    struct snp_usertools *usertools;
    unsigned parallel; /* concurrent calls of these; 0 = 1 */
    /*
     * Judge an agent's final answer; `repair` is recorded: {"verdict", "reasons", "feedback": the
     * message with which the model continues, or null}. attempt: more for the report. *ret is the
     * caller's. Blocks; if interrupted it fails, and has called snp_run_cancel.
     */
    int (*judge)(void *ctx,
                 const json_t *repair,
                 const char *session,
                 const json_t *attempt,
                 json_t **ret,
                 struct snp_err *err);
    void *judge_ctx;
    /* SNP_CHAIN_KEY bytes that authenticate the record, borrowed during new and resume. */
    const unsigned char *key;
};

#endif
