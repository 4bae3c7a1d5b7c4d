/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rollback.
 *
 *   the snapshot's row -> its copy on disk, if that is still being written -> the session's turn
 *   by memory: the tier returns to the copy and, at the same time, the journal -> the answer
 *   else: the executor is closed -> journal -> the session wakes from the checkpoint -> the answer
 *
 * The journal's part is one job: the epoch is raised, the snapshot's checkpoint becomes the
 * session's latest, later cells read "undone". A crash before that job leaves the session
 * unchanged, a crash after it the snapshot's state. If the job fails, the executor is closed, even
 * if the tier has finished: the journal does not know its state. If the tier fails, the session
 * wakes from the checkpoint that is then the latest in the journal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/request.h"
#include "daemon/save/at_rest.h"
#include "daemon/save/close.h"
#include "daemon/save/durable.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/memory.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"
#include "daemon/session/turn.h"
#include "daemon/snapshot/source.h"
#include "daemon/tier.h"
#include "daemon/work.h"
#include "store/journal.h"
#include "wire/snapshot.h"
#include "wire/tier.h"

struct rollback {
    struct snp_request *request;  /* owned */
    struct snp_server *server;    /* borrowed */
    struct snp_session *session;  /* one reference, once found; or NULL */
    struct snp_memory_copy *copy; /* in use; or NULL */
    struct snp_turn turn;
    struct snp_spill_waiter spill;
    struct snp_waiter waiter;
    bool has_waited;
    bool by_memory;
    bool went_back;   /* the tier's answer */
    unsigned n_asked; /* pending answers of tier and journal */
    struct snp_err journal_err;
    uint64_t begun_us;
    uint64_t epoch; /* the new one */
    /* Read and written by the store's thread. */
    char ref[SNP_CAP_REF + 1];
    char asked[SNP_CAP_REF + 1]; /* the given session; "" = none */
    char snapshot[SNP_SESSION_ID_LEN + 1];
    char session_id[SNP_SESSION_ID_LEN + 1];
    uint64_t cell;
    uint64_t checkpoint; /* the snapshot's; then the session's copy of it */
    uint64_t copied;
    bool is_usable;
    char *lost; /* owned: JSON */
};

static void rollback_find(struct rollback *back);

/* The end -------------------------------------------------------------------------------------- */

static void copy_release(struct rollback *back)
{
    if (back->copy != NULL) {
        SNP_TAKE_PTR(back->copy)->users--;
        snp_memory_check(back->session);
    }
}

static void rollback_free(struct rollback *back)
{
    struct snp_session *session = back->session;

    copy_release(back);
    if (session != NULL) {
        snp_session_go_on(session);
        snp_session_unref(session);
    }
    free(back->lost);
    free(back);
}

static void rollback_fail(struct rollback *back, const struct snp_err *err)
{
    snp_request_fail(back->request, err);
    rollback_free(back);
}

/* The checkpoint's losses apply only to a session restored from it. */
static void rollback_answer(struct rollback *back)
{
    struct snp_session *session = back->session;
    snp_autojson json_t *lost = back->by_memory || back->lost == NULL ||
                                        snp_json_bool(session->live.restored, "image", false)
                                    ? json_array()
                                    : json_loads(back->lost, 0, NULL);

    snp_autojson json_t *failed = snp_source_failed(session, lost);

    snp_request_answer(
        back->request,
        SNP_WRITE(snp_rollback_answer, .session = session->id, .session_name = session->name,
                  .snapshot = back->snapshot, .cell = back->cell, .epoch = session->epoch,
                  .how = back->by_memory ? "memory" : "checkpoint",
                  .us = snp_now_us() - back->begun_us, .lost = lost, .failed = failed));
    rollback_free(back);
}

/* The session was destroyed during the rollback. */
static void rollback_over(struct rollback *back)
{
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_NOT_FOUND, "the session was destroyed");
    rollback_fail(back, &err);
}

/* The journal ---------------------------------------------------------------------------------- */

