/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a run, from its records. */
#include "run/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "trajectory/reader.h"

enum {
    PREVIEW_CHARS = 200,
    PATHS_MAX = 10000,          /* of one set of files */
    CALL_USD_MAX = 1000000000,  /* a record's larger cost of a call is treated as unknown */
    LIMIT_USD_MAX = 1000000000, /* a higher limit is clamped to this */
};

/* Sums -------------------------------------------------------------------------------------- */

/*
 * A number of a record: 0 to snp_run_sum_max, but a negative limit stays negative: it allows
 * nothing.
 */
static int64_t bounded(const json_t *object, const char *member, int64_t least, int64_t fallback)
{
    int64_t value = snp_json_int(object, member, fallback);

    value = value < least ? least : value;
    return value < snp_run_sum_max ? value : snp_run_sum_max;
}

int64_t snp_run_number(const json_t *record, const char *member)
{
    return bounded(record, member, 0, 0);
}

int64_t snp_run_sum(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) || sum > snp_run_sum_max ? snp_run_sum_max : sum;
}

int64_t snp_run_state_tokens(const struct snp_run_state *state)
{
    return snp_run_sum(state->tokens_in, state->tokens_out);
}

/* Budgets ----------------------------------------------------------------------------------- */

static double number(const json_t *object, const char *member, double fallback)
{
    const json_t *value = json_object_get(object, member);

    return json_is_number(value) ? json_number_value(value) : fallback;
}

static double within(double value, double least, double most)
{
    value = value < least ? least : value;
    return value < most ? value : most;
}

json_t *snp_run_budget_to_json(const struct snp_run_budget *budget)
{
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:I, s:f, s:f}", "max_depth",
        (json_int_t)budget->max_depth, "max_subcalls", (json_int_t)budget->max_subcalls,
        "token_budget", (json_int_t)budget->tokens, "tool_budget", (json_int_t)budget->tool_calls,
        "max_iterations", (json_int_t)budget->iterations, "timeout_ms", (json_int_t)budget->wall_ms,
        "cost_limit", budget->cost_usd, "sub_calls_enabled", budget->sub.is_on,
        "sub_calls_max_per_turn", (json_int_t)budget->sub.per_turn, "sub_calls_budget_inheritance",
        budget->sub.inheritance, "sub_calls_max_cost_per_session", budget->sub.cost_usd);
}

void snp_run_budget_from_json(const json_t *object, struct snp_run_budget *ret)
{
    *ret = (struct snp_run_budget){
        .max_depth = bounded(object, "max_depth", -1, 0),
        .max_subcalls = bounded(object, "max_subcalls", -1, 0),
        .tokens = bounded(object, "token_budget", -1, 0),
        .tool_calls = bounded(object, "tool_budget", -1, 0),
        .iterations = bounded(object, "max_iterations", -1, 0),
        .wall_ms = bounded(object, "timeout_ms", -1, 0),
        .cost_usd = within(number(object, "cost_limit", -1), -1, LIMIT_USD_MAX),
        .sub = {.is_on = snp_json_bool(object, "sub_calls_enabled", false),
                .per_turn = bounded(object, "sub_calls_max_per_turn", -1, 0),
                .inheritance = within(number(object, "sub_calls_budget_inheritance", 0), 0, 1),
                .cost_usd =
                    within(number(object, "sub_calls_max_cost_per_session", 0), 0, LIMIT_USD_MAX)},
    };
}

/* Init and done ----------------------------------------------------------------------------- */

static int level_init(struct snp_run_level *level)
{
    *level = (struct snp_run_level){
        .messages = json_array(),
        .results = json_array(),
        .cells = json_array(),
        .sub_open = json_array(),
        .sub_done = json_array(),
    };
    return level->messages == NULL || level->results == NULL || level->cells == NULL ||
                   level->sub_open == NULL || level->sub_done == NULL
               ? SNP_E_NOMEM
               : 0;
}

