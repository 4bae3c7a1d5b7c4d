/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saving: items are collected in slices; the files of a slice are synced, then one job gives them
 * names and rows. The checkpoint's row exists from the beginning, but incomplete, so no other code
 * uses it, and the rest of a failed transfer is collected as garbage. The last job makes it
 * complete; its commit comes after all names are on disk: all or nothing. A small last slice is
 * part of that job.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "store/checkpoint/transfer.h"
#include "store/journal_priv.h"

enum {
    SLICE_ITEMS = 256,     /* of one transaction: other jobs wait for it */
    SLICE_FILES = 64,      /* open descriptors of one slice */
    LAST_FILES = 4,        /* of the last slice, whose names the last commit syncs */
    ARENA_BYTES = 1 << 20, /* heads and small contents of one slice */
};

#define BYTES_MAX_DEFAULT (16ULL << 30)

/* Saving: jobs -------------------------------------------------------------------------- */

/*
 * State from before a rollback can only become a snapshot: from an earlier epoch it is never the
 * latest.
 */
static int epoch_check(struct snp_tx *tx,
                       const struct snp_transfer *t,
                       int64_t *ret_session,
                       struct snp_err *err)
{
    uint64_t epoch = 0;

    SNP_TRY(snp_session_row(tx, t->save.session, ret_session, &epoch, err));
    if (t->save.snapshot == NULL ? epoch != t->save.epoch : epoch < t->save.epoch) {
        return snp_fail(
            err, SNP_E_DENIED,
            "a checkpoint of epoch %llu was received while session %.64s was in epoch %llu",
            (unsigned long long)t->save.epoch, t->save.session, (unsigned long long)epoch);
    }
    return 0;
}

static int save_begin(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    int64_t session = 0;

    SNP_TRY(epoch_check(tx, t, &session, err));
    SNP_TRY(snp_db_run(tx->db, NULL, err,
                       "INSERT INTO checkpoints(session, cell, epoch, created_us, effect)"
                       " VALUES(?, ?, ?, ?, ?)",
                       "iiiii", session, (int64_t)t->save.cell, (int64_t)t->save.epoch,
                       (int64_t)snp_wall_us(), (int64_t)t->save.effect));
    snp_transfer_busy(t, (uint64_t)sqlite3_last_insert_rowid(tx->db->sqlite), t->save.base);
    return 0;
}

/* Find the base's blob with the same key. */
static int same_find(struct snp_tx *tx,
                     const struct snp_transfer *t,
                     const struct snp_transfer_item *item,
                     int64_t *ret_blob,
                     struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    uint8_t hash[SNP_BLOB_HASH_BYTES];
    const void *bytes;
    size_t n = 0;
    int r = 0;

    /*
     * An intact one, else any. Not by ORDER BY: thousands of items may share a key, as empty files
     * do.
     */
    for (int any = 0; r == 0 && any < 2; any++) {
        snp_rows_done(&rows);
        r = snp_db_row(tx->db, &rows, err,
                       "SELECT blobs.row, hash, blobs.size, damaged, data IS NULL FROM items"
                       " JOIN blobs ON blobs.row = items.blob"
                       " WHERE checkpoint = ? AND key = ? AND blob IS NOT NULL"
                       " AND (damaged = 0 OR ?) LIMIT 1",
                       "iti", (int64_t)t->save.base, item->key, (int64_t)any);
    }
    SNP_TRY(r);
    if (r == 0 || snp_col_u64(&rows, 2) != item->size) {
        return snp_fail(err, SNP_E_PEER, "the checkpoint refers to unknown content");
    }
    bytes = snp_col_bytes(&rows, 1, &n);
    if (n != sizeof(hash)) {
        return snp_fail(err, SNP_E_NOT_FOUND, "a blob's row is damaged");
    }
    memcpy(hash, bytes, sizeof(hash));
    if (snp_col_u64(&rows, 3) != 0 ||
        (snp_col_u64(&rows, 4) != 0 && !snp_blob_is_there(&tx->store->place, hash))) {
        snp_blob_suspect(tx->store, hash);
        return snp_fail(err, SNP_E_NOT_FOUND,
                        "content of an earlier checkpoint is damaged or missing; the next "
                        "checkpoint will be written in full");
    }
    *ret_blob = (int64_t)snp_col_u64(&rows, 0);
    return 0;
}

