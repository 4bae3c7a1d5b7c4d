/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a cell.
 *
 * intent (journal) -> the tier -> events -> result -> outcome (journal) -> the answer. In a named
 * session the answer is sent once the outcome has the requested durability; an unnamed session has
 * no journal, and its answer is sent at once.
 *
 * Invariants: session->live.running is the cell until its outcome is handled, so that no other cell
 * starts before. Messages from an executor of another epoch are refused.
 */
#include "daemon/cell/cell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire/frame.h"
#include "base/wire/result.h"
#include "base/wire/rpc.h"
#include "daemon/cell/call.h"
#include "daemon/cell/reply.h"
#include "daemon/request.h"
#include "daemon/save/at_rest.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/close.h"
#include "daemon/save/durable.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/room.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/result.h"
#include "daemon/session/table.h"
#include "daemon/tier.h"
#include "wire/tier.h"

/* The end ------------------------------------------------------------------------------------ */

static bool is_lasting(const struct snp_exec *exec)
{
    return exec->session->name[0] != '\0';
}

/* Send the answer. */
static void tell(struct snp_exec *exec, json_t *checkpoint)
{
    struct snp_request *request = snp_exec_take_request(exec);

    if (exec->ended != NULL) {
        exec->ended(exec->ctx, exec->record, exec->record == NULL ? &exec->err : NULL);
    } else if (exec->record == NULL) {
        snp_request_fail(request, &exec->err);
    } else {
        snp_request_answer(request, snp_reply_whole(exec->session, exec->record, checkpoint,
                                                    exec->spec.not_applied));
    }
}

/* The cell may have changed the session, if that still has an executor. */
static void changed(const struct snp_exec *exec)
{
    struct snp_session *session = exec->session;

    if (!is_lasting(exec) || exec->falls_back || session->live.executor == NULL) {
        return;
    }
    snp_checkpoint_schedule(session);
    if (session->unsaved.when == SNP_CHECKPOINT_AFTER) {
        snp_checkpoint_tick(session->server); /* before the next cell */
    }
}

/* The session is free again, unless it was taken from the cell before. */
static void finish(struct snp_exec *exec)
{
    struct snp_session *session = exec->session;

    if (session->live.running != exec) {
        snp_exec_free(exec);
        return;
    }
    session->live.running = NULL;
    snp_session_event(session, SNP_EV_CELL_ENDED);
    if (snp_session_is_asleep(session)) {
        /* The executor is gone. If the cell has a result, its end is still known. */
        if (exec->record != NULL) {
            snp_durable_last_unknown(session, false);
        }
        snp_session_rest(session); /* finds the missing cells */
    }
    if (session->state == SNP_SESSION_IDLE && exec->falls_back) {
        snp_leave_drop(session);
    } else {
        changed(exec);
        snp_session_go_on(session); /* runs the next cell, or wakes the session */
    }
    snp_room_serve(session->server);
    snp_exec_free(exec);
}

static void checkpointed(void *ctx, json_t *report, const struct snp_err *err)
{
    struct snp_exec *exec = ctx;
    snp_autojson json_t *told = SNP_WRITE(snp_result_saved, .made = (json_t *)(uintptr_t)report,
                                          .error = err == NULL ? NULL : err->msg);

    tell(exec, told);
    finish(exec);
}

static void outcome_written(void *ctx, const struct snp_err *err)
{
    struct snp_exec *exec = ctx;

    if (err != NULL && exec->record == NULL) { /* a result stands */
        (void)snp_err_wrap(&exec->err, "cell %llu is not in the journal (%.200s)",
                           (unsigned long long)exec->cell, err->msg);
    } else if (err != NULL) {
        json_decref(SNP_TAKE_PTR(exec->record));
        (void)snp_fail(
            &exec->err, err->code == SNP_E_NOMEM ? SNP_E_NOMEM : SNP_E_LIMIT,
            "cell %llu ran, but the journal could not record its outcome (%.240s) and shows it "
            "as unknown; the next cell runs once the journal works again",
            (unsigned long long)exec->cell, err->msg);
    } else if (exec->record != NULL && exec->session->state == SNP_SESSION_RUNNING &&
               exec->session->unsaved.when == SNP_CHECKPOINT_CELL && !exec->falls_back) {
        snp_checkpoint_make(exec->session, checkpointed, exec);
        return;
    }
    tell(exec, NULL);
    finish(exec);
}

