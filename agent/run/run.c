/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs: begin, resume, end.
 *
 * Invariants: the next action follows from the state alone, and the state from the records. A
 * record is on disk before it is acted on. run->done is called once; after that nothing is written.
 */
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "run/code_prompt.h"
#include "run/outcome.h"
#include "run/prompt.h"
#include "run/run_priv.h"
#include "run/sub.h"
#include "run/tool/tool.h"
#include "schema/schema.h"
#include "trajectory/reader.h"

enum {
    LATE_MS = 5,       /* the loop's clock is coarser than ours */
    CELL_MS = 30000,   /* of a cell, by default */
    OUTPUT_CAP = 4096, /* tokens of one answer: supported by every model */
    RUN_ID_LEN = 8,
    SESSION_ID_LEN = 13, /* 48 random bits */
    FORMAT = 2,          /* of trajectories */
};

/* The session of a run: of SESSION_ID_LEN and its id. */
#define SESSION_FORMAT "run-%.*s"

static const struct snp_run_stop cancelled = {
    .by = "cancelled",
    .message = "The run was cancelled",
};

/* Names and times --------------------------------------------------------------------------- */

int snp_run_uuid(char out[SNP_UUID_LEN + 1])
{
    char hex[33];

    if (snp_random_id(hex) < 0) {
        return -1;
    }
    hex[12] = '4';
    hex[16] = "89ab"[(unsigned char)hex[16] % 4U];
    return snprintf(out, SNP_UUID_LEN + 1, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
                    hex + 16, hex + 20) == SNP_UUID_LEN
               ? 0
               : -1;
}

int snp_run_call_id(struct snp_run *run, char out[SNP_UUID_LEN + 1])
{
    struct snp_err err;

    if (snp_run_uuid(out) < 0) {
        (void)snp_fail(&err, SNP_E_SYS, "no random numbers");
        snp_run_fail(run, &err);
        return SNP_E_SYS;
    }
    return 0;
}

const char *snp_run_timestamp(char out[SNP_TIMESTAMP_MAX])
{
    uint64_t now = snp_wall_us();
    time_t seconds = (time_t)(now / 1000000);
    struct tm tm;
    size_t n;

    if (gmtime_r(&seconds, &tm) == NULL) {
        memset(&tm, 0, sizeof(tm));
    }
    n = strftime(out, SNP_TIMESTAMP_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(out + n, SNP_TIMESTAMP_MAX - n, ".%03uZ", (unsigned)(now / 1000 % 1000));
    return out;
}

int64_t snp_run_elapsed_ms(const struct snp_run *run)
{
    return run->base_ms + (int64_t)((snp_now_us() - run->started_us) / 1000);
}

int64_t snp_run_left_ms(const struct snp_run *run)
{
    int64_t most = run->state.budget.wall_ms;

    return most == 0 ? INT64_MAX : most - snp_run_elapsed_ms(run);
}

int64_t snp_run_may_take_ms(const struct snp_run *run)
{
    return snp_run_left_ms(run);
}

void snp_run_watched(struct snp_run *run, uint64_t since_us)
{
    run->watched_us += snp_now_us() - since_us;
}

/* Records ----------------------------------------------------------------------------------- */

int snp_run_record(struct snp_run *run, json_t *record)
{
    struct snp_err err;
    int r = -1;

    if (record == NULL ||
        json_object_set_new(record, "elapsed_ms", json_integer(snp_run_elapsed_ms(run))) < 0) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        json_decref(record);
    } else {
        (void)json_incref(record);
        r = snp_trajectory_add(run->trajectory, record, true, &err);
        r = r < 0 ? r : snp_run_state_apply(&run->state, record, &err);
        if (r == 0 && run->watch.record != NULL) {
            uint64_t now = snp_now_us();

            run->watch.record(run->watch.ctx, record, &run->state);
            snp_run_watched(run, now);
        }
        json_decref(record);
    }
    if (r < 0) {
        snp_run_fail(run, &err);
        return SNP_E_SYS;
    }
    return 0;
}

