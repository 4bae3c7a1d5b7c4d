/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detect a database and contents that do not belong together.
 *
 * blobs/store has the id of the database and the generation of its log, a number that the first
 * commit into each log raises. That commit is synced before the file is written, so the file is
 * never ahead of the disk. A database with another id or an earlier generation has lost commits: it
 * is used, but this is reported, and a note beside it keeps the contents that its rows do not name
 * (snp_salvage_is_kept).
 *
 * A folder that is moved while open takes all writes with it. Nothing is lost by that, but the next
 * daemon does not find it, so no answer may report a session as saved.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "store/journal_priv.h"
#include "store/salvage.h"
#include "store/state.h"
#include "store/store.h"

enum {
    RECORD_MAX = SNP_STORE_ID_LEN + 1 + 20 + 1, /* "ID GENERATION\n" */
};

/* One side's record of the other. */
struct identity_record {
    char id[SNP_STORE_ID_LEN + 1];
    uint64_t generation;
    bool has_id; /* with an empty id: a salvaged database, or an unreadable record */
};

static char *record_path(const struct snp_store *store)
{
    return snp_format("%s/store", store->blob_dir);
}

static int record_read(const struct snp_store *store,
                       struct identity_record *ret,
                       struct snp_err *err)
{
    snp_autofree char *path = record_path(store);
    snp_autofree char *text = NULL;
    size_t n = 0;
    int r;

    *ret = (struct identity_record){0};
    SNP_TRY_MEMORY(path, err);
    r = snp_file_read(path, RECORD_MAX, &text, &n, err);
    if (r == SNP_E_NOT_FOUND) {
        return 0;
    }
    ret->has_id = true;
    if (r == SNP_E_LIMIT || r == SNP_E_INVALID) {
        return 0;
    }
    SNP_TRY(r);
    if (n > SNP_STORE_ID_LEN + 1 && text[n - 1] == '\n' && text[SNP_STORE_ID_LEN] == ' ') {
        text[n - 1] = text[SNP_STORE_ID_LEN] = '\0';
        if (snp_parse_u64(text + SNP_STORE_ID_LEN + 1, &ret->generation) == 0) {
            (void)snprintf(ret->id, sizeof(ret->id), "%s", text);
        }
    }
    return 0;
}

static int record_write(const struct snp_store *store, struct snp_err *err)
{
    snp_autofree char *path = record_path(store);
    char text[RECORD_MAX + 1];

    SNP_TRY_MEMORY(path, err);
    (void)snprintf(text, sizeof(text), "%s %llu\n", store->id,
                   (unsigned long long)store->generation);
    return snp_file_write_atomic(path, text, strlen(text), 0600, err);
}

/* *ret_used: it had been opened before. */
static int database_read(struct snp_store *store,
                         struct identity_record *ret,
                         bool *ret_used,
                         struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int64_t generation = 0;
    int64_t opened = 0;
    int r = snp_db_row(&store->db, &rows, err, "SELECT value FROM meta WHERE key = 'store_id'", "");

    *ret = (struct identity_record){.has_id = r > 0};
    if (r > 0) {
        (void)snprintf(ret->id, sizeof(ret->id), "%s", snp_col_text(&rows, 0));
        r = 0;
    }
    SNP_THEN(r, snp_db_number(&store->db, 0, &generation, err,
                              "SELECT value FROM meta WHERE key = 'generation'", ""));
    SNP_THEN(r, snp_db_number(&store->db, 0, &opened, err,
                              "SELECT value FROM meta WHERE key = 'opened_us'", ""));
    ret->generation = (uint64_t)generation;
    *ret_used = opened != 0;
    return r;
}

