/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's thread: it opens the database, takes the queued jobs, runs them in one transaction,
 * commits, and notifies the loop.
 *
 * A batch: BEGIN; for each job SAVEPOINT, run, RELEASE or ROLLBACK TO; COMMIT. If the commit fails,
 * or a job breaks the whole transaction (SQLite does that when the disk is full), everything is
 * rolled back and each job runs in a separate transaction, so that one that is too large fails
 * alone. A database found damaged is salvaged in between, and the jobs run again. Results are
 * delivered only after all of this.
 *
 * Invariants: only this thread uses the connection; a job is in exactly one of: the queue, the
 * batch, the list of finished ones.
 */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/str.h"
#include "base/thread.h"
#include "store/budget.h"
#include "store/salvage.h"
#include "store/schema.h"
#include "store/seal.h"
#include "store/state.h"

enum {
    LOCK_WAIT_MS = 1000, /* for a daemon about to end */
    LOCK_STEP_MS = 20,
    RETRY_US = 1000 * 1000, /* between attempts to open */
    IDLE_MS = 200,          /* before the log is moved into the database */
    TRIM_MS = 5000,         /* and memory that the loop freed later is returned */
    LOG_MIN = 64,           /* pages of the log that are worth moving */
    LOG_MAX = 1000,         /* pages at which it is moved between commits */
    CHECK_BYTES = 32 << 20, /* a database up to this size is checked at each start */
    RESERVE_BYTES = 1 << 20,
    RESERVE_PLENTY = 32, /* this multiple must be free on the disk */
    RESERVE_ROOM = 4,    /* and this multiple within the budget */
    /* Bytes of the log file allocated ahead: then a sync waits for data only. */
    LOG_BYTES = 4 << 20,
};

/* A waiting job: for the loop (job.done), or for another thread (is_call). */
struct job_node {
    struct snp_finished finished; /* must be first */
    struct snp_store_job job;
    struct job_node *next;
    struct snp_err err; /* code SNP_OK: success */
    bool frees;         /* it would have made room */
    bool is_call;
    bool is_over; /* of a call; under the mutex */
    pthread_cond_t over;
};

/* Transactions -------------------------------------------------------------------------- */

void *snp_tx_alloc(struct snp_tx *tx, size_t n)
{
    struct snp_tx_piece *piece = malloc(sizeof(*piece) + n);

    if (piece == NULL) {
        return NULL;
    }
    piece->next = tx->pieces;
    tx->pieces = piece;
    return piece->bytes;
}

