/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking, in steps; the end of each begins the next:
 *
 *   which cells are missing (journal) -> what was decided about them -> epoch + 1 (journal)
 *   -> open (tier) -> does the checkpoint fit -> load (store and tier, through a pipe)
 *   -> replay the missing cells, if so decided -> IDLE
 *
 * Invariants: session->live.wake is set from the first step to the last or until an abort; pending
 * steps then see is_over, and the last of them frees it. An epoch is in the journal before its
 * executor is requested.
 */
#include "daemon/cell/wake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/cell/cell.h"
#include "daemon/cell/replay.h"
#include "daemon/co.h"
#include "daemon/save/at_rest.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/close.h"
#include "daemon/save/durable.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/load.h"
#include "daemon/save/missing.h"
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
#include "store/journal.h"
#include "wire/result.h"
#include "wire/session.h"

#define ROLLBACK_NAME "the rollback to cell " /* no variable has such a name */

struct snp_wake {
    struct snp_session *session; /* one reference */
    unsigned pending;            /* pending steps */
    bool is_over;                /* aborted or done; freed when nothing is pending */
    bool is_replaying;
    bool was_live; /* the session had an executor before */
    uint64_t begun_us;
    struct snp_missing_place place;
    struct snp_missing missing; /* owned */
    json_t *left_out;           /* owned: cells that are left out of the replay; or NULL */
    size_t replayed;            /* cells replayed so far */
    json_t *differing;          /* owned: rows of cells whose replay differed; or NULL */
    enum snp_recover decision;
    enum snp_load_effort effort;
    bool has_tried_image;
    bool is_image;                     /* restored from an image */
    char no_image[200];                /* why not; "" = not tried */
    const struct snp_executor *origin; /* to clone; borrowed until that has begun */
    bool is_again;       /* a complete load was tried a second time, if it made sense */
    uint64_t checkpoint; /* being loaded */
    json_t *failed;      /* owned: losses of the restore; or NULL */
    struct snp_err err;  /* the first error in loading */

    /* Reading a missing cell; the store's thread writes these while it is pending. */
    uint64_t cell; /* 0 = no more */
    uint64_t last; /* the last replayed cell, to be compared; 0 = none */
    uint64_t last_replay;
    char last_differs[SNP_REPLAY_TEXT];
    struct snp_buf code;
    size_t code_len;
    char kind[16];
    char *argv; /* owned */
    char *spec; /* owned */
};

static void replay_next(struct snp_wake *wake);
static void missing_find(struct snp_wake *wake);
static void executor_open(struct snp_wake *wake);
static void epoch_raise(struct snp_wake *wake);

/* Its life --------------------------------------------------------------------------------- */

static void wake_release(struct snp_wake *wake)
{
    if (!wake->is_over || wake->pending > 0) {
        return;
    }
    snp_missing_done(&wake->missing);
    free(wake->argv);
    free(wake->spec);
    snp_buf_done(&wake->code);
    json_decref(wake->failed);
    json_decref(wake->left_out);
    json_decref(wake->differing);
    snp_session_unref(wake->session);
    free(wake);
}

/* A step has ended. False: the wake is over, and the caller returns. */
static bool step_end(struct snp_wake *wake)
{
    wake->pending--;
    if (wake->is_over) {
        wake_release(wake);
        return false;
    }
    return true;
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
        wake_release(wake);
    }
}

/* The session stays asleep; waiting calls get the error. */
static void wake_fail(struct snp_wake *wake, const struct snp_err *err)
{
    struct snp_session *session = wake->session;

    snp_log(SNP_LOG_WARN, "wake", "session=%s epoch=%llu error=\"%s\"", session->id,
            (unsigned long long)session->epoch, err->msg);
    snp_session_ref(session);
    wake_over(wake);
    if (session->live.executor != NULL) {
        /* A half-filled executor cannot be used. New calls wait until it is gone. */
        snp_leave_drop(session);
    } else {
        snp_session_rest(session);
    }
    (void)snp_exec_fail_waiting(session, err);
    if (!wake->was_live && session->policy.manifest == NULL && session->live.executor == NULL) {
        snp_turns_fail(session, false, err);
        snp_session_remove(session); /* it never existed */
    } else {
        snp_turns_run(session);
    }
    wake_release(wake);
    snp_session_unref(session);
}

/* The end of waking ------------------------------------------------------------------------- */

