/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making checkpoints.
 *
 *   known keys (journal) -> save (tier writes, store reads, through a pipe) -> committed
 *
 * The tier and the store must both report success; the store makes the checkpoint. Invariants:
 * session->unsaved.save is the save being made, from the first step to the last; others are queued
 * behind it. A save holds the state at its beginning: epoch, cell and effect are noted then, and
 * read only there. No file transfer into the session is pending then.
 */
#include "daemon/save/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire/result.h"
#include "base/wire/session.h"
#include "daemon/co.h"
#include "daemon/save/at_rest.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"
#include "daemon/store_wait.h"
#include "daemon/tier.h"
#include "daemon/tiers.h"
#include "store/checkpoint.h"
#include "store/journal.h"
#include "store/store.h"
#include "wire/tier.h"

/* On its coroutine's stack. */
struct snp_save {
    struct snp_session *session;   /* one reference */
    struct snp_save *next;         /* the next in the queue */
    struct snp_await *wait;        /* for its turn, then for file transfers; NULL = neither */
    struct snp_executor *executor; /* one reference; NULL = not begun */
    bool is_beside;                /* a running cell: saves the state before it */
    bool is_late;                  /* that cell had ended when the tier got the request */
    bool is_journals;              /* the journal failed, not the tier */
    bool wants_image;              /* with an image: variables cannot hold all */
    bool is_aside;                 /* the session may change before the end of the save */
    bool has_copy;
    uint32_t number;
    char snapshot[SNP_STORE_ID_LEN + 1];
    snp_checkpoint_made *made;
    void *ctx;
    uint64_t epoch; /* these three: of the saved state */
    uint64_t cell;
    uint64_t effect;  /* written by the store's thread, if there is no copy */
    uint64_t changes; /* of the session, at the beginning */
    uint64_t base;
    uint64_t begun_us;
    uint64_t bytes; /* of the checkpoint's contents */
    bool has_image;
    struct snp_buf known;     /* owned; written by the store's thread at first */
    struct snp_await written; /* by the tier */
    struct snp_await stored;
    json_t *report; /* owned; NULL = not made */
    json_t *first;  /* owned: of the previous one, without an image; or NULL */
    json_t *lost;   /* owned */
};

static void save_done(struct snp_save *save)
{
    snp_buf_done(&save->known);
    json_decref(save->report);
    json_decref(save->first);
    json_decref(save->lost);
    snp_executor_unref(save->executor);
    snp_session_unref(save->session);
}

static void save_wait(struct snp_save *save)
{
    struct snp_await wait = {0};
    struct snp_err ignored;

    save->wait = &wait;
    (void)snp_await(&wait, NULL, &ignored);
    save->wait = NULL;
}

static void save_continue(struct snp_save *save)
{
    snp_await_ended(SNP_TAKE_PTR(save->wait), NULL);
}

/* Record a new checkpoint in the session. */
static void note_made(struct snp_save *save)
{
    struct snp_session *session = save->session;

    snp_log(SNP_LOG_DEBUG, "checkpoint", "session=%s cell=%llu us=%llu", session->id,
            (unsigned long long)save->cell, (unsigned long long)(snp_now_us() - save->begun_us));
    if (save->has_copy || session->epoch != save->epoch) {
        return; /* not the session's present state */
    }
    session->durable.checkpoint = (uint64_t)snp_json_int(save->report, "checkpoint", 0);
    session->durable.checkpoint_cell = save->cell;
    session->durable.checkpoint_bytes = save->bytes;
    session->durable.has_image = save->has_image;
    json_decref(session->durable.checkpoint_lost);
    session->durable.checkpoint_lost = json_incref(save->lost);
    session->unsaved.saved_changes = save->changes;
    session->unsaved.is_dirty =
        session->cells > save->cell || session->unsaved.changes != save->changes;
    session->durable.has_puts &= save->is_beside || session->unsaved.changes != save->changes;
    snp_unsaved_clear(session);
    snp_rest_look(session);
}

/* Some values cannot be held by variables. */
static bool has_lost(const json_t *lost)
{
    const json_t *first = NULL;

    return snp_lost_count(lost, &first) > 0;
}

/* No cell or fork waits for it. */
static bool is_whole(const struct snp_save *save)
{
    return save->is_aside || save->has_copy || save->session->unsaved.hibernation != NULL ||
           save->session->server->is_ending;
}