int snp_tx_text(struct snp_tx *tx, const char *text, const char **ret, struct snp_err *err)
{
    size_t n = text == NULL ? 0 : strlen(text) + 1;
    char *copy = text == NULL ? NULL : snp_tx_alloc(tx, n);

    if (text != NULL && copy == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (copy != NULL) {
        memcpy(copy, text, n);
    }
    *ret = copy;
    return 0;
}

int snp_tx_texts(struct snp_tx *tx, const char **texts[], size_t n, struct snp_err *err)
{
    for (size_t i = 0; i < n; i++) {
        SNP_TRY(snp_tx_text(tx, *texts[i], texts[i], err));
    }
    return 0;
}

static void pieces_free(struct snp_tx *tx)
{
    while (tx->pieces != NULL) {
        struct snp_tx_piece *piece = tx->pieces;

        tx->pieces = piece->next;
        free(piece);
    }
}

static bool in_transaction(struct snp_store *store)
{
    return store->is_open && sqlite3_get_autocommit(store->db.sqlite) == 0;
}

static void rollback(struct snp_store *store)
{
    struct snp_err ignored;

    /* If it cannot be rolled back, closing the connection does it. */
    if (in_transaction(store) && snp_db_run(&store->db, NULL, &ignored, "ROLLBACK", "") < 0) {
        snp_log(SNP_LOG_WARN, "journal-rollback", "why=\"%s\"", ignored.msg);
    }
}

/* *ret_total: rows changed since the database was opened, to detect changes. */
static int begin(struct snp_store *store, bool synced, int64_t *ret_total, struct snp_err *err)
{
    int r = snp_db_set_full(&store->db, synced, err);

    store->db.bound = 0;
    r = r == 0 ? snp_budget_set(store, err) : r;
    SNP_THEN(r, snp_db_run(&store->db, NULL, err, "BEGIN", ""));
    *ret_total = sqlite3_total_changes64(store->db.sqlite);
    return r;
}

static void count_commit(struct snp_store *store, bool synced)
{
    (void)pthread_mutex_lock(&store->mutex);
    store->stats.commits++;
    store->stats.synced += synced ? 1 : 0;
    (void)pthread_mutex_unlock(&store->mutex);
}

static int commit(struct snp_store *store, bool synced, int64_t total, struct snp_err *err)
{
    bool changed = sqlite3_total_changes64(store->db.sqlite) != total;
    int r = 0;

    if (changed && synced) {
        r = snp_blobs_sync_folders(store, err);
    }
    SNP_FAULT("store.before_commit");
    SNP_THEN(r, snp_db_run(&store->db, NULL, err, "COMMIT", ""));
    SNP_FAULT("store.after_commit");
    if (r < 0) {
        rollback(store);
    } else if (changed) {
        count_commit(store, synced);
    }
    return r;
}

int snp_store_own(struct snp_store *store,
                  snp_store_run_fn run,
                  void *arg,
                  enum snp_durability durability,
                  struct snp_err *err)
{
    bool synced = durability == SNP_DURABILITY_SYNCED;
    struct snp_tx tx = {.store = store, .db = &store->db};
    int64_t total = 0;
    int r;

    SNP_TRY(begin(store, synced, &total, err));
    r = run(&tx, arg, err);
    pieces_free(&tx);
    if (r < 0 || !in_transaction(store)) {
        rollback(store);
        return r < 0 ? r : snp_fail(err, SNP_E_INTERNAL, "the transaction was aborted");
    }
    return commit(store, synced, total, err);
}

/* The log and the reserve --------------------------------------------------------------- */

/*
 * A file of some size, so that data can be removed from a full disk: removing needs room, too. Made
 * when there is plenty.
 */
static void reserve_make(struct snp_store *store)
{
    snp_autofree char *path = snp_format("%s/reserve", store->dir);
    snp_autoclose int fd = -1;
    struct statvfs fs;

    if (store->has_reserve || path == NULL || statvfs(store->dir, &fs) < 0 ||
        (uint64_t)fs.f_bavail * fs.f_frsize < (uint64_t)RESERVE_BYTES * RESERVE_PLENTY ||
        !snp_budget_has(store, (uint64_t)RESERVE_BYTES * RESERVE_ROOM)) {
        return;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && posix_fallocate(fd, 0, RESERVE_BYTES) == 0) {
        store->has_reserve = true;
    } else if (fd >= 0) {
        (void)unlink(path); /* an incomplete one is useless */
    }
}

static void log_move(struct snp_store *store, unsigned least)
{
    struct snp_err err;
    int rc;

    if (!store->is_open || store->db.wal_pages < least) {
        return;
    }
    if (snp_blobs_sync_folders(store, &err) < 0) {
        return; /* the next commit that needs it reports why */
    }
    rc = sqlite3_wal_checkpoint_v2(store->db.sqlite, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (rc == SQLITE_OK) {
        store->db.wal_pages = 0;
        store->is_trim_due = true;
        snp_store_look(store);
        if (snp_store_moved(store, &err) == 0) { /* these two write by path */
            reserve_make(store);
            snp_identity_next(store);
        }
    } else {
        (void)snp_db_fail(&store->db, rc, &err);
        store->db.wal_pages = rc == SQLITE_CORRUPT ? store->db.wal_pages : 0; /* retried later */
        snp_log(SNP_LOG_WARN, "journal-log", "why=\"%s\"", err.msg);
    }
}

bool snp_store_release(struct snp_store *store)
{
    snp_autofree char *path = snp_format("%s/reserve", store->dir);

    if (path == NULL || unlink(path) < 0) {
        return false;
    }
    snp_log(SNP_LOG_INFO, "journal-reserve", "folder=%s", store->dir);
    store->has_reserve = false;
    log_move(store, 1);
    return true;
}

/* Opening ------------------------------------------------------------------------------- */

static int lock_take(struct snp_store *store, struct snp_err *err)
{
    snp_autofree char *path = snp_format("%s/lock", store->dir);
    snp_autoclose int fd = -1;
    uint64_t deadline = snp_now_us() + (uint64_t)LOCK_WAIT_MS * 1000;

    if (store->lock_fd >= 0) {
        return 0;
    }
    SNP_TRY_MEMORY(path, err);
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        (void)snp_fail_sys(err, errno, "open %s; make its folder writable", path);
        return snp_err_remedy(err, SNP_E_SYS, SNP_REMEDY_STATE_DIR, NULL, 0);
    }
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return snp_fail_sys(err, errno, "lock %s", path);
        }
        if (snp_now_us() > deadline) {
            return snp_fail_with(
                err, SNP_E_DENIED, SNP_REMEDY_STATE_DIR, NULL, 0,
                "%s is locked: another snipara-sandboxd uses this state folder; stop it", path);
        }
        (void)poll(NULL, 0, LOCK_STEP_MS);
    }
    store->lock_fd = SNP_TAKE_FD(fd);
    (void)pthread_mutex_lock(&store->mutex);
    store->is_locked = true;
    (void)pthread_mutex_unlock(&store->mutex);
    (void)uv_async_send(&store->async);
    return 0;
}

