/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of the store that cells and sessions need.
 *
 * A job runs on the store's thread while the loop goes on, so it owns everything it reads. It
 * holds a reference of its session, which only the loop touches.
 */
#include "daemon/save/keep.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/session.h"
#include "daemon/session/spec.h"
#include "store/journal.h"
#include "wire/rpc.h"

enum {
    FILES_KEPT = 1000, /* rows of one cell; the result has all */
    EVENT_MAX = 400,
};

/* Everything a job may need; what it does not use is zero. */
struct snp_keep {
    struct snp_session *session; /* one reference, or NULL */
    snp_keep_done *done;
    void *ctx;
    char id[SNP_SESSION_ID_LEN + 1];
    char name[SNP_SESSION_NAME_MAX + 1];
    char *spec; /* owned: the session's */
    bool has_row;
    bool has_undo; /* cells after this one read "undone" */
    uint64_t undo_after;
    bool has_intent; /* of an outcome: the intent goes along */
    uint64_t started_us;
    uint64_t epoch;
    uint64_t cell;
    uint64_t created_us;
    uint64_t now_us;
    char *argv;      /* owned */
    char *cell_spec; /* owned */
    char *detail;    /* owned: of an effect */
    char kind[16];
    char status[16];
    char state[32];
    uint64_t wall_us;
    char *raw; /* owned: code, then input */
    size_t code_len;
    size_t raw_len;
    char *result;         /* owned */
    struct snp_buf shown; /* owned */
    struct snp_buf seen[2];
    char **files; /* owned, n_files of them: one letter of the change, then the path */
    size_t n_files;
    char text[EVENT_MAX];
    bool is_cell;          /* of a failure the cell is owed */
    struct snp_keep *debt; /* owned: what is written down first, each with the next; or NULL */
};

bool snp_keep_is_suspect(const struct snp_session *session)
{
    struct snp_err ignored;

    return session->is_suspect || !session->server->is_recovered ||
           snp_store_health(session->server->store, &ignored) < 0;
}

static void keep_free(struct snp_keep *keep)
{
    if (keep == NULL) {
        return;
    }
    keep_free(keep->debt);
    if (keep->session != NULL) {
        snp_session_unref(keep->session);
    }
    free(keep->spec);
    free(keep->argv);
    free(keep->cell_spec);
    free(keep->detail);
    free(keep->raw);
    free(keep->result);
    snp_buf_done(&keep->shown);
    snp_buf_done(&keep->seen[0]);
    snp_buf_done(&keep->seen[1]);
    for (size_t i = 0; i < keep->n_files; i++) {
        free(keep->files[i]);
    }
    free(keep->files);
    free(keep);
}

/* session may be NULL. */
static struct snp_keep *keep_new(struct snp_session *session, snp_keep_done *done, void *ctx)
{
    struct snp_keep *keep = calloc(1, sizeof(*keep));

    if (keep == NULL) {
        return NULL;
    }
    keep->done = done;
    keep->ctx = ctx;
    keep->now_us = snp_wall_us();
    if (session != NULL) {
        snp_session_ref(session);
        keep->session = session;
        memcpy(keep->id, session->id, sizeof(keep->id));
        memcpy(keep->name, session->name, sizeof(keep->name));
        keep->epoch = session->epoch;
        keep->cell = session->cells;
        keep->created_us = session->created_wall_us;
    }
    return keep;
}

/* What is owed of a cell, without what is no longer true of it. NULL: out of memory. */
static struct snp_keep *debt_new(struct snp_keep *keep)
{
    struct snp_keep *debt = calloc(1, sizeof(*debt));

    if (debt == NULL) {
        return NULL; /* after a restart it reads unknown if its intent was written */
    }
    *debt = *keep;
    debt->session = NULL;
    debt->done = NULL;
    debt->result = NULL;
    debt->shown = (struct snp_buf){0};
    debt->files = NULL;
    debt->n_files = 0;
    debt->debt = NULL;
    if (strcmp(debt->status, "refused") != 0) {
        (void)snprintf(debt->status, sizeof(debt->status), "unknown");
    }
    if (debt->state[0] == '\0') { /* else what became of its effects is known */
        (void)snprintf(debt->state, sizeof(debt->state), "kept");
    }
    /* These are the debt's now. */
    keep->spec = NULL;
    keep->argv = NULL;
    keep->cell_spec = NULL;
    keep->raw = NULL;
    return debt;
}