/* Variables turn out not to hold all: save again with an image; only new contents are written. */
static bool is_image_needed(const struct snp_save *save)
{
    return save->report != NULL && !save->wants_image && has_lost(save->lost) &&
           save->session->live.executor == save->executor &&
           snp_tier_has_images(save->session->policy.place.tier);
}

static void on_timer(uv_timer_t *timer)
{
    snp_checkpoint_tick(timer->data);
}

/* Schedule the save. */
static void save_later(struct snp_session *session)
{
    struct snp_server *server = session->server;
    uint64_t now = snp_now_us();
    uint64_t after_us = server->options.checkpoint_after_ms * 1000;

    if (session->unsaved.when == SNP_CHECKPOINT_OFF || session->live.wake != NULL ||
        !snp_tier_can(session->policy.place.tier, "save")) {
        return;
    }
    /* A session that is never idle for long must be saved, too. */
    if ((session->unsaved.is_dirty &&
         now - session->unsaved.dirty_us > (uint64_t)SNP_CAP_DIRTY_MS * 1000) ||
        session->unsaved.when == SNP_CHECKPOINT_AFTER) {
        after_us = 0;
    }
    session->unsaved.due_us = now + after_us;
    if (!server->is_ending && !uv_is_active((uv_handle_t *)&server->checkpoints)) {
        (void)uv_timer_start(&server->checkpoints, on_timer, after_us / 1000, 0);
    }
}

/* Schedule the next attempt; the delay doubles each time. */
static void save_again(struct snp_session *session)
{
    uint64_t ms = session->unsaved.retry_ms * 2;

    ms = ms < SNP_CAP_RETRY_MIN_MS ? SNP_CAP_RETRY_MIN_MS : ms;
    session->unsaved.retry_ms = ms > SNP_CAP_RETRY_MAX_MS ? SNP_CAP_RETRY_MAX_MS : ms;
    session->unsaved.due_us = snp_now_us() + session->unsaved.retry_ms * 1000;
}

/*
 * A save of the current state failed. After a save beside a running cell, the end of the cell
 * saves again.
 */
static void save_failed(const struct snp_save *save, const struct snp_err *err)
{
    struct snp_session *session = save->session;

    if (save->has_copy || save->is_beside || save->executor == NULL ||
        session->live.executor != save->executor) {
        return;
    }
    if (save->is_aside && err->code == SNP_E_LIMIT && !save->is_journals) {
        /*
         * The memory limit leaves no room for a copy: from now on cells wait for saves, or none
         * would succeed.
         */
        session->unsaved.is_short = true;
        save_later(session);
        return;
    }
    snp_unsaved_note(session, err);
    session->unsaved.is_tiers = !save->is_journals;
    if (session->unsaved.when != SNP_CHECKPOINT_OFF &&
        snp_tier_can(session->policy.place.tier, "save")) {
        save_again(session);
    }
}

/* Both ends of the pipe --------------------------------------------------------------------- */

static void stored(void *arg, const struct snp_checkpoint_report *report, const struct snp_err *err)
{
    struct snp_save *save = arg;
    struct snp_err no_memory;

    if (err->code == SNP_OK) {
        save->bytes = report->bytes;
        save->has_image = report->has_image;
        save->lost = report->lost == NULL ? json_array() : json_loads(report->lost, 0, NULL);
        save->report =
            SNP_WRITE(snp_checkpoint_answer, .checkpoint = report->checkpoint, .cell = report->cell,
                      .items = report->items, .written_bytes = report->written_bytes,
                      .same_items = report->same_items, .lost = save->lost,
                      .image = report->has_image, .us = snp_now_us() - save->begun_us);
        if (save->report == NULL) {
            (void)snp_fail(&no_memory, SNP_E_NOMEM, "out of memory");
            err = &no_memory;
        }
    }
    snp_await_ended(&save->stored, err);
}

/* The tier has a copy of the state: later changes do not affect the save. */
static int taken(void *ctx, const struct snp_tier_answer *event, struct snp_err *ret_bad)
{
    const struct snp_save *save = snp_container_of(ctx, struct snp_save, written);
    struct snp_session *session = save->session;
    int r = snp_record_check(event->head, &snp_event_taken_form, ret_bad);

    if (r < 0 || !snp_streq(snp_json_str(event->head, "event", ""), "taken")) {
        return r < 0 ? r : snp_fail(ret_bad, SNP_E_INVALID, "save: an unknown event");
    }
    snp_log(SNP_LOG_DEBUG, "saving", "session=%s cell=%llu", session->id,
            (unsigned long long)save->cell);
    if (save->is_aside && session->unsaved.save == save && session->state == SNP_SESSION_SAVING) {
        snp_session_ref(session);
        snp_session_event(session, SNP_EV_SAVED);
        snp_session_go_on(session);
        snp_session_unref(session);
    }
    return 0;
}

