/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/engine/process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/wire/process.h"
#include "tier/engine/answer.h"
#include "tier/engine/cell/running.h"
#include "tier/engine/inside.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/stream/handle.h"
#include "tier/engine/supervisor.h"

enum {
    OTHERS_MAX = 200, /* bytes of a list of numbers */
    READ_CHUNK = 64 << 10,
    READS_MAX = 4, /* before other handles get a turn */
    PAUSE_BYTES = 256 << 10,
    PAUSE_MS = 20,
    KEPT_MAX = 256 << 10, /* bytes of a stream, at most */
    WORDS_MAX = 4096,     /* bytes of the arguments that the list shows */
    WAITERS_MAX = 64,     /* calls that wait for one process, also of clients that left */
    STREAM_IN = 2,        /* of STREAM */
};

/* One output stream; its position counts all bytes that the process has written. */
struct stream {
    int fd;           /* owned; -1 = at its end */
    uv_poll_t *poll;  /* owned */
    uint64_t dropped; /* bytes before kept */
    struct snp_buf kept;
};

/* A read that waits for output, or a write that waits for room. */
struct process_waiter {
    struct snp_detached *process; /* NULL = free */
    uint32_t id;                  /* of the daemon's request */
    bool is_write;                /* it holds no bytes: the client sends them again */
    uint64_t at[2];               /* positions from which to read */
    uint64_t length;
    uv_timer_t *timer; /* owned */
};

struct snp_detached {
    struct snp_sandbox *sandbox;
    struct snp_detached *next;
    uint64_t number; /* of the cell that started it */
    pid_t pid;       /* inside; 0 = pid 1 has not answered yet */
    json_t *argv;
    double started; /* unix seconds */
    bool has_exit;
    bool is_told;      /* the daemon knows of its end */
    int status;        /* wait status */
    size_t kept_max;   /* bytes of each stream */
    size_t taken;      /* bytes read since the last pause */
    uv_timer_t *pause; /* owned; then it is not read for a moment */
    struct stream out[2];
    bool has_open_stdin;
    int in_fd;          /* owned; -1 = none, or closed */
    uv_poll_t *in_poll; /* owned; runs while a write waits */
    struct process_waiter waiters[WAITERS_MAX];
    snp_detached_cb cb; /* until pid 1 answers */
    void *data;
};

static bool is_running(const struct snp_detached *p)
{
    return p->pid != 0 && !p->has_exit;
}

static bool is_at_end(const struct snp_detached *p)
{
    return p->has_exit && p->out[0].fd < 0 && p->out[1].fd < 0;
}

static uint64_t stream_end(const struct stream *out)
{
    return out->dropped + out->kept.len;
}

/* Reading ------------------------------------------------------------------------------- */

static json_int_t exit_code_of(const struct snp_detached *p)
{
    return p->has_exit && WIFEXITED(p->status) ? WEXITSTATUS(p->status) : SNP_NO_NUMBER;
}

/* "SIGKILL" and so on, in text; NULL = it was not ended by a signal. */
static const char *signal_of(const struct snp_detached *p, char *text, size_t len)
{
    const char *name =
        p->has_exit && WIFSIGNALED(p->status) ? sigabbrev_np(WTERMSIG(p->status)) : NULL;

    (void)snprintf(text, len, "SIG%s", name == NULL ? "" : name);
    return name == NULL ? NULL : text;
}

/* The kept bytes from position *at on, at most room; *at becomes the first one's position. */
static size_t stream_take(const struct stream *out, uint64_t *at, size_t room, const char **ret)
{
    const uint64_t end = stream_end(out);
    size_t n;

    *at = *at < out->dropped ? out->dropped : *at;
    n = *at >= end ? 0 : (size_t)(end - *at);
    *ret = n == 0 ? "" : snp_buf_bytes(&out->kept) + (*at - out->dropped);
    return n < room ? n : room;
}