/* Sync the names of our folders, up to that of the state folder. Failures show again later. */
static void folders_sync(const struct snp_store *store)
{
    static const char *const above[] = {"", "/..", "/../..", "/../../.."};

    for (size_t i = 0; i < SNP_ARRAY_LEN(above); i++) {
        snp_autofree char *path = snp_format("%s%s", store->blob_dir, above[i]);
        snp_autoclose int fd = path == NULL ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd >= 0) {
            (void)fsync(fd); /* see above */
        }
    }
}

static int folders_open(struct snp_store *store, struct snp_err *err)
{
    snp_autofree char *tmp = snp_format("%s/tmp", store->blob_dir);
    snp_autoclose int fd = -1;

    SNP_TRY_MEMORY(tmp, err);
    SNP_TRY(snp_identity_held(store, err)); /* never half of it here and half in the moved folder */
    SNP_TRY(snp_mkdir_p(tmp, 0700, err));
    SNP_TRY(lock_take(store, err));
    if (store->place.fd >= 0) {
        return 0;
    }
    fd = open(store->blob_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return snp_fail_sys(err, errno, "open %s", store->blob_dir);
    }
    folders_sync(store);
    store->place = (struct snp_blob_place){.fd = SNP_TAKE_FD(fd),
                                           .dir = store->blob_dir,
                                           .use = &store->use,
                                           .seal = store->place.seal};
    snp_gc_sweep_tmp(store);
    snp_blob_count(&store->place);
    return 0;
}

/* A large database that was closed in order is not checked: damage shows when it is read. */
static int is_believed(struct snp_store *store, bool *ret, struct snp_err *err)
{
    int64_t clean = 0;
    struct stat st;
    int r = 0;

    if (stat(store->db_path, &st) == 0 && st.st_size > CHECK_BYTES) {
        r = snp_db_number(&store->db, 0, &clean, err,
                          "SELECT value FROM meta WHERE key = 'closed_us'", "");
    }
    *ret = clean != 0;
    return r;
}

/* SNP_E_INTERNAL and db.is_corrupt if it is damaged. */
static int check(struct snp_store *store, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int r;

    if (store->was_checked) {
        return 0;
    }
    r = is_believed(store, &store->was_checked, err);
    if (r < 0 || store->was_checked) {
        return r;
    }
    r = snp_db_row(&store->db, &rows, err, "PRAGMA quick_check(1)", "");
    SNP_TRY(r);
    if (r == 0 || !snp_streq(snp_col_text(&rows, 0), "ok")) {
        store->db.is_corrupt = true;
        return snp_fail(err, SNP_E_INTERNAL, "%s is damaged: %.200s", store->db_path,
                        r == 0 ? "the check gave no result" : snp_col_text(&rows, 0));
    }
    store->was_checked = true;
    return 0;
}

static int mark_opened(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    tx->store->generation++;
    SNP_TRY(snp_db_run(tx->db, NULL, err,
                       "INSERT INTO meta(key, value) VALUES('opened_us', ?), ('generation', ?)"
                       " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
                       "ii", (int64_t)snp_wall_us(), (int64_t)tx->store->generation));
    return snp_db_run(tx->db, NULL, err, "DELETE FROM meta WHERE key = 'closed_us'", "");
}

static int mark_closed(struct snp_tx *tx, void *arg SNP_UNUSED, struct snp_err *err)
{
    return snp_db_run(tx->db, NULL, err,
                      "INSERT INTO meta(key, value) VALUES('closed_us', ?1)"
                      " ON CONFLICT(key) DO UPDATE SET value = ?1",
                      "i", (int64_t)snp_wall_us());
}

/*
 * Give the log's file its size now: overwriting syncs only the data, growing also the file system's
 * records. Zeros are no valid log entry. A hint: may fail. Once the log is on disk, so is the
 * generation begun at the opening.
 */
static void log_extend(struct snp_store *store)
{
    snp_autofree char *path = snp_format("%s-wal", store->db_path);
    snp_autofree char *zeros = calloc(1, LOG_BYTES);
    snp_autoclose int fd = -1;
    struct stat st;

    if (path != NULL && zeros != NULL) {
        fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return;
    }
    if (st.st_size < LOG_BYTES &&
        SNP_RETRY(pwrite(fd, zeros, LOG_BYTES - (size_t)st.st_size, st.st_size)) < 0) {
        snp_log(SNP_LOG_DEBUG, "journal-log", "errno=%d", errno);
    }
    if (fsync(fd) == 0 && store->is_open) {
        snp_identity_record(store);
    }
}

