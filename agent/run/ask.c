/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the model, once for each turn. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "run/prompt.h"
#include "run/run_priv.h"
#include "run/sub.h"

enum {
    CAP_GROWTH = 4, /* after a reply that was all reasoning */
};

/* Maximum output tokens of any known model; raised if that is not enough. */
static const uint64_t cap_max = 65536;

static const char *model_name(const struct snp_run *run)
{
    return snp_json_str(run->state.head, "model", NULL);
}

static json_t *usage_json(const struct snp_model_usage *usage)
{
    return snp_model_usage_to_json(usage, "estimated");
}

static json_t *answer_json(const struct snp_model_answer *answer)
{
    json_t *cost = answer->is_priced ? json_real(answer->cost_usd) : json_null();

    if (!answer->is_ok) {
        return json_pack("{s:b, s:s, s:s, s:i, s:o, s:o, s:s?, s:s?, s:I, s:I}", "ok", 0, "failure",
                         snp_model_failure_names[answer->failure], "error", answer->err.msg,
                         "http_status", answer->http_status, "usage", usage_json(&answer->usage),
                         "cost_usd", cost, "provider", answer->provider, "model", answer->model,
                         "tries", (json_int_t)answer->tries, "duration_ms",
                         (json_int_t)answer->duration_ms);
    }
    return json_pack("{s:b, s:O, s:O, s:s, s:o, s:o, s:s?, s:s?, s:s?, s:I, s:I}", "ok", 1,
                     "message", answer->message, "tool_calls", answer->tool_calls, "stop",
                     snp_model_stop_names[answer->stop], "usage", usage_json(&answer->usage),
                     "cost_usd", cost, "provider", answer->provider, "model", answer->model,
                     "reply_id", answer->reply_id, "tries", (json_int_t)answer->tries,
                     "duration_ms", (json_int_t)answer->duration_ms);
}

/* Handling the answer ----------------------------------------------------------------------- */

static int answer_record(struct snp_run *run, json_t *answer)
{
    return snp_run_step(run, "answer",
                        json_pack("{s:O, s:o}", "call_id",
                                  json_object_get(run->state.ask, "call_id"), "answer", answer));
}

/* End the present completion with a failure: a sub-call alone, or the run. */
static void completion_fail(struct snp_run *run, const struct snp_err *err)
{
    if (run->state.nesting > 0) {
        snp_run_sub_fail(run, err);
    } else {
        snp_run_fail(run, err);
    }
}

static void completion_stop(struct snp_run *run, const struct snp_run_stop *stop)
{
    if (run->state.nesting > 0) {
        snp_run_sub_stop(run, stop);
    } else {
        run->stop = *stop;
        run->has_stop = true;
    }
}

static void stop_by_time(struct snp_run *run, const char *why)
{
    struct snp_run_stop stop;

    (void)snp_run_budget_timeout(&run->state, snp_run_elapsed_ms(run),
                                 (int64_t)(run->watched_us / 1000), why, &stop);
    completion_stop(run, &stop);
}

static void failure_judge(struct snp_run *run, const struct snp_model_answer *answer)
{
    struct snp_err err = answer->err;

    if (answer->failure == SNP_MODEL_FAILED_TIMEOUT) { /* its deadline is the run's */
        stop_by_time(run, answer->err.msg);
        return;
    }
    (void)snp_err_wrap(&err, "the model gave no answer (%s)",
                       snp_model_failure_names[answer->failure]);
    completion_fail(run, &err);
}

static void on_answer(void *ctx, const struct snp_model_answer *answer)
{
    struct snp_run *run = ctx;
    struct snp_err err;

    run->asked = NULL;
    if (answer_record(run, answer_json(answer)) < 0) {
        return;
    }
    if (!answer->is_ok) {
        failure_judge(run, answer);
    } else if (answer->stop == SNP_MODEL_STOP_FILTER && json_array_size(answer->tool_calls) == 0) {
        (void)snp_fail(&err, SNP_E_DENIED, "the provider withheld the answer%s%.200s",
                       answer->text[0] == '\0' ? "" : ": ", answer->text);
        completion_fail(run, &err);
    } else if (answer->stop == SNP_MODEL_STOP_LENGTH && answer->text[0] == '\0' &&
               json_array_size(answer->tool_calls) == 0 && run->output_cap < cap_max) {
        run->output_cap *= CAP_GROWTH;
    }
    snp_run_advance(run);
}