static void read_answer(const struct snp_detached *p, const struct process_waiter *w)
{
    uint64_t at[2] = {w->at[0], w->at[1]};
    const char *bytes[2];
    size_t n[2];
    char signal[16];
    snp_autobuf struct snp_buf raw = SNP_BUF(SNP_FILE_CHUNK_MAX);
    snp_autojson json_t *answer = NULL;

    n[1] = stream_take(&p->out[1], &at[1], w->length / 2, &bytes[1]);
    n[0] = stream_take(&p->out[0], &at[0], w->length - n[1], &bytes[0]);
    if (snp_buf_add(&raw, bytes[0], n[0]) < 0 || snp_buf_add(&raw, bytes[1], n[1]) < 0) {
        struct snp_err err;

        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_answer_error(p->sandbox->supervisor, w->id, &err);
        return;
    }
    answer = SNP_WRITE(snp_process_read_answer, .state = p->has_exit ? "ended" : "running",
                       .exit_code = exit_code_of(p), .signal = signal_of(p, signal, sizeof(signal)),
                       .stdout = at[0], .stdout_len = n[0], .stderr = at[1], .stderr_len = n[1],
                       .eof = is_at_end(p) && at[0] + n[0] >= stream_end(&p->out[0]) &&
                              at[1] + n[1] >= stream_end(&p->out[1]));
    snp_answer_response(p->sandbox->supervisor, w->id, answer, snp_buf_bytes(&raw), raw.len);
}

/* Is there something to answer? A read of no bytes waits only for the end. */
static bool is_readable(const struct snp_detached *p, const struct process_waiter *w)
{
    return w->length == 0 ? p->has_exit
                          : w->at[0] < stream_end(&p->out[0]) ||
                                w->at[1] < stream_end(&p->out[1]) || is_at_end(p);
}

static void write_answer(const struct snp_detached *p, uint32_t id, size_t written)
{
    snp_autojson json_t *answer = SNP_WRITE(snp_process_write_answer, .written = written);

    snp_answer_response(p->sandbox->supervisor, id, answer, NULL, 0);
}

static void waiter_free(struct process_waiter *w)
{
    snp_handle_close(&w->timer);
    w->process = NULL;
}

static void waiter_end(struct process_waiter *w)
{
    if (w->is_write) {
        write_answer(w->process, w->id, 0);
    } else {
        read_answer(w->process, w);
    }
    waiter_free(w);
}

static void on_wait_over(uv_timer_t *timer)
{
    waiter_end(timer->data);
}

/* Answer the reads that have something to read. */
static void serve_waiters(struct snp_detached *p)
{
    for (size_t i = 0; i < WAITERS_MAX; i++) {
        struct process_waiter *w = &p->waiters[i];

        if (w->process != NULL && !w->is_write && is_readable(p, w)) {
            waiter_end(w);
        }
    }
}

/* Wait; waiter is a template. */
static int waiter_add(struct snp_detached *p,
                      const struct process_waiter *waiter,
                      uint64_t wait_ms,
                      struct snp_err *err)
{
    struct process_waiter *w = p->waiters;

