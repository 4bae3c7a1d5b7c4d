/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stdio transport.
 *
 * Both ends are made non-blocking, if possible without changing the open file descriptions shared
 * with a parent or a terminal: a pipe is opened again. Descriptors that cannot be watched (files)
 * are read and written directly. If a client does not read, we stop reading from it; when too much
 * output is pending, it is disconnected.
 */
#include "mcp/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mcp/caps.h"
#include "base/mcp/lines.h"
#include "mcp/caps.h"

enum {
    READ_BYTES = 64 << 10,
    OUT_PAUSE = 4 << 20, /* pending bytes above which reading pauses */
    CHECK_MS = 2,        /* poll interval while ending */
    N_SIGNALS = 3,
};

/* One end; poll.data and idle.data are the conversation. */
struct end {
    int fd; /* owned */
    bool is_watched;
    bool is_polled; /* being watched now */
    uv_poll_t poll;
};

struct stdio {
    struct snp_mcp_peer peer; /* first: send() casts back */
    const struct snp_mcp_stdio_options *options;
    struct end in;
    struct end out;
    uv_idle_t idle; /* reads descriptors that cannot be watched */
    uv_signal_t signals[N_SIGNALS];
    uv_timer_t timer; /* of the shutdown */
    struct snp_mcp_lines lines;
    struct snp_buf pending;
    uint64_t ending_us; /* 0 = not yet */
    bool is_given_up;   /* calls were cancelled */
    bool is_broken;     /* writing failed */
};

/* Writing --------------------------------------------------------------------------------- */

static void begin_end(struct stdio *io, bool at_once);
static void watch_update(struct stdio *io);

static void write_out(struct stdio *io)
{
    while (io->pending.len > 0 && !io->is_broken) {
        ssize_t n = SNP_RETRY(write(io->out.fd, snp_buf_bytes(&io->pending), io->pending.len));

        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) {
            io->is_broken = true;
            begin_end(io, true);
        } else {
            snp_buf_consume(&io->pending, (size_t)n);
        }
    }
}

static void on_send(struct snp_mcp_peer *peer, json_t *message)
{
    struct stdio *io = (struct stdio *)peer;
    snp_autofree char *text = snp_json_text(message);

    if (text == NULL || io->is_broken) {
        return;
    }
    if (snp_buf_adds(&io->pending, text) < 0 || snp_buf_adds(&io->pending, "\n") < 0) {
        io->is_broken = true; /* half a line may be written: nothing can follow it */
        begin_end(io, true);
        return;
    }
    write_out(io);
    watch_update(io);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct stdio *io = poll->data;

    (void)status; /* write() reports errors */
    (void)events;
    write_out(io);
    watch_update(io);
}

/* Reading --------------------------------------------------------------------------------- */

static void messages_take(struct stdio *io, const char *bytes, size_t n)
{
    const char *line = NULL;
    size_t len = 0;
    char why[128];
    int r = snp_mcp_lines_add(&io->lines, bytes, n);

    if (r < 0) {
        snp_mcp_reject(&io->peer, SNP_JSONRPC_INTERNAL, "out of memory");
        begin_end(io, true);
        return;
    }
    if (r > 0) {
        (void)snprintf(why, sizeof(why), "a message can have at most %d MiB",
                       SNP_MCP_MESSAGE_MAX >> 20);
        snp_mcp_reject(&io->peer, SNP_JSONRPC_REQUEST, why);
    }
    while (!io->is_given_up && snp_mcp_lines_next(&io->lines, &line, &len)) {
        if (strspn(line, " \t\r") < len) {
            snp_mcp_receive(&io->peer, line, len);
        }
    }
}

static void read_in(struct stdio *io)
{
    char bytes[READ_BYTES];
    ssize_t n = SNP_RETRY(read(io->in.fd, bytes, sizeof(bytes)));

    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        begin_end(io, false);
        return;
    }
    messages_take(io, bytes, (size_t)n);
    watch_update(io);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status; /* read() reports errors */
    (void)events;
    read_in(poll->data);
}

static void on_idle(uv_idle_t *idle)
{
    read_in(idle->data);
}

/* Each start costs two system calls, so a running watch is not started again. */
static void end_poll(struct end *end, bool is_wanted, int events, uv_poll_cb ready)
{
    if (end->is_watched && is_wanted != end->is_polled) {
        end->is_polled = is_wanted;
        (void)(is_wanted ? uv_poll_start(&end->poll, events, ready) : uv_poll_stop(&end->poll));
    }
}

/* Update the watched events. */
static void watch_update(struct stdio *io)
{
    bool want_in = io->ending_us == 0 && io->pending.len < OUT_PAUSE;

    end_poll(&io->in, want_in, UV_READABLE, on_readable);
    end_poll(&io->out, io->pending.len > 0 && !io->is_broken, UV_WRITABLE, on_writable);
    if (!io->in.is_watched) {
        (void)(want_in ? uv_idle_start(&io->idle, on_idle) : uv_idle_stop(&io->idle));
    }
}