/* One attempt; the caller checks db.is_corrupt. */
static int db_open_once(struct snp_store *store, struct snp_err *err)
{
    int r = snp_db_open(&store->db, store->db_path, SNP_STORE_VERSION, err);

    SNP_THEN(r, check(store, err));
    SNP_THEN(r, snp_schema_migrate(&store->db, err));
    if (r == 0) {
        store->is_open = true; /* for the transaction */
        r = snp_identity_check(store, err);
        SNP_THEN(r, snp_store_own(store, mark_opened, NULL, SNP_DURABILITY_PROCESS, err));
    }
    if (r == 0) {
        snp_identity_hold(store);
    }
    if (r < 0) {
        bool is_corrupt = store->db.is_corrupt;

        store->is_open = false;
        snp_db_close(&store->db);
        store->db.is_corrupt = is_corrupt;
    }
    return r;
}

static void db_close(struct snp_store *store)
{
    store->is_open = false;
    snp_identity_drop(store);
    snp_db_close(&store->db);
}

static int db_salvage(struct snp_store *store, const struct snp_err *why, struct snp_err *err)
{
    snp_log(SNP_LOG_ERROR, "journal-damaged", "why=\"%s\"", why->msg);
    SNP_TRY(snp_identity_held(store, err));
    db_close(store);
    store->was_checked = false;
    store->sweep_at = SNP_SWEEP_END; /* files whose rows were lost are no garbage */
    SNP_TRY(snp_salvage(store->db_path, why->msg, err));
    return db_open_once(store, err);
}

/*
 * A plain database to be sealed: open it unsealed first, so that it is intact and in a single file.
 */
static int db_settle(struct snp_store *store, struct snp_err *err)
{
    snp_autofree char *log = snp_format("%s-wal", store->db_path);
    int r = 0;

    SNP_TRY_MEMORY(log, err);
    if (access(store->db_path, F_OK) < 0) {
        return 0;
    }
    r = db_open_once(store, err);
    if (r < 0 && store->db.is_corrupt) {
        struct snp_err why = *err;

        r = db_salvage(store, &why, err);
    }
    db_close(store);
    return r == 0 && access(log, F_OK) == 0
               ? snp_fail(err, SNP_E_INTERNAL,
                          "%s could not be merged into the database; free space on that disk", log)
               : r;
}

/* Before the database: open the store's seal, if any. Fails closed. */
static int seal_open(struct snp_store *store, struct snp_err *err)
{
    struct snp_seal *seal = NULL;
    int r;

    if (store->seal != NULL) {
        return 0;
    }
    r = snp_seal_open(store->dir, store->key_path, &seal, err);
    if (r < 0 || seal == NULL) {
        return r;
    }
    if (snp_seal_is_new(seal)) {
        r = snp_salvage_resume(store->db_path, err);
        SNP_THEN(r, db_settle(store, err));
    }
    SNP_THEN(r, snp_seal_database(seal, store->db_path, err));
    if (r < 0) {
        snp_seal_free(seal);
        return r;
    }
    store->seal = seal;
    store->place.seal = seal;
    return 0;
}

static int db_open(struct snp_store *store, struct snp_err *err)
{
    int r = folders_open(store, err);

    SNP_THEN(r, seal_open(store, err));
    SNP_TRY(r); /* nothing is opened plain that should be sealed */
    r = snp_salvage_resume(store->db_path, err);
    SNP_THEN(r, db_open_once(store, err));
    if (r < 0 && store->db.is_corrupt) {
        struct snp_err why = *err;

        r = db_salvage(store, &why, err);
    }
    return r;
}

static void health_set(struct snp_store *store, const struct snp_err *err)
{
    (void)pthread_mutex_lock(&store->mutex);
    store->health = *err;
    (void)pthread_mutex_unlock(&store->mutex);
}

/* Open the database if needed; failures are retried after a while. */
static int ensure_open(struct snp_store *store, struct snp_err *err)
{
    static const struct snp_err fine = {.code = SNP_OK};
    int r;

    if (store->is_open && store->db.is_corrupt) {
        struct snp_err why = {.msg = "found during garbage collection"};

        r = db_salvage(store, &why, err);
    } else if (store->is_open) {
        return 0;
    } else if (store->retry_us != 0 && snp_now_us() < store->retry_us) {
        *err = store->open_err;
        return err->code;
    } else {
        r = db_open(store, err);
    }
    if (r < 0) {
        snp_log(SNP_LOG_ERROR, "journal", "why=\"%s\"", err->msg);
        store->open_err = *err;
        store->retry_us = snp_now_us() + RETRY_US;
        health_set(store, err);
        return r;
    }
    store->retry_us = 0;
    health_set(store, &fine);
    store->is_log_short = true;
    reserve_make(store);
    store->must_reap = true;
    store->sweep_at = SNP_SWEEP_END;
    if (!store->was_swept) {
        store->was_swept = true;
        store->sweep_at = snp_salvage_is_kept(store->db_path, NULL) ? SNP_SWEEP_END : 0;
    }
    return 0;
}