    while (w->process != NULL) {
        if (++w == &p->waiters[WAITERS_MAX]) {
            return snp_fail(err, SNP_E_LIMIT, "%d clients wait for the process already",
                            WAITERS_MAX);
        }
    }
    *w = *waiter;
    w->timer = snp_timer_new(p->sandbox->supervisor->loop, w);
    if (w->timer == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    w->process = p;
    (void)uv_timer_start(w->timer, on_wait_over, wait_ms, 0);
    return 0;
}

/* Input --------------------------------------------------------------------------------- */

/* Why nothing more can be written. */
static int input_fail(const struct snp_detached *p, struct snp_err *err)
{
    const unsigned long long number = p->number;

    return !p->has_open_stdin
               ? snp_fail(err, SNP_E_INVALID,
                          "process %llu was started without an open standard input", number)
           : p->has_exit ? snp_fail(err, SNP_E_NOT_FOUND, "process %llu has ended", number)
                         : snp_fail(err, SNP_E_NOT_FOUND,
                                    "the standard input of process %llu is closed", number);
}

static void input_close(struct snp_detached *p)
{
    struct snp_err err;

    snp_handle_close(&p->in_poll);
    snp_closep(&p->in_fd);
    (void)input_fail(p, &err);
    for (size_t i = 0; i < WAITERS_MAX; i++) {
        if (p->waiters[i].process != NULL && p->waiters[i].is_write) {
            snp_answer_error(p->sandbox->supervisor, p->waiters[i].id, &err);
            waiter_free(&p->waiters[i]);
        }
    }
}

/* The pipe has room, or no process reads it any more. */
static void on_room(uv_poll_t *poll, int status, int events)
{
    struct snp_detached *p = poll->data;

    (void)events;
    if (status < 0) {
        input_close(p);
        return;
    }
    (void)uv_poll_stop(poll);
    for (size_t i = 0; i < WAITERS_MAX; i++) {
        if (p->waiters[i].process != NULL && p->waiters[i].is_write) {
            waiter_end(&p->waiters[i]);
        }
    }
}

/* Output -------------------------------------------------------------------------------- */

static void stream_close(struct stream *out)
{
    snp_handle_close(&out->poll);
    snp_closep(&out->fd);
}

/* Keep the last bytes, at most max. */
static void stream_keep(struct stream *out, const char *bytes, size_t n, size_t max)
{
    size_t skip = n > max ? n - max : 0;
    size_t over = out->kept.len + (n - skip) > max ? out->kept.len + (n - skip) - max : 0;

    snp_buf_consume(&out->kept, over);
    out->dropped += over;
    if (snp_buf_add(&out->kept, bytes + skip, n - skip) < 0) { /* out of memory */
        out->dropped += out->kept.len + n - skip;
        snp_buf_clear(&out->kept);
    }
    out->dropped += skip;
}

static void on_output(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
    struct snp_detached *p = timer->data;

    for (int i = 0; i < 2; i++) {
        if (p->out[i].poll != NULL) {
            (void)uv_poll_start(p->out[i].poll, UV_READABLE, on_output);
        }
    }
}

/* Read. A flood fills its pipe and waits, so that it costs us little time. */
static void on_output(uv_poll_t *poll, int status, int events)
{
    static char chunk[READ_CHUNK];
    struct snp_detached *p = poll->data;
    struct stream *out = &p->out[poll == p->out[1].poll ? 1 : 0];

    (void)events;
    for (unsigned i = 0; i < READS_MAX; i++) {
        ssize_t n = status < 0 ? 0 : SNP_RETRY(read(out->fd, chunk, sizeof(chunk)));

        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            stream_close(out);
            break;
        }
        if (n < 0) {
            break;
        }
        stream_keep(out, chunk, (size_t)n, p->kept_max);
        p->taken += (size_t)n;
    }
    if (p->taken >= PAUSE_BYTES && out->poll != NULL) {
        p->taken = 0;
        (void)uv_poll_stop(poll);
        (void)uv_timer_start(p->pause, on_pause_over, PAUSE_MS, 0);
    }
    serve_waiters(p);
}

/* Starting and ending ------------------------------------------------------------------- */

static void detached_free(struct snp_detached *p)
{
    for (size_t i = 0; i < WAITERS_MAX; i++) {
        snp_handle_close(&p->waiters[i].timer);
    }
    for (int i = 0; i < 2; i++) {
        stream_close(&p->out[i]);
        snp_buf_done(&p->out[i].kept);
    }
    snp_handle_close(&p->in_poll);
    snp_closep(&p->in_fd);
    snp_handle_close(&p->pause);
    json_decref(p->argv);
    free(p);
}

static void detached_leave(struct snp_detached *p)
{
    struct snp_detached **at = &p->sandbox->processes;

    while (*at != p) {
        at = &(*at)->next;
    }
    *at = p->next;
    detached_free(p);
}

/* The first arguments, with "..." in place of those that are too long for a list. New reference. */
static json_t *words_cut(const json_t *argv)
{
    json_t *words = json_array();
    size_t room = WORDS_MAX;
    size_t i;
    json_t *word;

    json_array_foreach((json_t *)(uintptr_t)argv, i, word)
    {
        if (json_string_length(word) + 1 > room) {
            (void)json_array_append_new(words, json_string("..."));
            break;
        }
        room -= json_string_length(word) + 1;
        (void)json_array_append(words, word);
    }
    return words;
}