static int item_insert(struct snp_tx *tx,
                       const struct snp_transfer *t,
                       const struct snp_transfer_item *item,
                       int64_t blob,
                       struct snp_err *err)
{
    return snp_db_run(tx->db, NULL, err,
                      "INSERT INTO items(checkpoint, part, kind, name, key, size, meta, blob)"
                      " VALUES(?, ?, ?, ?, ?, ?, ?, NULLIF(?, 0))",
                      "iiittiti", (int64_t)t->busy.checkpoint, (int64_t)item->part,
                      (int64_t)item->kind, item->name, item->key, (int64_t)item->size, item->meta,
                      blob);
}

static int slice_job(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    struct snp_transfer_slice *slice = &t->slice;
    int r = 0;

    slice->written = 0;
    slice->same = 0;
    for (unsigned i = 0; r == 0 && i < slice->n; i++) {
        struct snp_transfer_item *item = &slice->items[i];
        uint64_t written = 0;
        int64_t blob = 0;

        if (item->is_same) {
            r = same_find(tx, t, item, &blob, err);
            slice->same++;
        } else if (item->has_blob) {
            r = snp_blob_adopt(tx, &item->made, true, &blob, &written, err);
            slice->written += written;
        }
        SNP_THEN(r, item_insert(tx, t, item, blob, err));
    }
    return r;
}

/* Make it complete. slice: added in this transaction, or NULL. */
static int complete(struct snp_tx *tx,
                    const struct snp_transfer *t,
                    const struct snp_transfer_slice *slice,
                    struct snp_err *err)
{
    const struct snp_checkpoint_report *report = &t->report;
    uint64_t written = report->written_bytes + (slice == NULL ? 0 : slice->written);
    uint64_t same = report->same_items + (slice == NULL ? 0 : slice->same);
    uint64_t changed = 0;
    int64_t session = 0;

    SNP_TRY(epoch_check(tx, t, &session, err));
    SNP_TRY(snp_db_run(tx->db, &changed, err,
                       "UPDATE checkpoints SET complete = 1, items = ?, same_items = ?,"
                       " bytes = ?, written_bytes = ?, lost = ? WHERE row = ?",
                       "iiiiti", (int64_t)report->items, (int64_t)same, (int64_t)report->bytes,
                       (int64_t)written, report->lost, (int64_t)t->busy.checkpoint));
    if (changed == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "the session was cleared before it was saved");
    }
    if (t->save.snapshot != NULL) {
        SNP_TRY(snp_journal_snapshot_checkpoint(tx, t->save.snapshot, t->busy.checkpoint, err));
    }
    SNP_TRY(snp_session_grow(tx, session, (int64_t)written, err));
    return snp_gc_prune(tx, session, err);
}

static int save_end(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    return complete(tx, arg, NULL, err);
}

/* The last slice and the end at once: a synced commit first syncs the names. */
static int save_end_slice(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_transfer *t = arg;

    SNP_TRY(slice_job(tx, t, err));
    return complete(tx, t, &t->slice, err);
}

/* The incomplete row stays, to be collected as garbage. */
static int save_abort(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err SNP_UNUSED)
{
    tx->store->must_reap = true;
    return 0;
}

/* Saving: the thread -------------------------------------------------------------------- */

static void slice_discard(struct snp_transfer *t)
{
    for (unsigned i = 0; i < t->slice.n; i++) {
        snp_blob_discard(&t->store->place, &t->slice.items[i].made);
    }
    t->slice.n = 0;
    t->slice.n_files = 0;
    t->slice.used = 0;
}

