/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs of the store for cells and sessions.
 *
 * A job runs on the store's thread while the loop continues, so it owns everything it reads. It
 * holds a reference to its session, which only the loop touches.
 */
#include "daemon/save/journal_entry.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire/frame.h"
#include "daemon/co.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "store/journal.h"
#include "store/store.h"

enum {
    EVENT_MAX = 400,
};

/* Data of a job; unused members are zero. */
struct snp_entry {
    struct snp_session *session; /* one reference, or NULL */
    snp_entry_done *done;
    void *ctx;
    char id[SNP_SESSION_ID_LEN + 1];
    char name[SNP_SESSION_NAME_MAX + 1];
    char *spec; /* owned: the session's */
    bool has_row;
    bool has_undo; /* cells after this one read "undone" */
    uint64_t undo_after;
    bool has_intent; /* of an outcome: writes the intent, too */
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
    uint64_t displays;    /* frames in it */
    struct snp_buf seen[2];
    char text[EVENT_MAX];
    bool is_cell;           /* on failure the cell is owed */
    bool is_last;           /* the daemon ends: it may use a full disk's reserve */
    struct snp_entry *debt; /* owned: owed cells that are written first, a list; or NULL */
};

bool snp_entry_is_suspect(const struct snp_session *session)
{
    struct snp_err ignored;

    return session->durable.is_suspect || !session->server->is_recovered ||
           snp_store_health(session->server->store, &ignored) < 0;
}

static void entry_free(struct snp_entry *entry)
{
    if (entry == NULL) {
        return;
    }
    entry_free(entry->debt);
    snp_session_unref(entry->session);
    free(entry->spec);
    free(entry->argv);
    free(entry->cell_spec);
    free(entry->detail);
    free(entry->raw);
    free(entry->result);
    snp_buf_done(&entry->shown);
    snp_buf_done(&entry->seen[0]);
    snp_buf_done(&entry->seen[1]);
    free(entry);
}

/* session may be NULL. */
static struct snp_entry *entry_new(struct snp_session *session, snp_entry_done *done, void *ctx)
{
    struct snp_entry *entry = calloc(1, sizeof(*entry));

    if (entry == NULL) {
        return NULL;
    }
    entry->done = done;
    entry->ctx = ctx;
    entry->now_us = snp_wall_us();
    if (session != NULL) {
        snp_session_ref(session);
        entry->session = session;
        memcpy(entry->id, session->id, sizeof(entry->id));
        memcpy(entry->name, session->name, sizeof(entry->name));
        entry->epoch = session->epoch;
        entry->cell = session->cells;
        entry->created_us = session->created_wall_us;
    }
    return entry;
}

/* The debt for a cell, without outdated facts. NULL: out of memory. */
static struct snp_entry *debt_new(struct snp_entry *entry)
{
    struct snp_entry *debt = calloc(1, sizeof(*debt));

    if (debt == NULL) {
        return NULL; /* after a restart it reads unknown if its intent was written */
    }
    *debt = *entry;
    debt->session = NULL;
    debt->done = NULL;
    debt->result = NULL;
    debt->shown = (struct snp_buf){0};
    debt->debt = NULL;
    if (strcmp(debt->status, "refused") != 0) {
        (void)snprintf(debt->status, sizeof(debt->status), "unknown");
    }
    if (debt->state[0] == '\0') { /* else the state of its effects is known */
        (void)snprintf(debt->state, sizeof(debt->state), "kept");
    }
    /* The debt takes these over. */
    entry->spec = NULL;
    entry->argv = NULL;
    entry->cell_spec = NULL;
    entry->raw = NULL;
    return debt;
}

/*
 * Add one in the order of the cells; of two for one cell the first stays, because it may have the
 * intent.
 */
static void debt_add(struct snp_session *session, struct snp_entry *debt)
{
    struct snp_entry **at = &session->durable.debt;

    while (*at != NULL && (*at)->cell < debt->cell) {
        at = &(*at)->debt;
    }
    if (*at != NULL && (*at)->cell == debt->cell) {
        entry_free(debt);
        return;
    }
    debt->debt = *at;
    *at = debt;
}

/*
 * Cells that ran and are not recorded stay owed: those that the job should have written, and its
 * own.
 */
