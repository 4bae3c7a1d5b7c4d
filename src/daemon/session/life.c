/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a session, as a table.
 *
 *   unnamed: opening -> idle -> running -> idle -> closing
 *   named:   asleep -> waking -> idle <-> running, saving, rolling back -> hibernating -> asleep
 *
 * A waking session may run missing cells again (replaying). Only this file sets states.
 */
#include "daemon/session/life.h"

#include "base/clock.h"
#include "base/macro.h"
#include "daemon/server.h"
#include "daemon/session/executor.h"
#include "daemon/session/missing_cells.h"
#include "daemon/session/table.h"
#include "daemon/session/turn.h"

/* clang-format off */
static const struct {
    const char *shown;
    bool is_open; /* it keeps the daemon running */
} states[SNP_SESSION_N] = {
    [SNP_SESSION_OPENING]      = {"running",    true}, /* its first cell waits for it */
    [SNP_SESSION_IDLE]         = {"idle",       true},
    [SNP_SESSION_RUNNING]      = {"running",    true},
    [SNP_SESSION_SAVING]       = {"idle",       true}, /* a cell may begin at any time */
    [SNP_SESSION_HIBERNATING]  = {"hibernated", true},
    [SNP_SESSION_ASLEEP]       = {"hibernated", false},
    [SNP_SESSION_WAKING]       = {"waking",     true},
    [SNP_SESSION_REPLAYING]    = {"running",    true},
    [SNP_SESSION_ROLLING_BACK] = {"running",    true},
    [SNP_SESSION_CLOSING]      = {"closing",    false},
};

/* An event, the state it occurs in, and the next state. */
#define never SNP_LIFE_NEVER
#define stays SNP_LIFE_STAYS
#define Idle SNP_SESSION_IDLE
#define Running SNP_SESSION_RUNNING
#define Saving SNP_SESSION_SAVING
#define Leaving SNP_SESSION_HIBERNATING
#define Asleep SNP_SESSION_ASLEEP
#define Waking SNP_SESSION_WAKING
#define Replay SNP_SESSION_REPLAYING
#define Back SNP_SESSION_ROLLING_BACK
#define Closing SNP_SESSION_CLOSING

enum { USE = 1 };

static const struct {
    unsigned is_use; /* idle time starts again */
    unsigned char next[SNP_SESSION_N];
} events[SNP_EV_N] = {
/* in:                          opening  idle     running  saving   leaving  asleep   waking   replay   back     closing */
    [SNP_EV_OPENED]      = {USE, {Idle,    never,   never,   never,   never,   never,   never,   never,   never,   never}},
    [SNP_EV_CELL]        = {USE, {never,   Running, never,   never,   never,   never,   Replay,  never,   never,   never}},
    [SNP_EV_CELL_ENDED]  = {USE, {never,   never,   Idle,    never,   never,   stays,   never,   Waking,  never,   never}},
    [SNP_EV_SAVE]        = {0,   {never,   Saving,  stays,   stays,   stays,   stays,   stays,   stays,   stays,   stays}},
    [SNP_EV_SAVED]       = {0,   {never,   stays,   stays,   Idle,    stays,   stays,   stays,   stays,   stays,   stays}},
    [SNP_EV_LEAVE]       = {0,   {never,   Leaving, never,   never,   never,   never,   Leaving, never,   Leaving, never}},
    [SNP_EV_CLEAR]       = {USE, {never,   Leaving, Leaving, never,   never,   Leaving, Leaving, Leaving, never,   never}},
    [SNP_EV_LOST]        = {0,   {never,   Asleep,  Asleep,  Asleep,  stays,   never,   stays,   stays,   stays,   stays}},
    [SNP_EV_RESTED]      = {0,   {never,   never,   never,   never,   Asleep,  stays,   Asleep,  never,   Asleep,  stays}},
    [SNP_EV_WAKE]        = {USE, {never,   never,   never,   never,   never,   Waking,  never,   never,   never,   never}},
    [SNP_EV_AWAKE]       = {USE, {never,   never,   never,   never,   never,   never,   Idle,    never,   never,   never}},
    [SNP_EV_ROLL_BACK]   = {USE, {never,   Back,    never,   never,   never,   Back,    never,   never,   stays,   never}},
    [SNP_EV_ROLLED_BACK] = {USE, {never,   never,   never,   never,   never,   never,   never,   never,   Idle,    never}},
    [SNP_EV_DESTROY]     = {USE, {Closing, Closing, Closing, Closing, Closing, Closing, Closing, Closing, Closing, never}},
};
/* clang-format on */