/* Sync contents. */
static int slice_sync(struct snp_transfer *t, struct snp_err *err)
{
    struct snp_transfer_slice *slice = &t->slice;
    int r = 0;

    for (unsigned i = 0; r == 0 && i < slice->n; i++) {
        struct snp_blob_made *made = &slice->items[i].made;

        if (made->fd >= 0) {
            slice->folders[made->hash[0]] = 1;
            SNP_FAULT("checkpoint.before_sync");
            r = snp_blob_sync(&t->store->place, made, err);
        }
    }
    SNP_FAULT("checkpoint.before_slice");
    return r;
}

/* Free the slice, after its rows were written or have failed. */
static void slice_settle(struct snp_transfer *t, bool is_done)
{
    if (is_done) {
        t->report.written_bytes += t->slice.written;
        t->report.same_items += t->slice.same;
    }
    slice_discard(t);
}

/* Sync contents, then write names and rows. */
static int slice_flush(struct snp_transfer *t, struct snp_err *err)
{
    int r = slice_sync(t, err);

    t->slice.written = 0;
    t->slice.same = 0;
    if (r == 0 && t->slice.n > 0) {
        r = snp_store_call(t->store, slice_job, t, SNP_DURABILITY_PROCESS, err);
    }
    slice_settle(t, r == 0);
    return r;
}

/* Copy n bytes into the arena; there is always room, see on_item. */
static void *arena_take(struct snp_transfer_slice *slice, const void *bytes, size_t n)
{
    char *at = slice->arena + slice->used;

    SNP_ASSERT(n <= ARENA_BYTES - slice->used);
    memcpy(at, n == 0 ? "" : bytes, n);
    slice->used += n;
    return at;
}

/* Collect the losses for the report, up to the limit of the list. */
static int lost_add(struct snp_transfer *t, const struct snp_stream_item *item, struct snp_err *err)
{
    snp_autojson json_t *row = json_pack("{s:s, s:s, s:s}", "name", item->name, "type",
                                         snp_json_str(item->meta, "type", ""), "reason",
                                         snp_json_str(item->meta, "reason", ""));
    snp_autofree char *text = row == NULL ? NULL : snp_json_text(row);

    SNP_TRY_MEMORY(text, err);
    if (t->lost.len + strlen(text) + 2 <= SNP_TRANSFER_LOST_MAX &&
        snp_buf_addf(&t->lost, "%s%s", t->lost.len == 1 ? "" : ",", text) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

static int on_item(void *arg, const struct snp_stream_item *item, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    struct snp_transfer_slice *slice = &t->slice;
    snp_autofree char *meta = snp_json_text(item->meta);
    size_t need;
    int r = 0;

    SNP_TRY_MEMORY(meta, err);
    need = strlen(meta) + strlen(item->name) + strlen(item->key) + 3 + SNP_STORE_INLINE_MAX;
    if (slice->n >= SLICE_ITEMS || slice->n_files >= SLICE_FILES ||
        need > ARENA_BYTES - slice->used) {
        r = slice_flush(t, err);
    }
    if (r == 0 && item->kind == SNP_ITEM_LOST) {
        r = lost_add(t, item, err);
    }
    SNP_TRY(r);
    t->report.items++;
    t->report.bytes += item->size;
    t->report.has_image = t->report.has_image || item->kind == SNP_ITEM_IMAGE;
    t->current = (struct snp_transfer_item){
        .part = item->part,
        .kind = item->kind,
        .name = arena_take(slice, item->name, strlen(item->name) + 1),
        .key = arena_take(slice, item->key, strlen(item->key) + 1),
        .meta = arena_take(slice, meta, strlen(meta) + 1),
        .size = item->size,
        .is_same = item->is_same,
        .has_blob = item->kind == SNP_ITEM_VARS || item->kind == SNP_ITEM_FILE ||
                    item->kind == SNP_ITEM_IMAGE,
        .made = {.fd = -1},
    };
    return t->current.has_blob && !item->is_same ? snp_blob_begin(t->writer, err) : 0;
}

static int on_data(void *arg, const void *bytes, size_t n, struct snp_err *err)
{
    struct snp_transfer *t = arg;

    return snp_blob_add(t->writer, bytes, n, err);
}

static int on_item_end(void *arg, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    struct snp_transfer_slice *slice = &t->slice;
    struct snp_transfer_item *item = &t->current;

    if (item->has_blob && !item->is_same) {
        SNP_TRY(snp_blob_commit(t->writer, &item->made, err));
        if (item->made.data != NULL) {
            item->made.data = arena_take(slice, item->made.data, (size_t)item->made.size);
        }
        slice->n_files += item->made.fd >= 0 ? 1 : 0;
    }
    slice->items[slice->n++] = *item;
    return 0;
}

static int save_setup(struct snp_transfer *t, struct snp_err *err)
{
    const struct snp_stream_sink sink = {
        .item = on_item, .data = on_data, .item_end = on_item_end, .arg = t};
    uint64_t most = t->save.bytes_max == 0 ? BYTES_MAX_DEFAULT : t->save.bytes_max;

    t->slice.items = calloc(SLICE_ITEMS, sizeof(*t->slice.items));
    t->slice.arena = malloc(ARENA_BYTES);
    SNP_TRY_MEMORY(
        t->slice.items != NULL && t->slice.arena != NULL && snp_buf_adds(&t->lost, "[") >= 0, err);
    return snp_stream_in_init(&t->in, &sink, most, err);
}

/* Sync the names of contents: new ones, and those just written by another transfer. */
static int folders_sync(struct snp_transfer *t, struct snp_err *err)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < 256; i++) {
        if (t->slice.folders[i] != 0) {
            SNP_FAULT("checkpoint.before_folder_sync");
            r = snp_blob_sync_folder(&t->store->place, i, err);
        }
    }
    return r;
}

