/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariant: a call is in the table from its begin until its done. The socket never blocks here:
 * callers poll.
 */
#include "client/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/wire/frame.h"
#include "base/wire/methods.h"
#include "base/wire/rpc.h"
#include "base/wire/session.h"
#include "client/start.h"

enum {
    OUT_MAX = 64 << 20, /* bytes queued for the daemon */
    KEEP_BYTES = 256 << 10,
    READ_BYTES = 64 << 10, /* at once */
    WORDS_MAX = 256,
    FIRST_ID = 16, /* the greeting uses smaller ones */
};

static const char older[] = "the running daemon is older than this program";

struct open_call {
    uint32_t id;
    struct snp_async_call call; /* head and raw are not kept */
    struct snp_buf held;        /* its frame while queued */
    bool is_interrupted;        /* interrupt it once it is sent */
    bool is_again;              /* sent a second time */
    bool is_part;               /* never sent to another daemon */
};

/* Open calls ------------------------------------------------------------------------------ */

static struct open_call *find(const struct snp_calls *calls, uint32_t id)
{
    for (size_t i = 0; i < calls->n_open; i++) {
        if (calls->open[i]->id == id) {
            return calls->open[i];
        }
    }
    return NULL;
}

/* Remove a call from the table; the caller frees it. */
static void take_out(struct snp_calls *calls, const struct open_call *call)
{
    for (size_t i = 0; i < calls->n_open; i++) {
        if (calls->open[i] == call) {
            calls->open[i] = calls->open[--calls->n_open];
            return;
        }
    }
}

static void one_free(struct snp_calls *calls, struct open_call *one)
{
    calls->held_bytes -= one->held.len;
    snp_buf_done(&one->held);
    free(one);
}

/* Copy the frame at the end of `out`, to send it again if the daemon dies before reading it. */
static void newest_keep(struct snp_calls *calls, const struct open_call *one, size_t len)
{
    snp_buf_done(&calls->newest);
    snp_buf_init(&calls->newest, KEEP_BYTES);
    calls->newest_id = one->id;
    if (len <= KEEP_BYTES && !one->is_part &&
        snp_buf_add(&calls->newest, snp_buf_bytes(&calls->out) + calls->out.len - len, len) < 0) {
        snp_buf_done(&calls->newest); /* out of memory: the call fails like others */
    }
}

static void newest_forget(struct snp_calls *calls, uint32_t id)
{
    if (calls->newest_id == id) {
        snp_buf_done(&calls->newest);
    }
}

static void end(struct snp_calls *calls,
                struct open_call *one,
                const struct snp_err *err,
                json_t *head,
                const char *raw,
                size_t raw_len)
{
    struct snp_async_call call = one->call;

    take_out(calls, one);
    newest_forget(calls, one->id);
    one_free(calls, one);
    if (call.done != NULL) {
        call.done(call.ctx, err, head, raw, raw_len);
    }
}

/*
 * The connection is gone, or failed: no open call except the spared one will be answered. Later
 * calls stay.
 */
static void fail_all(struct snp_calls *calls,
                     const struct open_call *spared,
                     const struct snp_err *err)
{
    uint32_t last = calls->last_id;

    for (size_t i = 0; i < calls->n_open;) {
        if (calls->open[i] != spared && calls->open[i]->id <= last) {
            end(calls, calls->open[i], err, NULL, NULL, 0);
            i = 0; /* the table has changed */
        } else {
            i++;
        }
    }
}

static bool may_send(const struct snp_calls *calls, const struct open_call *one)
{
    return calls->n_sent < (size_t)(one->call.is_urgent ? SNP_CALLS_URGENT : SNP_CALLS_SENT);
}

/* The next queued call: an urgent one, else the oldest. */
static struct open_call *held_next(const struct snp_calls *calls)
{
    struct open_call *next = NULL;

    for (size_t i = 0; calls->held_bytes > 0 && i < calls->n_open; i++) {
        struct open_call *one = calls->open[i];

        if (one->held.len > 0 &&
            (next == NULL || one->call.is_urgent > next->call.is_urgent ||
             (one->call.is_urgent == next->call.is_urgent && one->id < next->id))) {
            next = one;
        }
    }
    return next;
}