/*
 * Check that the answer is for this cell, from the session's latest executor. Answers of a replaced
 * executor are refused.
 */
static int answer_check(const struct snp_exec *exec,
                        const struct snp_tier_answer *answer,
                        struct snp_err *ret_bad)
{
    const struct snp_executor *executor = exec->executor;

    SNP_TRY(snp_result_check(answer->head, answer->raw_len, ret_bad));
    if (strcmp(snp_json_str(answer->head, "session", ""), executor->id) != 0 ||
        (uint64_t)snp_json_int(answer->head, "cell", 0) != exec->cell) {
        return snp_fail(ret_bad, SNP_E_INVALID, "result: for another cell");
    }
    if ((uint64_t)snp_json_int(answer->head, "epoch", (int64_t)executor->epoch) !=
        executor->epoch) {
        return snp_fail(ret_bad, SNP_E_INVALID, "result: for another epoch");
    }
    return 0;
}

/*
 * If the interpreter was lost and has no copy in memory, it is restored from the checkpoint on
 * disk, if there is one. The same applies to an interpreter that ended between cells; the next
 * cell's result shows it, because that cell ran without state it may have relied on.
 */
static const char *state_after(struct snp_exec *exec, const json_t *head)
{
    struct snp_session *session = exec->session;
    bool was_told = session->live.is_told_lost;
    bool is_lost = strcmp(snp_json_str(head, "state", ""), "lost") == 0;

    if (!is_lasting(exec) || session->live.executor == NULL) {
        return NULL;
    }
    if (!is_lost && (was_told || !snp_json_bool(head, "restarted", false))) {
        session->live.is_told_lost = false;
        return NULL;
    }
    session->live.is_told_lost = is_lost;
    return session->durable.checkpoint == 0 ? "lost" : "restored_from_checkpoint";
}

static int result_take(struct snp_exec *exec,
                       const struct snp_tier_answer *answer,
                       struct snp_err *ret_bad)
{
    const char *state;
    int r = answer_check(exec, answer, ret_bad);

    if (r < 0) {
        (void)snp_fail(&exec->err, SNP_E_PEER, "the tier sent an invalid answer: %s", ret_bad->msg);
        return r;
    }
    if (exec->taken != NULL || exec->session->epoch != exec->executor->epoch) {
        snp_log(SNP_LOG_WARN, "late-result", "session=%s executor=%s epoch=%llu cell=%llu",
                exec->session->id, exec->executor->id, (unsigned long long)exec->executor->epoch,
                (unsigned long long)exec->cell);
        (void)snp_fail(&exec->err, SNP_E_PEER, "cell killed: %s",
                       exec->taken != NULL ? exec->taken : "the session was rolled back");
        return 0;
    }
    state = state_after(exec, answer->head);
    exec->record = snp_reply_record(exec, answer, state);
    if (exec->record == NULL) {
        (void)snp_fail(&exec->err, SNP_E_NOMEM, "out of memory");
        return 0;
    }
    json_decref(SNP_TAKE_PTR(exec->session->live.restored));
    exec->falls_back = state != NULL && exec->session->durable.checkpoint != 0;
    return 0;
}

/* The journal's outcome for a cell without a result. */
static struct snp_outcome outcome_of_error(const struct snp_exec *exec)
{
    bool is_refused = exec->err.code != SNP_E_PEER && exec->err.code != SNP_E_TIMEOUT;

    return (struct snp_outcome){.status = is_refused ? "refused" : "unknown",
                                .state = is_refused ? "kept" : "lost"};
}

/* The cell did not start: free its number. */
static void start_undo(struct snp_exec *exec)
{
    struct snp_session *session = exec->session;

    snp_executor_unref(SNP_TAKE_PTR(exec->executor));
    if (session->live.running == exec) { /* else the session was cleared or destroyed */
        session->live.running = NULL;
        session->cells--;
        snp_session_event(session, SNP_EV_CELL_ENDED);
    }
}