static void owe(struct snp_session *session, struct snp_entry *entry, const struct snp_err *err)
{
    session->durable.is_suspect = true;
    while (entry->debt != NULL) {
        struct snp_entry *debt = entry->debt;

        entry->debt = SNP_TAKE_PTR(debt->debt);
        debt_add(session, debt);
    }
    if (entry->is_cell) {
        struct snp_entry *debt = debt_new(entry);

        if (debt != NULL) {
            debt_add(session, debt);
        }
    }
    /* A missing intent also makes its outcome fail; the failure of the intent is already noted. */
    if (session->durable.debt != NULL &&
        (err->code != SNP_E_NOT_FOUND || session->unsaved.failed.code == SNP_OK)) {
        snp_unsaved_note(session, err);
    }
}

static void job_done(void *arg, const struct snp_err *err)
{
    struct snp_entry *entry = arg;
    struct snp_session *session = entry->session;

    if (session != NULL && err->code == SNP_OK) {
        session->durable.is_suspect = session->durable.debt != NULL;
        if (entry->debt != NULL && session->unsaved.when == SNP_CHECKPOINT_OFF) {
            snp_unsaved_clear(session); /* no later save would clear it */
        }
        session->durable.is_recorded |= entry->has_row || entry->debt != NULL;
    } else if (err->code != SNP_OK) {
        snp_log(SNP_LOG_ERROR, "journal", "session=%s cell=%llu error=\"%s\"", entry->id,
                (unsigned long long)entry->cell, err->msg);
        if (session != NULL) {
            owe(session, entry, err);
        }
    }
    if (entry->done != NULL) {
        entry->done(entry->ctx, err->code == SNP_OK ? NULL : err);
    }
    entry_free(entry);
}

/* The job is taken over, also on failure; then done() is not called. */
static int submit(struct snp_server *server,
                  struct snp_entry *entry,
                  snp_store_run_fn run,
                  enum snp_durability durability,
                  struct snp_err *err)
{
    const struct snp_store_job job = {
        .run = run, .done = job_done, .arg = entry, .durability = durability};
    int r;

    entry->is_last = server->has_ended_tiers;
    r = snp_store_submit(server->store, &job, err);
    if (r < 0) {
        if (entry->session != NULL) {
            owe(entry->session, entry, err);
        }
        entry_free(entry);
    }
    return r;
}

/* Intents -------------------------------------------------------------------------------- */

static struct snp_journal_session row_of(const struct snp_entry *entry)
{
    return (struct snp_journal_session){
        .id = entry->id,
        .name = entry->name[0] == '\0' ? NULL : entry->name,
        .spec = entry->spec,
        .state = "idle",
        .epoch = entry->epoch,
        .cells = entry->cell,
        .created_us = entry->created_us,
        .used_us = entry->now_us,
    };
}

/* Add the row of a session that is new to the journal. */
static int row_add(struct snp_tx *tx, const struct snp_entry *entry, struct snp_err *err)
{
    struct snp_journal_session row;
    int r = entry->has_row ? snp_journal_session_get(tx, entry->id, &row, err) : 0;

    if (r == SNP_E_NOT_FOUND) {
        row = row_of(entry);
        row.cells = 0;
        r = snp_journal_session_add(tx, &row, err);
    }
    return r;
}

static struct snp_journal_cell intent_row(const struct snp_entry *entry)
{
    return (struct snp_journal_cell){
        .session = entry->id,
        .cell = entry->cell,
        .epoch = entry->epoch,
        .kind = entry->kind,
        .argv = entry->argv,
        .spec = entry->cell_spec,
        .started_us = entry->started_us,
        .stdin_bytes = entry->raw_len - entry->code_len,
    };
}

static int intent_write(struct snp_tx *tx, const struct snp_entry *entry, struct snp_err *err)
{
    const struct snp_journal_cell cell = intent_row(entry);

    SNP_TRY(row_add(tx, entry, err));
    return snp_journal_cell_begin(
        tx, &cell, (struct snp_bytes){entry->raw, entry->code_len},
        (struct snp_bytes){entry->raw + entry->code_len, entry->raw_len - entry->code_len}, err);
}

/* Write an owed cell: its intent if missing, and an unknown outcome. */
static int debt_write(struct snp_tx *tx, const struct snp_entry *debt, struct snp_err *err)
{
    const struct snp_journal_outcome outcome = {.status = debt->status, .state = debt->state};
    struct snp_journal_cell row;
    int r = snp_journal_cell_get(tx, debt->id, debt->cell, &row, err);

    if (r == SNP_E_NOT_FOUND && debt->has_intent) {
        r = intent_write(tx, debt, err);
    } else if (r == 0 && strcmp(row.status, "running") != 0) {
        return 0;
    }
    return r < 0 ? r : snp_journal_cell_end(tx, debt->id, debt->cell, debt->epoch, &outcome, err);
}

