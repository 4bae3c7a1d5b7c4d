/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite as used here: a write-ahead log, an exclusive connection, statements cached by the address
 * of their text, and errors that name the file and the remedy.
 *
 * A commit is one append to the log and, if requested, one fdatasync. The owner moves the log into
 * the database when it is idle; SQLite does not do it in a commit.
 */
#include "base/db/db.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/str.h"

enum {
    NEED_MIN = 64 << 10,   /* bytes that any commit may need */
    DISK_MIN = 8 << 20,    /* with this much free the budget is full, not the disk */
    VALUE_MAX = 512 << 20, /* bytes of one value */
};

/* Errors -------------------------------------------------------------------------------- */

static int fail_full(struct snp_db *db, struct snp_err *err)
{
    struct statvfs fs;
    char need[32];
    char have[32] = "little";

    (void)snp_format_bytes(db->bound + NEED_MIN, need, sizeof(need));
    if (statvfs(db->path, &fs) == 0) {
        if (db->bound_by != NULL && (uint64_t)fs.f_bavail * fs.f_frsize > db->bound + DISK_MIN) {
            return snp_fail_with(err, SNP_E_LIMIT, SNP_REMEDY_RAISE_LIMIT, db->bound_by, 0,
                                 "%s has reached its budget", db->path);
        }
        (void)snp_format_bytes((uint64_t)fs.f_bavail * fs.f_frsize, have, sizeof(have));
    }
    return snp_fail_with(err, SNP_E_LIMIT, SNP_REMEDY_STATE_DIR, NULL, 0,
                         "%s cannot grow: it needs %s, but only %s are free; free space on "
                         "that disk",
                         db->path, need, have);
}

/* The system's reason: from the connection, else from the log or the file. */
static int system_errno(struct snp_db *db)
{
    sqlite3_file *log = NULL;
    int eno = db->sqlite == NULL ? 0 : sqlite3_system_errno(db->sqlite);

    if (db->sqlite != NULL && eno == 0 &&
        sqlite3_file_control(db->sqlite, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK &&
        log != NULL && log->pMethods != NULL) {
        (void)log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &eno);
    }
    if (db->sqlite != NULL && eno == 0) {
        (void)sqlite3_file_control(db->sqlite, "main", SQLITE_FCNTL_LAST_ERRNO, &eno);
    }
    return eno;
}

static int fail_io(struct snp_db *db, int rc, struct snp_err *err)
{
    int eno = system_errno(db);

    if (eno == ENOSPC || eno == EDQUOT || eno == EFBIG) {
        return fail_full(db, err);
    }
    return snp_fail_sys(err, eno == 0 ? EIO : eno,
                        "%s: %s; check that its disk works and can be written", db->path,
                        sqlite3_errstr(rc));
}

int snp_db_fail(struct snp_db *db, int rc, struct snp_err *err)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return fail_full(db, err);
    case SQLITE_IOERR:
        return fail_io(db, rc, err);
    case SQLITE_READONLY:
        (void)snp_fail_sys(err, EROFS, "%s cannot be written; make its folder writable", db->path);
        return snp_err_remedy(err, SNP_E_SYS, SNP_REMEDY_STATE_DIR, NULL, 0);
    case SQLITE_CANTOPEN:
        (void)snp_fail_sys(err,
                           db->sqlite == NULL || sqlite3_system_errno(db->sqlite) == 0
                               ? EACCES
                               : sqlite3_system_errno(db->sqlite),
                           "%s cannot be opened; make its folder writable", db->path);
        return snp_err_remedy(err, SNP_E_SYS, SNP_REMEDY_STATE_DIR, NULL, 0);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_STATE_DIR, NULL, 0,
                             "%s is in use by another process; end that process (another "
                             "snipara-sandboxd?)",
                             db->path);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        db->is_corrupt = true;
        return snp_fail(err, SNP_E_INTERNAL, "%s is damaged: %s", db->path, sqlite3_errstr(rc));
    case SQLITE_NOMEM:
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    case SQLITE_TOOBIG:
        return snp_fail(err, SNP_E_LIMIT, "%s: a value is larger than %d bytes", db->path,
                        VALUE_MAX);
    case SQLITE_CONSTRAINT:
        return snp_fail(err, SNP_E_INVALID, "%s: %s", db->path,
                        db->sqlite == NULL ? "constraint" : sqlite3_errmsg(db->sqlite));
    default:
        return snp_fail(err, SNP_E_INTERNAL, "%s: %s", db->path,
                        db->sqlite == NULL ? sqlite3_errstr(rc) : sqlite3_errmsg(db->sqlite));
    }
}

