/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call a model: get the key, try, retry.
 *
 * Timers and callbacks of the loop drive a call: choose a provider (on creation), get the key,
 * send, read, judge; then the call ends, or waits and sends again. Drivers handle the formats,
 * retry.c classifies failures.
 *
 * Invariants: a call is in the list of its models until it ends; after that it makes no callback.
 * It is freed when libuv has closed both of its timers, so code below a callback that cancelled the
 * call may still read it.
 */
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "model/model_priv.h"

enum {
    US = 1000,
    MESSAGES_MAX = 100000,
};

/* The set --------------------------------------------------------------------------------- */

int snp_models_new(uv_loop_t *loop,
                   const struct snp_config *config,
                   struct snp_models **ret,
                   struct snp_err *err)
{
    struct snp_models *models = calloc(1, sizeof(*models));
    const char *record = snp_config_str(config, SNP_KEY_RECORD_FILE);

    if (models == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    models->loop = loop;
    models->config = config;
    models->record_file = record == NULL || record[0] == '\0' ? NULL : record;
    int r = snp_http_new(loop, &models->http, err);
    r = r < 0 ? r : snp_keyring_new(loop, &models->keyring, err);
    r = r < 0 ? r
              : snp_prices_load(snp_config_str(config, SNP_KEY_PRICE_FILE), &models->prices, err);
    if (r < 0) {
        snp_models_free(models);
        return r;
    }
    *ret = models;
    return 0;
}

static void call_close(struct snp_model_call *call);

void snp_models_free(struct snp_models *models)
{
    if (models == NULL) {
        return;
    }
    while (models->calls != NULL) {
        call_close(models->calls);
    }
    snp_keyring_free(models->keyring);
    snp_http_free(models->http);
    snp_prices_free(models->prices);
    snp_replay_free(models->replays);
    free(models);
}

const char *snp_model_price_date(const struct snp_models *models)
{
    return snp_prices_date(models->prices);
}

int snp_model_choose(struct snp_models *models,
                     const char *model,
                     struct snp_model_choice *ret,
                     struct snp_err *err)
{
    struct snp_model_target target;
    struct snp_price price = {0};
    int r =
        snp_model_route(models->config, snp_prices_defaults(models->prices), model, &target, err);

    *ret = (struct snp_model_choice){.is_ready = r == 0};
    if (target.route != NULL) {
        (void)snprintf(ret->provider, sizeof(ret->provider), "%s", target.route->name);
        ret->is_priced = target.model != NULL &&
                         snp_prices_find(models->prices, target.route->name, target.model, &price);
    }
    if (ret->is_priced) {
        ret->input_usd = price.input;
        ret->output_usd = price.output;
    }
    (void)snprintf(ret->model, sizeof(ret->model), "%s", target.model == NULL ? "" : target.model);
    (void)snprintf(ret->base_url, sizeof(ret->base_url), "%s",
                   target.base_url == NULL ? "" : target.base_url);
    (void)snprintf(ret->key_from, sizeof(ret->key_from), "%s", target.key_name);
    if (target.route != NULL && target.route->driver == NULL) {
        ret->is_priced = true; /* no model will be called */
    }
    snp_model_target_done(&target);
    return r;
}

bool snp_model_list(struct snp_models *models,
                    size_t i,
                    struct snp_model_choice *ret,
                    struct snp_err *ret_err)
{
    const struct snp_model_route *route = snp_model_route_at(i);

