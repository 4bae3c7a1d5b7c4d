/* SPDX-License-Identifier: Apache-2.0 */
/* Effects beyond the sandbox, events. */

#include "base/str.h"
#include "store/journal.h"
#include "store/journal_priv.h"
#include "store/salvage.h"
#include "store/seal.h"

int snp_journal_effect_add(struct snp_tx *tx,
                           const struct snp_journal_effect *row,
                           struct snp_err *err)
{
    int64_t session = 0;

    SNP_TRY(snp_session_row(tx, row->session, &session, NULL, err));
    return snp_db_run(tx->db, NULL, err,
                      "INSERT INTO effects(session, cell, kind, detail, at_us)"
                      " VALUES(?, ?, ?, ?, ?)",
                      "iitti", session, (int64_t)row->cell, row->kind, row->detail,
                      (int64_t)row->at_us);
}

int snp_journal_effect_drop(struct snp_tx *tx,
                            const struct snp_journal_effect *row,
                            struct snp_err *err)
{
    int64_t session = 0;

    SNP_TRY(snp_session_row(tx, row->session, &session, NULL, err));
    return snp_db_run(tx->db, NULL, err,
                      "DELETE FROM effects WHERE row = (SELECT MAX(row) FROM effects"
                      " WHERE session = ? AND kind = ? AND detail = ?)",
                      "itt", session, row->kind, row->detail);
}

int snp_journal_effect_each(struct snp_tx *tx,
                            const char *session,
                            snp_journal_effect_fn each,
                            void *arg,
                            struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int64_t row = 0;
    int r = snp_session_row(tx, session, &row, NULL, err);

    SNP_THEN(r, snp_db_ask(tx->db, &rows, err,
                           "SELECT row, cell, kind, detail, at_us FROM effects WHERE session = ?"
                           " ORDER BY row",
                           "i", row));
    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        struct snp_journal_effect effect = {
            .id = snp_col_u64(&rows, 0),
            .session = session,
            .cell = snp_col_u64(&rows, 1),
            .kind = snp_col_text(&rows, 2),
            .detail = snp_col_text(&rows, 3),
            .at_us = snp_col_u64(&rows, 4),
        };

        r = each(&effect, arg, err);
    }
    return r;
}

int snp_journal_effect_last(
    struct snp_tx *tx, const char *session, uint64_t cell, uint64_t *ret, struct snp_err *err)
{
    int64_t last = 0;
    int r = snp_db_number(tx->db, 0, &last, err,
                          "SELECT MAX(row) FROM effects WHERE session ="
                          " (SELECT row FROM sessions WHERE id = ?) AND cell <= ?",
                          "ti", session, (int64_t)cell);

    *ret = (uint64_t)last;
    return r;
}

void snp_journal_use_reserve(struct snp_tx *tx)
{
    tx->frees = true;
}

int snp_journal_event_add(struct snp_tx *tx,
                          const struct snp_journal_event *row,
                          struct snp_err *err)
{
    SNP_TRY(snp_db_run(tx->db, NULL, err,
                       "INSERT INTO events(at_us, kind, session, text) VALUES(?, ?, ?, ?)", "ittt",
                       (int64_t)row->at_us, row->kind, row->session, row->text));
    return snp_db_run(tx->db, NULL, err, "DELETE FROM events WHERE row <= last_insert_rowid() - ?",
                      "i", (int64_t)SNP_JOURNAL_EVENTS_MAX);
}

int snp_journal_event_each(
    struct snp_tx *tx, size_t limit, snp_journal_event_fn each, void *arg, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int64_t most = limit > SNP_JOURNAL_EVENTS_MAX ? SNP_JOURNAL_EVENTS_MAX : (int64_t)limit;
    int r = snp_db_ask(tx->db, &rows, err,
                       "SELECT at_us, kind, session, text, session IS NOT NULL AND NOT EXISTS"
                       " (SELECT 1 FROM sessions WHERE id = events.session)"
                       " FROM events ORDER BY row DESC LIMIT ?",
                       "i", most);

    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        struct snp_journal_event event = {
            .at_us = snp_col_u64(&rows, 0),
            .kind = snp_col_text(&rows, 1),
            .session = snp_col_text(&rows, 2),
            .text = snp_col_text(&rows, 3),
            .is_solved = snp_col_u64(&rows, 4) != 0,
        };

        if (snp_streq(event.kind, "journal_lost") || snp_streq(event.kind, "salvage")) {
            event.is_solved = !snp_salvage_is_kept(tx->store->db_path, event.text);
        }
        r = each(&event, arg, err);
    }
    return r;
}

int snp_journal_unsealed(struct snp_tx *tx, uint64_t *ret, struct snp_err *err)
{
    int64_t n = 0;

    SNP_TRY(snp_db_number(tx->db, 0, &n, err,
                          "SELECT COUNT(*) FROM blobs WHERE data IS NULL AND damaged = 0"
                          " AND NOT " SNP_SEAL_SQL_MARK,
                          ""));
    *ret = (uint64_t)n;
    return 0;
}
