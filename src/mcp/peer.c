/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversations.
 *
 * Invariants: a call in the hub's list is answered at most once, then freed; one whose peer is NULL
 * never sends again, so nothing follows a cancellation. Ids are compared within a client only: two
 * clients with the same ids never meet. A batch lives until it has been read and each of its calls
 * was answered or dropped. At most SNP_MCP_CALLS_MAX calls of a client have begun; the others wait
 * in the same list, so they can be cancelled, and begin in order of arrival.
 */
#include "mcp/peer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "mcp/caps.h"

enum {
    MESSAGE_MAX = 512, /* bytes of an error or progress text */
    US_PER_S = 1000000,
};

/* Sending --------------------------------------------------------------------------------- */

/* message: consumed; NULL = out of memory, nothing is sent. */
static void peer_send(struct snp_mcp_peer *peer, json_t *message)
{
    if (message != NULL) {
        peer->send(peer, message);
    }
    json_decref(message);
}

void snp_mcp_reject(struct snp_mcp_peer *peer, int code, const char *message)
{
    peer_send(peer, snp_jsonrpc_error(NULL, code, message, NULL));
}

/* Batches --------------------------------------------------------------------------------- */

struct snp_mcp_batch {
    json_t *answers; /* owned */
    size_t n_users;  /* calls without an answer, plus one while it is being read */
};

static void batch_release(struct snp_mcp_peer *peer, struct snp_mcp_batch *batch)
{
    if (--batch->n_users > 0) {
        return;
    }
    if (json_array_size(batch->answers) > 0 && !peer->is_gone) {
        peer_send(peer, json_incref(batch->answers));
    }
    json_decref(batch->answers);
    free(batch);
}

/* Send an answer with those of its batch, or alone if batch is NULL. message: consumed. */
static void answer_send(struct snp_mcp_peer *peer, struct snp_mcp_batch *batch, json_t *message)
{
    if (batch == NULL) {
        peer_send(peer, message);
    } else {
        (void)json_array_append_new(batch->answers, message); /* fails only without memory */
    }
}

/*
 * Refuse the peer's last message; returns the code. id: borrowed, NULL = unknown; data: consumed.
 */
static int message_refuse(
    struct snp_mcp_peer *peer, json_t *id, int code, const char *text, json_t *data)
{
    answer_send(peer, peer->batch, snp_jsonrpc_error(id, code, text, data));
    return code;
}

/* Calls ----------------------------------------------------------------------------------- */

static void ticks_update(struct snp_mcp_hub *hub);
static void waiting_start(struct snp_mcp_hub *hub);

static struct snp_mcp_call *call_new(struct snp_mcp_peer *peer,
                                     struct snp_jsonrpc *message,
                                     enum snp_era era,
                                     const struct snp_mcp_method *method)
{
    struct snp_mcp_hub *hub = peer->hub;
    struct snp_mcp_call *call = calloc(1, sizeof(*call));
    struct snp_mcp_call *last = hub->calls;

    if (call == NULL) {
        return NULL;
    }
    call->hub = hub;
    call->peer = peer;
    call->era = era;
    call->root = SNP_TAKE_PTR(message->root);
    call->id = message->id;
    call->method = method;
    call->batch = peer->batch;
    if (call->batch != NULL) {
        call->batch->n_users++;
    }
    call->params = message->params;
    call->started_us = snp_now_us();
    if (call->params == NULL) {
        call->params = json_object();
        (void)json_object_set_new(call->root, "params", call->params);
    }
    call->token = json_object_get(json_object_get(call->params, "_meta"), "progressToken");
    if (!json_is_string(call->token) && !json_is_integer(call->token)) {
        call->token = NULL;
    }
    while (last != NULL && last->next != NULL) {
        last = last->next;
    }
    call->prev = last;
    *(last == NULL ? &hub->calls : &last->next) = call;
    peer->n_calls++;
    return call;
}

