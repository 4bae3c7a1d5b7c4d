/* SPDX-License-Identifier: Apache-2.0 */
/* The program that a run is for. */
#include "cli/run/peer.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "wire/frame.h"
#include "wire/rpc.h"
#include "wire/session.h"

enum {
    READ_BYTES = 64 << 10,
    PART_BYTES = 1 << 20, /* of a record or result that goes in one frame */
};

void snp_peer_init(struct snp_peer *peer, int fd)
{
    *peer = (struct snp_peer){.fd = fd};
    snp_buf_init(&peer->in, (size_t)SNP_FRAME_BODY_MAX + SNP_FRAME_HEADER_LEN + READ_BYTES);
    snp_buf_init(&peer->out, (size_t)SNP_FRAME_BODY_MAX + SNP_FRAME_HEADER_LEN);
}

/* It stays open, since a loop watches it. */
static void gone(struct snp_peer *peer)
{
    peer->is_gone = true;
    (void)shutdown(peer->fd, SHUT_RDWR);
}

void snp_peer_done(struct snp_peer *peer)
{
    if (peer->fd >= 0) {
        snp_closep(&peer->fd);
    }
    snp_buf_done(&peer->in);
    snp_buf_done(&peer->out);
    json_decref(peer->head);
    free(peer->prompt);
}

/* Sending ----------------------------------------------------------------------------------- */

/* Until it has been read, or nobody is there. */
static void flush(struct snp_peer *peer)
{
    while (!peer->is_gone && peer->out.len > 0) {
        struct pollfd p = {.fd = peer->fd, .events = POLLOUT};
        ssize_t n = SNP_RETRY(send(peer->fd, snp_buf_bytes(&peer->out), peer->out.len,
                                   MSG_NOSIGNAL | MSG_DONTWAIT));

        if (n > 0) {
            snp_buf_consume(&peer->out, (size_t)n);
        } else if (errno == EAGAIN) {
            (void)poll(&p, 1, -1);
        } else {
            gone(peer);
        }
    }
    snp_buf_clear(&peer->out);
}

/* head: consumed. */
static void frame_send(struct snp_peer *peer,
                       uint8_t type,
                       uint32_t id,
                       json_t *head,
                       const char *raw,
                       size_t raw_len)
{
    snp_autofree char *text = head == NULL ? NULL : snp_json_text(head);
    const struct snp_frame frame = {.type = type,
                                    .id = id,
                                    .head = text,
                                    .head_len = text == NULL ? 0 : strlen(text),
                                    .raw = raw,
                                    .raw_len = raw_len};

    json_decref(head);
    if (text == NULL || snp_frame_write(&peer->out, &frame) < 0) {
        gone(peer); /* out of memory: the end of the stream says that something is missing */
        return;
    }
    flush(peer);
}

void snp_peer_event(struct snp_peer *peer, json_t *head, const char *raw, size_t raw_len)
{
    frame_send(peer, SNP_RPC_EVENT, peer->id, head, raw, raw_len);
}

/* Text of any length, as events of which each has a part. */
static void parts_send(struct snp_peer *peer, bool is_record, const json_t *value)
{
    snp_autofree char *text = snp_json_text(value);
    size_t left = text == NULL ? 0 : strlen(text);
    const char *at = text;

    if (text == NULL) {
        gone(peer);
    }
    while (left > 0) {
        size_t n = left < PART_BYTES ? left : PART_BYTES;
        bool is_last = n == left;

        snp_peer_event(peer,
                       is_record ? SNP_WRITE(snp_event_record, .last = is_last)
                                 : SNP_WRITE(snp_event_result, .last = is_last),
                       at, n);
        at += n;
        left -= n;
    }
}

void snp_peer_record(struct snp_peer *peer, const char *id, const json_t *record)
{
    if (!peer->is_begun) {
        peer->is_begun = true;
        snp_peer_event(peer, SNP_WRITE(snp_event_begun, .trajectory_id = id), NULL, 0);
    }
    if (peer->request.records) {
        parts_send(peer, true, record);
    }
}

void snp_peer_text(struct snp_peer *peer, const char *text, size_t n)
{
    if (peer->request.text && n > 0) {
        snp_peer_event(peer, SNP_WRITE(snp_event_text), text, n);
    }
}

void snp_peer_end(struct snp_peer *peer, const json_t *result)
{
    parts_send(peer, false, result);
    peer->is_answered = true;
    frame_send(peer, SNP_RPC_RESPONSE, peer->id, json_object(), NULL, 0);
}

void snp_peer_fail(struct snp_peer *peer, const struct snp_err *err)
{
    if (!peer->is_answered) {
        peer->is_answered = true;
        frame_send(peer, SNP_RPC_ERROR, peer->id, snp_json_from_err(err), NULL, 0);
    }
}

/* Receiving --------------------------------------------------------------------------------- */