static void on_event(void *ctx, const struct snp_model_event *event)
{
    struct snp_run *run = ctx;

    if (run->watch.model != NULL) {
        uint64_t now = snp_now_us();

        run->watch.model(run->watch.ctx, event);
        snp_run_watched(run, now);
    }
}

enum snp_run_then snp_run_ask_lost(struct snp_run *run, const struct snp_model_usage *lost)
{
    struct snp_model_usage usage = {.is_estimated = true};
    double usd = 0;
    bool is_priced;

    if (lost != NULL) {
        usage = *lost;
        usage.is_estimated = true;
    } else {
        usage.input = (uint64_t)snp_run_number(run->state.ask, "estimate");
    }
    is_priced = snp_model_price(run->with.models, model_name(run), &usage, &usd);
    (void)!answer_record(
        run, json_pack("{s:b, s:s, s:s, s:o, s:o}", "ok", 0, "failure", "unknown", "error",
                       "the call was cut off before its answer was stored", "usage",
                       usage_json(&usage), "cost_usd", is_priced ? json_real(usd) : json_null()));
    return SNP_RUN_AGAIN;
}

/* Asking ------------------------------------------------------------------------------------ */

void snp_run_next_estimate(const struct snp_run *run,
                           const struct snp_model_request *request,
                           struct snp_run_next *ret)
{
    const struct snp_model_usage out = {.output = 1000000};
    struct snp_model_usage in = {.input = snp_model_estimate_request(request)};

    *ret = (struct snp_run_next){
        .input = in.input,
        .elapsed_ms = snp_run_elapsed_ms(run),
        .watched_ms = (int64_t)(run->watched_us / 1000),
        .output_cap = run->output_cap,
    };
    ret->is_priced = snp_model_price(run->with.models, request->model, &in, &ret->input_usd) &&
                     snp_model_price(run->with.models, request->model, &out, &ret->output_usd);
    ret->output_usd /= 1000000;
}

/* Whether to announce the last turn to the model; for an agent only in its last iteration. */
static bool wants_note(const struct snp_run *run)
{
    const struct snp_run_state *state = &run->state;

    return snp_run_budget_is_last_turn(state) && !state->has_last_note &&
           (snp_run_state_is_completion(state) || state->iteration >= state->budget.iterations);
}

static int ask_record(struct snp_run *run, uint64_t estimate)
{
    char call_id[SNP_UUID_LEN + 1];
    const char *parent = run->state.last_call_id;

    return snp_run_call_id(run, call_id) < 0
               ? SNP_E_SYS
               : snp_run_step(run, "ask",
                              json_pack("{s:s, s:s?, s:I, s:I, s:I}", "call_id", call_id,
                                        "parent_call_id", parent[0] == '\0' ? NULL : parent, "turn",
                                        (json_int_t)run->state.turn, "iteration",
                                        (json_int_t)run->state.iteration, "estimate",
                                        (json_int_t)estimate));
}

enum snp_run_then snp_run_ask(struct snp_run *run)
{
    struct snp_model_request request = {
        .model = model_name(run),
        .messages = run->state.messages,
        .tools = run->tools,
        .schema = run->state.nesting > 0 ? NULL : snp_run_schema(run),
        .temperature = -1,
        .label = run->state.nesting > 0 ? "sub" : "main",
    };
    int64_t left = snp_run_left_ms(run);
    struct snp_run_next next;
    struct snp_run_stop stop;
    struct snp_err err;

    snp_run_next_estimate(run, &request, &next);
    if (snp_run_budget_is_over(&run->state, &next, &request.max_tokens, &stop)) {
        completion_stop(run, &stop);
        return SNP_RUN_AGAIN;
    }
    if (wants_note(run)) {
        (void)!snp_run_step(run, "message",
                            json_pack("{s:s, s:s, s:s}", "role", "user", "why", "last_turn",
                                      "content", snp_run_prompt_last));
        return SNP_RUN_AGAIN;
    }
    if (ask_record(run, next.input) < 0) {
        return SNP_RUN_AGAIN;
    }
    request.deadline_us =
        left == INT64_MAX ? 0 : snp_now_us() + (uint64_t)(left < 1 ? 1 : left) * 1000;
    request.on_event = on_event;
    request.on_done = on_answer;
    request.ctx = run;
    if (snp_model_ask(run->with.models, &request, &run->asked, &err) < 0) {
        snp_run_fail(run, &err);
        return SNP_RUN_AGAIN;
    }
    return SNP_RUN_WAIT;
}
