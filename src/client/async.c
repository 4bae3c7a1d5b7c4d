/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client for event loops.
 *
 * The blocking client connects and greets in a worker thread; its descriptor is taken over here.
 * Until then requests are queued. When the connection breaks, every open call ends with SNP_E_PEER;
 * it is unknown which of them the daemon has begun, so only requests that it certainly did not read
 * are sent again. Callbacks come from the loop only.
 */
#include "client/async.h"

#include <stdlib.h>

#include "base/fd.h"
#include "client/client.h"

struct snp_async {
    struct snp_calls calls;
    uv_loop_t *loop;
    uv_work_t work;
    uv_poll_t *poll; /* owned, on the heap: its handle outlives a connection; NULL = none */
    int events;      /* watched now */
    bool is_connecting;
    bool is_closing;              /* freed when the worker is done */
    struct snp_client *connected; /* the worker's result */
    struct snp_err connect_err;
    int connect_r;
};

/* Connection ------------------------------------------------------------------------------ */

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void poll_close(struct snp_async *async)
{
    if (async->poll != NULL) {
        (void)uv_poll_stop(async->poll);
        async->poll->data = NULL;
        uv_close((uv_handle_t *)async->poll, on_poll_closed);
        async->poll = NULL;
    }
}

static void connection_drop(struct snp_async *async, const struct snp_err *err)
{
    poll_close(async);
    snp_calls_drop(&async->calls, err);
}

static void poll_update(struct snp_async *async);
static void push(struct snp_async *async);

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct snp_async *async = poll->data;
    struct snp_err err;
    int r = 0;

    if (status < 0) {
        /* It closed with unread data. */
        async->calls.is_unread = true;
        r = snp_fail(&err, SNP_E_PEER, "the daemon disconnected");
    }
    if (r == 0 && (events & UV_WRITABLE) != 0) {
        r = snp_calls_send(&async->calls, &err);
    }
    if (r == 0 && (events & (UV_READABLE | UV_DISCONNECT)) != 0) {
        r = snp_calls_receive(&async->calls, &err);
    }
    if (r < 0 && async->calls.is_unread) {
        poll_close(async);
        if (snp_calls_again(&async->calls, &err)) {
            push(async);
        }
    } else if (r < 0) {
        connection_drop(async, &err);
    } else {
        poll_update(async);
    }
}

static void poll_update(struct snp_async *async)
{
    int events = UV_READABLE | UV_DISCONNECT | (async->calls.out.len > 0 ? UV_WRITABLE : 0);

    if (events != async->events) { /* each start costs two system calls */
        async->events = events;
        (void)uv_poll_start(async->poll, events, on_poll);
    }
}

/* In a worker thread: uses only these three members. */
static void connect_work(uv_work_t *work)
{
    struct snp_async *async = work->data;
    const struct snp_client_options options = {.has_start = true, .signal_fd = -1};

    async->connect_r = snp_client_connect(&options, &async->connected, &async->connect_err);
}

/* Take over a connection. */
static int watch(struct snp_async *async, int fd)
{
    uv_poll_t *poll = calloc(1, sizeof(*poll));

    async->calls.fd = fd;
    if (poll == NULL || uv_poll_init(async->loop, poll, fd) < 0) {
        free(poll);
        return snp_fail(&async->connect_err, SNP_E_SYS, "the daemon's socket cannot be watched");
    }
    poll->data = async;
    async->poll = poll;
    /* Writable at once: queued requests are sent from there. */
    async->events = UV_READABLE | UV_WRITABLE | UV_DISCONNECT;
    (void)uv_poll_start(poll, async->events, on_poll);
    return 0;
}

static void connect_done(uv_work_t *work, int status)
{
    struct snp_async *async = work->data;
    snp_autoclient struct snp_client *client = SNP_TAKE_PTR(async->connected);

    async->is_connecting = false;
    if (async->is_closing) {
        free(async);
        return;
    }
    if (status < 0) {
        async->connect_r = snp_fail(&async->connect_err, SNP_E_SYS, "no thread to connect with");
    }
    if (async->connect_r < 0 || watch(async, snp_client_take_fd(client)) < 0) {
        connection_drop(async, &async->connect_err);
    }
}

/* Calls ----------------------------------------------------------------------------------- */

int snp_async_new(uv_loop_t *loop, struct snp_async **ret, struct snp_err *err)
{
    struct snp_async *async = calloc(1, sizeof(*async));

    if (async == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    async->loop = loop;
    async->work.data = async;
    snp_calls_init(&async->calls);
    *ret = async;
    return 0;
}

/* Connect, or send queued requests. The loop reports failures. */
static void push(struct snp_async *async)
{
    struct snp_err err;

    if (async->calls.fd < 0 && !async->is_connecting) {
        async->is_connecting =
            uv_queue_work(async->loop, &async->work, connect_work, connect_done) == 0;
        SNP_ASSERT(async->is_connecting); /* only a missing callback fails */
    } else if (async->calls.fd >= 0) {
        (void)!snp_calls_send(&async->calls, &err); /* the poll detects a broken socket */
        poll_update(async);
    }
}

int snp_async_call(struct snp_async *async,
                   const struct snp_async_call *call,
                   uint32_t *ret_id,
                   struct snp_err *err)
{
    int r = snp_calls_begin(&async->calls, call, ret_id, err);

    if (r == 0) {
        push(async);
    }
    return r;
}

void snp_async_interrupt(struct snp_async *async, uint32_t id)
{
    snp_calls_interrupt(&async->calls, id);
    if (async->calls.out.len > 0) {
        push(async);
    }
}

bool snp_async_is_sent(const struct snp_async *async)
{
    return async->calls.out.len == 0;
}

void snp_async_free(struct snp_async *async)
{
    if (async == NULL) {
        return;
    }
    poll_close(async);
    snp_calls_done(&async->calls);
    if (async->is_connecting) {
        async->is_closing = true;
    } else {
        free(async);
    }
}
