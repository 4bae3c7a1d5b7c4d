/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfers of checkpoints, each in a thread of its own.
 *
 * Saving: items are gathered in slices; the files of a slice are synced, then one job gives them
 * their names and rows. The checkpoint's row is there from the beginning, but not complete, so
 * nobody sees it, and what is left of a transfer that failed is cleared up like any other
 * rubbish. The last job, whose commit finds the names on disk or puts them there, makes it
 * complete: all or nothing. If little is left for it, the last slice is a part of it.
 *
 * Loading: rows come in pages by jobs, contents of files are read by this thread.
 *
 * A transfer's members belong to its thread while that runs, to the loop before and after.
 */
#include "store/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "store/journal_priv.h"
#include "store/store_priv.h"
#include "store/stream.h"

enum {
    PIPE_BYTES = 1 << 20,
    READ_BYTES = 512 << 10,
    ROOMS = 3,             /* of so many bytes: one is read into while others are hashed */
    SLICE_ITEMS = 256,     /* of one transaction: other jobs wait for it */
    SLICE_FILES = 64,      /* open descriptors of one slice */
    LAST_FILES = 4,        /* of the last slice, whose names the last commit puts on disk */
    ARENA_BYTES = 1 << 20, /* heads and small contents of one slice */
    PAGE_ITEMS = 256,      /* of one job that reads rows */
    PAGE_BYTES = 1 << 20,  /* of their texts and small contents, about */
    LOST_MAX = 256 << 10,  /* bytes of the list of what could not be saved */
    DESCRIBE_MAX = 64 << 20,
};

#define BYTES_MAX_DEFAULT (16ULL << 30)

enum kind {
    SAVE = 0,
    LOAD,
    DESCRIBE,
};

/* An item that waits for its slice. Texts are in the arena. */
struct pending {
    enum snp_stream_part part;
    enum snp_item_kind kind;
    const char *name;
    const char *key;
    const char *meta;
    uint64_t size;
    bool is_same;
    bool has_blob;
    struct snp_blob_made made; /* its data, if inline, is in the arena */
};

struct slice {
    struct pending *items; /* owned; SLICE_ITEMS */
    unsigned n;
    unsigned n_files;
    char *arena; /* owned; ARENA_BYTES */
    size_t used;
    uint64_t written; /* bytes that the job found to be new */
    uint64_t same;
    uint8_t folders[256]; /* ever used by this transfer: names in them must be synced */
};

/* An item that was described; texts behind it. */
struct described {
    struct described *next;
    struct snp_journal_item item;
    char text[];
};

struct snp_transfer {
    struct snp_finished finished; /* must be first */
    struct snp_store *store;
    struct snp_transfer *next; /* that waits */
    enum kind kind;
    pthread_t thread;
    bool has_thread;
    int fd; /* owned */
    struct snp_busy busy;
    struct snp_checkpoint_save save; /* its texts owned: session, snapshot */
    snp_journal_item_fn each;
    snp_checkpoint_done_fn done;
    void *arg;
    uint64_t began_us;
    struct snp_checkpoint_report report;
    struct snp_buf lost; /* JSON array without its end */
    struct snp_err err;

    /* Saving and describing. */
    struct snp_stream_in in;
    struct snp_blob_writer *writer; /* owned */
    struct slice slice;
    struct pending current;
    struct described *described; /* owned, in order */
    struct described *described_last;
    size_t described_bytes;
};

/* Pipes --------------------------------------------------------------------------------- */

/* Wait until the pipe is ready for what; SNP_E_TIMEOUT after SNP_BUNDLE_STALL_MS. */
static int pipe_wait(struct snp_transfer *t, short what, struct snp_err *err)
{
    struct pollfd fds[2] = {
        {.fd = t->fd,             .events = what  },
        {.fd = t->store->stop_fd, .events = POLLIN}
    };
    int r = SNP_RETRY(poll(fds, 2, SNP_BUNDLE_STALL_MS));

    if (r < 0) {
        return snp_fail_sys(err, errno, "poll");
    }
    if (fds[1].revents != 0) {
        return snp_fail(err, SNP_E_DENIED, "the daemon ends");
    }
    if (r == 0) {
        return snp_fail(err, SNP_E_TIMEOUT, "the stream of a checkpoint stood still for %d s",
                        SNP_BUNDLE_STALL_MS / 1000);
    }
    return 0;
}

static int pipe_setup(struct snp_transfer *t, struct snp_err *err)
{
    (void)fcntl(t->fd, F_SETPIPE_SZ, PIPE_BYTES); /* a hint: users have a share of them */
    return snp_set_nonblock(t->fd, true) < 0
               ? snp_fail_sys(err, errno, "set up the pipe of a checkpoint")
               : 0;
}

