/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client: calls in flight, and matching answers to calls.
 *
 * Invariants: a call is in `pending` from snp_mcp_client_call until its done or its cancellation;
 * ids of requests are never reused, so a late, repeated or foreign answer matches nothing.
 * Callbacks are called last, when nothing of the call is left: they may call again, cancel and
 * close. The client is freed only after the loop has closed its handles.
 */
#include "mcp/client/client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mcp/caps.h"
#include "base/mcp/tooldef.h"
#include "base/str.h"
#include "base/text/say.h"
#include "mcp/client/caps.h"
#include "mcp/client/priv.h"

enum {
    US_PER_MS = 1000,
    MS_PER_S = 1000,
    PROGRESS_CHARS = 1000,
};

/* Calls ----------------------------------------------------------------------------------- */

static void timer_update(struct snp_mcp_client *client);

static void pending_free(struct snp_mcp_pending *call)
{
    if (call->call.dropped != NULL) {
        call->call.dropped(call->call.ctx);
    }
    free(call->method);
    json_decref(call->params);
    free(call);
}

static void pending_unlink(struct snp_mcp_client *client, const struct snp_mcp_pending *call)
{
    struct snp_mcp_pending **at = &client->pending;

    while (*at != call) {
        at = &(*at)->next;
    }
    *at = call->next;
    client->n_pending--;
}

static struct snp_mcp_pending *pending_find(const struct snp_mcp_client *client, uint64_t id)
{
    struct snp_mcp_pending *call = client->pending;

    while (call != NULL && (id == 0 || call->id != id)) {
        call = call->next;
    }
    return call;
}

/* Remove a call and report its end; call is freed. */
static void pending_end(struct snp_mcp_client *client,
                        struct snp_mcp_pending *call,
                        const struct snp_err *err,
                        json_t *result,
                        const json_t *error)
{
    struct snp_mcp_client_end end = {.err = err, .result = result, .error = error};
    struct snp_mcp_client_call told = call->call;

    call->call.dropped = NULL;
    pending_unlink(client, call);
    pending_free(call);
    timer_update(client);
    if (told.done != NULL) {
        told.done(told.ctx, &end);
    }
}

/* The first one that the test holds for. */
static struct snp_mcp_pending *pending_first(const struct snp_mcp_client *client, bool is_own)
{
    struct snp_mcp_pending *call = client->pending;

    while (call != NULL && is_own && !call->is_own) {
        call = call->next;
    }
    return call;
}

/* End all calls, except those that callbacks add: they fail on their own. */
static void pending_fail(struct snp_mcp_client *client, const struct snp_err *err)
{
    uint64_t last = client->last_handle;
    struct snp_mcp_pending *call = pending_first(client, false);

    while (call != NULL && call->handle <= last && client->state == SNP_MCP_CLIENT_BROKEN) {
        pending_end(client, call, err, NULL, NULL);
        call = pending_first(client, false);
    }
}

/* Sending --------------------------------------------------------------------------------- */

/* Add the metadata of every modern request, and the progress token. */
static int meta_add(const struct snp_mcp_client *client,
                    const struct snp_mcp_pending *call,
                    json_t *params)
{
    bool is_modern = client->info.era == SNP_ERA_MODERN;
    json_t *given = json_object_get(params, "_meta");
    json_t *meta = json_is_object(given) ? json_copy(given) : json_object();
    int r = 0;

    if (is_modern) {
        r |= json_object_set_new(meta, SNP_MCP_META_VERSION, json_string(client->info.version));
        r |= json_object_set(meta, SNP_MCP_META_CAPABILITIES, client->capabilities);
        r |= json_object_set_new(
            meta, "io.modelcontextprotocol/clientInfo",
            json_pack("{s:s, s:s}", "name", "snipara-sandbox", "version", SNP_VERSION));
    }
    if (call->call.progress != NULL) {
        r |= json_object_set_new(meta, "progressToken", json_integer((json_int_t)call->id));
    }
    if (r < 0 || json_object_size(meta) == 0) {
        json_decref(meta);
        return r < 0 || meta == NULL ? -1 : 0;
    }
    return json_object_set_new(params, "_meta", meta);
}