/* Statements ---------------------------------------------------------------------------- */

int snp_db_exec(struct snp_db *db, const char *sql, struct snp_err *err)
{
    int rc = sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? 0 : snp_db_fail(db, rc, err);
}

/* The cache slot of a statement: by its address, then the following ones. */
static size_t cache_slot(const struct snp_db *db, const char *sql)
{
    size_t slot = ((uintptr_t)sql >> 3) * 2654435761U % SNP_DB_CACHED;

    for (size_t i = 0; i < SNP_DB_CACHED; i++) {
        size_t at = (slot + i) % SNP_DB_CACHED;

        if (db->cached[at].sql == sql || db->cached[at].sql == NULL) {
            return at;
        }
    }
    return SNP_DB_CACHED;
}

static int prepare(struct snp_db *db, const char *sql, struct snp_rows *rows, struct snp_err *err)
{
    size_t slot = cache_slot(db, sql);
    bool is_kept = slot < SNP_DB_CACHED;
    int rc;

    *rows = (struct snp_rows){.db = db};
    if (is_kept && db->cached[slot].stmt != NULL && sqlite3_stmt_busy(db->cached[slot].stmt) == 0) {
        rows->stmt = db->cached[slot].stmt;
        return 0;
    }
    /* Called again while its rows are read, or the cache is full: use an uncached statement. */
    is_kept = is_kept && db->cached[slot].stmt == NULL;
    rc = sqlite3_prepare_v3(db->sqlite, sql, -1, is_kept ? SQLITE_PREPARE_PERSISTENT : 0,
                            &rows->stmt, NULL);
    if (rc != SQLITE_OK) {
        int r = snp_db_fail(db, rc, err);

        return r < 0 ? r : SNP_E_INTERNAL; /* no rows: never 0 */
    }
    rows->is_own = !is_kept;
    if (is_kept) {
        db->cached[slot].sql = sql;
        db->cached[slot].stmt = rows->stmt;
    }
    return 0;
}

static int bind_bytes(struct snp_db *db, sqlite3_stmt *stmt, int i, const void *bytes, size_t n)
{
    db->bound += n;
    if (n > VALUE_MAX) {
        return SQLITE_TOOBIG;
    }
    /* NULL would be SQL's NULL: an empty value is meant. */
    return sqlite3_bind_blob(stmt, i, n == 0 ? "" : bytes, (int)n, SQLITE_STATIC);
}

static int bind_text(struct snp_db *db, sqlite3_stmt *stmt, int i, const char *text)
{
    size_t n = text == NULL ? 0 : strlen(text);

    db->bound += n;
    if (n > VALUE_MAX) {
        return SQLITE_TOOBIG;
    }
    return text == NULL ? sqlite3_bind_null(stmt, i)
                        : sqlite3_bind_text(stmt, i, text, (int)n, SQLITE_STATIC);
}

static int bind_all(struct snp_rows *rows, const char *format, va_list args)
{
    int rc = SQLITE_OK;

    for (int i = 1; format[i - 1] != '\0' && rc == SQLITE_OK; i++) {
        const void *bytes;
        size_t n;

        switch (format[i - 1]) {
        case 'i':
            rc = sqlite3_bind_int64(rows->stmt, i, va_arg(args, int64_t));
            break;
        case 't':
            rc = bind_text(rows->db, rows->stmt, i, va_arg(args, const char *));
            break;
        default:
            bytes = va_arg(args, const void *);
            n = va_arg(args, size_t);
            rc = bytes == NULL && format[i - 1] == 'd'
                     ? sqlite3_bind_null(rows->stmt, i)
                     : bind_bytes(rows->db, rows->stmt, i, bytes, n);
        }
    }
    return rc;
}

