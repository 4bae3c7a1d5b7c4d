/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and cells.
 *
 * A cell is written twice: its intent, before any other step, and its outcome. A cell that reads
 * "running" when the daemon starts had no outcome and becomes "unknown".
 */
#include "store/journal.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/str.h"
#include "store/journal_priv.h"
#include "store/salvage.h"

enum {
    ARGV_TEXT_MAX = 1 << 20,
};

/* Sessions ------------------------------------------------------------------------------ */

int snp_session_row(
    struct snp_tx *tx, const char *id, int64_t *ret_row, uint64_t *ret_epoch, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int r = snp_db_row(tx->db, &rows, err, "SELECT row, epoch FROM sessions WHERE id = ?", "t", id);

    if (r <= 0) {
        return r < 0 ? r : snp_fail(err, SNP_E_NOT_FOUND, "the journal has no session %.64s", id);
    }
    *ret_row = (int64_t)snp_col_u64(&rows, 0);
    if (ret_epoch != NULL) {
        *ret_epoch = snp_col_u64(&rows, 1);
    }
    return 0;
}

int snp_session_grow(struct snp_tx *tx, int64_t row, int64_t bytes, struct snp_err *err)
{
    if (bytes == 0) {
        return 0;
    }
    return snp_db_run(tx->db, NULL, err,
                      "UPDATE sessions SET disk_bytes = MAX(0, disk_bytes + ?) WHERE row = ?", "ii",
                      bytes, row);
}

/* A unique column refused it: report it in the caller's terms. */
static int taken(int r, const struct snp_journal_session *row, struct snp_err *err)
{
    if (r != SNP_E_INVALID) {
        return r;
    }
    return snp_fail(err, SNP_E_INVALID, "session %.64s already exists",
                    row->name == NULL ? row->id : row->name);
}

int snp_journal_session_add(struct snp_tx *tx,
                            const struct snp_journal_session *row,
                            struct snp_err *err)
{
    int r = snp_db_run(tx->db, NULL, err,
                       "INSERT INTO sessions(id, name, spec, state, epoch, cells, created_us,"
                       " used_us, head_snapshot) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       "ttttiiiit", row->id, row->name, row->spec == NULL ? "{}" : row->spec,
                       row->state, (int64_t)row->epoch, (int64_t)row->cells,
                       (int64_t)row->created_us, (int64_t)row->used_us, row->head_snapshot);

    return taken(r, row, err);
}

/* Check an UPDATE of one session that must exist. */
static int must_change(int r, uint64_t changed, const char *id, struct snp_err *err)
{
    if (r == 0 && changed == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "the journal has no session %.64s", id);
    }
    return r;
}

int snp_journal_session_put(struct snp_tx *tx,
                            const struct snp_journal_session *row,
                            struct snp_err *err)
{
    uint64_t changed = 0;
    int r = snp_db_run(tx->db, &changed, err,
                       "UPDATE sessions SET name = ?, spec = ?, state = ?, epoch = ?, cells = ?,"
                       " used_us = ?, head_snapshot = ? WHERE id = ?",
                       "tttiiitt", row->name, row->spec == NULL ? "{}" : row->spec, row->state,
                       (int64_t)row->epoch, (int64_t)row->cells, (int64_t)row->used_us,
                       row->head_snapshot, row->id);

    return must_change(taken(r, row, err), changed, row->id, err);
}

int snp_journal_session_epoch(struct snp_tx *tx,
                              const char *id,
                              uint64_t epoch,
                              struct snp_err *err)
{
    uint64_t changed = 0;
    uint64_t before = 0;
    int64_t row = 0;
    int r;

    SNP_TRY(snp_session_row(tx, id, &row, &before, err));
    if (epoch <= before) {
        return snp_fail(err, SNP_E_DENIED,
                        "epoch %llu of session %.64s is not higher than the current epoch, %llu",
                        (unsigned long long)epoch, id, (unsigned long long)before);
    }
    r = snp_db_run(tx->db, &changed, err, "UPDATE sessions SET epoch = ? WHERE row = ?", "ii",
                   (int64_t)epoch, row);
    return must_change(r, changed, id, err);
}

