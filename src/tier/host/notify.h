/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_NOTIFY_H
#define SNP_TIER_HOST_NOTIFY_H

/*
 * The other end of the seccomp filter: every call it does not allow waits here for an
 * answer. The answer is always a refusal; arguments behind pointers are never read.
 */

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "tier/engine/cell/denials.h"

/* A refused call; borrowed for the call. */
typedef void (*snp_notify_cb)(void *data, const struct snp_denial *denial);

struct seccomp_notif;
struct seccomp_notif_resp;

struct snp_notify {
    uv_poll_t *poll; /* owned; NULL = closed */
    uv_timer_t *pause;
    int fd; /* owned */
    snp_notify_cb cb;
    void *data;
    /* May answer a call itself (resp->id is set): true, and it is no denial. NULL = none. */
    bool (*emulate)(void *data,
                    int listener_fd,
                    const struct seccomp_notif *req,
                    struct seccomp_notif_resp *resp);
    unsigned n_cheap;   /* that went on */
    unsigned in_window; /* answered since window_us */
    uint64_t window_us;
};

/* Start answering on the listener fd (consumed, also on failure). */
int snp_notify_open(struct snp_notify *notify,
                    uv_loop_t *loop,
                    int fd,
                    snp_notify_cb cb,
                    void *data,
                    struct snp_err *err) SNP_NODISCARD;
void snp_notify_close(struct snp_notify *notify);

#endif
