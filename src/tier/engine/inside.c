/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of a sandbox: to pid 1 (answers and events), to the interpreter, and the output of
 * both.
 */
#include "tier/engine/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/wire/rpc.h"
#include "guest/pid1/wire.h"
#include "tier/engine/stream/handle.h"
#include "tier/engine/supervisor.h"

enum {
    CALL_TIMEOUT_US = 30000000, /* half of the daemon's timeout */
    TRANSFER_TIMEOUT_US = 600000000,
    READ_CHUNK = 64 << 10,
    READS_MAX = 4
};

void snp_sandbox_ask_init(struct snp_sandbox *s,
                          const struct snp_init_request *request,
                          snp_init_cb cb,
                          void *data)
{
    const uint8_t type = request->type;
    bool is_transfer = type == SNP_INIT_PACK || type == SNP_INIT_UNPACK;
    struct snp_init_call *slot = NULL;
    struct snp_frame frame = {.type = type, .raw = request->raw, .raw_len = request->n};

    for (size_t i = 0; i < SNP_INIT_CALLS_MAX && slot == NULL; i++) {
        slot = s->calls[i].id == 0 ? &s->calls[i] : NULL;
    }
    if (slot == NULL || !snp_link_is_open(&s->init)) {
        cb(data, slot == NULL ? EBUSY : EPIPE, NULL, 0);
        return;
    }
    s->next_call = s->next_call == UINT32_MAX ? 1 : s->next_call + 1;
    *slot = (struct snp_init_call){
        .start_us = snp_now_us(),
        .timeout_us = is_transfer ? TRANSFER_TIMEOUT_US : CALL_TIMEOUT_US,
        .id = s->next_call,
        .cb = cb,
        .data = data,
    };
    if (type == SNP_INIT_RESTORE || type == SNP_INIT_UNPACK) {
        s->is_unwritten = false; /* after this, the workspace's count misses changes of a cell */
    }
    frame.id = s->next_call;
    if (request->fd < 0) {
        snp_link_send(&s->init, &frame);
        return;
    }
    if (snp_link_send_fd(&s->init, &frame, request->fd) < 0) {
        slot->id = 0;
        cb(data, EAGAIN, NULL, 0);
    }
}

void snp_sandbox_ignore(void *data, int eno, const char *bytes, size_t n)
{
    (void)data;
    (void)eno;
    (void)bytes;
    (void)n;
}

static void on_spared(struct snp_sandbox *s, const char *raw)
{
    int32_t pid;
    uint32_t number;

    memcpy(&pid, raw, sizeof(pid));
    memcpy(&number, raw + 4, sizeof(number));
    snp_spared_set(&s->spared, pid, raw[8] != 0);
    if (s->is_pooled && raw[8] == 0) {
        snp_sandbox_kill(s, "its pristine copy has ended"); /* no request depends on it yet */
    } else if (raw[8] == 0 && pid > 1 && number != UINT32_MAX) {
        s->supervisor->events->copy_gone(s, number);
    } else if (raw[8] != 0 && number == 0) {
        s->supervisor->events->copy_came(s, number);
    }
    /* Pid 1 has now seen the workspace, so it can report the changes of a cell. */
    if (s->supervisor->ops->settled != NULL && s->state == SNP_SANDBOX_OPENING) {
        s->supervisor->ops->settled(s);
    }
}

static void on_init_frame(struct snp_link *link, const struct snp_frame *f)
{
    struct snp_sandbox *s = link->owner;
    uint32_t eno;

    if (f->type == SNP_INIT_EXIT && f->raw_len == 21 && f->raw[0] == SNP_INIT_PROCESS_TARGET) {
        int32_t status;
        memcpy(&status, f->raw + 1, sizeof(status));
        s->supervisor->events->process_exited(s, (pid_t)f->id, status);
        return;
    }
    if (f->type == SNP_INIT_EXIT && f->raw_len == 21) {
        s->supervisor->events->exited(s, f->id, f->raw);
        return;
    }
    if (f->type == SNP_INIT_MEMORY && f->raw_len == 9) {
        uint64_t bytes;
        memcpy(&bytes, f->raw, sizeof(bytes));
        s->supervisor->events->memory(s, bytes, f->raw[8] != 0);
        return;
    }
    if (f->type == SNP_INIT_SPARED && f->raw_len == 9) {
        on_spared(s, f->raw);
        return;
    }
    if (f->type != SNP_INIT_REPLY || f->raw_len < sizeof(eno)) {
        snp_sandbox_kill(s, "pid 1 broke its protocol");
        return;
    }
    memcpy(&eno, f->raw, sizeof(eno));
    for (size_t i = 0; i < SNP_INIT_CALLS_MAX; i++) {
        if (s->calls[i].id == f->id && f->id != 0) {
            struct snp_init_call call = s->calls[i];
            s->calls[i].id = 0;
            call.cb(call.data, (int)eno, f->raw + sizeof(eno), f->raw_len - sizeof(eno));
            return;
        }
    }
}

static void on_init_end(struct snp_link *link, const struct snp_err *err)
{
    (void)err;
    snp_sandbox_kill(link->owner, "pid 1 of the sandbox ended");
}

static const struct snp_link_ops init_ops = {.body_max = SNP_FRAME_BODY_MAX,
                                             .queue_max = 64U << 20,
                                             .on_frame = on_init_frame,
                                             .on_end = on_init_end};

static void on_guest_frame(struct snp_link *link, const struct snp_frame *frame)
{
    struct snp_sandbox *s = link->owner;

    s->supervisor->events->guest_frame(s, frame);
}

static void on_guest_end(struct snp_link *link, const struct snp_err *err)
{
    struct snp_sandbox *s = link->owner;

    s->supervisor->events->guest_end(s, err);
}