static void asks_forget(const struct snp_mcp_call *call)
{
    for (size_t i = 0; call->peer != NULL && i < SNP_MCP_ASKS_MAX; i++) {
        if (call->peer->asks[i].call == call) {
            call->peer->asks[i] = (struct snp_mcp_ask){0};
        }
    }
}

/* Drop the call; its reply is discarded. */
static void call_detach(struct snp_mcp_call *call)
{
    if (call->peer != NULL) {
        asks_forget(call);
        call->peer->n_calls--;
        if (call->batch != NULL) {
            batch_release(call->peer, call->batch);
        }
        call->batch = NULL;
        call->peer = NULL;
    }
}

static void call_free(struct snp_mcp_call *call)
{
    struct snp_mcp_hub *hub = call->hub;

    call_detach(call);
    *(call->prev == NULL ? &hub->calls : &call->prev->next) = call->next;
    if (call->next != NULL) {
        call->next->prev = call->prev;
    }
    if (call->state_free != NULL) {
        call->state_free(call->state);
    }
    hub->n_waiting -= call->waiting_bytes > 0 ? 1 : 0;
    hub->waiting_bytes -= call->waiting_bytes;
    json_decref(call->root);
    free(call);
    ticks_update(hub);
    waiting_start(hub);
}

static void call_cancel(struct snp_mcp_call *call)
{
    struct snp_mcp_hub *hub = call->hub;

    call_detach(call);
    if (call->waiting_bytes > 0) {
        call_free(call);
    } else if (call->cancel != NULL) {
        call->cancel(call); /* may end it */
    }
    waiting_start(hub);
}

/* Of these, only server/discover gets the full server info. */
static bool says_all(const struct snp_mcp_call *call)
{
    return strcmp(call->method->name, "server/discover") == 0;
}

void snp_mcp_answer(struct snp_mcp_call *call, json_t *result)
{
    snp_autojson json_t *owned = result;
    const struct snp_mcp_service *service = call->hub->service;

    if (call->peer != NULL &&
        (owned == NULL || (call->era == SNP_ERA_MODERN &&
                           snp_era_finish(owned, says_all(call) ? service->info : service->brief,
                                          call->method->is_listing) < 0))) {
        snp_mcp_refuse(call, SNP_JSONRPC_INTERNAL, NULL, "out of memory");
        return;
    }
    if (call->peer != NULL) {
        answer_send(call->peer, call->batch, snp_jsonrpc_result(call->id, SNP_TAKE_PTR(owned)));
    }
    call_free(call);
}

void snp_mcp_refuse(struct snp_mcp_call *call, int code, json_t *data, const char *fmt, ...)
{
    char text[MESSAGE_MAX];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (call->peer != NULL) {
        answer_send(call->peer, call->batch, snp_jsonrpc_error(call->id, code, text, data));
    } else {
        json_decref(data);
    }
    call_free(call);
}

bool snp_mcp_refuse_cursor(struct snp_mcp_call *call)
{
    bool has_cursor = json_object_get(call->params, "cursor") != NULL;

    if (has_cursor) {
        snp_mcp_refuse(call, SNP_JSONRPC_PARAMS, NULL, "Invalid cursor: the list has one page");
    }
    return has_cursor;
}

void snp_mcp_notify(struct snp_mcp_call *call, const char *method, json_t *params)
{
    if (call->peer == NULL) {
        json_decref(params);
        return;
    }
    peer_send(call->peer, snp_jsonrpc_notification(method, params));
}

/* Progress -------------------------------------------------------------------------------- */

void snp_mcp_progress(
    struct snp_mcp_call *call, double progress, double total, const char *message, json_t *meta)
{
    if (call->token == NULL || call->peer == NULL || progress <= call->progress) {
        json_decref(meta);
        return;
    }
    call->progress = progress;
    snp_mcp_notify(call, "notifications/progress",
                   json_pack("{s:O, s:f, s:o*, s:o*, s:o*}", "progressToken", call->token,
                             "progress", progress, "total", total > 0 ? json_real(total) : NULL,
                             "message",
                             message == NULL ? NULL : snp_json_bytes(message, strlen(message)),
                             "_meta", meta));
}