static void level_done(struct snp_run_level *level)
{
    json_t *const owned[] = {
        level->messages, level->ask,      level->prompt,  level->answer, level->tool, level->batch,
        level->sub_open, level->sub_done, level->results, level->cells,  level->text, level->final,
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(owned); i++) {
        json_decref(owned[i]);
    }
    *level = (struct snp_run_level){0};
}

int snp_run_state_init(struct snp_run_state *state)
{
    *state = (struct snp_run_state){
        .events = json_array(),
        .iterations = json_array(),
        .files = {json_object(), json_object(), json_object()},
    };
    return level_init(&state->level) < 0 || state->events == NULL || state->iterations == NULL ||
                   state->files.created == NULL || state->files.modified == NULL ||
                   state->files.deleted == NULL
               ? SNP_E_NOMEM
               : 0;
}

void snp_run_state_done(struct snp_run_state *state)
{
    json_t *const owned[] = {
        state->head,          state->events,         state->iterations,
        state->files.created, state->files.modified, state->files.deleted,
        state->end,           state->iteration_text, state->verdict,
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(owned); i++) {
        json_decref(owned[i]);
    }
    snp_run_attempt_done(&state->attempt);
    level_done(&state->level);
    for (size_t i = 0; i < state->nesting; i++) {
        level_done(&state->outer[i]);
    }
    *state = (struct snp_run_state){0};
}

const struct snp_run_level *snp_run_state_root(const struct snp_run_state *state)
{
    return state->nesting == 0 ? &state->level : &state->outer[0];
}

bool snp_run_state_is_completion(const struct snp_run_state *state)
{
    return state->kind == SNP_RUN_COMPLETION || state->nesting > 0;
}

int64_t snp_run_state_depth(const struct snp_run_state *state)
{
    return state->base_depth + state->turn - 1;
}

/* Replace a value (with a new reference or NULL). */
static void put(json_t **place, json_t *value)
{
    json_decref(*place);
    *place = value;
}

static json_t *share(const json_t *value)
{
    return json_incref((json_t *)(uintptr_t)value);
}

const json_t *snp_run_state_calls(const struct snp_run_state *state)
{
    return json_object_get(json_object_get(state->answer, "answer"), "tool_calls");
}

/* Records ----------------------------------------------------------------------------------- */

static int message_add(struct snp_run_state *state, json_t *message)
{
    return message == NULL || json_array_append_new(state->messages, message) < 0 ? SNP_E_NOMEM : 0;
}

static int messages_take(struct snp_run_state *state, const json_t *messages)
{
    size_t i;
    json_t *message;

    json_array_foreach((json_t *)(uintptr_t)messages, i, message)
    {
        if (json_array_append(state->messages, message) < 0) {
            return SNP_E_NOMEM;
        }
    }
    return 0;
}

static int apply_head(struct snp_run_state *state, const json_t *record)
{
    put(&state->head, share(record));
    state->kind =
        snp_streq(snp_json_str(record, "kind", ""), "agent") ? SNP_RUN_AGENT : SNP_RUN_COMPLETION;
    snp_run_budget_from_json(json_object_get(record, "budget"), &state->budget);
    return messages_take(state, json_object_get(record, "messages"));
}

static int apply_message(struct snp_run_state *state, const json_t *record)
{
    if (snp_streq(snp_json_str(record, "why", ""), "last_turn")) {
        state->has_last_note = true;
    }
    return message_add(state, json_pack("{s:s, s:O}", "role", "user", "content",
                                        json_object_get(record, "content")));
}

json_t *snp_run_state_summary(const struct snp_run_state *state)
{
    const char *text =
        state->iteration_text == NULL ? "" : json_string_value(state->iteration_text);
    size_t n = 0;

    for (size_t chars = 0; text[n] != '\0' && chars < PREVIEW_CHARS; chars++) {
        n++;
        while (((unsigned char)text[n] & 0xc0U) == 0x80U) {
            n++;
        }
    }
    return json_pack("{s:I, s:I, s:o, s:I, s:o}", "iteration", (json_int_t)state->iteration - 1,
                     "tokens", (json_int_t)state->iteration_tokens, "cost",
                     state->is_cost_unknown ? json_null() : json_real(state->iteration_cost),
                     "tool_calls", (json_int_t)state->iteration_tools, "response_preview",
                     json_stringn(text, n));
}

