/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery of a damaged database.
 *
 * A new one is filled beside it with the rows that a scan of each table can reach from its
 * beginning, from its end, and from probes between; then inconsistent rows are repaired. The
 * damaged one is renamed, never changed or removed, for repair by hand.
 *
 * At any time there is one database to open: the damaged one, or the new one, complete.
 */
#include "store/salvage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/db/db.h"
#include "base/str.h"
#include "store/schema.h"

enum {
    COLUMNS_MAX = 24,
    SQL_MAX = 4096,
    PROBES_MAX = 10000,  /* jumps over unreadable places, per table */
    SEQUENCE_GAP = 1000, /* numbers that lost rows may have had */
};

/* Tables in an order in which rows refer only to earlier ones. `meta` is created. */
static const char *const tables[] = {
    "sessions", "cells",     "blobs", "parts",   "checkpoints",
    "items",    "snapshots", "files", "effects", "events",
};

struct salvage {
    struct snp_db from;
    struct snp_db to;
    const char *table;
    char columns[SQL_MAX / 2]; /* of both, "row" first */
    unsigned n_columns;
    sqlite3_stmt *insert; /* owned */
    uint64_t copied[SNP_ARRAY_LEN(tables)];
    unsigned holes; /* unreadable places */
    bool lost_sessions;
    unsigned t; /* index of the table */
};

/* Rows ---------------------------------------------------------------------------------- */

/* Find the common columns. 0 columns: the damaged one is unreadable, or lacks the table. */
static int columns_find(struct salvage *s, struct snp_err *err)
{
    snp_autofree char *sql = snp_format("PRAGMA table_info(%s)", s->table);
    snp_autobuf struct snp_buf list = {0};
    sqlite3_stmt *stmt = NULL;
    int r = 0;

    s->n_columns = 0;
    snp_buf_init(&list, sizeof(s->columns) - 1);
    SNP_TRY_MEMORY(sql, err);
    if (sqlite3_prepare_v2(s->from.sqlite, sql, -1, &stmt, NULL) != SQLITE_OK) {
        s->holes++;
        return 0;
    }
    while (sqlite3_step(stmt) == SQLITE_ROW && r == 0 && s->n_columns < COLUMNS_MAX) {
        const char *name = (const char *)sqlite3_column_text(stmt, 1);

        /* Only columns of the new table are used; the damaged schema is not trusted. */
        if (name != NULL &&
            sqlite3_table_column_metadata(s->to.sqlite, "main", s->table, name, NULL, NULL, NULL,
                                          NULL, NULL) == SQLITE_OK) {
            r = snp_buf_addf(&list, "%s%s", s->n_columns == 0 ? "" : ", ", name);
            s->n_columns++;
        }
    }
    (void)sqlite3_finalize(stmt);
    SNP_TRY_MEMORY(r >= 0, err);
    (void)snprintf(s->columns, sizeof(s->columns), "%s", list.len == 0 ? "" : snp_buf_cstr(&list));
    s->holes += s->n_columns == 0 ? 1 : 0;
    return 0;
}

static int insert_prepare(struct salvage *s, struct snp_err *err)
{
    snp_autobuf struct snp_buf sql = {0};
    int r;

    snp_buf_init(&sql, SQL_MAX);
    r = snp_buf_addf(&sql, "INSERT OR IGNORE INTO %s(%s) VALUES(?", s->table, s->columns);
    for (unsigned i = 1; r == 0 && i < s->n_columns; i++) {
        r = snp_buf_adds(&sql, ", ?");
    }
    SNP_THEN(r, snp_buf_adds(&sql, ")"));
    SNP_TRY_MEMORY(r >= 0 && snp_buf_cstr(&sql) != NULL, err);
    r = sqlite3_prepare_v2(s->to.sqlite, snp_buf_cstr(&sql), -1, &s->insert, NULL);
    return r == SQLITE_OK ? 0 : snp_db_fail(&s->to, r, err);
}

/* Copy one row; rows that break a constraint of the new table are left out. */
static int row_copy(struct salvage *s, sqlite3_stmt *row, struct snp_err *err)
{
    int rc = SQLITE_OK;

    for (unsigned i = 0; rc == SQLITE_OK && i < s->n_columns; i++) {
        rc = sqlite3_bind_value(s->insert, (int)i + 1, sqlite3_column_value(row, (int)i));
    }
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(s->insert);
    }
    (void)sqlite3_reset(s->insert);
    if (rc != SQLITE_DONE) {
        return snp_db_fail(&s->to, rc, err);
    }
    s->copied[s->t] += (uint64_t)sqlite3_changes(s->to.sqlite);
    return 0;
}

/*
 * Copy rows from `from`, upwards or downwards, until the end, a row beyond `to`, or an unreadable
 * place (*ret_broke). *ret_last: the last row read, or from's neighbour.
 */
