/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Garbage collection, in slices, while no job waits.
 *
 * First unreferenced data: incomplete checkpoints, blobs without references, files without rows.
 * Then, for a budget, old data: the steps of runs, then results and outputs of cells, and
 * checkpoints that are neither the latest usable one of their session nor a snapshot's. Code of
 * cells stays.
 *
 * A file is unlinked after the commit that removed its row is on disk, and before any other work on
 * this thread.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "store/budget.h"
#include "store/checkpoint.h"
#include "store/journal_priv.h"
#include "store/state.h"

enum {
    SLICE_ITEMS = 500, /* of one transaction: a new job waits for it */
    SLICE_BLOBS = 64,
    SLICE_CELLS = 64,
    KEEP = 2, /* checkpoints of a session that are kept without a snapshot */
    AUTO_US = 60 * 1000 * 1000,
    BESIDE_BYTES = 5 << 20,
    PRESS_US = 100 * 1000, /* jobs wait this long while room is made */
    PRESS_PAUSE_US = 1000 * 1000,
};

/* A requested collection. */
struct snp_gc {
    struct snp_finished finished; /* must be first */
    uint64_t limit;               /* of the store from now on; 0 = unchanged */
    uint64_t budget;
    snp_gc_done_fn done; /* NULL: automatic */
    void *arg;
    struct snp_gc_report report;
    struct snp_err err;
    struct snp_gc *next;
    bool is_begun;
    uint64_t files_bytes; /* of blobs */
    int64_t cell;         /* the last row examined */
    uint64_t cells;       /* cells whose results were removed */
    uint64_t checkpoints; /* removed for the budget */
    uint64_t steps;       /* of runs, removed for the budget */
};

