/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets. The messages are those of the product before ours, with the way out behind them. */
#include "run/budget.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    ANSWER_MIN = 64 /* tokens: an answer that is certain to be shorter is not asked for */
};

void snp_run_stop_set(
    struct snp_run_stop *stop, const char *by, const char *option, const char *fmt, ...)
{
    va_list args;
    int n;

    stop->by = by;
    stop->option = option;
    va_start(args, fmt);
    n = vsnprintf(stop->message, sizeof(stop->message), fmt, args);
    va_end(args);
    if (option != NULL && n > 0 && (size_t)n < sizeof(stop->message)) {
        (void)snprintf(stop->message + n, sizeof(stop->message) - (size_t)n,
                       "; %s raises the limit", option);
    }
}

static bool is_agent(const struct snp_run_state *state)
{
    return state->kind == SNP_RUN_AGENT;
}

void snp_run_budget_timeout(const struct snp_run_state *state,
                            int64_t elapsed_ms,
                            struct snp_run_stop *ret)
{
    snp_run_stop_set(ret, "timeout", "--timeout", "Execution timeout exceeded: %.1fs/%.1fs",
                     (double)elapsed_ms / 1000, (double)state->budget.wall_ms / 1000);
}

static bool time_is_over(const struct snp_run_state *state,
                         const struct snp_run_next *next,
                         struct snp_run_stop *ret)
{
    if (state->budget.wall_ms == 0 || next->elapsed_ms < state->budget.wall_ms) {
        return false;
    }
    snp_run_budget_timeout(state, next->elapsed_ms, ret);
    return true;
}

static bool turns_are_over(const struct snp_run_state *state, struct snp_run_stop *ret)
{
    const struct snp_run_budget *budget = &state->budget;

    if (budget->max_depth > 0 && state->turn >= budget->max_depth) {
        snp_run_stop_set(ret, "max_depth", "--max-depth",
                         "Maximum recursion depth exceeded: %lld/%lld", (long long)state->turn,
                         (long long)budget->max_depth);
        return true;
    }
    if (budget->max_subcalls > 0 && state->turn_calls >= budget->max_subcalls) {
        snp_run_stop_set(ret, "max_subcalls", "--max-sub-calls",
                         "Maximum model calls exceeded: %lld/%lld",
                         (long long)state->turn_calls, (long long)budget->max_subcalls);
        return true;
    }
    return false;
}

static bool tokens_are_over(const struct snp_run_state *state,
                            const struct snp_run_next *next,
                            uint64_t *most,
                            struct snp_run_stop *ret)
{
    const char *option = is_agent(state) ? "--budget" : "--token-budget";
    int64_t limit = state->budget.tokens;
    int64_t used = state->tokens_in + state->tokens_out;
    int64_t left = limit - used - (int64_t)next->input;

    if (limit == 0) {
        return false;
    }
    if (used >= limit) {
        snp_run_stop_set(ret, "token_budget", option,
                         "Token budget exhausted: %lld/%lld tokens used", (long long)used,
                         (long long)limit);
        return true;
    }
    if (left < ANSWER_MIN) {
        snp_run_stop_set(ret, "token_budget", option,
                         "Token budget exhausted: %lld/%lld tokens used, and the next call "
                         "needs about %llu before its answer",
                         (long long)used, (long long)limit, (unsigned long long)next->input);
        return true;
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
        snp_run_stop_set(ret, "cost_unknown", NULL,
                         "the price of the model is not known, so the cost limit of $%.2f "
                         "cannot hold; give the model a price, or --cost-limit none",
                         limit);
        return true;
    }
    affordable = next->output_usd > 0 ? left / next->output_usd : (double)*most;
    if (state->cost_usd >= limit || left < 0 || affordable < ANSWER_MIN) {
        snp_run_stop_set(ret, "cost_limit", "--cost-limit",
                         "Cost budget exhausted: $%.4f/$%.4f USD%s", state->cost_usd, limit,
                         state->cost_usd >= limit ? "" : ", and the next call would pass it");
        return true;
    }
    *most = affordable < (double)*most ? (uint64_t)affordable : *most;
    return false;
}

bool snp_run_budget_is_over(const struct snp_run_state *state,
                            const struct snp_run_next *next,
                            uint64_t *ret_max_tokens,
                            struct snp_run_stop *ret)
{
    *ret_max_tokens = next->output_cap;
    if (snp_breaker_is_tripped(&state->breaker)) {
        snp_run_stop_set(ret, "repeated_failure", NULL, "The same %s came %d times in a row",
                         state->breaker.n_errors >= SNP_BREAKER_TIMES
                             ? "error"
                             : "call with the same result",
                         SNP_BREAKER_TIMES);
        return true;
    }
    return time_is_over(state, next, ret) || turns_are_over(state, ret) ||
           tokens_are_over(state, next, ret_max_tokens, ret) ||
           cost_is_over(state, next, ret_max_tokens, ret);
}

bool snp_run_budget_is_last_turn(const struct snp_run_state *state)
{
    const struct snp_run_budget *budget = &state->budget;

    return (budget->max_depth > 0 && state->turn + 1 >= budget->max_depth) ||
           (budget->max_subcalls > 0 && state->turn_calls + 1 >= budget->max_subcalls);
}
