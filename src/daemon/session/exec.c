/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells in memory, and the queue of waiting cells.
 *
 * Invariants: a cell is in exactly one place: session->live.waiting or session->live.running. It
 * holds one reference to its session and owns its request, which is ended exactly once. Only an
 * IDLE session starts a cell; a session without an executor is woken first.
 */
#include "daemon/session/exec.h"

#include <stdlib.h>

#include "daemon/co.h"
#include "daemon/request.h"
#include "daemon/server.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
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

bool snp_exec_take_out(struct snp_exec *exec)
{
    struct snp_session *session = exec->session;

    for (unsigned i = 0; i < session->live.n_waiting; i++) {
        if (session->live.waiting[i] == exec) {
            session->live.n_waiting--;
            for (unsigned j = i; j < session->live.n_waiting; j++) {
                session->live.waiting[j] = session->live.waiting[j + 1];
            }
            return true;
        }
    }
    return false;
}

bool snp_exec_put_back(struct snp_exec *exec)
{
    struct snp_session *session = exec->session;

    if (session->live.n_waiting == SNP_CAP_WAITING) {
        return false;
    }
    for (unsigned i = session->live.n_waiting; i > 0; i--) {
        session->live.waiting[i] = session->live.waiting[i - 1];
    }
    session->live.waiting[0] = exec;
    session->live.n_waiting++;
    return true;
}

void snp_waiters_run(struct snp_session *session, const struct snp_err *err)
{
    while (session->live.waiters != NULL && (err != NULL || snp_session_is_live(session))) {
        struct snp_waiter *waiter = session->live.waiters;

        session->live.waiters = waiter->next;
        waiter->run(waiter, session, err);
    }
}

void snp_exec_fail_first(struct snp_session *session, const struct snp_err *err)
{
    snp_waiters_run(session, err);
    if (session->live.n_waiting > 0) {
        struct snp_exec *exec = session->live.waiting[0];

        (void)snp_exec_take_out(exec);
        snp_exec_fail(exec, err);
    }
}

void snp_exec_fail_cells(struct snp_session *session, const struct snp_err *err)
{
    while (session->live.n_waiting > 0) {
        struct snp_exec *exec = session->live.waiting[0];

        (void)snp_exec_take_out(exec);
        snp_exec_fail(exec, err);
    }
}

bool snp_exec_fail_waiting(struct snp_session *session, const struct snp_err *err)
{
    bool any = session->live.n_waiting > 0;

    snp_waiters_run(session, err);
    snp_exec_fail_cells(session, err);
    return any;
}

void snp_session_when_live(struct snp_session *session, struct snp_waiter *waiter)
{
    struct snp_waiter **at = &session->live.waiters;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    waiter->next = NULL;
    *at = waiter;
    snp_session_go_on(session);
}

struct live_wait {
    struct snp_waiter waiter;
    struct snp_await wait;
};

static void live(struct snp_waiter *waiter, struct snp_session *session, const struct snp_err *err)
{
    (void)session;
    snp_await_ended(&snp_container_of(waiter, struct live_wait, waiter)->wait, err);
}

int snp_session_await_live(struct snp_session *session, struct snp_err *err)
{
    struct live_wait awaited = {.waiter = {.run = live}};

    snp_session_when_live(session, &awaited.waiter);
    return snp_await(&awaited.wait, NULL, err);
}
