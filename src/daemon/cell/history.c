/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods `history`, `cell.show` and `journal.events`: the store's thread reads the journal,
 * the loop answers.
 */
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/wire/exec.h"
#include "base/wire/frame.h"
#include "base/wire/session.h"
#include "daemon/cell/reply.h"
#include "daemon/request.h"
#include "daemon/save/journal_entry.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/missing_cells.h"
#include "daemon/session/table.h"
#include "daemon/store_wait.h"
#include "daemon/work.h"
#include "store/journal.h"

enum {
    ROWS_DEFAULT = 50,
    EVENTS_MAX = 200,
};

/* A query. Only one thread at a time makes and uses its json_t. */
struct query {
    struct snp_session *session; /* one reference, or NULL */
    uint64_t running;            /* number of the running cell; 0 = none */
    uint64_t last;               /* number of the last cell at the request */
    uint64_t epoch;              /* of the sandbox; 0 = none */
    uint64_t cell;
    size_t limit;
    json_t *rows;        /* owned: the answer of history */
    json_t *row;         /* owned: the answer of cell.show */
    struct snp_buf code; /* then standard input */
    size_t code_len;
    struct snp_buf result;
    struct snp_buf events;
    struct snp_buf seen[2];
    uint64_t unsealed; /* files of contents */
};

static void query_done(struct query *query)
{
    snp_session_unref(query->session);
    json_decref(query->rows);
    json_decref(query->row);
    snp_buf_done(&query->code);
    snp_buf_done(&query->result);
    snp_buf_done(&query->events);
    snp_buf_done(&query->seen[0]);
    snp_buf_done(&query->seen[1]);
}

/* query: zeroed. */
static int query_await(const struct snp_work *work,
                       snp_store_run_fn run,
                       struct query *query,
                       struct snp_err *err)
{
    struct snp_session *session = work->session;

    query->cell = (uint64_t)snp_json_int(work->head, "cell", snp_json_int(work->head, "before", 0));
    query->limit = (size_t)snp_json_int(work->head, "limit", ROWS_DEFAULT);
    if (session != NULL) {
        query->session = session;
        snp_session_ref(session);
        query->last = session->cells;
        query->epoch = session->live.executor == NULL ? 0 : session->live.executor->epoch;
        query->running = session->live.running == NULL ? 0 : session->live.running->cell;
        (void)snp_entry_pay(session, NULL, NULL); /* owed cells are then in the journal */
    }
    return snp_store_await(work->request->server->store, run, query, err);
}

/* history ---------------------------------------------------------------------------------- */

/* The status of a cell; one that reads as running but is not has lost its outcome. */
static const char *status_of(const struct query *query, const struct snp_journal_cell *row)
{
    return strcmp(row->status, "running") == 0 && row->cell != query->running &&
                   row->cell <= query->last
               ? "unknown"
               : row->status;
}

/* How the process of a cell ended; unknown if its sandbox ended first. New reference. */
static json_t *process_json(const struct query *query, const struct snp_journal_cell *row)
{
    struct snp_process_state how = {.state = "ended", .exit_code = SNP_NO_NUMBER};

    if (strcmp(row->kind, snp_exec_kinds[SNP_EXEC_PROCESS]) != 0 ||
        strcmp(row->status, "ok") != 0) {
        return NULL;
    }
    if (row->ended == NULL) {
        how.state = row->epoch == query->epoch ? "running" : "unknown";
    } else if (snp_parse_i64(row->ended, &how.exit_code) < 0) {
        how.signal = row->ended;
    }
    return snp_record_write(&snp_process_state_form, &how);
}

static json_t *cell_json(const struct query *query, const struct snp_journal_cell *row)
{
    snp_autojson json_t *spec = row->spec == NULL ? NULL : json_loads(row->spec, 0, NULL);
    snp_autojson json_t *first_line = row->first_line == NULL ? NULL : json_string(row->first_line);
    snp_autojson json_t *process = process_json(query, row);
    struct snp_cell_row cell = {
        .cell = row->cell,
        .epoch = row->epoch,
        .kind = row->kind,
        .status = status_of(query, row),
        .state = row->state,
        .started = (double)row->started_us / 1e6,
        .wall_us = row->wall_us,
        .has_result = row->has_result,
        .displays = row->displays,
        .process = process,
        .replay_of = (uint64_t)snp_json_int(spec, "replay_of", 0),
        .rerun_of = (uint64_t)snp_json_int(spec, "rerun_of", 0),
    };

    cell.first_line = first_line;
    return snp_record_write(&snp_cell_row_form, &cell);
}