static bool may_begin_again(const struct snp_exec *exec)
{
    const struct snp_session *session = exec->session;

    return is_lasting(exec) && exec->taken == NULL && exec->err.code == SNP_E_NOT_FOUND &&
           !exec->was_put_back && exec->raw != NULL && exec->request != NULL &&
           session->live.running == exec && session->live.wake == NULL &&
           session->state != SNP_SESSION_CLOSING;
}

/*
 * The executor had ended before the cell arrived; the tier reports this only if the cell cannot
 * have run. Run the cell again in an executor woken from the checkpoint, if no cells are missing or
 * the user has said how to recover them.
 */
static bool begin_again(struct snp_exec *exec, bool has_row)
{
    struct snp_session *session = exec->session;

    if (!may_begin_again(exec)) {
        return false;
    }
    snp_turn_enter(session, &exec->turn, true);
    (void)snprintf(session->live.loss, sizeof(session->live.loss), "%.190s", exec->err.msg);
    exec->was_put_back = true;
    exec->is_intent_due = false;
    exec->err = (struct snp_err){.code = SNP_OK};
    exec->cell = 0;
    snp_buf_done(&exec->events);
    session->cells += has_row ? 1 : 0; /* the refused cell has used this number */
    start_undo(exec);
    if (session->live.executor != NULL) {
        snp_leave_drop(session);
    } else {
        snp_durable_last_unknown(session, false);
        snp_session_go_on(session);
    }
    return true;
}

/* The tier reports that the cell cannot have run. */
static void not_run(struct snp_exec *exec)
{
    (void)snp_fail(&exec->err, SNP_E_NOT_FOUND,
                   "the cell was not run: the session's interpreter had ended; run the cell "
                   "again to start from the last checkpoint");
}

/* The journal records that the cell did not run, or owes it, if its intent was there already. */
static void refusal_written(void *ctx, const struct snp_err *err)
{
    struct snp_exec *exec = ctx;

    if (begin_again(exec, true)) {
        return;
    }
    snp_exec_detach(exec);
    not_run(exec);
    outcome_written(exec, err);
}

/* True: the cell is handled. */
static bool try_again(struct snp_exec *exec)
{
    if (exec->is_intent_due) {
        return begin_again(exec, false);
    }
    if (!may_begin_again(exec)) {
        return false;
    }
    snp_entry_end(exec, &(struct snp_outcome){.status = "refused", .state = "kept"},
                  refusal_written);
    return true;
}

/*
 * The tier died before it read the cell that its unnamed session was opened for: retry in a new
 * session.
 */
static bool begin_anew(struct snp_exec *exec)
{
    struct snp_request *request = exec->request;
    snp_autojson json_t *head = NULL;
    snp_autofree char *raw = NULL;

    if (exec->head == NULL || exec->cell != 1 || exec->raw == NULL || exec->taken != NULL ||
        request == NULL || request->is_again) {
        return false;
    }
    head = SNP_TAKE_PTR(exec->head);
    raw = SNP_TAKE_PTR(exec->raw);
    request = snp_exec_take_request(exec);
    request->is_again = true;
    exec->session->server->hooks->again(request, head, raw, exec->raw_len);
    finish(exec);
    return true;
}