    if (route == NULL) {
        return false;
    }
    const char *model = snp_json_str(snp_prices_defaults(models->prices), route->name, "");
    snp_autofree char *name = snp_format("%s/%s", route->name, model);
    ret_err->code = SNP_OK;
    if (name == NULL) {
        *ret = (struct snp_model_choice){0};
        (void)snp_fail(ret_err, SNP_E_NOMEM, "out of memory");
    } else if (snp_model_choose(models, name, ret, ret_err) < 0) {
        SNP_ASSERT(ret_err->code != SNP_OK);
    }
    return true;
}

bool snp_model_price(struct snp_models *models,
                     const char *model,
                     const struct snp_model_usage *usage,
                     double *ret_usd)
{
    struct snp_model_choice choice;
    struct snp_err ignored;
    /* the price does not depend on missing settings */
    int r = snp_model_choose(models, model, &choice, &ignored);
    struct snp_price price = {
        .input = choice.input_usd,
        .output = choice.output_usd,
        .cache_read = choice.input_usd,
        .cache_write = choice.input_usd,
    };

    (void)r;
    (void)snp_prices_find(models->prices, choice.provider, choice.model, &price);
    *ret_usd = choice.is_priced ? snp_price_of(&price, usage) : 0;
    return choice.is_priced;
}

uint64_t snp_model_time_left_ms(const struct snp_model_call *call)
{
    uint64_t now = snp_now_us();

    if (call->request.deadline_us == 0) {
        return UINT64_MAX;
    }
    return call->request.deadline_us > now ? (call->request.deadline_us - now) / US : 0;
}

/* The end --------------------------------------------------------------------------------- */

/* Free the call and its copy of the request. */
static void request_free(struct snp_model_call *call)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(call->texts); i++) {
        free(call->texts[i]);
    }
    json_decref(call->messages);
    json_decref(call->tools);
    json_decref(call->schema);
    free(call);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct snp_model_call *call = handle->data;

    call->n_open--;
    if (call->n_open > 0) {
        return;
    }
    snp_model_reply_done(&call->reply);
    snp_sse_done(&call->sse);
    snp_buf_done(&call->body);
    snp_model_target_done(&call->target);
    request_free(call);
}

/* End the call: nothing runs for it any more. */
static void call_close(struct snp_model_call *call)
{
    struct snp_model_call **at = &call->models->calls;

    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    call->is_over = true;
    if (call->wait != NULL) {
        snp_key_wait_cancel(call->wait);
        call->wait = NULL;
    }
    if (call->http != NULL) {
        snp_http_cancel(call->http);
        call->http = NULL;
    }
    uv_close((uv_handle_t *)&call->timer, on_timer_closed);
    uv_close((uv_handle_t *)&call->deadline, on_timer_closed);
}

static void record(struct snp_model_call *call, struct snp_model_answer *answer)
{
    struct snp_models *models = call->models;
    const char *path = models->record_file;
    struct snp_err err;
    int r = 0;

    if (path == NULL) {
        return;
    }
    if (!models->is_recording) {
        r = snp_replay_record_begin(path, &err);
        models->is_recording = r == 0;
    }
    r = r < 0 ? r : snp_replay_record(path, &call->request, answer, &err);
    if (r < 0 && answer->is_ok) { /* a record with gaps would be worse than no answer */
        answer->is_ok = false;
        answer->failure = SNP_MODEL_FAILED_SETUP;
        answer->err = err;
    }
}

static void finish(struct snp_model_call *call, struct snp_model_answer *answer)
{
    const struct snp_model_route *route = call->target.route;
    struct snp_price price;

    answer->usage = call->usage;
    answer->provider = route == NULL ? "" : route->name;
    const char *asked = call->target.model;
    if (route != NULL && route->driver == NULL) {
        asked = "replay"; /* no provider was called, so its name is not reported */
    }
    answer->model = call->reply.model[0] != '\0' ? call->reply.model : asked;
    answer->model = answer->model == NULL ? "" : answer->model;
    answer->reply_id = call->reply.id;
    answer->tries = call->n_tries;
    answer->http_status = call->status;
    answer->duration_ms = (snp_now_us() - call->started_us) / US;
    if (route != NULL && asked != NULL) {
        answer->is_priced =
            snp_prices_find(call->models->prices, route->name, answer->model, &price) ||
            snp_prices_find(call->models->prices, route->name, asked, &price);
        answer->cost_usd = answer->is_priced ? snp_price_of(&price, &answer->usage) : 0;
        answer->is_priced = answer->is_priced || route->driver == NULL;
    }
    if (answer->text == NULL) {
        answer->text = "";
    }
    record(call, answer);
    call_close(call);
    call->request.on_done(call->request.ctx, answer); /* freed in a later iteration of the loop */
}

void snp_model_finish_failed(struct snp_model_call *call,
                             enum snp_model_failure failure,
                             const struct snp_err *err)
{
    struct snp_model_answer answer = {.failure = failure, .err = *err};
    size_t n_before = json_array_size(call->messages);
    snp_autojson json_t *message = NULL;

    if (call->reply.text.len > 0 || call->reply.n_calls > 0) {
        message = snp_model_reply_message(&call->reply, n_before);
        answer.message = message;
        answer.text = snp_model_content(message);
    }
    snp_model_scrub(answer.err.msg, call->key);
    finish(call, &answer);
}

