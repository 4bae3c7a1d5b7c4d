/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets. Each message ends with the remedy. */
#include "run/budget.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/text/say.h"
#include "run/agent_limits.h"

enum {
    UNREAD_MS = 1000,  /* a wait for viewers above this is reported by a run out of time */
    SHOWN_ERROR = 160, /* characters of the repeated error */
    SHOWN_CALL = 70,   /* and of each call that led to it */
    SHOWN_MAX = 4096,  /* bytes of all */
    ANSWER_MIN = 64,   /* tokens: a shorter answer is not requested */
    /* Limits of a sub-completion. */
    SUB_DEPTH = 2,
    SUB_CALLS = 4,
    SUB_TOOLS = 10,
    SUB_WALL_MS = 60000,
    /* Minimum for a resumed run: calls like the next one, tokens of an answer, seconds. */
    MORE_CALLS = 5,
    MORE_ANSWER = 1000,
    MORE_SECONDS = 60,
    TOKENS_ROUND = 1000,
};

bool snp_run_stop_set(
    struct snp_run_stop *stop, const char *by, bool can_be_raised, const char *fmt, ...)
{
    va_list args;

    stop->by = by;
    stop->can_be_raised = can_be_raised;
    va_start(args, fmt);
    (void)vsnprintf(stop->message, sizeof(stop->message), fmt, args);
    va_end(args);
    (void)snprintf(stop->told, sizeof(stop->told), "%.770s%s", stop->message,
                   can_be_raised ? "; continue without it" : "");
    return true;
}

static bool is_agent(const struct snp_run_state *state)
{
    return state->kind == SNP_RUN_AGENT;
}

bool snp_run_budget_timeout(const struct snp_run_state *state,
                            int64_t elapsed_ms,
                            int64_t watched_ms,
                            const char *why,
                            struct snp_run_stop *ret)
{
    char unread[64];

    if (watched_ms >= UNREAD_MS && watched_ms > elapsed_ms / 2) {
        (void)snprintf(unread, sizeof(unread), "%.1fs of it waiting for the program to read",
                       (double)watched_ms / 1000);
        why = unread;
    }
    return snp_run_stop_set(ret, "timeout", true, "Execution timeout exceeded: %.1fs/%.1fs%s%.300s",
                            (double)(elapsed_ms - state->base_ms) / 1000,
                            (double)(state->budget.wall_ms - state->base_ms) / 1000,
                            why[0] == '\0' ? "" : ", ", why);
}

static bool time_is_over(const struct snp_run_state *state,
                         const struct snp_run_next *next,
                         struct snp_run_stop *ret)
{
    return state->budget.wall_ms > 0 && next->elapsed_ms >= state->budget.wall_ms &&
           snp_run_budget_timeout(state, next->elapsed_ms, next->watched_ms, "", ret);
}

static bool turns_are_over(const struct snp_run_state *state, struct snp_run_stop *ret)
{
    const struct snp_run_budget *budget = &state->budget;

    if (budget->max_depth > 0 && state->turn >= budget->max_depth) {
        return snp_run_stop_set(ret, "max_depth", true, "Stopped after %lld of %lld turns",
                                (long long)state->turn, (long long)budget->max_depth);
    }
    if (budget->max_subcalls > 0 && state->turn_calls >= budget->max_subcalls) {
        return snp_run_stop_set(ret, "max_subcalls", true, "Stopped after %lld of %lld model calls",
                                (long long)state->turn_calls, (long long)budget->max_subcalls);
    }
    return false;
}

/* The next request: its estimate may come from a record. */
static int64_t input_of(const struct snp_run_next *next)
{
    return next->input < (uint64_t)snp_run_sum_max ? (int64_t)next->input : snp_run_sum_max;
}

static bool tokens_are_over(const struct snp_run_state *state,
                            const struct snp_run_next *next,
                            uint64_t *most,
                            struct snp_run_stop *ret)
{
    int64_t limit = state->budget.tokens - state->base_tokens;
    int64_t used = snp_run_state_tokens(state) - state->base_tokens;
    int64_t left = limit - used - input_of(next);

