/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLIENT_CALLS_H
#define SNP_CLIENT_CALLS_H

/*
 * Open calls over one connection to the daemon: shared by the blocking client and the connection
 * for event loops. Neither connects nor waits.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum {
    SNP_CALLS_MAX = 512, /* open at once */
    /* The daemon takes 32 requests at once; all but these are for urgent calls. */
    SNP_CALLS_SENT = 24,
    SNP_CALLS_URGENT = 32,
};

struct snp_async_call {
    json_t *head;    /* of SNP_WRITE: a request; consumed, also on failure; NULL = out of memory */
    const void *raw; /* copied */
    size_t raw_len;
    /* An event; all borrowed until return. NULL = ignore. */
    void (*event)(void *ctx, const json_t *head, const char *raw, size_t raw_len);
    /*
     * The end, called exactly once, never before the call has begun. err != NULL: it failed (the
     * daemon's ERROR, or SNP_E_PEER: the daemon ended or cannot be started) and head is NULL. All
     * borrowed until return. Both callbacks may begin further calls. NULL = ignore.
     */
    void (*done)(
        void *ctx, const struct snp_err *err, json_t *head, const char *raw, size_t raw_len);
    void *ctx;
    bool is_urgent; /* answered at once: waits for no other call */
    bool is_raw;    /* the caller wrote its members: unknown ones are the caller's mistake */
};

struct snp_calls {
    int fd; /* owned, non-blocking; -1 = not connected: calls are queued */
    struct snp_buf in;
    struct snp_buf out; /* not sent yet */
    struct open_call *open[SNP_CALLS_MAX];
    size_t n_open;
    size_t n_sent;     /* sent calls, including dropped ones, that are not answered yet */
    size_t held_bytes; /* of queued calls */
    uint32_t last_id;
    struct snp_buf newest; /* a copy of the last frame, if small and not answered yet */
    uint32_t newest_id;
    bool is_unread; /* the daemon ended before it read that frame */
};

void snp_calls_init(struct snp_calls *calls);

/*
 * Queue a call; *ret_id names it until its end. SNP_E_LIMIT: too large, or the queue is full. On
 * failure done is not called.
 */
int snp_calls_begin(struct snp_calls *calls,
                    const struct snp_async_call *call,
                    uint32_t *ret_id,
                    struct snp_err *err) SNP_NODISCARD;

/*
 * Queue an interrupt of the cell of an open `exec`; its end comes as usual, also if the call has
 * not been sent yet. Unknown ids are ignored.
 */
void snp_calls_interrupt(struct snp_calls *calls, uint32_t id);

/* Drop the call; its reply is discarded. */
void snp_calls_forget(struct snp_calls *calls, uint32_t id);

/*
 * Send as much as possible, and handle received frames, without blocking. On failure:
 * snp_calls_drop.
 */
int snp_calls_send(struct snp_calls *calls, struct snp_err *err) SNP_NODISCARD;
int snp_calls_receive(struct snp_calls *calls, struct snp_err *err) SNP_NODISCARD;

/*
 * Close the connection; every open call ends with err: it is unknown which of them the daemon has
 * begun.
 */
void snp_calls_drop(struct snp_calls *calls, const struct snp_err *err);

/*
 * The same for a daemon that ended with unread data: the newest call has not started, and waits for
 * the next connection, once. False: no such call.
 */
bool snp_calls_again(struct snp_calls *calls, const struct snp_err *err);

/*
 * The call failed because the daemon is older than this program. The error says which to restart.
 */
bool snp_calls_is_older(const struct snp_err *err);

/* Close, and drop all calls without callbacks. */
void snp_calls_done(struct snp_calls *calls);

#endif