/* One more, in the order of their cells; of two of one cell the first stays: it may have the intent. */
static void debt_add(struct snp_session *session, struct snp_keep *debt)
{
    struct snp_keep **at = &session->debt;

    while (*at != NULL && (*at)->cell < debt->cell) {
        at = &(*at)->debt;
    }
    if (*at != NULL && (*at)->cell == debt->cell) {
        keep_free(debt);
        return;
    }
    debt->debt = *at;
    *at = debt;
}

/* Cells that have run and are not written down stay owed: what the job was to pay, and its own. */
static void owe(struct snp_session *session, struct snp_keep *keep)
{
    while (keep->debt != NULL) {
        struct snp_keep *debt = keep->debt;

        keep->debt = SNP_TAKE_PTR(debt->debt);
        debt_add(session, debt);
    }
    if (keep->is_cell) {
        struct snp_keep *debt = debt_new(keep);

        if (debt != NULL) {
            debt_add(session, debt);
        }
    }
}

static void job_done(void *arg, const struct snp_err *err)
{
    struct snp_keep *keep = arg;
    struct snp_session *session = keep->session;

    if (session != NULL && err->code == SNP_OK) {
        session->is_suspect = session->debt != NULL;
        session->is_recorded |= keep->has_row || keep->debt != NULL;
    } else if (err->code != SNP_OK) {
        snp_log(SNP_LOG_ERROR, "journal", "session=%s cell=%llu error=\"%s\"", keep->id,
                (unsigned long long)keep->cell, err->msg);
        if (session != NULL) {
            session->is_suspect = true;
            owe(session, keep);
        }
    }
    if (keep->done != NULL) {
        keep->done(keep->ctx, err->code == SNP_OK ? NULL : err);
    }
    keep_free(keep);
}

/* The job is taken over, also on failure; then done() is not called. */
static int submit(struct snp_server *server,
                  struct snp_keep *keep,
                  snp_store_run_fn run,
                  enum snp_durability durability,
                  struct snp_err *err)
{
    const struct snp_store_job job = {
        .run = run, .done = job_done, .arg = keep, .durability = durability};
    int r = snp_store_submit(server->store, &job, err);

    if (r < 0) {
        if (keep->session != NULL) {
            keep->session->is_suspect = true;
            owe(keep->session, keep);
        }
        keep_free(keep);
    }
    return r;
}

/* Intents -------------------------------------------------------------------------------- */

static struct snp_journal_session row_of(const struct snp_keep *keep)
{
    return (struct snp_journal_session){
        .id = keep->id,
        .name = keep->name[0] == '\0' ? NULL : keep->name,
        .spec = keep->spec,
        .state = "idle",
        .epoch = keep->epoch,
        .cells = keep->cell,
        .created_us = keep->created_us,
        .used_us = keep->now_us,
    };
}

/* Of a session that is new to the journal. */
static int row_add(struct snp_tx *tx, const struct snp_keep *keep, struct snp_err *err)
{
    struct snp_journal_session row;
    int r = keep->has_row ? snp_journal_session_get(tx, keep->id, &row, err) : 0;

    if (r == SNP_E_NOT_FOUND) {
        row = row_of(keep);
        row.cells = 0;
        r = snp_journal_session_add(tx, &row, err);
    }
    return r;
}

static int intent_write(struct snp_tx *tx, const struct snp_keep *keep, struct snp_err *err)
{
    const struct snp_journal_cell cell = {
        .session = keep->id,
        .cell = keep->cell,
        .epoch = keep->epoch,
        .kind = keep->kind,
        .argv = keep->argv,
        .spec = keep->cell_spec,
        .started_us = keep->started_us,
        .stdin_bytes = keep->raw_len - keep->code_len,
    };
    int r = row_add(tx, keep, err);

    if (r == 0) {
        r = snp_journal_cell_begin(
            tx, &cell, (struct snp_bytes){keep->raw, keep->code_len},
            (struct snp_bytes){keep->raw + keep->code_len, keep->raw_len - keep->code_len},
            err);
    }
    return r;
}

