/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_EXEC_H
#define SNP_DAEMON_SESSION_EXEC_H

/*
 * One cell in memory, and the line of those that wait for their turn in a session. One at a time
 * runs, in the order they came: start.c begins, cell.c runs it.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "daemon/spec.h"

struct snp_exec;
struct snp_executor;
struct snp_request;
struct snp_session;

/* The end of a cell that no client waits for. result: its JSON, borrowed; NULL = see err. */
typedef void snp_exec_ended(void *ctx, const json_t *result, const struct snp_err *err);

/*
 * One cell. It is in session->live.waiting or is session->live.running, holds one reference of its
 * session, and is ended exactly once, by cell.c or by snp_exec_fail.
 */
struct snp_exec {
    struct snp_request *request; /* owned; NULL once ended, or if nobody asked */
    snp_exec_ended *ended;       /* then this is called instead; or NULL */
    void *ctx;
    struct snp_session *session;   /* one reference */
    struct snp_executor *executor; /* that runs it; one reference; NULL = has not started */
    struct snp_exec_spec spec;     /* owned */
    json_t *head;                  /* owned: its request, if it came without a session; or NULL */
    char *raw; /* owned: code, then standard input; gone once the cell is known to have begun */
    size_t raw_len;
    size_t waiting_bytes; /* of it count for the client */
    uint64_t wall_ms;
    uint64_t cell;      /* its number; 0 = has not started */
    uint32_t open_call; /* of its code, to the client; 0 = none */
    uint64_t replay_of; /* the number of the cell it repeats; 0 = none */
    uint64_t asked_us; /* monotonic: it waits since then, and nobody has been told; 0 = no matter */
    bool was_put_back; /* its executor was gone when it came there */

    json_t *record;    /* owned: its result as the journal has it; NULL = see err */
    bool falls_back;   /* its interpreter was lost: the session goes back to its checkpoint */
    const char *taken; /* why its session was taken from it while it ran; or NULL */
    struct snp_err err;

    uint64_t started_us; /* since 1970; once it is session->live.running */

    /* For the journal; in sessions that last. */
    bool is_intent_due;    /* its intent has not been written; raw is kept for it */
    struct snp_buf events; /* what it has shown so far, as frames */
    uint64_t displays;     /* of these */
    bool is_cut;           /* events lacks some */
    uint64_t noted_us;     /* monotonic: when what it has shown was last written */
};

/* Call the waiter as soon as the session has an executor, which may be at once. */
void snp_session_when_live(struct snp_session *session, struct snp_waiter *waiter);

/* Fail who is first in line, and who needs an executor without running a cell. */
void snp_exec_fail_first(struct snp_session *session, const struct snp_err *err);

/*
 * Call those who need an executor; err: NULL = as long as the session is live, which each of them
 * may change.
 */
void snp_waiters_run(struct snp_session *session, const struct snp_err *err);

/* Fail the cells that wait. */
void snp_exec_fail_cells(struct snp_session *session, const struct snp_err *err);

/* Fail all cells and others that wait for a session; true if there was any cell. */
bool snp_exec_fail_waiting(struct snp_session *session, const struct snp_err *err);

/* End a cell that is in neither place any more, and free it. */
void snp_exec_fail(struct snp_exec *exec, const struct snp_err *err);
void snp_exec_free(struct snp_exec *exec);

/* Take it out of the line; false: it is not there. */
bool snp_exec_take_out(struct snp_exec *exec);

/* First in line again: it has not been run after all. False: the line is full. */
bool snp_exec_put_back(struct snp_exec *exec);

/* It has ended: its client can neither stop nor answer it any more. */
void snp_exec_detach(struct snp_exec *exec);
/* The same, and its request is the caller's to end. NULL: nobody asked. */
struct snp_request *snp_exec_take_request(struct snp_exec *exec);

/* Its code and input no longer count for its client. */
void snp_exec_uncount_raw(struct snp_exec *exec);
/* They are no longer needed here. */
void snp_exec_drop_raw(struct snp_exec *exec);

#endif