/* The replayed cells, or the others. */
static json_t *cells_json(const struct snp_wake *wake, bool is_replayed)
{
    bool is_replay = wake->decision == SNP_RECOVER_REPLAY;
    json_t *list = is_replayed || wake->left_out == NULL ? json_array() : json_copy(wake->left_out);

    for (size_t i = 0; is_replayed == is_replay && i < wake->missing.n_cells; i++) {
        (void)json_array_append_new(list, json_integer((json_int_t)wake->missing.cells[i].cell));
    }
    return list;
}

static json_t *puts_json(const struct snp_wake *wake)
{
    json_t *list = json_array();

    for (size_t i = 0; i < wake->missing.n_puts; i++) {
        (void)json_array_append_new(list, json_string(wake->missing.puts[i]));
    }
    return list;
}

/* Add to `to` the entries of a list in `from`, an undelivered report, that `to` lacks. */
static void untold_add(json_t *to, const json_t *from, const char *name)
{
    json_t *list = json_object_get(to, name);
    size_t at = 0;
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(from, name), i, item)
    {
        bool is_there = false;

        for (size_t j = 0; j < json_array_size(list) && !is_there; j++) {
            is_there = json_equal(json_array_get(list, j), item) != 0;
        }
        if (!is_there) {
            (void)json_array_insert(list, at++, item);
        }
    }
}

/* The same for a rollback, which is listed among the losses. */
static void rollback_add(json_t *to, const json_t *from)
{
    size_t i;
    json_t *one;

    json_array_foreach(json_object_get(from, "failed"), i, one)
    {
        if (snp_has_prefix(snp_json_str(one, "name", ""), ROLLBACK_NAME)) {
            (void)json_array_append(json_object_get(to, "failed"), one);
        }
    }
}

/* If the session died before its first result was sent, the next report includes its losses. */
static void restored_set(struct snp_session *session, json_t *report)
{
    if (report != NULL && session->live.restored != NULL) {
        untold_add(report, session->live.restored, "missing");
        untold_add(report, session->live.restored, "missing_puts");
        rollback_add(report, session->live.restored);
    }
    json_decref(session->live.restored);
    session->live.restored = report;
}

/* If variables were lost, a new name may have been one of them. NULL: no losses. */
static json_t *lost_name(const struct snp_session *session)
{
    time_t at = (time_t)(session->server->sessions_lost_us / 1000000);
    snp_autojson json_t *name = NULL;
    snp_autojson json_t *reason = NULL;
    snp_autojson json_t *none = NULL;
    snp_autojson json_t *failed = NULL;
    char day[16] = "";
    struct tm tm;

    if (at == 0) {
        return NULL;
    }
    (void)strftime(day, sizeof(day), "%Y-%m-%d", gmtime_r(&at, &tm));
    reason = json_sprintf("this session is new; the journal was damaged on %s UTC, and an "
                          "older session of this name may have been lost",
                          day);
    name = json_string(session->name);
    none = json_array();
    failed = json_array();
    (void)json_array_append_new(failed, SNP_WRITE(snp_failed_row, .name = name, .reason = reason));
    return SNP_WRITE(snp_result_restored, .missing = none, .replayed = none, .failed = failed,
                     .missing_puts = none);
}

/* Losses of the restore, including rollbacks and results: owned by the caller. */
static json_t *failed_json(const struct snp_wake *wake)
{
    json_t *failed = wake->failed == NULL ? json_array() : json_copy(wake->failed);

    (void)json_array_extend(failed, wake->differing);
    if (wake->missing.has_rollback) {
        snp_autojson json_t *name =
            json_sprintf(ROLLBACK_NAME "%llu", (unsigned long long)wake->missing.rollback_cell);
        snp_autojson json_t *reason =
            json_string("the checkpoint is damaged; the session was restored from an older one");

        (void)json_array_append_new(failed,
                                    SNP_WRITE(snp_failed_row, .name = name, .reason = reason));
    }
    return failed;
}

static json_t *restored_json(const struct snp_wake *wake, uint64_t us)
{
    snp_autojson json_t *missing = cells_json(wake, false);
    snp_autojson json_t *replayed = cells_json(wake, true);
    snp_autojson json_t *failed = failed_json(wake);
    snp_autojson json_t *puts = puts_json(wake);

    return SNP_WRITE(snp_result_restored, .checkpoint = wake->checkpoint,
                     .cell = wake->checkpoint == 0 ? 0 : wake->place.checkpoint_cell,
                     .missing = missing, .replayed = replayed, .failed = failed,
                     .missing_puts = puts, .image = wake->is_image,
                     .no_image = wake->no_image[0] == '\0' ? NULL : wake->no_image, .wake_us = us);
}

