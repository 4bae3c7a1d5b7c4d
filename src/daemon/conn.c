/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Framed connections.
 *
 * Invariant: closed() runs only from callbacks of the loop that conn.c itself owns, with no frame
 * being handled. Errors inside snp_conn_send are noted and left to the timer, so that closed()
 * never runs inside the caller's work.
 */
#include "daemon/conn.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/wire/frame.h"
#include "daemon/caps.h"

static void handle_closed(uv_handle_t *handle)
{
    struct snp_conn *conn = handle->data;

    conn->n_handles--;
    if (conn->n_handles == 0) {
        conn->ops->released(conn);
    }
}

static void fds_drop(struct snp_conn *conn)
{
    for (unsigned i = 0; i < conn->n_fds; i++) {
        (void)close(conn->fds[i].fd);
    }
    conn->n_fds = 0;
}

/* A unix socket whose peer closed with unread bytes has this error until it is read. */
static bool is_reset(const struct snp_conn *conn)
{
    int eno = 0;
    socklen_t n = sizeof(eno);

    return getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &eno, &n) == 0 && eno == ECONNRESET;
}

static void conn_close(struct snp_conn *conn)
{
    if (conn->is_closed) {
        return;
    }
    conn->is_closed = true;
    conn->was_reset = conn->was_reset || is_reset(conn);
    (void)uv_poll_stop(&conn->poll);
    (void)uv_timer_stop(&conn->timer);
    conn->ops->closed(conn, &conn->why);
    snp_buf_done(&conn->in);
    snp_buf_done(&conn->out);
    fds_drop(conn);
    uv_close((uv_handle_t *)&conn->poll, handle_closed);
    uv_close((uv_handle_t *)&conn->timer, handle_closed);
    snp_closep(&conn->fd);
    conn->fd = -1;
}

static void on_timer(uv_timer_t *timer)
{
    struct snp_conn *conn = timer->data;

    if (conn->why.code == SNP_OK && conn->is_half) {
        (void)snp_fail(&conn->why, SNP_E_PEER, "sent half a frame and nothing more for %d s",
                       SNP_CAP_FRAME_MS / 1000);
    } else if (conn->why.code == SNP_OK && conn->is_ending && conn->out.len > 0) {
        (void)snp_fail(&conn->why, SNP_E_PEER, "did not read the last answer");
    }
    conn_close(conn);
}

/* Send the first waiting descriptor and as many bytes as the socket takes; as send(2). */
static ssize_t send_with_fd(struct snp_conn *conn, size_t n)
{
    struct iovec part = {.iov_base = snp_buf_bytes(&conn->out), .iov_len = n};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    ssize_t sent;

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &conn->fds[0].fd, sizeof(int));
    sent = SNP_RETRY(sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
    if (sent > 0) {
        (void)close(conn->fds[0].fd);
        conn->n_fds--;
        memmove(&conn->fds[0], &conn->fds[1], conn->n_fds * sizeof(conn->fds[0]));
    }
    return sent;
}