int snp_run_step(struct snp_run *run, const char *name, json_t *members)
{
    char timestamp[SNP_TIMESTAMP_MAX];
    json_t *step = json_pack("{s:s, s:s, s:s}", "_type", "step", "step", name, "timestamp",
                             snp_run_timestamp(timestamp));

    if (step == NULL || members == NULL || json_object_update(step, members) < 0) {
        json_decref(step);
        step = NULL;
    }
    json_decref(members);
    return snp_run_record(run, step);
}

/* The end ----------------------------------------------------------------------------------- */

static void done_call(struct snp_run *run)
{
    if (!run->is_done) {
        run->is_done = true;
        (void)uv_timer_stop(run->deadline);
        (void)uv_timer_stop(run->later);
        run->watch.done(run->watch.ctx, run->has_failed ? &run->err : NULL);
    }
}

static void on_destroyed(void *ctx, const struct snp_err *err, const json_t *result)
{
    struct snp_run *run = ctx;

    (void)result;
    run->has_session = err != NULL && err->code != SNP_E_NOT_FOUND;
    done_call(run);
}

/* Whether the session is not worth keeping: no file was changed, and nothing to resume. */
static bool is_session_over(const struct snp_run *run)
{
    const struct snp_run_files *files = &run->state.files;

    return run->has_session && snp_run_state_root(&run->state)->final != NULL && !run->has_failed &&
           json_object_size(files->created) == 0 && json_object_size(files->modified) == 0 &&
           json_object_size(files->deleted) == 0;
}

static struct snp_run_ending ending_of(const struct snp_run *run)
{
    return run->has_failed ? (struct snp_run_ending){"error", run->err.msg}
           : run->has_stop ? (struct snp_run_ending){run->stop.by, run->stop.message}
                           : (struct snp_run_ending){NULL, NULL};
}

static json_t *end_json(const struct snp_run *run)
{
    const struct snp_run_level *root = snp_run_state_root(&run->state);
    const struct snp_run_ending ending = ending_of(run);
    bool is_ok = root->final != NULL && ending.error == NULL;

    return json_pack("{s:b, s:s?, s:s?, s:o, s:O?, s:o}", "success", is_ok, "stopped_by",
                     ending.stopped_by, "error", ending.error, "partial",
                     is_ok ? json_null() : snp_run_state_partial(root), "final", root->final,
                     "files", snp_run_state_files(&run->state));
}

int snp_run_end_record(struct snp_run *run)
{
    const struct snp_run_state *state = &run->state;
    char timestamp[SNP_TIMESTAMP_MAX];

    return snp_run_record(
        run, json_pack("{s:s, s:O, s:s, s:I, s:I, s:I, s:o}", "_type", "trajectory_metadata",
                       "trajectory_id", json_object_get(state->head, "trajectory_id"), "timestamp",
                       snp_run_timestamp(timestamp), "event_count",
                       (json_int_t)json_array_size(state->events), "total_tokens",
                       (json_int_t)snp_run_state_tokens(state), "total_duration_ms",
                       (json_int_t)snp_run_elapsed_ms(run), "end", end_json(run)));
}

enum snp_run_then snp_run_end(struct snp_run *run)
{
    struct snp_err err;

    if (run->is_ending) {
        return SNP_RUN_WAIT;
    }
    run->is_ending = true;
    snp_run_inside_drop(run);
    (void)snp_run_queries_drop(run);
    snp_run_outside_drop(run);
    if (snp_run_end_record(run) == 0 && is_session_over(run) &&
        snp_box_destroy(&run->box, on_destroyed, run, &err) == 0) {
        return SNP_RUN_WAIT;
    }
    done_call(run);
    return SNP_RUN_WAIT;
}

void snp_run_fail(struct snp_run *run, const struct snp_err *err)
{
    if (!run->has_failed) {
        run->has_failed = true;
        run->err = *err;
    }
}

void snp_run_fail_memory(struct snp_run *run)
{
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
    snp_run_fail(run, &err);
}

/* Next step ----------------------------------------------------------------------------------- */

enum snp_run_then snp_run_event_write(struct snp_run *run)
{
    char timestamp[SNP_TIMESTAMP_MAX];