static int exec_done(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct snp_exec *exec = ctx;
    struct snp_session *session = exec->session;
    struct snp_outcome outcome;
    int r = 0;

    if (answer->head == NULL) {
        exec->err = *answer->err;
        if (answer->is_unread && is_lasting(exec)) {
            exec->err.code = SNP_E_NOT_FOUND; /* as a tier answers for an unknown sandbox */
        }
        if (try_again(exec) || (answer->is_unread && !is_lasting(exec) && begin_anew(exec))) {
            return 0;
        }
    }
    snp_exec_detach(exec);
    if (answer->head != NULL) {
        r = result_take(exec, answer, ret_bad);
    } else if (exec->err.code == SNP_E_NOT_FOUND) {
        not_run(exec);
    } else if (session->live.executor != exec->executor) {
        (void)snp_err_wrap(&exec->err, "cell killed, session lost");
    }
    if (exec->taken != NULL) { /* depends on timing whether the tier still had a result */
        json_decref(SNP_TAKE_PTR(exec->record));
        (void)snp_fail(&exec->err, SNP_E_PEER, "cell killed: %s", exec->taken);
    }
    /* The cell of a cleared or destroyed session has no row in the journal. */
    if (!is_lasting(exec) || session->live.running != exec) {
        tell(exec, NULL);
        finish(exec);
        return r;
    }
    if (exec->record == NULL) {
        outcome = outcome_of_error(exec);
    } else {
        const json_t *usage = json_object_get(answer->head, "usage");

        session->live.memory_bytes = (uint64_t)snp_json_int(usage, "memory_peak_bytes", 0);
        session->live.measured_bytes = 0;
        outcome = (struct snp_outcome){
            .status = snp_json_str(answer->head, "status", ""),
            .state = snp_json_str(answer->head, "state", ""),
            .wall_us = (uint64_t)snp_json_int(usage, "wall_us", 0),
            .result = snp_json_text(exec->record),
        };
    }
    snp_entry_end(exec, &outcome, outcome_written);
    return r;
}

/* Events ------------------------------------------------------------------------------------- */

/* Record the frame for the journal as the client gets it. */
static void event_note(struct snp_exec *exec, const struct snp_tier_answer *event)
{
    const struct snp_frame frame = {.type = SNP_RPC_EVENT,
                                    .head = event->text,
                                    .head_len = event->text_len,
                                    .raw = event->raw,
                                    .raw_len = event->raw_len};
    uint64_t now = snp_now_us();

    if (exec->is_cut || snp_frame_write(&exec->events, &frame) < 0) {
        exec->is_cut = true;
        return;
    }
    exec->displays += snp_streq(snp_json_str(event->head, "event", ""), "display") ? 1 : 0;
    /* The output of a longer cell is recorded while it runs, in case the daemon dies. */
    if (now - exec->noted_us > (uint64_t)SNP_CAP_SEEN_MS * 1000) {
        exec->noted_us = now;
        snp_entry_seen(exec);
    }
}

static int exec_event(void *ctx, const struct snp_tier_answer *event, struct snp_err *ret_bad)
{
    struct snp_exec *exec = ctx;

    SNP_TRY(snp_event_check(event->head, event->raw_len, ret_bad));
    if (strcmp(snp_json_str(event->head, "event", ""), "call") == 0) {
        return snp_exec_call(exec, event, ret_bad);
    }
    if (!exec->is_intent_due) {
        snp_exec_drop_raw(exec); /* it has begun, and will not begin again */
    }
    if (is_lasting(exec)) {
        event_note(exec, event);
    }
    if (exec->request != NULL) {
        snp_request_event(exec->request, event->text, event->text_len, event->raw, event->raw_len);
    }
    return 0;
}

/* The start ---------------------------------------------------------------------------------- */

static int exec_send(struct snp_exec *exec, struct snp_err *err)
{
    const struct snp_executor *executor = exec->executor;
    const struct snp_exec_spec *spec = &exec->spec;
    struct snp_tier_call call = {
        .head = SNP_WRITE(
            snp_tier_exec_request, .session = executor->id, .cell = exec->cell,
            .kind = spec->asked.kind, .code_len = spec->asked.code_len, .stdin = spec->asked.stdin,
            .open_stdin = spec->asked.open_stdin, .argv = spec->asked.argv,
            .wall_ms = (int64_t)exec->wall_ms, .stream = spec->asked.stream,
            .require_exact = spec->asked.require_exact, .epoch = executor->epoch,
            .transaction = spec->asked.transaction && is_lasting(exec),
            .atomic = spec->asked.atomic, .calls = spec->asked.calls, .owner = exec->session->id),
        .raw = exec->raw,
        .raw_len = exec->raw_len,
        .timeout_ms = exec->wall_ms + executor->server->options.tier_ms,
        .done = exec_done,
        .event = exec_event,
        .ctx = exec,
    };

    return snp_tier_ask(executor->tier, &call, err);
}

