/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_HOST_NOTIFY_H
#define SNP_TIER_HOST_NOTIFY_H

/*
 * The supervisor's end of the seccomp filter: every call that it does not allow waits here for an
 * answer. The answer is always a refusal; pointer arguments are never read.
 */

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "tier/engine/cell/denials.h"

/* A refused call; borrowed for the call. */
typedef void (*snp_notify_cb)(void *data, const struct snp_denial *denial);

struct seccomp_notif;
struct seccomp_notif_resp;
struct snp_sandbox;

/* A call whose caller waits for the answer. */
struct snp_asked {
    struct snp_sandbox *sandbox; /* borrowed */
    int listener_fd;
    const struct seccomp_notif *req;
    bool goes_on; /* out: let the kernel run it */
};

/*
 * A call that the supervisor runs for the code, or lets the kernel run, after checking its target.
 */
struct snp_emulated {
    const char *call;               /* NULL ends a table */
    int (*run)(struct snp_asked *); /* 0 or errno */
};

/* Does the call still wait? Only then data read by the caller's pid belongs to the caller. */
bool snp_asked_waits(const struct snp_asked *a);

/*
 * Run a call of the table; resp (with its id set) gets the outcome. False: not in the table; it is
 * refused.
 */
bool snp_emulate(const struct snp_emulated *table,
                 struct snp_asked *a,
                 struct seccomp_notif_resp *resp);

struct snp_notify {
    uv_poll_t *poll; /* owned; NULL = closed */
    uv_timer_t *pause;
    int fd; /* owned */
    snp_notify_cb cb;
    void *data;
    /* static; its calls get the sandbox as data; NULL = none */
    const struct snp_emulated *emulated;
    unsigned n_cheap;   /* calls that the kernel ran */
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