/* An older checkpoint must not silently be taken for the session's state. */
static int back_note(struct snp_tx *tx,
                     const struct rollback *back,
                     uint64_t cells,
                     struct snp_err *err)
{
    char detail[64];
    const struct snp_journal_effect effect = {.session = back->session_id,
                                              .cell = cells,
                                              .kind = "rolled_back",
                                              .detail = detail,
                                              .at_us = snp_wall_us()};

    (void)snprintf(detail, sizeof(detail), "{\"cell\": %llu}", (unsigned long long)back->cell);
    return snp_journal_effect_add(tx, &effect, err);
}

static int run_journal(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct rollback *back = arg;
    struct snp_journal_session row;
    int r;

    SNP_TRY(snp_journal_session_get(tx, back->session_id, &row, err));
    if (row.epoch >= back->epoch) {
        return snp_fail(err, SNP_E_DENIED, "the session is already at epoch %llu",
                        (unsigned long long)row.epoch);
    }
    row.epoch = back->epoch;
    row.head_snapshot = back->snapshot;
    row.state = "idle";
    r = snp_journal_session_put(tx, &row, err);
    SNP_THEN(r, snp_journal_cell_undo(tx, back->session_id, back->cell, err));
    SNP_THEN(r, back_note(tx, back, row.cells, err));
    if (r == 0) {
        const struct snp_journal_checkpoint to = {
            .session = back->session_id, .cell = row.cells, .epoch = back->epoch};

        r = snp_journal_checkpoint_copy(tx, back->checkpoint, &to, &back->copied, err);
    }
    return r;
}

static void journal_write(struct rollback *back, snp_store_done_fn done)
{
    SNP_STORE_DO(back->server->store, .run = run_journal, .done = done, .arg = back,
                 .durability = SNP_DURABILITY_SYNCED);
}

/* Update the session to the journal's state. */
static void session_adopt(struct rollback *back)
{
    struct snp_session *session = back->session;
    snp_autojson json_t *lost = back->lost == NULL ? json_array() : json_loads(back->lost, 0, NULL);

    session->epoch = back->epoch;
    snp_durable_rolled_back(session, back->copied, lost);
    snp_entry_undone(session, back->cell);
}

/* By checkpoint -------------------------------------------------------------------------------- */

static void woken(struct snp_waiter *waiter, struct snp_session *session, const struct snp_err *err)
{
    struct rollback *back = snp_container_of(waiter, struct rollback, waiter);
    struct snp_err why;

    (void)session;
    if (err != NULL) {
        why = *err;
        (void)snp_err_wrap(&why, "rolled back the session, but could not wake it");
        rollback_fail(back, &why);
    } else {
        rollback_answer(back);
    }
}

static void slept(void *arg, const struct snp_err *err)
{
    struct rollback *back = arg;
    struct snp_session *session = back->session;

    if (session->state == SNP_SESSION_CLOSING) {
        rollback_over(back);
        return;
    }
    if (err->code == SNP_OK) {
        session_adopt(back);
    }
    if (session->state == SNP_SESSION_ROLLING_BACK) {
        snp_session_rest(session);
    }
    if (err->code != SNP_OK) {
        rollback_fail(back, err);
        return;
    }
    back->waiter.run = woken;
    snp_session_when_live(session, &back->waiter);
}

static void closed(void *ctx, const struct snp_err *close_err)
{
    struct rollback *back = ctx;

    if (close_err != NULL) {
        snp_log(SNP_LOG_ERROR, "rollback", "session=%s error=\"%s\"", back->session->id,
                close_err->msg);
    }
    if (back->session->state == SNP_SESSION_CLOSING) {
        rollback_over(back);
        return;
    }
    back->epoch = back->session->epoch + 1;
    journal_write(back, slept);
}

static void by_checkpoint(struct rollback *back);

static void memory_left(struct snp_spill_waiter *waiter)
{
    struct rollback *back = snp_container_of(waiter, struct rollback, spill);
    struct snp_session *session = back->session;

    if (session->state == SNP_SESSION_ROLLING_BACK || session->state == SNP_SESSION_CLOSING) {
        by_checkpoint(back);
        return;
    }
    copy_release(back); /* the session was lost in between, and others may use it now */
    snp_turn_ask(session, &back->turn);
}