static bool wants_ticks(const struct snp_mcp_call *call)
{
    return call->token != NULL && call->peer != NULL && call->describe != NULL;
}

static void on_tick(uv_timer_t *timer)
{
    struct snp_mcp_hub *hub = timer->data;

    for (struct snp_mcp_call *call = hub->calls; call != NULL; call = call->next) {
        snp_autobuf struct snp_buf text = SNP_BUF(MESSAGE_MAX);

        if (!wants_ticks(call)) {
            continue;
        }
        call->describe(call, &text);
        snp_mcp_progress(call, (double)(snp_now_us() - call->started_us) / US_PER_S, 0,
                         snp_buf_cstr(&text),
                         call->accompany == NULL ? NULL : call->accompany(call));
    }
    ticks_update(hub);
}

/* The timer runs while any call wants progress. */
static void ticks_update(struct snp_mcp_hub *hub)
{
    bool is_wanted = false;

    for (const struct snp_mcp_call *call = hub->calls; call != NULL; call = call->next) {
        is_wanted = is_wanted || wants_ticks(call);
    }
    if (!is_wanted) {
        (void)uv_timer_stop(&hub->ticks);
    } else if (!uv_is_active((const uv_handle_t *)&hub->ticks)) {
        (void)uv_timer_start(&hub->ticks, on_tick, SNP_MCP_PROGRESS_MS, SNP_MCP_PROGRESS_MS);
    }
}

/* Asking the client ----------------------------------------------------------------------- */

int snp_mcp_ask(struct snp_mcp_call *call,
                const char *method,
                json_t *params,
                void (*answered)(struct snp_mcp_call *call, json_t *result, json_t *error),
                struct snp_err *err)
{
    for (size_t i = 0; call->peer != NULL && i < SNP_MCP_ASKS_MAX; i++) {
        struct snp_mcp_ask *ask = &call->peer->asks[i];

        if (ask->id == 0) {
            *ask = (struct snp_mcp_ask){++call->hub->last_ask, call, answered};
            peer_send(call->peer, snp_jsonrpc_request(ask->id, method, params));
            return 0;
        }
    }
    json_decref(params);
    return snp_fail(err, SNP_E_LIMIT, "%d questions to the client are already open",
                    SNP_MCP_ASKS_MAX);
}

static bool is_same_client(const struct snp_mcp_peer *a, const struct snp_mcp_peer *b)
{
    return a == b || (a != NULL && a->client != NULL && a->client == b->client);
}

static void on_response(const struct snp_mcp_peer *peer, const struct snp_jsonrpc *message)
{
    for (struct snp_mcp_call *call = peer->hub->calls; call != NULL; call = call->next) {
        for (size_t i = 0; is_same_client(call->peer, peer) && i < SNP_MCP_ASKS_MAX; i++) {
            struct snp_mcp_ask ask = call->peer->asks[i];

            if (ask.call == call && json_is_integer(message->id) &&
                ask.id == json_integer_value(message->id)) {
                call->peer->asks[i] = (struct snp_mcp_ask){0};
                ask.answered(call, message->result, message->error);
                return;
            }
        }
    }
    /* Unsolicited: ignored. */
}

/* Core methods ---------------------------------------------------------------------------- */

static void run_initialize(struct snp_mcp_call *call)
{
    const struct snp_mcp_service *service = call->hub->service;
    const char *version = snp_era_negotiate(snp_json_str(call->params, "protocolVersion", ""));

    (void)snprintf(call->peer->version, sizeof(call->peer->version), "%s", version);
    snp_mcp_answer(call, json_pack("{s:s, s:O, s:O, s:s*}", "protocolVersion", version,
                                   "capabilities", service->capabilities, "serverInfo",
                                   service->info, "instructions", service->instructions));
}