static int rows_copy(struct salvage *s,
                     bool up,
                     const int64_t bounds[2],
                     int64_t *ret_last,
                     bool *ret_broke,
                     struct snp_err *err)
{
    snp_autofree char *sql =
        snp_format("SELECT %s FROM %s NOT INDEXED WHERE row BETWEEN ? AND ? ORDER BY row %s",
                   s->columns, s->table, up ? "ASC" : "DESC");
    sqlite3_stmt *stmt = NULL;
    int rc;
    int r = 0;

    SNP_TRY_MEMORY(sql, err);
    *ret_last = up ? bounds[0] - 1 : bounds[1] + 1;
    rc = sqlite3_prepare_v2(s->from.sqlite, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK) {
        (void)sqlite3_bind_int64(stmt, 1, bounds[0]);
        (void)sqlite3_bind_int64(stmt, 2, bounds[1]);
        while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
            r = row_copy(s, stmt, err);
            *ret_last = sqlite3_column_int64(stmt, 0);
        }
    }
    (void)sqlite3_finalize(stmt);
    *ret_broke = r == 0 && rc != SQLITE_DONE && rc != SQLITE_OK;
    return r;
}

/* Scan from below, from above, and by longer and longer jumps over unreadable places. */
static int table_scan(struct salvage *s, struct snp_err *err)
{
    int64_t bounds[2] = {1, INT64_MAX - 1};
    int64_t low = 0;
    int64_t high = 0;
    bool broke = false;
    int r = rows_copy(s, true, bounds, &low, &broke, err);

    if (r < 0 || !broke) {
        return r;
    }
    s->holes++;
    bounds[0] = low + 1;
    r = rows_copy(s, false, bounds, &high, &broke, err);
    bounds[1] = high - 1;
    for (int64_t jump = 1, probe = 0; r == 0 && broke && probe < PROBES_MAX; probe++) {
        if (bounds[1] - bounds[0] < jump) {
            break;
        }
        bounds[0] += jump;
        r = rows_copy(s, true, bounds, &low, &broke, err);
        jump = low >= bounds[0] ? 1 : jump * 2;
        bounds[0] = low >= bounds[0] ? low + 1 : bounds[0];
    }
    return r;
}

static int table_copy(struct salvage *s, struct snp_err *err)
{
    int r;

    s->table = tables[s->t];
    r = columns_find(s, err);
    if (r < 0 || s->n_columns == 0 || strncmp(s->columns, "row,", 4) != 0) {
        return r;
    }
    r = insert_prepare(s, err);
    SNP_THEN(r, table_scan(s, err));
    (void)sqlite3_finalize(SNP_TAKE_PTR(s->insert));
    return r;
}

/* Repair -------------------------------------------------------------------------------- */

/* Each is correct alone; the order matters. Sessions whose row was lost get a new one. */
static const char *const repairs[] = {
    "INSERT OR IGNORE INTO sessions(row, id, name, spec, state, epoch, cells, created_us, "
    "used_us)"
    " SELECT session, lower(hex(randomblob(16))), 'recovered-' || session, '{}', 'unknown',"
    "   MAX(epoch), MAX(cell), MIN(at), MAX(at)"
    " FROM (SELECT session, epoch, cell, started_us AS at FROM cells"
    "   UNION ALL SELECT session, epoch, cell, created_us FROM checkpoints"
    "   UNION ALL SELECT session, epoch, cell, created_us FROM snapshots)"
    " WHERE session NOT IN (SELECT row FROM sessions) GROUP BY session",
    "DELETE FROM cells WHERE session NOT IN (SELECT row FROM sessions)",
    "DELETE FROM checkpoints WHERE session NOT IN (SELECT row FROM sessions)",
    "DELETE FROM snapshots WHERE session NOT IN (SELECT row FROM sessions)",
    "DELETE FROM effects WHERE session NOT IN (SELECT row FROM sessions)",
    "DELETE FROM files WHERE cell NOT IN (SELECT row FROM cells)",
    "DELETE FROM parts WHERE cell NOT IN (SELECT row FROM cells)",
    "DELETE FROM items WHERE checkpoint NOT IN (SELECT row FROM checkpoints)",
    "UPDATE sessions SET cells = MAX(cells, (SELECT IFNULL(MAX(cell), 0) FROM cells"
    " WHERE session = sessions.row))",
    "UPDATE cells SET dropped = 1 WHERE row IN (SELECT cell FROM parts WHERE blob IS NOT NULL"
    " AND blob NOT IN (SELECT row FROM blobs))",
    "DELETE FROM parts WHERE blob IS NOT NULL AND blob NOT IN (SELECT row FROM blobs)",
    "UPDATE checkpoints SET damaged = 1 WHERE row IN (SELECT checkpoint FROM items"
    " WHERE blob IS NOT NULL AND blob NOT IN (SELECT row FROM blobs))",
    "UPDATE items SET blob = NULL WHERE blob NOT IN (SELECT row FROM blobs)",
    "UPDATE checkpoints SET damaged = 1 WHERE complete = 1 AND items <> (SELECT COUNT(*)"
    " FROM items WHERE checkpoint = checkpoints.row)",
    "UPDATE snapshots SET checkpoint = NULL WHERE checkpoint NOT IN (SELECT row FROM "
    "checkpoints)",
    "UPDATE blobs SET refs = 0",
    "UPDATE blobs SET refs = refs + n FROM (SELECT blob, COUNT(*) AS n FROM items"
    " WHERE blob IS NOT NULL GROUP BY blob) AS x WHERE blobs.row = x.blob",
    "UPDATE blobs SET refs = refs + n FROM (SELECT blob, COUNT(*) AS n FROM parts"
    " WHERE blob IS NOT NULL GROUP BY blob) AS x WHERE blobs.row = x.blob",
    /* Unreferenced contents stay, as files without rows. */
    "DELETE FROM blobs WHERE refs = 0",
};

