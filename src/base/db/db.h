/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_DB_DB_H
#define SNP_BASE_DB_DB_H

/*
 * A connection to a database, and its queries: cached statements, values bound by a format, errors
 * that name the file and the remedy. Used by one thread.
 */

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SNP_DB_CACHED = 128 /* cached statements; a power of two */
};

struct snp_db {
    sqlite3 *sqlite;      /* owned; NULL = closed */
    char *path;           /* owned */
    const char *bound_by; /* the setting that limits its pages; NULL = none; borrowed */
    struct {
        const char *sql; /* borrowed: a constant; compared by address */
        sqlite3_stmt *stmt;
    } cached[SNP_DB_CACHED];
    int level;          /* of PRAGMA synchronous: 1 normal, 2 full; 0 = not yet set */
    uint64_t bound;     /* bytes bound in the transaction: the least that it needs */
    bool is_corrupt;    /* the database reported it since it was opened */
    unsigned wal_pages; /* in the write-ahead log since it was last moved into the database */
};

/*
 * Open or create path. The connection locks the file while it is open. On failure it is closed.
 * SNP_E_DENIED: locked by another process. SNP_E_UNSUPPORTED: its user_version is above newest, so
 * a newer program made it; nothing was changed.
 */
int snp_db_open(struct snp_db *db, const char *path, int newest, struct snp_err *err) SNP_NODISCARD;
/* Open a possibly damaged database for reading. */
int snp_db_open_old(struct snp_db *db, const char *path, struct snp_err *err) SNP_NODISCARD;
/* Close; a remaining log is first moved into the database, if possible. Idempotent. */
void snp_db_close(struct snp_db *db);

/* Report a result of SQLite with the file and the remedy. Returns the code. */
int snp_db_fail(struct snp_db *db, int rc, struct snp_err *err);

/* Execute statements without values, perhaps several; not cached. */
int snp_db_exec(struct snp_db *db, const char *sql, struct snp_err *err) SNP_NODISCARD;

/*
 * A pending query. Its statement is reset at the end:
 *     snp_autorows struct snp_rows rows = {0};
 *     r = snp_db_ask(db, &rows, err, "SELECT ... WHERE a = ? AND b = ?", "it", a, b);
 *     while (r == 0 && (r = snp_db_step(&rows, err)) > 0) { ... r = 0; }
 */
struct snp_rows {
    struct snp_db *db;
    sqlite3_stmt *stmt;
    bool is_own; /* not cached: finalized at the end */
};

/*
 * sql: a constant, cached by its address. format: one letter per value: i int64_t or uint64_t, t
 * text or NULL, b bytes and size_t (const void *, size_t; NULL pointer with 0 = empty), d the same,
 * but a NULL pointer is SQL's NULL. Texts and bytes are borrowed until the rows are done.
 */
int snp_db_ask(struct snp_db *db,
               struct snp_rows *ret_rows,
               struct snp_err *err,
               const char *sql,
               const char *format,
               ...) SNP_NODISCARD;
/* 1: there is a row; 0: no more. */
int snp_db_step(struct snp_rows *rows, struct snp_err *err) SNP_NODISCARD;
/* Query one row, and step to it: 1 or 0 as above. */
int snp_db_row(struct snp_db *db,
               struct snp_rows *ret_rows,
               struct snp_err *err,
               const char *sql,
               const char *format,
               ...) SNP_NODISCARD;
void snp_rows_done(struct snp_rows *rows);
#define snp_autorows snp_cleanup(snp_rows_done)

/* Run a statement that changes rows to its end. *ret_changed may be NULL. */
int snp_db_run(struct snp_db *db,
               uint64_t *ret_changed,
               struct snp_err *err,
               const char *sql,
               const char *format,
               ...) SNP_NODISCARD;
/* The first column of the first row; fallback if there is no row or it is NULL. */
int snp_db_number(struct snp_db *db,
                  int64_t fallback,
                  int64_t *ret,
                  struct snp_err *err,
                  const char *sql,
                  const char *format,
                  ...) SNP_NODISCARD;

/* Columns of the current row. A text is NULL for NULL; borrowed until the next step. */
static inline uint64_t snp_col_u64(const struct snp_rows *rows, int i)
{
    return (uint64_t)sqlite3_column_int64(rows->stmt, i);
}
static inline const char *snp_col_text(const struct snp_rows *rows, int i)
{
    return (const char *)sqlite3_column_text(rows->stmt, i);
}
static inline const void *snp_col_bytes(const struct snp_rows *rows, int i, size_t *ret_n)
{
    const void *bytes = sqlite3_column_blob(rows->stmt, i);

    *ret_n = (size_t)sqlite3_column_bytes(rows->stmt, i);
    return bytes;
}
static inline bool snp_col_null(const struct snp_rows *rows, int i)
{
    return sqlite3_column_type(rows->stmt, i) == SQLITE_NULL;
}

/* full: further commits wait for the disk. Outside of transactions only. */
int snp_db_set_full(struct snp_db *db, bool full, struct snp_err *err) SNP_NODISCARD;

#endif
