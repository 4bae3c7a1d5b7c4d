/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of blobs: the contents, their places, and the handling of damage.
 *
 * Files get and lose their names only on the store's thread, between reading the row and changing
 * it: so no content is found just before it is removed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "store/journal.h"
#include "store/state.h"

/* Adding -------------------------------------------------------------------------------- */

static void folder_dirty(struct snp_store *store, unsigned first)
{
    store->dirty_folders[first / 64] |= 1ULL << (first % 64);
}

int snp_blobs_sync_folders(struct snp_store *store, struct snp_err *err)
{
    for (unsigned i = 0; i < 256; i++) {
        bool is_dirty = (store->dirty_folders[i / 64] & (1ULL << (i % 64))) != 0;

        SNP_TRY(is_dirty ? snp_blob_sync_folder(&store->place, i, err) : 0);
    }
    memset(store->dirty_folders, 0, sizeof(store->dirty_folders));
    return 0;
}

/* Move a made blob's file to its place. */
static int file_settle(struct snp_store *store,
                       struct snp_blob_made *made,
                       bool is_synced,
                       struct snp_err *err)
{
    int r = 0;

    if (made->fd < 0) {
        /* This job runs again: the file is there already. */
        return snp_blob_is_there(&store->place, made->hash)
                   ? 0
                   : snp_fail(err, SNP_E_INTERNAL, "a blob was removed after it was written");
    }
    if (!is_synced) {
        r = snp_blob_sync(&store->place, made, err);
    }
    SNP_FAULT("blob.before_rename");
    SNP_THEN(r, snp_blob_rename(&store->place, made, err));
    SNP_FAULT("blob.after_rename");
    if (r == 0) {
        folder_dirty(store, made->hash[0]);
        snp_closep(&made->fd);
        if (store->n_fresh < SNP_STORE_FRESH_MAX) {
            memcpy(store->fresh[store->n_fresh++], made->hash, sizeof(made->hash));
        }
    }
    return r;
}

/* A damaged blob was written again: checkpoints are usable again if they lack nothing else. */
static int revive(struct snp_tx *tx,
                  int64_t row,
                  const struct snp_blob_made *made,
                  struct snp_err *err)
{
    SNP_TRY(snp_db_run(tx->db, NULL, err,
                       "UPDATE blobs SET damaged = 0, stored = ?, data = ? WHERE row = ?", "idi",
                       (int64_t)made->stored, made->data, (size_t)made->size, row));
    return snp_db_run(tx->db, NULL, err,
                      "UPDATE checkpoints SET damaged = EXISTS"
                      " (SELECT 1 FROM items JOIN blobs ON blobs.row = items.blob"
                      "  WHERE items.checkpoint = checkpoints.row AND blobs.damaged AND kind <> ?)"
                      " WHERE row IN (SELECT checkpoint FROM items WHERE blob = ?)"
                      " AND items = (SELECT COUNT(*) FROM items"
                      "  WHERE checkpoint = checkpoints.row)",
                      "ii", (int64_t)SNP_ITEM_IMAGE, row);
}

static int row_insert(struct snp_tx *tx,
                      const struct snp_blob_made *made,
                      int64_t *ret_row,
                      struct snp_err *err)
{
    SNP_TRY(snp_db_run(tx->db, NULL, err,
                       "INSERT INTO blobs(hash, size, stored, created_us, data)"
                       " VALUES(?, ?, ?, ?, ?)",
                       "biiid", made->hash, sizeof(made->hash), (int64_t)made->size,
                       (int64_t)made->stored, (int64_t)snp_wall_us(), made->data,
                       (size_t)made->size));
    *ret_row = sqlite3_last_insert_rowid(tx->db->sqlite);
    return 0;
}

int snp_blob_adopt(struct snp_tx *tx,
                   struct snp_blob_made *made,
                   bool is_synced,
                   int64_t *ret_row,
                   uint64_t *ret_new,
                   struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    struct snp_store *store = tx->store;
    bool is_damaged;
    const void *data;
    size_t n = 0;
    int r = snp_db_row(tx->db, &rows, err, "SELECT row, damaged, data FROM blobs WHERE hash = ?",
                       "b", made->hash, sizeof(made->hash));

    SNP_TRY(r);
    *ret_new = made->stored;
    if (r == 0) {
        snp_rows_done(&rows);
        r = made->data != NULL ? 0 : file_settle(store, made, is_synced, err);
        return r < 0 ? r : row_insert(tx, made, ret_row, err);
    }
    *ret_row = (int64_t)snp_col_u64(&rows, 0);
    is_damaged = snp_col_u64(&rows, 1) != 0;
    data = snp_col_bytes(&rows, 2, &n);
    if (made->data != NULL) {
        is_damaged = is_damaged || n != made->size || (n > 0 && memcmp(data, made->data, n) != 0);
    }
    snp_rows_done(&rows);
    if (!is_damaged && (made->data != NULL || snp_blob_is_there(&store->place, made->hash))) {
        snp_blob_discard(&store->place, made);
        *ret_new = 0;
        return 0;
    }
    SNP_TRY(made->data != NULL ? 0 : file_settle(store, made, is_synced, err));
    return revive(tx, *ret_row, made, err);
}