#define SESSION_COLUMNS                                                                      \
    "SELECT s.id, name, spec, state, s.epoch, cells, s.created_us, used_us, head_snapshot,"  \
    " disk_bytes, c.row, c.cell, c.bytes, c.lost," /* an image precedes other items */       \
    " (SELECT kind FROM items WHERE checkpoint = c.row ORDER BY row LIMIT 1)"                \
    " FROM sessions AS s LEFT JOIN checkpoints AS c ON c.row = (SELECT row FROM checkpoints" \
    "  WHERE session = s.row AND complete = 1 AND damaged = 0" SNP_NEWEST_FIRST("") " LIMIT 1)"

/* Borrowed from the current row. */
static void session_read(struct snp_rows *rows, struct snp_journal_session *ret)
{
    *ret = (struct snp_journal_session){
        .id = snp_col_text(rows, 0),
        .name = snp_col_text(rows, 1),
        .spec = snp_col_text(rows, 2),
        .state = snp_col_text(rows, 3),
        .epoch = snp_col_u64(rows, 4),
        .cells = snp_col_u64(rows, 5),
        .created_us = snp_col_u64(rows, 6),
        .used_us = snp_col_u64(rows, 7),
        .head_snapshot = snp_col_text(rows, 8),
        .disk_bytes = snp_col_u64(rows, 9),
        .checkpoint = snp_col_u64(rows, 10),
        .checkpoint_cell = snp_col_u64(rows, 11),
        .checkpoint_bytes = snp_col_u64(rows, 12),
        .lost = snp_col_text(rows, 13),
        .has_image = snp_col_u64(rows, 14) == SNP_ITEM_IMAGE,
    };
}

/* 1: found; its texts last as long as the job. */
static int session_find(struct snp_tx *tx,
                        const char *sql,
                        const char *ref,
                        struct snp_journal_session *ret,
                        struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    const char **texts[] = {&ret->id,    &ret->name,          &ret->spec,
                            &ret->state, &ret->head_snapshot, &ret->lost};
    int r = snp_db_row(tx->db, &rows, err, sql, "t", ref);

    if (r > 0) {
        session_read(&rows, ret);
        SNP_TRY(snp_tx_texts(tx, texts, SNP_ARRAY_LEN(texts), err));
    }
    return r;
}

int snp_journal_session_get(struct snp_tx *tx,
                            const char *ref,
                            struct snp_journal_session *ret,
                            struct snp_err *err)
{
    static const char by_id[] = SESSION_COLUMNS " WHERE s.id = ?";
    static const char by_name[] = SESSION_COLUMNS " WHERE s.name = ?";

    int r = session_find(tx, by_id, ref, ret, err);

    r = r == 0 ? session_find(tx, by_name, ref, ret, err) : r;
    if (r == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "no session %.64s", ref);
    }
    return r < 0 ? r : 0;
}

int snp_journal_session_each(struct snp_tx *tx,
                             snp_journal_session_fn each,
                             void *arg,
                             struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int r =
        snp_db_ask(tx->db, &rows, err,
                   SESSION_COLUMNS " WHERE s.state <> 'removed' ORDER BY used_us DESC, s.row", "");

    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        struct snp_journal_session row;

        session_read(&rows, &row);
        r = each(&row, arg, err);
    }
    return r;
}

/*
 * A session may have thousands of rows, and no job should wait for their removal: they become
 * unreachable at once, under an id that no session has, and are removed in slices (gc.c). The steps
 * of a run may stay; then the row stays, too, until gc has removed the last of these.
 */
