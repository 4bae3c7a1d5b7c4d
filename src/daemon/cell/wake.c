/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking, a coroutine:
 *
 *   which cells are missing (journal) -> what was decided about them
 *   -> epoch + 1 (journal) -> open (tier) -> load the checkpoint, or parts of it (store and tier)
 *   -> replay the missing cells, if so decided -> IDLE
 *
 * Invariants: session->live.wake is set from the first step to the last or until an abort; an
 * aborted wake fails at its next await and leaves the session alone. An epoch is in the journal
 * before its executor is requested.
 */
#include "daemon/cell/wake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/wire/session.h"
#include "daemon/cell/cell.h"
#include "daemon/cell/replay.h"
#include "daemon/cell/restored.h"
#include "daemon/co.h"
#include "daemon/save/at_rest.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/close.h"
#include "daemon/save/durable.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/load.h"
#include "daemon/save/prove.h"
#include "daemon/save/room.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/no_image.h"
#include "daemon/session/project.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "daemon/session/turn.h"
#include "daemon/store_wait.h"
#include "store/journal.h"

/* On the coroutine's stack. */
struct snp_wake {
    struct snp_session *session; /* one reference */
    struct snp_co *co;
    bool is_over;           /* aborted or ended: the session may be in other hands */
    bool was_live;          /* the session had an executor before */
    struct snp_await *turn; /* until the session continues its wake; NULL = not awaited */
    bool is_called;         /* the session continued it while it was not awaited */
    enum snp_load_effort effort;
    bool has_tried_all; /* a complete load, which failed */
    struct snp_restored restored;
};

/* Wait until the session has room, or has released a replayed cell. ------------------------ */

static void turn_cancel(struct snp_await *turn)
{
    snp_await_ended(turn, NULL);
}

static int turn_await(struct snp_wake *wake, struct snp_err *err)
{
    struct snp_await turn = {.cancel = turn_cancel};
    int r;

    wake->turn = &turn;
    r = snp_await(&turn, NULL, err);
    wake->turn = NULL;
    return r;
}

void snp_wake_go_on(struct snp_session *session)
{
    struct snp_wake *wake = session->live.wake;

    if (wake != NULL && wake->turn != NULL) {
        snp_await_ended(SNP_TAKE_PTR(wake->turn), NULL);
    } else if (wake != NULL) {
        wake->is_called = true;
    }
}

/* The decision -------------------------------------------------------------------------------- */

/* A cell cannot be replayed: skip it, or replay none. */
#define fail_replay(err, session, ...)                              \
    (snp_fail_with((err), SNP_E_DENIED, SNP_REMEDY_RECOVER, NULL,   \
                   SNP_WAY_SKIP | SNP_WAY_CHECKPOINT, __VA_ARGS__), \
     snp_err_about((err), (session)->name), SNP_E_DENIED)

/*
 * The first call in the queue decides. A call without a decision fails, so that it does not run on
 * an unexpected state; the next one may decide.
 */
static int decide(struct snp_session *session, struct snp_restored *restored, struct snp_err *err)
{
    struct snp_missing *missing = &restored->missing;
    const struct snp_missing_cell *deadly;
    struct snp_exec *exec;

    (void)snp_missing_fail(missing, &restored->place, err);
    while ((exec = snp_exec_first(session)) != NULL && exec->spec.recover == SNP_RECOVER_ASK) {
        (void)snp_turn_leave(session, &exec->turn);
        snp_turns_fail(session, SNP_TURNS_LIVE, err);
        snp_exec_fail(exec, err);
    }
    if (exec == NULL) {
        return err->code;
    }
    restored->decision = exec->spec.recover;
    if (restored->decision == SNP_RECOVER_SKIP) {
        restored->decision = SNP_RECOVER_REPLAY;
        restored->left_out = snp_missing_leave_out(missing);
    }
    deadly = snp_missing_deadly(missing);
    if (restored->decision == SNP_RECOVER_REPLAY && deadly != NULL) {
        return fail_replay(err, session,
                           "Replaying cell %llu ended session %.64s before, so it was not "
                           "replayed again",
                           (unsigned long long)deadly->cell, session->name);
    }
    if (restored->decision == SNP_RECOVER_REPLAY && missing->n_beyond > 0) {
        (void)snp_fail_with(
            err, SNP_E_LIMIT, SNP_REMEDY_RECOVER, NULL, SNP_WAY_CHECKPOINT,
            "session %s is missing %llu cells; at most %d can be replayed", session->name,
            (unsigned long long)(missing->n_cells + missing->n_beyond), SNP_MISSING_CELLS_MAX);
        snp_err_about(err, session->name);
        snp_err_limit(err, "replayed_cells", SNP_MISSING_CELLS_MAX);
        return err->code;
    }
    return 0;
}