    (void)!snp_run_record(run, snp_run_state_event(&run->state, snp_run_timestamp(timestamp)));
    return SNP_RUN_AGAIN;
}

static enum snp_run_then iteration_begin(struct snp_run *run)
{
    const struct snp_run_state *state = &run->state;
    const char *task = snp_json_str(state->head, "prompt", "");
    snp_autofree char *content = NULL;

    if (state->budget.iterations > 0 && state->iteration >= state->budget.iterations) {
        (void)snp_run_stop_set(&run->stop, "max_iterations",
                               !snp_run_budget_is_most(state, "max_iterations"),
                               "Iteration limit reached (%lld/%lld)", (long long)state->iteration,
                               (long long)state->budget.iterations);
        run->has_stop = true;
        return snp_run_end(run);
    }
    content = snp_run_prompt_iteration(state, task);
    (void)!snp_run_step(run, "iteration",
                        json_pack("{s:I, s:s?}", "iteration", (json_int_t)state->iteration + 1,
                                  "content", content));
    return SNP_RUN_AGAIN;
}

static enum snp_run_then turn_begin(struct snp_run *run)
{
    const struct snp_run_state *state = &run->state;
    const json_t *last = json_array_get(state->messages, json_array_size(state->messages) - 1);
    bool is_answered = snp_streq(snp_json_str(last, "role", ""), "assistant");
    bool is_agent = !snp_run_state_is_completion(state);

    if (is_answered && state->is_cut) {
        (void)!snp_run_step(run, "message",
                            json_pack("{s:s, s:s, s:s}", "role", "user", "why", "cut_off",
                                      "content", snp_run_prompt_continue));
        return SNP_RUN_AGAIN;
    }
    if (is_agent && !snp_breaker_is_tripped(&state->breaker) &&
        (state->iteration == 0 || is_answered ||
         (state->budget.max_depth > 0 && state->turn >= state->budget.max_depth))) {
        return iteration_begin(run);
    }
    return snp_run_ask(run);
}

/* An agent's final answer is accepted if its changes are verified. */
static enum snp_run_then judge(struct snp_run *run, const json_t *repair)
{
    const struct snp_run_state *state = &run->state;
    json_t *verdict = NULL;
    struct snp_err err;
    snp_autojson json_t *attempt = snp_run_attempt_json(&state->attempt);

    (void)json_object_set(attempt, "run", json_object_get(state->head, "trajectory_id"));
    if (run->with.judge(run->with.judge_ctx, repair, run->box.session, attempt, &verdict, &err) <
        0) {
        if (!run->is_cancelled) { /* cancelled: then `resume` has it judged again */
            snp_run_fail(run, &err);
        }
        return SNP_RUN_AGAIN;
    }
    if (verdict != NULL) {
        (void)json_object_update(verdict, attempt);
    }
    if (snp_run_step(run, "verdict", verdict) == 0 && !state->is_judged &&
        state->n_verdicts >= SNP_BREAKER_TIMES) {
        (void)snp_run_stop_set(&run->stop, "repeated_failure", false,
                               "The verdict was \"%s\" for the same reasons %d times in a row",
                               snp_json_str(state->verdict, "verdict", ""), SNP_BREAKER_TIMES);
        run->has_stop = true;
    }
    return SNP_RUN_AGAIN;
}

static enum snp_run_then next(struct snp_run *run)
{
    const struct snp_run_state *state = &run->state;
    const json_t *repair = run->with.judge == NULL ? NULL : json_object_get(state->head, "repair");

    if (run->has_failed || run->has_stop) {
        return snp_run_end(run);
    }
    if (run->is_cancelled) {
        run->stop = cancelled;
        run->has_stop = true;
        return snp_run_end(run);
    }
    if (run->has_sub_stop) {
        return snp_run_sub_end(run);
    }
    if (state->answer != NULL && state->next_call < json_array_size(snp_run_state_calls(state)) &&
        state->final == NULL) {
        if (snp_run_left_ms(run) <= 0 && state->batch == NULL &&
            (state->tool == NULL || run->is_unbegun)) {
            return snp_run_ask(run); /* which reports that the time is over */
        }
        return snp_run_act(run);
    }
    if (state->answer != NULL) {
        return snp_run_event_write(run);
    }
    if (state->final == NULL) {
        return turn_begin(run);
    }
    if (state->nesting > 0) {
        return snp_run_sub_end(run);
    }
    return repair != NULL && !state->is_judged ? judge(run, repair) : snp_run_end(run);
}

