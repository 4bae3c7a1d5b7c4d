/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_LIFE_H
#define SNP_DAEMON_SESSION_LIFE_H

/*
 * The life of a session: the events possible in each state, and their effects. The table in life.c
 * is complete; code that changes a session raises the event here.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "daemon/session.h"

enum snp_session_event {
    SNP_EV_OPENED = 0,  /* its first executor is ready */
    SNP_EV_CELL,        /* a cell begins */
    SNP_EV_CELL_ENDED,  /* its outcome is handled, or it was not sent */
    SNP_EV_SAVE,        /* no change until SAVED */
    SNP_EV_SAVED,       /* changes are allowed again */
    SNP_EV_LEAVE,       /* its executor is closed; its state is on disk */
    SNP_EV_CLEAR,       /* the same, without saved state */
    SNP_EV_LOST,        /* its executor ended unexpectedly */
    SNP_EV_RESTED,      /* it has no executor, and no work is pending */
    SNP_EV_WAKE,        /* it is needed: the next executor is requested */
    SNP_EV_AWAKE,       /* the next executor is filled */
    SNP_EV_ROLL_BACK,   /* it returns to a snapshot */
    SNP_EV_ROLLED_BACK, /* it has returned, in the same executor */
    SNP_EV_DESTROY,
    SNP_EV_N,
};

/* The effect of an event in a state: the next state, or one of these. */
enum {
    SNP_LIFE_UNSAID = SNP_SESSION_OPENING, /* missing in the table: no event leads back there */
    SNP_LIFE_NEVER = SNP_SESSION_N,        /* cannot happen: a bug */
    SNP_LIFE_STAYS,                        /* no effect: too late, or detected elsewhere */
};
unsigned snp_life_next(enum snp_session_state state, enum snp_session_event event);

/* Apply an event. An event that the table excludes in this state aborts the daemon. */
void snp_session_event(struct snp_session *session, enum snp_session_event event);

/* The session has changed: continue waiting calls as far as its state allows. */
void snp_session_go_on(struct snp_session *session);

/* The session is in use: its idle time starts again. */
void snp_session_use(struct snp_session *session);

/* It has no executor, and none is requested. */
bool snp_session_is_asleep(const struct snp_session *session);
/* Cells and files may be sent to its executor. */
bool snp_session_is_live(const struct snp_session *session);
/* IDLE with an executor, or without one, and no operation is pending. */
bool snp_session_is_at_rest(const struct snp_session *session);
/* Opening, or with an executor, and not closing. */
unsigned snp_sessions_open(const struct snp_sessions *table);

/* The state's name for users. */
const char *snp_session_state_text(const struct snp_session *session);

#endif