/* The difference as a phrase about the database; NULL: none. */
static const char *difference(struct snp_store *store,
                              const struct identity_record *record,
                              const struct identity_record *database,
                              bool was_used)
{
    bool is_salvaged = database->has_id && database->id[0] == '\0'; /* has a separate event */

    if (is_salvaged) {
        return NULL;
    }
    if (!record->has_id) {
        bool is_older = was_used && !database->has_id; /* of a version without ids */

        if (is_older || atomic_load(&store->use.bytes) == 0) {
            return NULL;
        }
        return was_used ? "does not belong to the contents beside it" : "is new";
    }
    /* With this id, its first opening was cut off between the record and the next commit. */
    if (!was_used && strcmp(record->id, database->id) != 0) {
        return "is new";
    }
    if (strcmp(record->id, database->id) != 0) {
        return "does not belong to the contents beside it";
    }
    return record->generation > database->generation ? "lacks its last commits (its -wal file)"
                                                     : NULL;
}

/* arg: text of the event; NULL: nothing was lost. */
static int mark(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_journal_event event = {
        .at_us = snp_wall_us(), .kind = "journal_lost", .text = arg};

    SNP_TRY(snp_db_run(tx->db, NULL, err,
                       "INSERT INTO meta(key, value) VALUES('store_id', ?1), ('generation', ?2)"
                       " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
                       "ti", tx->store->id, (int64_t)tx->store->generation));
    if (event.text == NULL) {
        return 0;
    }
    SNP_TRY(snp_db_run(tx->db, NULL, err,
                       "INSERT INTO meta(key, value) VALUES('sessions_lost_us', ?1)"
                       " ON CONFLICT(key) DO UPDATE SET value = ?1",
                       "i", (int64_t)event.at_us));
    return snp_journal_event_add(tx, &event, err);
}

/* Write the note first: then contents are kept whatever follows. */
static int loss_note(const struct snp_store *store,
                     const char *why,
                     char **ret_text,
                     struct snp_err *err)
{
    snp_autofree char *note = snp_salvage_aside(store->db_path);

    SNP_TRY_MEMORY(note, err);
    *ret_text = snp_format("%s %s: sessions, cells and snapshots may be missing. Contents without "
                           "a record are kept until %s is removed",
                           store->db_path, why, note);
    SNP_TRY_MEMORY(*ret_text, err);
    snp_log(SNP_LOG_ERROR, "journal-lost", "why=\"%s\"", *ret_text);
    return snp_file_write_atomic(note, *ret_text, strlen(*ret_text), 0600, err);
}

int snp_identity_check(struct snp_store *store, struct snp_err *err)
{
    snp_autofree char *lost = NULL;
    struct identity_record record;
    struct identity_record database;
    const char *why;
    bool was_used = false;

    SNP_TRY(record_read(store, &record, err));
    SNP_TRY(database_read(store, &database, &was_used, err));
    why = difference(store, &record, &database, was_used);
    memcpy(store->id, database.id, sizeof(store->id));
    store->generation =
        record.generation > database.generation ? record.generation : database.generation;
    if (why == NULL && record.has_id && strcmp(record.id, database.id) == 0) {
        return 0;
    }
    if (why != NULL) {
        SNP_TRY(loss_note(store, why, &lost, err));
    }
    if (store->id[0] == '\0' && snp_random_id(store->id) < 0) {
        return snp_fail_sys(err, errno, "getrandom");
    }
    SNP_TRY(snp_store_own(store, mark, lost, SNP_DURABILITY_SYNCED, err));
    return record_write(store, err);
}

void snp_identity_record(const struct snp_store *store)
{
    struct snp_err err;

    if (record_write(store, &err) < 0) {
        snp_log(SNP_LOG_WARN, "journal-log", "why=\"%s\"", err.msg); /* retried with the next log */
    }
}

void snp_identity_next(struct snp_store *store)
{
    struct snp_err err;

    store->generation++;
    if (snp_store_own(store, mark, NULL, SNP_DURABILITY_SYNCED, &err) < 0) {
        snp_log(SNP_LOG_WARN, "journal-log", "why=\"%s\"", err.msg); /* retried with the next log */
        return;
    }
    snp_identity_record(store);
}

/* While the store runs ------------------------------------------------------------------------- */