int snp_blob_put(struct snp_tx *tx,
                 const void *bytes,
                 size_t n,
                 int64_t *ret_row,
                 uint64_t *ret_new,
                 struct snp_err *err)
{
    struct snp_store *store = tx->store;
    struct snp_blob_made made = {.fd = -1};
    int r = 0;

    if (store->writer == NULL) {
        r = snp_blob_writer_new(&store->place, &store->writer, err);
    }
    SNP_THEN(r, snp_blob_begin(store->writer, err));
    SNP_THEN(r, snp_blob_add(store->writer, bytes, n, err));
    SNP_THEN(r, snp_blob_commit(store->writer, &made, err));
    SNP_THEN(r, snp_blob_adopt(tx, &made, false, ret_row, ret_new, err));
    snp_blob_discard(&store->place, &made);
    return r;
}

/* Reading ------------------------------------------------------------------------------- */

/* Append a part of a file to buf. */
static int file_read(struct snp_tx *tx,
                     const uint8_t *hash,
                     const struct snp_blob_info *info,
                     const uint64_t range[2],
                     struct snp_buf *buf,
                     struct snp_err *err)
{
    struct snp_store *store = tx->store;
    uint64_t left = range[1];
    int r = 0;

    if (store->reader == NULL) {
        r = snp_blob_reader_new(&store->place, &store->reader, err);
    }
    SNP_THEN(r, snp_blob_open(store->reader, hash, info->size, range[0], err));
    while (r == 0 && left > 0) {
        const void *bytes = NULL;
        size_t n = 0;

        r = snp_blob_next(store->reader, &bytes, &n, err);
        if (r < 0 || n == 0) {
            break;
        }
        n = n < left ? n : (size_t)left;
        left -= n;
        if (snp_buf_add(buf, bytes, n) < 0) {
            return snp_fail(err, SNP_E_LIMIT, "the content has %llu bytes, more than requested",
                            (unsigned long long)info->size);
        }
    }
    if (r == SNP_E_NOT_FOUND) {
        snp_blob_suspect(store, hash);
    }
    return r;
}

/* Rows: hash, size, stored, damaged, data. */
static int row_read(struct snp_tx *tx,
                    struct snp_rows *rows,
                    const uint64_t range[2],
                    struct snp_buf *buf,
                    struct snp_blob_info *ret,
                    struct snp_err *err)
{
    uint8_t hash[SNP_BLOB_HASH_BYTES];
    struct snp_blob_info info;
    size_t n = 0;
    const void *bytes = snp_col_bytes(rows, 0, &n);

    if (n != sizeof(hash)) {
        return snp_fail(err, SNP_E_NOT_FOUND, "a blob's row is damaged");
    }
    memcpy(hash, bytes, sizeof(hash));
    snp_blob_hex(hash, info.hash);
    info.size = snp_col_u64(rows, 1);
    info.stored = snp_col_u64(rows, 2);
    if (ret != NULL) {
        *ret = info;
    }
    if (snp_col_u64(rows, 3) != 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "blob %s was found damaged and set aside", info.hash);
    }
    if (snp_col_null(rows, 4)) {
        return file_read(tx, hash, &info, range, buf, err);
    }
    bytes = snp_col_bytes(rows, 4, &n);
    if (n != info.size || !snp_blob_is(tx->store->place.seal, bytes, n, hash)) {
        snp_blob_suspect(tx->store, hash);
        return snp_fail(err, SNP_E_NOT_FOUND,
                        "blob %s is damaged: its content does not match its name", info.hash);
    }
    if (range[0] < n) {
        n -= (size_t)range[0];
        n = n < range[1] ? n : (size_t)range[1];
        if (snp_buf_add(buf, (const char *)bytes + range[0], n) < 0) {
            return snp_fail(err, SNP_E_LIMIT, "the buffer is too small for %zu bytes", n);
        }
    }
    return 0;
}

int snp_blob_get(struct snp_tx *tx, int64_t row, struct snp_buf *buf, struct snp_err *err)
{
    static const uint64_t all[2] = {0, UINT64_MAX};
    snp_autorows struct snp_rows rows = {0};
    int r =
        snp_db_row(tx->db, &rows, err,
                   "SELECT hash, size, stored, damaged, data FROM blobs WHERE row = ?", "i", row);

    if (r == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "the content was removed");
    }
    return r < 0 ? r : row_read(tx, &rows, all, buf, NULL, err);
}