static void wake_done(struct snp_wake *wake)
{
    struct snp_session *session = wake->session;
    uint64_t us = snp_now_us() - wake->begun_us;

    restored_set(session, !wake->was_live ? wake->checkpoint == 0 ? lost_name(session) : NULL
                                          : restored_json(wake, us));
    snp_log(SNP_LOG_INFO, "wake", "session=%s epoch=%llu checkpoint=%llu us=%llu", session->id,
            (unsigned long long)session->epoch, (unsigned long long)wake->checkpoint,
            (unsigned long long)us);
    if ((wake->missing.n_puts > 0 || wake->missing.has_rollback) &&
        (wake->missing.n_cells == 0 || wake->decision != SNP_RECOVER_REPLAY)) {
        /*
         * Reported with the next result, then no longer asked about. Another replay lacks them,
         * too.
         */
        snp_entry_puts_forgiven(session);
    }
    wake_over(wake);
    snp_checkpoint_unneeded(session);
    session->live.is_told_lost = false;
    if (wake->decision == SNP_RECOVER_REPLAY && wake->missing.n_cells > 0) {
        snp_checkpoint_schedule(session);
    }
    snp_session_event(session, SNP_EV_AWAKE);
    if (wake->checkpoint == 0 && session->cells == 0) {
        session->server->hooks->begun(session);
    }
    snp_session_go_on(session);
    wake_release(wake);
}

static void accept_written(void *ctx, const struct snp_err *why)
{
    struct snp_wake *wake = ctx;
    struct snp_session *session = wake->session;
    struct snp_err err;

    if (!step_end(wake)) {
        return;
    }
    if (why != NULL) {
        (void)snp_fail(
            &err, why->code,
            "cannot wake the session: the journal could not record the dropped cells (%.300s)",
            why->msg);
        wake_fail(wake, &err);
        return;
    }
    snp_durable_last_unknown(session, false);
    snp_entry_event(session->server, "accepted_loss", session,
                    "session %s continues from cell %llu; %zu later cells were dropped at the "
                    "request of the caller",
                    session->name, (unsigned long long)wake->place.checkpoint_cell,
                    wake->missing.n_cells + (size_t)wake->missing.n_beyond);
    wake_done(wake);
}

/*
 * Mark cells as given up only once the state that lacks them is loaded: a checkpoint that turns out
 * to be damaged must not take them with it. They stay so marked, including what a replay did before
 * it stopped.
 */
static void accept_loss(struct snp_wake *wake)
{
    struct snp_session *session = wake->session;
    struct snp_err err;

    snp_durable_accept(session, wake->place.checkpoint_cell);
    wake->pending++;
    if (snp_entry_accepted(session, wake->place.after, accept_written, wake, &err) < 0) {
        wake->pending--;
        wake_fail(wake, &err);
    }
}

static void wake_filled(struct snp_wake *wake)
{
    if (wake->missing.n_cells > 0 && wake->decision == SNP_RECOVER_REPLAY) {
        wake->is_replaying = true;
        replay_next(wake);
    } else if (wake->missing.n_cells > 0 && wake->decision == SNP_RECOVER_CHECKPOINT &&
               wake->session->durable.is_recorded) {
        accept_loss(wake);
    } else {
        wake_done(wake);
    }
}

/* Replay -------------------------------------------------------------------------------------- */

/* Compare the last cell with its first run, and read the next. */
static int run_cell_read(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_wake *wake = arg;
    struct snp_journal_cell row;
    int r;

    wake->last_differs[0] = '\0';
    if (wake->last != 0) {
        SNP_TRY(snp_replay_compare(tx, wake->place.id, wake->last, wake->last_replay,
                                   wake->last_differs, err));
    }
    if (wake->cell == 0) {
        return 0;
    }
    SNP_TRY(snp_journal_cell_get(tx, wake->place.id, wake->cell, &row, err));
    free(SNP_TAKE_PTR(wake->argv));
    free(SNP_TAKE_PTR(wake->spec));
    wake->argv = row.argv == NULL ? NULL : strdup(row.argv);
    wake->spec = row.spec == NULL ? NULL : strdup(row.spec);
    (void)snprintf(wake->kind, sizeof(wake->kind), "%s", row.kind);
    snp_buf_done(&wake->code);
    snp_buf_init(&wake->code, SNP_FRAME_BODY_MAX);
    r = snp_journal_cell_part(tx, wake->place.id, wake->cell, SNP_PART_CODE, &wake->code, err);
    if (r == SNP_E_NOT_FOUND && strcmp(wake->kind, "command") == 0) {
        r = 0; /* it has none */
    }
    wake->code_len = wake->code.len;
    if (r == 0 && row.stdin_bytes > 0) {
        r = snp_journal_cell_part(tx, wake->place.id, wake->cell, SNP_PART_STDIN, &wake->code, err);
    }
    return r;
}

