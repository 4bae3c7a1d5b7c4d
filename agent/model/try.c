/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tries of a call: get the key, send, read, judge; then the call ends, or waits and tries
 * again. Drivers handle the formats, retry.c classifies failures.
 *
 * A user's callback may end the call: after it, the call is used only if it is not over.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "model/model_priv.h"
#include "model/retry.h"

enum {
    EVENT_MAX = 4 << 20,   /* bytes of one event */
    REPLY_MAX = 64 << 20,  /* bytes of a whole reply, on the wire */
    ERROR_MAX = 256 << 10, /* bytes read of an error */
    CONNECT_MS = 10000,
    IDLE_MS = 300000, /* some models reason for minutes */
    CLOSE_MS = 250,   /* time for a server to close a finished stream */
    US = 1000,
    MICROS = 1000000,
    OK_FIRST = 200,
    OK_LAST = 299,
    UNAUTHORIZED = 401,
};

static void try_start(struct snp_model_call *call);

/* Usage ----------------------------------------------------------------------------------- */

void snp_model_usage_add(struct snp_model_usage *into, const struct snp_model_usage *more)
{
    into->input += more->input;
    into->output += more->output;
    into->cache_read += more->cache_read;
    into->cache_write += more->cache_write;
    into->reasoning += more->reasoning;
    into->is_estimated = into->is_estimated || more->is_estimated;
}

/* Usage of the running try: reported, or estimated from the data sent and received. */
struct snp_model_usage snp_model_try_usage(const struct snp_model_call *call)
{
    const struct snp_model_reply *reply = &call->reply;
    struct snp_model_usage usage = reply->usage;
    uint64_t seen = snp_model_estimate(snp_buf_bytes(&reply->text), reply->text.len) +
                    snp_model_estimate(snp_buf_bytes(&reply->reasoning), reply->reasoning.len);

    for (size_t i = 0; i < reply->n_calls; i++) {
        const struct snp_buf *text = &reply->calls[i].arguments;
        seen += 1 + snp_model_estimate(reply->calls[i].name, strlen(reply->calls[i].name)) +
                snp_model_estimate(snp_buf_bytes(text), text->len);
    }
    if (reply->has_usage && reply->has_stop && usage.input > 0 && (usage.output > 0 || seen == 0)) {
        return usage;
    }
    if (usage.input == 0) { /* some servers report 0 or an impossible number */
        usage.input = snp_model_estimate_request(&call->request);
    }
    usage.output = usage.output > seen ? usage.output : seen;
    usage.is_estimated = true;
    return usage;
}

static void used_add(struct snp_model_call *call)
{
    struct snp_model_usage used = snp_model_try_usage(call);

    snp_model_usage_add(&call->usage, &used);
}

/* Judging a try --------------------------------------------------------------------------- */

static void on_retry_time(uv_timer_t *timer)
{
    try_start(timer->data);
}

static void retry_in(struct snp_model_call *call, uint64_t wait_ms, const struct snp_err *err)
{
    struct snp_model_event event = {
        .type = SNP_MODEL_EVENT_RETRY,
        .text = "",
        .wait_ms = wait_ms,
        .next_try = call->n_tries + 1,
        .err = err,
    };

    if (call->request.on_event != NULL) {
        call->request.on_event(call->request.ctx, &event);
    }
    if (!call->is_over) {
        (void)uv_timer_start(&call->timer, on_retry_time, wait_ms, 0);
    }
}

/* Remedies that are appended to the message of a failure. */
static const char *const ways_out[SNP_MODEL_FAILED_N] = {
    [SNP_MODEL_FAILED_AUTH] = "; check that the key is valid and has access to this model",
    [SNP_MODEL_FAILED_MODEL] = "; check the name of the model and base_url",
    [SNP_MODEL_FAILED_QUOTA] = "; waiting does not help: add credit to the account",
    [SNP_MODEL_FAILED_CONTEXT] = "; the conversation is longer than the model accepts",
};

