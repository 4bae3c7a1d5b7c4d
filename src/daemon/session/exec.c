/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariants: a cell is in exactly one place: its session's queue or session->live.running. It
 * holds one reference to its session and owns its request, which is ended exactly once. Only an
 * IDLE session starts a cell; a session without an executor is woken first.
 */
#include "daemon/session/exec.h"

#include <stdlib.h>

#include "daemon/request.h"
#include "daemon/server.h"
#include "daemon/session/executor.h"
#include "daemon/session/table.h"

void snp_exec_uncount_raw(struct snp_exec *exec)
{
    struct snp_peer *peer = exec->request == NULL ? NULL : exec->request->peer;

    if (peer != NULL) {
        peer->waiting_bytes -= exec->waiting_bytes;
    }
    exec->waiting_bytes = 0;
}

void snp_exec_drop_raw(struct snp_exec *exec)
{
    snp_exec_uncount_raw(exec);
    free(SNP_TAKE_PTR(exec->raw));
}

void snp_exec_free(struct snp_exec *exec)
{
    SNP_ASSERT(exec->request == NULL);
    json_decref(exec->head);
    free(exec->raw);
    json_decref(exec->record);
    snp_buf_done(&exec->events);
    snp_exec_spec_done(&exec->spec);
    snp_executor_unref(exec->executor);
    snp_session_unref(exec->session);
    free(exec);
}

void snp_exec_detach(struct snp_exec *exec)
{
    if (exec->request != NULL) {
        exec->request->exec = NULL;
    }
}

struct snp_request *snp_exec_take_request(struct snp_exec *exec)
{
    snp_exec_drop_raw(exec);
    snp_exec_detach(exec);
    return SNP_TAKE_PTR(exec->request);
}

void snp_exec_fail(struct snp_exec *exec, const struct snp_err *err)
{
    struct snp_request *request = snp_exec_take_request(exec);

    if (exec->ended != NULL) {
        exec->ended(exec->ctx, NULL, err);
    } else {
        snp_request_fail(request, err);
    }
    snp_exec_free(exec);
}

static struct snp_exec *cell_of(struct snp_turn *turn)
{
    while (turn != NULL && turn->kind != SNP_TURN_CELL) {
        turn = turn->next;
    }
    return turn == NULL ? NULL : snp_container_of(turn, struct snp_exec, turn);
}

struct snp_exec *snp_exec_first(const struct snp_session *session)
{
    return cell_of(session->live.turns);
}

struct snp_exec *snp_exec_after(const struct snp_exec *exec)
{
    return cell_of(exec->turn.next);
}

unsigned snp_exec_waiting(const struct snp_session *session)
{
    unsigned n = 0;

    for (const struct snp_exec *at = snp_exec_first(session); at != NULL; at = snp_exec_after(at)) {
        n++;
    }
    return n;
}
