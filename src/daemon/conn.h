/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CONN_H
#define SNP_DAEMON_CONN_H

/*
 * Frames over one non-blocking stream in the event loop, for clients and tiers alike.
 *
 * A peer that breaks the format, begins a frame and does not finish it, or does not read what it is
 * sent, is disconnected; closed() reports it to the owner once.
 */

#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/wire/frame.h"

struct snp_conn;

enum {
    SNP_CONN_FDS_MAX = 64 /* descriptors queued */
};

struct snp_conn_ops {
    /* A complete frame, borrowed until return. May send, and may close the connection. */
    void (*frame)(struct snp_conn *conn, const struct snp_frame *frame);
    /*
     * The connection is closed; why: SNP_OK = in order, by either side. Called once, from the loop,
     * never from inside snp_conn_send. The conn is still memory; sending does nothing.
     */
    void (*closed)(struct snp_conn *conn, const struct snp_err *why);
    /* The loop no longer uses the conn: its memory may be freed. Always after closed(). */
    void (*released)(struct snp_conn *conn);
};

/* Embedded in its owner. Fields are private to conn.c. */
struct snp_conn {
    const struct snp_conn_ops *ops;
    int fd; /* owned */
    uv_poll_t poll;
    int events;         /* watched events; 0 = none yet */
    uv_timer_t timer;   /* a deadline: of a partial frame, of a last answer; or 0 = close now */
    struct snp_buf in;  /* bytes read, not yet handled */
    struct snp_buf out; /* bytes to send */
    uint64_t sent;      /* bytes of out sent so far, ever */
    struct {
        uint64_t at;         /* is sent with the byte of this number */
        int fd;              /* owned */
    } fds[SNP_CONN_FDS_MAX]; /* in order, n_fds of them */
    unsigned n_fds;
    struct snp_err why; /* reason for closing */
    unsigned n_handles; /* libuv handles still open */
    bool was_reset;     /* the peer closed without reading the last byte of `sent` */
    bool is_half;       /* the timer runs for a partial frame */
    bool is_ending;     /* reading has stopped; closes when out is empty */
    bool is_closed;
};

/*
 * fd: non-blocking, consumed also on failure. The owner embeds conn and must not free it before
 * released(); on failure released() is not called.
 */
int snp_conn_open(struct snp_conn *conn,
                  uv_loop_t *loop,
                  int fd,
                  const struct snp_conn_ops *ops,
                  struct snp_err *err) SNP_NODISCARD;

/*
 * Queue a frame; as much as the socket takes is written at once. SNP_E_LIMIT: the frame exceeds a
 * cap, nothing was sent and the connection stays open. With a full queue or a broken socket it
 * returns 0, and the connection closes soon. Ignored after the end.
 */
int snp_conn_send(struct snp_conn *conn, const struct snp_frame *frame) SNP_NODISCARD;

/*
 * The same with a descriptor that arrives with the frame's first byte; -1 = none. Consumed in all
 * cases. SNP_E_LIMIT also: too many descriptors wait.
 */
int snp_conn_send_fd(struct snp_conn *conn, const struct snp_frame *frame, int fd) SNP_NODISCARD;

/* Bytes not yet taken by the socket. */
size_t snp_conn_queued(const struct snp_conn *conn);

/* The end of the last queued frame in the stream. */
uint64_t snp_conn_end_of(const struct snp_conn *conn);
/* In closed(): the peer certainly did not read all of the frame that ends there. */
bool snp_conn_is_unread(const struct snp_conn *conn, uint64_t end);

/* Stop reading; close when the queue has been sent, or after SNP_CAP_FLUSH_MS. */
void snp_conn_end(struct snp_conn *conn);

/* Close from the loop, soon, for this reason (copied; NULL = in order). */
void snp_conn_abort(struct snp_conn *conn, const struct snp_err *why);

#endif
