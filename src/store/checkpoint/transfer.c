/* SPDX-License-Identifier: Apache-2.0 */
/* The pipe of a checkpoint, and the checkpoints that must stay. */
#include "store/checkpoint/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/uio.h>

#include "base/fd.h"

enum {
    PIPE_BYTES = 1 << 20,
    ROOMS = 3, /* read buffers: one is filled while others are hashed */
};

/* Pipes --------------------------------------------------------------------------------- */

/* Wait until the pipe is ready for what; SNP_E_TIMEOUT after SNP_BUNDLE_STALL_MS. */
static int pipe_wait(struct snp_transfer *t, short what, struct snp_err *err)
{
    struct pollfd fds[2] = {{.fd = t->fd, .events = what},
                            {.fd = t->store->stop_fd, .events = POLLIN}};
    int r = SNP_RETRY(poll(fds, 2, SNP_BUNDLE_STALL_MS));

    if (r < 0) {
        return snp_fail_sys(err, errno, "poll");
    }
    if (fds[1].revents != 0) {
        return snp_fail(err, SNP_E_DENIED, "the daemon is ending");
    }
    if (r == 0) {
        return snp_fail(err, SNP_E_TIMEOUT, "the stream of a checkpoint stalled for %d s",
                        SNP_BUNDLE_STALL_MS / 1000);
    }
    return 0;
}

int snp_transfer_setup(struct snp_transfer *t, struct snp_err *err)
{
    (void)fcntl(t->fd, F_SETPIPE_SZ, PIPE_BYTES); /* a hint: users have a limited share */
    return snp_set_nonblock(t->fd, true) < 0
               ? snp_fail_sys(err, errno, "set up the pipe of a checkpoint")
               : 0;
}

/* Feed a filled buffer while the writer hashes the others. */
static int room_feed(
    struct snp_transfer *t, const char *room, size_t n, uint64_t *ret_mark, struct snp_err *err)
{
    int r = snp_stream_feed(&t->in, room, n, err);

    *ret_mark = t->writer == NULL ? 0 : snp_blob_mark(t->writer);
    return r;
}

int snp_transfer_feed(struct snp_transfer *t, struct snp_err *err)
{
    snp_autofree char *bytes = malloc((size_t)SNP_TRANSFER_READ * ROOMS);
    uint64_t marks[ROOMS] = {0};
    unsigned at = 0;
    int r = 0;

    SNP_TRY_MEMORY(bytes, err);
    while (r == 0 && !snp_stream_is_over(&t->in)) {
        char *room = bytes + (size_t)SNP_TRANSFER_READ * at;
        ssize_t n;

        if (t->writer != NULL) {
            snp_blob_wait(t->writer, marks[at]);
        }
        n = SNP_RETRY(read(t->fd, room, SNP_TRANSFER_READ));
        if (n > 0) {
            r = room_feed(t, room, (size_t)n, &marks[at], err);
            at = (at + 1) % ROOMS;
        } else if (n == 0) {
            r = snp_fail(err, SNP_E_PEER, "the stream of a checkpoint ended early");
        } else if (errno == EAGAIN) {
            r = pipe_wait(t, POLLIN, err);
        } else {
            r = snp_fail_sys(err, errno, "read the stream of a checkpoint");
        }
    }
    if (t->writer != NULL) {
        snp_blob_wait(t->writer, snp_blob_mark(t->writer)); /* the buffers are freed now */
    }
    return r;
}

int snp_transfer_write(
    struct snp_transfer *t, struct snp_buf *head, const void *bytes, size_t n, struct snp_err *err)
{
    struct iovec parts[2] = {{snp_buf_bytes(head), head->len}, {(void *)(uintptr_t)bytes, n}};
    int r = 0;

    while (r == 0 && parts[0].iov_len + parts[1].iov_len > 0) {
        ssize_t done = SNP_RETRY(writev(t->fd, parts, 2));

        for (int i = 0; i < 2 && done > 0; i++) {
            size_t step = (size_t)done < parts[i].iov_len ? (size_t)done : parts[i].iov_len;

            if (step > 0) { /* an empty head has no bytes */
                parts[i].iov_base = (char *)parts[i].iov_base + step;
            }
            parts[i].iov_len -= step;
            done -= (ssize_t)step;
        }
        if (done < 0 && errno == EAGAIN) {
            r = pipe_wait(t, POLLOUT, err);
        } else if (done < 0) {
            r = snp_fail(err, SNP_E_PEER, "the reader of a checkpoint disconnected");
        }
    }
    snp_buf_clear(head);
    return r;
}

/* Busy ---------------------------------------------------------------------------------- */

void snp_transfer_busy(struct snp_transfer *t, uint64_t checkpoint, uint64_t base)
{
    struct snp_store *store = t->store;

    (void)pthread_mutex_lock(&store->mutex);
    if (t->busy.checkpoint == 0) {
        t->busy.next = store->busy;
        store->busy = &t->busy;
    }
    t->busy.checkpoint = checkpoint;
    t->busy.base = base;
    (void)pthread_mutex_unlock(&store->mutex);
}

void snp_transfer_idle(struct snp_transfer *t)
{
    struct snp_store *store = t->store;
    struct snp_busy **at = &store->busy;

    (void)pthread_mutex_lock(&store->mutex);
    while (*at != NULL && *at != &t->busy) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = t->busy.next;
    }
    (void)pthread_mutex_unlock(&store->mutex);
}