void snp_run_advance(struct snp_run *run)
{
    while (!run->is_ending && next(run) == SNP_RUN_AGAIN) {
    }
}

static void on_begin(uv_timer_t *timer)
{
    struct snp_run *run = timer->data;

    if (run->state.ask != NULL) {
        (void)snp_run_ask_lost(run, NULL);
    }
    snp_run_queries_lost(run);
    snp_run_outside_lost(run);
    if (run->state.tool != NULL || run->seen_cell > 0) {
        (void)snp_run_recall(run);
        return;
    }
    snp_run_advance(run);
}

static void on_deadline(uv_timer_t *timer)
{
    struct snp_run *run = timer->data;

    /* A model call has the same deadline, and ends without help. */
    (void)snp_run_outside_stop(
        run, "The time limit of the run is over, so the tool was stopped. " SNP_USERTOOL_MAYBE);
    snp_box_interrupt(&run->box);
}

void snp_run_cancel(struct snp_run *run)
{
    struct snp_model_usage lost = {0};
    bool has_cell = run->box.open != NULL;

    if (run->is_cancelled || run->is_ending) {
        return;
    }
    run->is_cancelled = true;
    if (run->asked != NULL) {
        snp_model_cancel(SNP_TAKE_PTR(run->asked), &lost);
        (void)snp_run_ask_lost(run, &lost);
        snp_run_advance(run);
        return;
    }
    snp_run_inside_drop(run);
    if (snp_run_outside_stop(
            run, "The run was cancelled, so the tool was stopped. " SNP_USERTOOL_MAYBE)) {
        /* its end continues the run */
    } else if (snp_run_queries_drop(run) && !has_cell) {
        snp_run_advance(run);
    } else {
        snp_box_interrupt(&run->box); /* its end continues the run */
    }
}

/* Beginnings -------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void timer_drop(uv_timer_t *timer)
{
    if (timer != NULL) {
        uv_close((uv_handle_t *)timer, on_closed);
    }
}

void snp_run_free(struct snp_run *run)
{
    if (run == NULL) {
        return;
    }
    snp_run_queries_free(run);
    snp_run_inside_drop(run);
    snp_run_outside_drop(run);
    timer_drop(run->deadline);
    timer_drop(run->later);
    snp_trajectory_free(run->trajectory);
    snp_box_done(&run->box);
    snp_run_state_done(&run->state);
    json_decref(run->tools);
    free(run);
}

static uv_timer_t *timer_make(struct snp_run *run)
{
    uv_timer_t *timer = calloc(1, sizeof(*timer));

    if (timer != NULL) {
        SNP_ASSERT(uv_timer_init(run->with.loop, timer) == 0);
        timer->data = run;
    }
    return timer;
}

/* NULL: see *err. */
static struct snp_run *run_make(const struct snp_run_with *with,
                                const struct snp_run_watch *watch,
                                struct snp_err *err)
{
    struct snp_run *run = calloc(1, sizeof(*run));

    if (run == NULL || snp_run_state_init(&run->state) < 0) {
        free(run);
        (void)snp_fail(err, SNP_E_NOMEM, "out of memory");
        return NULL;
    }
    run->with = *with;
    run->watch = *watch;
    run->output_cap = OUTPUT_CAP;
    run->started_us = snp_now_us();
    run->deadline = timer_make(run);
    run->later = timer_make(run);
    if (run->deadline == NULL || run->later == NULL) {
        (void)snp_fail(err, SNP_E_NOMEM, "out of memory");
        snp_run_free(run);
        return NULL;
    }
    return run;
}