static int give_up(struct snp_tx *tx, int64_t row, bool keep_steps, struct snp_err *err)
{
    const char *const steps[] = {
        ("UPDATE sessions SET id = 'removed-' || row, name = NULL, state = 'removed'"
         " WHERE row = ?"),
        keep_steps ? "DELETE FROM snapshots WHERE session = ?"
                     " AND (checkpoint IS NULL OR " SNP_IS_NO_STEP ")"
                   : "DELETE FROM snapshots WHERE session = ?",
        ("UPDATE checkpoints SET complete = 0 WHERE session = ?"
         " AND NOT EXISTS (SELECT 1 FROM snapshots WHERE checkpoint = checkpoints.row)"),
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(steps); i++) {
        r = snp_db_run(tx->db, NULL, err, steps[i], "i", row);
    }
    tx->store->must_reap = true;
    return r;
}

int snp_journal_session_clear(struct snp_tx *tx,
                              const char *id,
                              uint64_t epoch,
                              struct snp_err *err)
{
    struct snp_journal_session was = {0};
    int64_t row = 0;
    int r = snp_session_row(tx, id, &row, NULL, err);

    tx->frees = true;
    SNP_THEN(r, snp_journal_session_epoch(tx, id, epoch, err));
    SNP_THEN(r, snp_journal_session_get(tx, id, &was, err));
    SNP_THEN(r, give_up(tx, row, false, err));
    return r < 0 ? r
                 : snp_db_run(tx->db, NULL, err,
                              "INSERT INTO sessions(id, name, spec, state, epoch, cells,"
                              " created_us, used_us) VALUES(?, ?, ?, ?, ?, 0, ?, ?)",
                              "ttttiii", id, was.name, was.spec, was.state, (int64_t)was.epoch,
                              (int64_t)was.created_us, (int64_t)was.used_us);
}

static int session_remove(struct snp_tx *tx, const char *id, bool keep_steps, struct snp_err *err)
{
    int64_t row = 0;
    int r = snp_session_row(tx, id, &row, NULL, err);

    tx->frees = true;
    return r < 0 ? r : give_up(tx, row, keep_steps, err);
}

int snp_journal_session_remove(struct snp_tx *tx, const char *id, struct snp_err *err)
{
    return session_remove(tx, id, false, err);
}

int snp_journal_session_retire(struct snp_tx *tx, const char *id, struct snp_err *err)
{
    return session_remove(tx, id, true, err);
}

/* Parts --------------------------------------------------------------------------------- */

static int part_add(struct snp_tx *tx,
                    int64_t cell,
                    enum snp_journal_part part,
                    struct snp_bytes bytes,
                    uint64_t *add_new,
                    struct snp_err *err)
{
    uint64_t added = 0;
    int64_t blob = 0;
    int r;

    if (bytes.n == 0) {
        return 0;
    }
    if (bytes.n > SNP_JOURNAL_PART_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "a part of a cell is larger than %d bytes",
                        SNP_JOURNAL_PART_MAX);
    }
    if (bytes.n <= SNP_STORE_INLINE_MAX) {
        *add_new += bytes.n;
        return snp_db_run(tx->db, NULL, err,
                          "INSERT INTO parts(cell, part, size, data) VALUES(?, ?, ?, ?)", "iiib",
                          cell, (int64_t)part, (int64_t)bytes.n, bytes.data, bytes.n);
    }
    r = snp_blob_put(tx, bytes.data, bytes.n, &blob, &added, err);
    *add_new += added;
    return r < 0 ? r
                 : snp_db_run(tx->db, NULL, err,
                              "INSERT INTO parts(cell, part, size, blob) VALUES(?, ?, ?, ?)",
                              "iiii", cell, (int64_t)part, (int64_t)bytes.n, blob);
}

/* The first line that is not blank, cut at a character boundary. */
static void first_line(struct snp_bytes code, char out[SNP_JOURNAL_LINE_MAX + 1])
{
    const char *text = code.data;
    size_t from = 0;
    size_t n = 0;

    while (from < code.n &&
           (text[from] == '\n' || text[from] == '\r' || text[from] == ' ' || text[from] == '\t')) {
        from++;
    }
    while (from + n < code.n && n < SNP_JOURNAL_LINE_MAX && text[from + n] != '\n' &&
           text[from + n] != '\r' && text[from + n] != '\0') {
        n++;
    }
    while (n > 0 && !snp_utf8_valid(text + from, n)) {
        n--;
    }
    memcpy(out, n == 0 ? "" : text + from, n);
    out[n] = '\0';
}

