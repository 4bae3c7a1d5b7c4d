/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_STREAM_LINK_H
#define SNP_TIER_ENGINE_STREAM_LINK_H

/*
 * A framed stream on the loop: reads whole frames and queues output until it can be written. One
 * for the daemon, one for each interpreter and each pid 1.
 */

#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"
#include "base/wire/frame.h"

struct snp_link;

struct snp_link_ops {
    size_t body_max;  /* cap of one frame, bytes */
    size_t queue_max; /* of queued output; beyond it the link ends */
    bool takes_fds;   /* accept one descriptor with a frame; else they are closed */
    /* A frame, borrowed for the call. May close the link. */
    void (*on_frame)(struct snp_link *link, const struct snp_frame *frame);
    /* End of stream, an error or an invalid frame (see err). The link is already closed. */
    void (*on_end)(struct snp_link *link, const struct snp_err *err);
};

struct snp_link {
    const struct snp_link_ops *ops;
    void *owner;     /* borrowed */
    uv_poll_t *poll; /* owned; NULL = closed */
    int events;      /* events that poll watches; 0 = none yet */
    int fd;          /* owned; -1 = closed */
    int passed_fd;   /* owned; came with the frame at the front of in; -1 = none */
    struct snp_buf in;
    struct snp_buf out;
};

/* Start reading fd (consumed, also on failure). */
int snp_link_open(struct snp_link *link,
                  uv_loop_t *loop,
                  int fd,
                  const struct snp_link_ops *ops,
                  void *owner,
                  struct snp_err *err) SNP_NODISCARD;

/* In on_frame: the descriptor that came with this frame, now the caller's; -1 = none. */
int snp_link_take_fd(struct snp_link *link);

/* Stop and close; idempotent; no callback follows. */
void snp_link_close(struct snp_link *link);

static inline bool snp_link_is_open(const struct snp_link *link)
{
    return link->poll != NULL;
}

/* Has the peer closed it, or died? May be true before on_end. */
bool snp_link_has_ended(const struct snp_link *link);

/*
 * Queue a frame; a full queue or a dead peer closes the link and calls on_end later, from the loop.
 */
void snp_link_send(struct snp_link *link, const struct snp_frame *frame);

/*
 * The same with a descriptor, which stays the caller's. -1 if there is no link, or earlier output
 * is still queued: then nothing was sent.
 */
int snp_link_send_fd(struct snp_link *link, const struct snp_frame *frame, int fd) SNP_NODISCARD;

#endif
