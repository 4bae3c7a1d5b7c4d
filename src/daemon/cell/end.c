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
#include "daemon/cell/wake.h"
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
#include "wire/session.h"

/* A pending end or clearing. */
struct ending {
    struct snp_session *session; /* one reference */
    struct snp_request *request; /* owned, or NULL */
    bool is_reset;               /* asked for as the end of `default` */
    bool is_idle_only;           /* of a clearing: must not cut off cells */
    bool keep_steps;             /* of an end */
    struct snp_turn turn;
    unsigned pending;   /* of an end: steps that have not ended yet */
    json_t *ended;      /* owned: the cell that was cut off; or NULL */
    struct snp_err err; /* the first error, if any */
};

static bool is_default(const struct snp_session *session)
{
    return strcmp(session->name, "default") == 0;
}

/* ended: borrowed, or NULL. */
static void end_answer(struct snp_request *request, json_t *ended, const struct snp_err *err)
{
    if (request != NULL && err != NULL) {
        snp_request_fail(request, err);
    } else if (request != NULL) {
        snp_request_answer(
            request, SNP_WRITE(snp_sessions_destroy_answer, .destroyed = true, .ended = ended));
    }
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

static struct ending *ending_new(struct snp_session *session, struct snp_request *request)
{
    struct ending *ending = calloc(1, sizeof(*ending));
    struct snp_err err;

    if (ending == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        end_answer(request, NULL, &err);
        return NULL;
    }
    snp_session_ref(session);
    ending->session = session;
    ending->request = request;
    return ending;
}

static void ending_free(struct ending *ending)
{
    snp_session_unref(ending->session);
    json_decref(ending->ended);
    free(ending);
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

/* Destroying ---------------------------------------------------------------------------------- */

static void part_ended(struct ending *ending)
{
    if (--ending->pending > 0) {
        return;
    }
    /* The output of an unnamed session, which ends with its call, is read after that. */
    if (ending->session->name[0] != '\0') {
        snp_tier_forget(ending->session->server, ending->session->id);
    }
    snp_session_remove(ending->session);
    snp_room_serve(ending->session->server);
    end_answer(ending->request, ending->ended, ending->err.code == SNP_OK ? NULL : &ending->err);
    ending_free(ending);
}

static void forgotten(void *ctx, const struct snp_err *err)
{
    struct ending *ending = ctx;

    if (err != NULL) {
        ending->err = *err;
        (void)snp_err_wrap(&ending->err,
                           "the session ended, but could not be removed from the journal");
    }
    part_ended(ending);
}

static void executor_closed(void *ctx, const struct snp_err *err)
{
    struct ending *ending = ctx;

    if (err != NULL && ending->err.code == SNP_OK) {
        ending->err = *err;
    }
    part_ended(ending);
}

/* The session is in the journal, or its row is about to be written. */
static bool is_in_journal(const struct snp_session *session)
{
    return session->name[0] != '\0' &&
           (session->durable.is_recorded || session->cells > 0 || session->unsaved.n_putting > 0);
}

/* Clearing ------------------------------------------------------------------------------------ */

static void cleared(void *ctx, const struct snp_err *err)
{
    struct ending *ending = ctx;
    struct snp_session *session = ending->session;

    if (err == NULL) {
        session->cells = 0;
        snp_durable_clear(session);
        json_decref(SNP_TAKE_PTR(session->live.restored));
    }
    snp_session_event(session, SNP_EV_RESTED);
    if (ending->request != NULL && err != NULL) {
        snp_request_fail(ending->request, err);
    } else if (ending->request != NULL) {
        snp_request_answer(ending->request,
                           ending->is_reset
                               ? SNP_WRITE(snp_sessions_destroy_answer, .destroyed = true,
                                           .reset = true, .ended = ending->ended)
                               : SNP_WRITE(snp_sessions_clear_answer, .cleared = true,
                                           .epoch = session->epoch, .ended = ending->ended));
    }
    snp_session_go_on(session);
    ending_free(ending);
}

static void clear_closed(void *ctx, const struct snp_err *err)
{
    struct ending *ending = ctx;
    struct snp_session *session = ending->session;
    struct snp_err failure;

    /* No new executor may run until the old one is known to be gone. */
    if (err != NULL) {
        cleared(ending, err);
        return;
    }
    snp_tier_forget(session->server, session->id); /* cells are numbered from 1 again */
    session->epoch++;
    if (!session->durable.is_recorded) {
        cleared(ending, NULL);
    } else if (snp_entry_clear(session, cleared, ending, &failure) < 0) {
        cleared(ending, &failure);
    }
}

/* A save, close, move or rollback ends first. A running cell is not awaited. */
static bool is_time_to_clear(const struct snp_session *session)
{
    return snp_life_next(session->state, SNP_EV_CLEAR) != SNP_LIFE_NEVER &&
           session->unsaved.save == NULL && session->unsaved.n_departing == 0;
}

static void on_turn(struct snp_turn *turn, struct snp_session *session, const struct snp_err *err)
{
    struct ending *ending = snp_container_of(turn, struct ending, turn);
    struct snp_err busy;

    if (err == NULL && ending->is_idle_only && snp_session_unused_check(session, &busy) < 0) {
        err = &busy;
    }
    if (err != NULL) {
        end_answer(ending->request, NULL, err);
        ending_free(ending);
        return;
    }
    ending->ended = running_json(session);
    snp_session_event(session, SNP_EV_CLEAR);
    let_go(session, "the session was cleared");
    if (session->live.executor == NULL) {
        clear_closed(ending, NULL);
    } else {
        snp_executor_close(session->live.executor, clear_closed, ending);
    }
}

static void clear(struct snp_session *session,
                  struct snp_request *request,
                  bool is_idle_only,
                  bool is_reset)
{
    struct ending *ending;
    struct snp_err err;

    if (session->name[0] == '\0') {
        (void)snp_fail(&err, SNP_E_INVALID, "an unnamed session ends with its call");
        end_answer(request, NULL, &err);
        return;
    }
    if (is_idle_only && snp_session_unused_check(session, &err) < 0) {
        end_answer(request, NULL, &err);
        return;
    }
    ending = ending_new(session, request);
    if (ending != NULL) {
        ending->is_reset = is_reset;
        ending->is_idle_only = is_idle_only;
        ending->turn = (struct snp_turn){.kind = SNP_TURN_SOON,
                                         .run = on_turn,
                                         .is_time = is_time_to_clear,
                                         .survives_clear = true};
        snp_turn_ask(session, &ending->turn);
    }
}

static void destroy_now(struct ending *ending)
{
    struct snp_session *session = ending->session;
    struct snp_err failure;

    ending->ended = running_json(session);
    snp_session_event(session, SNP_EV_DESTROY);
    let_go(session, "the session was destroyed");
    snp_entry_forgive(session);
    ending->pending = 2;
    if (!is_in_journal(session)) {
        part_ended(ending);
    } else if (snp_entry_remove(session, ending->keep_steps, forgotten, ending, &failure) < 0) {
        forgotten(ending, &failure);
    }
    if (session->live.executor == NULL) {
        executor_closed(ending, NULL);
    } else {
        snp_executor_close(session->live.executor, executor_closed, ending);
    }
}

static void destroy_turn(struct snp_turn *turn,
                         struct snp_session *session,
                         const struct snp_err *err)
{
    struct ending *ending = snp_container_of(turn, struct ending, turn);

    (void)session;
    if (err != NULL) {
        end_answer(ending->request, NULL, err);
        ending_free(ending);
    } else {
        destroy_now(ending);
    }
}

/* Requests to save, hibernate or move it are answered first. A running cell is not awaited. */
static bool is_time_to_destroy(const struct snp_session *session)
{
    return session->unsaved.n_departing == 0 && !snp_checkpoint_is_awaited(session);
}

static void destroy(struct snp_session *session, struct snp_request *request, bool keep_steps)
{
    struct ending *ending;

    if (session->state == SNP_SESSION_CLOSING) {
        SNP_ASSERT(request == NULL); /* requests no longer find it */
        return;
    }
    if (is_default(session)) {
        clear(session, request, false, true);
        return;
    }
    ending = ending_new(session, request);
    if (ending == NULL) {
        return;
    }
    ending->keep_steps = keep_steps;
    if (request == NULL || is_time_to_destroy(session)) {
        destroy_now(ending);
        return;
    }
    ending->turn = (struct snp_turn){.kind = SNP_TURN_FIRST,
                                     .run = destroy_turn,
                                     .is_time = is_time_to_destroy,
                                     .survives_clear = true};
    snp_turn_ask(session, &ending->turn);
}

void snp_session_end(struct snp_session *session, struct snp_request *request)
{
    destroy(session, request, false);
}

/* Steps in memory would end with it, so they are written first. */
static int retire(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(snp_session_unrefp) struct snp_session *session = work->session;

    snp_session_ref(session);
    while (session->state != SNP_SESSION_CLOSING && snp_memory_await_any(session)) {
    }
    if (session->state == SNP_SESSION_CLOSING) {
        return snp_fail(err, SNP_E_NOT_FOUND, "the session was destroyed");
    }
    destroy(session, request, true);
    return 0;
}

void snp_session_retire(const struct snp_work *work)
{
    snp_work_start(work, retire);
}

void snp_session_clear(struct snp_session *session, struct snp_request *request, bool is_idle_only)
{
    clear(session, request, is_idle_only, false);
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