/* A cell that is owed: its intent if that is missing, and that its end is not known. */
static int debt_write(struct snp_tx *tx, const struct snp_keep *debt, struct snp_err *err)
{
    const struct snp_journal_outcome outcome = {.status = debt->status, .state = debt->state};
    struct snp_journal_cell row;
    int r = snp_journal_cell_get(tx, debt->id, debt->cell, &row, err);

    if (r == SNP_E_NOT_FOUND && debt->has_intent) {
        r = intent_write(tx, debt, err);
    } else if (r == 0 && strcmp(row.status, "running") != 0) {
        return 0;
    }
    return r < 0 ? r
                 : snp_journal_cell_end(tx, debt->id, debt->cell, debt->epoch, &outcome, err);
}

/* All that the job is to pay; of its own cell it is the intent, which failed before. */
static int debts_write(struct snp_tx *tx, const struct snp_keep *keep, struct snp_err *err)
{
    int r = 0;

    for (const struct snp_keep *debt = keep->debt; r == 0 && debt != NULL; debt = debt->debt) {
        r = keep->is_cell && debt->cell == keep->cell ? intent_write(tx, debt, err)
                                                      : debt_write(tx, debt, err);
    }
    return r;
}

static int run_begin(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_keep *keep = arg;
    int r = debts_write(tx, keep, err);

    return r < 0 ? r : intent_write(tx, keep, err);
}

static int intent_fill(struct snp_keep *keep, struct snp_exec *exec)
{
    struct snp_session *session = exec->session;
    snp_autojson json_t *spec = json_pack(
        "{s:I, s:b, s:b, s:I, s:I}", "wall_ms", (json_int_t)exec->wall_ms, "require_exact",
        exec->spec.require_exact, "stdin", exec->spec.has_stdin, "replay_of",
        (json_int_t)exec->replay_of, "rerun_of", (json_int_t)exec->spec.rerun_of);

    exec->is_intent_due = false;
    keep->has_intent = true;
    keep->cell = exec->cell;
    keep->started_us = exec->started_us;
    keep->is_cell = true;
    keep->epoch = exec->executor->epoch;
    keep->has_row = !session->is_recorded;
    (void)snprintf(keep->kind, sizeof(keep->kind), "%s", exec->spec.kind);
    keep->argv = exec->spec.argv == NULL ? NULL : snp_json_text(exec->spec.argv);
    keep->cell_spec = spec == NULL ? NULL : snp_json_text(spec);
    keep->spec = keep->has_row ? snp_session_spec_text(session) : NULL;
    keep->code_len = exec->spec.code_len;
    keep->raw_len = exec->raw_len;
    keep->raw = malloc(exec->raw_len + 1);
    if (keep->cell_spec == NULL || (keep->has_row && keep->spec == NULL) ||
        (exec->spec.argv != NULL && keep->argv == NULL) || keep->raw == NULL) {
        return SNP_E_NOMEM;
    }
    if (exec->raw_len > 0) {
        memcpy(keep->raw, exec->raw, exec->raw_len);
    }
    return 0;
}

int snp_keep_begin(struct snp_exec *exec, snp_keep_done *done, struct snp_err *err)
{
    struct snp_keep *keep = keep_new(exec->session, done, exec);

    if (keep == NULL || intent_fill(keep, exec) < 0) {
        if (keep != NULL) {
            keep_free(keep);
        }
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    /* Who waits for the intent has not run yet, and owes nothing if it fails. */
    keep->is_cell = done == NULL;
    keep->debt = SNP_TAKE_PTR(exec->session->debt);
    return submit(exec->session->server, keep, run_begin, SNP_DURABILITY_PROCESS, err);
}

/* While it runs --------------------------------------------------------------------------- */

static int run_seen(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    static const enum snp_journal_part parts[] = {SNP_PART_SEEN_STDOUT, SNP_PART_SEEN_STDERR};
    const struct snp_keep *keep = arg;
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(parts); i++) {
        const struct snp_buf *seen = &keep->seen[i];

        if (seen->len > 0) {
            r = snp_journal_cell_seen(tx, keep->id, keep->cell, parts[i],
                                      (struct snp_bytes){snp_buf_bytes(seen), seen->len}, err);
        }
    }
    return r;
}

/* Keep the last bytes of a stream. */
static void seen_add(struct snp_buf *seen, const char *bytes, size_t n)
{
    if (n > SNP_JOURNAL_SEEN_MAX) {
        bytes += n - SNP_JOURNAL_SEEN_MAX;
        n = SNP_JOURNAL_SEEN_MAX;
    }
    if (seen->len + n > SNP_JOURNAL_SEEN_MAX) {
        snp_buf_consume(seen, seen->len + n - SNP_JOURNAL_SEEN_MAX);
    }
    if (snp_buf_add(seen, bytes, n) < 0) {
        snp_buf_clear(seen); /* out of memory: what follows is kept */
    }
}