    if (state->budget.tokens == 0) {
        return false;
    }
    if (used >= limit) {
        return snp_run_stop_set(ret, "token_budget", true,
                                "Token budget exhausted: %lld/%lld tokens used", (long long)used,
                                (long long)limit);
    }
    if (left < ANSWER_MIN) {
        return snp_run_stop_set(ret, "token_budget", true,
                                "Token budget exhausted: %lld/%lld tokens used, and the next call "
                                "needs about %llu before its answer",
                                (long long)used, (long long)limit, (unsigned long long)next->input);
    }
    *most = *most < (uint64_t)left ? *most : (uint64_t)left;
    return false;
}

static bool cost_is_over(const struct snp_run_state *state,
                         const struct snp_run_next *next,
                         uint64_t *most,
                         struct snp_run_stop *ret)
{
    double limit = state->budget.cost_usd;
    double left = limit - state->cost_usd - next->input_usd;
    double affordable;

    if (limit < 0) {
        return false;
    }
    if (!next->is_priced || state->is_cost_unknown) {
        return snp_run_stop_set(
            ret, "cost_unknown", false,
            "the price of the model is unknown, so the cost limit of $%.2f cannot be enforced",
            limit);
    }
    affordable = next->output_usd > 0 ? left / next->output_usd : (double)*most;
    if (state->cost_usd >= limit || left < 0 || affordable < ANSWER_MIN) {
        return snp_run_stop_set(ret, "cost_limit", !snp_run_budget_is_most(state, "cost_limit"),
                                "Cost budget exhausted: $%.4f/$%.4f USD%s",
                                state->cost_usd - state->base_cost, limit - state->base_cost,
                                state->cost_usd >= limit ? ""
                                                         : ", and the next call would pass it");
    }
    *most = affordable < (double)*most ? (uint64_t)affordable : *most;
    return false;
}

/* Repetition -------------------------------------------------------------------------------- */

static const json_t *message_at(const struct snp_run_state *state, size_t i)
{
    return json_array_get(state->messages, i);
}

/* Append ": ERROR; tried: TOOL ARGUMENTS, ..." from the last answers, newest last. */
static void tried_say(const struct snp_run_state *state, struct snp_say *out)
{
    const json_t *answers[SNP_BREAKER_TIMES];
    size_t i = json_array_size(state->messages);
    const char *result = i == 0 ? "" : snp_json_str(message_at(state, i - 1), "content", "");
    snp_autojson json_t *parsed = NULL;
    struct snp_err err;
    size_t n = 0;

    if (snp_json_parse(result, strlen(result), &parsed, &err) == 0 &&
        json_string_length(json_object_get(parsed, "error")) > 0) {
        snp_say(out, ": ");
        snp_say_string(out, json_object_get(parsed, "error"), SHOWN_ERROR);
    }
    while (i-- > 0 && n < SNP_BREAKER_TIMES) {
        if (json_array_size(json_object_get(message_at(state, i), "tool_calls")) > 0) {
            answers[n++] = json_object_get(message_at(state, i), "tool_calls");
        }
    }
    for (size_t k = n; k-- > 0;) {
        const json_t *call = json_array_get(answers[k], json_array_size(answers[k]) - 1);
        snp_autofree char *text =
            json_dumps(json_object_get(call, "arguments"), JSON_COMPACT | JSON_ENSURE_ASCII);

        snp_say(out, "%s%.40s ", k + 1 == n ? "; tried: " : ", ", snp_json_str(call, "name", ""));
        snp_say_line(out, text == NULL ? "" : text, SHOWN_CALL);
    }
}