bool snp_gc_is_busy(struct snp_store *store, uint64_t checkpoint)
{
    bool found = false;

    (void)pthread_mutex_lock(&store->mutex);
    for (const struct snp_busy *busy = store->busy; busy != NULL; busy = busy->next) {
        found = found || busy->checkpoint == checkpoint || busy->base == checkpoint;
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return found;
}

/*
 * Effects before all kept checkpoints are in all of them. The last note of all stays: checkpoints
 * refer to it, and so will the next one.
 */
static int prune_effects(struct snp_tx *tx, int64_t session, struct snp_err *err)
{
    return snp_db_run(tx->db, NULL, err,
                      "DELETE FROM effects WHERE session = ?1 AND row <"
                      " (SELECT MIN(effect) FROM checkpoints WHERE session = ?1"
                      "  AND complete = 1)",
                      "i", session);
}

int snp_gc_prune(struct snp_tx *tx, int64_t session, struct snp_err *err)
{
    tx->store->must_reap = true;
    SNP_TRY(snp_db_run(
        tx->db, NULL, err,
        "UPDATE checkpoints SET complete = 0 WHERE session = ?1 AND complete = 1"
        " AND NOT EXISTS (SELECT 1 FROM snapshots"
        "  WHERE checkpoint = checkpoints.row)"
        " AND row NOT IN (SELECT row FROM checkpoints AS c WHERE session = ?1"
        "  AND complete = 1 AND damaged = 0 AND NOT EXISTS"
        "   (SELECT 1 FROM snapshots WHERE checkpoint = c.row)" SNP_NEWEST_FIRST("") " LIMIT ?2)",
        "ii", session, (int64_t)KEEP));
    return prune_effects(tx, session, err);
}

/* Checkpoints --------------------------------------------------------------------------- */

/* arg: bool, set when something was removed. */
static int reap_checkpoint(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    bool *found = arg;
    int64_t row = 0;
    uint64_t removed = 0;
    int r = snp_db_ask(tx->db, &rows, err, "SELECT row FROM checkpoints WHERE complete = 0", "");

    while (r == 0 && row == 0 && (r = snp_db_step(&rows, err)) > 0) {
        row = snp_gc_is_busy(tx->store, snp_col_u64(&rows, 0)) ? 0 : (int64_t)snp_col_u64(&rows, 0);
        r = 0;
    }
    snp_rows_done(&rows);
    if (r < 0 || row == 0) {
        return r;
    }
    r = snp_db_run(tx->db, &removed, err,
                   "DELETE FROM items WHERE row IN"
                   " (SELECT row FROM items WHERE checkpoint = ? LIMIT ?)",
                   "ii", row, (int64_t)SLICE_ITEMS);
    if (r == 0 && removed < SLICE_ITEMS) {
        r = snp_db_run(tx->db, NULL, err,
                       "UPDATE sessions SET disk_bytes = MAX(0, disk_bytes -"
                       " (SELECT written_bytes FROM checkpoints WHERE row = ?1))"
                       " WHERE row = (SELECT session FROM checkpoints WHERE row = ?1)",
                       "i", row);
        SNP_THEN(r,
                 snp_db_run(tx->db, NULL, err, "DELETE FROM checkpoints WHERE row = ?", "i", row));
    }
    *found = r == 0;
    return r;
}

/* Sessions ------------------------------------------------------------------------------ */

/* Remove a slice of a session that was given up. arg: bool, set when something was removed. */
static int reap_session(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    static const char *const slices[] = {
        "DELETE FROM cells WHERE row IN (SELECT row FROM cells WHERE session = ?1 LIMIT ?2)",
        "DELETE FROM effects WHERE row IN (SELECT row FROM effects WHERE session = ?1 LIMIT "
        "?2)",
        /* A checkpoint that was being written when the session was given up. */
        "UPDATE checkpoints SET complete = 0 WHERE row IN"
        " (SELECT row FROM checkpoints WHERE session = ?1 AND complete = 1 LIMIT ?2)",
        "DELETE FROM sessions WHERE row = ?1 AND ?2 > 0"
        " AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE session = ?1)",
    };
    bool *found = arg;
    uint64_t removed = 0;
    int64_t row = 0;
    int r = snp_db_number(tx->db, 0, &row, err,
                          "SELECT row FROM sessions AS s WHERE state = 'removed'"
                          " AND (EXISTS (SELECT 1 FROM cells WHERE session = s.row)"
                          " OR NOT EXISTS (SELECT 1 FROM snapshots WHERE session = s.row))"
                          " LIMIT 1",
                          "");

    for (size_t i = 0; r == 0 && row != 0 && removed == 0 && i < SNP_ARRAY_LEN(slices); i++) {
        r = snp_db_run(tx->db, &removed, err, slices[i], "ii", row, (int64_t)SLICE_CELLS);
    }
    *found = r == 0 && removed > 0;
    return r;
}

/* Blobs --------------------------------------------------------------------------------- */

struct blobs {
    unsigned n;
    unsigned n_files;
    uint64_t bytes; /* of files */
    uint64_t inline_bytes;
    uint8_t hashes[SLICE_BLOBS][SNP_BLOB_HASH_BYTES]; /* of files */
};

static int blobs_find(struct snp_tx *tx,
                      struct blobs *blobs,
                      int64_t rows_found[SLICE_BLOBS],
                      struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int r = snp_db_ask(tx->db, &rows, err,
                       "SELECT row, hash, stored, data IS NULL FROM blobs WHERE refs = 0 LIMIT ?",
                       "i", (int64_t)SLICE_BLOBS);

    while (r == 0 && blobs->n < SLICE_BLOBS && (r = snp_db_step(&rows, err)) > 0) {
        size_t n = 0;
        const void *hash = snp_col_bytes(&rows, 1, &n);

        rows_found[blobs->n++] = (int64_t)snp_col_u64(&rows, 0);
        if (snp_col_u64(&rows, 3) != 0 && n == SNP_BLOB_HASH_BYTES) {
            memcpy(blobs->hashes[blobs->n_files++], hash, n);
            blobs->bytes += snp_col_u64(&rows, 2);
        } else {
            blobs->inline_bytes += snp_col_u64(&rows, 2);
        }
        r = 0;
    }
    return r;
}

static int reap_blobs(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct blobs *blobs = arg;
    int64_t found[SLICE_BLOBS];
    int r;

    *blobs = (struct blobs){0};
    r = blobs_find(tx, blobs, found, err);
    for (unsigned i = 0; r == 0 && i < blobs->n; i++) {
        r = snp_db_run(tx->db, NULL, err, "DELETE FROM blobs WHERE row = ?", "i", found[i]);
    }
    return r;
}

static void files_unlink(struct snp_store *store, const struct blobs *blobs)
{
    for (unsigned i = 0; i < blobs->n_files; i++) {
        SNP_FAULT("gc.unlink");
        if (snp_blob_unlink(&store->place, blobs->hashes[i]) < 0 && errno != ENOENT) {
            snp_log(SNP_LOG_WARN, "journal-unlink", "errno=%d", errno); /* an orphan now */
        }
    }
}

/* A requested gc reports them, whichever step removed the references. */
static void count(struct snp_store *store, const struct blobs *blobs)
{
    struct snp_gc *gc = store->gc_first;

    if (gc != NULL) {
        gc->report.blobs += blobs->n;
        gc->report.freed_bytes += blobs->bytes + blobs->inline_bytes;
        gc->files_bytes -= blobs->bytes < gc->files_bytes ? blobs->bytes : gc->files_bytes;
    }
}

/* If it failed for lack of space and the reserve gives some: retry. */
static bool reap_again(struct snp_store *store, const struct snp_err *err)
{
    if (err->code == SNP_E_LIMIT && snp_store_release(store)) {
        return true;
    }
    snp_log(SNP_LOG_WARN, "journal-reap", "why=\"%s\"", err->msg);
    return false;
}

/* False: no unreferenced data is left. */
static bool reap(struct snp_store *store)
{
    struct blobs blobs;
    struct snp_err err;
    bool found = false;

    if (snp_store_own(store, reap_checkpoint, &found, SNP_DURABILITY_PROCESS, &err) < 0) {
        return reap_again(store, &err);
    }
    if (!found && snp_store_own(store, reap_session, &found, SNP_DURABILITY_PROCESS, &err) < 0) {
        return reap_again(store, &err);
    }
    if (found) {
        return true;
    }
    if (snp_store_own(store, reap_blobs, &blobs, SNP_DURABILITY_SYNCED, &err) < 0) {
        return reap_again(store, &err);
    }
    files_unlink(store, &blobs);
    count(store, &blobs);
    return blobs.n > 0;
}

/* Orphans ------------------------------------------------------------------------------- */

/* Open a folder below blobs/ as a stream; NULL: none. */
static DIR *folder_open(const struct snp_store *store, const char *name)
{
    int fd = openat(store->place.fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);

    if (dir == NULL) {
        snp_closep(&fd);
    }
    return dir;
}

void snp_gc_sweep_tmp(struct snp_store *store)
{
    DIR *dir = folder_open(store, "tmp");
    const struct dirent *entry;

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a private stream */
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)unlinkat(dirfd(dir), entry->d_name, 0); /* retried next time */
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

/* False also if unknown. */
static bool is_orphan(struct snp_store *store, const char *name)
{
    uint8_t hash[SNP_BLOB_HASH_BYTES];
    struct snp_err err;
    int64_t row = 0;

    return snp_blob_unhex(name, hash) == 0 &&
           snp_db_number(&store->db, 0, &row, &err, "SELECT row FROM blobs WHERE hash = ?", "b",
                         hash, sizeof(hash)) == 0 &&
           row == 0;
}

void snp_gc_fresh(struct snp_store *store)
{
    for (unsigned i = 0; i < store->n_fresh && store->is_open; i++) {
        char name[SNP_STORE_HASH_LEN + 1];

        snp_blob_hex(store->fresh[i], name);
        if (is_orphan(store, name)) {
            (void)snp_blob_unlink(&store->place, store->fresh[i]); /* else at the next start */
        }
    }
    store->n_fresh = 0;
}

static void sweep_folder(struct snp_store *store, unsigned i)
{
    char name[3];
    DIR *dir;
    const struct dirent *entry;

    (void)snprintf(name, sizeof(name), "%02x", i);
    dir = folder_open(store, name);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): a private stream */
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        uint8_t hash[SNP_BLOB_HASH_BYTES];

        if (is_orphan(store, entry->d_name) && snp_blob_unhex(entry->d_name, hash) == 0) {
            (void)snp_blob_unlink(&store->place, hash); /* retried next time */
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

/* Budget -------------------------------------------------------------------------------- */

static int database_bytes(struct snp_store *store, uint64_t *ret, struct snp_err *err)
{
    int64_t pages = 0;
    int64_t unused = 0;
    int64_t size = 0;
    int r = snp_db_number(&store->db, 0, &pages, err, "PRAGMA page_count", "");

    SNP_THEN(r, snp_db_number(&store->db, 0, &unused, err, "PRAGMA freelist_count", ""));
    SNP_THEN(r, snp_db_number(&store->db, 0, &size, err, "PRAGMA page_size", ""));
    *ret = (uint64_t)((pages - unused) * size);
    return r;
}

static int total(struct snp_store *store, struct snp_gc *gc, struct snp_err *err)
{
    int64_t files = 0;
    uint64_t database = 0;
    int r = 0;

    if (!gc->is_begun) {
        r = snp_db_number(&store->db, 0, &files, err,
                          "SELECT SUM(stored) FROM blobs WHERE data IS NULL", "");
        gc->files_bytes = (uint64_t)files;
        gc->is_begun = r == 0;
    }
    SNP_THEN(r, database_bytes(store, &database, err));
    gc->report.bytes = gc->files_bytes + database;
    return r;
}

/* The next data to remove: the oldest checkpoint, and cells older than that. */
struct victims {
    struct snp_gc *gc;
    bool found;
};

static int cells_drop(struct snp_tx *tx,
                      struct victims *victims,
                      int64_t before_us,
                      struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int64_t found[SLICE_CELLS];
    unsigned n = 0;
    int r = snp_db_ask(tx->db, &rows, err,
                       "SELECT row FROM cells WHERE row > ? AND dropped = 0 AND started_us <= ?"
                       " AND status <> 'running' ORDER BY row LIMIT ?",
                       "iii", victims->gc->cell, before_us, (int64_t)SLICE_CELLS);

    while (r == 0 && n < SLICE_CELLS && (r = snp_db_step(&rows, err)) > 0) {
        found[n++] = (int64_t)snp_col_u64(&rows, 0);
        r = 0;
    }
    snp_rows_done(&rows);
    for (unsigned i = 0; r == 0 && i < n; i++) {
        uint64_t gone = 0;

        r = snp_db_run(tx->db, NULL, err,
                       "UPDATE sessions SET disk_bytes = MAX(0, disk_bytes - (SELECT"
                       " IFNULL(SUM(size), 0) FROM parts WHERE cell = ?1 AND part BETWEEN 2 AND 6))"
                       " WHERE row = (SELECT session FROM cells WHERE row = ?1)",
                       "i", found[i]);
        SNP_THEN(r, snp_db_run(tx->db, &gone, err,
                               "DELETE FROM parts WHERE cell = ? AND part BETWEEN 2 AND 6", "i",
                               found[i]));
        if (r == 0 && gone > 0) {
            r = snp_db_run(tx->db, NULL, err, "UPDATE cells SET dropped = 1 WHERE row = ?", "i",
                           found[i]);
            victims->gc->cells++;
        }
        victims->gc->cell = found[i];
    }
    victims->found = n > 0;
    return r;
}
_Static_assert(SNP_PART_RESULT == 2 && SNP_PART_DISPLAYS == 6, "results and outputs");

/* Remove a run's oldest step. If its session is gone, its checkpoint goes at once. */
static int step_drop(struct snp_tx *tx, struct victims *victims, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    char id[SNP_STORE_ID_LEN + 1] = "";
    int64_t checkpoint = 0;
    int r = snp_db_row(tx->db, &rows, err,
                       "SELECT id, checkpoint FROM snapshots WHERE checkpoint IS NOT NULL"
                       " AND NOT " SNP_IS_NO_STEP " ORDER BY row LIMIT 1",
                       "");

    if (r <= 0) {
        return r;
    }
    (void)snprintf(id, sizeof(id), "%s", snp_col_text(&rows, 0));
    checkpoint = (int64_t)snp_col_u64(&rows, 1);
    snp_rows_done(&rows);
    r = snp_journal_snapshot_remove(tx, id, err);
    SNP_THEN(r, snp_db_run(tx->db, NULL, err,
                           "UPDATE checkpoints SET complete = 0 WHERE row = ?1 AND session IN"
                           " (SELECT row FROM sessions WHERE state = 'removed') AND NOT EXISTS"
                           " (SELECT 1 FROM snapshots WHERE checkpoint = ?1)",
                           "i", checkpoint));
    victims->gc->steps += r == 0 ? 1 : 0;
    victims->found = r == 0;
    return r;
}

static int drop(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    struct victims *victims = arg;
    int64_t checkpoint = 0;
    int64_t created = INT64_MAX;
    int r = step_drop(tx, victims, err);

    if (r < 0 || victims->found) {
        return r;
    }
    r = snp_db_ask(tx->db, &rows, err,
                   "SELECT row, created_us FROM checkpoints AS c WHERE complete = 1"
                   " AND NOT EXISTS (SELECT 1 FROM snapshots WHERE checkpoint = c.row)"
                   " AND row <> IFNULL((SELECT row FROM checkpoints WHERE complete = 1"
                   "  AND damaged = 0 AND session = c.session" SNP_NEWEST_FIRST("") " LIMIT 1), 0)"
                                                                                    " ORDER BY row",
                   "");

    while (r == 0 && checkpoint == 0 && (r = snp_db_step(&rows, err)) > 0) {
        if (!snp_gc_is_busy(tx->store, snp_col_u64(&rows, 0))) {
            checkpoint = (int64_t)snp_col_u64(&rows, 0);
            created = (int64_t)snp_col_u64(&rows, 1);
        }
        r = 0;
    }
    snp_rows_done(&rows);
    SNP_THEN(r, cells_drop(tx, victims, created, err));
    if (r == 0 && !victims->found && checkpoint != 0) {
        r = snp_db_run(tx->db, NULL, err, "UPDATE checkpoints SET complete = 0 WHERE row = ?", "i",
                       checkpoint);
        victims->gc->checkpoints++;
        victims->found = true;
    }
    return r;
}

static int say(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_gc *gc = arg;
    struct snp_journal_event row = {.at_us = snp_wall_us(), .kind = "gc"};
    char text[256];

    (void)snprintf(text, sizeof(text),
                   "removed %llu steps of runs, the results of %llu cells and %llu checkpoints "
                   "to stay within the budget of %llu bytes",
                   (unsigned long long)gc->steps, (unsigned long long)gc->cells,
                   (unsigned long long)gc->checkpoints, (unsigned long long)gc->budget);
    row.text = text;
    return snp_journal_event_add(tx, &row, err);
}

static void gc_deliver(struct snp_finished *finished)
{
    struct snp_gc *gc = (struct snp_gc *)(void *)finished;

    if (gc->done != NULL) {
        gc->done(gc->arg, &gc->report, &gc->err);
    }
    free(gc);
}

static void gc_end(struct snp_store *store, struct snp_gc *gc)
{
    (void)pthread_mutex_lock(&store->mutex);
    store->gc_first = gc->next;
    (void)pthread_mutex_unlock(&store->mutex);
    snp_store_finish(store, &gc->finished);
}

/* One step of the first requested gc. It leaves the list at its end. */
static void gc_step(struct snp_store *store, struct snp_gc *gc)
{
    struct victims victims = {.gc = gc};
    int64_t unused = 0;
    int r = total(store, gc, &gc->err);

    if (r == 0 && gc->budget != 0 && gc->report.bytes > gc->budget) {
        r = snp_store_own(store, drop, &victims, SNP_DURABILITY_PROCESS, &gc->err);
        store->must_reap = true;
        if ((r == 0 && victims.found) || (r == SNP_E_LIMIT && snp_store_release(store))) {
            return;
        }
    }
    SNP_THEN(r, snp_db_number(&store->db, 0, &unused, &gc->err, "PRAGMA freelist_count", ""));
    if (r == 0 && unused > 0) {
        r = snp_db_exec(&store->db, "PRAGMA incremental_vacuum(512)", &gc->err);
        if (r == 0) {
            return;
        }
    }
    if (r == 0 && gc->steps + gc->cells + gc->checkpoints > 0 &&
        snp_store_own(store, say, gc, SNP_DURABILITY_PROCESS, &gc->err) < 0) {
        snp_log(SNP_LOG_WARN, "gc-event", "why=\"%s\"", gc->err.msg);
    }
    gc_end(store, gc);
}

/* Check the configured budget from time to time. */
static void gc_auto(struct snp_store *store)
{
    uint64_t now = snp_now_us();
    struct snp_gc *gc;

    if (store->budget == 0 || now < store->auto_us) {
        return;
    }
    store->auto_us = now + AUTO_US;
    gc = calloc(1, sizeof(*gc));
    if (gc != NULL) {
        gc->finished.deliver = gc_deliver;
        /* It includes neither the log nor the reserve. */
        gc->budget = snp_budget_soft(store);
        gc->budget -= gc->budget > BESIDE_BYTES ? BESIDE_BYTES : gc->budget - 1;
        (void)pthread_mutex_lock(&store->mutex);
        gc->next = store->gc_first;
        store->gc_first = gc;
        (void)pthread_mutex_unlock(&store->mutex);
    }
}

void snp_gc_press(struct snp_store *store)
{
    uint64_t now = snp_now_us();
    uint64_t until = now + PRESS_US;

    if (now < store->press_us || !store->is_open) {
        return;
    }
    store->press_us = now + PRESS_PAUSE_US;
    store->auto_us = 0;
    store->must_reap = true;
    while (snp_gc_slice(store) && snp_now_us() < until &&
           (store->gc_first != NULL || store->must_reap)) {
    }
}

bool snp_gc_slice(struct snp_store *store)
{
    struct snp_gc *gc;

    (void)pthread_mutex_lock(&store->mutex);
    gc = store->gc_first; /* the loop only appends to it */
    (void)pthread_mutex_unlock(&store->mutex);
    if (!store->is_open) {
        if (gc != NULL) {
            gc->err = store->open_err;
            gc_end(store, gc);
        }
        return false;
    }
    if (gc != NULL && gc->limit != 0) {
        store->budget = gc->limit; /* only this thread uses it */
        gc->limit = 0;
    }
    gc_auto(store);
    if (store->must_reap) {
        store->must_reap = reap(store);
        return true;
    }
    if (gc != NULL) {
        gc_step(store, gc);
        return true;
    }
    if (store->sweep_at < SNP_SWEEP_END) {
        sweep_folder(store, (unsigned)store->sweep_at++);
        return true;
    }
    return false;
}

void snp_gc_refuse(struct snp_store *store)
{
    while (store->gc_first != NULL) {
        struct snp_gc *gc = store->gc_first;

        (void)snp_fail(&gc->err, SNP_E_DENIED, "the journal is being closed");
        gc_end(store, gc);
    }
}

int snp_store_gc(struct snp_store *store,
                 uint64_t limit_bytes,
                 uint64_t budget_bytes,
                 snp_gc_done_fn done,
                 void *arg,
                 struct snp_err *err)
{
    struct snp_gc *gc = calloc(1, sizeof(*gc));
    struct snp_gc **end = &store->gc_first;
    int r = 0;

    SNP_TRY_MEMORY(gc, err);
    gc->finished.deliver = gc_deliver;
    gc->limit = limit_bytes;
    gc->budget = budget_bytes;
    gc->done = done;
    gc->arg = arg;
    (void)pthread_mutex_lock(&store->mutex);
    if (store->is_closing) {
        r = snp_fail(err, SNP_E_DENIED, "the journal is being closed");
    } else {
        while (*end != NULL) {
            end = &(*end)->next;
        }
        *end = gc;
        (void)pthread_cond_signal(&store->wake);
    }
    (void)pthread_mutex_unlock(&store->mutex);
    if (r < 0) {
        free(gc);
    }
    return r;
}