/* The try failed: retry, or end the call. */
static void try_failed(struct snp_model_call *call,
                       enum snp_model_failure failure,
                       bool is_passing,
                       const struct snp_err *why)
{
    uint64_t wait_ms = call->retry_after_ms;
    uint64_t left_ms = snp_model_time_left_ms(call);
    bool is_asked_to = wait_ms > 0;
    const char *name = call->target.route->name;
    const char *source = call->target.key_name;
    bool is_key = failure == SNP_MODEL_FAILED_AUTH && source[0] != '\0';
    const char *way_out = ways_out[failure] == NULL ? "" : ways_out[failure];
    struct snp_err err = *why;

    if (wait_ms == 0) {
        wait_ms = snp_model_backoff_ms(call->n_tries, snp_now_us());
    }
    snp_model_scrub(err.msg, call->key);
    bool is_worth = is_passing && call->n_tries < call->max_tries;
    if (is_worth && wait_ms <= SNP_MODEL_WAIT_MAX_MS && wait_ms < left_ms) {
        retry_in(call, wait_ms, &err);
        return;
    }
    if (is_worth && !is_asked_to) { /* not enough time is left */
        failure = SNP_MODEL_FAILED_TIMEOUT;
        (void)snp_fail(&err, SNP_E_TIMEOUT, "%s: %s; no time is left for another try", name,
                       why->msg);
    } else if (is_worth) {
        (void)snp_fail(&err, why->code, "%s: %s; the provider asks to wait %llu s, longer than %s",
                       name, why->msg, (unsigned long long)(wait_ms / US),
                       wait_ms < left_ms ? "the limit" : "the time left");
    } else if (call->n_tries > 1) {
        (void)snp_fail(&err, why->code, "%s: %s (tried %u times)%s", name, why->msg, call->n_tries,
                       way_out);
    } else {
        (void)snp_fail(&err, why->code, "%s: %s%s%s%s", name, why->msg,
                       is_key ? "; the key is from " : "", is_key ? source : "", way_out);
    }
    snp_model_finish_failed(call, failure, &err);
}

static struct snp_model_quirks *quirks_of(struct snp_model_call *call)
{
    struct snp_models *models = call->models;
    const struct snp_model_target *target = &call->target;

    for (size_t i = 0; i < models->n_quirks; i++) {
        struct snp_model_quirks *quirks = &models->quirks[i];
        if (quirks->route == target->route && strcmp(quirks->model, target->model) == 0) {
            return quirks;
        }
    }
    if (models->n_quirks == SNP_MODEL_QUIRKS_MAX || strlen(target->model) >= SNP_MODEL_ID_MAX) {
        return NULL;
    }
    struct snp_model_quirks *quirks = &models->quirks[models->n_quirks++];
    *quirks = (struct snp_model_quirks){.route = target->route};
    memcpy(quirks->model, target->model, strlen(target->model) + 1);
    return quirks;
}

/* The server refused a parameter: omit it and retry at once. */
static bool try_without(struct snp_model_call *call, const char *why, const struct snp_err *err)
{
    unsigned quirk = snp_model_quirk(call->status, why);
    struct snp_model_quirks *quirks = quirk == 0 ? NULL : quirks_of(call);

    if (quirks == NULL || (quirks->flags & quirk) != 0) {
        return false;
    }
    quirks->flags |= quirk;
    call->n_tries--; /* a refused parameter does not count as a try */
    retry_in(call, 0, err);
    return true;
}

static void on_key_time(uv_timer_t *timer)
{
    snp_model_try_begin(timer->data);
}

/* The key was refused, but its source may have a newer one. */
static bool try_new_key(struct snp_model_call *call, const struct snp_err *err)
{
    if (call->status != UNAUTHORIZED || call->has_new_key ||
        !snp_keyring_drop(call->models->keyring, &call->target)) {
        return false;
    }
    call->has_new_key = true;
    call->key = NULL;
    retry_in(call, 0, err);
    if (!call->is_over) {
        (void)uv_timer_start(&call->timer, on_key_time, 0, 0);
    }
    return true;
}

/* The provider reported an error; error: an object, or NULL. */
static void try_refused(struct snp_model_call *call, const json_t *error)
{
    char why[SNP_MODEL_WHY_MAX];
    bool is_reply = call->status >= OK_FIRST && call->status <= OK_LAST;
    int status = is_reply ? 0 : call->status;
    enum snp_model_failure failure = snp_model_classify(status, error, why);
    struct snp_err err;

    snp_model_scrub(why, call->key);
    (void)snp_fail(&err,
                   failure == SNP_MODEL_FAILED_AUTH      ? SNP_E_DENIED
                   : failure == SNP_MODEL_FAILED_REQUEST ? SNP_E_INVALID
                                                         : SNP_E_PEER,
                   "%s", why);
    if (try_without(call, why, &err) || try_new_key(call, &err)) {
        return;
    }
    try_failed(call, failure, snp_model_is_passing(failure, status), &err);
}

