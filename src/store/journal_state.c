/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots, checkpoints and their items.
 *
 * A checkpoint is visible once complete, and usable while all its contents are intact.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "store/journal.h"
#include "store/journal_priv.h"
#include "store/seal.h"

enum {
    NEAREST_MAX = 160, /* SESSION@NAME */
};

/* Snapshots ----------------------------------------------------------------------------- */

int snp_journal_snapshot_add(struct snp_tx *tx,
                             const struct snp_journal_snapshot *row,
                             struct snp_err *err)
{
    int64_t session = 0;
    int r;

    SNP_TRY(snp_session_row(tx, row->session, &session, NULL, err));
    r = snp_db_run(tx->db, NULL, err,
                   "INSERT INTO snapshots(id, name, session, parent, cell, epoch, created_us,"
                   " checkpoint) VALUES(?, ?, ?, ?, ?, ?, ?, NULLIF(?, 0))",
                   "ttitiiii", row->id, row->name, session, row->parent, (int64_t)row->cell,
                   (int64_t)row->epoch, (int64_t)row->created_us, (int64_t)row->checkpoint);
    if (r == SNP_E_INVALID) {
        return snp_fail(err, SNP_E_DENIED,
                        "the session already has a snapshot %.64s; use another name, or remove "
                        "that snapshot first",
                        row->name == NULL ? row->id : row->name);
    }
    return r;
}

#define SNAPSHOT_COLUMNS                                                          \
    "SELECT n.id, n.name, s.id, s.name, n.parent, n.cell, n.epoch, n.created_us," \
    " n.checkpoint, c.complete = 1 AND c.damaged = 0, c.bytes, c.lost"            \
    " FROM snapshots AS n JOIN sessions AS s ON s.row = n.session"                \
    " LEFT JOIN checkpoints AS c ON c.row = n.checkpoint"

static void snapshot_read(struct snp_rows *rows, struct snp_journal_snapshot *ret)
{
    *ret = (struct snp_journal_snapshot){
        .id = snp_col_text(rows, 0),
        .name = snp_col_text(rows, 1),
        .session = snp_col_text(rows, 2),
        .session_name = snp_col_text(rows, 3),
        .parent = snp_col_text(rows, 4),
        .cell = snp_col_u64(rows, 5),
        .epoch = snp_col_u64(rows, 6),
        .created_us = snp_col_u64(rows, 7),
        .checkpoint = snp_col_u64(rows, 8),
        .is_usable = snp_col_u64(rows, 9) != 0,
        .bytes = snp_col_u64(rows, 10),
        .lost = snp_col_text(rows, 11),
    };
}

/* 1: found. The row must be the only one. */
static int snapshot_take(struct snp_tx *tx,
                         struct snp_rows *rows,
                         const char *ref,
                         struct snp_journal_snapshot *ret,
                         struct snp_err *err)
{
    struct snp_journal_snapshot row = {0};
    const char **texts[] = {&row.id,           &row.name,   &row.session,
                            &row.session_name, &row.parent, &row.lost};
    int r = snp_db_step(rows, err);

    if (r <= 0) {
        return r;
    }
    snapshot_read(rows, &row);
    r = snp_tx_texts(tx, texts, SNP_ARRAY_LEN(texts), err);
    SNP_THEN(r, snp_db_step(rows, err));
    if (r > 0) {
        return snp_fail(err, SNP_E_INVALID,
                        "several sessions have a snapshot %.64s; write SESSION@%.64s", ref, ref);
    }
    if (r == 0) {
        *ret = row;
        r = 1;
    }
    return r;
}

/* "no snapshot 'wrok@x'; did you mean 'work@x'?" */
static int unknown_tell(struct snp_tx *tx, const char *ref, struct snp_err *err)
{
    static const char names[] =
        "SELECT CASE WHEN instr(?1, '@') THEN s.name || '@' || n.name ELSE n.name END"
        " FROM snapshots AS n JOIN sessions AS s ON s.row = n.session"
        " WHERE n.name IS NOT NULL AND s.name IS NOT NULL ORDER BY n.row DESC LIMIT 1000";
    snp_autorows struct snp_rows rows = {0};
    char nearest[NEAREST_MAX] = "";
    int r = snp_db_ask(tx->db, &rows, err, names, "t", ref);

    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        const char *two[] = {snp_col_text(&rows, 0), nearest};
        const char *better = snp_suggest(ref, two, SNP_ARRAY_LEN(two));

        if (better == two[0]) {
            (void)snprintf(nearest, sizeof(nearest), "%s", better);
        }
        r = 0;
    }
    if (r < 0) {
        return r;
    }
    (void)snp_fail_with(err, SNP_E_NOT_FOUND, SNP_REMEDY_LIST_SNAPSHOTS, NULL, 0,
                        "no snapshot '%.130s'", ref);
    snp_err_about(err, ref);
    return snp_err_near(err, SNP_E_NOT_FOUND, nearest[0] == '\0' ? NULL : nearest);
}