/* Batches ------------------------------------------------------------------------------- */

enum outcome {
    BATCH_DONE = 0, /* each job has its result */
    BATCH_BROKEN,   /* undone as a whole, for the reason in *err */
};

/* Run one job under its savepoint. False: the transaction is gone. */
static bool job_run(struct snp_store *store, struct job_node *node)
{
    struct snp_tx tx = {.store = store, .db = &store->db};
    struct snp_err err = {0};
    struct snp_err undoing;
    int r = snp_db_run(&store->db, NULL, &err, "SAVEPOINT job", "");

    if (r == 0) {
        r = node->job.run(&tx, node->job.arg, &err);
        pieces_free(&tx);
    }
    node->frees = tx.frees;
    node->err = r < 0 ? err : (struct snp_err){.code = SNP_OK};
    if (!in_transaction(store) || (r < 0 && store->db.is_corrupt)) {
        return false;
    }
    if (r < 0 && snp_db_run(&store->db, NULL, &undoing, "ROLLBACK TO job", "") < 0) {
        return false;
    }
    return snp_db_run(&store->db, NULL, &undoing, "RELEASE job", "") == 0;
}

static enum outcome batch_try(struct snp_store *store,
                              struct job_node *first,
                              bool synced,
                              struct snp_err *err)
{
    int64_t total = 0;

    if (begin(store, synced, &total, err) < 0) {
        return BATCH_BROKEN;
    }
    for (struct job_node *node = first; node != NULL; node = node->next) {
        if (!job_run(store, node)) {
            *err = node->err;
            if (err->code == SNP_OK) {
                (void)snp_fail(err, SNP_E_INTERNAL, "%s: the transaction was aborted",
                               store->db_path);
            }
            rollback(store);
            return BATCH_BROKEN;
        }
    }
    return commit(store, synced, total, err) < 0 ? BATCH_BROKEN : BATCH_DONE;
}

/* Open a new connection after a system error. */
static void after_failure(struct snp_store *store, const struct snp_err *err)
{
    if (err->code == SNP_E_SYS) {
        db_close(store);
    }
    store->was_unwell = true;
    health_set(store, err);
}

/*
 * Run one job alone. A damaged database is salvaged, once; a job that makes room on a full disk
 * gets the reserve.
 */
static void job_alone(struct snp_store *store, struct job_node *node)
{
    bool synced = node->job.durability == SNP_DURABILITY_SYNCED;
    struct job_node *next = SNP_TAKE_PTR(node->next);
    bool was_salvaged = false;
    bool was_pressed = false;

    for (;;) {
        struct snp_err err;

        if (ensure_open(store, &err) < 0) {
            node->err = err;
            break;
        }
        if (batch_try(store, node, synced, &err) == BATCH_DONE) {
            break;
        }
        node->err = err;
        if (store->db.is_corrupt && !was_salvaged) {
            was_salvaged = true;
            if (db_salvage(store, &node->err, &err) == 0) {
                continue;
            }
            node->err = err;
        } else if (err.code == SNP_E_LIMIT && node->frees && snp_store_release(store)) {
            continue;
        } else if (err.code == SNP_E_LIMIT && !was_pressed && store->budget != 0) {
            was_pressed = true;
            store->press_us = 0;
            snp_gc_press(store);
            log_move(store, 1);
            continue;
        }
        after_failure(store, &node->err);
        break;
    }
    node->next = next;
}

static void damaged_mark(struct snp_store *store)
{
    struct snp_err err;

    if (store->n_damaged == 0 || !store->is_open) {
        return;
    }
    if (snp_store_own(store, snp_blobs_mark, NULL, SNP_DURABILITY_SYNCED, &err) < 0) {
        snp_log(SNP_LOG_WARN, "journal-mark", "why=\"%s\"", err.msg);
    }
}

static void well_again(struct snp_store *store)
{
    static const struct snp_err fine = {.code = SNP_OK};

    if (store->was_unwell) {
        store->was_unwell = false;
        health_set(store, &fine);
    }
}

static void batch_run(struct snp_store *store, struct job_node *first)
{
    struct snp_err err = {0};
    bool synced = false;
    bool failed = false;
    int r = ensure_open(store, &err);

    for (struct job_node *node = first; node != NULL; node = node->next) {
        synced = synced || node->job.durability == SNP_DURABILITY_SYNCED;
        node->err = err;
    }
    if (r < 0) {
        return;
    }
    if (batch_try(store, first, synced, &err) == BATCH_DONE) {
        well_again(store);
        for (struct job_node *node = first; node != NULL; node = node->next) {
            if (node->err.code == SNP_E_LIMIT && node->frees && snp_store_release(store)) {
                job_alone(store, node);
            }
        }
    } else {
        for (struct job_node *node = first; node != NULL; node = node->next) {
            job_alone(store, node);
        }
    }
    for (struct job_node *node = first; node != NULL; node = node->next) {
        failed = failed || node->err.code != SNP_OK;
    }
    if (failed) {
        snp_gc_fresh(store);
    }
    store->n_fresh = 0;
    damaged_mark(store);
    snp_store_look(store);
}

