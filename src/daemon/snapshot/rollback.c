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
#include "base/wire/snapshot.h"
#include "daemon/co.h"
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
#include "daemon/store_wait.h"
#include "daemon/tier.h"
#include "daemon/work.h"
#include "store/journal.h"
#include "wire/tier.h"

struct rollback {
    struct snp_server *server;    /* borrowed */
    struct snp_session *session;  /* one reference, once found; or NULL */
    struct snp_memory_copy *copy; /* in use; or NULL */
    bool by_memory;
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

static void copy_release(struct rollback *back)
{
    if (back->copy != NULL) {
        SNP_TAKE_PTR(back->copy)->users--;
        snp_memory_check(back->session);
    }
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

/* Update the session to the journal's state. */
static void session_adopt(struct rollback *back)
{
    struct snp_session *session = back->session;
    snp_autojson json_t *lost = back->lost == NULL ? json_array() : json_loads(back->lost, 0, NULL);

    session->epoch = back->epoch;
    snp_durable_rolled_back(session, back->copied, lost);
    snp_entry_undone(session, back->cell);
}

/* After a wait: the session may have been destroyed. */
static int session_check(const struct snp_session *session, struct snp_err *err)
{
    return session->state == SNP_SESSION_CLOSING
               ? snp_fail(err, SNP_E_NOT_FOUND, "the session was destroyed")
               : 0;
}

/* By checkpoint -------------------------------------------------------------------------------- */

/* Wake the session where it is now. */
static int wake(struct rollback *back, struct snp_err *err)
{
    back->by_memory = false;
    return snp_session_await_live(back->session, err) < 0
               ? snp_err_wrap(err, "rolled back the session, but could not wake it")
               : 0;
}

/* 1: the session was lost before, so that it needs another turn. */
static int by_checkpoint(struct rollback *back, struct snp_err *err)
{
    struct snp_session *session = back->session;
    int r;

    for (;;) {
        SNP_TRY(session_check(session, err));
        snp_session_event(session, SNP_EV_ROLL_BACK);
        /* Other snapshots may exist only in that memory. */
        if (session->live.executor == NULL || !snp_memory_await_any(session)) {
            break;
        }
        if (session->state != SNP_SESSION_ROLLING_BACK && session->state != SNP_SESSION_CLOSING) {
            return 1;
        }
    }
    snp_executor_close_await(session->live.executor);
    SNP_TRY(session_check(session, err));
    back->epoch = session->epoch + 1;
    r = snp_store_await_synced(back->server->store, run_journal, back, err);
    if (session->state == SNP_SESSION_CLOSING) {
        return session_check(session, err);
    }
    if (r == 0) {
        session_adopt(back);
    }
    if (session->state == SNP_SESSION_ROLLING_BACK) {
        snp_session_rest(session);
    }
    return r < 0 ? r : wake(back, err);
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

/* 1: the tier could not, and the session is where the journal was; go by the checkpoint. */
static int by_memory(struct rollback *back, struct snp_err *err)
{
    struct snp_session *session = back->session;
    struct snp_store_wait job = {
        .run = run_journal, .arg = back, .durability = SNP_DURABILITY_SYNCED};
    struct snp_await answer = {0};
    const struct snp_tier_call call = {
        .head = SNP_WRITE(snp_tier_rollback_request, .session = session->live.executor->id,
                          .branch = back->copy->number, .epoch = (int64_t)back->epoch),
        .timeout_ms = session->server->options.tier_ms,
        .answer = &snp_tier_rollback_answer_form,
        .done = snp_tier_answered,
        .ctx = &answer};
    struct snp_err why;
    bool went_back = false;
    int r;

    if (snp_tier_ask(session->live.executor->tier, &call, &why) < 0) {
        return 1;
    }
    snp_session_event(session, SNP_EV_ROLL_BACK);
    snp_store_start(back->server->store, &job);
    if (snp_await(&answer, NULL, &why) < 0) {
        snp_log(SNP_LOG_WARN, "rollback", "session=%s error=\"%s\"", session->id, why.msg);
    } else if (session->live.executor != NULL) {
        session->live.executor->epoch = back->epoch;
        went_back = true;
    }
    r = snp_await(&job.wait, NULL, err);
    if (session->state == SNP_SESSION_CLOSING) {
        return session_check(session, err);
    }
    if (r < 0) {
        (void)snp_err_wrap(err, "did not roll back, because the journal could not record it");
        executor_drop(session);
        return r;
    }
    session_adopt(back);
    if (!went_back) {
        return 1;
    }
    if (session->live.executor != NULL && session->state == SNP_SESSION_ROLLING_BACK) {
        back->by_memory = true;
        snp_session_event(session, SNP_EV_ROLLED_BACK);
        return 0;
    }
    if (session->state == SNP_SESSION_ROLLING_BACK) {
        snp_session_rest(session);
    }
    return wake(back, err); /* the executor has ended; its copies are on disk */
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

static int find(struct rollback *back, struct snp_err *err)
{
    struct snp_session *session;

    SNP_TRY(snp_store_await(back->server->store, run_find, back, err));
    if (!back->is_usable && snp_memory_await(back->server, back->snapshot, true)) {
        SNP_TRY(snp_store_await(back->server->store, run_find, back, err));
    }
    if (!back->is_usable) {
        return snp_fail_with(
            err, SNP_E_DENIED, SNP_REMEDY_DOCTOR, NULL, 0,
            "cannot roll back to snapshot %s: it is not on disk, or its copy is damaged",
            back->ref);
    }
    session = snp_sessions_find(back->server, back->session_id);
    if (session == NULL) {
        return snp_fail(err, SNP_E_NOT_FOUND, "the session of snapshot %s does not exist any more",
                        back->ref);
    }
    if (back->asked[0] != '\0' && snp_sessions_find(back->server, back->asked) != session) {
        return snp_fail(err, SNP_E_INVALID,
                        "snapshot %s belongs to session %s, not to %s; nothing was done", back->ref,
                        session->name[0] == '\0' ? session->id : session->name, back->asked);
    }
    snp_session_ref(session);
    back->session = session;
    return 0;
}

static void request_read(const struct snp_work *work, struct rollback *back)
{
    struct snp_rollback_request asked;
    struct snp_session *meant = NULL;
    struct snp_err err;

    snp_record_read(work->head, &snp_rollback_request_form, &asked);
    if (asked.session != NULL &&
        snp_sessions_meant(back->server, asked.session, &meant, &err) == 0) {
        /* The reference may be the beginning of the session's id. */
        asked.session = meant->name[0] == '\0' ? meant->id : meant->name;
    }
    if (asked.session != NULL) {
        (void)snprintf(back->asked, sizeof(back->asked), "%s", asked.session);
    }
    if (asked.session == NULL || strchr(asked.snapshot, '@') != NULL ||
        snp_session_is_id(asked.snapshot)) {
        (void)snprintf(back->ref, sizeof(back->ref), "%s", asked.snapshot);
    } else {
        (void)snprintf(back->ref, sizeof(back->ref), "%s@%s", asked.session, asked.snapshot);
    }
}

/* The rollback --------------------------------------------------------------------------------- */

static int roll_back(struct rollback *back, struct snp_err *err)
{
    int r;

    SNP_TRY(find(back, err));
    do {
        copy_release(back);
        SNP_TRY(snp_turn_await(back->session, NULL, err));
        (void)snp_entry_pay(back->session, NULL, NULL); /* so that owed cells are undone, too */
        back->epoch = back->session->epoch + 1;
        back->copy = snp_memory_find(back->session, back->snapshot);
        r = 1;
        if (back->copy != NULL) {
            back->copy->users++;
            r = by_memory(back, err);
        }
        if (r == 1) {
            r = by_checkpoint(back, err);
        }
    } while (r == 1);
    return r;
}

/* The checkpoint's losses apply only to a session restored from it. */
static void answer(struct snp_request *request, const struct rollback *back, uint64_t begun_us)
{
    struct snp_session *session = back->session;
    snp_autojson json_t *lost = back->by_memory || back->lost == NULL ||
                                        snp_json_bool(session->live.restored, "image", false)
                                    ? json_array()
                                    : json_loads(back->lost, 0, NULL);
    snp_autojson json_t *failed = snp_source_failed(session, lost);

    snp_request_answer(request,
                       SNP_WRITE(snp_rollback_answer, .session = session->id,
                                 .session_name = session->name, .snapshot = back->snapshot,
                                 .cell = back->cell, .epoch = session->epoch,
                                 .how = back->by_memory ? "memory" : "checkpoint",
                                 .us = snp_now_us() - begun_us, .lost = lost, .failed = failed));
}

static void rollback_done(struct rollback *back)
{
    copy_release(back);
    if (back->session != NULL) {
        snp_session_go_on(back->session);
        snp_session_unref(back->session);
    }
    free(back->lost);
}

static int run(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(rollback_done) struct rollback back = {.server = request->server};
    uint64_t begun_us = snp_now_us();

    request_read(work, &back);
    SNP_TRY(roll_back(&back, err));
    answer(request, &back, begun_us);
    return 0;
}

void snp_run_rollback(const struct snp_work *work)
{
    snp_work_start(work, run);
}