static int apply_iteration(struct snp_run_state *state, const json_t *record)
{
    if (state->nesting > 0) {
        return SNP_E_INVALID;
    }
    if (state->iteration > 0 &&
        json_array_append_new(state->iterations, snp_run_state_summary(state)) < 0) {
        return SNP_E_NOMEM;
    }
    state->iteration++;
    state->turn = 0;
    state->turn_calls = 0;
    state->turn_tools = 0;
    state->turn_subs = 0;
    state->iteration_tokens = 0;
    state->iteration_cost = 0;
    state->iteration_tools = 0;
    put(&state->iteration_text, NULL);
    state->has_last_note = false;
    return apply_message(state, record);
}

/*
 * Add results for calls that were not run because the answer was final: providers require a result
 * of each.
 */
static int results_fill(struct snp_run_state *state)
{
    size_t n = json_array_size(state->messages);
    size_t at = n;
    const json_t *calls;
    int r = 0;

    while (at > 0 && !snp_streq(snp_json_str(json_array_get(state->messages, at - 1), "role", ""),
                                "assistant")) {
        at--;
    }
    calls = at == 0 ? NULL : json_object_get(json_array_get(state->messages, at - 1), "tool_calls");
    for (size_t i = n - at; i < json_array_size(calls) && r == 0; i++) {
        r = message_add(state, json_pack("{s:s, s:O?, s:s}", "role", "tool", "tool_call_id",
                                         json_object_get(json_array_get(calls, i), "id"), "content",
                                         "Not run: the answer before it was final."));
    }
    return r;
}

/* A verdict on the final answer; with feedback it was not final. */
static int apply_verdict(struct snp_run_state *state, const json_t *record)
{
    const json_t *feedback = json_object_get(record, "feedback");
    int r;

    if (state->nesting > 0 || state->final == NULL) {
        return SNP_E_INVALID;
    }
    state->n_verdicts =
        json_equal(json_object_get(state->verdict, "reasons"), json_object_get(record, "reasons"))
            ? state->n_verdicts + 1
            : 1;
    put(&state->verdict, share(record));
    state->is_judged = !json_is_string(feedback);
    if (state->is_judged) {
        return 0;
    }
    put(&state->final, NULL);
    snp_run_attempt_end(&state->attempt);
    r = results_fill(state);
    return r < 0 ? r
                 : message_add(state, json_pack("{s:s, s:O}", "role", "user", "content", feedback));
}

/* The next attempt begins; the session of the previous attempt no longer exists. */
static int apply_attempt(struct snp_run_state *state, const json_t *record)
{
    (void)record;
    if (!state->attempt.is_over) {
        return SNP_E_INVALID;
    }
    snp_run_attempt_next(&state->attempt);
    state->last_cell = 0;
    return json_object_clear(state->files.created) < 0 ||
                   json_object_clear(state->files.modified) < 0 ||
                   json_object_clear(state->files.deleted) < 0
               ? SNP_E_NOMEM
               : 0;
}

static int apply_ask(struct snp_run_state *state, const json_t *record)
{
    const json_t *last = json_array_get(state->messages, json_array_size(state->messages) - 1);

    put(&state->ask, share(record));
    put(&state->prompt, share(json_object_get(last, "content")));
    return 0;
}

/* Add the use of a model call, from its record; cost: a number, or unknown. */
static void use_add(
    struct snp_run_state *state, int64_t in, int64_t out, const json_t *cost, bool is_sub)
{
    double said = json_is_number(cost) ? json_number_value(cost) : -1;
    bool is_known = said >= 0 && said <= CALL_USD_MAX;
    double usd = is_known ? said : 0;

