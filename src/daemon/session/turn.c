/* SPDX-License-Identifier: Apache-2.0 */
/* The line of those who need a session at rest. */
#include "daemon/session/turn.h"

#include <stddef.h>

#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/session.h"

bool snp_session_is_at_rest(const struct snp_session *session)
{
    if (session->live.running != NULL || session->live.wake != NULL ||
        session->unsaved.n_putting > 0) {
        return false;
    }
    switch (session->state) {
    case SNP_SESSION_IDLE:
        return session->live.executor != NULL &&
               session->live.executor->state == SNP_EXECUTOR_OPEN;
    case SNP_SESSION_HIBERNATED:
    case SNP_SESSION_INCOMPLETE:
    case SNP_SESSION_UNKNOWN:
    case SNP_SESSION_LOST:
        return session->live.executor == NULL;
    case SNP_SESSION_OPENING:
    case SNP_SESSION_RUNNING:
    case SNP_SESSION_SAVING:
    case SNP_SESSION_HIBERNATING:
    case SNP_SESSION_WAKING:
    case SNP_SESSION_ROLLING_BACK:
    case SNP_SESSION_CLOSING:
    default:
        return false;
    }
}

void snp_turns_run(struct snp_session *session)
{
    struct snp_err err;

    if (session->server->is_ending) {
        (void)snp_fail(&err, SNP_E_PEER, "the daemon is ending");
        snp_turns_fail(session, &err);
    }
    while (session->live.turns != NULL && snp_session_is_at_rest(session)) {
        struct snp_turn *turn = session->live.turns;

        session->live.turns = turn->next;
        turn->run(turn, session, NULL);
    }
}

void snp_turns_fail(struct snp_session *session, const struct snp_err *err)
{
    while (session->live.turns != NULL) {
        struct snp_turn *turn = session->live.turns;

        session->live.turns = turn->next;
        turn->run(turn, session, err);
    }
}

void snp_turn_ask(struct snp_session *session, struct snp_turn *turn)
{
    struct snp_turn **at = &session->live.turns;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    turn->next = NULL;
    *at = turn;
    snp_exec_pump(session);
}