/* Headers for the arguments of a tool that wants some; NULL in *ret: none. */
static int headers_for(const struct snp_mcp_client *client,
                       const struct snp_mcp_pending *call,
                       json_t **ret,
                       struct snp_err *err)
{
    const json_t *rules =
        json_object_get(client->tool_headers, snp_json_str(call->params, "name", ""));

    *ret = NULL;
    if (rules == NULL || !client->link->ops->is_http || client->info.era != SNP_ERA_MODERN ||
        !snp_streq(call->method, "tools/call")) {
        return 0;
    }
    return snp_mcp_tooldef_headers(rules, json_object_get(call->params, "arguments"), ret, err);
}

/* Send a call's request, with these params. They are consumed. */
static int call_send(struct snp_mcp_client *client,
                     struct snp_mcp_pending *call,
                     json_t *params,
                     struct snp_err *err)
{
    snp_autojson json_t *headers = NULL;
    snp_autojson json_t *request = NULL;
    struct snp_mcp_link_message message = {.method = call->method};
    int r;

    call->id = ++client->last_id;
    if (params == NULL || meta_add(client, call, params) < 0) {
        json_decref(params);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    request = snp_jsonrpc_request((json_int_t)call->id, call->method, params);
    r = request == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                        : headers_for(client, call, &headers, err);
    if (r < 0) {
        return r;
    }
    message.json = request;
    message.id = call->id;
    message.version = client->info.version;
    message.is_modern = client->info.era == SNP_ERA_MODERN;
    message.headers = headers;
    return client->link->ops->send(client->link, &message, err);
}

static void message_send(struct snp_mcp_client *client, json_t *json, const char *method)
{
    snp_autojson json_t *owned = json;
    struct snp_mcp_link_message message = {
        .json = owned,
        .method = method,
        .version = client->info.version,
        .is_modern = client->info.era == SNP_ERA_MODERN,
    };
    struct snp_err ignored;

    if (owned != NULL && client->link != NULL) {
        (void)!client->link->ops->send(client->link, &message, &ignored);
    }
}

void snp_mcp_client_notify(struct snp_mcp_client *client, const char *method, json_t *params)
{
    message_send(client, snp_jsonrpc_notification(method, params), method);
}

void snp_mcp_client_flush(struct snp_mcp_client *client)
{
    struct snp_mcp_pending *call = client->pending;

    while (call != NULL && client->state == SNP_MCP_CLIENT_OPEN) {
        struct snp_err err;

        if (call->id != 0 || call_send(client, call, json_copy(call->params), &err) == 0) {
            call = call->next;
            continue;
        }
        pending_end(client, call, &err, NULL, NULL);
        call = client->pending; /* the list has changed; notifications of it are ignored */
    }
}

/* Withdraw a dropped call: notify the server, as its era and transport require. */
static void call_withdraw(struct snp_mcp_client *client,
                          const struct snp_mcp_pending *call,
                          const char *why)
{
    bool is_told_by_stream =
        client->link != NULL && client->link->ops->is_http && client->info.era == SNP_ERA_MODERN;

    if (call->id == 0 || client->link == NULL) {
        return;
    }
    if (!is_told_by_stream && !call->is_own) {
        snp_mcp_client_notify(
            client, "notifications/cancelled",
            json_pack("{s:I, s:s}", "requestId", (json_int_t)call->id, "reason", why));
    }
    client->link->ops->forget(client->link, call->id);
}

/* Time ------------------------------------------------------------------------------------ */

/* The end of a call's time; its request is withdrawn. */
static void call_expire(struct snp_mcp_client *client, struct snp_mcp_pending *call)
{
    struct snp_err err;

    call_withdraw(client, call, "timed out");
    (void)snp_fail(&err, SNP_E_TIMEOUT, "the server did not answer %s within %g s", call->method,
                   (double)call->timeout_ms / MS_PER_S);
    pending_end(client, call, &err, NULL, NULL);
}

static void opened_tell(struct snp_mcp_client *client, const struct snp_err *err)
{
    if (!client->has_opened && client->state != SNP_MCP_CLIENT_CLOSING) {
        client->has_opened = true;
        if (client->options.opened != NULL) {
            client->options.opened(client->options.ctx, err);
        }
    }
}

/* Report a failure outside of the function that detected it. */
static void broken_tell(struct snp_mcp_client *client)
{
    const struct snp_err err = client->failure;

    opened_tell(client, &err);
    pending_fail(client, &err);
}

static void on_timer(uv_timer_t *timer)
{
    struct snp_mcp_client *client = timer->data;
    uint64_t now = snp_now_us();
    struct snp_mcp_pending *call = client->pending;

    if (client->state == SNP_MCP_CLIENT_BROKEN) {
        broken_tell(client);
        return;
    }
    while (call != NULL && client->state != SNP_MCP_CLIENT_CLOSING) {
        if (call->deadline_us <= now) {
            call_expire(client, call);
            call = client->pending;
        } else {
            call = call->next;
        }
    }
    timer_update(client);
}

static void timer_update(struct snp_mcp_client *client)
{
    uint64_t next = UINT64_MAX;
    uint64_t now = snp_now_us();

    if (client->state == SNP_MCP_CLIENT_CLOSING) {
        return;
    }
    for (const struct snp_mcp_pending *call = client->pending; call != NULL; call = call->next) {
        next = call->deadline_us < next ? call->deadline_us : next;
    }
    if (client->state == SNP_MCP_CLIENT_BROKEN) {
        next = client->has_opened && client->pending == NULL ? UINT64_MAX : now;
    }
    if (next == UINT64_MAX) {
        (void)uv_timer_stop(&client->timer);
    } else {
        uv_update_time(client->loop);
        (void)uv_timer_start(&client->timer, on_timer,
                             next <= now ? 0 : (next - now) / US_PER_MS + 1, 0);
    }
}

void snp_mcp_client_break(struct snp_mcp_client *client, const struct snp_err *err)
{
    if (client->state == SNP_MCP_CLIENT_BROKEN || client->state == SNP_MCP_CLIENT_CLOSING) {
        return;
    }
    client->state = SNP_MCP_CLIENT_BROKEN;
    client->failure = *err;
    if (client->link != NULL) {
        client->link->ops->close(client->link, true);
    }
    timer_update(client);
}

/* Asking ---------------------------------------------------------------------------------- */

static int pending_add(struct snp_mcp_client *client,
                       const struct snp_mcp_client_call *given,
                       bool is_own,
                       struct snp_mcp_pending **ret,
                       struct snp_err *err)
{
    uint64_t timeout_ms = given->timeout_ms == 0 ? client->timeout_ms : given->timeout_ms;
    struct snp_mcp_pending *call = calloc(1, sizeof(*call));
    struct snp_mcp_pending **at = &client->pending;