/* Write as much as the socket takes. -1: broken, why is set. */
static int flush(struct snp_conn *conn)
{
    while (conn->out.len > 0) {
        bool has_fd = conn->n_fds > 0 && conn->fds[0].at == conn->sent;
        unsigned next = has_fd ? 1 : 0;
        size_t most = conn->out.len;
        ssize_t n;

        /* A descriptor belongs to its byte: the bytes before it are sent separately. */
        if (conn->n_fds > next && conn->fds[next].at - conn->sent < most) {
            most = (size_t)(conn->fds[next].at - conn->sent);
        }
        n = has_fd ? send_with_fd(conn, most)
                   : SNP_RETRY(send(conn->fd, snp_buf_bytes(&conn->out), most,
                                    MSG_NOSIGNAL | MSG_DONTWAIT));
        if (n < 0 && errno == EAGAIN) {
            return 0;
        }
        if (n < 0) {
            (void)snp_fail_sys(&conn->why, errno, "send");
            return -1;
        }
        snp_buf_consume(&conn->out, (size_t)n);
        conn->sent += (uint64_t)n;
    }
    if (conn->out.cap > SNP_CAP_BUFFER_BYTES) {
        snp_buf_done(&conn->out);
    }
    return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void poll_update(struct snp_conn *conn)
{
    int events = conn->is_ending ? 0 : UV_READABLE;

    if (conn->out.len > 0) {
        events |= UV_WRITABLE;
    }
    events |= UV_DISCONNECT; /* detects a hang-up while reading is paused */
    /* libuv removes the descriptor from its set and adds it again on every call. */
    if (conn->events != events) {
        conn->events = events;
        (void)uv_poll_start(&conn->poll, events, on_poll);
    }
}

/* Handle all complete frames at the front. -1: the format is broken, why is set. */
static int frames_handle(struct snp_conn *conn)
{
    bool had_any = false;

    while (!conn->is_ending && conn->why.code == SNP_OK) {
        struct snp_frame frame;
        size_t size = 0;
        bool has = false;

        if (snp_frame_peek(&conn->in, SNP_FRAME_BODY_MAX, &frame, &size, &has, &conn->why) < 0) {
            return -1;
        }
        if (!has) {
            break;
        }
        had_any = true;
        conn->ops->frame(conn, &frame);
        snp_buf_consume(&conn->in, size);
    }
    if (conn->is_ending || conn->why.code != SNP_OK) {
        return 0;
    }
    if (conn->in.len == 0) {
        if (conn->in.cap > SNP_CAP_BUFFER_BYTES) {
            snp_buf_done(&conn->in);
        }
        if (conn->is_half) {
            conn->is_half = false;
            (void)uv_timer_stop(&conn->timer);
        }
    } else if (!conn->is_half || had_any) {
        conn->is_half = true;
        (void)uv_timer_start(&conn->timer, on_timer, SNP_CAP_FRAME_MS, 0);
    }
    return 0;
}

/* Read once. 0: continue; 1: end of stream; -1: broken, why is set. */
static int fill(struct snp_conn *conn)
{
    char *space = NULL;
    ssize_t n;
    int r = snp_buf_reserve(&conn->in, SNP_CAP_READ_BYTES, &space);

    if (r < 0) {
        (void)snp_fail(&conn->why, (enum snp_code)r, "no room for more of a frame");
        return -1;
    }
    n = SNP_RETRY(recv(conn->fd, space, SNP_CAP_READ_BYTES, MSG_DONTWAIT));
    if (n < 0 && errno == EAGAIN) {
        return 0;
    }
    if (n < 0) {
        conn->was_reset = errno == ECONNRESET;
        (void)snp_fail_sys(&conn->why, errno, "recv");
        return -1;
    }
    if (n == 0) {
        if (conn->in.len > 0) {
            (void)snp_fail(&conn->why, SNP_E_PEER, "the stream ended inside a frame");
        }
        return 1;
    }
    snp_buf_commit(&conn->in, (size_t)n);
    return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct snp_conn *conn = poll->data;

    if (status < 0) {
        /* libuv's name for an error of the socket: what was sent will not be read. */
        (void)snp_fail(
            &conn->why, SNP_E_PEER, "%s",
            status == UV_EBADF
                ? "it ended before reading its last request; the daemon's log may say why"
                : uv_strerror(status));
        conn_close(conn);
        return;
    }
    if (flush(conn) < 0) {
        conn_close(conn);
        return;
    }
    if (!conn->is_ending && (events & (UV_READABLE | UV_DISCONNECT)) != 0) {
        int r = fill(conn);

        if (r != 0 || frames_handle(conn) < 0) {
            conn_close(conn);
            return;
        }
    }
    if (conn->is_ending && (conn->out.len == 0 || (events & UV_DISCONNECT) != 0)) {
        conn_close(conn);
        return;
    }
    poll_update(conn);
}

int snp_conn_open(struct snp_conn *conn,
                  uv_loop_t *loop,
                  int fd,
                  const struct snp_conn_ops *ops,
                  struct snp_err *err)
{
    snp_autoclose int owned = fd;
    int r;

    *conn = (struct snp_conn){.ops = ops, .fd = -1};
    snp_buf_init(&conn->in, SNP_FRAME_HEADER_LEN + SNP_FRAME_BODY_MAX + SNP_CAP_READ_BYTES);
    snp_buf_init(&conn->out, SNP_CAP_QUEUE_BYTES);
    r = uv_poll_init(loop, &conn->poll, owned);
    if (r < 0) {
        return snp_fail(err, SNP_E_INTERNAL, "watch a stream: %s", uv_strerror(r));
    }
    (void)uv_timer_init(loop, &conn->timer);
    conn->poll.data = conn;
    conn->timer.data = conn;
    conn->n_handles = 2;
    conn->fd = SNP_TAKE_FD(owned);
    poll_update(conn);
    return 0;
}

int snp_conn_send(struct snp_conn *conn, const struct snp_frame *frame)
{
    return snp_conn_send_fd(conn, frame, -1);
}

int snp_conn_send_fd(struct snp_conn *conn, const struct snp_frame *frame, int fd)
{
    snp_autoclose int owned = fd;
    uint64_t at = conn->sent + conn->out.len;
    struct snp_err full;
    int r;

    if (conn->is_closed || conn->is_ending || conn->why.code != SNP_OK) {
        return 0;
    }
    if (frame->head_len > SNP_FRAME_HEAD_MAX ||
        frame->raw_len > SNP_FRAME_BODY_MAX - frame->head_len ||
        (owned >= 0 && conn->n_fds == SNP_CONN_FDS_MAX)) {
        return SNP_E_LIMIT;
    }
    r = snp_frame_write(&conn->out, frame);
    if (r < 0) {
        (void)snp_fail(&full, SNP_E_LIMIT, "stopped reading; %zu bytes wait", conn->out.len);
        snp_conn_abort(conn, &full);
        return 0;
    }
    if (owned >= 0) {
        conn->fds[conn->n_fds].at = at;
        conn->fds[conn->n_fds++].fd = SNP_TAKE_FD(owned);
    }
    if (flush(conn) < 0) {
        (void)uv_timer_start(&conn->timer, on_timer, 0, 0);
        return 0;
    }
    poll_update(conn);
    return 0;
}

size_t snp_conn_queued(const struct snp_conn *conn)
{
    return conn->out.len;
}

uint64_t snp_conn_end_of(const struct snp_conn *conn)
{
    return conn->sent + conn->out.len;
}

bool snp_conn_is_unread(const struct snp_conn *conn, uint64_t end)
{
    return end > conn->sent || (end == conn->sent && conn->was_reset);
}

void snp_conn_end(struct snp_conn *conn)
{
    if (conn->is_closed || conn->is_ending || conn->why.code != SNP_OK) {
        return;
    }
    conn->is_ending = true;
    conn->is_half = false;
    (void)uv_timer_start(&conn->timer, on_timer, conn->out.len > 0 ? SNP_CAP_FLUSH_MS : 0, 0);
    poll_update(conn);
}

void snp_conn_abort(struct snp_conn *conn, const struct snp_err *why)
{
    if (conn->is_closed || conn->why.code != SNP_OK) {
        return;
    }
    conn->is_ending = true;
    conn->is_half = false;
    if (why != NULL) {
        conn->why = *why;
    }
    (void)uv_timer_start(&conn->timer, on_timer, 0, 0);
}