    state->calls++;
    state->sub_calls += is_sub ? 1 : 0;
    state->tokens_in = snp_run_sum(state->tokens_in, in);
    state->tokens_out = snp_run_sum(state->tokens_out, out);
    state->iteration_tokens = snp_run_sum(state->iteration_tokens, snp_run_sum(in, out));
    state->cost_usd += usd;
    state->iteration_cost += usd;
    state->sub_cost_usd += is_sub ? usd : 0;
    if (!is_known && (in > 0 || out > 0 || json_is_number(cost))) {
        state->is_cost_unknown = true;
    }
}

static void usage_add(struct snp_run_state *state, const json_t *answer)
{
    const json_t *usage = json_object_get(answer, "usage");

    use_add(state, snp_run_number(usage, "input"), snp_run_number(usage, "output"),
            json_object_get(answer, "cost_usd"), state->nesting > 0);
    state->is_estimated = state->is_estimated || snp_json_bool(usage, "estimated", false);
}

static int apply_answer(struct snp_run_state *state, const json_t *record)
{
    const json_t *answer = json_object_get(record, "answer");
    const json_t *message = json_object_get(answer, "message");
    const json_t *content = json_object_get(message, "content");

    if (state->ask == NULL) {
        return SNP_E_INVALID;
    }
    put(&state->ask, NULL);
    state->turn_calls++;
    usage_add(state, answer);
    if (!snp_json_bool(answer, "ok", false)) {
        return 0; /* unknown, or failed: no text */
    }
    state->turn++;
    state->turn_subs = 0;
    put(&state->answer, share(record));
    state->next_call = 0;
    put(&state->results, json_array()); /* events hold the old ones */
    put(&state->cells, json_array());
    if (state->results == NULL || state->cells == NULL) {
        return SNP_E_NOMEM;
    }
    if (json_string_length(content) > 0) {
        snp_run_attempt_text(&state->attempt, json_string_value(content));
        if (state->nesting == 0) {
            put(&state->iteration_text, share(content));
        }
        put(&state->text,
            state->is_cut && state->text != NULL
                ? json_sprintf("%s%s", json_string_value(state->text), json_string_value(content))
                : share(content));
    }
    state->is_cut = snp_streq(snp_json_str(answer, "stop", ""), "length");
    if (json_array_size(snp_run_state_calls(state)) > 0) {
        return message_add(state, share(message));
    }
    snp_breaker_say(&state->breaker, snp_json_str(message, "content", ""));
    if (snp_run_state_is_completion(state) && !state->is_cut) {
        put(&state->final, json_pack("{s:o, s:s}", "answer",
                                     state->text == NULL ? json_string("") : share(state->text),
                                     "answer_source", "final"));
    }
    return message_add(state, share(message));
}

static int paths_add(json_t *set, const json_t *paths)
{
    size_t i;
    json_t *path;

    json_array_foreach((json_t *)(uintptr_t)paths, i, path)
    {
        if (json_is_string(path) && json_object_size(set) < PATHS_MAX &&
            json_object_set_new(set, json_string_value(path), json_true()) < 0) {
            return SNP_E_NOMEM;
        }
    }
    return 0;
}

static int files_add(struct snp_run_state *state, const json_t *files)
{
    struct snp_run_files *sets = &state->files;
    const json_t *deleted = json_object_get(files, "deleted");
    int r = paths_add(sets->created, json_object_get(files, "created"));
    const char *key;
    json_t *value;
    size_t i;
    json_t *path;

    r = r < 0 ? r : paths_add(sets->modified, json_object_get(files, "modified"));
    json_object_foreach(sets->created, key, value)
    {
        (void)json_object_del(sets->modified, key);
        (void)json_object_del(sets->deleted, key);
    }
    json_array_foreach((json_t *)(uintptr_t)deleted, i, path)
    {
        const char *name = json_string_value(path);

        /* A file that the run created and deleted leaves no trace. */
        if (name != NULL && json_object_del(sets->created, name) < 0) {
            (void)json_object_del(sets->modified, name);
            r = r < 0 || json_object_set_new(sets->deleted, name, json_true()) < 0 ? SNP_E_NOMEM
                                                                                   : 0;
        }
    }
    return r;
}