static int ask(struct snp_db *db,
               struct snp_rows *rows,
               struct snp_err *err,
               const char *sql,
               const char *format,
               va_list args)
{
    int r = prepare(db, sql, rows, err);
    int rc;

    SNP_TRY(r);
    SNP_ASSERT(sqlite3_bind_parameter_count(rows->stmt) == (int)strlen(format));
    rc = bind_all(rows, format, args);
    if (rc != SQLITE_OK) {
        snp_rows_done(rows);
        r = snp_db_fail(db, rc, err);
        return r < 0 ? r : SNP_E_INTERNAL; /* no rows: never 0 */
    }
    return 0;
}

int snp_db_ask(struct snp_db *db,
               struct snp_rows *ret_rows,
               struct snp_err *err,
               const char *sql,
               const char *format,
               ...)
{
    va_list args;
    int r;

    va_start(args, format);
    r = ask(db, ret_rows, err, sql, format, args);
    va_end(args);
    return r;
}

int snp_db_step(struct snp_rows *rows, struct snp_err *err)
{
    int rc = sqlite3_step(rows->stmt);

    if (rc == SQLITE_ROW) {
        return 1;
    }
    return rc == SQLITE_DONE ? 0 : snp_db_fail(rows->db, rc, err);
}

static int row(struct snp_db *db,
               struct snp_rows *rows,
               struct snp_err *err,
               const char *sql,
               const char *format,
               va_list args)
{
    SNP_TRY(ask(db, rows, err, sql, format, args));
    return snp_db_step(rows, err);
}

int snp_db_row(struct snp_db *db,
               struct snp_rows *ret_rows,
               struct snp_err *err,
               const char *sql,
               const char *format,
               ...)
{
    va_list args;
    int r;

    va_start(args, format);
    r = row(db, ret_rows, err, sql, format, args);
    va_end(args);
    return r;
}

void snp_rows_done(struct snp_rows *rows)
{
    if (rows->stmt != NULL) {
        (void)sqlite3_reset(rows->stmt); /* reports the last failure again */
        (void)sqlite3_clear_bindings(rows->stmt);
        if (rows->is_own) {
            (void)sqlite3_finalize(rows->stmt);
        }
    }
    *rows = (struct snp_rows){0};
}

int snp_db_run(struct snp_db *db,
               uint64_t *ret_changed,
               struct snp_err *err,
               const char *sql,
               const char *format,
               ...)
{
    snp_autorows struct snp_rows rows = {0};
    va_list args;
    int r;

    va_start(args, format);
    r = row(db, &rows, err, sql, format, args);
    va_end(args);
    while (r > 0) {
        r = snp_db_step(&rows, err);
    }
    if (r == 0 && ret_changed != NULL) {
        *ret_changed = (uint64_t)sqlite3_changes64(db->sqlite);
    }
    return r;
}

int snp_db_number(struct snp_db *db,
                  int64_t fallback,
                  int64_t *ret,
                  struct snp_err *err,
                  const char *sql,
                  const char *format,
                  ...)
{
    snp_autorows struct snp_rows rows = {0};
    va_list args;
    int r;

    va_start(args, format);
    r = row(db, &rows, err, sql, format, args);
    va_end(args);
    SNP_TRY(r);
    *ret = r == 0 || snp_col_null(&rows, 0) ? fallback : sqlite3_column_int64(rows.stmt, 0);
    return 0;
}

/* Opening ------------------------------------------------------------------------------- */

