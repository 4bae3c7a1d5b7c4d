/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_TURN_H
#define SNP_DAEMON_SESSION_TURN_H

/*
 * The queue of a session: all calls that wait for it. A turn is the time of one of them. An
 * operation that has its turn and does not finish at once raises an event after which no cell
 * starts, and continues the session when it is done.
 */

#include <stdbool.h>

#include "base/err.h"

struct snp_session;

/*
 * What a call waits for; the queue is in this order, then in order of arrival. The first three are
 * exclusive: none of them gets its turn before those ahead of it.
 */
enum snp_turn_kind {
    SNP_TURN_FIRST = 0, /* is_time() */
    SNP_TURN_SOON,      /* is_time(), too */
    SNP_TURN_REST,      /* the session at rest: IDLE with an executor, or without one */
    SNP_TURN_LIVE,      /* an executor: the session is woken; a cell may run beside it */
    SNP_TURN_CELL,      /* the session is woken, and is IDLE: the call becomes its running cell */
};

/* Embedded in its owner. */
struct snp_turn {
    struct snp_turn *next;
    enum snp_turn_kind kind;
    bool survives_clear; /* exclusive, and applies to the cleared session, too */
    /* Only for SOON and FIRST. */
    bool (*is_time)(const struct snp_session *session);
    /* Called once. err: NULL = it is its turn; else the turn does not come. */
    void (*run)(struct snp_turn *turn, struct snp_session *session, const struct snp_err *err);
};

/* Enter the queue; the turn may come at once. */
void snp_turn_ask(struct snp_session *session, struct snp_turn *turn);

/* Enter the queue, without continuing the session. is_ahead: before others of its kind. */
void snp_turn_enter(struct snp_session *session, struct snp_turn *turn, bool is_ahead);

/* Leave the queue before the turn has come. False: it is not there. */
bool snp_turn_leave(struct snp_session *session, const struct snp_turn *turn);

/*
 * In a coroutine: wait for a turn. asked: without run(), copied; NULL = SNP_TURN_REST. Fails if the
 * turn does not come.
 */
int snp_turn_await(struct snp_session *session,
                   const struct snp_turn *asked,
                   struct snp_err *err) SNP_NODISCARD;

/* In a coroutine: wait until the session has an executor. */
int snp_session_await_live(struct snp_session *session, struct snp_err *err) SNP_NODISCARD;

/* Is the session needed awake? */
bool snp_turns_need_executor(const struct snp_session *session);

/* For session/life.c: run the turns that come. While the daemon ends, most fail. */
void snp_turns_run(struct snp_session *session);

enum {
    SNP_TURNS_CLEARED = 1, /* exclusive ones, unless they survive a clear */
    SNP_TURNS_SURVIVING = 2,
    SNP_TURNS_LIVE = 4,
    SNP_TURNS_CELLS = 8,
    SNP_TURNS_ALONE = SNP_TURNS_CLEARED | SNP_TURNS_SURVIVING,
    SNP_TURNS_AWAKE = SNP_TURNS_LIVE | SNP_TURNS_CELLS
};

/* The turns of these kinds do not come. */
void snp_turns_fail(struct snp_session *session, unsigned which, const struct snp_err *err);

#endif