static int run_missing(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_restored *restored = arg;

    SNP_TRY(snp_missing_find(tx, &restored->place, &restored->missing, err));
    return snp_journal_cell_undo_replays(tx, restored->place.id, restored->place.after, err);
}

/* Find which cells are missing, and what the caller decided about them. */
static int missing_find(struct snp_session *session,
                        struct snp_restored *restored,
                        struct snp_err *err)
{
    struct snp_await paid = {0};

    /* A cell ran and was not recorded: until it is, the missing cells are not known. */
    if (snp_entry_pay(session, snp_await_ended, &paid) && snp_await(&paid, NULL, err) < 0) {
        return snp_err_wrap(err, "cannot wake the session: the journal cannot be written");
    }
    do {
        /* If a wake finds the checkpoint damaged, more cells are missing beside an older one. */
        snp_missing_place(session, &restored->place);
        if (snp_store_await(session->server->store, run_missing, restored, err) < 0) {
            return snp_err_wrap(err, "cannot wake the session");
        }
    } while (restored->place.checkpoint != session->durable.checkpoint);
    if (restored->missing.n_puts > 0 || restored->missing.has_rollback) {
        snp_checkpoint_has_puts(session); /* the state at rest depends on it */
    }
    return snp_missing_any(&restored->missing) ? decide(session, restored, err) : 0;
}

/* Opening ------------------------------------------------------------------------------------- */

/* Looking for room may make some at once. */
static int room_await(struct snp_wake *wake, struct snp_err *err)
{
    int r;

    for (;;) {
        snp_room_want(wake->session);
        wake->is_called = false;
        r = snp_room_find(wake->session->server, err);
        if (r != 1) {
            break;
        }
        SNP_TRY(wake->is_called ? 0 : turn_await(wake, err));
    }
    snp_room_unwant(wake->session);
    return r;
}

/* Open the next executor as soon as there is room for one more. */
static int executor_open(struct snp_wake *wake, struct snp_err *err)
{
    struct snp_session *session = wake->session;
    snp_autojson json_t *manifest = NULL;

    session->epoch++;
    wake->restored.checkpoint = session->durable.checkpoint;
    if (session->durable.is_recorded && snp_entry_session(session, err) < 0) {
        return snp_err_wrap(err, "cannot wake the session: the journal cannot be written");
    }
    SNP_TRY(room_await(wake, err));
    if (session->policy.project != NULL) {
        SNP_TRY(
            snp_session_project_check(session->policy.project, session->server->options.home, err));
    }
    SNP_TRY(snp_executor_open_await(session, &manifest, err));
    if (wake->restored.checkpoint != 0) {
        SNP_TRY(snp_state_key_check(session, manifest, err));
    }
    return snp_session_policy_opened(session, manifest, err);
}

/* Loading ------------------------------------------------------------------------------------- */

/* A fork of a live session continues from that session's current state, where possible. */
static int load_clone(const struct snp_wake *wake,
                      const struct snp_executor *origin,
                      struct snp_err *err)
{
    struct snp_session *session = wake->session;
    const struct snp_load_origin from = {.executor = origin,
                                         .epoch = session->live.fork_of.epoch,
                                         .cell = session->live.fork_of.cell};
    int r = snp_load_clone(session->live.executor, &from, err);