static bool circle(const struct snp_run_state *state, struct snp_run_stop *ret)
{
    snp_autosay struct snp_say tried = SNP_SAY(SHOWN_MAX);

    if (state->breaker.n_texts >= SNP_BREAKER_TIMES) {
        return snp_run_stop_set(ret, "repeated_failure", false,
                                "The same answer came %d times in a row", SNP_BREAKER_TIMES);
    }
    tried_say(state, &tried);
    return snp_run_stop_set(
        ret, "repeated_failure", false, "The same %s came %d times in a row%s",
        state->breaker.n_errors >= SNP_BREAKER_TIMES ? "error" : "call with the same result",
        SNP_BREAKER_TIMES, snp_say_cstr(&tried));
}

bool snp_run_budget_is_over(const struct snp_run_state *state,
                            const struct snp_run_next *next,
                            uint64_t *ret_max_tokens,
                            struct snp_run_stop *ret)
{
    *ret_max_tokens = next->output_cap;
    if (snp_breaker_is_tripped(&state->breaker)) {
        return circle(state, ret);
    }
    return time_is_over(state, next, ret) || turns_are_over(state, ret) ||
           tokens_are_over(state, next, ret_max_tokens, ret) ||
           cost_is_over(state, next, ret_max_tokens, ret);
}

/* Sub-calls --------------------------------------------------------------------------------- */

/* 0 of b: no limit. */
static int64_t smaller(int64_t a, int64_t b)
{
    return b == 0 || a < b ? a : b;
}

static bool subs_are_over(const struct snp_run_state *state, struct snp_run_stop *ret)
{
    const struct snp_run_sub_limits *sub = &state->budget.sub;

    if (!sub->is_on) {
        return snp_run_stop_set(ret, "sub_calls", false, "Sub-calls are off");
    }
    if (state->nesting >= SNP_RUN_NESTING_MAX) {
        snp_run_stop_set(ret, "nesting", false,
                         "Sub-call depth exceeded: %zu/%d; do it without a sub-call",
                         state->nesting, SNP_RUN_NESTING_MAX);
        return true;
    }
    if (state->turn_subs >= sub->per_turn) {
        return snp_run_stop_set(ret, "sub_calls", true,
                                "Sub-call budget exhausted: %lld/%lld calls this turn",
                                (long long)state->turn_subs, (long long)sub->per_turn);
    }
    return false;
}

/* The cost of the request and the shortest useful answer. */
static double cost_of_shortest(const struct snp_run_sub_next *next)
{
    return next->call.input_usd + ANSWER_MIN * next->call.output_usd;
}

/* The maximum cost, from the rest of all sub-calls and of its parent; below 0: no limit. */
static bool sub_cost_is_over(const struct snp_run_state *state,
                             const struct snp_run_sub_next *next,
                             double *most,
                             struct snp_run_stop *ret)
{
    const struct snp_run_budget *budget = &state->budget;
    double spent = state->sub_cost_usd + next->reserved_usd;
    double left = budget->sub.cost_usd - spent;

    if (!next->call.is_priced || state->is_cost_unknown) {
        snp_run_stop_set(
            ret, "cost_unknown", false,
            "the price of the model is unknown, so sub_calls_max_cost_per_session cannot be "
            "enforced; give the model a price (docs/reference/models.md)");
        return true;
    }
    if (left <= 0 || cost_of_shortest(next) > left) {
        return snp_run_stop_set(ret, "sub_cost", true,
                                "Sub-call session cost exceeded: $%.4f/$%.4f", spent,
                                budget->sub.cost_usd);
    }
    *most = left;
    if (budget->cost_usd >= 0) {
        double share =
            budget->sub.inheritance * (budget->cost_usd - state->cost_usd - next->reserved_usd);

        *most = share < left ? share : left;
    }
    if (*most < cost_of_shortest(next)) {
        return snp_run_stop_set(ret, "cost_limit", true,
                                "Cost budget exhausted: $%.4f of $%.4f are left for a sub-call",
                                *most < 0 ? 0 : *most, budget->cost_usd - state->base_cost);
    }
    return false;
}