static void run_ping(struct snp_mcp_call *call)
{
    snp_mcp_answer(call, json_object());
}

static void run_discover(struct snp_mcp_call *call)
{
    const struct snp_mcp_service *service = call->hub->service;

    snp_mcp_answer(call, json_pack("{s:o, s:O, s:s*}", "supportedVersions", snp_era_supported(),
                                   "capabilities", service->capabilities, "instructions",
                                   service->instructions));
}

static const struct snp_mcp_method core_methods[] = {
    {"initialize", SNP_IN_LEGACY, false, run_initialize},
    {"ping", SNP_IN_LEGACY, false, run_ping},
    {"server/discover", SNP_IN_MODERN, true, run_discover},
};

/* Answered immediately, however busy: clients use them as health checks. */
static bool is_core(const struct snp_mcp_method *method)
{
    return method >= core_methods && method < core_methods + SNP_ARRAY_LEN(core_methods);
}

static const struct snp_mcp_method *method_in(const struct snp_mcp_method *methods,
                                              size_t n,
                                              const char *name,
                                              enum snp_era era)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(methods[i].name, name) == 0 && (methods[i].eras & 1U << era) != 0) {
            return &methods[i];
        }
    }
    return NULL;
}

/* Receiving ------------------------------------------------------------------------------- */

static struct snp_mcp_call *call_find(const struct snp_mcp_peer *peer, const json_t *id)
{
    for (struct snp_mcp_call *call = peer->hub->calls; call != NULL; call = call->next) {
        if (is_same_client(call->peer, peer) && json_equal(call->id, id)) {
            return call;
        }
    }
    return NULL;
}

/* Whether the client has the maximum of begun calls. */
static bool is_busy(const struct snp_mcp_peer *peer)
{
    size_t n = 0;

    for (const struct snp_mcp_call *call = peer->hub->calls; call != NULL; call = call->next) {
        n += call->waiting_bytes == 0 && is_same_client(call->peer, peer) ? 1 : 0;
    }
    return n >= SNP_MCP_CALLS_MAX;
}

/* The oldest waiting call whose client is not busy; NULL = none. */
static struct snp_mcp_call *waiting_next(const struct snp_mcp_hub *hub)
{
    const struct snp_mcp_peer *busy = NULL; /* the last one found to be */

    for (struct snp_mcp_call *call = hub->calls; call != NULL && hub->n_waiting > 0;
         call = call->next) {
        if (call->waiting_bytes == 0 || call->peer->is_gone ||
            (busy != NULL && is_same_client(call->peer, busy))) {
            continue;
        }
        if (!is_busy(call->peer)) {
            return call;
        }
        busy = call->peer;
    }
    return NULL;
}

static void describe_waiting(struct snp_mcp_call *call, struct snp_buf *out)
{
    (void)call;
    (void)!snp_buf_addf(out, "waiting: %d requests are in flight", SNP_MCP_CALLS_MAX);
}

/* A call may end while it begins: then the running loop checks again. */
static void waiting_start(struct snp_mcp_hub *hub)
{
    struct snp_mcp_call *call;

    if (hub->is_starting) {
        return;
    }
    hub->is_starting = true;
    while ((call = waiting_next(hub)) != NULL) {
        hub->n_waiting--;
        hub->waiting_bytes -= call->waiting_bytes;
        call->waiting_bytes = 0;
        call->describe = NULL;
        call->method->run(call);
        ticks_update(hub);
    }
    hub->is_starting = false;
}

/* Bytes charged for a waiting message; 0: no room. */
static size_t waiting_room(const struct snp_mcp_hub *hub, const json_t *root)
{
    size_t n = json_dumpb(root, NULL, 0, JSON_COMPACT);

    return hub->n_waiting >= SNP_MCP_WAITING_MAX || hub->waiting_bytes + n > SNP_MCP_WAITING_BYTES
               ? 0
               : n;
}

