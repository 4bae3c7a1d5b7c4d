/* SPDX-License-Identifier: Apache-2.0 */
/* The program that started a run. */
#include "base/cli/serve/caller.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/wire/frame.h"
#include "base/wire/rpc.h"
#include "base/wire/session.h"

enum {
    READ_BYTES = 64 << 10,
    PART_BYTES = 1 << 20, /* of a record or result, per frame */
};

static void on_fail(void *ctx, const struct snp_err *err)
{
    snp_caller_fail(ctx, err);
}

static void on_warn(void *ctx, const char *text)
{
    snp_caller_event(ctx, SNP_WRITE(snp_event_note), text, strlen(text));
}

static void on_end(void *ctx, const json_t *answer)
{
    snp_caller_end(ctx, answer);
}

struct snp_caller *snp_caller_of(const struct snp_cli *cli)
{
    return cli->listener == NULL ? NULL : cli->listener->ctx;
}

void snp_caller_init(struct snp_caller *caller, int fd)
{
    *caller = (struct snp_caller){
        .listener = {.fail = on_fail, .warn = on_warn, .end = on_end, .ctx = caller},
        .fd = fd,
    };
    snp_buf_init(&caller->in, (size_t)SNP_FRAME_BODY_MAX + SNP_FRAME_HEADER_LEN + READ_BYTES);
    snp_buf_init(&caller->out, 2 * ((size_t)SNP_FRAME_BODY_MAX + SNP_FRAME_HEADER_LEN));
}

/* It stays open, since a loop watches it. */
static void gone(struct snp_caller *caller)
{
    caller->is_gone = true;
    (void)shutdown(caller->fd, SHUT_RDWR);
}

void snp_caller_done(struct snp_caller *caller)
{
    if (caller->fd >= 0) {
        snp_closep(&caller->fd);
    }
    snp_buf_done(&caller->in);
    snp_buf_done(&caller->out);
    json_decref(caller->head);
    json_decref(caller->refusal);
    free(caller->prompt);
}

/* Sending ----------------------------------------------------------------------------------- */

/* -1 = for ever. */
static int wait_ms(const struct snp_caller *caller)
{
    int64_t left = caller->left_ms == NULL ? INT64_MAX : caller->left_ms(caller->left_ctx);

    return left == INT64_MAX ? -1 : left <= 0 ? 0 : left < INT_MAX ? (int)left : INT_MAX;
}

/* Wait until it is read, the time is over, or the other side is gone. */
static void flush(struct snp_caller *caller)
{
    while (!caller->is_gone && caller->out.len > 0) {
        struct pollfd p = {.fd = caller->fd, .events = POLLOUT};
        ssize_t n = SNP_RETRY(send(caller->fd, snp_buf_bytes(&caller->out), caller->out.len,
                                   MSG_NOSIGNAL | MSG_DONTWAIT));

        if (n > 0) {
            snp_buf_consume(&caller->out, (size_t)n);
        } else if (errno == EAGAIN) {
            int ms = wait_ms(caller);

            if (ms == 0) {
                return;
            }
            (void)poll(&p, 1, ms);
        } else {
            gone(caller);
        }
    }
    snp_buf_clear(&caller->out);
}

/* head: consumed. */
static void frame_send(struct snp_caller *caller,
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
    if (text == NULL || snp_frame_write(&caller->out, &frame) < 0) {
        gone(caller); /* no room: the end of the stream signals missing data */
        return;
    }
    flush(caller);
}

void snp_caller_event(struct snp_caller *caller, json_t *head, const char *raw, size_t raw_len)
{
    frame_send(caller, SNP_RPC_EVENT, caller->id, head, raw, raw_len);
}

/* Send text of any length as several events. */
static void parts_send(struct snp_caller *caller, bool is_record, const json_t *value)
{
    snp_autofree char *text = snp_json_text(value);
    size_t left = text == NULL ? 0 : strlen(text);
    const char *at = text;

    if (text == NULL) {
        gone(caller);
    }
    while (left > 0) {
        size_t n = left < PART_BYTES ? left : PART_BYTES;
        bool is_last = n == left;

        snp_caller_event(caller,
                         is_record ? SNP_WRITE(snp_event_record, .last = is_last)
                                   : SNP_WRITE(snp_event_result, .last = is_last),
                         at, n);
        at += n;
        left -= n;
    }
}