    if (wake->is_over) {
        return r;
    }
    session->live.fork_of.is_image = r == 0;
    if (r < 0) {
        (void)snprintf(session->live.fork_of.why, sizeof(session->live.fork_of.why), "%.190s",
                       err->msg);
        snp_log(SNP_LOG_INFO, "fork", "session=%s no_image=\"%s\"", session->id, err->msg);
    }
    return r;
}

/* Folders outside a workspace, to which no variable name applies, are in no image. */
static json_t *folders_lost(const json_t *lost)
{
    json_t *folders = json_array();
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)(uintptr_t)lost, i, one)
    {
        if (snp_json_str(one, "name", "")[0] == '/') {
            (void)json_array_append(folders, one);
        }
    }
    return folders;
}

/* An image, if one could be made, holds what variables cannot. */
static int load_image(struct snp_wake *wake, struct snp_err *err)
{
    struct snp_session *session = wake->session;
    struct snp_restored *restored = &wake->restored;
    snp_autojson json_t *failed = NULL;
    const char *reason;
    bool is_sent = false;
    int r = snp_load(session->live.executor, restored->checkpoint, SNP_LOAD_IMAGE, &is_sent,
                     &failed, err);

    if (wake->is_over) {
        return r;
    }
    if (r == 0) {
        restored->is_image = session->live.fork_of.is_image = true;
        restored->failed = folders_lost(session->durable.checkpoint_lost);
        return 0;
    }
    reason = snp_no_image_reason(session->durable.checkpoint_lost);
    (void)snprintf(restored->no_image, sizeof(restored->no_image), "%.190s",
                   reason != NULL ? reason : err->msg);
    if (session->live.fork_of.why[0] == '\0') {
        memcpy(session->live.fork_of.why, restored->no_image, sizeof(restored->no_image));
    }
    snp_log(SNP_LOG_INFO, "wake", "session=%s no_image=\"%s\"", session->id, restored->no_image);
    return r;
}

/* The exact state, once, where there is one. SNP_E_UNSUPPORTED: the executor is as it was. */
static int load_exact(struct snp_wake *wake, struct snp_err *err)
{
    struct snp_session *session = wake->session;
    const char *origin = session->live.fork_of.session;
    struct snp_session *from =
        origin[0] == '\0' ? NULL : snp_sessions_find(session->server, origin);
    const json_t *first = NULL;

    session->live.fork_of.session[0] = '\0';
    if (from != NULL && from->live.executor != NULL) {
        return load_clone(wake, from->live.executor, err);
    }
    if (wake->restored.checkpoint != 0 &&
        snp_lost_count(session->durable.checkpoint_lost, &first) > 0 &&
        snp_tier_has_images(session->policy.place.tier)) {
        return load_image(wake, err);
    }
    return err->code = SNP_E_UNSUPPORTED;
}

static int load_checkpoint(struct snp_wake *wake, bool *ret_is_sent, struct snp_err *err)
{
    struct snp_session *session = wake->session;
    struct snp_restored *restored = &wake->restored;
    snp_autojson json_t *failed = NULL;

    if (restored->checkpoint == 0) {
        return 0;
    }
    json_decref(restored->failed);
    restored->failed = session->durable.checkpoint_lost == NULL
                           ? json_array()
                           : json_deep_copy(session->durable.checkpoint_lost);
    SNP_TRY_MEMORY(restored->failed, err);
    if (restored->no_image[0] != '\0') {
        snp_no_image_drop(restored->failed); /* reported as `no_image` of the answer */
    }
    SNP_TRY(snp_load(session->live.executor, restored->checkpoint, wake->effort, ret_is_sent,
                     &failed, err));
    if (wake->effort == SNP_LOAD_ALL) {
        snp_prove_note(session, restored->checkpoint, failed);
    }
    (void)json_array_extend(restored->failed, failed);
    return 0;
}

