/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_RUN_PRIV_H
#define SNP_RUN_RUN_PRIV_H

/* What the parts of a run share. */

#include "run/budget.h"
#include "run/spec.h"
#include "run/tool/box.h"
#include "run/tool/tool.h"
#include "run/tool/user_calls.h"
#include "trajectory/writer.h"

enum {
    SNP_UUID_LEN = 36,
    SNP_TIMESTAMP_MAX = 40,
};

struct snp_run {
    struct snp_run_with with;
    struct snp_run_watch watch;
    struct snp_run_state state;
    struct snp_trajectory *trajectory; /* owned */
    struct snp_box box;
    json_t *tools;                 /* owned */
    struct snp_model_call *asked;  /* the open call of the model; NULL = none */
    struct snp_run_query *queries; /* owned: open sub-calls beside it */
    struct snp_run_inside *inside; /* owned: the open call of the cell that runs; NULL = none */
    uv_timer_t *deadline;          /* owned, on the heap: closed later than this is freed */
    uv_timer_t *later;
    uint64_t started_us; /* of this process's part of the run */
    uint64_t watched_us; /* of it: until those who watch had read */
    int64_t base_ms;     /* what earlier parts took */
    uint64_t cell_ms;    /* wall clock of a cell, at most */
    uint64_t output_cap; /* tokens of one answer */
    int64_t seen_cell;   /* the last cell of the session that we know of */
    unsigned n_recalls;  /* of the present tool */
    struct snp_outside_call outside[SNP_USERTOOL_PARALLEL_MAX];
    bool is_cancelled;
    bool is_unbegun; /* the pending call's cell was interrupted before it began */
    bool is_ending;
    bool is_done;
    bool has_session;
    bool has_stop;
    struct snp_run_stop stop;
    bool has_sub_stop;
    struct snp_run_stop sub_stop; /* why the present sub-completion ends early */
    bool has_failed;
    struct snp_err err; /* if it has */
};

/* What came of a tool call. */
struct snp_run_outcome {
    char *content; /* owned; NULL = out of memory */
    bool is_error;
    bool is_skipped;      /* nothing was run: counts nowhere */
    const json_t *result; /* borrowed; of the cell; NULL = none ran */
    json_t *error;        /* owned; the error alone, for the breaker; or NULL */
    json_t *final;        /* owned; or NULL */
};

/* Of a cell that has ended, with its output in the box. */
void snp_run_outcome_make(const struct snp_run_tool *tool,
                          const struct snp_box *box,
                          const json_t *result,
                          struct snp_run_outcome *ret);

/* The record begins; provider: NULL = no model is asked (run/code_prompt.h). */
int snp_run_head_write(struct snp_run *run,
                       const struct snp_run_spec *spec,
                       const char *provider,
                       struct snp_err *err) SNP_NODISCARD;
/* And ends: with what has been set of stop, err and final. */
int snp_run_end_record(struct snp_run *run) SNP_NODISCARD;

/* What to do after a step. */
enum snp_run_then {
    SNP_RUN_AGAIN = 0, /* look what comes next */
    SNP_RUN_WAIT,      /* a callback goes on */
};

/* Milliseconds that the run has taken. */
int64_t snp_run_elapsed_ms(const struct snp_run *run);
/* JSON Schema that the answer follows, of the head; NULL = none. */
const json_t *snp_run_schema(const struct snp_run *run);
/* What is left of its wall clock; INT64_MAX = no limit. */
int64_t snp_run_left_ms(const struct snp_run *run);
/* Who watches it had something from then until now. */
void snp_run_watched(struct snp_run *run, uint64_t since_us);

/*
 * Write a record (consumed; a step gets the time) and take it in. Negative: it cannot be written;
 * then the run has been ended.
 */
int snp_run_record(struct snp_run *run, json_t *record) SNP_NODISCARD;
/*
 * A step: {"_type": "step", "step": name, ...members}. members: consumed, may be NULL = out
 * of memory.
 */
int snp_run_step(struct snp_run *run, const char *name, json_t *members) SNP_NODISCARD;

/* The event of the turn that is over. */
enum snp_run_then snp_run_event_write(struct snp_run *run);
/* Have the timer end what runs when the present completion's time is over. */
void snp_run_deadline_set(struct snp_run *run);

/* Do what comes next, until something has to be waited for. */
void snp_run_advance(struct snp_run *run);

/* End the run for a reason that is none of its limits. Keeps the first such reason. */
void snp_run_fail(struct snp_run *run, const struct snp_err *err);
void snp_run_fail_memory(struct snp_run *run);
/* End it, with run->stop set or not. */
enum snp_run_then snp_run_end(struct snp_run *run);

/* Ask the model (ask.c). */
enum snp_run_then snp_run_ask(struct snp_run *run);
/* What a request would take. */
void snp_run_next_estimate(const struct snp_run *run,
                           const struct snp_model_request *request,
                           struct snp_run_next *ret);
/* An ask of an earlier process without an answer: it counts as its estimate. */
enum snp_run_then snp_run_ask_lost(struct snp_run *run, const struct snp_model_usage *lost);

/* Run the next tool call of the answer (act.c). */
enum snp_run_then snp_run_act(struct snp_run *run);
/* The tool call that is next, or runs. Borrowed. */
json_t *snp_run_call_now(const struct snp_run *run);
/* Its result (consumed). */
void snp_run_result_record(struct snp_run *run, struct snp_run_outcome *outcome);
/* Its result is an error that we say ourselves; is_skipped: it counts nowhere. */
enum snp_run_then snp_run_refuse(struct snp_run *run, const char *text, bool is_skipped);
/* A tool that an earlier process has begun, or whether the session is as we left it. */
enum snp_run_then snp_run_recall(struct snp_run *run);

/* Whether a call is of a tool that is not ours (run/tool/user_calls.c). */
bool snp_run_outside_has(const struct snp_run *run, const json_t *call);
/* Run the next call, which is, and those behind it that may run beside it. */
enum snp_run_then snp_run_outside_act(struct snp_run *run);
/* Stop all; their results come, and then snp_run_advance. False: none runs. */
bool snp_run_outside_stop(struct snp_run *run, const char *why);
/* Stop all without a word; for the end. */
void snp_run_outside_drop(struct snp_run *run);
/* Of calls that an earlier process has begun the model is told that nobody knows. */
void snp_run_outside_lost(struct snp_run *run);
/* SNP_E_DENIED: the tools are others than those that the run began with. */
int snp_run_outside_compare(const struct snp_run *run, struct snp_err *err) SNP_NODISCARD;

/* "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx"; 0 or -1. */
int snp_run_uuid(char out[SNP_UUID_LEN + 1]) SNP_NODISCARD;
/* The same for a call of the model. Negative: the run has been ended. */
int snp_run_call_id(struct snp_run *run, char out[SNP_UUID_LEN + 1]) SNP_NODISCARD;
/* "2026-11-22T10:33:12.123Z" into out; returns out. */
const char *snp_run_timestamp(char out[SNP_TIMESTAMP_MAX]);

#endif