/* A command's first line: its words. */
static void first_words(const char *argv, char out[SNP_JOURNAL_LINE_MAX + 1])
{
    snp_autojson json_t *words = argv == NULL ? NULL : json_loads(argv, 0, NULL);
    snp_autobuf struct snp_buf text = {0};
    const char *joined;
    size_t i;
    json_t *word;

    snp_buf_init(&text, ARGV_TEXT_MAX);
    json_array_foreach(words, i, word)
    {
        if ((i > 0 && snp_buf_adds(&text, " ") < 0) ||
            snp_buf_add(&text, json_string_value(word), json_string_length(word)) < 0) {
            break; /* the rest is enough */
        }
    }
    joined = snp_buf_bytes(&text);
    first_line((struct snp_bytes){joined == NULL ? "" : joined, text.len}, out);
}

/* Cells --------------------------------------------------------------------------------- */

void snp_journal_first_line(const char *argv,
                            struct snp_bytes code,
                            char out[SNP_JOURNAL_LINE_MAX + 1])
{
    if (code.n > 0) {
        first_line(code, out);
    } else {
        first_words(argv, out);
    }
}

int snp_journal_cell_begin(struct snp_tx *tx,
                           const struct snp_journal_cell *row,
                           struct snp_bytes code,
                           struct snp_bytes input,
                           struct snp_err *err)
{
    char line[SNP_JOURNAL_LINE_MAX + 1];
    int64_t session = 0;
    int64_t last = 0;
    int64_t cell = 0;
    uint64_t added = 0;
    int r = snp_session_row(tx, row->session, &session, NULL, err);

    SNP_THEN(r, snp_db_number(tx->db, 0, &last, err, "SELECT cells FROM sessions WHERE row = ?",
                              "i", session));
    if (r == 0 && row->cell <= (uint64_t)last) {
        return snp_fail(err, SNP_E_INVALID, "cell %llu of session %.64s is already in the journal",
                        (unsigned long long)row->cell, row->session);
    }
    snp_journal_first_line(row->argv, code, line);
    SNP_FAULT("journal.cell_begin");
    if (r == 0) {
        r = snp_db_run(tx->db, NULL, err,
                       "INSERT INTO cells(session, cell, epoch, kind, argv, spec, status,"
                       " started_us, first_line, stdin_bytes)"
                       " VALUES(?, ?, ?, ?, ?, ?, 'running', ?, ?, ?)",
                       "iiitttiti", session, (int64_t)row->cell, (int64_t)row->epoch, row->kind,
                       row->argv, row->spec, (int64_t)row->started_us, line, (int64_t)input.n);
        cell = sqlite3_last_insert_rowid(tx->db->sqlite);
    }
    SNP_THEN(r, part_add(tx, cell, SNP_PART_CODE, code, &added, err));
    SNP_THEN(r, part_add(tx, cell, SNP_PART_STDIN, input, &added, err));
    return r < 0 ? r
                 : snp_db_run(tx->db, NULL, err,
                              "UPDATE sessions SET cells = ?, used_us = MAX(used_us, ?),"
                              " disk_bytes = disk_bytes + ? WHERE row = ?",
                              "iiii", (int64_t)row->cell, (int64_t)row->started_us, (int64_t)added,
                              session);
}

int snp_cell_unknown(const char *session, uint64_t cell, struct snp_err *err)
{
    (void)snp_fail(err, SNP_E_NOT_FOUND, "session %.64s has no cell %llu", session,
                   (unsigned long long)cell);
    snp_err_about(err, "cell");
    return SNP_E_NOT_FOUND;
}