/* The call has its answer. */
void snp_model_finish_ok(struct snp_model_call *call)
{
    struct snp_model_reply *reply = &call->reply;
    struct snp_model_answer answer = {.is_ok = true, .stop = reply->stop};
    snp_autojson json_t *message = snp_model_reply_message(reply, json_array_size(call->messages));
    snp_autojson json_t *none = json_array();
    snp_autojson json_t *parsed = NULL;
    struct snp_err err;

    if (message == NULL || none == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_model_finish_failed(call, SNP_MODEL_FAILED_REPLY, &err);
        return;
    }
    answer.message = message;
    answer.text = snp_model_content(message);
    answer.tool_calls = json_object_get(message, "tool_calls");
    if (answer.tool_calls == NULL) {
        answer.tool_calls = none;
    } else if (answer.stop == SNP_MODEL_STOP_END) {
        answer.stop = SNP_MODEL_STOP_TOOLS; /* some servers report "stop" here, too */
    }
    if (reply->n_calls == 0 && answer.stop == SNP_MODEL_STOP_TOOLS) {
        answer.stop = SNP_MODEL_STOP_END;
    }
    if (call->schema != NULL &&
        snp_json_parse_any(answer.text, strlen(answer.text), &parsed, &err) == 0) {
        answer.parsed = parsed;
    }
    finish(call, &answer);
}

/* Making a call --------------------------------------------------------------------------- */

static void on_first_time(uv_timer_t *timer)
{
    struct snp_model_call *call = timer->data;

    if (call->try_err.code != SNP_OK) { /* from choosing the provider */
        snp_model_finish_failed(call, SNP_MODEL_FAILED_SETUP, &call->try_err);
    } else {
        snp_model_try_begin(call);
    }
}

static void on_deadline(uv_timer_t *timer)
{
    struct snp_model_call *call = timer->data;
    struct snp_err err;
    uint64_t ms = (snp_now_us() - call->started_us) / US;

    if (call->http != NULL || call->is_stream) { /* something was sent and may be billed */
        struct snp_model_usage used = snp_model_try_usage(call);
        snp_model_usage_add(&call->usage, &used);
    }
    (void)snp_fail(&err, SNP_E_TIMEOUT, "%s: no complete answer within %llu ms",
                   call->target.route == NULL ? "model" : call->target.route->name,
                   (unsigned long long)ms);
    snp_model_finish_failed(call, SNP_MODEL_FAILED_TIMEOUT, &err);
}

/* Whether a message has the members of its role; json_pack would fail later without a reason. */
static int check_message(const json_t *message, size_t i, struct snp_err *err)
{
    const char *role = snp_json_str(message, "role", "");
    const json_t *content = json_object_get(message, "content");
    const json_t *calls = json_object_get(message, "tool_calls");
    size_t j = 0;
    json_t *call = NULL;
    bool is_assistant = strcmp(role, "assistant") == 0;
    bool is_tool = strcmp(role, "tool") == 0;
    bool is_known =
        is_assistant || is_tool || strcmp(role, "user") == 0 || strcmp(role, "system") == 0;

    if (!is_known || !(json_is_string(content) || (is_assistant && json_is_null(content))) ||
        (is_tool && !json_is_string(json_object_get(message, "tool_call_id")))) {
        return snp_fail(err, SNP_E_INVALID, "message %zu: no role, content or tool_call_id", i);
    }
    json_array_foreach(calls, j, call)
    {
        if (!json_is_string(json_object_get(call, "id")) ||
            !json_is_string(json_object_get(call, "name")) ||
            !json_is_object(json_object_get(call, "arguments"))) {
            return snp_fail(err, SNP_E_INVALID,
                            "message %zu: call %zu has no id, name or arguments", i, j);
        }
    }
    return 0;
}

static int check_request(const struct snp_model_request *request, struct snp_err *err)
{
    size_t n = json_array_size(request->messages);
    size_t i = 0;
    json_t *item = NULL;

    if (n == 0 || n > MESSAGES_MAX) {
        return snp_fail(err, SNP_E_INVALID, "a conversation has 1 to %d messages", MESSAGES_MAX);
    }
    json_array_foreach(request->messages, i, item)
    {
        int r = check_message(item, i, err);
        if (r < 0) {
            return r;
        }
    }
    json_array_foreach(request->tools, i, item)
    {
        if (!json_is_string(json_object_get(item, "name")) ||
            !json_is_string(json_object_get(item, "description")) ||
            !json_is_object(json_object_get(item, "parameters"))) {
            return snp_fail(err, SNP_E_INVALID, "tool %zu has no name, description or parameters",
                            i);
        }
    }
    return 0;
}