/* Delivery ------------------------------------------------------------------------------------- */

void snp_store_finish(struct snp_store *store, struct snp_finished *finished)
{
    finished->next = NULL;
    (void)pthread_mutex_lock(&store->mutex);
    if (store->finished_last == NULL) {
        store->finished_first = finished;
    } else {
        store->finished_last->next = finished;
    }
    store->finished_last = finished;
    (void)pthread_mutex_unlock(&store->mutex);
    (void)uv_async_send(&store->async);
}

static void job_deliver(struct snp_finished *finished)
{
    struct job_node *node = (struct job_node *)(void *)finished;

    if (node->job.done != NULL) {
        node->job.done(node->job.arg, &node->err);
    } else if (node->err.code != SNP_OK) {
        snp_log(SNP_LOG_WARN, "journal-job", "why=\"%s\"", node->err.msg);
    }
    free(node);
}

/* Deliver a whole batch at once: one lock, one wake-up. */
static void batch_finish(struct snp_store *store, struct job_node *first)
{
    bool tell = false;

    (void)pthread_mutex_lock(&store->mutex);
    while (first != NULL) {
        struct job_node *node = first;

        first = node->next;
        store->stats.jobs++;
        if (node->is_call) {
            node->is_over = true;
            (void)pthread_cond_signal(&node->over);
            continue;
        }
        node->finished.next = NULL;
        if (store->finished_last == NULL) {
            store->finished_first = &node->finished;
        } else {
            store->finished_last->next = &node->finished;
        }
        store->finished_last = &node->finished;
        tell = true;
    }
    (void)pthread_mutex_unlock(&store->mutex);
    if (tell) {
        (void)uv_async_send(&store->async);
    }
}

static void handle_closed(uv_handle_t *handle)
{
    struct snp_store *store = handle->data;
    void (*closed)(void *arg) = store->closed;
    void *arg = store->closed_arg;

    (void)pthread_cond_destroy(&store->wake);
    (void)pthread_mutex_destroy(&store->mutex);
    snp_closep(&store->stop_fd);
    free(store->dir);
    free(store->db_path);
    free(store->blob_dir);
    free(store->key_path);
    free(store);
    if (closed != NULL) {
        closed(arg);
    }
}

static void on_async(uv_async_t *async)
{
    struct snp_store *store = async->data;
    struct snp_finished *list;
    bool has_ended;
    bool is_locked;

    (void)pthread_mutex_lock(&store->mutex);
    list = SNP_TAKE_PTR(store->finished_first);
    store->finished_last = NULL;
    has_ended = store->has_ended;
    is_locked = store->is_locked;
    (void)pthread_mutex_unlock(&store->mutex);
    if (is_locked && store->locked != NULL) {
        SNP_TAKE_PTR(store->locked)(store->locked_arg);
    }
    while (list != NULL) {
        struct snp_finished *finished = list;

        list = finished->next;
        finished->deliver(finished);
    }
    /* Nothing is added once the thread has ended, and this list was complete. */
    if (has_ended && uv_is_closing((uv_handle_t *)async) == 0) {
        (void)pthread_join(store->thread, NULL);
        uv_close((uv_handle_t *)async, handle_closed);
    }
}

/* The thread ---------------------------------------------------------------------------- */

/* Take queued jobs, up to a batch; NULL: none. Under the mutex. */
static struct job_node *batch_take(struct snp_store *store)
{
    struct job_node *first = store->first;
    struct job_node *last = first;

    if (first == NULL) {
        return NULL;
    }
    store->stats.waiting--;
    for (unsigned n = 1; n < SNP_STORE_BATCH_MAX && last->next != NULL; n++) {
        last = last->next;
        store->stats.waiting--;
    }
    store->first = SNP_TAKE_PTR(last->next);
    if (store->first == NULL) {
        store->last = NULL;
    }
    return first;
}

/* Wait for a job. Under the mutex. True: none came in time. */
static bool idle_wait(struct snp_store *store, long ms)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms % 1000 * 1000 * 1000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(&store->wake, &store->mutex, &until) == ETIMEDOUT;
}