static void by_checkpoint(struct rollback *back)
{
    struct snp_session *session = back->session;

    if (session->state == SNP_SESSION_CLOSING) {
        rollback_over(back);
        return;
    }
    back->by_memory = false;
    snp_session_event(session, SNP_EV_ROLL_BACK);
    back->spill.run = memory_left;
    if (session->live.executor != NULL && snp_memory_wait_any(session, &back->spill)) {
        return; /* other snapshots exist only in that memory */
    }
    if (session->live.executor == NULL) {
        closed(back, NULL);
    } else {
        snp_executor_close(session->live.executor, closed, back);
    }
}

/* By memory ------------------------------------------------------------------------------------ */

/* The executor's state is invalid: close it; the journal's state holds. */
static void executor_drop(struct snp_session *session)
{
    if (session->live.executor != NULL) {
        snp_leave_drop(session);
    } else if (session->state == SNP_SESSION_ROLLING_BACK) {
        snp_session_rest(session);
    }
}

/* Tier and journal have both answered, in any order. */
static void both_answered(struct rollback *back)
{
    struct snp_session *session = back->session;

    if (session->state == SNP_SESSION_CLOSING) {
        rollback_over(back);
        return;
    }
    if (back->journal_err.code != SNP_OK) {
        (void)snp_err_wrap(&back->journal_err,
                           "did not roll back, because the journal could not record it");
        executor_drop(session);
        rollback_fail(back, &back->journal_err);
        return;
    }
    session_adopt(back);
    if (!back->went_back) {
        by_checkpoint(back);
        return;
    }
    if (session->live.executor == NULL || session->state != SNP_SESSION_ROLLING_BACK) {
        if (session->state == SNP_SESSION_ROLLING_BACK) {
            snp_session_rest(session);
        }
        back->by_memory = false; /* the executor has ended; its copies are on disk */
        back->waiter.run = woken;
        snp_session_when_live(session, &back->waiter);
        return;
    }
    snp_session_event(session, SNP_EV_ROLLED_BACK);
    rollback_answer(back);
}

static void kept(void *arg, const struct snp_err *err)
{
    struct rollback *back = arg;

    back->journal_err = *err;
    if (--back->n_asked == 0) {
        both_answered(back);
    }
}

static int went_back(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct rollback *back = ctx;
    struct snp_session *session = back->session;

    (void)ret_bad;
    if (answer->head == NULL) {
        snp_log(SNP_LOG_WARN, "rollback", "session=%s error=\"%s\"", session->id, answer->err->msg);
    } else if (session->live.executor != NULL) {
        session->live.executor->epoch = back->epoch;
        back->went_back = true;
    }
    if (--back->n_asked == 0) {
        both_answered(back);
    }
    return 0;
}

static int by_memory(struct rollback *back, struct snp_err *err)
{
    struct snp_session *session = back->session;
    const struct snp_tier_call call = {
        .head = SNP_WRITE(snp_tier_rollback_request, .session = session->live.executor->id,
                          .branch = back->copy->number, .epoch = (int64_t)back->epoch),
        .timeout_ms = session->server->options.tier_ms,
        .answer = &snp_tier_rollback_answer_form,
        .done = went_back,
        .ctx = back};

    SNP_TRY(snp_tier_ask(session->live.executor->tier, &call, err));
    back->by_memory = true;
    back->n_asked = 2;
    snp_session_event(session, SNP_EV_ROLL_BACK);
    journal_write(back, kept);
    return 0;
}

static void on_turn(struct snp_turn *turn, struct snp_session *session, const struct snp_err *why)
{
    struct rollback *back = snp_container_of(turn, struct rollback, turn);
    struct snp_err err;

    if (why != NULL) {
        rollback_fail(back, why);
        return;
    }
    (void)snp_entry_pay(session, NULL, NULL); /* so that owed cells are undone, too */
    back->epoch = session->epoch + 1;
    back->copy = snp_memory_find(session, back->snapshot);
    if (back->copy != NULL) {
        back->copy->users++;
    }
    if (back->copy == NULL || by_memory(back, &err) < 0) {
        by_checkpoint(back);
    }
}

