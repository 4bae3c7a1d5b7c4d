/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLIENT_ASYNC_H
#define SNP_CLIENT_ASYNC_H

/* A connection (connection.h) in a loop of libuv: many calls at once. */

#include <stdbool.h>
#include <uv.h>

#include "base/err.h"
#include "client/calls.h"

struct snp_async;

/* *ret is the caller's: snp_async_free(). Does not connect yet. loop: borrowed, outlives it. */
int snp_async_new(uv_loop_t *loop, struct snp_async **ret, struct snp_err *err) SNP_NODISCARD;

/*
 * Begin a call. *ret_id names it until done. On failure done is not called. SNP_E_LIMIT: the
 * request is larger than a frame, or the queue is full.
 */
int snp_async_call(struct snp_async *async,
                   const struct snp_async_call *call,
                   uint32_t *ret_id,
                   struct snp_err *err) SNP_NODISCARD;

/* Interrupt the cell of an open `exec`; its end comes as usual. Unknown ids are ignored. */
void snp_async_interrupt(struct snp_async *async, uint32_t id);

/* The kernel has all requests so far. */
bool snp_async_is_sent(const struct snp_async *async);

/* Drop all calls without callbacks, and close. Not from a callback. The loop frees the rest. */
void snp_async_free(struct snp_async *async);

#endif