    if (call == NULL) {
        json_decref(given->params);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (timeout_ms > SNP_MCP_CLIENT_TIMEOUT_MAX_MS) {
        timeout_ms = SNP_MCP_CLIENT_TIMEOUT_MAX_MS;
    }
    call->method = strdup(given->method);
    call->params = given->params == NULL ? json_object() : given->params;
    if (call->method == NULL || !json_is_object(call->params)) {
        pending_free(call);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    call->call = *given;
    call->call.method = NULL;
    call->call.params = NULL;
    call->is_own = is_own;
    call->progress = -HUGE_VAL;
    call->handle = ++client->last_handle;
    call->timeout_ms = timeout_ms;
    call->deadline_us = snp_now_us() + timeout_ms * US_PER_MS;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = call;
    client->n_pending++;
    timer_update(client);
    *ret = call;
    return 0;
}

int snp_mcp_client_own(struct snp_mcp_client *client,
                       const struct snp_mcp_client_call *call,
                       struct snp_err *err)
{
    struct snp_mcp_pending *pending = NULL;
    int r = pending_add(client, call, true, &pending, err);

    if (r < 0) {
        return r;
    }
    r = call_send(client, pending, json_copy(pending->params), err);
    if (r < 0) {
        pending_unlink(client, pending);
        pending_free(pending);
    }
    return r;
}

int snp_mcp_client_call(struct snp_mcp_client *client,
                        const struct snp_mcp_client_call *call,
                        uint64_t *ret_call,
                        struct snp_err *err)
{
    struct snp_mcp_pending *pending = NULL;
    int r;

    if (client->state == SNP_MCP_CLIENT_BROKEN || client->state == SNP_MCP_CLIENT_CLOSING ||
        client->n_pending >= SNP_MCP_CLIENT_CALLS_MAX) {
        json_decref(call->params);
        if (client->state == SNP_MCP_CLIENT_BROKEN) {
            *err = client->failure;
            return err->code;
        }
        return client->state == SNP_MCP_CLIENT_CLOSING
                   ? snp_fail(err, SNP_E_PEER, "the connection to the server is closing")
                   : snp_fail(err, SNP_E_LIMIT, "a server can have at most %d open calls",
                              SNP_MCP_CLIENT_CALLS_MAX);
    }
    r = pending_add(client, call, false, &pending, err);
    if (r == 0 && client->state == SNP_MCP_CLIENT_OPEN) {
        r = call_send(client, pending, json_copy(pending->params), err);
        if (r < 0) {
            pending->call.dropped = NULL;
            pending_unlink(client, pending);
            pending_free(pending);
        }
    }
    if (r == 0 && ret_call != NULL) {
        *ret_call = pending->handle;
    }
    return r;
}

void snp_mcp_client_cancel(struct snp_mcp_client *client, uint64_t call)
{
    struct snp_mcp_pending *pending = client->pending;

    while (pending != NULL && pending->handle != call) {
        pending = pending->next;
    }
    if (pending == NULL || pending->is_own) {
        return;
    }
    call_withdraw(client, pending, "no longer wanted");
    pending_unlink(client, pending);
    pending_free(pending);
    timer_update(client);
}

/* Answers --------------------------------------------------------------------------------- */

/* "the server refuses tools/call: MESSAGE (-32602)" */
static void refusal(const struct snp_mcp_pending *call, const json_t *error, struct snp_err *err)
{
    snp_autosay struct snp_say shown = SNP_SAY((size_t)SNP_MCP_CLIENT_NOTE_MAX * 8);

    snp_say_string(&shown, json_object_get(error, "message"), 300);
    (void)snp_fail(err, SNP_E_PEER, "the server refuses %s: %s (%lld)", call->method,
                   snp_say_cstr(&shown), (long long)snp_json_int(error, "code", 0));
}

/* Send the next round; false: impossible, see err. */
static bool round_begin(struct snp_mcp_client *client,
                        struct snp_mcp_pending *call,
                        const json_t *result,
                        struct snp_err *err)
{
    json_t *params = NULL;
    int r = snp_mcp_client_round(client, call, result, &params, err);

    call->rounds++;
    return r == 0 && call_send(client, call, params, err) == 0;
}

static void result_take(struct snp_mcp_client *client, struct snp_mcp_pending *call, json_t *result)
{
    const char *type = snp_json_str(result, "resultType", "complete");
    struct snp_err err;

    if (!json_is_object(result)) {
        (void)snp_fail(&err, SNP_E_PEER, "the answer to %s is not an object", call->method);
        pending_end(client, call, &err, NULL, NULL);
    } else if (client->info.era != SNP_ERA_MODERN || snp_streq(type, "complete")) {
        pending_end(client, call, NULL, result, NULL);
    } else if (!snp_streq(type, "input_required")) {
        (void)snp_fail(&err, SNP_E_PEER, "the answer to %s has an unknown resultType",
                       call->method);
        pending_end(client, call, &err, NULL, NULL);
    } else if (!round_begin(client, call, result, &err)) {
        pending_end(client, call, &err, NULL, NULL);
    }
}

static enum snp_mcp_link_verdict answer_take(struct snp_mcp_client *client,
                                             uint64_t stream,
                                             const struct snp_jsonrpc *message)
{
    bool is_nameless = json_is_null(message->id) && message->error != NULL;
    uint64_t id = json_is_integer(message->id) && json_integer_value(message->id) > 0
                      ? (uint64_t)json_integer_value(message->id)
                      : 0;
    struct snp_mcp_pending *call = pending_find(client, id);
    struct snp_err err;

    if (is_nameless) { /* the server failed before it knew the id */
        call = stream != 0 ? pending_find(client, stream) : pending_first(client, true);
    }
    if (call == NULL || call->id == 0 || (stream != 0 && call->id != stream)) {
        return SNP_MCP_LINK_TAKEN; /* late, repeated, or of another stream: no recipient */
    }
    client->unasked = 0;
    if (message->error != NULL) {
        refusal(call, message->error, &err);
        pending_end(client, call, &err, NULL, message->error);
    } else {
        result_take(client, call, message->result);
    }
    return SNP_MCP_LINK_ANSWERED;
}

static void progress_take(struct snp_mcp_client *client, uint64_t stream, const json_t *params)
{
    const json_t *token = json_object_get(params, "progressToken");
    const json_t *progress = json_object_get(params, "progress");
    snp_autosay struct snp_say shown = SNP_SAY((size_t)PROGRESS_CHARS * 8);
    struct snp_mcp_pending *call =
        pending_find(client, json_is_integer(token) ? (uint64_t)json_integer_value(token) : 0);
    double value = json_number_value(progress);
    double total = json_number_value(json_object_get(params, "total"));

    if (call == NULL || call->call.progress == NULL || (stream != 0 && call->id != stream) ||
        !json_is_number(progress) || !(value > call->progress)) {
        return;
    }
    call->progress = value;
    snp_say_string(&shown, json_object_get(params, "message"), PROGRESS_CHARS);
    call->call.progress(call->call.ctx, value, total > 0 ? total : 0, snp_say_cstr(&shown));
}

static void notification_take(struct snp_mcp_client *client,
                              uint64_t stream,
                              const struct snp_jsonrpc *message)
{
    if (snp_streq(message->method, "notifications/progress")) {
        progress_take(client, stream, message->params);
    }
}

/* Only legacy servers ask. */
static void request_take(struct snp_mcp_client *client, const struct snp_jsonrpc *message)
{
    json_t *result = NULL;
    struct snp_err err;
    int r;

    if (client->info.era == SNP_ERA_MODERN) {
        client->strange++;
        return;
    }
    if (snp_streq(message->method, "ping")) {
        message_send(client, snp_jsonrpc_result(message->id, json_object()), NULL);
        return;
    }
    r = snp_mcp_client_ask(client, message->method, message->params, &result, &err);
    message_send(client,
                 r == 0 ? snp_jsonrpc_result(message->id, result)
                        : snp_jsonrpc_error(message->id,
                                            r == SNP_E_UNSUPPORTED ? SNP_JSONRPC_METHOD
                                                                   : SNP_JSONRPC_INTERNAL,
                                            err.msg, NULL),
                 NULL);
}

/* Values of a message outside its strings: the cost of parsing it. */
static size_t values_count(const char *text, size_t n)
{
    size_t count = 0;
    bool in_string = false;

    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\' && in_string) {
            i++;
        } else if (text[i] == '"') {
            in_string = !in_string;
        } else if (!in_string && (text[i] == ',' || text[i] == '[' || text[i] == '{')) {
            count++;
        }
    }
    return count;
}

/* Whether the server sends too many unsolicited messages. */
static bool is_too_much(struct snp_mcp_client *client)
{
    struct snp_err err;

    if (client->strange <= SNP_MCP_CLIENT_STRANGE_MAX &&
        client->unasked <= SNP_MCP_CLIENT_UNASKED_MAX) {
        return false;
    }
    (void)snp_fail(&err, SNP_E_PEER, "%s",
                   client->strange > SNP_MCP_CLIENT_STRANGE_MAX
                       ? "the server sends messages that are not MCP"
                       : "the server sends thousands of messages and no answer");
    snp_mcp_client_break(client, &err);
    return true;
}

enum snp_mcp_link_verdict snp_mcp_link_received(struct snp_mcp_client *client,
                                                uint64_t id,
                                                const char *text,
                                                size_t n)
{
    snp_autojsonrpc struct snp_jsonrpc message = {0};
    snp_autojson json_t *ignored_id = NULL;
    struct snp_err err;
    int code = 0;

    if (client->state == SNP_MCP_CLIENT_CLOSING || client->state == SNP_MCP_CLIENT_BROKEN ||
        client->state == SNP_MCP_CLIENT_RESTARTING) {
        return SNP_MCP_LINK_TAKEN;
    }
    if (values_count(text, n) > SNP_MCP_CLIENT_VALUES_MAX ||
        snp_jsonrpc_parse(text, n, &message, &code, &ignored_id, &err) < 0) {
        client->strange++;
        (void)is_too_much(client);
        return SNP_MCP_LINK_NONE;
    }
    client->unasked++;
    if (is_too_much(client)) {
        return SNP_MCP_LINK_TAKEN;
    }
    if (message.kind == SNP_JSONRPC_IS_RESPONSE) {
        return answer_take(client, id, &message);
    }
    if (message.kind == SNP_JSONRPC_IS_REQUEST) {
        request_take(client, &message);
    } else {
        notification_take(client, id, &message);
    }
    return SNP_MCP_LINK_TAKEN;
}

void snp_mcp_link_failed(struct snp_mcp_client *client, const struct snp_mcp_link_failure *failure)
{
    struct snp_mcp_pending *call = pending_find(client, failure->id);
    struct snp_err err = *failure->err;

    if (call == NULL || client->state == SNP_MCP_CLIENT_CLOSING ||
        client->state == SNP_MCP_CLIENT_BROKEN) {
        return;
    }
    if (failure->is_session_gone && !call->is_own && !call->was_sent_again) {
        /* It did not process the request: repeat it in a new session. */
        call->was_sent_again = true;
        call->id = 0;
        if (client->state == SNP_MCP_CLIENT_OPEN && snp_mcp_client_initialize(client, &err) == 0) {
            return;
        }
        if (client->state == SNP_MCP_CLIENT_INITIALIZING) {
            return;
        }
    }
    client->last_http_status = failure->http_status;
    pending_end(client, call, &err, NULL, NULL);
}

void snp_mcp_link_broken(struct snp_mcp_client *client, const struct snp_err *err)
{
    if (client->state == SNP_MCP_CLIENT_PROBING && snp_mcp_client_survives(client)) {
        struct snp_mcp_pending *own = pending_first(client, true);

        client->state = SNP_MCP_CLIENT_RESTARTING;
        if (own != NULL) {
            pending_unlink(client, own);
            pending_free(own);
        }
        client->link->ops->close(client->link, false);
        return;
    }
    snp_mcp_client_break(client, err);
}

void snp_mcp_link_listening(struct snp_mcp_client *client)
{
    if (client->state == SNP_MCP_CLIENT_INITIALIZING) {
        snp_mcp_client_ready(client);
    }
}

void snp_mcp_link_said(struct snp_mcp_client *client, const char *bytes, size_t n)
{
    if (client->options.said != NULL && client->state != SNP_MCP_CLIENT_CLOSING) {
        client->options.said(client->options.ctx, bytes, n);
    }
}

/* Beginning and end ----------------------------------------------------------------------- */

int snp_mcp_client_connect(struct snp_mcp_client *client, struct snp_err *err)
{
    return client->options.url != NULL
               ? snp_mcp_link_http(client->loop, client, &client->options, &client->link, err)
               : snp_mcp_link_stdio(client->loop, client, &client->options, &client->link, err);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct snp_mcp_client *client = handle->data;
    void (*closed)(void *ctx) = client->closed;
    void *ctx = client->closed_ctx;

    snp_mcp_options_free(&client->options);
    json_decref(client->capabilities);
    json_decref(client->tool_headers);
    json_decref(client->greeting);
    free(client);
    if (closed != NULL) {
        closed(ctx);
    }
}

void snp_mcp_link_closed(struct snp_mcp_client *client)
{
    struct snp_err err;

    client->link = NULL;
    if (client->state == SNP_MCP_CLIENT_CLOSING) {
        uv_close((uv_handle_t *)&client->timer, on_timer_closed);
    } else if (client->state == SNP_MCP_CLIENT_RESTARTING) {
        if (snp_mcp_client_connect(client, &err) < 0 ||
            snp_mcp_client_initialize(client, &err) < 0) {
            snp_mcp_client_break(client, &err);
        }
    }
}

void snp_mcp_client_close(struct snp_mcp_client *client, void (*closed)(void *ctx), void *ctx)
{
    bool was_broken = client->state == SNP_MCP_CLIENT_BROKEN;
    bool was_restarting = client->state == SNP_MCP_CLIENT_RESTARTING;

    if (client->state == SNP_MCP_CLIENT_CLOSING) {
        return;
    }
    client->state = SNP_MCP_CLIENT_CLOSING;
    client->closed = closed;
    client->closed_ctx = ctx;
    while (client->pending != NULL) {
        struct snp_mcp_pending *call = client->pending;

        pending_unlink(client, call);
        pending_free(call);
    }
    (void)uv_timer_stop(&client->timer);
    if (client->link == NULL) {
        uv_close((uv_handle_t *)&client->timer, on_timer_closed);
    } else if (!was_broken && !was_restarting) { /* else it is closing already */
        client->link->ops->close(client->link, false);
    }
}

int snp_mcp_client_new(uv_loop_t *loop,
                       const struct snp_mcp_client_options *options,
                       struct snp_mcp_client **ret,
                       struct snp_err *err)
{
    struct snp_mcp_client *client = calloc(1, sizeof(*client));
    int r;

    if (client == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    client->loop = loop;
    client->timeout_ms = options->timeout_ms == 0 ? SNP_MCP_CLIENT_TIMEOUT_MS : options->timeout_ms;
    (void)uv_timer_init(loop, &client->timer);
    client->timer.data = client;
    r = snp_mcp_options_copy(options, &client->options, err);
    if (r == 0) {
        client->capabilities =
            options->capabilities == NULL ? json_object() : json_deep_copy(options->capabilities);
        r = snp_mcp_client_connect(client, err);
    }
    if (r == 0) {
        r = snp_mcp_client_greet(client, err);
        if (r < 0) { /* opening ends in the loop, and `opened` reports it */
            snp_mcp_client_break(client, err);
            r = 0;
        }
    }
    if (r < 0) {
        snp_mcp_client_close(client, NULL, NULL);
        return r;
    }
    *ret = client;
    return 0;
}

const struct snp_mcp_client_info *snp_mcp_client_info(const struct snp_mcp_client *client)
{
    return client->greeting == NULL ? NULL : &client->info;
}
