/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How sessions end.
 *
 * A destroyed session can no longer be found, so that its name is free: the journal forgets it
 * before the next session of that name writes anything. The request is answered once the executor
 * is gone, too.
 */
#include "daemon/cell/end.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/wire/session.h"
#include "daemon/cell/wake.h"
#include "daemon/co.h"
#include "daemon/request.h"
#include "daemon/save/at_rest.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/durable.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/memory.h"
#include "daemon/save/room.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"
#include "daemon/session/turn.h"
#include "daemon/tier.h"
#include "daemon/work.h"
#include "store/job.h"

static bool is_default(const struct snp_session *session)
{
    return strcmp(session->name, "default") == 0;
}

/* The running cell and the number of waiting cells. NULL: no cell runs. */
static json_t *running_json(const struct snp_session *session)
{
    const struct snp_exec *exec = session->live.running;
    uint64_t now = snp_wall_us();

    return exec == NULL
               ? NULL
               : SNP_WRITE(snp_ended_row, .cell = exec->cell,
                           .ran_ms = now > exec->started_us ? (now - exec->started_us) / 1000 : 0,
                           .waiting = snp_exec_waiting(session));
}

int snp_session_unused_check(const struct snp_session *session, struct snp_err *err)
{
    snp_autojson json_t *running = running_json(session);
    const char *name = session->name[0] == '\0' ? session->id : session->name;

    if (running != NULL && snp_exec_waiting(session) == 0) {
        return snp_fail_with(
            err, SNP_E_DENIED, SNP_REMEDY_FORCE, NULL, 0,
            "session %s has been running cell %lld for %.1f s; this would cut it off", name,
            (long long)snp_json_int(running, "cell", 0),
            (double)snp_json_int(running, "ran_ms", 0) / 1000);
    }
    if (running != NULL) {
        return snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_FORCE, NULL, 0,
                             "session %s has been running cell %lld for %.1f s and %u more "
                             "cells wait; this would cut them off",
                             name, (long long)snp_json_int(running, "cell", 0),
                             (double)snp_json_int(running, "ran_ms", 0) / 1000,
                             snp_exec_waiting(session));
    }
    return snp_exec_waiting(session) == 0
               ? 0
               : snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_FORCE, NULL, 0,
                               "session %s is about to run %u cells; this would cut them off", name,
                               snp_exec_waiting(session));
}

/* Fail the waiting cells and detach the running one. why: of static duration. */
static void let_go(struct snp_session *session, const char *why)
{
    struct snp_err err;

    snp_wake_abort(session);
    if (session->live.running != NULL) {
        session->live.running->taken = why;
    }
    session->live.running = NULL; /* the cell ends separately, and finds itself detached */
    snp_checkpoint_unplan(session);
    (void)snp_fail(&err, SNP_E_NOT_FOUND, "%s", why);
    snp_turns_fail(session,
                   SNP_TURNS_CLEARED | SNP_TURNS_AWAKE |
                       (session->state == SNP_SESSION_CLOSING ? SNP_TURNS_SURVIVING : 0),
                   &err);
}

/* Clearing ------------------------------------------------------------------------------------ */

/* A save, close, move or rollback ends first. A running cell is not awaited. */
static bool is_time_to_clear(const struct snp_session *session)
{
    return snp_life_next(session->state, SNP_EV_CLEAR) != SNP_LIFE_NEVER &&
           session->unsaved.save == NULL && session->unsaved.n_departing == 0;
}

/* No new executor may run until the old one is known to be gone. */
static int contents_clear(struct snp_session *session, struct snp_err *err)
{
    struct snp_await closed = {0};

    if (session->live.executor != NULL) {
        snp_executor_close(session->live.executor, snp_await_ended, &closed);
        SNP_TRY(snp_await(&closed, NULL, err));
    }
    snp_tier_forget(session->server, session->id); /* cells are numbered from 1 again */
    session->epoch++;
    SNP_TRY(session->durable.is_recorded ? snp_entry_clear(session, err) : 0);
    session->cells = 0;
    snp_durable_clear(session);
    json_decref(SNP_TAKE_PTR(session->live.restored));
    return 0;
}

/* In a coroutine, whose caller has a reference. is_reset: asked for as the end of `default`. */
static int clear(struct snp_session *session,
                 struct snp_request *request,
                 bool is_idle_only,
                 bool is_reset,
                 struct snp_err *err)
{
    const struct snp_turn turn = {
        .kind = SNP_TURN_SOON, .is_time = is_time_to_clear, .survives_clear = true};
    snp_autojson json_t *ended = NULL;
    int r;

    if (session->name[0] == '\0') {
        return snp_fail(err, SNP_E_INVALID, "an unnamed session ends with its call");
    }
    SNP_TRY(is_idle_only ? snp_session_unused_check(session, err) : 0);
    SNP_TRY(snp_turn_await(session, &turn, err));
    SNP_TRY(is_idle_only ? snp_session_unused_check(session, err) : 0);
    ended = running_json(session);
    snp_session_event(session, SNP_EV_CLEAR);
    let_go(session, "the session was cleared");
    r = contents_clear(session, err);
    snp_session_event(session, SNP_EV_RESTED);
    if (r == 0) {
        snp_request_answer(request, is_reset
                                        ? SNP_WRITE(snp_sessions_destroy_answer, .destroyed = true,
                                                    .reset = true, .ended = ended)
                                        : SNP_WRITE(snp_sessions_clear_answer, .cleared = true,
                                                    .epoch = session->epoch, .ended = ended));
    }
    snp_session_go_on(session);
    return r;
}

