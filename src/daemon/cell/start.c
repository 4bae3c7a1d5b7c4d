/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec -> find or open its session -> wait for its turn -> run (cell.c).
 *
 * Only an IDLE session starts a cell; a session that is asleep is woken first.
 */
#include "daemon/cell/start.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/wire/result.h"
#include "base/wire/session.h"
#include "daemon/cell/call.h"
#include "daemon/cell/cell.h"
#include "daemon/cell/end.h"
#include "daemon/cell/open.h"
#include "daemon/request.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"

static void on_turn(struct snp_turn *turn, struct snp_session *session, const struct snp_err *err)
{
    struct snp_exec *exec = snp_container_of(turn, struct snp_exec, turn);
    struct snp_err failed;

    (void)session;
    if (err == NULL && snp_cell_run(exec, &failed) < 0) {
        err = &failed;
    }
    if (err != NULL) {
        snp_exec_fail(exec, err);
    }
}

/* Add a cell to the end of its session's queue. */
static int exec_enqueue(struct snp_exec *exec, const char *raw, struct snp_err *err)
{
    struct snp_peer *peer = exec->request->peer;
    struct snp_session *session = exec->session;

    if (snp_exec_waiting(session) >= SNP_CAP_WAITING) {
        return snp_fail(
            err, SNP_E_LIMIT,
            "%d cells already wait for session %s (the limit); try again when some have ended",
            SNP_CAP_WAITING, session->name[0] == '\0' ? session->id : session->name);
    }
    if (exec->raw_len > SNP_CAP_WAITING_BYTES - peer->waiting_bytes) {
        return snp_fail(err, SNP_E_LIMIT,
                        "this client has more than %d MiB of code and input waiting; try again "
                        "when some cells have ended",
                        SNP_CAP_WAITING_BYTES >> 20);
    }
    exec->raw = malloc(exec->raw_len + 1);
    SNP_TRY_MEMORY(exec->raw, err);
    session->client = peer->pid;
    if (exec->raw_len > 0) {
        memcpy(exec->raw, raw, exec->raw_len);
    }
    peer->waiting_bytes += exec->raw_len;
    exec->waiting_bytes = exec->raw_len;
    exec->turn = (struct snp_turn){.kind = SNP_TURN_CELL, .run = on_turn};
    snp_turn_enter(session, &exec->turn, false);
    return 0;
}

/* The work of a session that cells wait for; NULL: the session is starting for this cell. */
static const char *busy_with(const struct snp_session *session)
{
    if (session->live.running != NULL) {
        return "run";
    }
    return session->state == SNP_SESSION_SAVING || session->unsaved.n_departing > 0 ? "save"
           : session->state == SNP_SESSION_ROLLING_BACK                             ? "rollback"
                                                                                    : NULL;
}

static void tell_wait(struct snp_exec *exec, unsigned ahead)
{
    const struct snp_session *session = exec->session;
    const struct snp_exec *running = session->live.running;
    uint64_t now = snp_wall_us();
    uint64_t us = running != NULL && now > running->started_us ? now - running->started_us
                                                               : snp_now_us() - exec->asked_us;
    snp_autojson json_t *head =
        SNP_WRITE(snp_event_waiting, .why = busy_with(session),
                  .cell = running == NULL ? 0 : running->cell, .ms = us / 1000, .ahead = ahead);
    snp_autofree char *text = head == NULL ? NULL : snp_json_text(head);

    exec->asked_us = 0;
    if (text != NULL && exec->request != NULL) {
        snp_request_event(exec->request, text, strlen(text), NULL, 0);
    }
}

static void waits_tell(uv_timer_t *timer)
{
    struct snp_server *server = timer->data;
    uint64_t now = snp_now_us();
    bool is_more = false;

    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        struct snp_session *session = server->sessions.slots[i];
        struct snp_exec *exec = session == NULL ? NULL : snp_exec_first(session);

        for (unsigned ahead = 0; exec != NULL; ahead++, exec = snp_exec_after(exec)) {
            if (exec->asked_us != 0 && busy_with(session) != NULL &&
                now - exec->asked_us >= (uint64_t)SNP_CAP_WAIT_TOLD_MS * 900) {
                tell_wait(exec, ahead);
            }
            is_more |= exec->asked_us != 0;
        }
    }
    if (is_more) {
        (void)uv_timer_start(timer, waits_tell, SNP_CAP_WAIT_TOLD_MS / 2, 0);
    }
}