/* Which snapshot ------------------------------------------------------------------------------- */

static int run_find(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct rollback *back = arg;
    struct snp_journal_snapshot row;

    SNP_TRY(snp_journal_snapshot_get(tx, back->ref, &row, err));
    (void)snprintf(back->snapshot, sizeof(back->snapshot), "%s", row.id);
    (void)snprintf(back->session_id, sizeof(back->session_id), "%s", row.session);
    back->cell = row.cell;
    back->checkpoint = row.checkpoint;
    back->is_usable = row.checkpoint != 0 && row.is_usable;
    free(back->lost);
    back->lost = row.lost == NULL ? NULL : strdup(row.lost);
    return 0;
}

static void spilled(struct snp_spill_waiter *waiter)
{
    struct rollback *back = snp_container_of(waiter, struct rollback, spill);

    back->has_waited = true;
    rollback_find(back);
}

static void found(void *arg, const struct snp_err *find_err)
{
    struct rollback *back = arg;
    struct snp_session *session;
    struct snp_err err = *find_err;

    if (err.code == SNP_OK && !back->is_usable) {
        back->spill.run = spilled;
        if (!back->has_waited &&
            snp_memory_wait(back->server, back->snapshot, true, &back->spill)) {
            return;
        }
        (void)snp_fail_with(
            &err, SNP_E_DENIED, SNP_REMEDY_DOCTOR, NULL, 0,
            "cannot roll back to snapshot %s: it is not on disk, or its copy is damaged",
            back->ref);
    }
    session = err.code == SNP_OK ? snp_sessions_find(back->server, back->session_id) : NULL;
    if (err.code == SNP_OK && session == NULL) {
        (void)snp_fail(&err, SNP_E_NOT_FOUND, "the session of snapshot %s does not exist any more",
                       back->ref);
    }
    if (err.code == SNP_OK && session != NULL && back->asked[0] != '\0' &&
        snp_sessions_find(back->server, back->asked) != session) {
        (void)snp_fail(&err, SNP_E_INVALID,
                       "snapshot %s belongs to session %s, not to %s; nothing was done", back->ref,
                       session->name[0] == '\0' ? session->id : session->name, back->asked);
    }
    if (err.code != SNP_OK) {
        rollback_fail(back, &err);
        return;
    }
    snp_session_ref(session);
    back->session = session;
    back->turn.run = on_turn;
    snp_turn_ask(session, &back->turn);
}

static void rollback_find(struct rollback *back)
{
    SNP_STORE_DO(back->server->store, .run = run_find, .done = found, .arg = back);
}

void snp_run_rollback(const struct snp_work *work)
{
    struct rollback *back = snp_request_state(work->request, sizeof(*back));
    struct snp_rollback_request asked;
    const char *snapshot;
    const char *session;
    struct snp_session *meant = NULL;
    struct snp_err err;

    if (back == NULL) {
        return;
    }
    snp_record_read(work->head, &snp_rollback_request_form, &asked);
    snapshot = asked.snapshot;
    session = asked.session;
    back->request = work->request;
    back->server = work->request->server;
    back->begun_us = snp_now_us();
    if (session != NULL && snp_sessions_meant(back->server, session, &meant, &err) == 0) {
        /* The reference may be the beginning of the session's id. */
        session = meant->name[0] == '\0' ? meant->id : meant->name;
    }
    (void)snprintf(back->asked, sizeof(back->asked), "%s", session == NULL ? "" : session);
    if (session == NULL || strchr(snapshot, '@') != NULL || snp_session_is_id(snapshot)) {
        (void)snprintf(back->ref, sizeof(back->ref), "%s", snapshot);
    } else {
        (void)snprintf(back->ref, sizeof(back->ref), "%s@%s", session, snapshot);
    }
    rollback_find(back);
}