/* Read the ids of the files at the paths; 0 for a missing one. */
static void ids_read(const struct snp_store *store, struct snp_file_id ret[SNP_FILES_N])
{
    snp_autofree char *log = snp_format("%s-wal", store->db_path);
    const char *const paths[] = {store->blob_dir, store->db_path, log};

    for (size_t i = 0; i < SNP_FILES_N; i++) {
        struct stat st;

        ret[i] = (struct snp_file_id){.ino = 0};
        if (paths[i] != NULL && stat(paths[i], &st) == 0) {
            ret[i] = (struct snp_file_id){st.st_dev, st.st_ino};
        }
    }
}

void snp_identity_hold(struct snp_store *store)
{
    struct snp_file_id ids[SNP_FILES_N];

    ids_read(store, ids);
    (void)pthread_mutex_lock(&store->mutex);
    memcpy(store->held, ids, sizeof(ids));
    (void)pthread_mutex_unlock(&store->mutex);
}

void snp_identity_drop(struct snp_store *store)
{
    (void)pthread_mutex_lock(&store->mutex);
    store->held[SNP_FILE_DATABASE] = store->held[SNP_FILE_LOG] = (struct snp_file_id){0};
    (void)pthread_mutex_unlock(&store->mutex);
}

/*
 * The present path of the folder of contents, without /blobs; false: it has none, or the path is
 * covered by something else.
 */
static bool new_place(const struct snp_store *store, char *ret, size_t n)
{
    char link[40];
    ssize_t len;
    struct stat st;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", store->place.fd);
    len = readlink(link, ret, n);
    if (len <= 0 || (size_t)len >= n) {
        return false;
    }
    ret[len] = '\0';
    if (strcmp(ret, store->blob_dir) == 0 || stat(ret, &st) < 0) {
        return false; /* the kernel appends a word to a removed one's path */
    }
    if (snp_has_suffix(ret, "/blobs")) {
        ret[(size_t)len - strlen("/blobs")] = '\0';
    }
    return true;
}

static int moved_fail(const struct snp_store *store, enum snp_store_file which, struct snp_err *err)
{
    char place[256];

    if (which == SNP_FILE_BLOBS && new_place(store, place, sizeof(place))) {
        return snp_fail(err, SNP_E_DENIED, "%.160s was moved to %.160s while in use; move it back",
                        store->dir, place);
    }
    return snp_fail(err, SNP_E_DENIED,
                    "%.160s%s was removed or replaced while in use; put it back, or copy what "
                    "you need out of the sessions and run: snipara-sandbox daemon stop --force",
                    which == SNP_FILE_BLOBS ? store->dir : store->db_path,
                    which == SNP_FILE_LOG ? "-wal" : "");
}

int snp_identity_held(struct snp_store *store, struct snp_err *err)
{
    struct snp_file_id held[SNP_FILES_N];
    struct snp_file_id now[SNP_FILES_N];

    (void)pthread_mutex_lock(&store->mutex);
    memcpy(held, store->held, sizeof(held));
    (void)pthread_mutex_unlock(&store->mutex);
    ids_read(store, now);
    for (size_t i = 0; i < SNP_FILES_N; i++) {
        if (held[i].ino != 0 && (held[i].dev != now[i].dev || held[i].ino != now[i].ino)) {
            return moved_fail(store, (enum snp_store_file)i, err);
        }
    }
    return 0;
}

void snp_store_look(struct snp_store *store)
{
    struct snp_err err = {.code = SNP_OK};
    int r = snp_identity_held(store, &err);
    bool is_new;

    (void)pthread_mutex_lock(&store->mutex);
    is_new = r != (int)store->moved.code;
    store->moved = err;
    (void)pthread_mutex_unlock(&store->mutex);
    if (is_new) {
        snp_log(r == 0 ? SNP_LOG_INFO : SNP_LOG_ERROR, "journal-moved", "why=\"%s\"",
                r == 0 ? "it is back" : err.msg);
    }
}

int snp_store_moved(struct snp_store *store, struct snp_err *err)
{
    int r;

    if (store == NULL) {
        return 0;
    }
    (void)pthread_mutex_lock(&store->mutex);
    r = store->moved.code;
    if (r != SNP_OK) {
        *err = store->moved;
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return r;
}