/* The daemon has answered a call: send calls that were queued for that. */
static int held_send(struct snp_calls *calls, struct snp_err *err)
{
    struct open_call *one;

    while ((one = held_next(calls)) != NULL && may_send(calls, one)) {
        if (snp_buf_add(&calls->out, snp_buf_bytes(&one->held), one->held.len) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        newest_keep(calls, one, one->held.len);
        calls->held_bytes -= one->held.len;
        snp_buf_done(&one->held);
        calls->n_sent++;
        if (one->is_interrupted) {
            snp_calls_interrupt(calls, one->id);
        }
    }
    return 0;
}

/* A daemon that does not know a method or member of this program's requests is older. */
static void older_explain(struct snp_err *err)
{
    const struct snp_err said = *err;
    bool is_older = err->code == SNP_E_UNSUPPORTED && snp_has_prefix(err->msg, "unknown method ");

    is_older |= snp_has_prefix(err->msg, "exec: 'defaults': limits: unknown member ");
    for (size_t i = 0; i < SNP_METHODS_N && err->code == SNP_E_INVALID && !is_older; i++) {
        const char *method = snp_methods[i].request->what;

        is_older = snp_has_prefix(err->msg, method) &&
                   snp_has_prefix(err->msg + strlen(method), ": unknown member ");
    }
    if (is_older) {
        (void)snp_fail(err, SNP_E_UNSUPPORTED,
                       "%s (%.*s); restart it with: snipara-sandbox daemon stop", older,
                       (int)strcspn(said.msg, ";"), said.msg);
    }
}

bool snp_calls_is_older(const struct snp_err *err)
{
    return err->code == SNP_E_UNSUPPORTED && snp_has_prefix(err->msg, older);
}

static int frame_handle(struct snp_calls *calls, const struct snp_frame *frame, struct snp_err *err)
{
    snp_autojson json_t *head = NULL;
    struct open_call *one = find(calls, frame->id);
    struct snp_err told;
    int r = snp_json_parse(frame->head, frame->head_len, &head, err);

    if (r < 0) {
        return snp_err_wrap(err, "the daemon's answer");
    }
    if (frame->id != 0 && frame->type != SNP_RPC_EVENT) {
        calls->n_sent -= calls->n_sent > 0 ? 1 : 0;
        r = held_send(calls, err);
        if (r < 0) {
            return r;
        }
    }
    switch (frame->type) {
    case SNP_RPC_EVENT:
        if (one != NULL && one->call.event != NULL) {
            one->call.event(one->call.ctx, head, frame->raw, frame->raw_len);
        }
        return 0;
    case SNP_RPC_ERROR:
        (void)snp_json_to_err(head, &told);
        if (frame->id == 0) {
            *err = told; /* *err is about the connection */
            return told.code;
        }
        if (one != NULL) {
            if (!one->call.is_raw) {
                older_explain(&told);
            }
            end(calls, one, &told, NULL, NULL, 0);
        }
        return 0;
    case SNP_RPC_RESPONSE:
        if (one != NULL) {
            end(calls, one, NULL, head, frame->raw, frame->raw_len);
        }
        return 0;
    default:
        return snp_fail(err, SNP_E_PEER, "the daemon sent a frame of type %u", frame->type);
    }
}

static int frames_handle(struct snp_calls *calls, struct snp_err *err)
{
    for (;;) {
        struct snp_frame frame;
        size_t size = 0;
        bool has = false;

        SNP_TRY(snp_frame_peek(&calls->in, SNP_FRAME_BODY_MAX, &frame, &size, &has, err));
        if (!has) {
            break;
        }
        SNP_TRY(frame_handle(calls, &frame, err));
        snp_buf_consume(&calls->in, size);
    }
    if (calls->in.len == 0 && calls->in.cap > KEEP_BYTES) {
        snp_buf_done(&calls->in);
    }
    return 0;
}

void snp_calls_init(struct snp_calls *calls)
{
    *calls = (struct snp_calls){.fd = -1, .last_id = FIRST_ID};
    snp_buf_init(&calls->in, (size_t)SNP_FRAME_BODY_MAX + SNP_FRAME_HEADER_LEN + READ_BYTES);
    snp_buf_init(&calls->out, OUT_MAX);
}

/* Append a request's frame. SNP_E_LIMIT: it is too large, or the queue is full. */
static int request_write(struct snp_buf *out,
                         uint32_t id,
                         const struct snp_async_call *call,
                         struct snp_err *err)
{
    snp_autofree char *text = call->head == NULL ? NULL : snp_json_text(call->head);
    int r;

    SNP_TRY_MEMORY(text != NULL, err);
    r = snp_frame_write(out, &(struct snp_frame){.type = SNP_RPC_REQUEST,
                                                 .id = id,
                                                 .head = text,
                                                 .head_len = strlen(text),
                                                 .raw = call->raw,
                                                 .raw_len = call->raw_len});
    if (r < 0 && out->len > 0) {
        return snp_fail(err, (enum snp_code)r, "too many bytes wait to be sent to the daemon");
    }
    return r < 0 ? snp_fail(err, (enum snp_code)r,
                            "a request can have at most %d MiB; send large data as files",
                            SNP_FRAME_BODY_MAX >> 20)
                 : 0;
}

/* The request continues an earlier one. Another daemon may not have the earlier parts. */
static bool is_part(const json_t *head)
{
    return json_integer_value(json_object_get(head, "offset")) > 0 ||
           json_object_get(head, "token") != NULL;
}

int snp_calls_begin(struct snp_calls *calls,
                    const struct snp_async_call *call,
                    uint32_t *ret_id,
                    struct snp_err *err)
{
    snp_autojson json_t *head = call->head;
    snp_autofree struct open_call *one = calloc(1, sizeof(*one));
    size_t before = calls->out.len;
    bool is_now;
    int r;

    if (one == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (calls->n_open == SNP_CALLS_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "%d requests are already open", SNP_CALLS_MAX);
    }
    one->id = calls->last_id + 1;
    one->call = *call;
    one->call.head = NULL;
    one->call.raw = NULL;
    one->is_part = is_part(head);
    is_now = may_send(calls, one); /* then no call of its kind is queued */
    snp_buf_init(&one->held, OUT_MAX - calls->held_bytes);
    r = request_write(is_now ? &calls->out : &one->held, one->id, call, err);
    if (r < 0) {
        snp_buf_done(&one->held);
        return r;
    }
    if (is_now) {
        calls->n_sent++;
        newest_keep(calls, one, calls->out.len - before);
    }
    calls->held_bytes += one->held.len;
    calls->last_id = one->id;
    *ret_id = one->id;
    calls->open[calls->n_open++] = SNP_TAKE_PTR(one);
    return 0;
}

void snp_calls_interrupt(struct snp_calls *calls, uint32_t id)
{
    struct open_call *one = find(calls, id);
    const bool is_held = one != NULL && one->held.len > 0;
    const struct snp_async_call call = {
        .head = one == NULL || is_held ? NULL : SNP_WRITE(snp_interrupt_request, .request = id),
        .is_urgent = true,
    };
    uint32_t own = 0;
    struct snp_err err;

    if (is_held) {
        one->is_interrupted = true;
    }
    if (call.head != NULL) { /* on failure the cell ends by its limits */
        (void)!snp_calls_begin(calls, &call, &own, &err);
    }
}

void snp_calls_forget(struct snp_calls *calls, uint32_t id)
{
    struct open_call *one = find(calls, id);

    if (one != NULL && one->held.len > 0) { /* still queued */
        one->call.event = NULL;
        one->call.done = NULL;
    } else if (one != NULL) { /* an answer that arrives later is dropped */
        take_out(calls, one);
        newest_forget(calls, one->id);
        one_free(calls, one);
    }
}

int snp_calls_send(struct snp_calls *calls, struct snp_err *err)
{
    struct snp_buf *out = &calls->out;

    while (out->len > 0) {
        ssize_t n =
            SNP_RETRY(send(calls->fd, snp_buf_bytes(out), out->len, MSG_NOSIGNAL | MSG_DONTWAIT));

        if (n < 0 && errno == EAGAIN) {
            return 0;
        }
        if (n < 0 && errno != EPIPE && errno != ECONNRESET) {
            return snp_fail(err, SNP_E_PEER, "the daemon disconnected (errno %d)", errno);
        }
        if (n < 0) {
            snp_buf_clear(out); /* frames sent before it closed may still be read */
            calls->is_unread = true;
        } else {
            snp_buf_consume(out, (size_t)n);
        }
    }
    if (out->cap > KEEP_BYTES) {
        snp_buf_done(out);
    }
    return 0;
}

int snp_calls_receive(struct snp_calls *calls, struct snp_err *err)
{
    char words[WORDS_MAX];
    char *space = NULL;
    ssize_t n;
    int r = snp_buf_reserve(&calls->in, READ_BYTES, &space);

    if (r < 0) {
        return snp_fail(err, (enum snp_code)r, "no room for more of a frame");
    }
    n = SNP_RETRY(recv(calls->fd, space, READ_BYTES, MSG_DONTWAIT));
    if (n > 0) {
        snp_buf_commit(&calls->in, (size_t)n);
        return frames_handle(calls, err);
    }
    if (n < 0 && errno == EAGAIN) {
        return 0;
    }
    calls->is_unread |= n < 0 && errno == ECONNRESET;
    return snp_fail(err, SNP_E_PEER, "the daemon disconnected%s",
                    snp_daemon_last_words(words, sizeof(words)));
}

static void disconnect(struct snp_calls *calls)
{
    snp_closep(&calls->fd);
    calls->fd = -1;
    snp_buf_done(&calls->in);
    snp_buf_done(&calls->out);
    calls->n_sent = 0;
    calls->is_unread = false;
}

void snp_calls_drop(struct snp_calls *calls, const struct snp_err *err)
{
    disconnect(calls);
    fail_all(calls, NULL, err);
}

bool snp_calls_again(struct snp_calls *calls, const struct snp_err *err)
{
    struct open_call *one = calls->newest.len == 0 ? NULL : find(calls, calls->newest_id);
    struct snp_buf frame = SNP_TAKE(calls->newest, (struct snp_buf){0});
    struct snp_err ignored;

    disconnect(calls);
    if (one != NULL && !one->is_again) {
        one->is_again = true;
        one->held = frame;
        calls->held_bytes += frame.len;
    } else {
        snp_buf_done(&frame);
        one = NULL;
    }
    fail_all(calls, one, err);
    return one != NULL && held_send(calls, &ignored) == 0;
}

void snp_calls_done(struct snp_calls *calls)
{
    snp_buf_done(&calls->newest);
    while (calls->n_open > 0) {
        one_free(calls, calls->open[--calls->n_open]);
    }
    disconnect(calls);
}