/* Give it to the caller, or free it after a failure. */
static int run_give(struct snp_run *run, int r, struct snp_run **ret)
{
    if (r < 0) {
        snp_run_free(run);
    } else {
        *ret = run;
    }
    return r;
}

void snp_run_deadline_set(struct snp_run *run)
{
    int64_t left = snp_run_left_ms(run);

    if (left == INT64_MAX) {
        (void)uv_timer_stop(run->deadline);
    } else {
        uv_update_time(run->with.loop); /* its time may be from before a record was synced */
        (void)uv_timer_start(run->deadline, on_deadline, (left < 0 ? 0 : (uint64_t)left) + LATE_MS,
                             0);
    }
}

/* Our tools and the user's. NULL when out of memory. */
static json_t *tools_make(const struct snp_run *run)
{
    const struct snp_usertools *usertools = run->with.usertools;
    json_t *tools = snp_run_tools(snp_run_state_root(&run->state)->budget.sub.is_on);
    size_t i;
    json_t *entry;

    if (usertools == NULL) {
        return tools;
    }
    json_array_foreach((json_t *)(uintptr_t)snp_usertools_list(usertools), i, entry)
    {
        json_t *copy = json_copy(entry);

        (void)json_object_del(copy, "origin");
        if (json_array_append_new(tools, copy) < 0) {
            json_decref(tools);
            return NULL;
        }
    }
    return tools;
}

/* The loop continues from here. */
static int run_start(struct snp_run *run, struct snp_err *err)
{
    const json_t *head = run->state.head;

    if (snp_box_init(&run->box, run->with.sandbox, snp_json_str(head, "session", ""),
                     json_object_get(head, "exec")) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    run->cell_ms = (uint64_t)snp_json_int(head, "cell_ms", 0);
    run->cell_ms = run->cell_ms == 0 ? CELL_MS : run->cell_ms;
    run->tools = tools_make(run);
    if (run->tools == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (snp_run_state_root(&run->state)->budget.sub.is_on) {
        run->box.call = snp_run_inside_call;
        run->box.call_ctx = run;
    }
    snp_run_deadline_set(run);
    (void)uv_timer_start(run->later, on_begin, 0, 0);
    return 0;
}

/* A cost limit has no effect on unknown prices, so that is refused. */
static int price_check(const struct snp_run_with *with,
                       const char *model,
                       const struct snp_run_budget *budget,
                       struct snp_model_choice *ret,
                       struct snp_err *err)
{
    int r = snp_model_choose(with->models, model, ret, err);

    if (r < 0) {
        return r;
    }
    if (budget->cost_usd >= 0 && !ret->is_priced) {
        return snp_fail_with(
            err, SNP_E_INVALID, SNP_REMEDY_RAISE_LIMIT, "cost_limit", -1,
            "the price of %s is unknown, so the cost limit of $%.2f cannot be enforced", ret->model,
            budget->cost_usd);
    }
    return 0;
}

static json_t *messages_make(const struct snp_run_spec *spec)
{
    snp_autofree char *system = snp_run_prompt_system(spec->kind, spec->system);

    if (system == NULL) {
        return NULL;
    }
    return spec->kind == SNP_RUN_AGENT
               ? json_pack("[{s:s, s:s}]", "role", "system", "content", system)
               : json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "system", "content", system, "role",
                           "user", "content", spec->prompt);
}

static json_t *head_make(const struct snp_run_spec *spec, const char *provider, const char *id)
{
    char timestamp[SNP_TIMESTAMP_MAX];

    return json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:s, s:s%, s:s, s:s, s:s?, s:s*, s:s?, s:s?, "
        "s:s?, s:o, "
        "s:I, s:O, s:o, s:n, s:o, s:I}",
        "_type", "trajectory_metadata", "trajectory_id", id, "timestamp",
        snp_run_timestamp(timestamp), "event_count", 0, "total_tokens", 0, "total_duration_ms", 0,
        "format", FORMAT, "kind", spec->kind == SNP_RUN_AGENT ? "agent" : "run", "run_id", id,
        (size_t)RUN_ID_LEN, "program", SNP_VERSION, "prompt", spec->prompt, "system", spec->system,
        "context", spec->context, "model", spec->model, "provider", provider, "environment",
        spec->environment, "budget", snp_run_budget_to_json(&spec->budget), "cell_ms",
        (json_int_t)spec->cell_ms, "exec", spec->exec, "session",
        json_sprintf(SESSION_FORMAT, SESSION_ID_LEN, id), "parent_run", "messages",
        messages_make(spec), "elapsed_ms", (json_int_t)0);
}

