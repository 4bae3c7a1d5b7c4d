/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_EXEC_H
#define SNP_DAEMON_SESSION_EXEC_H

/*
 * Cells in memory. One cell of a session runs at a time, in order of arrival: start.c begins it,
 * cell.c runs it.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "daemon/session/turn.h"
#include "daemon/spec.h"

struct snp_exec;
struct snp_executor;
struct snp_request;
struct snp_session;

/* The end of a cell without a client. result: its JSON, borrowed; NULL = see err. */
typedef void snp_exec_ended(void *ctx, json_t *result, const struct snp_err *err);

/*
 * One cell. It is in its session's queue or is session->live.running, holds one reference to its
 * session, and is ended exactly once, by cell.c or by snp_exec_fail.
 */
struct snp_exec {
    struct snp_turn turn;
    struct snp_request *request; /* owned; NULL once ended, or if it has no client */
    snp_exec_ended *ended;       /* called instead of answering a request; or NULL */
    void *ctx;
    struct snp_session *session;   /* one reference */
    struct snp_executor *executor; /* its executor; one reference; NULL = not started */
    struct snp_exec_spec spec;     /* owned */
    json_t *head; /* owned: its request, if it opened an unnamed session; or NULL */
    char *raw;    /* owned: code, then standard input; freed once the cell is known to have begun */
    size_t raw_len;
    size_t waiting_bytes; /* its bytes in the client's total */
    uint64_t wall_ms;
    uint64_t cell;      /* its number; 0 = not started */
    uint32_t open_call; /* call of its code to the client; 0 = none */
    uint64_t replay_of; /* number of the cell that it replays; 0 = none */
    uint64_t asked_us;  /* monotonic: waiting since, not yet reported; 0 = no report needed */
    bool was_put_back;  /* its executor was gone when it arrived there */

    json_t *record;    /* owned: its result for the journal; NULL = see err */
    bool falls_back;   /* its interpreter was lost: the session returns to its checkpoint */
    const char *taken; /* why it lost its session while it ran; or NULL */
    struct snp_err err;

    uint64_t started_us; /* since 1970; valid once it is session->live.running */

    /* For the journal; in named sessions. */
    bool is_intent_due;    /* its intent has not been written; raw is kept for it */
    struct snp_buf events; /* its output so far, as frames */
    uint64_t displays;     /* displays in events */
    bool is_cut;           /* events is incomplete */
    uint64_t noted_us;     /* monotonic: when its output was last written */
};

/* The first waiting cell, and the one after a waiting cell; NULL: none. Borrowed. */
struct snp_exec *snp_exec_first(const struct snp_session *session);
struct snp_exec *snp_exec_after(const struct snp_exec *exec);
unsigned snp_exec_waiting(const struct snp_session *session);

/* End a cell that is in neither place any more, and free it. */
void snp_exec_fail(struct snp_exec *exec, const struct snp_err *err);
void snp_exec_free(struct snp_exec *exec);

/* The cell has ended: its client can no longer stop or answer it. */
void snp_exec_detach(struct snp_exec *exec);
/* The same; the caller must end the request. NULL: no client. */
struct snp_request *snp_exec_take_request(struct snp_exec *exec);

/* Subtract its code and input from the client's total. */
void snp_exec_uncount_raw(struct snp_exec *exec);
/* Free its code and input. */
void snp_exec_drop_raw(struct snp_exec *exec);

#endif