/* Find the rows of a cell and its session. */
static int cell_row(
    struct snp_tx *tx, const char *session, uint64_t cell, int64_t ret[2], struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int r = snp_db_row(tx->db, &rows, err,
                       "SELECT cells.row, sessions.row FROM cells JOIN sessions"
                       " ON sessions.row = cells.session WHERE sessions.id = ? AND cell = ?",
                       "ti", session, (int64_t)cell);

    if (r <= 0) {
        return r < 0 ? r : snp_cell_unknown(session, cell, err);
    }
    ret[0] = (int64_t)snp_col_u64(&rows, 0);
    ret[1] = (int64_t)snp_col_u64(&rows, 1);
    return 0;
}

int snp_journal_cell_end(struct snp_tx *tx,
                         const char *session,
                         uint64_t cell,
                         uint64_t epoch,
                         const struct snp_journal_outcome *outcome,
                         struct snp_err *err)
{
    uint64_t changed = 0;
    uint64_t added = 0;
    int64_t row[2] = {0, 0};

    SNP_TRY(cell_row(tx, session, cell, row, err));
    SNP_FAULT("journal.cell_end");
    SNP_TRY(snp_db_run(tx->db, &changed, err,
                       "UPDATE cells SET status = ?, state = ?, wall_us = ?"
                       " WHERE row = ? AND epoch = ? AND status = 'running'",
                       "ttiii", outcome->status, outcome->state, (int64_t)outcome->wall_us, row[0],
                       (int64_t)epoch));
    if (changed == 0) {
        return snp_fail(err, SNP_E_DENIED,
                        "cell %llu of session %.64s is not running in epoch %llu",
                        (unsigned long long)cell, session, (unsigned long long)epoch);
    }
    SNP_TRY(snp_db_run(tx->db, NULL, err,
                       "DELETE FROM parts WHERE cell = ? AND part BETWEEN ? AND ?", "iii", row[0],
                       (int64_t)SNP_PART_SEEN_STDOUT, (int64_t)SNP_PART_SEEN_STDERR));
    SNP_TRY(part_add(tx, row[0], SNP_PART_RESULT, outcome->result, &added, err));
    SNP_TRY(part_add(tx, row[0], SNP_PART_RAW, outcome->raw, &added, err));
    if (outcome->displays > 0) {
        char digits[24];
        int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)outcome->displays);

        SNP_TRY(part_add(tx, row[0], SNP_PART_DISPLAYS, (struct snp_bytes){digits, (size_t)n},
                         &added, err));
    }
    return snp_session_grow(tx, row[1], (int64_t)added, err);
}

int snp_journal_cell_ended(
    struct snp_tx *tx, const char *session, uint64_t cell, const char *how, struct snp_err *err)
{
    int64_t row[2] = {0, 0};
    uint64_t added = 0;

    SNP_TRY(cell_row(tx, session, cell, row, err));
    SNP_TRY(snp_db_run(tx->db, NULL, err, "DELETE FROM parts WHERE cell = ? AND part = ?", "ii",
                       row[0], (int64_t)SNP_PART_ENDED));
    return part_add(tx, row[0], SNP_PART_ENDED, (struct snp_bytes){how, strlen(how)}, &added, err);
}

int snp_journal_cell_seen(struct snp_tx *tx,
                          const char *session,
                          uint64_t cell,
                          enum snp_journal_part stream,
                          struct snp_bytes bytes,
                          struct snp_err *err)
{
    int64_t row[2] = {0, 0};
    int64_t running = 0;
    uint64_t added = 0;
    int r = cell_row(tx, session, cell, row, err);

    SNP_ASSERT(stream == SNP_PART_SEEN_STDOUT || stream == SNP_PART_SEEN_STDERR);
    SNP_THEN(r, snp_db_number(tx->db, 0, &running, err,
                              "SELECT status = 'running' FROM cells WHERE row = ?", "i", row[0]));
    if (r < 0 || running == 0) {
        return r; /* the outcome includes it */
    }
    if (bytes.n > SNP_JOURNAL_SEEN_MAX) {
        bytes.data = (const char *)bytes.data + (bytes.n - SNP_JOURNAL_SEEN_MAX);
        bytes.n = SNP_JOURNAL_SEEN_MAX;
    }
    SNP_TRY(snp_db_run(tx->db, NULL, err, "DELETE FROM parts WHERE cell = ? AND part = ?", "ii",
                       row[0], (int64_t)stream));
    return part_add(tx, row[0], stream, bytes, &added, err);
}