/* What was read into a room, while the writer hashes what is in the other ones. */
static int room_feed(
    struct snp_transfer *t, const char *room, size_t n, uint64_t *ret_mark, struct snp_err *err)
{
    int r = snp_stream_feed(&t->in, room, n, err);

    *ret_mark = t->writer == NULL ? 0 : snp_blob_mark(t->writer);
    return r;
}

/* Feed the stream until both parts have ended. */
static int pipe_feed(struct snp_transfer *t, struct snp_err *err)
{
    snp_autofree char *bytes = malloc((size_t)READ_BYTES * ROOMS);
    uint64_t marks[ROOMS] = {0};
    unsigned at = 0;
    int r = 0;

    if (bytes == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    while (r == 0 && !snp_stream_is_over(&t->in)) {
        char *room = bytes + (size_t)READ_BYTES * at;
        ssize_t n;

        if (t->writer != NULL) {
            snp_blob_wait(t->writer, marks[at]);
        }
        n = SNP_RETRY(read(t->fd, room, READ_BYTES));
        if (n > 0) {
            r = room_feed(t, room, (size_t)n, &marks[at], err);
            at = (at + 1) % ROOMS;
        } else if (n == 0) {
            r = snp_fail(err, SNP_E_PEER, "the stream of a checkpoint ended early");
        } else if (errno == EAGAIN) {
            r = pipe_wait(t, POLLIN, err);
        } else {
            r = snp_fail_sys(err, errno, "read the stream of a checkpoint");
        }
    }
    if (t->writer != NULL) {
        snp_blob_wait(t->writer, snp_blob_mark(t->writer)); /* the rooms go now */
    }
    return r;
}

/* All of head and bytes. */
static int pipe_write(struct snp_transfer *t,
                      struct snp_buf *head,
                      const void *bytes,
                      size_t n,
                      struct snp_err *err)
{
    struct iovec parts[2] = {
        {snp_buf_bytes(head),      head->len},
        {(void *)(uintptr_t)bytes, n        }
    };
    int r = 0;

    while (r == 0 && parts[0].iov_len + parts[1].iov_len > 0) {
        ssize_t done = SNP_RETRY(writev(t->fd, parts, 2));

        for (int i = 0; i < 2 && done > 0; i++) {
            size_t step = (size_t)done < parts[i].iov_len ? (size_t)done : parts[i].iov_len;

            parts[i].iov_base = (char *)parts[i].iov_base + step;
            parts[i].iov_len -= step;
            done -= (ssize_t)step;
        }
        if (done < 0 && errno == EAGAIN) {
            r = pipe_wait(t, POLLOUT, err);
        } else if (done < 0) {
            r = snp_fail(err, SNP_E_PEER, "the reader of a checkpoint has gone");
        }
    }
    snp_buf_clear(head);
    return r;
}

/* Busy ---------------------------------------------------------------------------------- */

static void busy_set(struct snp_transfer *t, uint64_t checkpoint, uint64_t base)
{
    struct snp_store *store = t->store;

    (void)pthread_mutex_lock(&store->mutex);
    if (t->busy.checkpoint == 0) {
        t->busy.next = store->busy;
        store->busy = &t->busy;
    }
    t->busy.checkpoint = checkpoint;
    t->busy.base = base;
    (void)pthread_mutex_unlock(&store->mutex);
}

static void busy_clear(struct snp_transfer *t)
{
    struct snp_store *store = t->store;
    struct snp_busy **at = &store->busy;

    (void)pthread_mutex_lock(&store->mutex);
    while (*at != NULL && *at != &t->busy) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = t->busy.next;
    }
    (void)pthread_mutex_unlock(&store->mutex);
}

/* Saving: jobs -------------------------------------------------------------------------- */

/* What was left by a rollback is of use as a snapshot only: in an epoch before, it is never the latest. */
static int epoch_check(struct snp_tx *tx,
                       const struct snp_transfer *t,
                       int64_t *ret_session,
                       struct snp_err *err)
{
    uint64_t epoch = 0;
    int r = snp_session_row(tx, t->save.session, ret_session, &epoch, err);

    if (r == 0 && (t->save.snapshot == NULL ? epoch != t->save.epoch : epoch < t->save.epoch)) {
        return snp_fail(err, SNP_E_DENIED,
                        "a checkpoint of epoch %llu came when session %.64s was in epoch %llu",
                        (unsigned long long)t->save.epoch, t->save.session,
                        (unsigned long long)epoch);
    }
    return r;
}