static void try_body_error(struct snp_model_call *call)
{
    snp_autojson json_t *body = NULL;
    struct snp_err ignored;
    size_t n = call->body.len;

    if (n > 0 && snp_json_parse_any(snp_buf_bytes(&call->body), n, &body, &ignored) < 0) {
        body = NULL; /* such as an HTML page of a proxy: only the status is used */
    }
    const json_t *at = json_is_array(body) ? json_array_get(body, 0) : body;
    const json_t *error = json_object_get(at, "error");
    try_refused(call, error != NULL ? error : at);
}

/* Add the sender to the error of an unreadable reply; for HTML, hint at base_url. */
static void reply_refuse(const struct snp_model_call *call, struct snp_err *err)
{
    const char *from = call->target.base_url == NULL ? "the provider" : call->target.base_url;
    size_t n = call->body.len;
    size_t at = 0;

    while (at < n && isspace((unsigned char)snp_buf_bytes(&call->body)[at])) {
        at++;
    }
    if (at < n && snp_buf_bytes(&call->body)[at] == '<') {
        (void)snp_fail(err, SNP_E_PEER, "%.200s returned HTML, not JSON; check base_url", from);
    } else {
        (void)snp_err_wrap(err, "%.200s returned no valid reply", from);
    }
}

/* A complete reply that was not a stream. */
static void try_body(struct snp_model_call *call)
{
    snp_autojson json_t *body = NULL;
    struct snp_err err;
    size_t n = call->body.len;
    int r = snp_json_parse(snp_buf_bytes(&call->body), n, &body, &err);

    r = r < 0 ? r : call->target.route->driver->whole(&call->reply, body, &err);
    if (r < 0) {
        reply_refuse(call, &err);
        err.code = SNP_E_PEER;
        try_failed(call, SNP_MODEL_FAILED_REPLY, true, &err);
        return;
    }
    if (call->reply.error != NULL) {
        try_refused(call, call->reply.error);
        return;
    }
    call->reply.has_stop = true;
    used_add(call);
    snp_model_finish_ok(call);
}

static enum snp_model_failure failure_of(enum snp_code code)
{
    switch ((int)code) {
    case SNP_E_TIMEOUT:
    case SNP_E_PEER:
        return SNP_MODEL_FAILED_NETWORK;
    case SNP_E_LIMIT:
        return SNP_MODEL_FAILED_REPLY;
    default:
        return SNP_MODEL_FAILED_SETUP; /* a URL, a certificate */
    }
}

/* The connection has finished this try. */
static void try_ended(struct snp_model_call *call, const struct snp_err *failure)
{
    bool is_reply = call->status >= OK_FIRST && call->status <= OK_LAST;
    struct snp_err err;

    (void)uv_timer_stop(&call->timer);
    if (call->status > 0 && !is_reply) {
        try_body_error(call);
        return;
    }
    if (call->is_stream) {
        used_add(call);
    }
    if (call->try_err.code != SNP_OK) { /* the reply was unreadable */
        try_failed(call, SNP_MODEL_FAILED_REPLY, call->try_err.code != SNP_E_LIMIT, &call->try_err);
    } else if (call->reply.error != NULL) {
        try_refused(call, call->reply.error);
    } else if (failure != NULL && !call->reply.is_ended) {
        enum snp_model_failure kind = failure_of(failure->code);

        try_failed(call, kind, kind == SNP_MODEL_FAILED_NETWORK, failure);
    } else if (!call->is_stream) {
        try_body(call);
    } else if (!call->reply.is_ended && !call->reply.has_stop) {
        (void)snp_fail(&err, SNP_E_PEER, "the reply was cut off");
        try_failed(call, SNP_MODEL_FAILED_NETWORK, true, &err);
    } else {
        snp_model_finish_ok(call);
    }
}

/* Reading a reply ------------------------------------------------------------------------- */

static void on_reply_event(void *ctx, const struct snp_model_event *event)
{
    struct snp_model_call *call = ctx;

    if (!call->is_over && call->request.on_event != NULL) {
        call->request.on_event(call->request.ctx, event);
    }
}

/* The JSON of an event, with invalid UTF-8 replaced. */
static int parse_event(const char *text, size_t n, json_t **ret, struct snp_err *err)
{
    snp_autofree char *clean = NULL;

    if (snp_utf8_valid(text, n)) {
        return snp_json_parse(text, n, ret, err);
    }
    clean = snp_utf8_clean(text, n, &n);
    return clean == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                         : snp_json_parse(clean, n, ret, err);
}