static int streams_await(struct snp_save *save, struct snp_err *err)
{
    struct snp_session *session = save->session;
    struct snp_tier_call call = {
        .raw = snp_buf_bytes(&save->known),
        .raw_len = save->known.len,
        .timeout_ms = SNP_CAP_TIER_LOAD_MS,
        .answer = &snp_tier_save_answer_form,
        .done = snp_tier_answered,
        .event = taken,
        .ctx = &save->written,
    };
    const struct snp_checkpoint_save spec = {
        .session = session->id,
        .epoch = save->epoch,
        .cell = save->cell,
        .effect = save->effect,
        .base = save->base,
        .snapshot = save->has_copy ? save->snapshot : NULL,
        .done = stored,
        .arg = save,
    };
    struct snp_err why;
    int ends[2];
    int r;

    save->written = (struct snp_await){0};
    save->stored = (struct snp_await){0};
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    call.head = SNP_WRITE(snp_tier_save_request, .session = save->executor->id,
                          .branch = save->has_copy ? (int64_t)save->number : SNP_NO_NUMBER,
                          .epoch = save->has_copy ? 0 : save->epoch, .cell = (int64_t)save->cell,
                          .image = save->wants_image);
    call.has_fd = true;
    call.fd = ends[1];
    r = snp_tier_ask(save->executor->tier, &call, err);
    if (r < 0) {
        (void)close(ends[0]);
        return r;
    }
    if (snp_checkpoint_save(session->server->store, ends[0], &spec, &why) < 0) {
        snp_await_ended(&save->stored, &why); /* the tier meets the end of the pipe */
    }
    r = snp_await(&save->written, NULL, err);
    save->is_late = save->is_beside && r == SNP_E_DENIED;
    if (snp_await(&save->stored, NULL, &why) == 0) {
        return 0;
    }
    if (r == 0 || why.code != SNP_E_PEER) {
        /*
         * The tier's reason is better than "stream broken"; "disk full" is better than "no reader".
         */
        *err = why;
        save->is_journals = true;
    }
    return err->code;
}

/* The start ----------------------------------------------------------------------------------- */

static int run_known(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_save *save = arg;
    int r = save->has_copy
                ? 0
                : snp_journal_effect_last(tx, save->session->id, save->cell, &save->effect, err);

    snp_buf_clear(&save->known);
    return r < 0 ? r : snp_journal_known_keys(tx, save->base, &save->known, err);
}

/* Note the state to save: the present one; for a snapshot's copy it was noted when taken. */
static int state_note(struct snp_save *save, struct snp_err *err)
{
    struct snp_session *session = save->session;

    /* A cell whose outcome is known has ended. */
    save->is_beside = session->live.running != NULL && session->live.running->record == NULL;
    save->epoch = session->epoch;
    save->cell = save->is_beside ? session->cells - 1 : session->cells;
    save->changes = save->is_beside ? session->unsaved.begun_changes : session->unsaved.changes;
    session->unsaved.due_us = 0;
    if (save->is_beside && session->unsaved.has_begun_putting) {
        /* It is not known whether the file arrived before the cell. */
        return snp_fail(
            err, SNP_E_LIMIT,
            "a file was put while the cell began; the session can be saved after the cell");
    }
    return 0;
}

static int attempt(struct snp_save *save, struct snp_err *err)
{
    struct snp_session *session = save->session;

    save->is_late = false;
    save->is_journals = false;
    save->begun_us = snp_now_us();
    save->base = session->durable.checkpoint;
    save->wants_image =
        save->first != NULL || (is_whole(save) && has_lost(session->durable.checkpoint_lost) &&
                                snp_tier_has_images(session->policy.place.tier));
    snp_executor_unref(save->executor);
    save->executor = session->live.executor;
    if (save->executor == NULL) {
        return snp_fail(err, SNP_E_PEER, "the session ended before it was saved");
    }
    snp_executor_ref(save->executor);
    SNP_TRY(save->has_copy ? 0 : state_note(save, err));
    if (snp_store_await(session->server->store, run_known, save, err) < 0) {
        save->is_journals = true;
        return err->code;
    }
    return save->executor->state == SNP_EXECUTOR_OPEN
               ? streams_await(save, err)
               : snp_fail(err, SNP_E_PEER, "the session ended before it was saved");
}