static int save_begin(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    int64_t session = 0;
    int r = epoch_check(tx, t, &session, err);

    if (r == 0) {
        r = snp_db_run(tx->db, NULL, err,
                       "INSERT INTO checkpoints(session, cell, epoch, created_us, effect)"
                       " VALUES(?, ?, ?, ?, ?)",
                       "iiiii", session, (int64_t)t->save.cell, (int64_t)t->save.epoch,
                       (int64_t)snp_wall_us(), (int64_t)t->save.effect);
    }
    if (r == 0) {
        busy_set(t, (uint64_t)sqlite3_last_insert_rowid(tx->db->sqlite), t->save.base);
    }
    return r;
}

/* The blob that the base has under the same key. */
static int same_find(struct snp_tx *tx,
                     const struct snp_transfer *t,
                     const struct pending *item,
                     int64_t *ret_blob,
                     struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    uint8_t hash[SNP_BLOB_HASH_BYTES];
    const void *bytes;
    size_t n = 0;
    int r = snp_db_ask(tx->db, &rows, err,
                       "SELECT blobs.row, hash, blobs.size, damaged, data IS NULL FROM items"
                       " JOIN blobs ON blobs.row = items.blob"
                       " WHERE checkpoint = ? AND key = ? AND blob IS NOT NULL"
                       " ORDER BY damaged LIMIT 1",
                       "it", (int64_t)t->save.base, item->key);

    if (r == 0) {
        r = snp_db_step(&rows, err);
    }
    if (r < 0) {
        return r;
    }
    if (r == 0 || snp_col_u64(&rows, 2) != item->size) {
        return snp_fail(err, SNP_E_PEER,
                        "the checkpoint refers to a content that is not known");
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
                        "a content that an earlier checkpoint had is damaged or missing; the "
                        "next one will be written without it");
    }
    *ret_blob = (int64_t)snp_col_u64(&rows, 0);
    return 0;
}

static int item_insert(struct snp_tx *tx,
                       const struct snp_transfer *t,
                       const struct pending *item,
                       int64_t blob,
                       struct snp_err *err)
{
    static const char with[] =
        "INSERT INTO items(checkpoint, part, kind, name, key, size, meta, blob)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?)";
    static const char without[] = "INSERT INTO items(checkpoint, part, kind, name, key, size,"
                                  " meta) VALUES(?, ?, ?, ?, ?, ?, ?)";

    if (item->has_blob) {
        return snp_db_run(tx->db, NULL, err, with, "iiittiti", (int64_t)t->busy.checkpoint,
                          (int64_t)item->part, (int64_t)item->kind, item->name, item->key,
                          (int64_t)item->size, item->meta, blob);
    }
    return snp_db_run(tx->db, NULL, err, without, "iiittit", (int64_t)t->busy.checkpoint,
                      (int64_t)item->part, (int64_t)item->kind, item->name, item->key,
                      (int64_t)item->size, item->meta);
}

static int slice_job(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    struct slice *slice = &t->slice;
    int r = 0;

    slice->written = 0;
    slice->same = 0;
    for (unsigned i = 0; r == 0 && i < slice->n; i++) {
        struct pending *item = &slice->items[i];
        uint64_t written = 0;
        int64_t blob = 0;

        if (item->is_same) {
            r = same_find(tx, t, item, &blob, err);
            slice->same++;
        } else if (item->has_blob) {
            r = snp_blob_adopt(tx, &item->made, true, &blob, &written, err);
            slice->written += written;
        }
        if (r == 0) {
            r = item_insert(tx, t, item, blob, err);
        }
    }
    return r;
}

/* Makes it complete. slice: what this transaction has added, or NULL. */
static int complete(struct snp_tx *tx,
                    const struct snp_transfer *t,
                    const struct slice *slice,
                    struct snp_err *err)
{
    const struct snp_checkpoint_report *report = &t->report;
    uint64_t written = report->written_bytes + (slice == NULL ? 0 : slice->written);
    uint64_t same = report->same_items + (slice == NULL ? 0 : slice->same);
    uint64_t changed = 0;
    int64_t session = 0;
    int r = epoch_check(tx, t, &session, err);

    if (r == 0) {
        r = snp_db_run(tx->db, &changed, err,
                       "UPDATE checkpoints SET complete = 1, items = ?, same_items = ?,"
                       " bytes = ?, written_bytes = ?, lost = ? WHERE row = ?",
                       "iiiiti", (int64_t)report->items, (int64_t)same, (int64_t)report->bytes,
                       (int64_t)written, report->lost, (int64_t)t->busy.checkpoint);
    }
    if (r == 0 && changed == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND, "the session was cleared meanwhile");
    }
    if (r == 0 && t->save.snapshot != NULL) {
        r = snp_journal_snapshot_checkpoint(tx, t->save.snapshot, t->busy.checkpoint, err);
    }
    if (r == 0) {
        r = snp_session_grow(tx, session, (int64_t)written, err);
    }
    return r < 0 ? r : snp_gc_prune(tx, session, err);
}

static int save_end(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    return complete(tx, arg, NULL, err);
}