/* Write all debts of the job; for its own cell that is the intent, which failed before. */
static int debts_write(struct snp_tx *tx, const struct snp_entry *entry, struct snp_err *err)
{
    int r = 0;

    for (const struct snp_entry *debt = entry->debt; r == 0 && debt != NULL; debt = debt->debt) {
        r = entry->is_cell && debt->cell == entry->cell ? intent_write(tx, debt, err)
                                                        : debt_write(tx, debt, err);
    }
    return r;
}

static int run_begin(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_entry *entry = arg;

    SNP_TRY(debts_write(tx, entry, err));
    return intent_write(tx, entry, err);
}

static int intent_fill(struct snp_entry *entry, struct snp_exec *exec)
{
    struct snp_session *session = exec->session;
    snp_autojson json_t *spec =
        json_pack("{s:I, s:b, s:b, s:b, s:b, s:I, s:I}", "wall_ms", (json_int_t)exec->wall_ms,
                  "require_exact", exec->spec.asked.require_exact, "stdin", exec->spec.asked.stdin,
                  "open_stdin", exec->spec.asked.open_stdin, "internal", exec->spec.asked.internal,
                  "replay_of", (json_int_t)exec->replay_of, "rerun_of",
                  (json_int_t)exec->spec.asked.rerun_of);

    exec->is_intent_due = false;
    entry->has_intent = true;
    entry->cell = exec->cell;
    entry->started_us = exec->started_us;
    entry->is_cell = true;
    entry->epoch = exec->executor->epoch;
    entry->has_row = !session->durable.is_recorded;
    (void)snprintf(entry->kind, sizeof(entry->kind), "%s", exec->spec.asked.kind);
    entry->argv = exec->spec.asked.argv == NULL ? NULL : snp_json_text(exec->spec.asked.argv);
    entry->cell_spec = spec == NULL ? NULL : snp_json_text(spec);
    entry->spec = entry->has_row ? snp_session_spec_text(session) : NULL;
    entry->code_len = exec->spec.asked.code_len;
    entry->raw_len = exec->raw_len;
    entry->raw = malloc(exec->raw_len + 1);
    if (entry->cell_spec == NULL || (entry->has_row && entry->spec == NULL) ||
        (exec->spec.asked.argv != NULL && entry->argv == NULL) || entry->raw == NULL) {
        return SNP_E_NOMEM;
    }
    if (exec->raw_len > 0) {
        memcpy(entry->raw, exec->raw, exec->raw_len);
    }
    return 0;
}

int snp_entry_begin(struct snp_exec *exec, snp_entry_done *done, struct snp_err *err)
{
    struct snp_entry *entry = entry_new(exec->session, done, exec);

    if (entry == NULL || intent_fill(entry, exec) < 0) {
        entry_free(entry);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    /* A caller that waits for the intent has not run the cell, and owes nothing on failure. */
    entry->is_cell = done == NULL;
    entry->debt = SNP_TAKE_PTR(exec->session->durable.debt);
    return submit(exec->session->server, entry, run_begin, SNP_DURABILITY_PROCESS, err);
}

/* While a cell runs ---------------------------------------------------------------------------- */

static int run_seen(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    static const enum snp_journal_part parts[] = {SNP_PART_SEEN_STDOUT, SNP_PART_SEEN_STDERR};
    const struct snp_entry *entry = arg;
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(parts); i++) {
        const struct snp_buf *seen = &entry->seen[i];

        if (seen->len > 0) {
            r = snp_journal_cell_seen(tx, entry->id, entry->cell, parts[i],
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
        snp_buf_clear(seen); /* out of memory: later output is kept */
    }
}

/* Collect the streams' texts from their frames. */
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
        snp_autojson json_t *head = NULL;
        size_t size = 0;
        bool has = false;

        if (snp_frame_peek(&rest, SNP_FRAME_BODY_MAX, &frame, &size, &has, &ignored) < 0 || !has) {
            return; /* cannot happen: we wrote them */
        }
        if (snp_json_parse(frame.head, frame.head_len, &head, &ignored) == 0) {
            const char *event = snp_json_str(head, "event", "");

            if (snp_streq(event, "stdout") || snp_streq(event, "stderr")) {
                seen_add(&seen[snp_streq(event, "stderr") ? 1 : 0], frame.raw, frame.raw_len);
            }
        }
        at += size;
        left -= size;
    }
}