static int history_row(const struct snp_journal_cell *row, void *arg, struct snp_err *err)
{
    struct query *query = arg;

    return json_array_append_new(query->rows, cell_json(query, row)) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static int run_history_query(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct query *query = arg;
    const struct snp_journal_page page = {query->session->id, query->cell, query->limit};
    int r;

    json_decref(query->rows);
    query->rows = json_array();
    r = snp_journal_cell_each(tx, &page, history_row, query, err);
    return r == SNP_E_NOT_FOUND ? 0 : r; /* a session without any cell has no row */
}

/* Owed cells are newer than those in the journal. */
static int owed_row(const struct snp_journal_cell *row, void *arg, struct snp_err *err)
{
    struct query *query = arg;

    (void)err;
    if (query->cell == 0 || row->cell < query->cell) { /* if out of memory it is left out */
        (void)json_array_insert_new(query->rows, 0, cell_json(query, row));
    }
    if (json_array_size(query->rows) > query->limit) {
        (void)json_array_remove(query->rows, query->limit);
    }
    return 0;
}

static int history(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(query_done) struct query query = {0};
    struct snp_err ignored;

    SNP_TRY(query_await(work, run_history_query, &query, err));
    (void)!snp_entry_owed_each(query.session, owed_row, &query, &ignored);
    snp_request_answer(request, SNP_WRITE(snp_history_answer, .cells = query.rows,
                                          .state = snp_session_state_text(query.session),
                                          .missing = snp_session_missing(query.session)));
    return 0;
}

void snp_run_history(const struct snp_work *work)
{
    snp_work_start(work, history);
}

/* cell.show -------------------------------------------------------------------------------- */

/* A part that is missing or expired is empty. */
static int part_read(struct snp_tx *tx,
                     const struct query *query,
                     enum snp_journal_part part,
                     size_t max,
                     struct snp_buf *buf,
                     struct snp_err *err)
{
    int r;

    snp_buf_done(buf);
    snp_buf_init(buf, max);
    r = snp_journal_cell_part(tx, query->session->id, query->cell, part, buf, err);
    return r == SNP_E_NOT_FOUND ? 0 : r;
}

/* The members of the call, so that it can be repeated. */
static int call_add(json_t *json, const struct snp_journal_cell *row)
{
    snp_autojson json_t *spec = row->spec == NULL ? NULL : json_loads(row->spec, 0, NULL);
    int r = json_object_set_new(json, "argv",
                                row->argv == NULL ? json_null() : json_loads(row->argv, 0, NULL));

    r |= json_object_set_new(json, "stdin", json_boolean(snp_json_bool(spec, "stdin", false)));
    r |= json_object_set_new(json, "open_stdin",
                             json_boolean(snp_json_bool(spec, "open_stdin", false)));
    r |= json_object_set_new(json, "stdin_bytes", json_integer((json_int_t)row->stdin_bytes));
    r |= json_object_set_new(json, "wall_ms", json_integer(snp_json_int(spec, "wall_ms", 0)));
    r |= json_object_set_new(json, "dropped", json_boolean(row->is_dropped));
    return r;
}

static int run_cell_query(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct query *query = arg;
    struct snp_journal_cell row;
    int r;

    SNP_TRY(snp_journal_cell_get(tx, query->session->id, query->cell, &row, err));
    json_decref(query->row);
    query->row = cell_json(query, &row);
    SNP_TRY_MEMORY(query->row != NULL && call_add(query->row, &row) >= 0, err);
    r = part_read(tx, query, SNP_PART_CODE, SNP_FRAME_BODY_MAX, &query->code, err);
    query->code_len = query->code.len;
    if (r == 0 && row.stdin_bytes > 0) {
        r = snp_journal_cell_part(tx, query->session->id, query->cell, SNP_PART_STDIN, &query->code,
                                  err);
        r = r == SNP_E_NOT_FOUND ? 0 : r;
    }
    SNP_THEN(r, part_read(tx, query, SNP_PART_RESULT, (size_t)2 * SNP_FRAME_HEAD_MAX,
                          &query->result, err));
    SNP_THEN(r, part_read(tx, query, SNP_PART_RAW, SNP_CAP_SHOWN_BYTES, &query->events, err));
    if (r == 0 && query->events.len == 0) {
        r = part_read(tx, query, SNP_PART_SEEN_STDOUT, SNP_JOURNAL_SEEN_MAX, &query->seen[0], err);
    }
    if (r == 0 && query->events.len == 0) {
        r = part_read(tx, query, SNP_PART_SEEN_STDERR, SNP_JOURNAL_SEEN_MAX, &query->seen[1], err);
    }
    return r;
}

/* Send the cell's output again as events. */
static void events_send(struct snp_request *request, struct query *query)
{
    static const char *const heads[] = {"{\"event\":\"stdout\"}", "{\"event\":\"stderr\"}"};
    struct snp_frame frame;
    struct snp_err ignored;
    size_t size = 0;
    bool has = true;

    while (query->events.len > 0 &&
           snp_frame_peek(&query->events, SNP_FRAME_BODY_MAX, &frame, &size, &has, &ignored) == 0 &&
           has) {
        snp_request_event(request, frame.head, frame.head_len, frame.raw, frame.raw_len);
        snp_buf_consume(&query->events, size);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(heads); i++) {
        if (query->seen[i].len > 0) {
            snp_request_event(request, heads[i], strlen(heads[i]), snp_buf_bytes(&query->seen[i]),
                              query->seen[i].len);
        }
    }
}

/* NULL: there is no result, or it is incomplete. New reference. */
static json_t *result_whole(struct query *query)
{
    const char *record = query->result.len == 0 ? NULL : snp_buf_cstr(&query->result);
    snp_autojson json_t *has = record == NULL ? NULL : json_loads(record, 0, NULL);

    return has == NULL ? NULL : snp_reply_whole(query->session, has, NULL, NULL);
}

static int cell_show(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(query_done) struct query query = {0};
    snp_autofree char *text = NULL;
    json_t *result;

    SNP_TRY(query_await(work, run_cell_query, &query, err));
    events_send(request, &query);
    result = result_whole(&query);
    if (json_object_set_new(query.row, "code_len", json_integer((json_int_t)query.code_len)) >= 0 &&
        json_object_set_new(query.row, "result", result == NULL ? json_null() : result) >= 0) {
        text = snp_json_text(query.row);
    }
    SNP_TRY_MEMORY(text, err);
    snp_request_pass(request, text, strlen(text), snp_buf_bytes(&query.code), query.code.len);
    return 0;
}

void snp_run_cell_show(const struct snp_work *work)
{
    snp_work_start(work, cell_show);
}

/* journal.events --------------------------------------------------------------------------- */

static int event_row(const struct snp_journal_event *row, void *arg, struct snp_err *err)
{
    struct query *query = arg;
    json_t *event = SNP_WRITE(snp_journal_row, .at = (double)row->at_us / 1e6, .kind = row->kind,
                              .session = row->session, .text = row->text, .solved = row->is_solved);

    return json_array_append_new(query->rows, event) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static int run_events_query(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct query *query = arg;

    json_decref(query->rows);
    query->rows = json_array();
    SNP_TRY(snp_journal_unsealed(tx, &query->unsealed, err));
    return snp_journal_event_each(tx, query->limit < EVENTS_MAX ? query->limit : EVENTS_MAX,
                                  event_row, query, err);
}

/* A condition that lasts until the folder is back, hence no row of the journal. */
static void moved_add(struct snp_store *store, json_t *rows)
{
    struct snp_err err;

    if (snp_store_moved(store, &err) < 0) {
        (void)json_array_insert_new(rows, 0,
                                    SNP_WRITE(snp_journal_row, .at = (double)snp_wall_us() / 1e6,
                                              .kind = "journal_moved", .text = err.msg));
    }
}

static int events(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(query_done) struct query query = {0};
    bool sealed;

    SNP_TRY(query_await(work, run_events_query, &query, err));
    sealed = snp_store_is_sealed(request->server->store);
    moved_add(request->server->store, query.rows);
    snp_request_answer(request,
                       SNP_WRITE(snp_journal_events_answer, .events = query.rows, .sealed = sealed,
                                 .unsealed = sealed ? query.unsealed : 0));
    return 0;
}

void snp_run_events(const struct snp_work *work)
{
    snp_work_start(work, events);
}