static const struct snp_mcp_method *method_find(const struct snp_mcp_peer *peer,
                                                const char *name,
                                                enum snp_era era)
{
    const struct snp_mcp_service *service = peer->hub->service;
    const struct snp_mcp_method *method =
        method_in(core_methods, SNP_ARRAY_LEN(core_methods), name, era);

    return method != NULL ? method : method_in(service->methods, service->n_methods, name, era);
}

static int on_request(struct snp_mcp_peer *peer, struct snp_jsonrpc *message, enum snp_era era)
{
    const struct snp_mcp_method *method = method_find(peer, message->method, era);
    struct snp_mcp_call *call;
    size_t waiting_bytes = 0;
    char text[MESSAGE_MAX];

    if (method == NULL) {
        (void)snprintf(text, sizeof(text), "Method not found: %s", message->method);
        return message_refuse(peer, message->id, SNP_JSONRPC_METHOD, text, NULL);
    }
    if (peer->batch != NULL && method->run == run_initialize) {
        return message_refuse(peer, message->id, SNP_JSONRPC_REQUEST,
                              "initialize cannot be part of a batch", NULL);
    }
    if (call_find(peer, message->id) != NULL) {
        return message_refuse(peer, message->id, SNP_JSONRPC_REQUEST,
                              "this id is in use by a request in flight", NULL);
    }
    if (!is_core(method) && is_busy(peer)) {
        waiting_bytes = waiting_room(peer->hub, message->root);
        if (waiting_bytes == 0) {
            (void)snprintf(text, sizeof(text),
                           "too many requests wait (%zu, %zu MiB); send this one again when "
                           "some have been answered",
                           peer->hub->n_waiting, peer->hub->waiting_bytes >> 20);
            return message_refuse(peer, message->id, SNP_JSONRPC_INTERNAL, text, NULL);
        }
    }
    call = call_new(peer, message, era, method);
    if (call == NULL) {
        return message_refuse(peer, message->id, SNP_JSONRPC_INTERNAL, "out of memory", NULL);
    }
    if (waiting_bytes > 0) {
        call->waiting_bytes = waiting_bytes;
        call->describe = describe_waiting;
        peer->hub->n_waiting++;
        peer->hub->waiting_bytes += waiting_bytes;
    } else {
        method->run(call);
    }
    ticks_update(peer->hub);
    return 0;
}

static void on_notification(struct snp_mcp_peer *peer, const struct snp_jsonrpc *message)
{
    const json_t *id = json_object_get(message->params, "requestId");
    struct snp_mcp_call *call;

    if (strcmp(message->method, "notifications/cancelled") != 0 || id == NULL) {
        return; /* others are ignored */
    }
    call = call_find(peer, id);
    if (call != NULL) {
        call_cancel(call);
    }
}

int snp_mcp_take(struct snp_mcp_peer *peer, struct snp_jsonrpc *message)
{
    snp_autojson json_t *data = NULL;
    enum snp_era era = SNP_ERA_LEGACY;
    struct snp_err err;
    int code = 0;
    int r;

    if (message->kind == SNP_JSONRPC_IS_RESPONSE) {
        on_response(peer, message);
        return 0;
    }
    r = snp_era_read(message, &era, &code, &data, &err);
    if (message->kind == SNP_JSONRPC_IS_NOTIFICATION) {
        on_notification(peer, message);
        return 0;
    }
    if (r < 0) {
        return message_refuse(peer, message->id, code, err.msg, SNP_TAKE_PTR(data));
    }
    if (peer->batch != NULL && era == SNP_ERA_MODERN) {
        return message_refuse(peer, message->id, SNP_JSONRPC_REQUEST,
                              "this version of the protocol has no batches", NULL);
    }
    return on_request(peer, message, era);
}