static int load_fail(const struct snp_wake *wake, struct snp_err *err)
{
    const unsigned long long checkpoint = wake->restored.checkpoint;
    const struct snp_err why = *err;

    if (why.code != SNP_E_NOT_FOUND) {
        return snp_err_wrap(err, "cannot restore checkpoint %llu of the session", checkpoint);
    }
    snp_rest_look(wake->session); /* the next call uses the previous checkpoint */
    return snp_fail(err, why.code,
                    "checkpoint %llu of the session is damaged (%.200s). No cell ran. "
                    "Repeat the call to use the previous checkpoint",
                    checkpoint, why.msg);
}

/* Load less next time. The sandbox refused it and the tier is there, so that may succeed. */
static int load_lower(struct snp_wake *wake, int r, bool is_sent, struct snp_err *err)
{
    const struct snp_session *session = wake->session;

    if (!is_sent || r == SNP_E_NOT_FOUND || r == SNP_E_PEER || wake->effort + 1 == SNP_LOAD_N) {
        return load_fail(wake, err);
    }
    snp_log(SNP_LOG_WARN, "wake", "session=%s epoch=%llu effort=%d error=\"%s\"", session->id,
            (unsigned long long)session->epoch, (int)wake->effort, err->msg);
    /* If it was restored once, again in full: a shortage may have been temporary. */
    wake->effort += wake->has_tried_all || !snp_prove_is_done(session) ? 1 : 0;
    wake->has_tried_all = true;
    return 0;
}

/* Load the checkpoint into new executors: what was half filled cannot be used again. */
static int fill(struct snp_wake *wake, struct snp_err *err)
{
    struct snp_session *session = wake->session;
    bool has_tried_exact = false;

    for (;;) {
        bool is_sent = false;
        int r = SNP_E_UNSUPPORTED;

        SNP_TRY(executor_open(wake, err));
        if (!has_tried_exact) {
            has_tried_exact = true;
            r = load_exact(wake, err);
        }
        if (!wake->is_over && r == SNP_E_UNSUPPORTED && session->live.executor != NULL) {
            r = load_checkpoint(wake, &is_sent, err);
            if (!wake->is_over && r < 0 && load_lower(wake, r, is_sent, err) < 0) {
                return err->code;
            }
        }
        if (wake->is_over || r == 0) {
            return r;
        }
        snp_executor_close_await(session->live.executor);
        if (wake->is_over) {
            return snp_fail(err, SNP_E_PEER, "the wake was aborted");
        }
    }
}

/* Replay -------------------------------------------------------------------------------------- */

/* Whether a replayed cell ended as before. result: NULL = it has none, because of err. */
static int replayed_check(const struct snp_session *session,
                          const struct snp_missing_cell *was,
                          const json_t *result,
                          struct snp_err *err)
{
    const unsigned long long cell = was->cell;
    const char *status = snp_json_str(result, "status", "unknown");
    const char *state = snp_json_str(result, "state", "");

    if (result == NULL && session->live.executor != NULL) {
        return snp_err_wrap(err, "replay of cell %llu", cell);
    }
    if (result == NULL || strcmp(state, "lost") == 0 ||
        strcmp(state, "restored_from_checkpoint") == 0) {
        return fail_replay(err, session, "Replaying cell %llu ended session %.64s", cell,
                           session->name);
    }
    if (strcmp(was->status, "unknown") != 0 && strcmp(was->status, "running") != 0 &&
        strcmp(was->status, status) != 0) {
        return fail_replay(err, session,
                           "replay stopped at cell %llu: it ended with %s before and with %s now, "
                           "so later cells could differ",
                           cell, was->status, status);
    }
    return 0;
}

