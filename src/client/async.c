/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client for event loops.
 *
 * Connecting and greeting is left to the blocking client, in a worker thread; its descriptor is
 * taken over here. Requests queue up meanwhile. When the connection breaks, every open call
 * ends with SNP_E_PEER; which of them the daemon has begun cannot be known, so nothing
 * is sent again.
 *
 * Invariants: an operation is in the table from snp_async_call until its done; done is called from
 * the loop only.
 */
#include "client/async.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fd.h"
#include "client/client.h"
#include "client/socket.h"
#include "wire/frame.h"
#include "wire/rpc.h"
#include "wire/session.h"

enum {
    OPS_MAX = 512,
    OUT_MAX = 64 << 20, /* bytes waiting for the daemon */
    KEEP_BYTES = 256 << 10,
    FIRST_ID = 16, /* the blocking client has used the ones below */
};

struct op {
    uint32_t id;
    struct snp_async_call call; /* head and raw are not kept */
};

struct snp_async {
    uv_loop_t *loop;
    uv_work_t work;
    uv_poll_t *poll; /* owned, on the heap: its end outlasts a connection; NULL = none */
    int events;      /* that are watched */
    int fd;          /* owned; -1 = not connected */
    bool is_connecting;
    bool is_closing; /* freed when the worker is done */
    struct snp_buf in;
    struct snp_buf out;
    struct op *ops[OPS_MAX];
    size_t n_ops;
    uint32_t last_id;
    struct snp_client *connected; /* what the worker made */
    struct snp_err connect_err;
    int connect_r;
};

/* Operations ------------------------------------------------------------------------------ */

static struct op *op_find(const struct snp_async *async, uint32_t id)
{
    for (size_t i = 0; i < async->n_ops; i++) {
        if (async->ops[i]->id == id) {
            return async->ops[i];
        }
    }
    return NULL;
}

/* Take an operation out of the table; the caller frees it. */
static void op_remove(struct snp_async *async, const struct op *op)
{
    for (size_t i = 0; i < async->n_ops; i++) {
        if (async->ops[i] == op) {
            async->ops[i] = async->ops[--async->n_ops];
            return;
        }
    }
}

static void op_end(struct snp_async *async,
                   struct op *op,
                   const struct snp_err *err,
                   json_t *head,
                   const char *raw,
                   size_t raw_len)
{
    struct snp_async_call call = op->call;

    op_remove(async, op);
    free(op);
    if (call.done != NULL) {
        call.done(call.ctx, err, head, raw, raw_len);
    }
}

/* The connection is gone, or never came: no open call will be answered. Calls made meanwhile stay. */
static void ops_fail(struct snp_async *async, const struct snp_err *err)
{
    uint32_t last = async->last_id;

    for (size_t i = 0; i < async->n_ops;) {
        if (async->ops[i]->id <= last) {
            op_end(async, async->ops[i], err, NULL, NULL, 0);
            i = 0; /* the table has changed */
        } else {
            i++;
        }
    }
}

/* Connection ------------------------------------------------------------------------------ */

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void connection_close(struct snp_async *async)
{
    if (async->poll != NULL) {
        (void)uv_poll_stop(async->poll);
        async->poll->data = NULL;
        uv_close((uv_handle_t *)async->poll, on_poll_closed);
        async->poll = NULL;
    }
    snp_closep(&async->fd);
    async->fd = -1;
    snp_buf_done(&async->in);
    snp_buf_done(&async->out);
}

static void connection_drop(struct snp_async *async, const struct snp_err *err)
{
    connection_close(async);
    ops_fail(async, err);
}

static void poll_update(struct snp_async *async);

static int send_out(struct snp_async *async, struct snp_err *err)
{
    int r = snp_socket_send(async->fd, &async->out, err);

    if (async->out.len == 0 && async->out.cap > KEEP_BYTES) {
        snp_buf_done(&async->out);
    }
    return r;
}

static int frame_handle(struct snp_async *async,
                        const struct snp_frame *frame,
                        struct snp_err *err)
{
    snp_autojson json_t *head = NULL;
    struct op *op = op_find(async, frame->id);
    struct snp_err told;
    int r = snp_json_parse(frame->head, frame->head_len, &head, err);

    if (r < 0) {
        return snp_err_wrap(err, "the daemon's answer");
    }
    switch (frame->type) {
    case SNP_RPC_EVENT:
        if (op != NULL && op->call.event != NULL) {
            op->call.event(op->call.ctx, head, frame->raw, frame->raw_len);
        }
        return 0;
    case SNP_RPC_ERROR:
        (void)snp_json_to_err(head, &told);
        if (frame->id == 0) {
            *err = told; /* about the connection */
            return told.code;
        }
        if (op != NULL) {
            op_end(async, op, &told, NULL, NULL, 0);
        }
        return 0;
    case SNP_RPC_RESPONSE:
        if (op != NULL) {
            op_end(async, op, NULL, head, frame->raw, frame->raw_len);
        }
        return 0;
    default:
        return snp_fail(err, SNP_E_PEER, "the daemon sent a frame of type %u", frame->type);
    }
}

