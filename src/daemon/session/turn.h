/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_TURN_H
#define SNP_DAEMON_SESSION_TURN_H

/*
 * Having a session for oneself for a while: between cells, while it is neither saved, woken nor
 * closed. Whoever has the turn and does not finish at once raises an event after
 * which no cell starts, and has the session go on when it is done.
 */

#include <stdbool.h>

#include "base/err.h"

struct snp_session;

/* Embedded in its owner. */
struct snp_turn {
    struct snp_turn *next;
    /* When its time is, if not at rest: it comes before all that wait for rest. */
    bool (*is_time)(const struct snp_session *session);
    bool is_first;       /* it comes before all others */
    bool survives_clear; /* it applies to the cleared session, too */
    /*
     * Called once. err: NULL = its time is, or the session is at rest: IDLE with an executor, or
     * without one; else it has ended, and the turn does not come.
     */
    void (*run)(struct snp_turn *turn, struct snp_session *session, const struct snp_err *err);
};

/* Call turn->run when its time is, before the cells that wait; maybe at once. */
void snp_turn_ask(struct snp_session *session, struct snp_turn *turn);

/* For the life of sessions: those whose time has come. */
void snp_turns_run(struct snp_session *session);

/* For the end of sessions; if the session was only cleared, those that survive that stay. */
void snp_turns_fail(struct snp_session *session, bool is_cleared, const struct snp_err *err);

#endif
