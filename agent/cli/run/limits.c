/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/limits.h"

#include <stddef.h>

#include "base/buf.h"
#include "base/cli/remedy.h"
#include "base/str.h"
#include "run/agent_limits.h"

enum {
    MS = 1000,
    OPTIONS_MAX = 256,
};

/* In force ---------------------------------------------------------------------------------- */

/* Each limit is a configuration key; options and settings of programs override it there. */
static const struct limit {
    enum snp_config_key key;
    size_t at; /* in struct snp_run_budget */
    int64_t unit;
    int64_t of_agent;  /* an agent's default; 0 = a run's */
    int64_t agent_max; /* 0 = a run's; below 0 = a limit of runs only */
} keys[] = {
    {SNP_KEY_MAX_DEPTH, offsetof(struct snp_run_budget, max_depth), 1, SNP_AGENT_DEPTH,
     SNP_AGENT_DEPTH_MAX},
    {SNP_KEY_MAX_SUBCALLS, offsetof(struct snp_run_budget, max_subcalls), 1, 0, -1},
    {SNP_KEY_TOKEN_BUDGET, offsetof(struct snp_run_budget, tokens), 1, SNP_AGENT_TOKENS, 0},
    {SNP_KEY_TOOL_BUDGET, offsetof(struct snp_run_budget, tool_calls), 1, SNP_AGENT_TOOLS,
     SNP_AGENT_TOOLS_MAX},
    {SNP_KEY_TIMEOUT_SECONDS, offsetof(struct snp_run_budget, wall_ms), MS, 0, 0},
};

/*
 * Runs share the keys and have higher limits, so a configured value is lowered to the agent's
 * maximum silently. Only an option above the maximum prints a warning. An untrusted file cannot
 * raise an agent's default.
 */
static int of_agent(const struct snp_front *front,
                    const struct limit *row,
                    int64_t *value,
                    struct snp_err *err)
{
    const char *source = snp_config_source(front->config, row->key);
    bool is_option = snp_config_origin(front->config, row->key) == SNP_ORIGIN_CLI;
    int64_t most = row->agent_max;

    if (is_option && *value < 1) {
        return snp_fail(err, SNP_E_INVALID, "%s must be at least 1", source);
    }
    if (row->of_agent != 0 && snp_config_origin(front->config, row->key) == SNP_ORIGIN_DEFAULT) {
        *value = row->of_agent;
    }
    if (row->of_agent != 0 && !snp_config_is_users(front->config, row->key)) {
        most = row->of_agent;
    }
    if (most > 0 && (*value < 1 || *value > most)) {
        *value = most;
        if (is_option) {
            snp_front_warn(front, "%s is at most %lld; using that", source, (long long)most);
        }
    }
    return 0;
}

static int iterations_take(const struct snp_front *front, int64_t *ret, struct snp_err *err)
{
    *ret = snp_opts_int(front->opts, "max-iterations", SNP_AGENT_ITERATIONS);
    if (*ret < 1) {
        return snp_fail(err, SNP_E_INVALID, "--max-iterations must be at least 1");
    }
    if (*ret > SNP_AGENT_ITERATIONS_MAX) {
        snp_front_warn(front, "--max-iterations is at most %d; using that",
                       SNP_AGENT_ITERATIONS_MAX);
        *ret = SNP_AGENT_ITERATIONS_MAX;
    }
    return 0;
}

static int cost_take(const struct snp_front *front, bool is_agent, double *ret, struct snp_err *err)
{
    const char *text = snp_opts_str(front->opts, "cost-limit");

    *ret = snp_config_float(front->config, SNP_KEY_COST_LIMIT);
    if (is_agent && snp_streq(text, SNP_COST_UNPRICED)) {
        *ret = -1;
        return 0;
    }
    SNP_TRY(snp_front_cost(text, ret, err));
    if (is_agent && *ret > SNP_AGENT_COST_USD_MAX) {
        if (text != NULL) {
            snp_front_warn(front, "--cost-limit is at most %.0f, or none; using that",
                           SNP_AGENT_COST_USD_MAX);
        }
        *ret = SNP_AGENT_COST_USD_MAX;
    }
    return 0;
}

static int keys_take(const struct snp_front *front,
                     bool is_agent,
                     struct snp_run_budget *ret,
                     struct snp_err *err)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(keys); i++) {
        const struct limit *row = &keys[i];
        int64_t value = snp_config_int(front->config, row->key);
        int r = is_agent && row->agent_max >= 0 ? of_agent(front, row, &value, err) : 0;

        SNP_TRY(r);
        if (is_agent && row->agent_max < 0) {
            continue;
        }
        *(int64_t *)(void *)((char *)ret + row->at) = value * row->unit;
    }
    return 0;
}

int snp_run_limits(const struct snp_front *front,
                   enum snp_run_kind kind,
                   struct snp_run_budget *ret,
                   struct snp_err *err)
{
    const struct snp_config *config = front->config;
    bool is_agent = kind == SNP_RUN_AGENT;

