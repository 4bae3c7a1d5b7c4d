/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_RUN_PRIV_H
#define SNP_RUN_RUN_PRIV_H

/* Shared declarations of the parts of a run. */

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
    struct snp_run_inside *inside; /* owned: the open call of the running cell; NULL = none */
    uv_timer_t *deadline;          /* owned, on the heap: closed after this is freed */
    uv_timer_t *later;
    uint64_t started_us; /* of this process's part of the run */
    uint64_t watched_us; /* of this, until viewers of the output had read */
    int64_t base_ms;     /* time of earlier parts */
    uint64_t cell_ms;    /* wall clock of a cell, at most */
    uint64_t output_cap; /* tokens of one answer */
    int64_t seen_cell;   /* the last known cell of the session */
    unsigned n_recalls;  /* of the current tool */
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
    struct snp_err err; /* if has_failed */
};

/* Outcome of a tool call. */
struct snp_run_outcome {
    char *content; /* owned; NULL = out of memory */
    bool is_error;
    bool is_skipped;      /* nothing ran: not counted */
    const json_t *result; /* borrowed; of the cell; NULL = none ran */
    json_t *error;        /* owned; the error alone, for the breaker; or NULL */
    json_t *final;        /* owned; or NULL */
};

/* Make the outcome of an ended cell, with its output in the box. */
void snp_run_outcome_make(const struct snp_run_tool *tool,
                          const struct snp_box *box,
                          const json_t *result,
                          struct snp_run_outcome *ret);

/* Begin the record; provider: NULL = no model (run/code_prompt.h). */
int snp_run_head_write(struct snp_run *run,
                       const struct snp_run_spec *spec,
                       const char *provider,
                       struct snp_err *err) SNP_NODISCARD;
/* End the record with stop, err and final, if set. */
int snp_run_end_record(struct snp_run *run) SNP_NODISCARD;

/* What to do after a step. */
enum snp_run_then {
    SNP_RUN_AGAIN = 0, /* check for the next step */
    SNP_RUN_WAIT,      /* a callback continues */
};

/* Elapsed milliseconds of the run. */
int64_t snp_run_elapsed_ms(const struct snp_run *run);
/* The JSON Schema of the answer, from the head; NULL = none. */
const json_t *snp_run_schema(const struct snp_run *run);
/* Remaining wall clock time; INT64_MAX = no limit. */
int64_t snp_run_left_ms(const struct snp_run *run);
/* Count the time from then until now as waiting for viewers. */
void snp_run_watched(struct snp_run *run, uint64_t since_us);

/*
 * Write a record (consumed; a step gets the time) and apply it. Negative: it cannot be written; the
 * run has been ended.
 */
int snp_run_record(struct snp_run *run, json_t *record) SNP_NODISCARD;
/*
 * A step: {"_type": "step", "step": name, ...members}. members: consumed, may be NULL = out
 * of memory.
 */
int snp_run_step(struct snp_run *run, const char *name, json_t *members) SNP_NODISCARD;

/* Write the event of the completed turn. */
enum snp_run_then snp_run_event_write(struct snp_run *run);
/* Set the timer that ends running work at the present completion's deadline. */
void snp_run_deadline_set(struct snp_run *run);

/* Run steps until one has to wait. */
void snp_run_advance(struct snp_run *run);

/* End the run for a reason other than its limits. Keeps the first such reason. */
void snp_run_fail(struct snp_run *run, const struct snp_err *err);
void snp_run_fail_memory(struct snp_run *run);
/* End it, with run->stop set or not. */
enum snp_run_then snp_run_end(struct snp_run *run);

/* Ask the model (ask.c). */
enum snp_run_then snp_run_ask(struct snp_run *run);
/* Estimate the next request. */
void snp_run_next_estimate(const struct snp_run *run,
                           const struct snp_model_request *request,
                           struct snp_run_next *ret);
/* An unanswered ask of an earlier process: it counts as its estimate. */
enum snp_run_then snp_run_ask_lost(struct snp_run *run, const struct snp_model_usage *lost);

/* Run the next tool call of the answer (act.c). */
enum snp_run_then snp_run_act(struct snp_run *run);
/* The current or next tool call. Borrowed. */
json_t *snp_run_call_now(const struct snp_run *run);
/* Record its result (consumed). */
void snp_run_result_record(struct snp_run *run, struct snp_run_outcome *outcome);
/* Record an error of this program as its result; is_skipped: not counted. */
enum snp_run_then snp_run_refuse(struct snp_run *run, const char *text, bool is_skipped);
/* Recover a tool call begun by an earlier process, or check that the session is unchanged. */
enum snp_run_then snp_run_recall(struct snp_run *run);

/* Whether a call is of a user tool (run/tool/user_calls.c). */
bool snp_run_outside_has(const struct snp_run *run, const json_t *call);
/* Run the next call, a user tool, and later ones that may run concurrently. */
enum snp_run_then snp_run_outside_act(struct snp_run *run);
/* Stop all; their results arrive, then snp_run_advance. False: none runs. */
bool snp_run_outside_stop(struct snp_run *run, const char *why);
/* Stop all silently; at the end. */
void snp_run_outside_drop(struct snp_run *run);
/* Tell the model that the outcome of calls begun by an earlier process is unknown. */
void snp_run_outside_lost(struct snp_run *run);
/* SNP_E_DENIED: the tools differ from those at the start of the run. */
int snp_run_outside_compare(const struct snp_run *run, struct snp_err *err) SNP_NODISCARD;

/* "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx"; 0 or -1. */
int snp_run_uuid(char out[SNP_UUID_LEN + 1]) SNP_NODISCARD;
/* The same for a call of the model. Negative: the run has been ended. */
int snp_run_call_id(struct snp_run *run, char out[SNP_UUID_LEN + 1]) SNP_NODISCARD;
/* "2026-11-22T10:33:12.123Z" into out; returns out. */
const char *snp_run_timestamp(char out[SNP_TIMESTAMP_MAX]);

#endif