/* Return from a sub-call to its caller. */
static int level_leave(struct snp_run_state *state)
{
    if (state->nesting == 0 || state->answer != NULL || state->ask != NULL) {
        return SNP_E_INVALID;
    }
    level_done(&state->level);
    state->level = state->outer[--state->nesting];
    return 0;
}

static int result_take(struct snp_run_state *state, const json_t *record)
{
    const json_t *calls = snp_run_state_calls(state);
    const json_t *call = json_array_get(calls, state->next_call);
    const json_t *content = json_object_get(record, "content");
    const char *name = snp_json_str(call, "name", "");
    bool is_error = snp_json_bool(record, "is_error", false);
    int64_t cell = snp_json_int(record, "cell", 0);
    json_t *result;
    int r;

    if (call == NULL || !json_is_string(content)) {
        return SNP_E_INVALID;
    }
    state->n_begun -= state->n_begun > 0 ? 1 : 0;
    if (state->n_begun == 0) {
        put(&state->tool, NULL);
    }
    put(&state->batch, NULL);
    put(&state->sub_open, json_array());
    put(&state->sub_done, json_array());
    if (state->sub_open == NULL || state->sub_done == NULL) {
        return SNP_E_NOMEM;
    }
    state->next_call++;
    state->last_cell = cell > 0 ? cell : state->last_cell;
    if (!snp_json_bool(record, "skipped", false)) {
        state->tool_calls++;
        state->turn_tools++;
        state->iteration_tools++;
        snp_breaker_add(&state->breaker, snp_json_int(state->answer, "seq", state->calls), name,
                        json_object_get(call, "arguments"), json_string_value(content),
                        is_error ? snp_json_str(record, "error", json_string_value(content))
                                 : NULL);
    }
    result = json_pack("{s:O, s:O, s:b}", "tool_call_id", json_object_get(call, "id"), "content",
                       content, "is_error", is_error);
    r = result == NULL || json_array_append_new(state->results, result) < 0 ? SNP_E_NOMEM : 0;
    if (r == 0 && cell > 0 &&
        json_array_append_new(state->cells, json_integer((json_int_t)cell)) < 0) {
        r = SNP_E_NOMEM;
    }
    r = r < 0 ? r : files_add(state, json_object_get(record, "files"));
    if (cell > 0) {
        snp_run_attempt_call(&state->attempt, json_object_get(state->head, "repair"), call,
                             json_object_get(record, "files"));
    }
    if (json_is_object(json_object_get(record, "final"))) {
        put(&state->final, share(json_object_get(record, "final")));
    }
    return r < 0 ? r
                 : message_add(state, json_pack("{s:s, s:O, s:s, s:O, s:b}", "role", "tool",
                                                "tool_call_id", json_object_get(call, "id"), "name",
                                                name, "content", content, "is_error", is_error));
}

static int apply_tool_result(struct snp_run_state *state, const json_t *record)
{
    int r = snp_json_bool(record, "ends_sub", false) ? level_leave(state) : 0;

    return r < 0 ? r : result_take(state, record);
}

/* The index of the item with this call_id; the array's size if none. */
static size_t place_of(const json_t *list, const json_t *record)
{
    const char *id = snp_json_str(record, "call_id", "");
    size_t i = 0;
    json_t *each;

    json_array_foreach((json_t *)(uintptr_t)list, i, each)
    {
        if (strcmp(snp_json_str(each, "call_id", ""), id) == 0) {
            break;
        }
    }
    return i;
}

/* The answer of a sub-call without turns, possibly one of several open ones. */
static int apply_sub_event(struct snp_run_state *state, const json_t *record)
{
    size_t at = place_of(state->sub_open, record);

    if (at == json_array_size(state->sub_open)) {
        return SNP_E_INVALID;
    }
    (void)json_array_remove(state->sub_open, at);
    use_add(state, snp_run_number(record, "input_tokens"), snp_run_number(record, "output_tokens"),
            json_object_get(record, "estimated_cost_usd"), true);
    state->is_estimated = state->is_estimated || snp_json_bool(record, "tokens_estimated", false);
    return json_array_append(state->sub_done, (json_t *)(uintptr_t)record) < 0 ||
                   json_array_append(state->events, (json_t *)(uintptr_t)record) < 0
               ? SNP_E_NOMEM
               : 0;
}