    *ret = (struct snp_run_budget){0};
    SNP_TRY(keys_take(front, is_agent, ret, err));
    if (is_agent) {
        SNP_TRY(iterations_take(front, &ret->iterations, err));
    }
    ret->sub = (struct snp_run_sub_limits){
        .is_on = snp_config_bool(config, SNP_KEY_SUB_CALLS_ENABLED),
        .per_turn = snp_config_int(config, SNP_KEY_SUB_CALLS_MAX_PER_TURN),
        .inheritance = snp_config_float(config, SNP_KEY_SUB_CALLS_BUDGET_INHERITANCE),
        .cost_usd = snp_config_float(config, SNP_KEY_SUB_CALLS_MAX_COST_PER_SESSION),
    };
    return cost_take(front, is_agent, &ret->cost_usd, err);
}

void snp_run_limits_cap(const struct snp_front *front, json_t *budget)
{
    static const struct {
        const char *member;
        const char *option;
        int64_t most;
    } rows[] = {
        {"max_iterations", "max-iterations", SNP_AGENT_ITERATIONS_MAX},
        {"max_depth", "max-depth", SNP_AGENT_DEPTH_MAX},
        {"tool_budget", "tool-budget", SNP_AGENT_TOOLS_MAX},
        {"cost_limit", "cost-limit", (int64_t)SNP_AGENT_COST_USD_MAX},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (json_number_value(json_object_get(budget, rows[i].member)) > (double)rows[i].most) {
            snp_front_warn(front, "--%s is at most %lld; using that", rows[i].option,
                           (long long)rows[i].most);
            (void)json_object_set_new(budget, rows[i].member, json_integer(rows[i].most));
        }
    }
}

/* Remedies ---------------------------------------------------------------------------------- */

static const struct remedy_row {
    const char *limit;
    const char *option;
    const char *of_agent; /* NULL = the same */
    const char *setting;  /* the name in programs; NULL = the limit's name */
} rows[] = {
    {"max_iterations", "--max-iterations", NULL, NULL},
    {"max_depth", "--max-depth", NULL, NULL},
    {"max_subcalls", "--max-calls", NULL, NULL},
    {"token_budget", "--token-budget", "--budget", NULL},
    {"cost_limit", "--cost-limit", NULL, NULL},
    {"timeout", "--timeout", NULL, "timeout_seconds"},
    {"sub_calls", "--max-sub-calls", NULL, "sub_calls_max_per_turn"},
    {"sub_cost", "sub_calls_max_cost_per_session", NULL, "sub_calls_max_cost_per_session"},
};

/* The reader of a remedy. */
struct remedy_reader {
    bool is_agent;
    bool is_caller;
};

static const char *option_of(const struct remedy_row *row, const struct remedy_reader *reader)
{
    if (reader->is_caller) {
        return row->setting != NULL ? row->setting : row->limit;
    }
    return reader->is_agent && row->of_agent != NULL ? row->of_agent : row->option;
}

/* The option that raises the limit; NULL = none. */
static const char *raise_with(const struct snp_remedy *remedy, const struct remedy_reader *reader)
{
    for (size_t i = 0;
         remedy->kind == SNP_REMEDY_RAISE_LIMIT && remedy->value == 0 && i < SNP_ARRAY_LEN(rows);
         i++) {
        if (snp_streq(rows[i].limit, remedy->name)) {
            return option_of(&rows[i], reader);
        }
    }
    return NULL;
}

static json_t *resume_with(const json_t *limits, const struct remedy_reader *reader)
{
    snp_autobuf struct snp_buf text = {0};
    int r = 0;

    snp_buf_init(&text, OPTIONS_MAX);
    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(rows); i++) {
        const json_t *value = json_object_get(limits, rows[i].limit);

        if (value == NULL) {
            continue;
        }
        r = snp_buf_addf(&text, "%s%s%s", text.len == 0 ? "" : " ", option_of(&rows[i], reader),
                         reader->is_caller ? "=" : " ");
        if (r == 0) {
            r = json_is_real(value) ? snp_buf_addf(&text, "%.2f", json_real_value(value))
                : json_is_null(value)
                    ? snp_buf_adds(&text, "none")
                    : snp_buf_addf(&text, "%lld", (long long)json_integer_value(value));
        }
    }
    return r < 0 || text.len == 0 ? json_null() : json_string(snp_buf_cstr(&text));
}

void snp_run_way_out(json_t *result, bool is_agent, bool is_caller)
{
    const struct remedy_reader reader = {is_agent, is_caller};
    const char *error = snp_json_str(result, "error", NULL);
    const char *option;
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_LIMIT, "%s", error == NULL ? "" : error);
    snp_err_about(&err, snp_json_str(result, "session", ""));
    snp_json_to_remedy(json_object_get(result, "remedy"), &err.remedy);
    option = raise_with(&err.remedy, &reader);
    if (error != NULL && !is_caller) {
        (void)json_object_set_new(result, "error",
                                  option == NULL
                                      ? snp_cli_remedy_text(&err)
                                      : json_sprintf("%s; %s raises the limit", err.msg, option));
    }
    (void)json_object_set_new(result, "raise_with",
                              option == NULL ? json_null() : json_string(option));
    (void)json_object_set_new(result, "resume_with",
                              resume_with(json_object_get(result, "resume_with"), &reader));
}