static int on_sse(void *ctx, const struct snp_sse_event *event, struct snp_err *err)
{
    struct snp_model_call *call = ctx;
    snp_autojson json_t *data = NULL;

    if (call->is_over || call->reply.is_ended || event->data_len == 0) {
        return 0;
    }
    if (strcmp(event->data, "[DONE]") == 0) {
        call->reply.is_ended = true;
        return 0;
    }
    int r = parse_event(event->data, event->data_len, &data, err);
    r = r < 0 ? r : call->target.route->driver->event(&call->reply, data, err);
    if (r == SNP_E_INVALID) {
        (void)snp_err_wrap(err, "the stream of the reply is not valid");
        err->code = SNP_E_PEER;
    }
    return r;
}

static bool on_head(void *ctx, struct snp_http_call *http)
{
    struct snp_model_call *call = ctx;
    const char *type = snp_http_header(http, "content-type");

    call->status = snp_http_status(http);
    call->retry_after_ms = snp_model_retry_after_ms(snp_http_header(http, "retry-after-ms"),
                                                    snp_http_header(http, "retry-after"),
                                                    (int64_t)(snp_wall_us() / MICROS));
    call->is_stream = call->status >= OK_FIRST && call->status <= OK_LAST && type != NULL &&
                      strcasestr(type, "text/event-stream") != NULL;
    return true;
}

static void on_close_time(uv_timer_t *timer)
{
    struct snp_model_call *call = timer->data;

    snp_http_cancel(call->http);
    call->http = NULL;
    try_ended(call, NULL);
}

static bool on_data(void *ctx, const char *bytes, size_t n)
{
    struct snp_model_call *call = ctx;
    bool is_reply = call->status >= OK_FIRST && call->status <= OK_LAST;

    if (call->is_over) {
        return false;
    }
    if (!call->is_stream) {
        size_t room = (is_reply ? REPLY_MAX : ERROR_MAX) - call->body.len;
        bool has_room = is_reply || n <= room; /* the beginning of an error is enough */
        return snp_buf_add(&call->body, bytes, has_room ? n : room) == 0 && has_room;
    }
    bool was_ended = call->reply.is_ended;
    if (snp_sse_feed(&call->sse, bytes, n, &call->try_err) < 0) {
        return false;
    }
    if (!call->is_over && call->reply.is_ended && !was_ended) {
        (void)uv_timer_start(&call->timer, on_close_time, CLOSE_MS, 0);
    }
    return !call->is_over && call->reply.error == NULL;
}

static void on_http_done(void *ctx, struct snp_http_call *http, const struct snp_err *err)
{
    struct snp_model_call *call = ctx;

    (void)http;
    call->http = NULL;
    try_ended(call, err);
}

/* Sending --------------------------------------------------------------------------------- */

/* Reset the state for a reply. */
static void try_reset(struct snp_model_call *call)
{
    snp_model_reply_done(&call->reply);
    snp_model_reply_init(&call->reply);
    call->reply.on_event = on_reply_event;
    call->reply.ctx = call;
    snp_sse_done(&call->sse);
    snp_sse_init(&call->sse, EVENT_MAX, on_sse, call);
    snp_buf_done(&call->body);
    snp_buf_init(&call->body, REPLY_MAX);
    call->status = 0;
    call->is_stream = false;
    call->retry_after_ms = 0;
    call->try_err.code = SNP_OK;
    call->n_tries++;
}

static int send_wire(struct snp_model_call *call, struct snp_model_wire *wire, struct snp_err *err)
{
    snp_autofree char *body = snp_json_text(wire->body);

    if (body == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    size_t n = strlen(body);
    if (n > SNP_MODEL_BODY_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the request has %zu bytes; the limit is %d", n,
                        SNP_MODEL_BODY_MAX);
    }
    struct snp_http_spec spec = {
        .url = snp_buf_cstr(&wire->url),
        .headers = (const char *const *)wire->headers,
        .body = body,
        .body_len = n,
        .connect_ms = CONNECT_MS,
        .idle_ms = IDLE_MS,
        .max_bytes = REPLY_MAX,
        .head = on_head,
        .data = on_data,
        .done = on_http_done,
        .ctx = call,
    };
    return snp_http_start(call->models->http, &spec, &call->http, err);
}