/* Numbers of lost rows are not reused. */
static int sequences_raise(struct salvage *s, struct snp_err *err)
{
    static const char *const numbered[] = {"checkpoints", "effects", "events"};
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(numbered); i++) {
        struct snp_err ignored;
        int64_t was = 0;

        if (snp_db_number(&s->from, 0, &was, &ignored,
                          "SELECT seq FROM sqlite_sequence WHERE name = ?", "t", numbered[i]) < 0) {
            was = 0; /* unreadable: rely on the gap */
        }
        r = snp_db_run(&s->to, NULL, err,
                       "INSERT OR IGNORE INTO sqlite_sequence(name, seq)"
                       " SELECT ?1, 0 WHERE NOT EXISTS"
                       " (SELECT 1 FROM sqlite_sequence WHERE name = ?1)",
                       "t", numbered[i]);
        SNP_THEN(r, snp_db_run(&s->to, NULL, err,
                               "UPDATE sqlite_sequence SET seq = MAX(seq, ?) + ? WHERE name = ?",
                               "iit", was, (int64_t)SEQUENCE_GAP, numbered[i]));
    }
    return r;
}

static int event_add(struct salvage *s, const char *why, const char *aside, struct snp_err *err)
{
    snp_autofree char *text =
        snp_format("%s was damaged (%s) and renamed to %s; recovered %llu sessions, %llu cells and "
                   "%llu checkpoints; the data in %u unreadable places is lost; contents without a "
                   "record are kept until that file is removed",
                   s->from.path, why, aside, (unsigned long long)s->copied[0],
                   (unsigned long long)s->copied[1], (unsigned long long)s->copied[4], s->holes);

    SNP_TRY_MEMORY(text, err);
    return snp_db_run(&s->to, NULL, err,
                      "INSERT INTO events(at_us, kind, text) VALUES(?, 'salvage', ?)", "it",
                      (int64_t)snp_wall_us(), text);
}

static int fill(struct salvage *s, const char *why, const char *aside, struct snp_err *err)
{
    int r = snp_db_exec(&s->to, "PRAGMA foreign_keys = OFF; BEGIN", err);

    for (s->t = 0; r == 0 && s->t < SNP_ARRAY_LEN(tables); s->t++) {
        r = table_copy(s, err);
        s->lost_sessions |= s->t == 0 && s->holes > 0;
    }
    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(repairs); i++) {
        r = snp_db_exec(&s->to, repairs[i], err);
        s->lost_sessions |= i == 0 && sqlite3_changes(s->to.sqlite) > 0;
    }
    if (r == 0 && s->lost_sessions) {
        r = snp_db_run(&s->to, NULL, err,
                       "INSERT INTO meta(key, value) VALUES('sessions_lost_us', ?)", "i",
                       (int64_t)snp_wall_us());
    }
    SNP_THEN(r, sequences_raise(s, err));
    SNP_THEN(r, event_add(s, why, aside, err));
    SNP_THEN(r, snp_db_exec(&s->to, "INSERT INTO meta VALUES('store_id', '')", err));
    if (r == 0) {
        r = snp_db_exec(&s->to, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)", err);
    }
    return r;
}

/* Files --------------------------------------------------------------------------------- */

static const char *const suffixes[] = {"", "-wal", "-shm"};

static void files_remove(const char *path)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(suffixes); i++) {
        snp_autofree char *name = snp_format("%s%s", path, suffixes[i]);

        if (name != NULL) {
            (void)unlink(name); /* may not exist */
        }
    }
}