static const struct snp_link_ops guest_ops = {.body_max = SNP_GUEST_BODY_MAX,
                                              .queue_max = 64U << 20,
                                              .on_frame = on_guest_frame,
                                              .on_end = on_guest_end};

void snp_sandbox_drop_interpreter(struct snp_sandbox *s)
{
    snp_link_close(&s->guest);
}

int snp_sandbox_new_guest(struct snp_sandbox *s, int *ret_fd, struct snp_err *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return snp_fail_sys(err, errno, "socket pair");
    }
    snp_link_close(&s->guest);
    snp_buf_done(&s->guest.in);
    if (snp_link_open(&s->guest, s->supervisor->loop, pair[0], &guest_ops, s, err) < 0) {
        (void)close(pair[1]);
        return err->code;
    }
    *ret_fd = pair[1];
    s->strays = 0;
    return 0;
}

static int which_stream(const struct snp_sandbox *s, const uv_poll_t *poll)
{
    return poll == s->out_poll[1] ? 1 : 0;
}

/*
 * Read a few chunks at most, so that one sandbox's flood does not starve the others. False at the
 * end.
 */
static bool read_output(struct snp_sandbox *s, int stream, unsigned max_reads)
{
    static char chunk[READ_CHUNK];

    for (unsigned i = 0; i < max_reads; i++) {
        ssize_t n = SNP_RETRY(read(s->out_fd[stream], chunk, sizeof(chunk)));
        if (n <= 0) {
            return n != 0;
        }
        s->supervisor->events->output(s, stream, chunk, (size_t)n);
        if ((size_t)n < sizeof(chunk)) {
            break;
        }
    }
    return true;
}

static void on_output(uv_poll_t *poll, int status, int events)
{
    struct snp_sandbox *s = poll->data;

    (void)events;
    /* At the end no process inside can write any more: the sandbox is being removed. */
    if (status < 0 || !read_output(s, which_stream(s, poll), READS_MAX)) {
        (void)uv_poll_stop(poll);
    }
}

void snp_sandbox_drain(struct snp_sandbox *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->out_fd[i] >= 0) {
            (void)read_output(
                s, i, 32); /* a pipe holds 1 MiB at most; output after that belongs to no cell */
        }
    }
}

int snp_sandbox_new_pipe(
    const struct snp_sandbox *s, bool is_input, int *ret_ours, int *ret_theirs, struct snp_err *err)
{
    int pair[2];

    if (pipe2(pair, O_CLOEXEC) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    *ret_ours = pair[is_input ? 1 : 0];
    *ret_theirs = pair[is_input ? 0 : 1];
    /* The code may reopen its streams, as /dev/stdout. */
    if (s->output_owner != 0) {
        (void)!fchown(pair[1], s->output_owner, s->output_owner);
    }
    return snp_set_nonblock(*ret_ours, true) < 0 ? snp_fail_sys(err, errno, "pipe") : 0;
}

int snp_sandbox_new_output(struct snp_sandbox *s, uid_t owner, int ret_fd[2], struct snp_err *err)
{
    s->output_owner = owner;
    SNP_TRY(snp_sandbox_new_pipe(s, false, &s->out_fd[0], &ret_fd[0], err));
    return snp_sandbox_new_pipe(s, false, &s->out_fd[1], &ret_fd[1], err);
}

int snp_sandbox_connect(struct snp_sandbox *s, int init_fd, struct snp_err *err)
{
    if (snp_link_open(&s->init, s->supervisor->loop, init_fd, &init_ops, s, err) < 0) {
        return err->code;
    }
    for (int i = 0; i < 2; i++) {
        s->out_poll[i] = snp_poll_new(s->supervisor->loop, s->out_fd[i], s);
        if (s->out_poll[i] == NULL) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        (void)uv_poll_start(s->out_poll[i], UV_READABLE, on_output);
    }
    return 0;
}

void snp_sandbox_disconnect(struct snp_sandbox *s)
{
    for (int i = 0; i < 2; i++) {
        snp_handle_close(&s->out_poll[i]);
        snp_closep(&s->out_fd[i]);
    }
    snp_link_close(&s->guest);
    snp_link_close(&s->init);
    snp_buf_done(&s->guest.in);
    snp_buf_done(&s->init.in);
}

void snp_sandbox_fail_calls(struct snp_sandbox *s)
{
    for (size_t i = 0; i < SNP_INIT_CALLS_MAX; i++) {
        struct snp_init_call call = s->calls[i];
        if (call.id != 0) {
            s->calls[i].id = 0;
            call.cb(call.data, EPIPE, NULL, 0);
        }
    }
}

int snp_guest_send(struct snp_link *link, const struct snp_frame *frame, json_t *head, int fd)
{
    snp_autojson json_t *owned = head;
    snp_autofree char *text = owned == NULL ? NULL : snp_json_text(owned);
    struct snp_frame whole = *frame;

    if (text == NULL) {
        return -1;
    }
    whole.head = text;
    whole.head_len = strlen(text);
    if (fd >= 0) {
        return snp_link_send_fd(link, &whole, fd);
    }
    snp_link_send(link, &whole);
    return 0;
}

void snp_sandbox_send_guest(struct snp_sandbox *s, uint8_t type, const char *raw, size_t n)
{
    const struct snp_frame frame = {
        .type = type, .head = "{}", .head_len = 2, .raw = raw, .raw_len = n};

    snp_link_send(&s->guest, &frame);
}

void snp_sandbox_start_guest(struct snp_sandbox *s)
{
    snp_sandbox_send_guest(s, SNP_GUEST_START, s->spec.env, s->spec.env_len);
}