void snp_entry_seen(struct snp_exec *exec)
{
    struct snp_entry *entry = entry_new(exec->session, NULL, NULL);
    struct snp_err err;

    if (entry == NULL) {
        return;
    }
    entry->cell = exec->cell;
    seen_read(exec, entry->seen);
    if (submit(exec->session->server, entry, run_seen, SNP_DURABILITY_PROCESS, &err) < 0) {
        snp_log(SNP_LOG_WARN, "journal-seen", "error=\"%s\"", err.msg);
    }
}

/* Outcomes -------------------------------------------------------------------------------- */

static int run_end(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_entry *entry = arg;
    const struct snp_journal_outcome outcome = {
        .status = entry->status,
        .state = entry->state,
        .wall_us = entry->wall_us,
        .result = {entry->result, entry->result == NULL ? 0 : strlen(entry->result)},
        .raw = {snp_buf_bytes(&entry->shown), entry->shown.len},
        .displays = entry->displays,
    };

    SNP_TRY(debts_write(tx, entry, err));
    if (entry->has_intent) {
        SNP_TRY(intent_write(tx, entry, err));
    }
    return snp_journal_cell_end(tx, entry->id, entry->cell, entry->epoch, &outcome, err);
}

void snp_entry_end(struct snp_exec *exec, const struct snp_outcome *outcome, snp_entry_done *done)
{
    struct snp_entry *entry = entry_new(exec->session, done, exec);
    struct snp_err err;

    if (entry != NULL && exec->is_intent_due && intent_fill(entry, exec) < 0) {
        entry_free(SNP_TAKE_PTR(entry));
    }
    if (entry == NULL) {
        free(outcome->result);
        exec->session->durable.is_suspect = true;
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        done(exec, &err);
        return;
    }
    entry->is_cell = true;
    entry->debt = SNP_TAKE_PTR(exec->session->durable.debt);
    entry->cell = exec->cell;
    entry->epoch = exec->executor->epoch;
    entry->wall_us = outcome->wall_us;
    entry->result = outcome->result;
    (void)snprintf(entry->status, sizeof(entry->status), "%s", outcome->status);
    (void)snprintf(entry->state, sizeof(entry->state), "%s", outcome->state);
    entry->shown = exec->events;
    entry->displays = exec->displays;
    exec->events = (struct snp_buf){0};
    if (submit(exec->session->server, entry, run_end, exec->spec.durability, &err) < 0) {
        done(exec, &err);
    }
}

static int run_process(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_entry *entry = arg;
    int r = snp_journal_cell_ended(tx, entry->id, entry->cell, entry->text, err);

    return r == SNP_E_NOT_FOUND ? 0 : r; /* the cell is owed, or the session was cleared */
}

void snp_entry_process(struct snp_session *session, uint64_t cell, const char *how)
{
    struct snp_entry *entry = entry_new(session, NULL, NULL);
    struct snp_err err;

    if (entry == NULL) {
        return;
    }
    entry->cell = cell;
    (void)snprintf(entry->text, sizeof(entry->text), "%s", how);
    if (submit(session->server, entry, run_process, SNP_DURABILITY_PROCESS, &err) < 0) {
        snp_log(SNP_LOG_WARN, "journal-process", "error=\"%s\"", err.msg);
    }
}

/* Sessions ---------------------------------------------------------------------------------- */

static int run_session(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_entry *entry = arg;
    struct snp_journal_session row;
    struct snp_journal_session wanted = row_of(entry);

    SNP_TRY(row_add(tx, entry, err));
    SNP_TRY(snp_journal_session_get(tx, entry->id, &row, err));
    if (row.epoch > entry->epoch) {
        return snp_fail(err, SNP_E_DENIED, "the session is already at epoch %llu, not %llu",
                        (unsigned long long)row.epoch, (unsigned long long)entry->epoch);
    }
    wanted.cells = row.cells;
    wanted.used_us = row.used_us;
    wanted.head_snapshot = row.head_snapshot;
    SNP_TRY(snp_journal_session_put(tx, &wanted, err));
    if (entry->has_undo) {
        SNP_TRY(snp_journal_cell_undo(tx, entry->id, entry->undo_after, err));
    }
    return 0;
}

