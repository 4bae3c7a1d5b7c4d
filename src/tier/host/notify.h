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
struct snp_sandbox;

/* A call that its maker waits for. */
struct snp_asked {
    struct snp_sandbox *sandbox; /* borrowed */
    int listener_fd;
    const struct seccomp_notif *req;
    bool goes_on; /* out: let the kernel do it */
};

/*
 * A call that the supervisor makes for the code, or lets go on, after it has looked at whom or what
 * it means.
 */
struct snp_emulated {
    const char *call;               /* NULL ends a table */
    int (*run)(struct snp_asked *); /* 0 or errno */
};

/* What was read by the caller's number was the caller's only if its call still waits. */
bool snp_asked_waits(const struct snp_asked *a);

/* Is it a call of the table? Then resp (whose id is set) says how it went; else it is refused. */
bool snp_emulate(const struct snp_emulated *table,
                 struct snp_asked *a,
                 struct seccomp_notif_resp *resp);

struct snp_notify {
    uv_poll_t *poll; /* owned; NULL = closed */
    uv_timer_t *pause;
    int fd; /* owned */
    snp_notify_cb cb;
    void *data;
    const struct snp_emulated *emulated; /* static; data is then the sandbox; NULL = none */
    unsigned n_cheap;                    /* that went on */
    unsigned in_window;                  /* answered since window_us */
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