/* The end --------------------------------------------------------------------------------- */

static void give_up(struct stdio *io)
{
    if (io->is_given_up) {
        return;
    }
    io->is_given_up = true;
    snp_mcp_peer_done(&io->peer);
    if (io->options->ending != NULL) {
        io->options->ending(io->options->ctx);
    }
}

static void on_check(uv_timer_t *timer)
{
    struct stdio *io = timer->data;
    uint64_t ms = (snp_now_us() - io->ending_us) / 1000;
    bool is_written = io->is_broken || io->pending.len == 0;

    if ((io->peer.n_calls == 0 && is_written) || ms >= SNP_MCP_END_MS) {
        give_up(io);
    }
    if (io->is_given_up && ((is_written && (io->options->is_settled == NULL ||
                                            io->options->is_settled(io->options->ctx))) ||
                            ms >= SNP_MCP_END_MS + SNP_MCP_FLUSH_MS)) {
        uv_stop(io->peer.hub->loop);
    }
}

static void begin_end(struct stdio *io, bool at_once)
{
    if (io->ending_us == 0) {
        io->ending_us = snp_now_us();
        (void)uv_timer_start(&io->timer, on_check, 0, CHECK_MS);
        watch_update(io);
    }
    if (at_once) {
        io->ending_us = snp_now_us() - (uint64_t)SNP_MCP_END_MS * 1000;
    }
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    begin_end(handle->data, true);
}

/* The start ------------------------------------------------------------------------------- */

/* A separate non-blocking descriptor for fd; where that is impossible, a copy that may block. */
static int open_again(int fd, int flags)
{
    char path[32];
    struct stat st = {0};
    int own;

    if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode)) {
        (void)!snp_set_nonblock(fd, true);
        return fcntl(fd, F_DUPFD_CLOEXEC, 3);
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    own = S_ISREG(st.st_mode) ? -1 : open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (own >= 0) {
        return own;
    }
    if (S_ISFIFO(st.st_mode)) {
        (void)!snp_set_nonblock(fd, true); /* of another user: then the description is shared */
    }
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static int end_open(struct stdio *io, struct end *end, int fd, int flags, struct snp_err *err)
{
    end->fd = open_again(fd, flags);
    if (end->fd < 0) {
        return snp_fail_sys(err, errno, "standard %s", flags == O_RDONLY ? "input" : "output");
    }
    end->is_watched = uv_poll_init(io->peer.hub->loop, &end->poll, end->fd) == 0;
    end->poll.data = io;
    return 0;
}

static void handles_start(struct stdio *io)
{
    static const int numbers[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    uv_loop_t *loop = io->peer.hub->loop;

    (void)uv_idle_init(loop, &io->idle);
    (void)uv_timer_init(loop, &io->timer);
    io->idle.data = io;
    io->timer.data = io;
    for (int i = 0; i < N_SIGNALS; i++) {
        (void)uv_signal_init(loop, &io->signals[i]);
        io->signals[i].data = io;
        (void)uv_signal_start(&io->signals[i], on_signal, numbers[i]);
    }
    watch_update(io);
}

static void handles_close(struct stdio *io)
{
    for (int i = 0; i < N_SIGNALS; i++) {
        uv_close((uv_handle_t *)&io->signals[i], NULL);
    }
    uv_close((uv_handle_t *)&io->idle, NULL);
    uv_close((uv_handle_t *)&io->timer, NULL);
    if (io->in.is_watched) {
        uv_close((uv_handle_t *)&io->in.poll, NULL);
    }
    if (io->out.is_watched) {
        uv_close((uv_handle_t *)&io->out.poll, NULL);
    }
    (void)uv_run(io->peer.hub->loop, UV_RUN_NOWAIT); /* our handles: run their close callbacks */
}

int snp_mcp_stdio_run(struct snp_mcp_hub *hub,
                      const struct snp_mcp_stdio_options *options,
                      struct snp_err *err)
{
    struct stdio *io = calloc(1, sizeof(*io));
    int r;

    if (io == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    io->options = options;
    io->peer.send = on_send;
    io->in.fd = -1;
    io->out.fd = -1;
    snp_mcp_peer_init(&io->peer, hub);
    snp_mcp_lines_init(&io->lines, SNP_MCP_MESSAGE_MAX);
    snp_buf_init(&io->pending, SNP_MCP_OUT_MAX);
    r = end_open(io, &io->in, options->in_fd, O_RDONLY, err);
    if (r == 0) {
        r = end_open(io, &io->out, options->out_fd, O_WRONLY, err);
    }
    if (r == 0) {
        handles_start(io);
        (void)uv_run(hub->loop, UV_RUN_DEFAULT);
        handles_close(io);
    }
    snp_closep(&io->in.fd);
    snp_closep(&io->out.fd);
    snp_mcp_lines_done(&io->lines);
    snp_buf_done(&io->pending);
    free(io);
    return r;
}