/* False: the end. */
static bool bytes_read(struct snp_peer *peer)
{
    char *space = NULL;
    ssize_t n;

    if (peer->is_gone || snp_buf_reserve(&peer->in, READ_BYTES, &space) < 0) {
        return false;
    }
    n = SNP_RETRY(recv(peer->fd, space, READ_BYTES, MSG_DONTWAIT));
    if (n > 0) {
        snp_buf_commit(&peer->in, (size_t)n);
    }
    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* A request that has the form of one of the methods; NULL: it was refused. Borrowed from *ret_head. */
static const struct snp_method_form *request_read(const struct snp_frame *frame,
                                                  json_t **ret_head,
                                                  struct snp_err *err)
{
    const char *method;

    if (snp_json_parse(frame->head, frame->head_len, ret_head, err) < 0) {
        return NULL;
    }
    method = snp_json_str(*ret_head, "method", "");
    for (size_t i = 0; i < SNP_RUN_METHODS_N; i++) {
        const struct snp_method_form *form = &snp_run_methods[i];

        if (strcmp(form->request->what, method) != 0) {
            continue;
        }
        if (snp_record_check(*ret_head, form->request, err) < 0) {
            return NULL;
        }
        if (frame->raw_len > form->raw_max) {
            (void)snp_fail(err, SNP_E_LIMIT, "%s takes at most %zu bytes", method,
                           form->raw_max);
            return NULL;
        }
        return form;
    }
    (void)snp_fail(err, SNP_E_UNSUPPORTED, "a run has no method '%.40s'", method);
    return NULL;
}

static void hello(struct snp_peer *peer, const struct snp_frame *frame, const json_t *head)
{
    int64_t version = snp_json_int(head, "version", 0);
    struct snp_err err;

    if (version == SNP_RPC_VERSION) {
        frame_send(peer, SNP_RPC_RESPONSE, frame->id,
                   SNP_WRITE(snp_hello_answer, .version = SNP_RPC_VERSION,
                             .program = SNP_VERSION, .pid = (uint64_t)getpid()),
                   NULL, 0);
        return;
    }
    (void)snp_fail(&err, SNP_E_UNSUPPORTED,
                   "the program speaks protocol version %lld, that of runs (%s) speaks %d",
                   (long long)version, SNP_VERSION, SNP_RPC_VERSION);
    frame_send(peer, SNP_RPC_ERROR, frame->id, snp_json_from_err(&err), NULL, 0);
}

/* The request that this process is for. */
static void begin(struct snp_peer *peer, const struct snp_frame *frame, json_t *head)
{
    peer->id = frame->id;
    peer->head = json_incref(head);
    peer->is_settings = strcmp(snp_json_str(head, "method", ""), "settings") == 0;
    snp_record_read(head, &snp_run_request_form, &peer->request);
    peer->prompt = strndup(frame->raw_len == 0 ? "" : frame->raw, frame->raw_len);
}

static void frame_handle(struct snp_peer *peer,
                         const struct snp_frame *frame,
                         const struct snp_peer_ops *ops)
{
    snp_autojson json_t *head = NULL;
    struct snp_err err;
    const struct snp_method_form *form =
        frame->type != SNP_RPC_REQUEST ? NULL : request_read(frame, &head, &err);
    json_t *answer = NULL;

    if (frame->type != SNP_RPC_REQUEST) {
        gone(peer);
    } else if (form == NULL) {
        frame_send(peer, SNP_RPC_ERROR, frame->id, snp_json_from_err(&err), NULL, 0);
    } else if (form->request == &snp_hello_request_form) {
        hello(peer, frame, head);
    } else if (form->request == &snp_interrupt_request_form && ops != NULL) {
        ops->interrupt(ops->ctx);
        answer = SNP_WRITE(snp_interrupt_answer, .interrupted = true);
    } else if (form->request == &snp_answer_request_form && ops != NULL) {
        bool is_waited =
            ops->answer(ops->ctx, (uint64_t)snp_json_int(head, "call", 0),
                        snp_json_bool(head, "ok", false), frame->raw, frame->raw_len);

        answer = SNP_WRITE(snp_answer_answer, .answered = is_waited);
    } else if (peer->head == NULL && ops == NULL) {
        begin(peer, frame, head);
    } else {
        (void)snp_fail(&err, SNP_E_INVALID, "a process has one run");
        frame_send(peer, SNP_RPC_ERROR, frame->id, snp_json_from_err(&err), NULL, 0);
    }
    if (answer != NULL) {
        frame_send(peer, SNP_RPC_RESPONSE, frame->id, answer, NULL, 0);
    }
}

/* What is there, up to and with the request that this process is for. */
static bool frames_handle(struct snp_peer *peer, const struct snp_peer_ops *ops)
{
    while (!peer->is_gone && (ops != NULL || peer->head == NULL)) {
        struct snp_frame frame;
        struct snp_err err;
        size_t size = 0;
        bool has = false;

        if (snp_frame_peek(&peer->in, SNP_FRAME_BODY_MAX, &frame, &size, &has, &err) < 0) {
            return false;
        }
        if (!has) {
            return true;
        }
        frame_handle(peer, &frame, ops);
        snp_buf_consume(&peer->in, size);
    }
    return !peer->is_gone;
}

bool snp_peer_receive(struct snp_peer *peer, const struct snp_peer_ops *ops)
{
    bool has = bytes_read(peer);

    return frames_handle(peer, ops) && has; /* what came before the end counts */
}

int snp_peer_open(struct snp_peer *peer, struct snp_err *err)
{
    while (peer->head == NULL) {
        struct pollfd p = {.fd = peer->fd, .events = POLLIN};

        (void)poll(&p, 1, -1);
        if (!bytes_read(peer) || !frames_handle(peer, NULL)) {
            return snp_fail(err, SNP_E_PEER, "the program went away");
        }
    }
    return peer->prompt == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}
