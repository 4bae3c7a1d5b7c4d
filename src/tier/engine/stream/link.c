/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames are written at once if the socket accepts them, else when it is writable. The poll handle
 * outlives the link by one iteration of the loop, so it is allocated separately.
 */
#include "tier/engine/stream/link.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "tier/engine/stream/handle.h"

enum {
    READ_CHUNK = 64 << 10,
    READS_MAX = 16 /* before other handles get a turn */
};

static void end(struct snp_link *link, const struct snp_err *err)
{
    if (snp_link_is_open(link)) {
        snp_link_close(link);
        link->ops->on_end(link, err);
    }
}

/* 0, or -1 when the peer is gone. */
static int flush(struct snp_link *link)
{
    while (link->out.len > 0) {
        ssize_t n = SNP_RETRY(
            send(link->fd, snp_buf_bytes(&link->out), link->out.len, MSG_NOSIGNAL | MSG_DONTWAIT));
        if (n < 0) {
            return errno == EAGAIN ? 0 : -1;
        }
        snp_buf_consume(&link->out, (size_t)n);
    }
    return 0;
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void want_events(struct snp_link *link)
{
    int events = UV_READABLE | (link->out.len > 0 ? UV_WRITABLE : 0);

    /*
     * uv_poll_start removes the descriptor from its set and adds it again, even without a change.
     */
    if (link->events != events) {
        link->events = events;
        (void)uv_poll_start(link->poll, events, on_poll);
    }
}

/*
 * Like recv(2), keeping one descriptor. A header is read separately, so that a descriptor is known
 * to belong to its frame.
 */
static ssize_t receive(struct snp_link *link, char *space, struct snp_err *err)
{
    size_t missing = snp_frame_missing(&link->in);
    int fds[SNP_FDS_MAX];
    size_t n_fds = 0;
    ssize_t n;

    n = snp_recv_fds(link->fd, space, missing < READ_CHUNK ? missing : READ_CHUNK, fds, &n_fds);
    if (n <= 0 || n_fds == 0) {
        return n;
    }
    if (n_fds == 1 && link->passed_fd < 0) {
        link->passed_fd = fds[0];
        return n;
    }
    for (size_t i = 0; i < n_fds; i++) {
        (void)close(fds[i]);
    }
    (void)snp_fail(err, SNP_E_PEER, "a frame came with more than one descriptor");
    return -1;
}

/* Read once; true if more may be available. */
static bool fill(struct snp_link *link)
{
    struct snp_err err = {.code = SNP_OK};
    char *space;
    ssize_t n;

    if (snp_buf_reserve(&link->in, READ_CHUNK, &space) < 0) {
        (void)snp_fail(&err, SNP_E_LIMIT, "too many bytes without a whole frame");
        end(link, &err);
        return false;
    }
    n = link->ops->takes_fds ? receive(link, space, &err)
                             : SNP_RETRY(recv(link->fd, space, READ_CHUNK, MSG_DONTWAIT));
    if (n < 0 && errno == EAGAIN && err.code == SNP_OK) {
        return false;
    }
    if (n <= 0) {
        if (err.code == SNP_OK) {
            (void)snp_fail(&err, SNP_E_PEER, "the other side closed the stream");
        }
        end(link, &err);
        return false;
    }
    snp_buf_commit(&link->in, (size_t)n);
    return true;
}

static void handle_frames(struct snp_link *link)
{
    struct snp_err err = {.code = SNP_OK};

    while (snp_link_is_open(link)) {
        struct snp_frame frame;
        size_t size;
        bool has;
        if (snp_frame_peek(&link->in, link->ops->body_max, &frame, &size, &has, &err) < 0) {
            end(link, &err);
            return;
        }
        if (!has) {
            break;
        }
        link->ops->on_frame(link, &frame);
        snp_closep(&link->passed_fd); /* on_frame did not take it */
        if (snp_link_is_open(link)) {
            snp_buf_consume(&link->in, size);
        }
    }
    if (!snp_link_is_open(link)) {
        snp_buf_done(&link->in);
    }
}

static void read_some(struct snp_link *link)
{
    unsigned left = link->ops->takes_fds ? READS_MAX : 1;

    while (left > 0 && snp_link_is_open(link) && fill(link)) {
        handle_frames(link);
        left--;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct snp_link *link = poll->data;
    struct snp_err err = {.code = SNP_OK};

    if (status < 0 || ((events & UV_WRITABLE) != 0 && flush(link) < 0)) {
        (void)snp_fail(&err, SNP_E_PEER, "the other side closed the stream");
        end(link, &err);
        return;
    }
    if ((events & UV_READABLE) != 0) {
        read_some(link);
    }
    if (snp_link_is_open(link)) {
        want_events(link);
    }
}

int snp_link_open(struct snp_link *link,
                  uv_loop_t *loop,
                  int fd,
                  const struct snp_link_ops *ops,
                  void *owner,
                  struct snp_err *err)
{
    *link = (struct snp_link){.ops = ops, .owner = owner, .fd = fd, .passed_fd = -1};
    snp_buf_init(&link->in, ops->body_max + SNP_FRAME_HEADER_LEN + (size_t)2 * READ_CHUNK);
    snp_buf_init(&link->out, ops->queue_max);
    link->poll = snp_set_nonblock(fd, true) < 0 ? NULL : snp_poll_new(loop, fd, link);
    if (link->poll == NULL) {
        snp_closep(&link->fd);
        return snp_fail(err, SNP_E_NOMEM, "cannot watch a stream");
    }
    want_events(link);
    return 0;
}

int snp_link_take_fd(struct snp_link *link)
{
    return SNP_TAKE_FD(link->passed_fd);
}

bool snp_link_has_ended(const struct snp_link *link)
{
    struct pollfd stream = {.fd = link->fd, .events = POLLRDHUP};

    return !snp_link_is_open(link) || poll(&stream, 1, 0) == 1;
}

void snp_link_close(struct snp_link *link)
{
    if (link->poll == NULL) {
        return;
    }
    snp_handle_close(&link->poll);
    snp_closep(&link->fd);
    snp_closep(&link->passed_fd);
    snp_buf_done(&link->out);
    /* A frame of link->in may still be in use by the caller of on_frame; see read_some. */
}

void snp_link_send(struct snp_link *link, const struct snp_frame *frame)
{
    if (!snp_link_is_open(link)) {
        return;
    }
    if (snp_frame_write(&link->out, frame) < 0 || flush(link) < 0) {
        /* Ends from the loop, not from here: callers still use the link. */
        (void)shutdown(link->fd, SHUT_RDWR);
        snp_buf_clear(&link->out);
        return;
    }
    if (link->out.len > 0) {
        want_events(link);
    }
}

int snp_link_send_fd(struct snp_link *link, const struct snp_frame *frame, int fd)
{
    const char *bytes;
    ssize_t n = SNP_FRAME_HEADER_LEN;

    if (!snp_link_is_open(link) || flush(link) < 0 || link->out.len > 0 ||
        snp_frame_write(&link->out, frame) < 0) {
        return -1;
    }
    /* The descriptor is sent with the header, so it arrives before the frame is complete. */
    bytes = snp_buf_bytes(&link->out);
    if (snp_send_fds(link->fd, bytes, (size_t)n, &fd, 1) < 0) {
        snp_buf_clear(&link->out);
        return -1;
    }
    snp_buf_consume(&link->out, (size_t)n);
    if (flush(link) < 0) {
        (void)shutdown(link->fd, SHUT_RDWR);
        snp_buf_clear(&link->out);
    } else if (link->out.len > 0) {
        want_events(link);
    }
    return 0;
}