static int report_make(struct snp_transfer *t, struct snp_err *err)
{
    SNP_TRY_MEMORY(snp_buf_adds(&t->lost, "]") >= 0 && snp_buf_cstr(&t->lost) != NULL, err);
    t->report.checkpoint = t->busy.checkpoint;
    t->report.cell = t->save.cell;
    t->report.lost = snp_buf_cstr(&t->lost);
    return 0;
}

/* Write the rest, and commit the complete checkpoint. */
static int save_finish(struct snp_transfer *t, struct snp_err *err)
{
    bool is_short = t->slice.n_files <= LAST_FILES;
    int r = is_short ? 0 : slice_flush(t, err);

    if (r == 0) {
        r = folders_sync(t, err); /* of earlier slices: not on the thread that others wait for */
    }
    if (r == 0 && is_short) {
        r = slice_sync(t, err);
    }
    SNP_THEN(r, report_make(t, err));
    SNP_FAULT("checkpoint.before_complete");
    SNP_THEN(r, snp_store_call(t->store, is_short ? save_end_slice : save_end, t,
                               SNP_DURABILITY_SYNCED, err));
    if (is_short) {
        slice_settle(t, r == 0);
    }
    return r;
}

int snp_transfer_save(struct snp_transfer *t, struct snp_err *err)
{
    struct snp_err ignored;
    int r = save_setup(t, err);

    SNP_THEN(r, snp_store_call(t->store, save_begin, t, SNP_DURABILITY_PROCESS, err));
    if (r < 0) {
        snp_transfer_idle(t); /* it may have run, and been undone */
        return r;
    }
    r = snp_blob_writer_new(&t->store->place, &t->writer, err);
    if (r == 0) {
        snp_blob_use_thread(t->writer);
        r = snp_transfer_feed(t, err);
    }
    SNP_THEN(r, save_finish(t, err));
    slice_discard(t);
    snp_transfer_idle(t);
    if (r < 0 && snp_store_call(t->store, save_abort, t, SNP_DURABILITY_PROCESS, &ignored) < 0) {
        snp_log(SNP_LOG_DEBUG, "checkpoint-abort", "why=\"%s\"",
                ignored.msg); /* at the next open */
    }
    return r;
}