/* The intent of a suspect session's cell is on disk; on failure the cell does not run. */
static void begin_written(void *ctx, const struct snp_err *err)
{
    struct snp_exec *exec = ctx;
    struct snp_session *session = exec->session;
    struct snp_err why = {.code = SNP_OK};

    if (err != NULL) {
        (void)snp_fail(&why, err->code,
                       "the cell was not run: the journal cannot be written (%.300s)", err->msg);
    } else if (exec->executor->state != SNP_EXECUTOR_OPEN) {
        (void)snp_fail(&why, SNP_E_PEER, "the cell was not run: its session has ended");
    } else if (exec_send(exec, &why) == 0) {
        snp_exec_uncount_raw(exec);
        return;
    }
    if (err != NULL || session->live.running != exec) { /* cleared or destroyed: no row */
        snp_session_ref(session);
        start_undo(exec);
        snp_exec_detach(exec);
        snp_exec_fail(exec, &why);
        snp_session_go_on(session);
        snp_session_unref(session);
        return;
    }
    exec->err = why;
    exec->err.code = SNP_E_LIMIT;
    snp_exec_detach(exec);
    snp_entry_end(exec, &(struct snp_outcome){.status = "refused", .state = "kept"},
                  outcome_written);
}

/*
 * A short cell is written once, intent and outcome in one commit: if the daemon dies before, the
 * cell reads as never started, and no client was told otherwise. The intents of longer cells are
 * written while they run.
 */
static void intents_write(uv_timer_t *timer)
{
    struct snp_server *server = timer->data;

    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        const struct snp_session *session = server->sessions.slots[i];
        struct snp_exec *exec = session == NULL ? NULL : session->live.running;
        struct snp_err err;

        if (exec == NULL || !exec->is_intent_due) {
            continue;
        }
        /* Without its intent the outcome will fail, and report it. */
        if (snp_entry_begin(exec, NULL, &err) < 0) {
            snp_log(SNP_LOG_ERROR, "journal", "session=%s cell=%llu error=\"%s\"", session->id,
                    (unsigned long long)exec->cell, err.msg);
        }
        snp_exec_uncount_raw(exec);
    }
}

/* Run a cell of a named session. If the journal is suspect, the intent is written first. */
static int lasting_run(struct snp_exec *exec, struct snp_err *err)
{
    struct snp_session *session = exec->session;
    uv_timer_t *intents = &session->server->intents;

    if (exec->spec.has_checkpoint) {
        session->unsaved.when = exec->spec.checkpoint;
    }
    session->unsaved.is_unsynced = exec->spec.durability != SNP_DURABILITY_SYNCED;
    if (snp_entry_is_suspect(session)) {
        return snp_entry_begin(exec, begin_written, err);
    }
    SNP_TRY(exec_send(exec, err));
    exec->is_intent_due = true;
    if (!session->server->is_ending && !uv_is_active((uv_handle_t *)intents)) {
        (void)uv_timer_start(intents, intents_write, SNP_CAP_INTENT_MS, 0);
    }
    return 0;
}

int snp_cell_run(struct snp_exec *exec, struct snp_err *err)
{
    struct snp_session *session = exec->session;
    int r;

    SNP_ASSERT(session->live.executor != NULL);
    exec->cell = ++session->cells;
    exec->executor = session->live.executor;
    snp_executor_ref(exec->executor);
    session->live.running = exec;
    snp_checkpoint_cell_begins(session);
    snp_session_event(session, SNP_EV_CELL);
    snp_buf_init(&exec->events, SNP_CAP_SHOWN_BYTES);
    exec->noted_us = snp_now_us();
    exec->started_us = snp_wall_us();
    if (is_lasting(exec)) {
        r = lasting_run(exec, err);
    } else {
        r = exec_send(exec, err);
        if (r == 0) {
            snp_exec_uncount_raw(exec);
        }
    }
    if (r < 0) {
        start_undo(exec);
    }
    return r;
}
