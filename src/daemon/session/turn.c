/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of operations that need a session at rest. */
#include "daemon/session/turn.h"

#include <stddef.h>

#include "daemon/co.h"
#include "daemon/server.h"
#include "daemon/session/life.h"

static bool has_come(const struct snp_turn *turn, const struct snp_session *session)
{
    return turn->is_time != NULL
               ? turn->is_time(session)
               : session->unsaved.n_departing == 0 && snp_session_is_at_rest(session);
}

void snp_turns_run(struct snp_session *session)
{
    struct snp_err err;

    if (session->server->is_ending) {
        (void)snp_fail(&err, SNP_E_PEER, "the daemon is ending");
        snp_turns_fail(session, false, &err);
    }
    while (session->live.turns != NULL && has_come(session->live.turns, session)) {
        struct snp_turn *turn = session->live.turns;

        session->live.turns = turn->next;
        turn->run(turn, session, NULL);
    }
}

/* Remove the turns that do not survive; in order. */
static struct snp_turn *turns_take(struct snp_session *session, bool is_cleared)
{
    struct snp_turn **at = &session->live.turns;
    struct snp_turn *taken = NULL;
    struct snp_turn **last = &taken;

    while (*at != NULL) {
        struct snp_turn *turn = *at;

        if (is_cleared && turn->survives_clear) {
            at = &turn->next;
            continue;
        }
        *at = SNP_TAKE_PTR(turn->next);
        *last = turn;
        last = &turn->next;
    }
    return taken;
}

void snp_turns_fail(struct snp_session *session, bool is_cleared, const struct snp_err *err)
{
    struct snp_turn *turn;

    /* None of them gets its turn because another one that failed continues the session. */
    while ((turn = turns_take(session, is_cleared)) != NULL) {
        while (turn != NULL) {
            struct snp_turn *next = turn->next;

            turn->run(turn, session, err);
            turn = next;
        }
    }
}

static int rank(const struct snp_turn *turn)
{
    return turn->is_first ? 0 : turn->is_time != NULL ? 1 : 2;
}

void snp_turn_ask(struct snp_session *session, struct snp_turn *turn)
{
    struct snp_turn **at = &session->live.turns;

    while (*at != NULL && rank(*at) <= rank(turn)) {
        at = &(*at)->next;
    }
    turn->next = *at;
    *at = turn;
    snp_session_go_on(session);
}

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
    struct turn_wait awaited = {0};

    if (asked != NULL) {
        awaited.turn = *asked;
    }
    awaited.turn.run = on_turn;
    snp_turn_ask(session, &awaited.turn);
    return snp_await(&awaited.wait, NULL, err);
}
