/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_LIFE_H
#define SNP_DAEMON_SESSION_LIFE_H

/*
 * The life of a session: what may happen to it in each state, and what comes of it. The table in
 * life.c is all of it; whoever does something with a session raises the event here.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "daemon/session.h"

enum snp_session_event {
    SNP_EV_OPENED = 0,  /* its first executor is there */
    SNP_EV_CELL,        /* a cell begins */
    SNP_EV_CELL_ENDED,  /* its outcome is dealt with, or it was not sent after all */
    SNP_EV_SAVE,        /* nothing may change in it until SAVED */
    SNP_EV_SAVED,       /* it may */
    SNP_EV_LEAVE,       /* its executor is closed; what stays of it is on disk */
    SNP_EV_CLEAR,       /* the same, and nothing stays */
    SNP_EV_LOST,        /* its executor ended by itself */
    SNP_EV_RESTED,      /* it has no executor, and nothing is done with it */
    SNP_EV_WAKE,        /* somebody needs it: the next executor is asked for */
    SNP_EV_AWAKE,       /* that is filled */
    SNP_EV_ROLL_BACK,   /* it goes back to a snapshot */
    SNP_EV_ROLLED_BACK, /* it is there, in the same executor */
    SNP_EV_DESTROY,
    SNP_EV_N,
};

/* What an event does in a state: the next one, or one of these. */
enum {
    SNP_LIFE_UNSAID = SNP_SESSION_OPENING, /* the table forgot it: nothing leads back there */
    SNP_LIFE_NEVER = SNP_SESSION_N,        /* cannot happen: a mistake of ours */
    SNP_LIFE_STAYS, /* nothing: it comes too late, or somebody else finds out */
};
unsigned snp_life_next(enum snp_session_state state, enum snp_session_event event);

/* It happens. An event that the table excludes in this state ends the daemon. */
void snp_session_event(struct snp_session *session, enum snp_session_event event);

/* Something has changed: whoever waits for the session goes on, as far as its state lets them. */
void snp_session_go_on(struct snp_session *session);

/* It is used now: idleness counts from here. */
void snp_session_use(struct snp_session *session);

/* It has no executor, and none is asked for. */
bool snp_session_is_asleep(const struct snp_session *session);
/* Cells and files may be sent to its executor. */
bool snp_session_is_live(const struct snp_session *session);
/* IDLE with an executor, or without one, and nobody is busy with it. */
bool snp_session_is_at_rest(const struct snp_session *session);
/* Opening, or with an executor, and not closing. */
unsigned snp_sessions_open(const struct snp_sessions *table);

/* The state as users read it. */
const char *snp_session_state_text(const struct snp_session *session);

#endif