/* Report the wait. A cell that need not wait is first in the queue by now. */
static void wait_note(struct snp_exec *exec)
{
    uv_timer_t *waits = &exec->session->server->waits;

    exec->asked_us = exec->spec.asked.tell_wait ? snp_now_us() : 0;
    if (exec->asked_us != 0 && !exec->session->server->is_ending &&
        !uv_is_active((uv_handle_t *)waits)) {
        (void)uv_timer_start(waits, waits_tell, SNP_CAP_WAIT_TOLD_MS, 0);
    }
}

void snp_exec_start(struct snp_request *request, json_t *head, const char *raw, size_t raw_len)
{
    struct snp_exec *exec = snp_request_state(request, sizeof(*exec));
    struct snp_session *session = NULL;
    struct snp_err err;
    int r;

    if (exec == NULL) {
        return;
    }
    exec->request = request;
    exec->head =
        json_object_get(head, "session") == NULL || json_is_null(json_object_get(head, "session"))
            ? json_incref(head)
            : NULL;
    exec->raw_len = raw_len;
    r = snp_exec_spec_read(head, raw_len, &exec->spec, &err);
    if (r == 0 && exec->head != NULL && snp_streq(exec->spec.asked.kind, "process")) {
        r = snp_fail(&err, SNP_E_INVALID,
                     "exec: a process needs a session; without one it would end with the cell");
    }
    SNP_THEN(r, snp_session_for(request, &exec->spec, &session, &exec->wall_ms, &err));
    if (r < 0) {
        snp_exec_fail(exec, &err);
        return;
    }
    SNP_ASSERT(session != NULL);
    snp_session_ref(session);
    exec->session = session;
    memcpy(request->session, session->id, sizeof(request->session));
    if (exec_enqueue(exec, raw, &err) < 0) {
        if (session->name[0] == '\0' && session->state == SNP_SESSION_OPENING) {
            snp_session_end(session);
        }
        snp_exec_fail(exec, &err);
        return;
    }
    request->exec = exec;
    wait_note(exec);
    snp_session_go_on(session);
}

/* Interrupts and clients that go ------------------------------------------------------ */

/* Remove a waiting cell; its unnamed session has no further use. */
static void waiting_drop(struct snp_exec *exec, const struct snp_err *err)
{
    struct snp_session *session = exec->session;

    snp_session_ref(session);
    snp_exec_fail(exec, err);
    if (session->name[0] == '\0' && session->state != SNP_SESSION_CLOSING &&
        !snp_session_is_asleep(session)) {
        snp_session_end(session);
    }
    snp_session_unref(session);
}

void snp_exec_interrupt(struct snp_exec *exec, struct snp_request *request)
{
    struct snp_err err;

    if (exec->session->live.running == exec && exec->executor->tier != NULL) {
        snp_exec_interrupt_running(exec->session, request);
        return;
    }
    if (exec->session->live.running == exec) {
        snp_request_answer(request, SNP_WRITE(snp_interrupt_answer, .interrupted = false));
        return;
    }
    (void)snp_fail(&err, SNP_E_TIMEOUT, "interrupted before it started");
    if (snp_turn_leave(exec->session, &exec->turn)) {
        waiting_drop(exec, &err);
    }
    snp_request_answer(request, SNP_WRITE(snp_interrupt_answer, .interrupted = true));
}

void snp_exec_abandon(struct snp_exec *exec)
{
    struct snp_session *session = exec->session;
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_PEER, "the client disconnected");
    if (snp_turn_leave(session, &exec->turn)) {
        waiting_drop(exec, &err);
    } else if (session->live.running == exec && session->name[0] == '\0' &&
               session->state == SNP_SESSION_RUNNING) {
        snp_session_end(session);
    } else if (session->live.running == exec && exec->spec.asked.attached &&
               exec->executor->tier != NULL) {
        snp_exec_interrupt_running(session, NULL); /* on failure its limits end it */
    } else if (session->live.running == exec) {
        snp_exec_call_refuse(exec);
    }
}