/* The texts of the streams, out of the frames they came in. */
static void seen_read(const struct snp_exec *exec, struct snp_buf seen[2])
{
    const char *at = snp_buf_bytes(&exec->events);
    size_t left = exec->events.len;

    snp_buf_init(&seen[0], SNP_JOURNAL_SEEN_MAX);
    snp_buf_init(&seen[1], SNP_JOURNAL_SEEN_MAX);
    while (left > 0) {
        struct snp_buf rest = {
            .data = (char *)(uintptr_t)at, .len = left, .cap = left, .max = left};
        struct snp_frame frame;
        struct snp_err ignored;
        size_t size = 0;
        bool has = false;

        if (snp_frame_peek(&rest, SNP_FRAME_BODY_MAX, &frame, &size, &has, &ignored) < 0 ||
            !has) {
            return; /* cannot be: we wrote them */
        }
        if (frame.head_len > 0 && memmem(frame.head, frame.head_len, "\"stdout\"", 8) != NULL) {
            seen_add(&seen[0], frame.raw, frame.raw_len);
        } else if (memmem(frame.head, frame.head_len, "\"stderr\"", 8) != NULL) {
            seen_add(&seen[1], frame.raw, frame.raw_len);
        }
        at += size;
        left -= size;
    }
}

void snp_keep_seen(struct snp_exec *exec)
{
    struct snp_keep *keep = keep_new(exec->session, NULL, NULL);
    struct snp_err err;

    if (keep == NULL) {
        return;
    }
    keep->cell = exec->cell;
    seen_read(exec, keep->seen);
    if (submit(exec->session->server, keep, run_seen, SNP_DURABILITY_PROCESS, &err) < 0) {
        snp_log(SNP_LOG_WARN, "journal-seen", "error=\"%s\"", err.msg);
    }
}

/* Outcomes -------------------------------------------------------------------------------- */

static const char *change_name(char letter)
{
    return letter == 'c' ? "created" : letter == 'm' ? "modified" : "deleted";
}

static int run_end(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_keep *keep = arg;
    const struct snp_journal_outcome outcome = {
        .status = keep->status,
        .state = keep->state,
        .wall_us = keep->wall_us,
        .result = {keep->result,                keep->result == NULL ? 0 : strlen(keep->result)},
        .raw = {snp_buf_bytes(&keep->shown), keep->shown.len                                },
    };
    int r = debts_write(tx, keep, err);

    if (r == 0 && keep->has_intent) {
        r = intent_write(tx, keep, err);
    }
    if (r == 0) {
        r = snp_journal_cell_end(tx, keep->id, keep->cell, keep->epoch, &outcome, err);
    }
    for (size_t i = 0; r == 0 && i < keep->n_files; i++) {
        r = snp_journal_file_add(tx, keep->id, keep->cell, keep->files[i] + 1,
                                 change_name(keep->files[i][0]), err);
    }
    return r;
}

/* Without memory some are left out: the result has them all. */
static void files_copy(struct snp_keep *keep, const json_t *files)
{
    static const char *const changes[] = {"created", "modified", "deleted"};

    keep->files = calloc(FILES_KEPT, sizeof(*keep->files));
    for (size_t i = 0; keep->files != NULL && i < SNP_ARRAY_LEN(changes); i++) {
        size_t j;
        json_t *path;

        json_array_foreach(json_object_get(files, changes[i]), j, path)
        {
            char *text = keep->n_files == FILES_KEPT
                             ? NULL
                             : snp_format("%c%s", changes[i][0], json_string_value(path));

            if (text == NULL) {
                return;
            }
            keep->files[keep->n_files++] = text;
        }
    }
}

static bool has_files(const json_t *files)
{
    return json_array_size(json_object_get(files, "created")) > 0 ||
           json_array_size(json_object_get(files, "modified")) > 0 ||
           json_array_size(json_object_get(files, "deleted")) > 0;
}