/* A second attempt: the running cell's answer arrived before this one's, or an image is needed. */
static int attempts(struct snp_save *save, struct snp_err *err)
{
    bool is_again = false;

    for (;;) {
        int r = attempt(save, err);

        if (r < 0 && save->is_late && !is_again) {
            is_again = true;
        } else if (r == 0 && is_whole(save) && is_image_needed(save)) {
            note_made(save);
            save->first = SNP_TAKE_PTR(save->report);
            json_decref(SNP_TAKE_PTR(save->lost));
        } else {
            return r;
        }
    }
}

static void save_end(struct snp_save *save, struct snp_err *err)
{
    struct snp_session *session = save->session;
    struct snp_server *server = session->server;

    session->unsaved.save = save->next;
    server->n_saving--;
    if (save->report != NULL) {
        note_made(save);
    } else {
        save->report = SNP_TAKE_PTR(save->first); /* it was recorded */
    }
    if (save->report == NULL) {
        snp_log(SNP_LOG_WARN, "checkpoint", "session=%s cell=%llu error=\"%s\"", session->id,
                (unsigned long long)save->cell, err->msg);
        save_failed(save, err);
    } else if (!save->has_copy && snp_store_moved(server->store, err) < 0) {
        /*
         * Data written to a folder that the next daemon does not use is not saved, although later
         * saves build on it.
         */
        json_decref(SNP_TAKE_PTR(save->report));
    }
    snp_session_event(session, SNP_EV_SAVED);
    if (save->next != NULL) {
        save_continue(save->next);
    }
    if (save->made != NULL) {
        save->made(save->ctx, save->report, save->report == NULL ? err : NULL);
    }
    snp_session_go_on(session);
    snp_checkpoint_tick(server);
    server->hooks->saved(session, save->report != NULL);
    if (is_image_needed(save)) {
        save_later(session);
    }
}

/* No state is noted while file transfers are pending; no new ones are let in. */
static void save_run(void *arg)
{
    snp_cleanup(save_done) struct snp_save save = *(const struct snp_save *)arg;
    struct snp_session *session = save.session;
    struct snp_save **last = &session->unsaved.save;
    struct snp_err err;

    snp_session_ref(session);
    snp_buf_init(&save.known, SNP_JOURNAL_KNOWN_MAX);
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = &save;
    if (session->unsaved.save != &save) {
        save_wait(&save);
    }
    session->server->n_saving++;
    if (!save.has_copy) {
        snp_session_event(session, SNP_EV_SAVE);
    }
    if (session->state == SNP_SESSION_SAVING && session->unsaved.n_putting > 0) {
        save_wait(&save);
    }
    (void)!attempts(&save, &err); /* save.report shows whether it failed */
    save_end(&save, &err);
}

void snp_checkpoint_has_puts(struct snp_session *session)
{
    session->durable.has_puts = true;
}

void snp_checkpoint_put_begin(struct snp_session *session)
{
    session->unsaved.n_putting++;
    snp_checkpoint_has_puts(session);
}

/* Begin a save that waited for it. */
void snp_checkpoint_put_end(struct snp_session *session)
{
    session->unsaved.n_putting--;
    if (session->unsaved.save != NULL && session->unsaved.save->wait != NULL &&
        session->unsaved.n_putting == 0) {
        save_continue(session->unsaved.save);
    }
}

static void save_start(struct snp_session *session,
                       const struct snp_checkpoint_copy *copy,
                       bool is_aside,
                       snp_checkpoint_made *made,
                       void *ctx)
{
    struct snp_save save = {.session = session,
                            .is_aside = is_aside && !session->unsaved.is_short,
                            .made = made,
                            .ctx = ctx};
    struct snp_err err;
    int r;

    if (copy != NULL) {
        save.has_copy = true;
        save.number = copy->number;
        save.epoch = copy->epoch;
        save.cell = copy->cell;
        save.effect = copy->effect;
        (void)snprintf(save.snapshot, sizeof(save.snapshot), "%s", copy->snapshot);
    }
    r = session->durable.is_recorded
            ? snp_co_start(save_run, &save, &err)
            : snp_fail(&err, SNP_E_NOT_FOUND, "the session has not run a cell yet");
    if (r < 0 && made != NULL) {
        made(ctx, NULL, &err);
    }
}

