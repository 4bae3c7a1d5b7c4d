/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CO_H
#define SNP_DAEMON_CO_H

/*
 * Coroutines: an operation of several steps runs on a separate stack on the loop's thread and is
 * suspended while it awaits a callback. All calls are for one thread.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

struct snp_co;

enum {
    /* Operations use 22 KiB. */
    SNP_CO_STACK = 512 << 10,
};

/*
 * Run in a coroutine until its first await. Fails without running it if there is no memory for a
 * stack.
 */
int snp_co_start(void (*run)(void *arg), void *arg, struct snp_err *err) SNP_NODISCARD;

/* The running coroutine; NULL = none. Valid until it ends. */
struct snp_co *snp_co_self(void);

/*
 * Make the pending await and all later ones fail. An await that cannot be cut short fails when its
 * callback is called, so the callback never meets a stack that is gone.
 */
void snp_co_abort(struct snp_co *co);

/* One callback that a coroutine awaits; zeroed at first. On the coroutine's stack. */
struct snp_await {
    struct snp_co *co;
    void (*cancel)(struct snp_await *wait); /* ends it at once; NULL = it cannot be cut short */
    bool is_over;
    json_t *result; /* owned until snp_await() */
    struct snp_err err;
};

/*
 * Wait until it has ended, perhaps before this was called. ret: NULL = the result is dropped; else
 * owned by the caller.
 */
int snp_await(struct snp_await *wait, json_t **ret, struct snp_err *err);

/*
 * The end of a wait: continues its coroutine, so that ctx, the wait, may be gone afterwards. These
 * are done() of functions with callbacks. result: borrowed. err: NULL or SNP_OK = success.
 */
void snp_await_end(void *ctx, json_t *result, const struct snp_err *err);
void snp_await_ended(void *ctx, const struct snp_err *err);

#endif