void snp_caller_record(struct snp_caller *caller, const char *id, const json_t *record)
{
    if (!caller->is_begun) {
        caller->is_begun = true;
        snp_caller_event(caller, SNP_WRITE(snp_event_begun, .trajectory_id = id), NULL, 0);
    }
    if (caller->request.records) {
        parts_send(caller, true, record);
    }
}

void snp_caller_text(struct snp_caller *caller, const char *text, size_t n)
{
    if (caller->request.text && n > 0) {
        snp_caller_event(caller, SNP_WRITE(snp_event_text), text, n);
    }
}

void snp_caller_end(struct snp_caller *caller, const json_t *result)
{
    caller->left_ms = NULL; /* the run is over: only the program waits for this */
    parts_send(caller, false, result);
    caller->is_answered = true;
    frame_send(caller, SNP_RPC_RESPONSE, caller->id, json_object(), NULL, 0);
}

void snp_caller_fail(struct snp_caller *caller, const struct snp_err *err)
{
    if (!caller->is_answered) {
        caller->is_answered = true;
        caller->left_ms = NULL;
        frame_send(caller, SNP_RPC_ERROR, caller->id, snp_json_from_err(err), NULL, 0);
    }
}

/* Receiving --------------------------------------------------------------------------------- */

/* False: the end. */
static bool bytes_read(struct snp_caller *caller)
{
    char *space = NULL;
    ssize_t n;

    if (caller->is_gone || snp_buf_reserve(&caller->in, READ_BYTES, &space) < 0) {
        return false;
    }
    n = SNP_RETRY(recv(caller->fd, space, READ_BYTES, MSG_DONTWAIT));
    if (n > 0) {
        snp_buf_commit(&caller->in, (size_t)n);
    }
    return n > 0 || (n < 0 && errno == EAGAIN);
}

/* An answer refused for its size still ends its call: there will be no other. */
static void too_large(const json_t *head, size_t n, const struct snp_caller_ops *ops)
{
    snp_autofree char *text =
        snp_format("the result has %zu bytes; at most %d MiB", n, SNP_CALL_BYTES_MAX >> 20);

    if (text != NULL) {
        (void)ops->answer(ops->ctx, (uint64_t)snp_json_int(head, "call", 0), false, text,
                          strlen(text));
    }
}

/* A prompt becomes a C string, so it must have no NUL. */
static int prompt_check(const struct snp_method_form *form,
                        const struct snp_frame *frame,
                        struct snp_err *err)
{
    bool is_cut = form->request == &snp_run_request_form && frame->raw_len > 0 &&
                  memchr(frame->raw, '\0', frame->raw_len) != NULL;

    return is_cut ? snp_fail(err, SNP_E_INVALID, "the prompt has a NUL character") : 0;
}

/* A request in the form of one of the methods; NULL: it was refused. Borrowed from *ret_head. */
static const struct snp_method_form *request_read(const struct snp_frame *frame,
                                                  const struct snp_caller_ops *ops,
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
        if (frame->raw_len <= form->raw_max) {
            return prompt_check(form, frame, err) < 0 ? NULL : form;
        }
        (void)snp_fail(err, SNP_E_LIMIT, "%s takes at most %zu bytes", method, form->raw_max);
        if (form->request == &snp_answer_request_form && ops != NULL) {
            too_large(*ret_head, frame->raw_len, ops);
        }
        return NULL;
    }
    (void)snp_fail(err, SNP_E_UNSUPPORTED, "a run has no method '%.40s'", method);
    return NULL;
}

/* False: another protocol version; all its requests are refused. */
static bool version_check(struct snp_caller *caller, const json_t *head)
{
    int64_t version = snp_json_int(head, "version", 0);
    struct snp_err err;

    if (version == SNP_RPC_VERSION) {
        return true;
    }
    (void)snp_fail(&err, SNP_E_UNSUPPORTED,
                   "the program speaks protocol version %lld, the process of the run (%s) speaks "
                   "%d",
                   (long long)version, SNP_VERSION, SNP_RPC_VERSION);
    json_decref(caller->refusal);
    caller->refusal = snp_json_from_err(&err);
    return false;
}