static bool sub_tokens_are_over(const struct snp_run_state *state,
                                const struct snp_run_sub_next *next,
                                int64_t *most,
                                struct snp_run_stop *ret)
{
    const struct snp_run_budget *budget = &state->budget;
    int64_t left = budget->tokens - snp_run_state_tokens(state) - next->reserved_tokens;
    int64_t share = left <= 0 ? 0 : (int64_t)((double)left * budget->sub.inheritance);

    *most = next->wanted_tokens;
    if (budget->tokens > 0 && (*most == 0 || share < *most)) {
        *most = share;
    }
    return (*most > 0 || budget->tokens > 0) && *most < input_of(&next->call) + ANSWER_MIN &&
           snp_run_stop_set(
               ret, "token_budget", true,
               "Token budget exhausted: %lld tokens are left for a sub-call that needs about %llu "
               "before its answer",
               (long long)*most, (unsigned long long)next->call.input);
}

bool snp_run_budget_sub_is_over(const struct snp_run_state *state,
                                const struct snp_run_sub_next *next,
                                struct snp_run_budget *ret_budget,
                                struct snp_run_stop *ret)
{
    const struct snp_run_budget *budget = &state->budget;
    int64_t used = snp_run_state_tokens(state);
    int64_t tokens = 0;
    double usd = -1;

    if (time_is_over(state, &next->call, ret) || subs_are_over(state, ret) ||
        sub_cost_is_over(state, next, &usd, ret) ||
        sub_tokens_are_over(state, next, &tokens, ret)) {
        return true;
    }
    *ret_budget = (struct snp_run_budget){
        .max_depth = smaller(SUB_DEPTH, budget->max_depth),
        .max_subcalls = smaller(SUB_CALLS, budget->max_subcalls),
        .tool_calls = smaller(SUB_TOOLS, budget->tool_calls),
        .tokens = tokens == 0 ? 0 : snp_run_sum(used, tokens),
        .wall_ms = smaller(next->call.elapsed_ms + SUB_WALL_MS, budget->wall_ms),
        .cost_usd = state->cost_usd + usd,
        .sub = budget->sub,
    };
    return false;
}

uint64_t snp_run_budget_sub_answer(const struct snp_run_state *state,
                                   const struct snp_run_sub_next *next,
                                   const struct snp_run_budget *budget)
{
    int64_t tokens = budget->tokens - snp_run_state_tokens(state) - input_of(&next->call);
    double usd = budget->cost_usd - state->cost_usd - next->call.input_usd;
    uint64_t most = next->call.output_cap;

    if (budget->tokens > 0 && (tokens < 0 || (uint64_t)tokens < most)) {
        most = tokens < 0 ? 0 : (uint64_t)tokens;
    }
    if (next->call.output_usd > 0 && usd / next->call.output_usd < (double)most) {
        most = usd > 0 ? (uint64_t)(usd / next->call.output_usd) : 0;
    }
    return most;
}

bool snp_run_budget_is_last_turn(const struct snp_run_state *state)
{
    const struct snp_run_budget *budget = &state->budget;

    return (budget->max_depth > 0 && state->turn + 1 >= budget->max_depth) ||
           (budget->max_subcalls > 0 && state->turn_calls + 1 >= budget->max_subcalls);
}

/* Resuming ---------------------------------------------------------------------------------- */

bool snp_run_budget_is_most(const struct snp_run_state *state, const char *limit)
{
    const struct snp_run_budget *budget = &snp_run_state_root(state)->budget;

    return is_agent(state) &&
           ((strcmp(limit, "max_iterations") == 0 &&
             budget->iterations >= SNP_AGENT_ITERATIONS_MAX) ||
            (strcmp(limit, "cost_limit") == 0 && budget->cost_usd >= SNP_AGENT_COST_USD_MAX));
}

/* Twice the limit, and at least `least` more than used. */
static int64_t more(int64_t limit, int64_t used, int64_t least)
{
    int64_t twice = snp_run_sum(limit, limit);
    int64_t enough = snp_run_sum(used, least);

    return twice > enough ? twice : enough;
}

static void limit_add(json_t *limits, const char *name, int64_t value)
{
    (void)json_object_set_new(limits, name, json_integer((json_int_t)value));
}