int snp_blob_read(struct snp_tx *tx,
                  const struct snp_blob_range *range,
                  struct snp_buf *buf,
                  struct snp_blob_info *ret,
                  struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    uint64_t part[2] = {range->offset, range->length};
    uint8_t bytes[SNP_BLOB_HASH_BYTES];
    int r;

    if (snp_blob_unhex(range->hash, bytes) < 0) {
        return snp_fail(err, SNP_E_INVALID, "the name of a blob must have 64 hex digits");
    }
    r = snp_db_row(tx->db, &rows, err,
                   "SELECT hash, size, stored, damaged, data FROM blobs WHERE hash = ?", "b", bytes,
                   sizeof(bytes));
    if (r == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "no blob %s", range->hash);
    }
    return r < 0 ? r : row_read(tx, &rows, part, buf, ret, err);
}

/* Damage -------------------------------------------------------------------------------- */

void snp_blob_suspect(struct snp_store *store, const uint8_t hash[SNP_BLOB_HASH_BYTES])
{
    for (unsigned i = 0; i < store->n_damaged; i++) {
        if (memcmp(store->damaged[i], hash, SNP_BLOB_HASH_BYTES) == 0) {
            return;
        }
    }
    if (store->n_damaged < SNP_STORE_DAMAGED_MAX) {
        memcpy(store->damaged[store->n_damaged++], hash, SNP_BLOB_HASH_BYTES);
    }
}

static int event(
    struct snp_tx *tx, const char *kind, const char *session, const char *text, struct snp_err *err)
{
    struct snp_journal_event row = {
        .at_us = snp_wall_us(), .kind = kind, .session = session, .text = text};

    snp_log(SNP_LOG_WARN, kind, "%s", text);
    return snp_journal_event_add(tx, &row, err);
}

/*
 * Add an event for each checkpoint that becomes unusable, then mark the blob. A checkpoint is
 * usable without its image.
 */
static int checkpoints_mark(struct snp_tx *tx, int64_t blob, const char *hex, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int r = snp_db_ask(tx->db, &rows, err,
                       "SELECT checkpoints.row, checkpoints.cell, sessions.id,"
                       " IFNULL(sessions.name, sessions.id)"
                       " FROM checkpoints JOIN sessions ON sessions.row = checkpoints.session"
                       " WHERE checkpoints.damaged = 0 AND checkpoints.complete = 1"
                       " AND checkpoints.row IN"
                       " (SELECT checkpoint FROM items WHERE blob = ? AND kind <> ?)",
                       "ii", blob, (int64_t)SNP_ITEM_IMAGE);

    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        char text[512];

        (void)snprintf(text, sizeof(text),
                       "the checkpoint of session %.64s after cell %llu cannot be used: blob %s is "
                       "damaged or missing; the session will use its previous checkpoint",
                       snp_col_text(&rows, 3), (unsigned long long)snp_col_u64(&rows, 1), hex);
        r = event(tx, "unusable_checkpoint", snp_col_text(&rows, 2), text, err);
    }
    snp_rows_done(&rows);
    return r < 0 ? r
                 : snp_db_run(tx->db, NULL, err,
                              "UPDATE checkpoints SET damaged = 1 WHERE row IN"
                              " (SELECT checkpoint FROM items WHERE blob = ? AND kind <> ?)",
                              "ii", blob, (int64_t)SNP_ITEM_IMAGE);
}

static int mark_one(struct snp_tx *tx, const uint8_t *hash, struct snp_err *err)
{
    char hex[SNP_STORE_HASH_LEN + 1];
    char text[400];
    int64_t row = 0;
    int r =
        snp_db_number(tx->db, 0, &row, err, "SELECT row FROM blobs WHERE hash = ? AND damaged = 0",
                      "b", hash, (size_t)SNP_BLOB_HASH_BYTES);

    if (r < 0 || row == 0) {
        return r;
    }
    snp_blob_hex(hash, hex);
    (void)snprintf(text, sizeof(text),
                   "blob %s is damaged or missing; a damaged file is moved to blobs/quarantine "
                   "of the journal",
                   hex);
    SNP_TRY(event(tx, "damaged_blob", NULL, text, err));
    SNP_TRY(checkpoints_mark(tx, row, hex, err));
    /* An inline blob is dropped for good: its next copy is a new one. */
    SNP_TRY(snp_db_run(tx->db, NULL, err, "UPDATE blobs SET damaged = 1, data = NULL WHERE row = ?",
                       "i", row));
    snp_blob_quarantine(&tx->store->place, hash);
    return 0;
}

int snp_blobs_mark(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    struct snp_store *store = tx->store;
    int r = 0;

    for (unsigned i = 0; r == 0 && i < store->n_damaged; i++) {
        r = mark_one(tx, store->damaged[i], err);
    }
    store->n_damaged = 0; /* on failure they are found again */
    return r;
}