static int frames_handle(struct snp_async *async, struct snp_err *err)
{
    for (;;) {
        struct snp_frame frame;
        size_t size = 0;
        bool has = false;
        int r = snp_frame_peek(&async->in, SNP_FRAME_BODY_MAX, &frame, &size, &has, err);

        if (r < 0) {
            return r;
        }
        if (!has) {
            break;
        }
        r = frame_handle(async, &frame, err);
        if (r < 0) {
            return r;
        }
        snp_buf_consume(&async->in, size);
    }
    if (async->in.len == 0 && async->in.cap > KEEP_BYTES) {
        snp_buf_done(&async->in);
    }
    return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct snp_async *async = poll->data;
    struct snp_err err;
    int r = 0;

    if (status < 0) {
        /* It closed with something unread. */
        r = snp_fail(&err, SNP_E_PEER,
                     "the daemon went away; whether it had begun this is not known");
    }
    if (r == 0 && (events & UV_WRITABLE) != 0) {
        r = send_out(async, &err);
    }
    if (r == 0 && (events & (UV_READABLE | UV_DISCONNECT)) != 0) {
        r = snp_socket_receive(async->fd, &async->in, &err);
        r = r < 0 ? r : frames_handle(async, &err);
    }
    if (r < 0) {
        connection_drop(async, &err);
    } else {
        poll_update(async);
    }
}

static void poll_update(struct snp_async *async)
{
    int events = UV_READABLE | UV_DISCONNECT | (async->out.len > 0 ? UV_WRITABLE : 0);

    if (events != async->events) { /* each start costs two system calls */
        async->events = events;
        (void)uv_poll_start(async->poll, events, on_poll);
    }
}

/* In a worker thread: touches nothing but these three members. */
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

    async->fd = fd;
    if (poll == NULL || uv_poll_init(async->loop, poll, fd) < 0) {
        free(poll);
        return snp_fail(&async->connect_err, SNP_E_SYS,
                        "the daemon's socket cannot be watched");
    }
    poll->data = async;
    async->poll = poll;
    /* Writable at once: what waits is sent from there. */
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
        async->connect_r =
            snp_fail(&async->connect_err, SNP_E_SYS, "no thread to connect with");
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
    async->fd = -1;
    async->last_id = FIRST_ID;
    async->work.data = async;
    snp_buf_init(&async->in,
                 (size_t)SNP_FRAME_BODY_MAX + SNP_FRAME_HEADER_LEN + SNP_SOCKET_READ);
    snp_buf_init(&async->out, OUT_MAX);
    *ret = async;
    return 0;
}

/* Connect, or send what waits. A failure is told by the loop. */
static void push(struct snp_async *async)
{
    struct snp_err err;

    if (async->fd < 0 && !async->is_connecting) {
        async->is_connecting =
            uv_queue_work(async->loop, &async->work, connect_work, connect_done) == 0;
        SNP_ASSERT(async->is_connecting); /* fails for a missing callback only */
    } else if (async->fd >= 0) {
        (void)send_out(async, &err); /* a broken socket is found by the poll */
        poll_update(async);
    }
}

int snp_async_call(struct snp_async *async,
                   const struct snp_async_call *call,
                   uint32_t *ret_id,
                   struct snp_err *err)
{
    snp_autojson json_t *head = call->head;
    snp_autofree struct op *op = calloc(1, sizeof(*op));
    int r;

    if (op == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (async->n_ops == OPS_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "%d requests are open already", OPS_MAX);
    }
    op->id = async->last_id + 1;
    op->call = *call;
    op->call.head = NULL;
    op->call.raw = NULL;
    r = snp_socket_queue(
        &async->out, &(struct snp_socket_request){op->id, head, call->raw, call->raw_len}, err);
    if (r < 0) {
        return r;
    }
    async->last_id = op->id;
    *ret_id = op->id;
    async->ops[async->n_ops++] = SNP_TAKE_PTR(op);
    push(async);
    return 0;
}

void snp_async_interrupt(struct snp_async *async, uint32_t id)
{
    struct snp_async_call call = {
        .head = SNP_WRITE(snp_interrupt_request, .request = id),
    };
    uint32_t own = 0;
    struct snp_err err;

    if (op_find(async, id) == NULL || call.head == NULL) {
        json_decref(call.head);
        return;
    }
    /* Without memory or room the cell ends by its own limits. */
    (void)!snp_async_call(async, &call, &own, &err);
}

bool snp_async_is_sent(const struct snp_async *async)
{
    return async->out.len == 0;
}

void snp_async_free(struct snp_async *async)
{
    if (async == NULL) {
        return;
    }
    while (async->n_ops > 0) {
        free(async->ops[--async->n_ops]);
    }
    connection_close(async);
    if (async->is_connecting) {
        async->is_closing = true;
    } else {
        free(async);
    }
}