/* After many writes, when idle: release the caches of SQLite and of the allocator. */
static void memory_return(struct snp_store *store)
{
    if (store->is_open) {
        (void)sqlite3_db_release_memory(store->db.sqlite);
    }
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

/* Wait for the next batch; NULL: the end. Collects garbage while idle. */
static struct job_node *batch_wait(struct snp_store *store)
{
    struct job_node *batch = NULL;
    bool has_more = true;

    (void)pthread_mutex_lock(&store->mutex);
    while ((batch = batch_take(store)) == NULL) {
        if (store->is_closing && store->transfers == 0) {
            break;
        }
        if (!store->is_closing && (has_more || store->gc_first != NULL)) {
            (void)pthread_mutex_unlock(&store->mutex);
            has_more = snp_gc_slice(store);
            log_move(store, LOG_MAX); /* a long collection would make it long, too */
            (void)pthread_mutex_lock(&store->mutex);
        } else if ((store->db.wal_pages < LOG_MIN && !store->is_trim_due) || store->is_closing) {
            (void)pthread_cond_wait(&store->wake, &store->mutex);
        } else if (idle_wait(store, store->db.wal_pages < LOG_MIN ? TRIM_MS : IDLE_MS)) {
            (void)pthread_mutex_unlock(&store->mutex);
            store->is_trim_due = false;
            log_move(store, LOG_MIN);
            memory_return(store);
            (void)pthread_mutex_lock(&store->mutex);
        }
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return batch;
}

static void thread_end(struct snp_store *store)
{
    struct snp_err err;

    if (store->is_open &&
        (snp_blobs_sync_folders(store, &err) < 0 ||
         snp_store_own(store, mark_closed, NULL, SNP_DURABILITY_PROCESS, &err) < 0)) {
        snp_log(SNP_LOG_WARN, "journal-end", "why=\"%s\"", err.msg);
    }
    snp_log(SNP_LOG_DEBUG, "journal-end", "jobs=%llu commits=%llu synced=%llu",
            (unsigned long long)store->stats.jobs, (unsigned long long)store->stats.commits,
            (unsigned long long)store->stats.synced);
    snp_gc_refuse(store);
    snp_blob_writer_free(store->writer);
    snp_blob_reader_free(store->reader);
    db_close(store);
    snp_seal_free(SNP_TAKE_PTR(store->seal));
    snp_closep(&store->place.fd);
    snp_closep(&store->lock_fd);
    (void)pthread_mutex_lock(&store->mutex);
    store->has_ended = true;
    (void)pthread_mutex_unlock(&store->mutex);
    (void)uv_async_send(&store->async);
}

static void *thread_main(void *arg)
{
    struct snp_store *store = arg;
    struct job_node *batch;
    struct snp_err err;

    snp_slice_short();
    (void)ensure_open(store, &err); /* the first job reports the reason */
    while ((batch = batch_wait(store)) != NULL) {
        batch_run(store, batch);
        batch_finish(store, batch);
        if (SNP_TAKE(store->is_log_short, false)) { /* waiting jobs come first */
            log_extend(store);
        }
        log_move(store, LOG_MAX);
        if (store->budget != 0 && snp_budget_used(store) > snp_budget_soft(store)) {
            snp_gc_press(store);
        }
    }
    thread_end(store);
    return NULL;
}

/* From outside -------------------------------------------------------------------------- */

static int names_make(struct snp_store *store,
                      const struct snp_store_options *options,
                      struct snp_err *err)
{
    store->dir = snp_format("%s/journal", options->dir);
    store->db_path = snp_format("%s/journal/journal.db", options->dir);
    store->blob_dir = snp_format("%s/journal/blobs", options->dir);
    store->key_path = options->key_path == NULL ? NULL : strdup(options->key_path);
    SNP_TRY_MEMORY(store->dir != NULL && store->db_path != NULL && store->blob_dir != NULL &&
                       (options->key_path == NULL || store->key_path != NULL),
                   err);
    store->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (store->stop_fd < 0) {
        return snp_fail_sys(err, errno, "eventfd");
    }
    return 0;
}

static void sync_init(struct snp_store *store)
{
    pthread_condattr_t attr;

    (void)pthread_mutex_init(&store->mutex, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&store->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static void never_opened(uv_handle_t *handle)
{
    struct snp_store *store = handle->data;

    store->closed = NULL;
    handle_closed(handle);
}

int snp_store_open(struct uv_loop_s *loop,
                   const struct snp_store_options *options,
                   struct snp_store **ret_store,
                   struct snp_err *err)
{
    struct snp_store *store = calloc(1, sizeof(*store));
    int r;

    SNP_TRY_MEMORY(store, err);
    store->lock_fd = -1;
    store->stop_fd = -1;
    store->place.fd = -1;
    store->budget = options->budget_bytes;
    store->locked = options->locked;
    store->locked_arg = options->arg;
    atomic_store(&store->use.most, UINT64_MAX);
    sync_init(store);
    store->async.data = store;
    r = names_make(store, options, err);
    if (r == 0) {
        r = uv_async_init(loop, &store->async, on_async);
        r = r == 0 ? 0 : snp_fail(err, SNP_E_SYS, "uv_async_init: %s", uv_strerror(r));
    }
    if (r < 0) {
        handle_closed((uv_handle_t *)&store->async); /* it was never a handle of the loop */
        return r;
    }
    r = snp_thread_start(&store->thread, thread_main, store);
    if (r != 0) {
        uv_close((uv_handle_t *)&store->async, never_opened);
        if (r == EPERM) { /* the C library falls back to clone only after ENOSYS */
            return snp_fail(err, SNP_E_UNSUPPORTED,
                            "no thread can be started: clone3 is refused here with EPERM, as old "
                            "container runtimes do; update the runtime, or start the container "
                            "with --security-opt seccomp=unconfined");
        }
        return snp_fail_sys(err, r, "start the journal's thread");
    }
    *ret_store = store;
    return 0;
}

void snp_store_close(struct snp_store *store, void (*closed)(void *arg), void *arg)
{
    uint64_t one = 1;

    store->closed = closed;
    store->closed_arg = arg;
    (void)pthread_mutex_lock(&store->mutex);
    SNP_ASSERT(!store->is_closing);
    store->is_closing = true;
    if (write(store->stop_fd, &one, sizeof(one)) < 0) {
        snp_log(SNP_LOG_WARN, "journal-end", "errno=%d", errno); /* transfers have deadlines */
    }
    (void)pthread_mutex_unlock(&store->mutex);
    snp_transfers_refuse(store);
    (void)pthread_mutex_lock(&store->mutex);
    (void)pthread_cond_signal(&store->wake);
    (void)pthread_mutex_unlock(&store->mutex);
}

/* Under the mutex. */
static void enqueue(struct snp_store *store, struct job_node *node)
{
    if (store->last == NULL) {
        store->first = node;
    } else {
        store->last->next = node;
    }
    store->last = node;
    store->stats.waiting++;
    (void)pthread_cond_signal(&store->wake);
}

int snp_store_submit(struct snp_store *store, const struct snp_store_job *job, struct snp_err *err)
{
    struct job_node *node = store == NULL ? NULL : calloc(1, sizeof(*node));
    int r = 0;

    if (node == NULL) {
        return store == NULL ? snp_fail(err, SNP_E_DENIED, "the journal is closed")
                             : snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    node->job = *job;
    node->finished.deliver = job_deliver;
    (void)pthread_mutex_lock(&store->mutex);
    if (store->is_closing) {
        r = snp_fail(err, SNP_E_DENIED, "the journal is being closed");
    } else if (store->stats.waiting >= SNP_STORE_QUEUE_MAX || SNP_FAULT_FAILS("store.submit")) {
        r = snp_fail(err, SNP_E_LIMIT, "%d jobs already wait for the disk of %s; try again later",
                     SNP_STORE_QUEUE_MAX, store->dir);
    } else {
        enqueue(store, node);
    }
    (void)pthread_mutex_unlock(&store->mutex);
    if (r < 0) {
        free(node);
    }
    return r;
}

void snp_store_do(struct snp_store *store, const struct snp_store_job *job)
{
    struct snp_err err;

    if (snp_store_submit(store, job, &err) < 0) {
        job->done(job->arg, &err);
    }
}

int snp_store_call(struct snp_store *store,
                   snp_store_run_fn run,
                   void *arg,
                   enum snp_durability durability,
                   struct snp_err *err)
{
    struct job_node node = {
        .job = {.run = run, .arg = arg, .durability = durability},
        .is_call = true,
    };

    (void)pthread_cond_init(&node.over, NULL);
    (void)pthread_mutex_lock(&store->mutex);
    enqueue(store, &node);
    while (!node.is_over) {
        (void)pthread_cond_wait(&node.over, &store->mutex);
    }
    (void)pthread_mutex_unlock(&store->mutex);
    (void)pthread_cond_destroy(&node.over);
    if (node.err.code != SNP_OK) {
        *err = node.err;
    }
    return node.err.code;
}

int snp_store_room(struct snp_store *store, uint64_t bytes, struct snp_err *err)
{
    uint64_t used = atomic_load(&store->use.bytes);
    uint64_t most = atomic_load(&store->use.most);

    return used <= most && bytes <= most - used ? 0 : snp_fail_budget(store->dir, err);
}

bool snp_store_is_sealed(const struct snp_store *store)
{
    return store->place.seal != NULL; /* set before any job runs */
}

int snp_store_health(struct snp_store *store, struct snp_err *err)
{
    int r;

    (void)pthread_mutex_lock(&store->mutex);
    r = store->health.code;
    if (r != SNP_OK) {
        *err = store->health;
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return r;
}