#define CELL_COLUMNS                                                                        \
    "SELECT s.id, cell, c.epoch, kind, argv, c.spec, status, c.state, started_us, wall_us," \
    " first_line, stdin_bytes, dropped,"                                                    \
    " EXISTS(SELECT 1 FROM parts WHERE cell = c.row AND part = 2),"                         \
    " (SELECT data FROM parts WHERE cell = c.row AND part = 6),"                            \
    " (SELECT CAST(data AS TEXT) FROM parts WHERE cell = c.row AND part = 7)"               \
    " FROM cells AS c JOIN sessions AS s ON s.row = c.session"
_Static_assert(SNP_PART_RESULT == 2 && SNP_PART_DISPLAYS == 6 && SNP_PART_ENDED == 7,
               "as CELL_COLUMNS has it");

/* Borrowed from the current row. */
static void cell_read(struct snp_rows *rows, struct snp_journal_cell *ret)
{
    *ret = (struct snp_journal_cell){
        .session = snp_col_text(rows, 0),
        .cell = snp_col_u64(rows, 1),
        .epoch = snp_col_u64(rows, 2),
        .kind = snp_col_text(rows, 3),
        .argv = snp_col_text(rows, 4),
        .spec = snp_col_text(rows, 5),
        .status = snp_col_text(rows, 6),
        .state = snp_col_text(rows, 7),
        .started_us = snp_col_u64(rows, 8),
        .wall_us = snp_col_u64(rows, 9),
        .first_line = snp_col_text(rows, 10),
        .stdin_bytes = snp_col_u64(rows, 11),
        .is_dropped = snp_col_u64(rows, 12) != 0,
        .has_result = snp_col_u64(rows, 13) != 0,
        .displays = snp_col_u64(rows, 14),
        .ended = snp_col_text(rows, 15),
    };
}

int snp_journal_cell_get(struct snp_tx *tx,
                         const char *session,
                         uint64_t cell,
                         struct snp_journal_cell *ret,
                         struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    struct snp_journal_cell row = {0};
    const char **texts[] = {&row.session, &row.kind,  &row.argv,       &row.spec,
                            &row.status,  &row.state, &row.first_line, &row.ended};
    int r = snp_db_row(tx->db, &rows, err, CELL_COLUMNS " WHERE s.id = ? AND cell = ?", "ti",
                       session, (int64_t)cell);

    if (r <= 0) {
        return r < 0 ? r : snp_cell_unknown(session, cell, err);
    }
    cell_read(&rows, &row);
    SNP_TRY(snp_tx_texts(tx, texts, SNP_ARRAY_LEN(texts), err));
    *ret = row;
    return 0;
}

int snp_journal_cell_part(struct snp_tx *tx,
                          const char *session,
                          uint64_t cell,
                          enum snp_journal_part part,
                          struct snp_buf *buf,
                          struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    const void *bytes;
    size_t n = 0;
    int64_t row[2] = {0, 0};
    int r;

    SNP_TRY(cell_row(tx, session, cell, row, err));
    r = snp_db_row(tx->db, &rows, err, "SELECT data, blob FROM parts WHERE cell = ? AND part = ?",
                   "ii", row[0], (int64_t)part);
    if (r <= 0) {
        return r < 0 ? r
                     : snp_fail(err, SNP_E_NOT_FOUND,
                                "cell %llu of session %.64s has no such content, or it was "
                                "removed to stay within the budget of the journal",
                                (unsigned long long)cell, session);
    }
    if (!snp_col_null(&rows, 1)) {
        return snp_blob_get(tx, (int64_t)snp_col_u64(&rows, 1), buf, err);
    }
    bytes = snp_col_bytes(&rows, 0, &n);
    if (snp_buf_add(buf, bytes, n) < 0) {
        return snp_fail(err, SNP_E_LIMIT, "the content has %zu bytes, more than requested", n);
    }
    return 0;
}