static int clear_asked(const struct snp_work *work, struct snp_err *err)
{
    snp_cleanup(snp_session_unrefp) struct snp_session *session = work->session;

    snp_session_ref(session);
    return clear(session, work->request, snp_json_bool(work->head, "idle_only", false), false, err);
}

void snp_run_clear(const struct snp_work *work)
{
    snp_work_start(work, clear_asked);
}

/* Destroying ---------------------------------------------------------------------------------- */

/* The session is in the journal, or its row is about to be written. */
static bool is_in_journal(const struct snp_session *session)
{
    return session->name[0] != '\0' &&
           (session->durable.is_recorded || session->cells > 0 || session->unsaved.n_putting > 0);
}

/* The same. *ret_ended: the cell that was cut off, owned by the caller; NULL = none. */
static int destroy(struct snp_session *session,
                   bool keep_steps,
                   json_t **ret_ended,
                   struct snp_err *err)
{
    struct snp_await forgotten = {0};
    struct snp_await closed = {0};
    struct snp_err why;
    int r = 0;

    *ret_ended = running_json(session);
    snp_session_event(session, SNP_EV_DESTROY);
    let_go(session, "the session was destroyed");
    snp_entry_forgive(session);
    if (!is_in_journal(session)) {
        snp_await_ended(&forgotten, NULL);
    } else if (snp_entry_remove(session, keep_steps, snp_await_ended, &forgotten, &why) < 0) {
        snp_await_ended(&forgotten, &why);
    }
    if (session->live.executor != NULL) {
        snp_executor_close(session->live.executor, snp_await_ended, &closed);
    } else {
        snp_await_ended(&closed, NULL);
    }
    r = snp_await(&forgotten, NULL, err);
    if (r < 0) {
        (void)snp_err_wrap(err, "the session ended, but could not be removed from the journal");
    }
    if (snp_await(&closed, NULL, &why) < 0 && r == 0) {
        *err = why;
        r = err->code;
    }
    /* The output of an unnamed session, which ends with its call, is read after that. */
    if (session->name[0] != '\0') {
        snp_tier_forget(session->server, session->id);
    }
    snp_session_remove(session);
    snp_room_serve(session->server);
    return r;
}

/* Requests to save, hibernate or move it are answered first. A running cell is not awaited. */
static bool is_time_to_destroy(const struct snp_session *session)
{
    return session->unsaved.n_departing == 0 && !snp_checkpoint_is_awaited(session);
}

static int destroy_asked(const struct snp_work *work, struct snp_err *err)
{
    const struct snp_turn turn = {
        .kind = SNP_TURN_FIRST, .is_time = is_time_to_destroy, .survives_clear = true};
    struct snp_request *request = work->request;
    snp_cleanup(snp_session_unrefp) struct snp_session *session = work->session;
    const bool keep_steps = snp_json_bool(work->head, "keep_steps", false);
    snp_autojson json_t *ended = NULL;

    snp_session_ref(session);
    /* Steps in memory would end with it, so they are written first. */
    while (keep_steps && session->state != SNP_SESSION_CLOSING && snp_memory_await_any(session)) {
    }
    if (session->state == SNP_SESSION_CLOSING) {
        return snp_fail(err, SNP_E_NOT_FOUND, "the session was destroyed");
    }
    if (is_default(session)) {
        return clear(session, request, false, true, err);
    }
    SNP_TRY(is_time_to_destroy(session) ? 0 : snp_turn_await(session, &turn, err));
    SNP_TRY(destroy(session, keep_steps, &ended, err));
    snp_request_answer(request,
                       SNP_WRITE(snp_sessions_destroy_answer, .destroyed = true, .ended = ended));
    return 0;
}

void snp_run_destroy(const struct snp_work *work)
{
    snp_work_start(work, destroy_asked);
}

static void end_run(void *arg)
{
    snp_cleanup(snp_session_unrefp) struct snp_session *session = arg;
    snp_autojson json_t *ended = NULL;
    struct snp_err ignored; /* logged */

    snp_session_ref(session);
    (void)!destroy(session, false, &ended, &ignored);
}

void snp_session_end(struct snp_session *session)
{
    struct snp_err err;

    if (session->state != SNP_SESSION_CLOSING && snp_co_start(end_run, session, &err) < 0) {
        snp_log(SNP_LOG_ERROR, "session-end", "session=%s error=\"%s\"", session->id, err.msg);
    }
}

/* Losing -------------------------------------------------------------------------------------- */

void snp_session_lost(struct snp_session *session, const char *reason)
{
    struct snp_err err;

    unsigned next = snp_life_next(session->state, SNP_EV_LOST);

    if (session->state == SNP_SESSION_CLOSING || session->state == SNP_SESSION_HIBERNATING) {
        return; /* it was ending already */
    }
    snp_log(session->server->is_ending ? SNP_LOG_INFO : SNP_LOG_WARN, "session-lost",
            "session=%s why=\"%s\"", session->id, reason);
    (void)snprintf(session->live.loss, sizeof(session->live.loss), "%.190s", reason);
    snp_session_event(session, SNP_EV_LOST);
    if (next == SNP_LIFE_STAYS) {
        return; /* waking or rollback detects it */
    }
    (void)snp_fail(&err, SNP_E_PEER, "the sandbox ended: %s", session->live.loss);
    if (session->name[0] == '\0') {
        snp_turns_fail(session, SNP_TURNS_AWAKE, &err);
        snp_session_remove(session);
        return;
    }
    snp_checkpoint_unplan(session);
    if (session->live.running != NULL && session->live.running->record == NULL) {
        snp_durable_last_unknown(session, true);
    }
    snp_session_rest(session);
    /*
     * Waiting cells continue from the checkpoint, or need a decision, once the running cell has
     * ended.
     */
    if (session->live.running == NULL) {
        snp_session_go_on(session);
    }
}