void snp_caller_begin(
    struct snp_caller *caller, uint32_t id, json_t *head, const char *prompt, size_t n)
{
    caller->id = id;
    caller->head = json_incref(head);
    caller->is_settings = strcmp(snp_json_str(head, "method", ""), "settings") == 0;
    if (strcmp(snp_json_str(head, "method", ""), "command") == 0) {
        caller->command = json_object_get(head, "words");
    }
    snp_record_read(head, &snp_run_request_form, &caller->request);
    caller->prompt = strndup(prompt, n);
}

static void refuse(struct snp_caller *caller, uint32_t id, json_t *error)
{
    frame_send(caller, SNP_RPC_ERROR, id, error, NULL, 0);
}

static void frame_handle(struct snp_caller *caller,
                         const struct snp_frame *frame,
                         const struct snp_caller_ops *ops)
{
    snp_autojson json_t *head = NULL;
    struct snp_err err;
    const struct snp_method_form *form =
        frame->type != SNP_RPC_REQUEST ? NULL : request_read(frame, ops, &head, &err);
    json_t *answer = NULL;
    bool is_over = false;

    if (frame->type != SNP_RPC_REQUEST) {
        gone(caller);
    } else if (form == NULL && caller->refusal == NULL) {
        refuse(caller, frame->id, snp_json_from_err(&err));
        is_over = ops == NULL;
    } else if (form != NULL && form->request == &snp_hello_request_form) {
        if (!version_check(caller, head)) {
            refuse(caller, frame->id, json_incref(caller->refusal));
            return;
        }
        answer = SNP_WRITE(snp_hello_answer, .version = SNP_RPC_VERSION, .program = SNP_VERSION,
                           .pid = (uint64_t)getpid());
    } else if (caller->refusal != NULL) {
        refuse(caller, frame->id, json_incref(caller->refusal));
        is_over = true;
    } else if (form->request == &snp_interrupt_request_form && ops != NULL) {
        ops->interrupt(ops->ctx);
        answer = SNP_WRITE(snp_interrupt_answer, .interrupted = true);
    } else if (form->request == &snp_answer_request_form && ops != NULL) {
        bool is_waited = ops->answer(ops->ctx, (uint64_t)snp_json_int(head, "call", 0),
                                     snp_json_bool(head, "ok", false), frame->raw, frame->raw_len);

        answer = SNP_WRITE(snp_answer_answer, .answered = is_waited);
    } else if (caller->head == NULL && ops == NULL) {
        snp_caller_begin(caller, frame->id, head, frame->raw_len == 0 ? "" : frame->raw,
                         frame->raw_len);
    } else {
        (void)snp_fail(&err, SNP_E_INVALID, "this process already has a run");
        refuse(caller, frame->id, snp_json_from_err(&err));
    }
    if (answer != NULL) {
        frame_send(caller, SNP_RPC_RESPONSE, frame->id, answer, NULL, 0);
    }
    if (is_over) { /* no run will follow */
        gone(caller);
    }
}

/* Handle received frames, up to and including the request of this process. */
static bool frames_handle(struct snp_caller *caller, const struct snp_caller_ops *ops)
{
    while (!caller->is_gone && (ops != NULL || caller->head == NULL)) {
        struct snp_frame frame;
        struct snp_err err;
        size_t size = 0;
        bool has = false;

        if (snp_frame_peek(&caller->in, SNP_FRAME_BODY_MAX, &frame, &size, &has, &err) < 0) {
            return false;
        }
        if (!has) {
            return true;
        }
        frame_handle(caller, &frame, ops);
        snp_buf_consume(&caller->in, size);
    }
    return !caller->is_gone;
}

bool snp_caller_receive(struct snp_caller *caller, const struct snp_caller_ops *ops)
{
    bool has = bytes_read(caller);

    return frames_handle(caller, ops) && has; /* handle data that arrived before the end */
}

int snp_caller_open(struct snp_caller *caller, struct snp_err *err)
{
    while (caller->head == NULL) {
        struct pollfd p = {.fd = caller->fd, .events = POLLIN};

        (void)poll(&p, 1, -1);
        if (!bytes_read(caller) || !frames_handle(caller, NULL)) {
            return snp_fail(err, SNP_E_PEER, "the program disconnected");
        }
    }
    return caller->prompt == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}