/* The database first: otherwise its log could be taken for another database's. */
static int files_rename(const char *from, const char *to, struct snp_err *err)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(suffixes); i++) {
        snp_autofree char *old = snp_format("%s%s", from, suffixes[i]);
        snp_autofree char *now = snp_format("%s%s", to, suffixes[i]);

        SNP_TRY_MEMORY(old != NULL && now != NULL, err);
        if (rename(old, now) < 0 && errno != ENOENT) {
            return snp_fail_sys(err, errno, "rename %s to %s", old, now);
        }
    }
    return 0;
}

static int folder_sync(const char *path, struct snp_err *err)
{
    const char *slash = strrchr(path, '/');
    snp_autofree char *folder = snp_format("%.*s", (int)(slash - path), path);
    snp_autoclose int fd = folder == NULL ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || fsync(fd) < 0) {
        return snp_fail_sys(err, errno, "sync the folder of %s", path);
    }
    return 0;
}

char *snp_salvage_aside(const char *path)
{
    time_t now = (time_t)(snp_wall_us() / 1000000);
    struct tm tm = {0};
    char stamp[32];

    (void)gmtime_r(&now, &tm);
    (void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
    for (unsigned n = 0;; n++) {
        char *name = n == 0 ? snp_format("%s.broken-%s", path, stamp)
                            : snp_format("%s.broken-%s.%u", path, stamp, n);

        if (name == NULL || access(name, F_OK) < 0) {
            return name;
        }
        free(name);
    }
}

static int new_make(
    struct salvage *s, const char *path, const char *why, const char *aside, struct snp_err *err)
{
    snp_autofree char *new_path = snp_format("%s.salvage", path);
    struct snp_err reading;
    int r;

    SNP_TRY_MEMORY(new_path, err);
    files_remove(new_path);
    r = snp_db_open(&s->to, new_path, SNP_STORE_VERSION, err);
    SNP_THEN(r, snp_schema_migrate(&s->to, err));
    /* A database that cannot be opened has no rows. */
    if (r == 0 && snp_db_open_old(&s->from, path, &reading) < 0) {
        r = snp_db_open_old(&s->from, ":memory:", err);
        free(s->from.path);
        s->from.path = strdup(path);
        if (r == 0 && s->from.path == NULL) {
            r = snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    SNP_THEN(r, fill(s, why, aside, err));
    if (s->from.sqlite != NULL) {
        (void)sqlite3_db_config(s->from.sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    }
    snp_db_close(&s->from);
    snp_db_close(&s->to);
    if (r < 0) {
        files_remove(new_path);
    }
    return r;
}

int snp_salvage(const char *path, const char *why, struct snp_err *err)
{
    snp_autofree struct salvage *s = calloc(1, sizeof(*s));
    snp_autofree char *aside = snp_salvage_aside(path);

    SNP_TRY_MEMORY(s != NULL && aside != NULL, err);
    SNP_TRY(new_make(s, path, why, aside, err));
    SNP_TRY(files_rename(path, aside, err));
    return snp_salvage_resume(path, err);
}

int snp_salvage_resume(const char *path, struct snp_err *err)
{
    snp_autofree char *new_path = snp_format("%s.salvage", path);
    snp_autofree char *log = snp_format("%s-wal", path);
    snp_autofree char *aside = NULL;
    struct stat st;
    bool has_new;

    SNP_TRY_MEMORY(new_path != NULL && log != NULL, err);
    has_new = access(new_path, F_OK) == 0;
    if (stat(path, &st) == 0 && st.st_size > 0) {
        if (has_new) {
            files_remove(new_path); /* may be incomplete; the damaged one still exists */
        }
        return 0;
    }
    if (!has_new && access(log, F_OK) < 0) {
        return 0;
    }
    /* A log without its database belongs to the damaged or missing one; SQLite would delete it. */
    aside = snp_salvage_aside(path);
    SNP_TRY_MEMORY(aside, err);
    SNP_TRY(files_rename(path, aside, err));
    if (has_new) {
        SNP_TRY(files_rename(new_path, path, err));
    }
    return folder_sync(path, err);
}

bool snp_salvage_is_kept(const char *path, const char *text)
{
    const char *slash = strrchr(path, '/');
    snp_autofree char *folder = snp_format("%.*s", (int)(slash - path), path);
    snp_autofree char *prefix = snp_format("%s.broken-", slash + 1);
    DIR *dir = folder == NULL ? NULL : opendir(folder);
    bool found = dir == NULL || prefix == NULL; /* if in doubt nothing is removed */

    if (dir != NULL) {
        const struct dirent *entry;

        /* NOLINTNEXTLINE(concurrency-mt-unsafe): a private stream */
        while (!found && (entry = readdir(dir)) != NULL) {
            found = snp_has_prefix(entry->d_name, prefix) &&
                    (text == NULL || strstr(text, entry->d_name) != NULL);
        }
        (void)closedir(dir);
    }
    return found;
}