static int apply_event(struct snp_run_state *state, const json_t *record)
{
    if (json_object_get(record, "sub_index") != NULL) {
        return apply_sub_event(state, record);
    }
    (void)snprintf(state->last_call_id, sizeof(state->last_call_id), "%s",
                   snp_json_str(record, "call_id", ""));
    put(&state->answer, NULL);
    return json_array_append(state->events, (json_t *)(uintptr_t)record) < 0 ? SNP_E_NOMEM : 0;
}

static int apply_batch(struct snp_run_state *state, const json_t *record)
{
    put(&state->batch, share(record));
    return 0;
}

static int apply_sub_ask(struct snp_run_state *state, const json_t *record)
{
    if (state->answer == NULL ||
        place_of(state->sub_open, record) < json_array_size(state->sub_open)) {
        return SNP_E_INVALID;
    }
    state->turn_subs += snp_json_bool(record, "again", false) ? 0 : 1;
    return json_array_append(state->sub_open, (json_t *)(uintptr_t)record) < 0 ? SNP_E_NOMEM : 0;
}

/* A sub-call with turns begins: its completion is above the present one until it ends. */
static int apply_sub(struct snp_run_state *state, const json_t *record)
{
    struct snp_run_level below = state->level;
    int64_t depth = snp_run_state_depth(state) + 1;
    struct snp_run_level above;

    if (state->answer == NULL || state->nesting >= SNP_RUN_NESTING_MAX) {
        return SNP_E_INVALID;
    }
    if (level_init(&above) < 0) {
        level_done(&above);
        return SNP_E_NOMEM;
    }
    below.turn_subs++;
    state->outer[state->nesting++] = below;
    state->level = above;
    snp_run_budget_from_json(json_object_get(record, "budget"), &state->budget);
    state->base_depth = depth;
    state->base_tokens = snp_run_state_tokens(state);
    state->base_calls = state->calls;
    state->base_ms = state->elapsed_ms;
    state->base_cost = state->cost_usd;
    (void)snprintf(state->last_call_id, sizeof(state->last_call_id), "%s",
                   snp_json_str(record, "call_id", ""));
    return messages_take(state, json_object_get(record, "messages"));
}

static int apply_tool(struct snp_run_state *state, const json_t *record)
{
    put(&state->tool, share(record));
    state->steps = bounded(record, "number", state->steps, state->steps);
    state->n_begun++;
    return 0;
}

static int apply_resume(struct snp_run_state *state, const json_t *record)
{
    struct snp_run_level *root = state->nesting == 0 ? &state->level : &state->outer[0];

    snp_run_budget_from_json(json_object_get(record, "budget"), &root->budget);
    state->breaker = (struct snp_breaker){0};
    state->has_last_note = false;
    return 0;
}

static const struct {
    const char *step;
    int (*apply)(struct snp_run_state *state, const json_t *record);
} steps[] = {
    {"message", apply_message}, {"iteration", apply_iteration},
    {"verdict", apply_verdict}, {"attempt", apply_attempt},
    {"ask", apply_ask},         {"answer", apply_answer},
    {"tool", apply_tool},       {"tool_result", apply_tool_result},
    {"batch", apply_batch},     {"sub_ask", apply_sub_ask},
    {"sub", apply_sub},         {"resume", apply_resume},
};

