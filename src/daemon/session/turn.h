/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_TURN_H
#define SNP_DAEMON_SESSION_TURN_H

/*
 * Exclusive use of a session for a while: between cells, while it is neither saved, woken nor
 * closed. An operation that has the turn and does not finish at once raises an event after which no
 * cell starts, and continues the session when it is done.
 */

#include <stdbool.h>

#include "base/err.h"

struct snp_session;

/* Embedded in its owner. */
struct snp_turn {
    struct snp_turn *next;
    /* The condition for its turn, if not at rest: it precedes all that wait for rest. */
    bool (*is_time)(const struct snp_session *session);
    bool is_first;       /* it precedes all others */
    bool survives_clear; /* it applies to the cleared session, too */
    /*
     * Called once. err: NULL = its condition holds, or the session is at rest: IDLE with an
     * executor, or without one; else the session has ended, and the turn does not come.
     */
    void (*run)(struct snp_turn *turn, struct snp_session *session, const struct snp_err *err);
};

/* Call turn->run when its condition holds, before waiting cells; perhaps at once. */
void snp_turn_ask(struct snp_session *session, struct snp_turn *turn);

/*
 * In a coroutine: wait for a turn. asked: without run(), copied; NULL = at rest. Fails if the turn
 * does not come.
 */
int snp_turn_await(struct snp_session *session,
                   const struct snp_turn *asked,
                   struct snp_err *err) SNP_NODISCARD;

/* For session/life.c: run the turns whose condition holds. */
void snp_turns_run(struct snp_session *session);

/* For the end of sessions; if the session was only cleared, turns that survive that stay. */
void snp_turns_fail(struct snp_session *session, bool is_cleared, const struct snp_err *err);

#endif