/*
 * The temperature to send. The default is sent only to models known to accept it: newer ones refuse
 * any, and learning that costs a request.
 */
static double temperature_of(const struct snp_model_call *call, unsigned quirks)
{
    static const char *const taking[] = {"gpt-4", "gpt-3", "ft:gpt-4", "ft:gpt-3"};
    const struct snp_model_target *target = &call->target;
    const struct snp_config *config = call->models->config;
    double configured = snp_config_float(config, SNP_KEY_TEMPERATURE);

    if ((quirks & SNP_MODEL_NO_TEMPERATURE) != 0) {
        return -1;
    }
    if (call->request.temperature >= 0) {
        return call->request.temperature;
    }
    if (snp_config_origin(config, SNP_KEY_TEMPERATURE) != SNP_ORIGIN_DEFAULT) {
        return configured;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(taking); i++) {
        if (snp_has_prefix(target->model, taking[i])) {
            return configured;
        }
    }
    return -1;
}

static int send_try(struct snp_model_call *call, struct snp_err *err)
{
    const struct snp_model_target *target = &call->target;
    const struct snp_model_quirks *known = quirks_of(call);
    unsigned quirks = known == NULL ? 0 : known->flags;
    struct snp_model_job job = {
        .request = &call->request,
        .model = target->model,
        .base_url = target->base_url,
        .key = call->key,
        .key_header = target->route->key_header,
        .api_version = target->api_version,
        .temperature = temperature_of(call, quirks),
        .quirks = quirks,
        .is_origin = target->is_origin,
    };
    struct snp_model_wire wire;

    snp_model_wire_init(&wire);
    int r = snp_model_wire_header(&wire, "Content-Type", "application/json") < 0
                ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                : target->route->driver->write(&job, &wire, err);
    r = r < 0 ? r : send_wire(call, &wire, err);
    snp_model_wire_done(&wire);
    return r;
}

/* Replay: the turn is taken at once, its answer is given after its delay. */
static void on_replay_time(uv_timer_t *timer)
{
    struct snp_model_call *call = timer->data;
    enum snp_model_failure failure = SNP_MODEL_FAILED_REPLAY;
    bool is_final = false;
    struct snp_err err;

    if (snp_replay_failure(call->turn, &failure, &call->status, &is_final, &err)) {
        try_failed(call, failure, !is_final && snp_model_is_passing(failure, call->status), &err);
        return;
    }
    if (snp_replay_read(call->turn, &call->reply, &err) < 0) {
        snp_model_finish_failed(call, SNP_MODEL_FAILED_REPLAY, &err);
        return;
    }
    if (!call->is_over) {
        used_add(call);
        snp_model_finish_ok(call);
    }
}

static void replay_start(struct snp_model_call *call)
{
    struct snp_err err;
    struct snp_replay *replay = NULL;
    int r = snp_replay_open(&call->models->replays, call->target.replay_file, &replay, &err);

    if (r < 0) {
        snp_model_finish_failed(call, SNP_MODEL_FAILED_SETUP, &err);
        return;
    }
    r = snp_replay_take(replay, &call->request, &call->turn, &err);
    if (r < 0) {
        snp_model_finish_failed(call, SNP_MODEL_FAILED_REPLAY, &err);
        return;
    }
    (void)uv_timer_start(&call->timer, on_replay_time, snp_replay_delay_ms(call->turn), 0);
}

static void try_start(struct snp_model_call *call)
{
    struct snp_err err;

    try_reset(call);
    if (call->target.route->driver == NULL) {
        replay_start(call);
    } else if (send_try(call, &err) < 0) {
        snp_model_finish_failed(call, SNP_MODEL_FAILED_SETUP, &err);
    }
}

static void on_key(void *ctx, const char *key, const struct snp_err *err)
{
    struct snp_model_call *call = ctx;

    call->wait = NULL;
    call->key = key;
    if (err != NULL) {
        snp_model_finish_failed(call, SNP_MODEL_FAILED_SETUP, err);
    } else {
        try_start(call);
    }
}

void snp_model_try_begin(struct snp_model_call *call)
{
    struct snp_err err;
    struct snp_key_ask ask = {&call->target, on_key, call};
    int r = snp_keyring_get(call->models->keyring, &ask, &call->key, &call->wait, &err);

    if (r < 0) {
        snp_model_finish_failed(call, SNP_MODEL_FAILED_SETUP, &err);
    } else if (call->wait == NULL) {
        try_start(call);
    }
}