static int on_commit(void *arg, sqlite3 *sqlite SNP_UNUSED, const char *name SNP_UNUSED, int n)
{
    struct snp_db *db = arg;

    db->wal_pages = (unsigned)n;
    return SQLITE_OK;
}

static const char pragmas[] = "PRAGMA auto_vacuum = INCREMENTAL;"
                              "PRAGMA journal_mode = WAL;"
                              "PRAGMA journal_size_limit = 4194304;"
                              "PRAGMA synchronous = NORMAL;"
                              "PRAGMA foreign_keys = ON;"
                              "PRAGMA temp_store = MEMORY;"
                              "PRAGMA cache_size = -8192;"
                              "PRAGMA trusted_schema = OFF;";

static int open_at(struct snp_db *db, const char *path, int flags, struct snp_err *err)
{
    int rc;
    int r;

    *db = (struct snp_db){.path = strdup(path)};
    SNP_TRY_MEMORY(db->path, err);
    rc = sqlite3_open_v2(path, &db->sqlite,
                         flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
                             SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
                         NULL);
    if (rc != SQLITE_OK) {
        r = snp_db_fail(db, rc, err);
        snp_db_close(db);
        return r;
    }
    (void)sqlite3_limit(db->sqlite, SQLITE_LIMIT_LENGTH, VALUE_MAX);
    (void)sqlite3_limit(db->sqlite, SQLITE_LIMIT_ATTACHED, 0);
    return 0;
}

/* The database of a newer program stays unchanged, including its log. */
static int refuse_newer(struct snp_db *db, int newest, struct snp_err *err)
{
    int64_t version = 0;

    SNP_TRY(snp_db_number(db, 0, &version, err, "PRAGMA user_version", ""));
    if (version > newest) {
        (void)sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "%s was made by a newer snipara-sandbox (version %lld, this program "
                        "knows %d); update snipara-sandbox, or use another state folder "
                        "(SNIPARA_SANDBOX_STATE_DIR)",
                        db->path, (long long)version, newest);
    }
    return 0;
}

int snp_db_open(struct snp_db *db, const char *path, int newest, struct snp_err *err)
{
    int r;

    SNP_TRY(open_at(db, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err));
    /* Excludes a second process; the kernel releases the lock when the process dies. */
    r = snp_db_exec(db, "PRAGMA locking_mode = EXCLUSIVE", err);
    SNP_THEN(r, refuse_newer(db, newest, err));
    SNP_THEN(r, snp_db_exec(db, pragmas, err));
    if (r < 0) {
        bool is_corrupt = db->is_corrupt;

        snp_db_close(db);
        db->is_corrupt = is_corrupt;
        return r;
    }
    db->level = 1;
    (void)sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_wal_autocheckpoint(db->sqlite, 0);
    (void)sqlite3_wal_hook(db->sqlite, on_commit, db);
    return 0;
}

int snp_db_open_old(struct snp_db *db, const char *path, struct snp_err *err)
{
    SNP_TRY(open_at(db, path, SQLITE_OPEN_READWRITE, err));
    /* Trust neither the schema nor the index. */
    (void)sqlite3_exec(db->sqlite,
                       "PRAGMA locking_mode = EXCLUSIVE; PRAGMA cell_size_check = ON;"
                       "PRAGMA writable_schema = ON; PRAGMA trusted_schema = OFF;",
                       NULL, NULL, NULL);
    return 0;
}

void snp_db_close(struct snp_db *db)
{
    for (size_t i = 0; i < SNP_DB_CACHED; i++) {
        (void)sqlite3_finalize(db->cached[i].stmt);
    }
    if (db->sqlite != NULL) {
        (void)sqlite3_close_v2(db->sqlite);
    }
    free(db->path);
    *db = (struct snp_db){0};
}

int snp_db_set_full(struct snp_db *db, bool full, struct snp_err *err)
{
    int level = full ? 2 : 1;
    int r = 0;

    if (db->level != level) {
        r = snp_db_exec(db, full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL",
                        err);
        db->level = r == 0 ? level : 0;
    }
    return r;
}