_Static_assert(SNP_SESSION_CLOSING == SNP_SESSION_N - 1, "the columns are the states in order");

unsigned snp_life_next(enum snp_session_state state, enum snp_session_event event)
{
    return events[event].next[state];
}

void snp_session_use(struct snp_session *session)
{
    session->used_us = snp_now_us();
}

void snp_session_event(struct snp_session *session, enum snp_session_event event)
{
    unsigned next = snp_life_next(session->state, event);

    SNP_ASSERT(next != SNP_LIFE_NEVER && next != SNP_LIFE_UNSAID);
    if (next == SNP_LIFE_STAYS) {
        return;
    }
    session->state = (enum snp_session_state)next;
    if (events[event].is_use != 0) {
        snp_session_use(session);
    }
    if (event == SNP_EV_CELL) {
        session->used_wall_us = snp_wall_us();
    }
    if (next == SNP_SESSION_IDLE) { /* it has an executor, and nothing is missing */
        json_decref(SNP_TAKE_PTR(session->durable.missing));
    }
}

void snp_session_go_on(struct snp_session *session)
{
    const struct snp_hooks *hooks = session->server->hooks;

    snp_session_ref(session);
    snp_turns_run(session);
    if (session->unsaved.n_departing > 0) {
        /* it is about to leave */
    } else if (session->state == SNP_SESSION_WAKING) {
        hooks->wake_step(session);
    } else if (session->state == SNP_SESSION_ASLEEP && session->live.running == NULL &&
               snp_turns_need_executor(session)) {
        hooks->wake(session);
    } else if (session->state == SNP_SESSION_IDLE && session->name[0] == '\0') {
        hooks->end(session); /* it has run its cell */
    }
    snp_session_unref(session);
}

bool snp_session_is_asleep(const struct snp_session *session)
{
    return session->state == SNP_SESSION_ASLEEP;
}

bool snp_session_is_live(const struct snp_session *session)
{
    return session->live.executor != NULL &&
           (session->state == SNP_SESSION_IDLE || session->state == SNP_SESSION_RUNNING);
}

bool snp_session_is_at_rest(const struct snp_session *session)
{
    const struct snp_executor *executor = session->live.executor;

    if (session->live.running != NULL || session->unsaved.n_putting > 0) {
        return false;
    }
    return session->state == SNP_SESSION_IDLE
               ? executor != NULL && executor->state == SNP_EXECUTOR_OPEN
               : session->state == SNP_SESSION_ASLEEP && executor == NULL;
}

unsigned snp_sessions_open(const struct snp_sessions *table)
{
    unsigned n = 0;

    for (size_t i = 0; i < table->n_slots; i++) {
        n += table->slots[i] != NULL && states[table->slots[i]->state].is_open ? 1 : 0;
    }
    return n;
}

/* The text for a session that is asleep. */
static const char *asleep_text(const struct snp_session *session)
{
    if (!snp_session_is_lacking(session)) {
        return "hibernated";
    }
    if (session->durable.is_last_unknown) {
        return "unknown";
    }
    return session->durable.checkpoint == 0 && session->cells > 0 ? "lost" : "incomplete";
}

const char *snp_session_state_text(const struct snp_session *session)
{
    if (session->policy.place.manifest == NULL) {
        return "running";
    }
    return snp_session_is_asleep(session) ? asleep_text(session) : states[session->state].shown;
}