/* Make room for one more, by dropping the oldest that has ended. */
static int room_make(struct snp_sandbox *s, struct snp_err *err)
{
    struct snp_detached *oldest = NULL;
    unsigned n = 0;

    for (struct snp_detached *p = s->processes; p != NULL; p = p->next) {
        oldest = oldest == NULL && p->pid != 0 && p->has_exit ? p : oldest;
        n++;
    }
    if (n < SNP_INIT_PROCESSES_MAX) {
        return 0;
    }
    if (oldest == NULL) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the session has %d running processes, the maximum; end one first",
                        SNP_INIT_PROCESSES_MAX);
    }
    for (size_t i = 0; i < WAITERS_MAX; i++) {
        if (oldest->waiters[i].process != NULL) {
            waiter_end(&oldest->waiters[i]);
        }
    }
    detached_leave(oldest);
    return 0;
}

/* Pid 1 has started it, or not. */
static void on_started(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_detached *p = data;
    const snp_detached_cb cb = SNP_TAKE_PTR(p->cb);
    int32_t pid = 0;

    if (eno == 0 && n == sizeof(pid)) {
        memcpy(&pid, bytes, sizeof(pid));
    }
    p->pid = pid;
    if (pid <= 1) { /* not started, or pid 1 is not to be trusted */
        data = p->data;
        detached_leave(p);
        if (cb != NULL) {
            cb(data, eno == 0 ? EPROTO : eno);
        }
        return;
    }
    if (cb != NULL) {
        cb(p->data, 0);
    }
}

/* Make the pipe of a stream, and send pid 1 its end. */
static int stream_open(struct snp_detached *p, uint8_t i, struct snp_err *err)
{
    struct snp_sandbox *s = p->sandbox;
    const bool is_input = i == STREAM_IN;
    int *fd = is_input ? &p->in_fd : &p->out[i].fd;
    uv_poll_t **poll = is_input ? &p->in_poll : &p->out[i].poll;
    snp_autoclose int theirs = -1;

    SNP_TRY(snp_sandbox_new_pipe(s, is_input, fd, &theirs, err));
    *poll = snp_poll_new(s->supervisor->loop, *fd, p);
    if (*poll == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_STREAM, &i, sizeof(i), theirs), snp_sandbox_ignore,
                         NULL);
    if (!is_input) {
        (void)uv_poll_start(*poll, UV_READABLE, on_output);
    }
    return 0;
}

int snp_detached_start(struct snp_sandbox *s,
                       const struct snp_detached_spec *spec,
                       struct snp_err *err)
{
    struct snp_detached **at = &s->processes;
    const uint64_t shown = s->spec.limits.value[SNP_LIMIT_OUTPUT];
    const uint8_t n_streams = spec->has_open_stdin ? STREAM_IN + 1 : STREAM_IN;
    struct snp_detached *p;
    int r;

    SNP_TRY(room_make(s, err));
    p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *p = (struct snp_detached){.sandbox = s,
                               .number = spec->number,
                               .argv = words_cut(spec->argv),
                               .started = (double)snp_wall_us() / 1e6,
                               .kept_max = (size_t)(shown < KEPT_MAX ? shown : KEPT_MAX),
                               .pause = snp_timer_new(s->supervisor->loop, p),
                               .out = {{.fd = -1}, {.fd = -1}},
                               .has_open_stdin = spec->has_open_stdin,
                               .in_fd = -1,
                               .cb = spec->cb,
                               .data = spec->data};
    snp_buf_init(&p->out[0].kept, p->kept_max);
    snp_buf_init(&p->out[1].kept, p->kept_max);
    r = p->pause == NULL || p->argv == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
    for (uint8_t i = 0; i < n_streams; i++) {
        r = r == 0 ? stream_open(p, i, err) : r;
    }
    if (r < 0) {
        detached_free(p);
        return r;
    }
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = p;
    snp_sandbox_ask_init(
        s, SNP_ASK(SNP_INIT_RUN, snp_buf_bytes(spec->command), spec->command->len, -1), on_started,
        p);
    return 0;
}

void snp_detached_forget(struct snp_sandbox *s, const void *data)
{
    for (struct snp_detached *p = s->processes; p != NULL; p = p->next) {
        p->cb = p->data == data ? NULL : p->cb;
    }
}