static int cell_replay(struct snp_wake *wake,
                       const struct snp_missing_cell *was,
                       struct snp_cell_replay *replay,
                       struct snp_err *err)
{
    struct snp_session *session = wake->session;
    snp_autojson json_t *result = NULL;
    struct snp_await ended = {0};
    struct snp_exec *exec = NULL;
    struct snp_err over;
    int r;

    SNP_TRY(snp_replay_exec(replay, session, &exec, err));
    exec->ended = snp_await_end;
    exec->ctx = &ended;
    if (snp_cell_run(exec, err) < 0) {
        snp_exec_fail(exec, err);
        (void)snp_await(&ended, NULL, err);
        return wake->is_over ? err->code : replayed_check(session, was, NULL, err);
    }
    r = snp_await(&ended, &result, err);
    if (wake->is_over) {
        return r;
    }
    r = replayed_check(session, was, result, err);
    replay->last = was->cell;
    replay->last_replay = (uint64_t)snp_json_int(result, "cell", 0);
    /* The cell has to release the session. */
    return turn_await(wake, &over) < 0 ? over.code : r;
}

/* Report the cell whose replay differed and continue: times and random numbers differ, too. */
static int differing_note(struct snp_restored *restored,
                          const struct snp_cell_replay *replay,
                          struct snp_err *err)
{
    snp_autojson json_t *name = json_sprintf("cell %llu", (unsigned long long)replay->last);
    size_t i;
    json_t *reason;