int snp_run_state_apply(struct snp_run_state *state, const json_t *record, struct snp_err *err)
{
    const char *step = snp_trajectory_step(record);
    int r = SNP_E_INVALID;

    state->elapsed_ms = bounded(record, "elapsed_ms", 0, state->elapsed_ms);
    if (snp_trajectory_is_head(record) && json_is_object(json_object_get(record, "end"))) {
        put(&state->end, share(json_object_get(record, "end")));
        return 0;
    }
    put(&state->end, NULL);
    if (snp_trajectory_is_head(record)) {
        r = state->head == NULL ? apply_head(state, record) : SNP_E_INVALID;
    } else if (snp_trajectory_is_event(record)) {
        r = apply_event(state, record);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(steps); i++) {
        if (strcmp(step, steps[i].step) == 0) {
            r = steps[i].apply(state, record);
        }
    }
    if (r == SNP_E_INVALID) {
        return snp_fail(err, r,
                        "record %lld of the run does not follow from the ones "
                        "before it",
                        (long long)snp_json_int(record, "seq", 0));
    }
    return r < 0 ? snp_fail(err, r, "out of memory") : 0;
}

/* Results ----------------------------------------------------------------------------------- */

/* Mark an event of a sub-call. */
static json_t *sub_mark(const struct snp_run_state *state, json_t *event)
{
    if (state->nesting > 0 && event != NULL &&
        (json_object_set_new(event, "sub_call_type", json_string("sub_complete")) < 0 ||
         json_object_set_new(event, "nesting", json_integer((json_int_t)state->nesting)) < 0)) {
        json_decref(event);
        return NULL;
    }
    return event;
}

json_t *snp_run_state_event(const struct snp_run_state *state, const char *timestamp)
{
    const json_t *answer = json_object_get(state->answer, "answer");
    const json_t *cost = json_object_get(answer, "cost_usd");
    const json_t *usage = json_object_get(answer, "usage");
    const json_t *content = json_object_get(json_object_get(answer, "message"), "content");

    return sub_mark(
        state,
        json_pack("{s:O, s:O, s:o, s:I, s:O?, s:O?, s:O, s:O, s:[], s:I, s:I, s:I, s:n, s:s, s:O?, "
                  "s:O?, "
                  "s:O?, s:b, s:O, s:O}",
                  "trajectory_id", json_object_get(state->head, "trajectory_id"), "call_id",
                  json_object_get(state->answer, "call_id"), "parent_call_id",
                  state->last_call_id[0] == '\0' ? json_null() : json_string(state->last_call_id),
                  "depth", (json_int_t)snp_run_state_depth(state), "prompt", state->prompt,
                  "response", content, "tool_calls", snp_run_state_calls(state), "tool_results",
                  state->results, "repl_results", "input_tokens",
                  (json_int_t)snp_json_int(usage, "input", 0), "output_tokens",
                  (json_int_t)snp_json_int(usage, "output", 0), "duration_ms",
                  (json_int_t)snp_json_int(answer, "duration_ms", 0), "error", "timestamp",
                  timestamp, "estimated_cost_usd", cost, "model", json_object_get(answer, "model"),
                  "provider", json_object_get(answer, "provider"), "tokens_estimated",
                  snp_json_bool(usage, "estimated", false), "session",
                  json_object_get(state->head, "session"), "cells", state->cells));
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a;
    const char *const *y = b;

    return strcmp(*x, *y);
}

static json_t *sorted(json_t *set)
{
    size_t n = json_object_size(set);
    snp_autofree const char **names = calloc(n + 1, sizeof(*names));
    json_t *list = json_array();
    const char *key;
    json_t *value;
    size_t at = 0;

    if (names == NULL) {
        return list;
    }
    json_object_foreach(set, key, value)
    {
        names[at++] = key;
    }
    if (n > 1) {
        qsort(names, n, sizeof(*names), by_text);
    }
    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, json_string(names[i]));
    }
    return list;
}

json_t *snp_run_state_files(const struct snp_run_state *state)
{
    return json_pack("{s:o, s:o, s:o}", "created", sorted(state->files.created), "modified",
                     sorted(state->files.modified), "deleted", sorted(state->files.deleted));
}

json_t *snp_run_state_partial(const struct snp_run_level *level)
{
    const json_t *last = json_array_get(level->results, json_array_size(level->results) - 1);
    const json_t *content = json_object_get(last, "content");

    if (level->text != NULL) {
        return share(level->text);
    }
    if (json_is_string(content)) {
        return json_sprintf("No answer produced. The last tool said: %s",
                            json_string_value(content));
    }
    return json_string("");
}