int snp_run_head_write(struct snp_run *run,
                       const struct snp_run_spec *spec,
                       const char *provider,
                       struct snp_err *err)
{
    char id[SNP_UUID_LEN + 1];
    json_t *head = NULL;
    int r = snp_run_uuid(id) < 0 ? snp_fail(err, SNP_E_SYS, "no random numbers") : 0;

    if (r == 0) {
        head = head_make(spec, provider, id);
        if (head != NULL &&
            ((snp_usertools_n(run->with.usertools) > 0 &&
              json_object_set(head, "user_tools",
                              (json_t *)(uintptr_t)snp_usertools_list(run->with.usertools)) < 0) ||
             (spec->schema != NULL &&
              json_object_set(head, "schema", (json_t *)(uintptr_t)spec->schema) < 0) ||
             (spec->repair != NULL &&
              json_object_set(head, "repair", (json_t *)(uintptr_t)spec->repair) < 0) ||
             (provider == NULL && json_object_set_new(head, "session", json_null()) < 0))) {
            json_decref(head);
            head = NULL;
        }
        r = head == NULL ? snp_fail(err, SNP_E_INVALID, "the prompt is not UTF-8")
                         : snp_trajectory_create(&spec->log, id, run->with.key, json_incref(head),
                                                 &run->trajectory, err);
    }
    if (r == 0) {
        r = snp_run_state_apply(&run->state, head, err);
    }
    if (r == 0 && run->watch.record != NULL) {
        run->watch.record(run->watch.ctx, head, &run->state);
    }
    json_decref(head);
    return r;
}

static int begin(struct snp_run *run, const struct snp_run_spec *spec, struct snp_err *err)
{
    struct snp_model_choice choice = {0};
    int r = price_check(&run->with, spec->model, &spec->budget, &choice, err);

    r = r < 0 ? r : snp_run_head_write(run, spec, choice.provider, err);
    return r < 0 ? r : run_start(run, err);
}

int snp_run_new(const struct snp_run_with *with,
                const struct snp_run_spec *spec,
                const struct snp_run_watch *watch,
                struct snp_run **ret,
                struct snp_err *err)
{
    struct snp_run *run = run_make(with, watch, err);

    return run_give(run, run == NULL ? (int)err->code : begin(run, spec, err), ret);
}

/* Resuming ---------------------------------------------------------------------------------- */

static bool is_lost(const json_t *answer)
{
    return strcmp(snp_json_str(answer, "failure", ""), "unknown") == 0;
}