void snp_keep_end(struct snp_exec *exec, const struct snp_outcome *outcome, snp_keep_done *done)
{
    struct snp_keep *keep = keep_new(exec->session, done, exec);
    struct snp_err err;

    if (keep != NULL && exec->is_intent_due && intent_fill(keep, exec) < 0) {
        keep_free(SNP_TAKE_PTR(keep));
    }
    if (keep == NULL) {
        free(outcome->result);
        exec->session->is_suspect = true;
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        done(exec, &err);
        return;
    }
    keep->is_cell = true;
    keep->debt = SNP_TAKE_PTR(exec->session->debt);
    keep->cell = exec->cell;
    keep->epoch = exec->executor->epoch;
    keep->wall_us = outcome->wall_us;
    keep->result = outcome->result;
    (void)snprintf(keep->status, sizeof(keep->status), "%s", outcome->status);
    (void)snprintf(keep->state, sizeof(keep->state), "%s", outcome->state);
    keep->shown = exec->events;
    exec->events = (struct snp_buf){0};
    if (has_files(outcome->files)) {
        files_copy(keep, outcome->files);
    }
    if (submit(exec->session->server, keep, run_end, exec->spec.durability, &err) < 0) {
        done(exec, &err);
    }
}

/* Sessions ---------------------------------------------------------------------------------- */

static int run_session(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_keep *keep = arg;
    struct snp_journal_session row;
    struct snp_journal_session wanted = row_of(keep);
    int r = snp_journal_session_get(tx, keep->id, &row, err);

    if (r < 0) {
        return r;
    }
    if (row.epoch > keep->epoch) {
        return snp_fail(err, SNP_E_DENIED, "the session is at epoch %llu already, not %llu",
                        (unsigned long long)row.epoch, (unsigned long long)keep->epoch);
    }
    wanted.cells = row.cells;
    wanted.used_us = row.used_us;
    wanted.head_snapshot = row.head_snapshot;
    r = snp_journal_session_put(tx, &wanted, err);
    if (r == 0 && keep->has_undo) {
        r = snp_journal_cell_undo(tx, keep->id, keep->undo_after, err);
    }
    return r;
}

/* NULL: out of memory. */
static struct snp_keep *session_new(struct snp_session *session, snp_keep_done *done, void *ctx)
{
    struct snp_keep *keep = keep_new(session, done, ctx);

    if (keep != NULL) {
        keep->spec = snp_session_spec_text(session);
        if (keep->spec == NULL) {
            keep_free(SNP_TAKE_PTR(keep));
        }
    }
    return keep;
}

int snp_keep_session(struct snp_session *session,
                     snp_keep_done *done,
                     void *ctx,
                     struct snp_err *err)
{
    struct snp_keep *keep = session_new(session, done, ctx);

    return keep == NULL
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : submit(session->server, keep, run_session, SNP_DURABILITY_PROCESS, err);
}

int snp_keep_accepted(struct snp_session *session,
                      uint64_t after,
                      snp_keep_done *done,
                      void *ctx,
                      struct snp_err *err)
{
    struct snp_keep *keep = session_new(session, done, ctx);

    if (keep == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    keep->has_undo = true;
    keep->undo_after = after;
    return submit(session->server, keep, run_session, SNP_DURABILITY_PROCESS, err);
}

static int run_clear(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_keep *keep = arg;

    return snp_journal_session_clear(tx, keep->id, keep->epoch, err);
}

/* A job that needs no more than the session's id and epoch. */
static int submit_plain(struct snp_session *session,
                        snp_store_run_fn run,
                        snp_keep_done *done,
                        void *ctx,
                        struct snp_err *err)
{
    struct snp_keep *keep = keep_new(session, done, ctx);

