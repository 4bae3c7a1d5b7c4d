/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/turn.h"

#include <stddef.h>

#include "base/macro.h"
#include "daemon/co.h"
#include "daemon/server.h"
#include "daemon/session/life.h"

static bool is_exclusive(const struct snp_turn *turn)
{
    return turn->kind <= SNP_TURN_REST;
}

static bool has_come(const struct snp_turn *turn, const struct snp_session *session)
{
    const bool is_free = session->unsaved.n_departing == 0;

    switch (turn->kind) {
    case SNP_TURN_FIRST:
    case SNP_TURN_SOON:
        return turn->is_time(session);
    case SNP_TURN_REST:
        return is_free && snp_session_is_at_rest(session);
    case SNP_TURN_LIVE:
        return is_free && snp_session_is_live(session);
    case SNP_TURN_CELL:
        return is_free && session->state == SNP_SESSION_IDLE;
    }
    return false;
}

/* Take the next turn that has come out of the queue; NULL: none. */
static struct snp_turn *turn_take(struct snp_session *session)
{
    bool is_blocked = false; /* an exclusive turn is ahead */

    for (struct snp_turn **at = &session->live.turns; *at != NULL; at = &(*at)->next) {
        struct snp_turn *turn = *at;

        if (!(is_blocked && is_exclusive(turn)) && has_come(turn, session)) {
            *at = turn->next;
            return turn;
        }
        is_blocked = true;
    }
    return NULL;
}

/* While the daemon ends, files of a live session are still transferred. */
static void refuse(struct snp_session *session)
{
    const unsigned awake = snp_session_is_asleep(session) ? SNP_TURNS_AWAKE : SNP_TURNS_CELLS;
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_PEER, "the daemon is ending");
    snp_turns_fail(session, SNP_TURNS_ALONE | (session->live.wake == NULL ? awake : 0), &err);
}

void snp_turns_run(struct snp_session *session)
{
    struct snp_turn *turn;

    if (session->server->is_ending) {
        refuse(session);
    }
    while ((turn = turn_take(session)) != NULL) {
        turn->run(turn, session, NULL);
    }
}

static unsigned bit_of(const struct snp_turn *turn)
{
    if (is_exclusive(turn)) {
        return turn->survives_clear ? SNP_TURNS_SURVIVING : SNP_TURNS_CLEARED;
    }
    return turn->kind == SNP_TURN_LIVE ? SNP_TURNS_LIVE : SNP_TURNS_CELLS;
}

/* Take these turns out of the queue; in order. */
static struct snp_turn *turns_take(struct snp_session *session, unsigned which)
{
    struct snp_turn **at = &session->live.turns;
    struct snp_turn *taken = NULL;
    struct snp_turn **last = &taken;

    while (*at != NULL) {
        struct snp_turn *turn = *at;

        if ((bit_of(turn) & which) == 0) {
            at = &turn->next;
            continue;
        }
        *at = SNP_TAKE_PTR(turn->next);
        *last = turn;
        last = &turn->next;
    }
    return taken;
}

void snp_turns_fail(struct snp_session *session, unsigned which, const struct snp_err *err)
{
    struct snp_turn *turn;

    /* None of them gets its turn because another one that failed continues the session. */
    while ((turn = turns_take(session, which)) != NULL) {
        while (turn != NULL) {
            struct snp_turn *next = turn->next;

            turn->run(turn, session, err);
            turn = next;
        }
    }
}

bool snp_turns_need_executor(const struct snp_session *session)
{
    const struct snp_turn *turn = session->live.turns;

    while (turn != NULL && is_exclusive(turn)) {
        turn = turn->next;
    }
    return turn != NULL;
}

void snp_turn_enter(struct snp_session *session, struct snp_turn *turn, bool is_ahead)
{
    struct snp_turn **at = &session->live.turns;

    while (*at != NULL && ((*at)->kind < turn->kind || (!is_ahead && (*at)->kind == turn->kind))) {
        at = &(*at)->next;
    }
    turn->next = *at;
    *at = turn;
}

void snp_turn_ask(struct snp_session *session, struct snp_turn *turn)
{
    snp_turn_enter(session, turn, false);
    snp_session_go_on(session);
}

bool snp_turn_leave(struct snp_session *session, const struct snp_turn *turn)
{
    for (struct snp_turn **at = &session->live.turns; *at != NULL; at = &(*at)->next) {
        if (*at == turn) {
            *at = turn->next;
            return true;
        }
    }
    return false;
}

/* In coroutines ----------------------------------------------------------------------------- */

struct turn_wait {
    struct snp_turn turn;
    struct snp_await wait;
};

static void on_turn(struct snp_turn *turn, struct snp_session *session, const struct snp_err *err)
{
    (void)session;
    snp_await_ended(&snp_container_of(turn, struct turn_wait, turn)->wait, err);
}

int snp_turn_await(struct snp_session *session, const struct snp_turn *asked, struct snp_err *err)
{
    struct turn_wait awaited = {.turn = {.kind = SNP_TURN_REST}};

    if (asked != NULL) {
        awaited.turn = *asked;
    }
    awaited.turn.run = on_turn;
    snp_turn_ask(session, &awaited.turn);
    return snp_await(&awaited.wait, NULL, err);
}

int snp_session_await_live(struct snp_session *session, struct snp_err *err)
{
    return snp_turn_await(session, &(struct snp_turn){.kind = SNP_TURN_LIVE}, err);
}