int snp_journal_snapshot_get(struct snp_tx *tx,
                             const char *ref,
                             struct snp_journal_snapshot *ret,
                             struct snp_err *err)
{
    static const char by_id[] = SNAPSHOT_COLUMNS " WHERE n.id = ?";
    static const char by_name[] = SNAPSHOT_COLUMNS " WHERE n.name = ?";
    static const char by_both[] =
        SNAPSHOT_COLUMNS " WHERE (s.id = substr(?1, 1, instr(?1, '@') - 1)"
                         " OR s.name = substr(?1, 1, instr(?1, '@') - 1))"
                         " AND substr(?1, instr(?1, '@') + 1) IN (n.name, n.id)";
    static const char *const ways[] = {by_id, by_name, by_both};
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(ways); i++) {
        snp_autorows struct snp_rows rows = {0};

        r = snp_db_ask(tx->db, &rows, err, ways[i], "t", ref);
        SNP_THEN(r, snapshot_take(tx, &rows, ref, ret, err));
    }
    return r < 0 ? r : r == 0 ? unknown_tell(tx, ref, err) : 0;
}

int snp_journal_snapshot_each(struct snp_tx *tx,
                              const char *session,
                              snp_journal_snapshot_fn each,
                              void *arg,
                              struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int r =
        snp_db_ask(tx->db, &rows, err,
                   SNAPSHOT_COLUMNS " WHERE ?1 IS NULL OR s.id = ?1 ORDER BY n.row", "t", session);

    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        struct snp_journal_snapshot row;

        snapshot_read(&rows, &row);
        r = each(&row, arg, err);
    }
    return r;
}

static int snapshot_changed(int r, uint64_t changed, const char *id, struct snp_err *err)
{
    if (r == 0 && changed == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "no snapshot %.64s", id);
    }
    return r;
}

int snp_journal_snapshot_checkpoint(struct snp_tx *tx,
                                    const char *id,
                                    uint64_t checkpoint,
                                    struct snp_err *err)
{
    uint64_t changed = 0;
    int r = snp_db_run(tx->db, &changed, err, "UPDATE snapshots SET checkpoint = ? WHERE id = ?",
                       "it", (int64_t)checkpoint, id);

    return snapshot_changed(r, changed, id, err);
}

int snp_journal_snapshot_remove(struct snp_tx *tx, const char *id, struct snp_err *err)
{
    uint64_t changed = 0;
    int64_t session = 0;
    int r = snp_db_number(tx->db, 0, &session, err, "SELECT session FROM snapshots WHERE id = ?",
                          "t", id);

    tx->frees = true;
    SNP_THEN(r,
             snp_db_run(tx->db, NULL, err,
                        "UPDATE snapshots SET parent = (SELECT parent FROM snapshots WHERE id = ?1)"
                        " WHERE parent = ?1",
                        "t", id));
    SNP_THEN(r, snp_db_run(tx->db, NULL, err,
                           "UPDATE sessions SET head_snapshot = (SELECT parent FROM snapshots"
                           " WHERE id = ?1) WHERE head_snapshot = ?1",
                           "t", id));
    SNP_THEN(r, snp_db_run(tx->db, &changed, err, "DELETE FROM snapshots WHERE id = ?", "t", id));
    r = snapshot_changed(r, changed, id, err);
    return r < 0 ? r : snp_gc_prune(tx, session, err);
}

/* Checkpoints --------------------------------------------------------------------------- */

#define CHECKPOINT_COLUMNS                                                         \
    "SELECT c.row, s.id, c.cell, c.epoch, items, bytes, damaged = 0, lost, effect" \
    " FROM checkpoints AS c JOIN sessions AS s ON s.row = c.session"               \
    " WHERE complete = 1"

static void checkpoint_read(struct snp_rows *rows, struct snp_journal_checkpoint *ret)
{
    *ret = (struct snp_journal_checkpoint){
        .id = snp_col_u64(rows, 0),
        .session = snp_col_text(rows, 1),
        .cell = snp_col_u64(rows, 2),
        .epoch = snp_col_u64(rows, 3),
        .items = snp_col_u64(rows, 4),
        .bytes = snp_col_u64(rows, 5),
        .is_usable = snp_col_u64(rows, 6) != 0,
        .lost = snp_col_text(rows, 7),
        .effect = snp_col_u64(rows, 8),
    };
}