void snp_checkpoint_make(struct snp_session *session, snp_checkpoint_made *made, void *ctx)
{
    save_start(session, NULL, false, made, ctx);
}

int snp_checkpoint_await(struct snp_session *session, json_t **ret_report, struct snp_err *err)
{
    struct snp_await made = {0};

    snp_checkpoint_make(session, snp_await_end, &made);
    return snp_await(&made, ret_report, err);
}

void snp_checkpoint_make_aside(struct snp_session *session, snp_checkpoint_made *made, void *ctx)
{
    save_start(session, NULL, true, made, ctx);
}

void snp_checkpoint_make_copy(struct snp_session *session,
                              const struct snp_checkpoint_copy *copy,
                              snp_checkpoint_made *made,
                              void *ctx)
{
    save_start(session, copy, false, made, ctx);
}

/* When ---------------------------------------------------------------------------------------- */

static bool may_be_saved(const struct snp_session *session)
{
    return session->state == SNP_SESSION_IDLE && session->live.executor != NULL &&
           session->unsaved.save == NULL && session->live.wake == NULL &&
           session->unsaved.due_us != 0;
}

bool snp_checkpoint_is_moving(const struct snp_session *session)
{
    size_t i;
    json_t *lost;

    json_array_foreach(session->durable.checkpoint_lost, i, lost)
    {
        const char *name = snp_json_str(lost, "name", "");

        if (strncmp(name, "thread ", 7) == 0 || strncmp(name, "process ", 8) == 0 ||
            strcmp(name, "background processes") == 0) {
            return true; /* no variable has such a name */
        }
    }
    return false;
}

bool snp_checkpoint_lacks_image(const struct snp_session *session)
{
    return session->durable.checkpoint != 0 && !session->durable.has_image &&
           has_lost(session->durable.checkpoint_lost) &&
           snp_tier_has_images(session->policy.place.tier);
}

bool snp_checkpoint_is_awaited(const struct snp_session *session)
{
    const struct snp_save *save = session->unsaved.save;

    while (save != NULL && (save->made == NULL || save->has_copy)) {
        save = save->next;
    }
    return save != NULL;
}

bool snp_checkpoint_is_current(const struct snp_session *session)
{
    return session->durable.checkpoint != 0 && !session->unsaved.is_dirty &&
           !snp_checkpoint_is_moving(session);
}

void snp_checkpoint_cell_begins(struct snp_session *session)
{
    session->unsaved.has_begun_putting = session->unsaved.n_putting > 0;
    session->unsaved.begun_changes = session->unsaved.changes;
}

void snp_checkpoint_unplan(struct snp_session *session)
{
    session->unsaved.due_us = 0;
}

void snp_checkpoint_unneeded(struct snp_session *session)
{
    session->unsaved.is_dirty = false;
    snp_unsaved_clear(session);
}

void snp_checkpoint_schedule(struct snp_session *session)
{
    uint64_t now = snp_now_us();

    session->unsaved.changes++;
    if (!session->unsaved.is_dirty) {
        session->unsaved.is_dirty = true;
        session->unsaved.dirty_us = now;
    }
    session->unsaved.unsavable_us = 0;
    save_later(session);
}

void snp_checkpoint_tick(struct snp_server *server)
{
    uint64_t now = snp_now_us();
    uint64_t next = UINT64_MAX;

    if (server->is_ending) {
        return;
    }
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        struct snp_session *session = server->sessions.slots[i];

        if (session == NULL || !may_be_saved(session)) {
            continue;
        }
        if (session->unsaved.due_us <= now + 500) {
            (void)snp_entry_pay(session, NULL, NULL);
            if (!session->durable.is_recorded) {
                save_again(session); /* recorded once the owed cells are written */
            } else if (server->n_saving < SNP_CAP_SAVING) {
                snp_checkpoint_make_aside(session, NULL, NULL);
                continue;
            } /* else the end of a running save checks again */
        }
        if (session->unsaved.due_us > now + 500) {
            next = session->unsaved.due_us < next ? session->unsaved.due_us : next;
        }
    }
    if (next != UINT64_MAX) {
        (void)uv_timer_start(&server->checkpoints, on_timer, (next - now) / 1000 + 1, 0);
    }
}