/* Estimated tokens of an answer, from the run's answers. */
static int64_t answer_of(const struct snp_run_state *state)
{
    int64_t mean = state->calls > 0 ? state->tokens_out / state->calls : 0;

    return mean > MORE_ANSWER ? mean : MORE_ANSWER;
}

static void tokens_resume(const struct snp_run_state *state,
                          const struct snp_run_next *next,
                          json_t *limits)
{
    int64_t limit = snp_run_state_root(state)->budget.tokens;
    int64_t used = snp_run_state_tokens(state);
    int64_t call = snp_run_sum(input_of(next), answer_of(state));
    int64_t mean = state->calls > 0 ? used / state->calls : 0;
    long long value = more(limit, used, MORE_CALLS * (call > mean ? call : mean));

    if (limit == 0 ||
        (limit - used >= snp_run_sum(input_of(next), ANSWER_MIN) && limit - used >= mean)) {
        return;
    }
    limit_add(limits, "token_budget", (value + TOKENS_ROUND - 1) / TOKENS_ROUND * TOKENS_ROUND);
}

static void cost_resume(const struct snp_run_state *state,
                        const struct snp_run_next *next,
                        json_t *limits)
{
    double limit = snp_run_state_root(state)->budget.cost_usd;
    double call = next->input_usd + (double)answer_of(state) * next->output_usd;
    double mean = state->calls > 0 ? state->cost_usd / (double)state->calls : 0;
    double value = state->cost_usd + MORE_CALLS * (call > mean ? call : mean);

    if (limit < 0 || snp_run_budget_is_most(state, "cost_limit")) {
        return;
    }
    if (!next->is_priced || state->is_cost_unknown) {
        (void)json_object_set_new(limits, "cost_limit", json_null());
    } else if (state->cost_usd >= limit || limit - state->cost_usd < mean ||
               limit - state->cost_usd < next->input_usd + ANSWER_MIN * next->output_usd) {
        value = value > 2 * limit ? value : 2 * limit;
        value = is_agent(state) && value > SNP_AGENT_COST_USD_MAX ? SNP_AGENT_COST_USD_MAX : value;
        (void)json_object_set_new(limits, "cost_limit",
                                  json_real(value > 0 ? ceil(value * 100) / 100 : 1));
    }
}

static void turns_resume(const struct snp_run_state *state, json_t *limits)
{
    const struct snp_run_level *root = snp_run_state_root(state);
    const struct snp_run_budget *budget = &root->budget;
    bool is_over = budget->max_depth > 0 && root->turn >= budget->max_depth;

    if (is_agent(state) && budget->iterations > 0 && state->iteration >= budget->iterations) {
        int64_t value = more(budget->iterations, state->iteration, MORE_CALLS);

        if (!snp_run_budget_is_most(state, "max_iterations")) {
            limit_add(limits, "max_iterations",
                      value < SNP_AGENT_ITERATIONS_MAX ? value : SNP_AGENT_ITERATIONS_MAX);
        }
    } else if (!is_agent(state) && is_over) {
        limit_add(limits, "max_depth", more(budget->max_depth, root->turn, MORE_CALLS));
    }
    if (budget->max_subcalls > 0 && root->turn_calls >= budget->max_subcalls) {
        limit_add(limits, "max_subcalls", more(budget->max_subcalls, root->turn_calls, MORE_CALLS));
    }
}

json_t *snp_run_budget_resume(const struct snp_run_state *state, const struct snp_run_next *next)
{
    int64_t limit = snp_run_state_root(state)->budget.wall_ms;
    json_t *limits = json_object();

    turns_resume(state, limits);
    tokens_resume(state, next, limits);
    cost_resume(state, next, limits);
    if (limit > 0 && next->elapsed_ms >= limit) {
        limit_add(limits, "timeout", more(limit / 1000, next->elapsed_ms / 1000 + 1, MORE_SECONDS));
    }
    return limits;
}