/* A copy of a message with the NULs in its text replaced, so that it can be sent. New reference. */
static json_t *sendable(json_t *message)
{
    const json_t *content = json_object_get(message, "content");
    size_t n = json_string_length(content);
    const char *text = json_string_value(content);

    if (n == 0 || memchr(text, '\0', n) == NULL) {
        return json_incref(message);
    }
    snp_autojson json_t *copy = json_copy(message);
    snp_autofree char *clean = malloc(n);
    if (copy == NULL || clean == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        clean[i] = text[i] == '\0' ? ' ' : text[i];
    }
    if (json_object_set_new(copy, "content", json_stringn(clean, n)) < 0) {
        return NULL;
    }
    return SNP_TAKE_PTR(copy);
}

static int copy_text(struct snp_model_call *call, size_t i, const char **text)
{
    if (*text == NULL) {
        return 0;
    }
    call->texts[i] = strdup(*text);
    *text = call->texts[i];
    return *text == NULL ? -1 : 0;
}

/* Copy the request. */
static int copy_request(struct snp_model_call *call, const struct snp_model_request *request)
{
    size_t i = 0;
    json_t *message = NULL;

    call->request = *request;
    call->messages = json_array();
    json_array_foreach(request->messages, i, message)
    {
        if (json_array_append_new(call->messages, sendable(message)) < 0) {
            return -1;
        }
    }
    call->tools = json_incref((json_t *)(uintptr_t)request->tools);
    call->schema = json_incref((json_t *)(uintptr_t)request->schema);
    call->request.messages = call->messages;
    if (copy_text(call, 0, &call->request.model) < 0 ||
        copy_text(call, 1, &call->request.tool_choice) < 0 ||
        copy_text(call, 2, &call->request.label) < 0) {
        return -1;
    }
    return 0;
}

static void call_start(struct snp_model_call *call)
{
    struct snp_models *models = call->models;
    const struct snp_config *config = models->config;
    uint64_t left_ms = 0;

    call->next = models->calls;
    models->calls = call;
    call->started_us = snp_now_us();
    call->max_tries = call->request.max_tries > 0
                          ? call->request.max_tries
                          : 1 + (unsigned)snp_config_int(config, SNP_KEY_MODEL_RETRIES);
    /* a failure here is reported as an answer */
    int r = snp_model_route(config, snp_prices_defaults(models->prices), call->request.model,
                            &call->target, &call->try_err);
    SNP_ASSERT(r == 0 || call->try_err.code != SNP_OK);
    call->n_open = 2;
    (void)uv_timer_init(models->loop, &call->timer);
    (void)uv_timer_init(models->loop, &call->deadline);
    call->timer.data = call;
    call->deadline.data = call;
    uv_update_time(models->loop);
    (void)uv_timer_start(&call->timer, on_first_time, 0, 0);
    if (call->request.deadline_us > 0) {
        left_ms = snp_model_time_left_ms(call);
        (void)uv_timer_start(&call->deadline, on_deadline, left_ms, 0);
    }
}

int snp_model_ask(struct snp_models *models,
                  const struct snp_model_request *request,
                  struct snp_model_call **ret,
                  struct snp_err *err)
{
    int r = check_request(request, err);

    if (r < 0) {
        return r;
    }
    struct snp_model_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    call->models = models;
    if (copy_request(call, request) < 0) {
        request_free(call);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    call_start(call);
    *ret = call;
    return 0;
}

void snp_model_cancel(struct snp_model_call *call, struct snp_model_usage *ret_lost)
{
    struct snp_model_usage lost = call->usage;

    if (call->http != NULL) {
        struct snp_model_usage used = snp_model_try_usage(call);
        snp_model_usage_add(&lost, &used);
    }
    if (ret_lost != NULL) {
        *ret_lost = lost;
    }
    call_close(call);
}

void snp_model_skip(struct snp_models *models, const struct snp_model_request *request)
{
    struct snp_model_target target;
    struct snp_replay *replay = NULL;
    const json_t *turn = NULL;
    struct snp_err ignored;
    int r = snp_model_route(models->config, snp_prices_defaults(models->prices), request->model,
                            &target, &ignored);

    if (r == 0 && target.route->driver == NULL &&
        snp_replay_open(&models->replays, target.replay_file, &replay, &ignored) == 0) {
        /* a script without that turn fails at the next call */
        (void)(snp_replay_take(replay, request, &turn, &ignored) < 0);
    }
    snp_model_target_done(&target);
}