/* The last slice and the end at once: a synced commit puts names on disk before it. */
static int save_end_slice(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    int r = slice_job(tx, t, err);

    return r < 0 ? r : complete(tx, t, &t->slice, err);
}

/* The row stays behind, not complete: it is to be cleared up. */
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

/* Contents to disk. */
static int slice_sync(struct snp_transfer *t, struct snp_err *err)
{
    struct slice *slice = &t->slice;
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

/* It has its rows, or never will. */
static void slice_settle(struct snp_transfer *t, bool is_done)
{
    if (is_done) {
        t->report.written_bytes += t->slice.written;
        t->report.same_items += t->slice.same;
    }
    slice_discard(t);
}

/* Contents to disk, then names and rows. */
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

/* n bytes of the arena; there is always room, see on_item. */
static void *arena_take(struct slice *slice, const void *bytes, size_t n)
{
    char *at = slice->arena + slice->used;

    SNP_ASSERT(n <= ARENA_BYTES - slice->used);
    memcpy(at, n == 0 ? "" : bytes, n);
    slice->used += n;
    return at;
}

/* What could not be saved, for the report: as much of it as a list may be long. */
static int lost_add(struct snp_transfer *t,
                    const struct snp_stream_item *item,
                    struct snp_err *err)
{
    snp_autojson json_t *row = json_pack("{s:s, s:s, s:s}", "name", item->name, "type",
                                         snp_json_str(item->meta, "type", ""), "reason",
                                         snp_json_str(item->meta, "reason", ""));
    snp_autofree char *text = row == NULL ? NULL : snp_json_text(row);

    if (text == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (t->lost.len + strlen(text) + 2 <= LOST_MAX &&
        snp_buf_addf(&t->lost, "%s%s", t->lost.len == 1 ? "" : ",", text) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

static int on_item(void *arg, const struct snp_stream_item *item, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    struct slice *slice = &t->slice;
    snp_autofree char *meta = snp_json_text(item->meta);
    size_t need;
    int r = 0;

    if (meta == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    need = strlen(meta) + strlen(item->name) + strlen(item->key) + 3 + SNP_STORE_INLINE_MAX;
    if (slice->n >= SLICE_ITEMS || slice->n_files >= SLICE_FILES ||
        need > ARENA_BYTES - slice->used) {
        r = slice_flush(t, err);
    }
    if (r == 0 && item->kind == SNP_ITEM_LOST) {
        r = lost_add(t, item, err);
    }
    if (r < 0) {
        return r;
    }
    t->report.items++;
    t->report.bytes += item->size;
    t->current = (struct pending){
        .part = item->part,
        .kind = item->kind,
        .name = arena_take(slice, item->name, strlen(item->name) + 1),
        .key = arena_take(slice, item->key, strlen(item->key) + 1),
        .meta = arena_take(slice, meta, strlen(meta) + 1),
        .size = item->size,
        .is_same = item->is_same,
        .has_blob = item->kind == SNP_ITEM_VARS || item->kind == SNP_ITEM_FILE,
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
    struct slice *slice = &t->slice;
    struct pending *item = &t->current;
    int r = 0;

    if (item->has_blob && !item->is_same) {
        r = snp_blob_commit(t->writer, &item->made, err);
        if (r < 0) {
            return r;
        }
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
    if (t->slice.items == NULL || t->slice.arena == NULL || snp_buf_adds(&t->lost, "[") < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return snp_stream_in_init(&t->in, &sink, most, err);
}

/* Names of contents to disk: of what is new, and of what another transfer has just written. */
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
    if (snp_buf_adds(&t->lost, "]") < 0 || snp_buf_cstr(&t->lost) == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    t->report.checkpoint = t->busy.checkpoint;
    t->report.cell = t->save.cell;
    t->report.lost = snp_buf_cstr(&t->lost);
    return 0;
}

/* The rest of it, and the commit that makes it complete. */
static int save_finish(struct snp_transfer *t, struct snp_err *err)
{
    bool is_short = t->slice.n_files <= LAST_FILES;
    int r = is_short ? 0 : slice_flush(t, err);

    if (r == 0) {
        r = folders_sync(t, err); /* of slices before: not on the thread that others wait for */
    }
    if (r == 0 && is_short) {
        r = slice_sync(t, err);
    }
    if (r == 0) {
        r = report_make(t, err);
    }
    SNP_FAULT("checkpoint.before_complete");
    if (r == 0) {
        r = snp_store_call(t->store, is_short ? save_end_slice : save_end, t,
                           SNP_DURABILITY_SYNCED, err);
    }
    if (is_short) {
        slice_settle(t, r == 0);
    }
    return r;
}

static int save_run(struct snp_transfer *t, struct snp_err *err)
{
    struct snp_err ignored;
    int r = save_setup(t, err);

    if (r == 0) {
        r = snp_store_call(t->store, save_begin, t, SNP_DURABILITY_PROCESS, err);
    }
    if (r < 0) {
        busy_clear(t); /* it may have run, and been undone */
        return r;
    }
    r = snp_blob_writer_new(&t->store->place, &t->writer, err);
    if (r == 0) {
        snp_blob_use_thread(t->writer);
        r = pipe_feed(t, err);
    }
    if (r == 0) {
        r = save_finish(t, err);
    }
    slice_discard(t);
    busy_clear(t);
    if (r < 0 &&
        snp_store_call(t->store, save_abort, t, SNP_DURABILITY_PROCESS, &ignored) < 0) {
        snp_log(SNP_LOG_DEBUG, "checkpoint-abort", "why=\"%s\"",
                ignored.msg); /* at the next open */
    }
    return r;
}

/* Loading ------------------------------------------------------------------------------- */

struct row {
    struct snp_journal_item item;
    enum snp_stream_part part;
    uint8_t hash[SNP_BLOB_HASH_BYTES];
    const void *data; /* inline content; NULL: none, or a file */
    bool has_blob;
};

struct page {
    struct snp_transfer *t;
    int64_t after; /* row */
    unsigned n;
    struct row rows[PAGE_ITEMS];
    struct snp_buf texts; /* what the rows point into, as offsets until it is complete */
};

static int load_begin(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    struct snp_journal_checkpoint row;
    int r = snp_journal_checkpoint_get(tx, t->report.checkpoint, &row, err);

    if (r < 0) {
        return r;
    }
    if (!row.is_usable) {
        return snp_fail(err, SNP_E_NOT_FOUND,
                        "checkpoint %llu needs a blob that is damaged or missing",
                        (unsigned long long)row.id);
    }
    t->report.cell = row.cell;
    t->report.items = row.items;
    t->report.bytes = row.bytes;
    busy_set(t, row.id, 0);
    return 0;
}

/* Keep bytes of a row; *ret: where they will be. */
static int page_keep(
    struct page *page, const void *bytes, size_t n, size_t *ret, struct snp_err *err)
{
    *ret = page->texts.len;
    if ((n > 0 && snp_buf_add(&page->texts, bytes, n) < 0) ||
        snp_buf_add(&page->texts, "", 1) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

/* Offsets of one row in texts, until these stand still. */
struct offsets {
    size_t name;
    size_t key;
    size_t meta;
    size_t data;
    bool has_data;
};

static int page_row(struct page *page,
                    struct snp_rows *rows,
                    struct offsets *at,
                    struct snp_err *err)
{
    struct row *row = &page->rows[page->n];
    const char *texts[3] = {snp_col_text(rows, 3), snp_col_text(rows, 4),
                            snp_col_text(rows, 6)};
    size_t *places[3] = {&at->name, &at->key, &at->meta};
    const void *bytes;
    size_t n = 0;
    int r = 0;

    page->after = (int64_t)snp_col_u64(rows, 0);
    *row = (struct row){.part = snp_col_u64(rows, 1) == 0 ? SNP_STREAM_VARS : SNP_STREAM_FILES};
    row->item.kind = (enum snp_item_kind)(snp_col_u64(rows, 2) % SNP_ITEM_N);
    row->item.size = snp_col_u64(rows, 5);
    for (int i = 0; r == 0 && i < 3; i++) {
        const char *text = texts[i] == NULL ? "" : texts[i];

        r = page_keep(page, text, strlen(text), places[i], err);
    }
    bytes = snp_col_bytes(rows, 7, &n);
    row->has_blob = n == sizeof(row->hash);
    if (row->has_blob) {
        memcpy(row->hash, bytes, n);
    }
    row->item.is_damaged = snp_col_u64(rows, 8) != 0;
    at->has_data = !snp_col_null(rows, 9);
    if (r == 0 && at->has_data) {
        bytes = snp_col_bytes(rows, 9, &n);
        row->item.is_damaged = row->item.is_damaged || n != row->item.size;
        r = page_keep(page, bytes, n, &at->data, err);
    }
    page->n++;
    return r;
}

static int page_job(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct page *page = arg;
    struct offsets at[PAGE_ITEMS] = {0};
    snp_autorows struct snp_rows rows = {0};
    int64_t after = page->after;
    const char *base;
    int r;

    page->n = 0;
    snp_buf_clear(&page->texts);
    r = snp_db_ask(
        tx->db, &rows, err,
        "SELECT items.row, part, kind, name, key, items.size, meta, hash, damaged, data"
        " FROM items LEFT JOIN blobs ON blobs.row = items.blob"
        " WHERE checkpoint = ? AND items.row > ? ORDER BY items.row LIMIT ?",
        "iii", (int64_t)page->t->busy.checkpoint, after, (int64_t)PAGE_ITEMS);
    while (r == 0 && page->n < PAGE_ITEMS && page->texts.len < PAGE_BYTES &&
           (r = snp_db_step(&rows, err)) > 0) {
        r = page_row(page, &rows, &at[page->n], err);
    }
    if (r < 0) {
        page->after = after; /* this job may run again */
        return r;
    }
    base = snp_buf_bytes(&page->texts);
    for (unsigned i = 0; i < page->n; i++) {
        struct row *row = &page->rows[i];

        row->item.name.data = base + at[i].name;
        row->item.name.n = strlen(base + at[i].name);
        row->item.key = base + at[i].key;
        row->item.meta = base + at[i].meta;
        row->data = at[i].has_data ? base + at[i].data : NULL;
    }
    return 0;
}

/* arg: a hash. Marks follow the job. */
static int suspect_job(struct snp_tx *tx, void *arg, struct snp_err *err SNP_UNUSED)
{
    snp_blob_suspect(tx->store, arg);
    return 0;
}

/* The content of a file, as the first bytes of its item and frames of data. */
static int file_send(struct snp_transfer *t,
                     struct snp_blob_reader *reader,
                     const struct row *row,
                     struct snp_buf *head,
                     struct snp_err *err)
{
    bool is_first = true;
    int r = snp_blob_open(reader, row->hash, row->item.size, 0, err);

    while (r == 0) {
        const void *bytes = NULL;
        size_t n = 0;

        r = snp_blob_next(reader, &bytes, &n, err);
        if (r < 0 || (n == 0 && !is_first)) {
            break;
        }
        r = is_first ? snp_stream_put_item(head, &row->item, n, err)
                     : snp_stream_put_data(head, n, err);
        if (r == 0) {
            r = pipe_write(t, head, bytes, n, err);
        }
        is_first = false;
    }
    return r;
}

static int row_send(struct snp_transfer *t,
                    struct snp_blob_reader *reader,
                    struct row *row,
                    struct snp_buf *head,
                    struct snp_err *err)
{
    bool wants = row->item.kind == SNP_ITEM_VARS || row->item.kind == SNP_ITEM_FILE;
    size_t n = row->data == NULL ? 0 : (size_t)row->item.size;
    struct snp_err ignored;
    int r;

    if (wants && (!row->has_blob || row->item.is_damaged ||
                  (row->data != NULL && !snp_blob_is(row->data, n, row->hash)))) {
        r = snp_fail(err, SNP_E_NOT_FOUND, "a blob of the checkpoint is damaged or missing");
    } else if (wants && row->data == NULL) {
        r = file_send(t, reader, row, head, err);
    } else {
        r = snp_stream_put_item(head, &row->item, n, err);
        if (r == 0 && (n > 0 || head->len >= READ_BYTES)) {
            r = pipe_write(t, head, row->data, n, err);
        }
    }
    if (r == SNP_E_NOT_FOUND && row->has_blob &&
        snp_store_call(t->store, suspect_job, row->hash, SNP_DURABILITY_PROCESS, &ignored) <
            0) {
        snp_log(SNP_LOG_WARN, "journal-mark", "why=\"%s\"", ignored.msg);
    }
    return r;
}

static int part_finish(struct snp_transfer *t,
                       enum snp_stream_part part,
                       uint64_t *items,
                       struct snp_buf *head,
                       struct snp_err *err)
{
    int r = snp_stream_put_end(head, part, *items, err);

    *items = 0;
    return r < 0 ? r : pipe_write(t, head, NULL, 0, err);
}

static int pages_send(struct snp_transfer *t,
                      struct page *page,
                      struct snp_blob_reader *reader,
                      struct snp_buf *head,
                      struct snp_err *err)
{
    enum snp_stream_part part = SNP_STREAM_VARS;
    uint64_t items = 0;
    uint64_t total = 0;
    int r;

    do {
        r = snp_store_call(t->store, page_job, page, SNP_DURABILITY_PROCESS, err);
        for (unsigned i = 0; r == 0 && i < page->n; i++) {
            if (page->rows[i].part != part) {
                r = part_finish(t, part++, &items, head, err);
            }
            if (r == 0) {
                r = row_send(t, reader, &page->rows[i], head, err);
            }
            items++;
            total++;
        }
    } while (r == 0 && page->n > 0);
    if (r == 0 && total != t->report.items) {
        return snp_fail(err, SNP_E_NOT_FOUND, "checkpoint %llu lacks some of its items",
                        (unsigned long long)t->report.checkpoint);
    }
    while (r == 0 && part != SNP_STREAM_OVER) {
        r = part_finish(t, part++, &items, head, err);
    }
    return r;
}

static int load_run(struct snp_transfer *t, struct snp_err *err)
{
    snp_cleanup(snp_blob_reader_freep) struct snp_blob_reader *reader = NULL;
    snp_autofree struct page *page = calloc(1, sizeof(*page));
    snp_autobuf struct snp_buf head = {0};
    int r;

    if (page == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    snp_buf_init(&head, (size_t)READ_BYTES * 2);
    page->t = t;
    snp_buf_init(&page->texts, (size_t)PAGE_BYTES * 2);
    r = snp_store_call(t->store, load_begin, t, SNP_DURABILITY_PROCESS, err);
    if (r == 0) {
        r = snp_blob_reader_new(&t->store->place, &reader, err);
    }
    if (r == 0) {
        r = pages_send(t, page, reader, &head, err);
    }
    busy_clear(t);
    snp_buf_done(&page->texts);
    return r;
}

/* Describing ---------------------------------------------------------------------------- */

static int on_described(void *arg, const struct snp_stream_item *item, struct snp_err *err)
{
    struct snp_transfer *t = arg;
    snp_autofree char *meta = snp_json_text(item->meta);
    size_t n[3] = {strlen(item->name) + 1, strlen(item->key) + 1,
                   meta == NULL ? 0 : strlen(meta) + 1};
    struct described *row = malloc(sizeof(*row) + n[0] + n[1] + n[2]);

    if (meta == NULL || row == NULL) {
        free(row);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    t->described_bytes += sizeof(*row) + n[0] + n[1] + n[2];
    memcpy(row->text, item->name, n[0]);
    memcpy(row->text + n[0], item->key, n[1]);
    memcpy(row->text + n[0] + n[1], meta, n[2]);
    row->next = NULL;
    row->item = (struct snp_journal_item){
        .kind = item->kind,
        .name = {row->text, n[0] - 1},
        .key = row->text + n[0],
        .size = item->size,
        .meta = row->text + n[0] + n[1],
    };
    if (t->described_last == NULL) {
        t->described = row;
    } else {
        t->described_last->next = row;
    }
    t->described_last = row;
    t->report.items++;
    t->report.bytes += item->size;
    return t->described_bytes > DESCRIBE_MAX
               ? snp_fail(err, SNP_E_LIMIT, "a description is larger than %d bytes",
                          DESCRIBE_MAX)
               : 0;
}

static int no_data(void *arg SNP_UNUSED,
                   const void *bytes SNP_UNUSED,
                   size_t n SNP_UNUSED,
                   struct snp_err *err)
{
    return snp_fail(err, SNP_E_PEER, "a description has contents");
}

static int nothing(void *arg SNP_UNUSED, struct snp_err *err SNP_UNUSED)
{
    return 0;
}

static int describe_run(struct snp_transfer *t, struct snp_err *err)
{
    const struct snp_stream_sink sink = {
        .item = on_described, .data = no_data, .item_end = nothing, .arg = t};
    int r = snp_stream_in_init(&t->in, &sink, INT64_MAX, err);

    t->in.is_description = true;
    return r < 0 ? r : pipe_feed(t, err);
}

/* Threads ------------------------------------------------------------------------------- */

static void transfer_free(struct snp_transfer *t)
{
    snp_closep(&t->fd);
    snp_stream_in_done(&t->in);
    snp_blob_writer_free(t->writer);
    snp_buf_done(&t->lost);
    free(t->slice.items);
    free(t->slice.arena);
    free((char *)(uintptr_t)t->save.session);
    free((char *)(uintptr_t)t->save.snapshot);
    while (t->described != NULL) {
        struct described *row = t->described;

        t->described = row->next;
        free(row);
    }
    free(t);
}

static void *transfer_main(void *arg)
{
    static int (*const runs[])(struct snp_transfer *, struct snp_err *) = {save_run, load_run,
                                                                           describe_run};
    struct snp_transfer *t = arg;
    struct snp_store *store = t->store;

    if (pipe_setup(t, &t->err) == 0 && runs[t->kind](t, &t->err) == 0) {
        t->err = (struct snp_err){.code = SNP_OK};
    }
    snp_closep(&t->fd); /* the peer sees the end before we say so */
    t->report.us = snp_now_us() - t->began_us;
    snp_store_finish(store, &t->finished);
    /* The store may end from here on. */
    (void)pthread_mutex_lock(&store->mutex);
    store->transfers--;
    (void)pthread_cond_signal(&store->wake);
    (void)pthread_mutex_unlock(&store->mutex);
    return NULL;
}

static int transfer_start(struct snp_transfer *t, struct snp_err *err)
{
    struct snp_store *store = t->store;
    int eno;

    (void)pthread_mutex_lock(&store->mutex);
    store->transfers++;
    (void)pthread_mutex_unlock(&store->mutex);
    eno = snp_thread_start(&t->thread, transfer_main, t);
    if (eno == 0) {
        store->n_running++;
        return 0;
    }
    (void)pthread_mutex_lock(&store->mutex);
    store->transfers--;
    (void)pthread_mutex_unlock(&store->mutex);
    return snp_fail_sys(err, eno, "start a thread for a checkpoint");
}

/* Those that waited for their turn. */
static void waiting_start(struct snp_store *store)
{
    while (store->waiting != NULL && store->n_running < SNP_TRANSFERS_MAX) {
        struct snp_transfer *t = store->waiting;

        store->waiting = t->next;
        t->has_thread = transfer_start(t, &t->err) == 0;
        if (!t->has_thread) {
            snp_store_finish(store, &t->finished);
        }
    }
}

static void transfer_deliver(struct snp_finished *finished)
{
    struct snp_transfer *t = (struct snp_transfer *)(void *)finished;
    struct snp_store *store = t->store;

    if (t->has_thread) {
        (void)pthread_join(t->thread, NULL);
        store->n_running--;
    }
    for (const struct described *row = t->described; row != NULL && t->err.code == SNP_OK;
         row = row->next) {
        (void)t->each(&row->item, t->arg, NULL);
    }
    waiting_start(store);
    t->done(t->arg, &t->report, &t->err);
    transfer_free(t);
}

void snp_transfers_refuse(struct snp_store *store)
{
    while (store->waiting != NULL) {
        struct snp_transfer *t = store->waiting;

        store->waiting = t->next;
        (void)snp_fail(&t->err, SNP_E_DENIED, "the daemon ends");
        snp_store_finish(store, &t->finished);
    }
}

/* From outside -------------------------------------------------------------------------- */

/* NULL: *err says why, and fd is closed. */
static struct snp_transfer *transfer_new(struct snp_store *store,
                                         enum kind kind,
                                         int fd,
                                         struct snp_err *err)
{
    struct snp_transfer *t = calloc(1, sizeof(*t));
    bool is_closing;

    (void)pthread_mutex_lock(&store->mutex);
    is_closing = store->is_closing;
    (void)pthread_mutex_unlock(&store->mutex);
    if (is_closing || t == NULL) {
        (void)snp_fail(err, is_closing ? SNP_E_DENIED : SNP_E_NOMEM,
                       is_closing ? "the daemon ends" : "out of memory");
        free(t);
        snp_closep(&fd);
        return NULL;
    }
    t->store = store;
    t->kind = kind;
    t->fd = fd;
    t->finished.deliver = transfer_deliver;
    t->began_us = snp_now_us();
    snp_buf_init(&t->lost, LOST_MAX + 16);
    return t;
}

/* It runs, or waits; or it is freed and *err says why. */
static int transfer_go(struct snp_transfer *t, struct snp_err *err)
{
    struct snp_store *store = t->store;
    struct snp_transfer **end = &store->waiting;
    int r = 0;

    if (store->n_running < SNP_TRANSFERS_MAX) {
        t->has_thread = true; /* before it runs: it is ours no more then */
        r = transfer_start(t, err);
        if (r < 0) {
            transfer_free(t);
        }
        return r;
    }
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = t;
    return 0;
}

int snp_checkpoint_save(struct snp_store *store,
                        int fd,
                        const struct snp_checkpoint_save *spec,
                        struct snp_err *err)
{
    struct snp_transfer *t = transfer_new(store, SAVE, fd, err);

    if (t == NULL) {
        return err->code;
    }
    t->save = *spec;
    t->save.session = strdup(spec->session);
    t->save.snapshot = spec->snapshot == NULL ? NULL : strdup(spec->snapshot);
    t->done = spec->done;
    t->arg = spec->arg;
    if (t->save.session == NULL || (spec->snapshot != NULL && t->save.snapshot == NULL)) {
        transfer_free(t);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return transfer_go(t, err);
}

int snp_checkpoint_load(struct snp_store *store,
                        int fd,
                        uint64_t checkpoint,
                        snp_checkpoint_done_fn done,
                        void *arg,
                        struct snp_err *err)
{
    struct snp_transfer *t = transfer_new(store, LOAD, fd, err);

    if (t == NULL) {
        return err->code;
    }
    t->report.checkpoint = checkpoint;
    t->done = done;
    t->arg = arg;
    return transfer_go(t, err);
}

int snp_checkpoint_describe(struct snp_store *store,
                            int fd,
                            const struct snp_checkpoint_describe *spec,
                            struct snp_err *err)
{
    struct snp_transfer *t = transfer_new(store, DESCRIBE, fd, err);

    if (t == NULL) {
        return err->code;
    }
    t->each = spec->each;
    t->done = spec->done;
    t->arg = spec->arg;
    return transfer_go(t, err);
}