bool snp_detached_is_running(const struct snp_sandbox *s)
{
    const struct snp_detached *p = s->processes;

    while (p != NULL && !is_running(p)) {
        p = p->next;
    }
    return p != NULL;
}

static void signal_send(const struct snp_detached *p, uint32_t number, snp_init_cb cb, void *data)
{
    const struct snp_init_signal raw = {.target = p->has_exit ? SNP_INIT_LEFT_TARGET
                                                              : SNP_INIT_PROCESS_TARGET,
                                        .number = number,
                                        .pid = p->pid};

    snp_sandbox_ask_init(p->sandbox, SNP_ASK(SNP_INIT_SIGNAL, &raw, sizeof(raw), -1), cb, data);
}

void snp_detached_kill(struct snp_sandbox *s)
{
    for (const struct snp_detached *p = s->processes; p != NULL; p = p->next) {
        if (is_running(p)) {
            signal_send(p, SIGKILL, snp_sandbox_ignore, NULL);
        }
    }
}

/* Report ends to the daemon; of a process whose cell has not been answered, later. */
void snp_detached_tell(struct snp_sandbox *s)
{
    char signal[16];

    for (struct snp_detached *p = s->processes; p != NULL; p = p->next) {
        const bool is_starting = s->cell != NULL && s->cell->number == p->number;

        if (p->has_exit && !p->is_told && !is_starting) {
            p->is_told = true;
            snp_answer_process(s->supervisor, s->spec.id, p->number, exit_code_of(p),
                               signal_of(p, signal, sizeof(signal)));
        }
    }
}

void snp_detached_exited(struct snp_sandbox *s, pid_t pid, int status)
{
    for (struct snp_detached *p = s->processes; p != NULL; p = p->next) {
        if (p->pid == pid && is_running(p)) {
            p->has_exit = true;
            p->status = status;
            input_close(p);
            serve_waiters(p);
            snp_detached_tell(s);
            break;
        }
    }
    if (s->cell == NULL && s->state == SNP_SANDBOX_READY && !snp_detached_is_running(s)) {
        s->supervisor->ops->watch(s, false);
    }
}

void snp_detached_sandbox_ended(struct snp_sandbox *s)
{
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_PEER, "the session's sandbox ended, and the process with it");
    while (s->processes != NULL) {
        struct snp_detached *p = s->processes;

        for (size_t i = 0; i < WAITERS_MAX; i++) {
            if (p->waiters[i].process != NULL) {
                snp_answer_error(s->supervisor, p->waiters[i].id, &err);
            }
        }
        detached_leave(p);
    }
}

json_t *snp_detached_names(const struct snp_sandbox *s)
{
    json_t *names = json_array();

    for (const struct snp_detached *p = s->processes; p != NULL; p = p->next) {
        snp_autobuf struct snp_buf name = SNP_BUF(WORDS_MAX + 32);
        const size_t n = json_array_size(p->argv);
        /* A shell line as it was typed. */
        const bool is_line =
            n == 3 && snp_streq(json_string_value(json_array_get(p->argv, 0)), "/bin/sh");

        (void)!snp_buf_addf(&name, "%llu:", (unsigned long long)p->number);
        for (size_t i = is_line ? 2 : 0; i < n; i++) {
            (void)!snp_buf_addf(&name, " %s", json_string_value(json_array_get(p->argv, i)));
        }
        if (is_running(p)) {
            (void)json_array_append_new(names, json_string(snp_buf_cstr(&name)));
        }
    }
    return names;
}

/* Methods ------------------------------------------------------------------------------- */