/* One message; root: consumed. */
static void message_take(struct snp_mcp_peer *peer, json_t *root)
{
    snp_autojsonrpc struct snp_jsonrpc message = {0};
    snp_autojson json_t *id = NULL;
    struct snp_err err;
    int code = 0;

    if (snp_jsonrpc_take(root, &message, &code, &id, &err) < 0) {
        (void)message_refuse(peer, id, code, err.msg, NULL);
    } else {
        (void)snp_mcp_take(peer, &message);
    }
}

static int batch_check(const struct snp_mcp_peer *peer, const json_t *list, struct snp_err *err)
{
    if (strcmp(peer->version, SNP_MCP_VERSION_BATCHES) != 0) {
        return snp_fail(err, SNP_E_INVALID,
                        "only version %s of the protocol has batches; send one message after "
                        "the other",
                        SNP_MCP_VERSION_BATCHES);
    }
    if (json_array_size(list) == 0 || json_array_size(list) > SNP_MCP_BATCH_MAX) {
        return snp_fail(err, SNP_E_INVALID, "a batch has 1 to %d messages", SNP_MCP_BATCH_MAX);
    }
    return 0;
}

int snp_mcp_take_batch(struct snp_mcp_peer *peer, const json_t *list)
{
    struct snp_mcp_batch *batch;
    struct snp_err err;
    size_t i;
    json_t *root;

    if (batch_check(peer, list, &err) < 0) {
        snp_mcp_reject(peer, SNP_JSONRPC_REQUEST, err.msg);
        return SNP_JSONRPC_REQUEST;
    }
    batch = calloc(1, sizeof(*batch));
    if (batch == NULL) {
        snp_mcp_reject(peer, SNP_JSONRPC_INTERNAL, "out of memory");
        return SNP_JSONRPC_INTERNAL;
    }
    *batch = (struct snp_mcp_batch){.answers = json_array(), .n_users = 1};
    peer->batch = batch;
    json_array_foreach(list, i, root)
    {
        message_take(peer, json_incref(root));
    }
    peer->batch = NULL;
    batch_release(peer, batch);
    return 0;
}

void snp_mcp_receive(struct snp_mcp_peer *peer, const char *text, size_t n)
{
    snp_autojson json_t *root = NULL;
    struct snp_err err;
    int code = SNP_JSONRPC_REQUEST;

    if (snp_jsonrpc_read(text, n, &root, &code, &err) < 0) {
        snp_mcp_reject(peer, code, err.msg);
    } else if (json_is_object(root)) {
        message_take(peer, SNP_TAKE_PTR(root));
    } else {
        (void)snp_mcp_take_batch(peer, root);
    }
}

/* Lives ----------------------------------------------------------------------------------- */

void snp_mcp_hub_init(struct snp_mcp_hub *hub,
                      uv_loop_t *loop,
                      const struct snp_mcp_service *service)
{
    *hub = (struct snp_mcp_hub){.service = service, .loop = loop};
    (void)uv_timer_init(loop, &hub->ticks);
    hub->ticks.data = hub;
}

void snp_mcp_hub_done(struct snp_mcp_hub *hub)
{
    hub->is_starting = true; /* no call begins from now on */
    while (hub->calls != NULL) {
        call_free(hub->calls);
    }
    uv_close((uv_handle_t *)&hub->ticks, NULL);
}

void snp_mcp_peer_init(struct snp_mcp_peer *peer, struct snp_mcp_hub *hub)
{
    void (*send)(struct snp_mcp_peer *, json_t *) = peer->send;
    const void *client = peer->client;

    *peer = (struct snp_mcp_peer){.hub = hub, .send = send, .client = client};
}

void snp_mcp_peer_done(struct snp_mcp_peer *peer)
{
    struct snp_mcp_call *next = NULL;

    peer->is_gone = true;
    for (struct snp_mcp_call *call = peer->hub->calls; call != NULL; call = next) {
        next = call->next;
        if (call->peer == peer) {
            call_cancel(call);
            next = peer->hub->calls; /* the list may have changed */
        }
    }
}