/* Rebuild the cell's original request. */
static int replay_exec(struct snp_wake *wake, struct snp_exec **ret, struct snp_err *err)
{
    snp_autojson json_t *argv =
        wake->argv == NULL ? NULL : json_loads(wake->argv, JSON_REJECT_DUPLICATES, NULL);
    snp_autojson json_t *was = wake->spec == NULL ? NULL : json_loads(wake->spec, 0, NULL);
    snp_autojson json_t *head =
        SNP_WRITE(snp_exec_request, SNP_EXEC_DEFAULTS, .kind = wake->kind,
                  .code_len = wake->code_len, .stdin = snp_json_bool(was, "stdin", false),
                  .internal = snp_json_bool(was, "internal", false), .argv = argv);
    struct snp_exec *exec = calloc(1, sizeof(*exec));
    const char *bytes;
    int r;

    if (exec == NULL || head == NULL) {
        free(exec);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = snp_exec_spec_read(head, wake->code.len, &exec->spec, err);
    if (r == 0) {
        exec->raw = malloc(wake->code.len + 1);
        r = exec->raw == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
    }
    if (r < 0) {
        snp_exec_spec_done(&exec->spec);
        free(exec);
        return r;
    }
    SNP_ASSERT(exec->raw != NULL);
    bytes = snp_buf_bytes(&wake->code);
    if (bytes != NULL) {
        memcpy(exec->raw, bytes, wake->code.len);
    }
    exec->raw_len = wake->code.len;
    exec->wall_ms = (uint64_t)snp_json_int(
        was, "wall_ms", (int64_t)wake->session->policy.limits.value[SNP_LIMIT_WALL]);
    exec->replay_of = wake->missing.cells[wake->replayed].cell;
    snp_session_ref(wake->session);
    exec->session = wake->session;
    *ret = exec;
    return 0;
}

/* A cell cannot be replayed: skip it, or replay none. */
#define fail_replay(err, session, ...)                              \
    (snp_fail_with((err), SNP_E_DENIED, SNP_REMEDY_RECOVER, NULL,   \
                   SNP_WAY_SKIP | SNP_WAY_CHECKPOINT, __VA_ARGS__), \
     snp_err_about((err), (session)->name))

/* The cell ended the session's interpreter. */
static bool is_lost(const json_t *result)
{
    const char *state = snp_json_str(result, "state", "");

    return strcmp(state, "lost") == 0 || strcmp(state, "restored_from_checkpoint") == 0;
}

/* A cell was replayed. The next step is decided once the cell has released the session. */
static void replay_ended(void *ctx, const json_t *head, const struct snp_err *err)
{
    struct snp_wake *wake = ctx;
    const struct snp_session *session = wake->session;
    const struct snp_missing_cell *was = &wake->missing.cells[wake->replayed];
    const char *status = snp_json_str(head, "status", "unknown");

    wake->pending--;
    if (wake->is_over) {
        wake_release(wake);
        return;
    }
    if (head == NULL && session->live.executor != NULL) {
        wake->err = *err;
        (void)snp_err_wrap(&wake->err, "replay of cell %llu", (unsigned long long)was->cell);
    } else if (head == NULL || is_lost(head)) {
        fail_replay(&wake->err, session, "Replaying cell %llu ended session %.64s",
                    (unsigned long long)was->cell, session->name);
    } else if (strcmp(was->status, "unknown") != 0 && strcmp(was->status, "running") != 0 &&
               strcmp(was->status, status) != 0) {
        fail_replay(&wake->err, session,
                    "replay stopped at cell %llu: it ended with %s before and with %s now, so "
                    "later cells could differ",
                    (unsigned long long)was->cell, was->status, status);
    } else {
        wake->last = was->cell;
        wake->last_replay = (uint64_t)snp_json_int(head, "cell", 0);
    }
    wake->replayed++;
}

/* Report the cell whose replay differed and continue: times and random numbers differ, too. */
static int differing_note(struct snp_wake *wake, struct snp_err *err)
{
    snp_autojson json_t *name = NULL;
    snp_autojson json_t *reason = NULL;
    uint64_t cell = wake->last;

    wake->last = 0;
    if (wake->last_differs[0] == '\0') {
        return 0;
    }
    name = json_sprintf("cell %llu", (unsigned long long)cell);
    reason = json_sprintf("its replay differs from its first run: %s", wake->last_differs);
    if (wake->differing == NULL) {
        wake->differing = json_array();
    }
    if (json_array_append_new(wake->differing,
                              SNP_WRITE(snp_failed_row, .name = name, .reason = reason)) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

static void replay_read(void *arg, const struct snp_err *read_err)
{
    struct snp_wake *wake = arg;
    struct snp_session *session = wake->session;
    struct snp_exec *exec = NULL;
    struct snp_err err = *read_err;

    if (!step_end(wake)) {
        return;
    }
    if (err.code != SNP_OK) {
        (void)snp_err_wrap(&err, "cannot run cell %llu again",
                           (unsigned long long)(wake->cell == 0 ? wake->last : wake->cell));
        wake_fail(wake, &err);
        return;
    }
    if (differing_note(wake, &err) < 0) {
        wake_fail(wake, &err);
        return;
    }
    if (session->live.executor == NULL) {
        (void)snp_fail(&err, SNP_E_PEER, "the session was lost while its cells were replayed");
        wake_fail(wake, &err);
        return;
    }
    if (wake->cell == 0) {
        wake_done(wake);
        return;
    }
    if (replay_exec(wake, &exec, &err) < 0) {
        wake_fail(wake, &err);
        return;
    }
    SNP_ASSERT(exec != NULL);
    exec->ended = replay_ended;
    exec->ctx = wake;
    wake->pending++;
    if (snp_cell_run(exec, &err) < 0) {
        snp_exec_fail(exec, &err); /* calls replay_ended */
        snp_wake_go_on(session);
    }
}

static void replay_next(struct snp_wake *wake)
{
    wake->cell =
        wake->replayed < wake->missing.n_cells ? wake->missing.cells[wake->replayed].cell : 0;
    wake->pending++;
    SNP_STORE_DO(wake->session->server->store, .run = run_cell_read, .done = replay_read,
                 .arg = wake);
}

void snp_wake_go_on(struct snp_session *session)
{
    struct snp_wake *wake = session->live.wake;

    if (wake != NULL && session->live.wants_room != 0) {
        executor_open(wake);
        return;
    }
    if (wake == NULL || !wake->is_replaying || wake->pending > 0) {
        return;
    }
    if (wake->err.code == SNP_OK && session->live.executor == NULL) {
        (void)snp_fail(&wake->err, SNP_E_PEER,
                       "the session was lost while its cells were replayed");
    }
    if (wake->err.code != SNP_OK) {
        struct snp_err err = wake->err;

        wake_fail(wake, &err);
    } else {
        replay_next(wake);
    }
}

/* Loading ------------------------------------------------------------------------------------- */

/* The executor that failed to load is gone. */
static void load_again(void *ctx, const struct snp_err *err)
{
    struct snp_wake *wake = ctx;

    (void)err;
    if (step_end(wake)) {
        /*
         * A checkpoint that was restored once is tried again in full: a temporary shortage must not
         * lose variables.
         */
        wake->effort += wake->is_again || !snp_prove_is_done(wake->session) ? 1 : 0;
        wake->is_again = true;
        epoch_raise(wake);
    }
}

/* Try less: first the variables that fit, then the files alone. */
static void load_less(struct snp_wake *wake)
{
    struct snp_session *session = wake->session;

    snp_log(SNP_LOG_WARN, "wake", "session=%s epoch=%llu effort=%d error=\"%s\"", session->id,
            (unsigned long long)session->epoch, (int)wake->effort, wake->err.msg);
    wake->pending++;
    if (session->live.executor == NULL) {
        load_again(wake, NULL);
    } else {
        snp_executor_close(session->live.executor, load_again, wake);
    }
}

static void load(void *arg)
{
    struct snp_wake *wake = arg;
    struct snp_session *session = wake->session;
    snp_autojson json_t *failed = NULL;
    struct snp_err err;
    bool is_sent = false;
    int r =
        snp_load(session->live.executor, wake->checkpoint, wake->effort, &is_sent, &failed, &err);

    if (!step_end(wake)) {
        return;
    }
    if (r == 0) {
        if (wake->effort == SNP_LOAD_ALL) {
            snp_prove_note(session, wake->checkpoint, failed);
        }
        (void)json_array_extend(wake->failed, failed);
        wake_filled(wake);
        return;
    }
    wake->err = err;
    /* The sandbox refused it and the tier is there, so a smaller load may succeed. */
    if (is_sent && r != SNP_E_NOT_FOUND && r != SNP_E_PEER && wake->effort + 1 < SNP_LOAD_N) {
        load_less(wake);
        return;
    }
    if (r == SNP_E_NOT_FOUND) {
        snp_rest_look(session); /* the next call uses the previous checkpoint */
        (void)snp_fail(&err, r,
                       "checkpoint %llu of the session is damaged (%.200s). No cell ran. "
                       "Repeat the call to use the previous checkpoint",
                       (unsigned long long)wake->checkpoint, wake->err.msg);
    } else {
        (void)snp_err_wrap(&err, "cannot restore checkpoint %llu of the session",
                           (unsigned long long)wake->checkpoint);
    }
    wake_fail(wake, &err);
}

/* Start a coroutine as a pending step. */
static int step_start(struct snp_wake *wake, void (*run)(void *arg), struct snp_err *err)
{
    int r;

    wake->pending++;
    r = snp_co_start(run, wake, err);
    if (r < 0) {
        wake->pending--; /* else the wake may be gone */
    }
    return r;
}

static int load_start(struct snp_wake *wake, struct snp_err *err)
{
    struct snp_session *session = wake->session;

    json_decref(wake->failed);
    wake->failed = session->durable.checkpoint_lost == NULL
                       ? json_array()
                       : json_deep_copy(session->durable.checkpoint_lost);
    SNP_TRY_MEMORY(wake->failed, err);
    if (wake->no_image[0] != '\0') {
        snp_no_image_drop(wake->failed); /* reported as `no_image` of the answer */
    }
    return step_start(wake, load, err);
}

static void load_begin(struct snp_wake *wake)
{
    struct snp_err err;

    if (wake->checkpoint == 0) {
        wake_filled(wake);
    } else if (load_start(wake, &err) < 0) {
        wake_fail(wake, &err);
    }
}

static void image_gone(void *ctx, const struct snp_err *err)
{
    struct snp_wake *wake = ctx;

    (void)err;
    if (step_end(wake)) {
        epoch_raise(wake);
    }
}

/* There is no image: wake it like any other session. */
static void clone_refused(struct snp_wake *wake, const struct snp_err *why)
{
    struct snp_session *session = wake->session;

    (void)snprintf(session->live.fork_of.why, sizeof(session->live.fork_of.why), "%.190s",
                   why->msg);
    snp_log(SNP_LOG_INFO, "fork", "session=%s no_image=\"%s\"", session->id, why->msg);
}

static void go_on_without(struct snp_wake *wake, const struct snp_err *why)
{
    struct snp_executor *executor = wake->session->live.executor;

    if (why->code == SNP_E_UNSUPPORTED && executor != NULL) {
        load_begin(wake);
        return;
    }
    wake->pending++; /* half filled: replace it */
    if (executor == NULL) {
        image_gone(wake, NULL);
    } else {
        snp_executor_close(executor, image_gone, wake);
    }
}

/* A fork of a live session continues from that session's current state, where possible. */
static void load_clone(void *arg)
{
    struct snp_wake *wake = arg;
    struct snp_session *session = wake->session;
    const struct snp_load_origin origin = {.executor = wake->origin,
                                           .epoch = session->live.fork_of.epoch,
                                           .cell = session->live.fork_of.cell};
    struct snp_err err;
    int r = snp_load_clone(session->live.executor, &origin, &err);

    if (!step_end(wake)) {
        return;
    }
    session->live.fork_of.is_image = r == 0;
    if (r == 0) {
        wake_filled(wake);
    } else {
        clone_refused(wake, &err);
        go_on_without(wake, &err);
    }
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

static void load_image(void *arg)
{
    struct snp_wake *wake = arg;
    struct snp_session *session = wake->session;
    snp_autojson json_t *failed = NULL;
    const char *reason;
    bool is_sent = false;
    struct snp_err err;
    int r =
        snp_load(session->live.executor, wake->checkpoint, SNP_LOAD_IMAGE, &is_sent, &failed, &err);

    if (!step_end(wake)) {
        return;
    }
    if (r == 0) {
        wake->is_image = session->live.fork_of.is_image = true;
        json_decref(wake->failed);
        wake->failed = folders_lost(session->durable.checkpoint_lost);
        wake_filled(wake);
        return;
    }
    reason = snp_no_image_reason(session->durable.checkpoint_lost);
    (void)snprintf(wake->no_image, sizeof(wake->no_image), "%.190s",
                   reason != NULL ? reason : err.msg);
    if (session->live.fork_of.why[0] == '\0') {
        memcpy(session->live.fork_of.why, wake->no_image, sizeof(wake->no_image));
    }
    snp_log(SNP_LOG_INFO, "wake", "session=%s no_image=\"%s\"", session->id, wake->no_image);
    go_on_without(wake, &err);
}

/* An image, if one could be made, holds what variables cannot. */
static bool image_start(struct snp_wake *wake)
{
    struct snp_session *session = wake->session;
    const json_t *first = NULL;
    struct snp_err err;

    if (wake->has_tried_image || wake->checkpoint == 0 || wake->effort != SNP_LOAD_ALL ||
        snp_lost_count(session->durable.checkpoint_lost, &first) == 0 ||
        !snp_tier_has_images(session->policy.tier)) {
        return false;
    }
    wake->has_tried_image = true;
    return step_start(wake, load_image, &err) == 0;
}

static bool clone_start(struct snp_wake *wake)
{
    struct snp_session *session = wake->session;
    struct snp_session *from =
        session->live.fork_of.session[0] == '\0'
            ? NULL
            : snp_sessions_find(session->server, session->live.fork_of.session);
    struct snp_err err;

    session->live.fork_of.session[0] = '\0'; /* one attempt only */
    wake->origin = from == NULL ? NULL : from->live.executor;
    if (wake->origin == NULL) {
        return false;
    }
    wake->has_tried_image = true; /* the same reason applies to an image on disk */
    if (step_start(wake, load_clone, &err) < 0) {
        clone_refused(wake, &err);
        return false;
    }
    return true;
}

/* Opening ------------------------------------------------------------------------------------- */

static void opened(void *ctx, json_t *manifest, const struct snp_err *why)
{
    struct snp_session *session = ctx;
    struct snp_wake *wake = session->live.wake;
    struct snp_err err = {.code = SNP_OK};

    if (wake == NULL || session->state != SNP_SESSION_WAKING) {
        return; /* it is ending */
    }
    if (manifest == NULL) {
        wake_fail(wake, why);
        return;
    }
    if (wake->checkpoint != 0 && snp_state_key_check(session, manifest, &err) < 0) {
        wake_fail(wake, &err);
        return;
    }
    if (snp_session_policy_opened(session, manifest, &err) < 0) {
        wake_fail(wake, &err);
    } else if (!clone_start(wake) && !image_start(wake)) {
        load_begin(wake);
    }
}

/* Open the executor as soon as there is room for one more. */
static void executor_open(struct snp_wake *wake)
{
    struct snp_session *session = wake->session;
    struct snp_err err;
    int r = snp_room_find(session->server, &err);

    if (r == 1) {
        snp_room_want(session);
        return;
    }
    snp_room_unwant(session);
    if (r == 0 && session->policy.project != NULL) {
        r = snp_session_project_check(session->policy.project, session->server->options.home, &err);
    }
    SNP_THEN(r, snp_executor_open(session, opened, &err));
    if (r < 0) {
        wake_fail(wake, &err);
    }
}

static void epoch_written(void *ctx, const struct snp_err *why)
{
    struct snp_wake *wake = ctx;
    struct snp_err err = {.code = SNP_OK};
    int r = 0;

    if (!step_end(wake)) {
        return;
    }
    if (why != NULL) {
        r = snp_fail(&err, why->code,
                     "cannot wake the session: the journal cannot be written (%.300s)", why->msg);
    }
    if (r < 0) {
        wake_fail(wake, &err);
    } else {
        executor_open(wake);
    }
}

static void epoch_raise(struct snp_wake *wake)
{
    struct snp_session *session = wake->session;
    struct snp_err err;

    session->epoch++;
    wake->checkpoint = session->durable.checkpoint;
    if (!session->durable.is_recorded) {
        wake->pending++;
        epoch_written(wake, NULL);
        return;
    }
    wake->pending++;
    if (snp_entry_session(session, epoch_written, wake, &err) < 0) {
        wake->pending--;
        wake_fail(wake, &err);
    }
}

/* The decision -------------------------------------------------------------------------------- */

/*
 * The first call in the queue decides. A call without a decision fails, so that it does not run on
 * an unexpected state; the next one may decide.
 */
static bool decide(struct snp_wake *wake, struct snp_err *err)
{
    struct snp_session *session = wake->session;
    const struct snp_missing_cell *deadly;

    (void)snp_missing_fail(&wake->missing, &wake->place, err);
    while (session->live.n_waiting > 0 &&
           session->live.waiting[0]->spec.recover == SNP_RECOVER_ASK) {
        snp_exec_fail_first(session, err);
    }
    if (session->live.n_waiting == 0) {
        return false;
    }
    wake->decision = session->live.waiting[0]->spec.recover;
    if (wake->decision == SNP_RECOVER_SKIP) {
        wake->decision = SNP_RECOVER_REPLAY;
        wake->left_out = snp_missing_leave_out(&wake->missing);
    }
    deadly = snp_missing_deadly(&wake->missing);
    if (wake->decision == SNP_RECOVER_REPLAY && deadly != NULL) {
        fail_replay(err, session,
                    "Replaying cell %llu ended session %.64s before, so it was not "
                    "replayed again",
                    (unsigned long long)deadly->cell, session->name);
        return false;
    }
    if (wake->decision == SNP_RECOVER_REPLAY && wake->missing.n_beyond > 0) {
        (void)snp_fail_with(err, SNP_E_LIMIT, SNP_REMEDY_RECOVER, NULL, SNP_WAY_CHECKPOINT,
                            "session %s is missing %llu cells; at most %d can be replayed",
                            session->name,
                            (unsigned long long)(wake->missing.n_cells + wake->missing.n_beyond),
                            SNP_MISSING_CELLS_MAX);
        snp_err_about(err, session->name);
        snp_err_limit(err, "replayed_cells", SNP_MISSING_CELLS_MAX);
        return false;
    }
    return true;
}

static int run_missing(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_wake *wake = arg;

    SNP_TRY(snp_missing_find(tx, &wake->place, &wake->missing, err));
    return snp_journal_cell_undo_replays(tx, wake->place.id, wake->place.after, err);
}

static void missing_found(void *arg, const struct snp_err *found_err)
{
    struct snp_wake *wake = arg;
    struct snp_err err = *found_err;

    if (!step_end(wake)) {
        return;
    }
    if (err.code != SNP_OK) {
        (void)snp_err_wrap(&err, "cannot wake the session");
        wake_fail(wake, &err);
        return;
    }
    if (wake->place.checkpoint != wake->session->durable.checkpoint) {
        /*
         * The last wake found the checkpoint damaged: beside an older one more cells are missing.
         */
        snp_missing_place(wake->session, &wake->place);
        missing_find(wake);
        return;
    }
    if (wake->missing.n_puts > 0 || wake->missing.has_rollback) {
        snp_checkpoint_has_puts(wake->session); /* the state at rest depends on it */
    }
    if (snp_missing_any(&wake->missing) && !decide(wake, &err)) {
        wake_fail(wake, &err);
        return;
    }
    epoch_raise(wake);
}

static void missing_find(struct snp_wake *wake)
{
    wake->pending++;
    SNP_STORE_DO(wake->session->server->store, .run = run_missing, .done = missing_found,
                 .arg = wake);
}

/* A cell ran and was not recorded: until it is, the missing cells are not known. */
static void debt_paid(void *ctx, const struct snp_err *why)
{
    struct snp_wake *wake = ctx;
    struct snp_err err;

    if (!step_end(wake)) {
        return;
    }
    if (why != NULL) {
        (void)snp_fail(&err, why->code,
                       "cannot wake the session: the journal cannot be written (%.300s)", why->msg);
        wake_fail(wake, &err);
        return;
    }
    missing_find(wake);
}

void snp_wake_start(struct snp_session *session)
{
    struct snp_wake *wake = calloc(1, sizeof(*wake));
    struct snp_err err;

    if (wake == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        (void)snp_exec_fail_waiting(session, &err);
        return;
    }
    wake->session = session;
    wake->begun_us = snp_now_us();
    wake->was_live = session->policy.manifest != NULL;
    snp_missing_place(session, &wake->place);
    snp_session_ref(session);
    session->live.wake = wake;
    snp_session_event(session, SNP_EV_WAKE);
    wake->checkpoint = session->durable.checkpoint;
    if (!session->durable.is_recorded && session->durable.debt == NULL) {
        epoch_raise(wake);
        return;
    }
    wake->pending++;
    if (snp_entry_pay(session, debt_paid, wake)) {
        return;
    }
    wake->pending--;
    missing_find(wake);
}