static int on_record(void *ctx, json_t *record, struct snp_err *err)
{
    struct snp_run *run = ctx;
    bool is_query = json_object_get(record, "sub_index") != NULL;
    snp_autojson json_t *messages =
        is_query ? snp_run_query_messages(snp_json_str(record, "prompt", ""), NULL)
                 : json_incref(run->state.messages);
    const struct snp_model_request request = {
        .model = snp_json_str(run->state.head, "model", NULL),
        .messages = messages,
        .label = run->state.nesting > 0 || is_query ? "sub" : "main",
    };

    if (messages == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (is_query && !is_lost(record)) {
        snp_model_skip(run->with.models, &request);
    }
    if (run->state.ask != NULL && strcmp(snp_trajectory_step(record), "answer") == 0 &&
        !is_lost(json_object_get(record, "answer"))) {
        snp_model_skip(run->with.models, &request);
    }
    return snp_run_state_apply(&run->state, record, err);
}

static int changes_take(struct snp_run *run,
                        const struct snp_run_changes *changes,
                        size_t torn,
                        struct snp_err *err)
{
    json_t *budget = snp_run_budget_to_json(&snp_run_state_root(&run->state)->budget);
    json_t *exec = json_object_get(run->state.head, "exec");
    struct snp_run_budget merged;
    struct snp_model_choice choice = {0};
    const char *model = snp_json_str(run->state.head, "model", NULL);
    int r;

    if (budget == NULL ||
        (changes->budget != NULL &&
         json_object_update(budget, (json_t *)(uintptr_t)changes->budget) < 0) ||
        (changes->recover != NULL &&
         json_object_set_new(exec, "recover", json_string(changes->recover)) < 0)) {
        json_decref(budget);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    snp_run_budget_from_json(budget, &merged);
    r = price_check(&run->with, model, &merged, &choice, err);
    if (r < 0) {
        json_decref(budget);
        return r;
    }
    if (snp_run_step(run, "resume",
                     json_pack("{s:o, s:o, s:I}", "budget", budget, "process",
                               snp_trajectory_process(), "torn_bytes", (json_int_t)torn)) < 0) {
        *err = run->err;
        return err->code;
    }
    return 0;
}

/* A run uses, and finally destroys, only the session that it created. */
static int session_check(const json_t *head, struct snp_err *err)
{
    snp_autofree char *own =
        snp_format(SESSION_FORMAT, SESSION_ID_LEN, snp_json_str(head, "trajectory_id", ""));

    return own != NULL && strcmp(snp_json_str(head, "session", ""), own) == 0
               ? 0
               : snp_fail(err, SNP_E_DENIED, "the record names a session of another run");
}

static int go_on(struct snp_run *run,
                 const char *path,
                 const struct snp_run_changes *changes,
                 struct snp_err *err)
{
    struct snp_trajectory_check check;
    size_t torn = 0;
    int r = snp_trajectory_resume(path, changes->is_log_beneath, run->with.key, &run->trajectory,
                                  &torn, err);

    r = r < 0 ? r : snp_trajectory_read(path, on_record, run, &check, err);
    if (r < 0) {
        return r;
    }
    if (run->state.head != NULL && snp_run_is_plain(run->state.head)) {
        return snp_fail(err, SNP_E_INVALID,
                        "this run was plain Python without a model, so nothing can be resumed; "
                        "run it again with: snipara-sandbox replay %.8s",
                        snp_json_str(run->state.head, "run_id", ""));
    }
    if (run->state.head == NULL || json_object_get(run->state.head, "exec") == NULL) {
        return snp_fail(err, SNP_E_INVALID, "%s is not the record of a run that can be resumed",
                        path);
    }
    if (snp_json_bool(run->state.end, "success", false)) {
        return snp_fail(err, SNP_E_INVALID, "this run is done; `logs` shows it");
    }
    r = session_check(run->state.head, err);
    if (r < 0) {
        return r;
    }
    run->base_ms = run->state.elapsed_ms;
    run->started_us = snp_now_us();
    run->seen_cell = run->state.attempt.is_over && run->state.tool == NULL
                         ? 0 /* its session is not used any more */
                         : run->state.last_cell;
    r = snp_run_outside_compare(run, err);
    r = r < 0 ? r : changes_take(run, changes, torn, err);
    return r < 0 ? r : run_start(run, err);
}

int snp_run_resume(const struct snp_run_with *with,
                   const char *path,
                   const struct snp_run_changes *changes,
                   const struct snp_run_watch *watch,
                   struct snp_run **ret,
                   struct snp_err *err)
{
    struct snp_run *run = run_make(with, watch, err);

    return run_give(run, run == NULL ? (int)err->code : go_on(run, path, changes, err), ret);
}

/* Results ----------------------------------------------------------------------------------- */

const struct snp_run_state *snp_run_state(const struct snp_run *run)
{
    return &run->state;
}

/* Limits that let it resume; empty: none is in the way. */
static json_t *resume_limits(const struct snp_run *run)
{
    struct snp_model_request request = {
        .model = snp_json_str(run->state.head, "model", NULL),
        .messages = snp_run_state_root(&run->state)->messages,
        .tools = run->tools,
        .schema = snp_run_schema(run),
    };
    struct snp_run_next next;

    if (ending_of(run).error == NULL) {
        return json_object();
    }
    snp_run_next_estimate(run, &request, &next);
    return snp_run_budget_resume(&run->state, &next);
}

const json_t *snp_run_schema(const struct snp_run *run)
{
    return json_object_get(run->state.head, "schema");
}

/* How an answer violates the run's schema. New reference, NULL: it does not. */
static json_t *schema_error(const json_t *schema, const char *answer)
{
    snp_autoschema struct snp_schema *rules = NULL;
    snp_autojson json_t *value = NULL;
    struct snp_err err;

    return snp_schema_new(schema, SNP_SCHEMA_LENIENT, &rules, &err) < 0 ||
                   snp_json_parse_any(answer, strlen(answer), &value, &err) < 0 ||
                   snp_schema_check(rules, value, &err) < 0
               ? snp_json_bytes(err.msg, strlen(err.msg))
               : NULL;
}

/* The remedy; null: none. */
static json_t *remedy_json(const struct snp_run *run)
{
    bool is_unpriced = run->has_stop && snp_streq(run->stop.by, "cost_unknown");
    struct snp_err err = run->err;

    if (!run->has_failed) {
        err.remedy.kind = SNP_REMEDY_NONE;
        if (run->has_stop && (run->stop.can_be_raised || is_unpriced)) {
            (void)snp_err_remedy(&err, 0, SNP_REMEDY_RAISE_LIMIT,
                                 is_unpriced ? "cost_limit" : run->stop.by, is_unpriced ? -1 : 0);
        }
    }
    return err.remedy.kind == SNP_REMEDY_NONE ? json_null() : snp_json_from_remedy(&err.remedy);
}

/* Add the newer members of both kinds. */
static json_t *more_add(const struct snp_run *run, json_t *result)
{
    const struct snp_run_state *state = &run->state;
    const char *by = ending_of(run).stopped_by;
    json_t *more = json_pack(
        "{s:s?, s:o, s:o, s:b, s:s?, s:o}", "stopped_by", by, "remedy", remedy_json(run),
        "resume_with", resume_limits(run), "tokens_estimated", state->is_estimated, "session",
        run->has_session ? run->box.session : NULL, "files", snp_run_state_files(state));

    if (more != NULL && by == NULL && snp_run_schema(run) != NULL) {
        json_t *wrong = schema_error(snp_run_schema(run), snp_json_str(result, "response", ""));

        (void)(wrong == NULL ? 0 : json_object_set_new(more, "schema_error", wrong));
    }
    if (more != NULL && json_object_get(state->head, "repair") != NULL) {
        (void)json_object_set_new(
            more, "verdict", state->verdict == NULL ? json_null() : json_incref(state->verdict));
    }
    if (more == NULL || json_object_update(result, more) < 0) {
        json_decref(result);
        result = NULL;
    }
    json_decref(more);
    return result;
}

static json_t *result_run(const struct snp_run *run, bool has_events)
{
    const struct snp_run_state *state = &run->state;
    const struct snp_run_ending ending = ending_of(run);

    return json_pack(
        "{s:o, s:O, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:s?, s:b, s:o}", "response",
        snp_run_outcome_answer(state), "trajectory_id",
        json_object_get(state->head, "trajectory_id"), "total_calls", (json_int_t)state->calls,
        "total_tokens", (json_int_t)snp_run_state_tokens(state), "total_input_tokens",
        (json_int_t)state->tokens_in, "total_output_tokens", (json_int_t)state->tokens_out,
        "total_tool_calls", (json_int_t)state->tool_calls, "duration_ms",
        (json_int_t)state->elapsed_ms, "total_cost_usd", snp_run_outcome_cost(state), "error",
        ending.error, "success", ending.error == NULL, "events",
        has_events ? json_incref(state->events) : json_array());
}

json_t *snp_run_result(const struct snp_run *run, bool has_events)
{
    const struct snp_run_ending ending = ending_of(run);

    return more_add(run, run->state.kind == SNP_RUN_AGENT
                             ? snp_run_outcome_agent(&run->state, &ending)
                             : result_run(run, has_events));
}