    json_array_foreach(replay->differs, i, reason)
    {
        restored->differing = restored->differing == NULL ? json_array() : restored->differing;
        if (json_array_append_new(restored->differing,
                                  SNP_WRITE(snp_failed_row, .name = name, .reason = reason)) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    return 0;
}

/* Run the missing cells again. */
static int cells_replay(struct snp_wake *wake, struct snp_err *err)
{
    struct snp_session *session = wake->session;
    const struct snp_missing *missing = &wake->restored.missing;
    snp_cleanup(snp_replay_done) struct snp_cell_replay replay = {.session = session->id};

    for (size_t i = 0; i <= missing->n_cells; i++) {
        replay.cell = i < missing->n_cells ? missing->cells[i].cell : 0;
        if (snp_store_await(session->server->store, snp_replay_read, &replay, err) < 0) {
            return snp_err_wrap(err, "cannot run cell %llu again",
                                (unsigned long long)(replay.cell != 0 ? replay.cell : replay.last));
        }
        SNP_TRY(differing_note(&wake->restored, &replay, err));
        if (session->live.executor == NULL) {
            return snp_fail(err, SNP_E_PEER, "the session was lost while its cells were replayed");
        }
        SNP_TRY(i == missing->n_cells ? 0 : cell_replay(wake, &missing->cells[i], &replay, err));
    }
    return 0;
}

/*
 * Mark cells as given up only once the state that lacks them is loaded: a checkpoint that turns out
 * to be damaged must not take them with it. They stay so marked, including what a replay did before
 * it stopped.
 */
static int loss_accept(struct snp_session *session,
                       const struct snp_restored *restored,
                       struct snp_err *err)
{
    snp_durable_accept(session, restored->place.checkpoint_cell);
    if (snp_entry_accepted(session, restored->place.after, err) < 0) {
        return snp_err_wrap(
            err, "cannot wake the session: the journal could not record the dropped cells");
    }
    snp_durable_last_unknown(session, false);
    snp_entry_event(session->server, "accepted_loss", session,
                    "session %s continues from cell %llu; %zu later cells were dropped at the "
                    "request of the caller",
                    session->name, (unsigned long long)restored->place.checkpoint_cell,
                    restored->missing.n_cells + (size_t)restored->missing.n_beyond);
    return 0;
}

/* The wake ------------------------------------------------------------------------------------ */

static int wake_up(struct snp_wake *wake, struct snp_err *err)
{
    struct snp_session *session = wake->session;
    struct snp_restored *restored = &wake->restored;

    if (session->durable.is_recorded || session->durable.debt != NULL) {
        SNP_TRY(missing_find(session, restored, err));
    }
    SNP_TRY(fill(wake, err));
    if (restored->missing.n_cells > 0 && restored->decision == SNP_RECOVER_REPLAY) {
        return cells_replay(wake, err);
    }
    return restored->missing.n_cells > 0 && restored->decision == SNP_RECOVER_CHECKPOINT &&
                   session->durable.is_recorded
               ? loss_accept(session, restored, err)
               : 0;
}

static void wake_over(struct snp_wake *wake)
{
    snp_room_unwant(wake->session);
    wake->is_over = true;
    wake->session->live.wake = NULL;
}

void snp_wake_abort(struct snp_session *session)
{
    struct snp_wake *wake = session->live.wake;

    if (wake != NULL) {
        wake_over(wake);
        snp_co_abort(wake->co);
    }
}

/* The session stays asleep; waiting calls get the error. */
static void wake_failed(struct snp_session *session, bool was_live, const struct snp_err *err)
{
    snp_log(SNP_LOG_WARN, "wake", "session=%s epoch=%llu error=\"%s\"", session->id,
            (unsigned long long)session->epoch, err->msg);
    if (session->live.executor != NULL) {
        /* A half-filled executor cannot be used. New calls wait until it is gone. */
        snp_leave_drop(session);
    } else {
        snp_session_rest(session);
    }
    snp_turns_fail(session, SNP_TURNS_AWAKE, err);
    if (!was_live && session->policy.place.manifest == NULL && session->live.executor == NULL) {
        snp_turns_fail(session, SNP_TURNS_ALONE, err);
        snp_session_remove(session); /* it never existed */
    } else {
        snp_turns_run(session);
    }
}

static void awake(struct snp_session *session, const struct snp_restored *restored)
{
    const struct snp_missing *missing = &restored->missing;
    const bool has_replayed = missing->n_cells > 0 && restored->decision == SNP_RECOVER_REPLAY;

    if ((missing->n_puts > 0 || missing->has_rollback) && !has_replayed) {
        /*
         * Reported with the next result, then no longer asked about. Another replay lacks them,
         * too.
         */
        snp_entry_puts_forgiven(session);
    }
    snp_checkpoint_unneeded(session);
    session->live.is_told_lost = false;
    if (has_replayed) {
        snp_checkpoint_schedule(session);
    }
    snp_session_event(session, SNP_EV_AWAKE);
    if (restored->checkpoint == 0 && session->cells == 0) {
        session->server->hooks->begun(session);
    }
    snp_session_go_on(session);
}

static void wake_run(void *arg)
{
    struct snp_session *session = arg;
    struct snp_wake wake = {.session = session,
                            .co = snp_co_self(),
                            .was_live = session->policy.place.manifest != NULL};
    uint64_t begun_us = snp_now_us();
    struct snp_err err;
    int r;

    snp_session_ref(session);
    session->live.wake = &wake;
    snp_session_event(session, SNP_EV_WAKE);
    wake.restored.checkpoint = session->durable.checkpoint;
    r = wake_up(&wake, &err);
    if (!wake.is_over) {
        uint64_t us = snp_now_us() - begun_us;

        wake_over(&wake);
        if (r == 0) {
            snp_restored_report(session, &wake.restored, wake.was_live, us);
            snp_log(SNP_LOG_INFO, "wake", "session=%s epoch=%llu checkpoint=%llu us=%llu",
                    session->id, (unsigned long long)session->epoch,
                    (unsigned long long)wake.restored.checkpoint, (unsigned long long)us);
            awake(session, &wake.restored);
        } else {
            wake_failed(session, wake.was_live, &err);
        }
    }
    snp_restored_done(&wake.restored);
    snp_session_unref(session);
}

void snp_wake_start(struct snp_session *session)
{
    struct snp_err err;

    if (snp_co_start(wake_run, session, &err) < 0) {
        snp_turns_fail(session, SNP_TURNS_AWAKE, &err);
    }
}