/* Pass rows to a callback. */
static int cells_tell(struct snp_rows *rows,
                      snp_journal_cell_fn each,
                      void *arg,
                      struct snp_err *err)
{
    int r = 0;

    while (r == 0 && (r = snp_db_step(rows, err)) > 0) {
        struct snp_journal_cell row;

        cell_read(rows, &row);
        r = each(&row, arg, err);
    }
    return r;
}

int snp_journal_cell_each(struct snp_tx *tx,
                          const struct snp_journal_page *page,
                          snp_journal_cell_fn each,
                          void *arg,
                          struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    bool is_all = page->before == 0 || page->before > INT64_MAX;
    int64_t top = is_all ? INT64_MAX : (int64_t)page->before;
    int64_t most = page->limit > SNP_JOURNAL_LIST_MAX ? SNP_JOURNAL_LIST_MAX : (int64_t)page->limit;
    int64_t row = 0;

    SNP_TRY(snp_session_row(tx, page->session, &row, NULL, err));
    SNP_TRY(snp_db_ask(tx->db, &rows, err,
                       CELL_COLUMNS " WHERE c.session = ? AND cell < ?"
                                    " AND coalesce(instr(c.spec, '\"internal\":true'), 0) = 0"
                                    " ORDER BY cell DESC LIMIT ?",
                       "iii", row, top, most));
    return cells_tell(&rows, each, arg, err);
}

int snp_journal_cell_after(struct snp_tx *tx,
                           const char *session,
                           uint64_t after,
                           snp_journal_cell_fn each,
                           void *arg,
                           struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int64_t row = 0;

    SNP_TRY(snp_session_row(tx, session, &row, NULL, err));
    SNP_TRY(snp_db_ask(tx->db, &rows, err,
                       CELL_COLUMNS " WHERE c.session = ? AND cell > ? ORDER BY cell", "ii", row,
                       (int64_t)after));
    return cells_tell(&rows, each, arg, err);
}

int snp_journal_cell_undo(struct snp_tx *tx,
                          const char *session,
                          uint64_t after,
                          struct snp_err *err)
{
    return snp_db_run(tx->db, NULL, err,
                      "UPDATE cells SET state = 'undone' WHERE cell > ? AND status <> 'running'"
                      " AND session = (SELECT row FROM sessions WHERE id = ?)",
                      "it", (int64_t)after, session);
}

int snp_journal_cell_undo_replays(struct snp_tx *tx,
                                  const char *session,
                                  uint64_t after,
                                  struct snp_err *err)
{
    return snp_db_run(tx->db, NULL, err,
                      "UPDATE cells SET state = 'undone' WHERE cell > ? AND state = 'kept'"
                      " AND json_valid(spec) AND json_extract(spec, '$.replay_of') > 0"
                      " AND session = (SELECT row FROM sessions WHERE id = ?)",
                      "it", (int64_t)after, session);
}

int snp_journal_sessions_lost(struct snp_tx *tx, uint64_t *ret_us, struct snp_err *err)
{
    int64_t us = 0;
    int r = snp_db_number(tx->db, 0, &us, err,
                          "SELECT value FROM meta WHERE key = 'sessions_lost_us'", "");

    *ret_us = us > 0 && snp_salvage_is_kept(tx->store->db_path, NULL) ? (uint64_t)us : 0;
    return r;
}

int snp_journal_cell_recover(struct snp_tx *tx, uint64_t *ret_n, struct snp_err *err)
{
    struct snp_journal_event event = {.at_us = snp_wall_us(), .kind = "unknown_cells"};
    char text[200];

    SNP_TRY(snp_db_run(tx->db, ret_n, err,
                       "UPDATE cells SET status = 'unknown' WHERE status = 'running'", ""));
    if (*ret_n == 0) {
        return 0;
    }
    (void)snprintf(text, sizeof(text),
                   "%llu cells were running when the daemon ended; their effects are not known, so "
                   "they are marked unknown",
                   (unsigned long long)*ret_n);
    event.text = text;
    return snp_journal_event_add(tx, &event, err);
}