int snp_method_process_list(struct snp_sandbox *s, uint32_t id, struct snp_err *err)
{
    snp_autojson json_t *rows = json_array();
    snp_autojson json_t *answer = NULL;
    char signal[16];

    for (const struct snp_detached *p = s->processes; p != NULL; p = p->next) {
        if (p->pid != 0 &&
            json_array_append_new(
                rows, SNP_WRITE(snp_process_row, .process = p->number, .argv = p->argv,
                                .started = p->started, .state = p->has_exit ? "ended" : "running",
                                .exit_code = exit_code_of(p),
                                .signal = signal_of(p, signal, sizeof(signal)),
                                .stdin = p->in_fd >= 0, .stdout_bytes = stream_end(&p->out[0]),
                                .stderr_bytes = stream_end(&p->out[1]))) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    answer = SNP_WRITE(snp_process_list_answer, .processes = rows);
    snp_answer_response(s->supervisor, id, answer, NULL, 0);
    return 0;
}

static int process_find(struct snp_sandbox *s,
                        uint64_t number,
                        struct snp_detached **ret,
                        struct snp_err *err)
{
    snp_autobuf struct snp_buf others = SNP_BUF(OTHERS_MAX);

    for (*ret = s->processes; *ret != NULL; *ret = (*ret)->next) {
        if ((*ret)->number == number && (*ret)->pid != 0) {
            return 0;
        }
        (void)!snp_buf_addf(&others, "%s%llu", others.len == 0 ? "" : ", ",
                            (unsigned long long)(*ret)->number); /* the first ones that fit */
    }
    return others.len == 0
               ? snp_fail(err, SNP_E_NOT_FOUND,
                          "no process %llu: the session has no detached processes",
                          (unsigned long long)number)
               : snp_fail(err, SNP_E_NOT_FOUND, "no process %llu in the session; its processes: %s",
                          (unsigned long long)number, snp_buf_cstr(&others));
}

int snp_method_process_read(struct snp_sandbox *s,
                            uint32_t id,
                            const struct snp_process_read_request *in,
                            struct snp_err *err)
{
    const struct process_waiter now = {
        .id = id, .at = {in->stdout, in->stderr}, .length = in->length};
    struct snp_detached *p;

    SNP_TRY(process_find(s, in->process, &p, err));
    if (in->wait_ms == 0 || is_readable(p, &now)) {
        read_answer(p, &now);
        return 0;
    }
    return waiter_add(p, &now, in->wait_ms, err);
}

int snp_method_process_write(struct snp_sandbox *s,
                             const struct snp_process_write_request *in,
                             const struct snp_process_input *input,
                             struct snp_err *err)
{
    const struct process_waiter now = {.id = input->id, .is_write = true};
    struct snp_detached *p;
    ssize_t n;

    SNP_TRY(process_find(s, in->process, &p, err));
    if (p->in_fd < 0) {
        return input_fail(p, err);
    }
    n = input->n == 0 ? 0 : SNP_RETRY(write(p->in_fd, input->bytes, input->n));
    if (n < 0 && errno != EAGAIN) {
        input_close(p);
        return input_fail(p, err);
    }
    if (n < 0 && in->wait_ms > 0) {
        SNP_TRY(waiter_add(p, &now, in->wait_ms, err));
        (void)uv_poll_start(p->in_poll, UV_WRITABLE, on_room);
        return 0;
    }
    n = n < 0 ? 0 : n;
    if (in->close && (size_t)n == input->n) {
        input_close(p);
    }
    write_answer(p, input->id, (size_t)n);
    return 0;
}

/* The answer of pid 1 to a signal. */
struct signal_call {
    struct snp_supervisor *supervisor;
    uint32_t id;
};

static void on_signalled(void *data, int eno, const char *bytes, size_t n)
{
    snp_autofree struct signal_call *call = data;
    snp_autojson json_t *answer = NULL;
    struct snp_err err;

    (void)bytes;
    (void)n;
    if (eno != 0 && eno != ESRCH) {
        (void)snp_fail_sys(&err, eno, "the signal was not sent");
        snp_answer_error(call->supervisor, call->id, &err);
        return;
    }
    answer = SNP_WRITE(snp_process_signal_answer, .sent = eno == 0);
    snp_answer_response(call->supervisor, call->id, answer, NULL, 0);
}

int snp_method_process_signal(struct snp_sandbox *s,
                              uint32_t id,
                              const struct snp_process_signal_request *in,
                              struct snp_err *err)
{
    struct signal_call *call;
    struct snp_detached *p;

    if (in->signal == 0) {
        return snp_fail(err, SNP_E_INVALID, "process.signal: 'signal' must be 1 to 64");
    }
    SNP_TRY(process_find(s, in->process, &p, err));
    call = malloc(sizeof(*call));
    if (call == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *call = (struct signal_call){s->supervisor, id};
    signal_send(p, (uint32_t)in->signal, on_signalled, call);
    return 0;
}