    return keep == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                        : submit(session->server, keep, run, SNP_DURABILITY_SYNCED, err);
}

int snp_keep_clear(struct snp_session *session,
                   snp_keep_done *done,
                   void *ctx,
                   struct snp_err *err)
{
    return submit_plain(session, run_clear, done, ctx, err);
}

static int run_remove(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_keep *keep = arg;
    int r = snp_journal_session_remove(tx, keep->id, err);

    return r == SNP_E_NOT_FOUND ? 0 : r;
}

int snp_keep_remove(struct snp_session *session,
                    snp_keep_done *done,
                    void *ctx,
                    struct snp_err *err)
{
    return submit_plain(session, run_remove, done, ctx, err);
}

/* What is owed ------------------------------------------------------------------------------ */

static int run_pay(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_keep *keep = arg;

    return debts_write(tx, keep, err);
}

bool snp_keep_pay(struct snp_session *session, snp_keep_done *done, void *ctx)
{
    struct snp_keep *keep = session->debt == NULL ? NULL : keep_new(session, done, ctx);
    struct snp_err err;

    if (keep == NULL) {
        return false;
    }
    keep->debt = SNP_TAKE_PTR(session->debt);
    if (submit(session->server, keep, run_pay, SNP_DURABILITY_PROCESS, &err) < 0 &&
        done != NULL) {
        done(ctx, &err);
    }
    return true;
}

void snp_keep_undone(struct snp_session *session, uint64_t after)
{
    for (struct snp_keep *debt = session->debt; debt != NULL; debt = debt->debt) {
        if (debt->cell > after) {
            (void)snprintf(debt->state, sizeof(debt->state), "undone");
        }
    }
}

void snp_keep_forgive(struct snp_session *session)
{
    keep_free(SNP_TAKE_PTR(session->debt));
}

/* Files --------------------------------------------------------------------------------------- */

static int run_effect(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_keep *keep = arg;
    const struct snp_journal_effect effect = {
        .session = keep->id,
        .cell = keep->cell,
        .kind = keep->kind,
        .detail = keep->detail,
        .at_us = keep->now_us,
    };
    int r = row_add(tx, keep, err);

    return r < 0 ? r : snp_journal_effect_add(tx, &effect, err);
}

/* detail: consumed. */
static struct snp_keep *effect_new(struct snp_session *session,
                                   const char *kind,
                                   json_t *detail)
{
    snp_autojson json_t *owned = detail;
    struct snp_keep *keep = owned == NULL ? NULL : keep_new(session, NULL, NULL);

    if (keep != NULL) {
        (void)snprintf(keep->kind, sizeof(keep->kind), "%s", kind);
        keep->has_row = !session->is_recorded;
        keep->spec = keep->has_row ? snp_session_spec_text(session) : NULL;
        keep->detail = snp_json_text(owned);
        if (keep->detail == NULL || (keep->has_row && keep->spec == NULL)) {
            keep_free(SNP_TAKE_PTR(keep));
        }
    }
    return keep;
}

int snp_keep_put(struct snp_session *session,
                 const char *path,
                 snp_keep_done *done,
                 void *ctx,
                 struct snp_err *err)
{
    struct snp_keep *keep = effect_new(session, "put", json_pack("{s:s}", "path", path));

    if (keep == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    keep->done = done;
    keep->ctx = ctx;
    /* Synced, because the file itself is not: without the note nobody is told that it is gone. */
    return submit(session->server, keep, run_effect, SNP_DURABILITY_SYNCED, err);
}

void snp_keep_puts_forgiven(struct snp_session *session)
{
    struct snp_keep *keep = effect_new(session, "puts_forgiven", json_object());
    struct snp_err err;

    if (keep != NULL &&
        submit(session->server, keep, run_effect, SNP_DURABILITY_PROCESS, &err) < 0) {
        snp_log(SNP_LOG_WARN, "journal", "session=%s error=\"%s\"", session->id, err.msg);
    }
}

/* Events ------------------------------------------------------------------------------------ */

static int run_event(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_keep *keep = arg;
    const struct snp_journal_event event = {
        .at_us = keep->now_us,
        .kind = keep->state,
        .session = keep->id[0] == '\0' ? NULL : keep->id,
        .text = keep->text,
    };

    return snp_journal_event_add(tx, &event, err);
}

void snp_keep_event(struct snp_server *server,
                    const char *kind,
                    const struct snp_session *session,
                    const char *fmt,
                    ...)
{
    struct snp_keep *keep = keep_new(NULL, NULL, NULL);
    struct snp_err err;
    va_list args;

    if (keep == NULL) {
        return;
    }
    if (session != NULL) {
        memcpy(keep->id, session->id, sizeof(keep->id));
    }
    (void)snprintf(keep->state, sizeof(keep->state), "%s", kind);
    va_start(args, fmt);
    (void)vsnprintf(keep->text, sizeof(keep->text), fmt, args);
    va_end(args);
    if (submit(server, keep, run_event, SNP_DURABILITY_PROCESS, &err) < 0) {
        snp_log(SNP_LOG_WARN, "journal-event", "error=\"%s\"", err.msg);
    }
}
