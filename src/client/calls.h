/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLIENT_CALLS_H
#define SNP_CLIENT_CALLS_H

/*
 * Open calls over one connection to the daemon: what the client that blocks, the one for event
 * loops and the library share. Knows neither how to connect nor how to wait.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

enum {
    SNP_CALLS_MAX = 512, /* open at once */
    /* So many are with the daemon at once, which takes 32; the rest are for what is urgent. */
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
     * The end, exactly once, never before the call has begun. err != NULL: it failed (the
     * daemon's ERROR, or SNP_E_PEER: the daemon went away or cannot be started) and head is
     * NULL. All borrowed until return. Both callbacks may begin further calls. NULL = ignore.
     */
    void (*done)(
        void *ctx, const struct snp_err *err, json_t *head, const char *raw, size_t raw_len);
    void *ctx;
    bool is_urgent; /* answered at once: it waits for no other call */
    bool is_raw;    /* its members are the caller's own: unknown ones are a mistake */
};

struct snp_calls {
    int fd; /* owned, non-blocking; -1 = not connected: calls queue up */
    struct snp_buf in;
    struct snp_buf out; /* not sent yet */
    struct open_call *open[SNP_CALLS_MAX];
    size_t n_open;
    size_t n_sent;     /* of these and of those forgotten: what the daemon has not answered */
    size_t held_bytes; /* of those that wait */
    uint32_t last_id;
    struct snp_buf newest; /* a copy of the last frame, if it is small and not answered yet */
    uint32_t newest_id;
    bool is_unread; /* the daemon ended before it read that frame */
};

void snp_calls_init(struct snp_calls *calls);

/*
 * Queue a call; *ret_id names it until its end. SNP_E_LIMIT: too large, or too much waits. On
 * failure done is not called.
 */
int snp_calls_begin(struct snp_calls *calls,
                    const struct snp_async_call *call,
                    uint32_t *ret_id,
                    struct snp_err *err) SNP_NODISCARD;

/*
 * Queue a request to interrupt the cell of an open `exec`; its end comes as usual, also if it has
 * not been sent yet. Unknown ids are ignored.
 */
void snp_calls_interrupt(struct snp_calls *calls, uint32_t id);

/* Nobody hears of this call any more. */
void snp_calls_forget(struct snp_calls *calls, uint32_t id);

/* Whether it is open. */
bool snp_calls_has(const struct snp_calls *calls, uint32_t id);

/*
 * Send what can be sent now; then, if can_read, handle what has come. On failure: snp_calls_drop.
 */
int snp_calls_send(struct snp_calls *calls, struct snp_err *err) SNP_NODISCARD;
int snp_calls_receive(struct snp_calls *calls, struct snp_err *err) SNP_NODISCARD;

/*
 * Close the connection; every call that is open ends with err: which of them the daemon has begun
 * cannot be known.
 */
void snp_calls_drop(struct snp_calls *calls, const struct snp_err *err);

/*
 * The same, of a daemon that ended with something unread: the newest call was not begun, and waits
 * for the next connection, once. False: there is none.
 */
bool snp_calls_again(struct snp_calls *calls, const struct snp_err *err);

/*
 * Did the call fail because the daemon is older than this program? The error says which to restart.
 */
bool snp_calls_is_older(const struct snp_err *err);

/* Add to the failure of a call about a session, SNP_E_PEER, what comes next. */
void snp_calls_lost(struct snp_err *err);

/* Close, and give up all calls without a word to anybody. */
void snp_calls_done(struct snp_calls *calls);

#endif