int snp_journal_checkpoint_get(struct snp_tx *tx,
                               uint64_t id,
                               struct snp_journal_checkpoint *ret,
                               struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    struct snp_journal_checkpoint row = {0};
    const char **texts[] = {&row.session, &row.lost};
    int r = snp_db_row(tx->db, &rows, err, CHECKPOINT_COLUMNS " AND c.row = ?", "i", (int64_t)id);

    if (r <= 0) {
        return r < 0 ? r
                     : snp_fail(err, SNP_E_NOT_FOUND, "no checkpoint %llu", (unsigned long long)id);
    }
    checkpoint_read(&rows, &row);
    SNP_TRY(snp_tx_texts(tx, texts, SNP_ARRAY_LEN(texts), err));
    *ret = row;
    return 0;
}

int snp_journal_checkpoint_copy(struct snp_tx *tx,
                                uint64_t id,
                                const struct snp_journal_checkpoint *to,
                                uint64_t *ret_id,
                                struct snp_err *err)
{
    struct snp_journal_checkpoint from = {0};
    int64_t session = 0;
    int64_t row = 0;

    SNP_TRY(snp_journal_checkpoint_get(tx, id, &from, err));
    if (!from.is_usable) {
        return snp_fail(err, SNP_E_DENIED, "checkpoint %llu needs a blob that is damaged",
                        (unsigned long long)id);
    }
    SNP_TRY(snp_session_row(tx, to->session, &session, NULL, err));
    SNP_TRY(snp_db_run(tx->db, NULL, err,
                       "INSERT INTO checkpoints(session, cell, epoch, created_us, items,"
                       " same_items, bytes, written_bytes, complete, lost, effect)"
                       " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, 1, ?8,"
                       " IFNULL((SELECT MAX(row) FROM effects WHERE session = ?1), 0))",
                       "iiiiiiit", session, (int64_t)to->cell, (int64_t)to->epoch,
                       (int64_t)snp_wall_us(), (int64_t)from.items, (int64_t)from.items,
                       (int64_t)from.bytes, from.lost));
    row = sqlite3_last_insert_rowid(tx->db->sqlite);
    SNP_TRY(snp_db_run(tx->db, NULL, err,
                       "INSERT INTO items(checkpoint, part, kind, name, key, size, meta, blob)"
                       " SELECT ?, part, kind, name, key, size, meta, blob FROM items"
                       " WHERE checkpoint = ? ORDER BY row",
                       "ii", row, (int64_t)id));
    *ret_id = (uint64_t)row;
    return 0;
}

/* Items --------------------------------------------------------------------------------- */

int snp_journal_item_each(struct snp_tx *tx,
                          uint64_t checkpoint,
                          snp_journal_item_fn each,
                          void *arg,
                          struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int r = snp_db_ask(tx->db, &rows, err,
                       "SELECT kind, name, key, items.size, meta, hash, damaged FROM items"
                       " LEFT JOIN blobs ON blobs.row = items.blob"
                       " WHERE checkpoint = ? ORDER BY items.row",
                       "i", (int64_t)checkpoint);

    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        char hex[SNP_STORE_HASH_LEN + 1];
        struct snp_journal_item row = {
            .kind = (enum snp_item_kind)snp_col_u64(&rows, 0),
            .key = snp_col_text(&rows, 2),
            .size = snp_col_u64(&rows, 3),
            .meta = snp_col_text(&rows, 4),
            .is_damaged = snp_col_u64(&rows, 6) != 0,
        };
        size_t n = 0;
        const char *name;
        const void *hash = snp_col_bytes(&rows, 5, &n);

        if (n == SNP_BLOB_HASH_BYTES) {
            snp_blob_hex(hash, hex);
            row.hash = hex;
        }
        name = snp_col_text(&rows, 1);
        row.name.data = name == NULL ? "" : name;
        row.name.n = strlen(row.name.data);
        r = each(&row, arg, err);
    }
    return r;
}

int snp_journal_known_keys(struct snp_tx *tx,
                           uint64_t checkpoint,
                           struct snp_buf *buf,
                           struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    size_t used = 0;
    int r = snp_db_ask(tx->db, &rows, err,
                       "SELECT key, MAX(items.size) AS most FROM items"
                       " JOIN blobs ON blobs.row = items.blob"
                       " WHERE checkpoint = ? AND damaged = 0"
                       " AND (data IS NOT NULL OR ? OR " SNP_SEAL_SQL_MARK ")"
                       " GROUP BY key ORDER BY most DESC",
                       "ii", (int64_t)checkpoint, (int64_t)(tx->store->place.seal == NULL));

    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        const char *key = snp_col_text(&rows, 0);
        size_t n = key == NULL ? 0 : strlen(key);

        if (used + n + 1 > SNP_JOURNAL_KNOWN_MAX) {
            return 0;
        }
        r = n == 0 ? 0 : snp_buf_addf(buf, "%s\n", key);
        if (r < 0) {
            return snp_fail(err, (enum snp_code)r, "the list of keys is too long");
        }
        used += n + 1;
    }
    return r;
}