static int session_await(struct snp_session *session, const uint64_t *after, struct snp_err *err)
{
    struct snp_await written = {0};
    struct snp_entry *entry = entry_new(session, snp_await_ended, &written);

    SNP_TRY_MEMORY(entry, err);
    entry->has_row = !session->durable.is_recorded;
    entry->spec = snp_session_spec_text(session);
    if (entry->spec == NULL) {
        entry_free(entry);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (after != NULL) {
        entry->has_undo = true;
        entry->undo_after = *after;
    }
    SNP_TRY(submit(session->server, entry, run_session, SNP_DURABILITY_PROCESS, err));
    return snp_await(&written, NULL, err);
}

int snp_entry_session(struct snp_session *session, struct snp_err *err)
{
    return session_await(session, NULL, err);
}

int snp_entry_accepted(struct snp_session *session, uint64_t after, struct snp_err *err)
{
    return session_await(session, &after, err);
}

static int run_clear(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_entry *entry = arg;

    return snp_journal_session_clear(tx, entry->id, entry->epoch, err);
}

/* A job that needs only the session's id and epoch. */
static int submit_plain(struct snp_session *session,
                        snp_store_run_fn run,
                        snp_entry_done *done,
                        void *ctx,
                        struct snp_err *err)
{
    struct snp_entry *entry = entry_new(session, done, ctx);

    return entry == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                         : submit(session->server, entry, run, SNP_DURABILITY_SYNCED, err);
}

int snp_entry_clear(struct snp_session *session, struct snp_err *err)
{
    struct snp_await written = {0};

    SNP_TRY(submit_plain(session, run_clear, snp_await_ended, &written, err));
    return snp_await(&written, NULL, err);
}

static int run_remove(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_entry *entry = arg;
    int r = snp_journal_session_remove(tx, entry->id, err);

    return r == SNP_E_NOT_FOUND ? 0 : r;
}

static int run_retire(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_entry *entry = arg;
    int r = snp_journal_session_retire(tx, entry->id, err);

    return r == SNP_E_NOT_FOUND ? 0 : r;
}

int snp_entry_remove(struct snp_session *session,
                     bool keep_steps,
                     snp_entry_done *done,
                     void *ctx,
                     struct snp_err *err)
{
    return submit_plain(session, keep_steps ? run_retire : run_remove, done, ctx, err);
}

/* Debts ---------------------------------------------------------------------------------------- */

static int run_pay(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_entry *entry = arg;

    if (entry->is_last) {
        snp_journal_use_reserve(tx);
    }
    return debts_write(tx, entry, err);
}

bool snp_entry_pay(struct snp_session *session, snp_entry_done *done, void *ctx)
{
    struct snp_entry *entry = session->durable.debt == NULL ? NULL : entry_new(session, done, ctx);
    struct snp_err err;

    if (entry == NULL) {
        return false;
    }
    entry->debt = SNP_TAKE_PTR(session->durable.debt);
    if (submit(session->server, entry, run_pay, SNP_DURABILITY_PROCESS, &err) < 0 && done != NULL) {
        done(ctx, &err);
    }
    return true;
}

int snp_entry_owed_each(const struct snp_session *session,
                        snp_journal_cell_fn each,
                        void *arg,
                        struct snp_err *err)
{
    int r = 0;

    for (const struct snp_entry *debt = session->durable.debt; r == 0 && debt != NULL;
         debt = debt->debt) {
        snp_autojson json_t *spec =
            debt->cell_spec == NULL ? NULL : json_loads(debt->cell_spec, 0, NULL);
        char line[SNP_JOURNAL_LINE_MAX + 1];
        struct snp_journal_cell row = intent_row(debt);

        row.status = debt->status;
        row.state = debt->state;
        row.first_line = line;
        snp_journal_first_line(debt->argv, (struct snp_bytes){debt->raw, debt->code_len}, line);
        if (debt->has_intent && !snp_json_bool(spec, "internal", false)) {
            r = each(&row, arg, err);
        }
    }
    return r;
}

void snp_entry_undone(struct snp_session *session, uint64_t after)
{
    for (struct snp_entry *debt = session->durable.debt; debt != NULL; debt = debt->debt) {
        if (debt->cell > after) {
            (void)snprintf(debt->state, sizeof(debt->state), "undone");
        }
    }
}

void snp_entry_forgive(struct snp_session *session)
{
    entry_free(SNP_TAKE_PTR(session->durable.debt));
}

/* Files --------------------------------------------------------------------------------------- */

static struct snp_journal_effect effect_of(const struct snp_entry *entry)
{
    return (struct snp_journal_effect){
        .session = entry->id,
        .cell = entry->cell,
        .kind = entry->kind,
        .detail = entry->detail,
        .at_us = entry->now_us,
    };
}

static int run_effect(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_journal_effect effect = effect_of(arg);

    SNP_TRY(row_add(tx, arg, err));
    return snp_journal_effect_add(tx, &effect, err);
}

static int run_effect_undo(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_journal_effect effect = effect_of(arg);

    return snp_journal_effect_drop(tx, &effect, err);
}

/* detail: consumed. */
static struct snp_entry *effect_new(struct snp_session *session, const char *kind, json_t *detail)
{
    snp_autojson json_t *owned = detail;
    struct snp_entry *entry = owned == NULL ? NULL : entry_new(session, NULL, NULL);

    if (entry != NULL) {
        (void)snprintf(entry->kind, sizeof(entry->kind), "%s", kind);
        entry->has_row = !session->durable.is_recorded;
        entry->spec = entry->has_row ? snp_session_spec_text(session) : NULL;
        entry->detail = snp_json_text(owned);
        if (entry->detail == NULL || (entry->has_row && entry->spec == NULL)) {
            entry_free(SNP_TAKE_PTR(entry));
        }
    }
    return entry;
}

static int put_submit(struct snp_session *session,
                      const char *path,
                      snp_store_run_fn run,
                      snp_entry_done *done,
                      void *ctx,
                      struct snp_err *err)
{
    struct snp_entry *entry = effect_new(session, "put", json_pack("{s:s}", "path", path));

    SNP_TRY_MEMORY(entry, err);
    entry->done = done;
    entry->ctx = ctx;
    /*
     * Synced, because the file itself may not be: without the entry, its loss would not be
     * reported.
     */
    return submit(session->server, entry, run, SNP_DURABILITY_SYNCED, err);
}

int snp_entry_put(struct snp_session *session,
                  const char *path,
                  snp_entry_done *done,
                  void *ctx,
                  struct snp_err *err)
{
    return put_submit(session, path, run_effect, done, ctx, err);
}

int snp_entry_put_undo(struct snp_session *session,
                       const char *path,
                       snp_entry_done *done,
                       void *ctx,
                       struct snp_err *err)
{
    return put_submit(session, path, run_effect_undo, done, ctx, err);
}

void snp_entry_puts_forgiven(struct snp_session *session)
{
    struct snp_entry *entry = effect_new(session, "puts_forgiven", json_object());
    struct snp_err err;

    if (entry != NULL &&
        submit(session->server, entry, run_effect, SNP_DURABILITY_PROCESS, &err) < 0) {
        snp_log(SNP_LOG_WARN, "journal", "session=%s error=\"%s\"", session->id, err.msg);
    }
}

/* Events ------------------------------------------------------------------------------------ */

static int run_event(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_entry *entry = arg;
    const struct snp_journal_event event = {
        .at_us = entry->now_us,
        .kind = entry->state,
        .session = entry->id[0] == '\0' ? NULL : entry->id,
        .text = entry->text,
    };

    if (entry->is_last) {
        snp_journal_use_reserve(tx);
    }
    return snp_journal_event_add(tx, &event, err);
}

void snp_entry_event(struct snp_server *server,
                     const char *kind,
                     const struct snp_session *session,
                     const char *fmt,
                     ...)
{
    struct snp_entry *entry = entry_new(NULL, NULL, NULL);
    struct snp_err err;
    va_list args;

    if (entry == NULL) {
        return;
    }
    if (session != NULL) {
        memcpy(entry->id, session->id, sizeof(entry->id));
    }
    (void)snprintf(entry->state, sizeof(entry->state), "%s", kind);
    va_start(args, fmt);
    (void)vsnprintf(entry->text, sizeof(entry->text), fmt, args);
    va_end(args);
    if (submit(server, entry, run_event, SNP_DURABILITY_PROCESS, &err) < 0) {
        snp_log(SNP_LOG_WARN, "journal-event", "error=\"%s\"", err.msg);
    }
}
