/* SPDX-License-Identifier: Apache-2.0 */
#include "context/index.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"
#include "context/put.h"
#include "context/words.h"

enum {
    VERSION = 5,
    BUSY_MS = 10000, /* wait for another process to commit */
    AGAIN_MS = 5,
    PATH_LEN = 4096,
    NAMED_MAX = 20000, /* paths to compare with a misspelt one */
};

static const char schema[] =
    "CREATE TABLE file(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER,"
    " mtime INTEGER, ctime INTEGER, inode INTEGER, read INTEGER, hash BLOB,"
    " language INTEGER, state INTEGER);"
    "CREATE INDEX file_mtime ON file(mtime);"
    "CREATE TABLE content(file INTEGER PRIMARY KEY, text BLOB);"
    "CREATE TABLE chunk(id INTEGER PRIMARY KEY, file INTEGER, ordinal INTEGER, kind INTEGER,"
    " parent INTEGER, first INTEGER, last INTEGER, start INTEGER, end INTEGER,"
    " name_start INTEGER, name_end INTEGER, sig_start INTEGER, sig_end INTEGER,"
    " doc_start INTEGER, doc_end INTEGER, name TEXT, qualified TEXT);"
    "CREATE INDEX chunk_file ON chunk(file, ordinal);"
    "CREATE INDEX chunk_name ON chunk(name COLLATE NOCASE);"
    "CREATE TABLE reference(name TEXT, chunk INTEGER, file INTEGER,"
    " PRIMARY KEY(name, chunk)) WITHOUT ROWID;"
    "CREATE INDEX reference_file ON reference(file);"
    "CREATE TABLE import(file INTEGER, name TEXT);"
    "CREATE INDEX import_file ON import(file);"
    "CREATE VIRTUAL TABLE fts USING fts5(name, path, head, body, content='', tokenize='code');"
    "CREATE TABLE changed(file INTEGER PRIMARY KEY, place INTEGER);"
    "CREATE TABLE history(mark TEXT, since INTEGER);"
    "CREATE TABLE vector(file INTEGER PRIMARY KEY, bytes BLOB);"
    "CREATE TABLE encoding(name TEXT, len INTEGER);"
    "CREATE TABLE known(hash BLOB PRIMARY KEY, bytes BLOB) WITHOUT ROWID;"
    "PRAGMA user_version = 5;";

/* Drop the content of an older version: the files still have it. */
static const char forget[] =
    "DROP TABLE file; DROP TABLE content; DROP TABLE chunk; DROP TABLE reference;"
    "DROP TABLE import; DROP TABLE fts; DROP TABLE IF EXISTS vector;"
    "DROP TABLE IF EXISTS encoding; DROP TABLE IF EXISTS known;"
    "DROP TABLE IF EXISTS changed; DROP TABLE IF EXISTS history;"
    "PRAGMA application_id = 0;";

static const char *const state_names[SNP_INDEX_STATES] = {
    "text", "code", "unparsed", "binary", "large", "secret", "unreadable",
};

const char *snp_index_state_name(enum snp_index_state state)
{
    return state_names[state];
}

/* Opening ------------------------------------------------------------------------------ */

/* STATE/context/HASH, the path without its suffix; the caller frees. */
static int place(const char *root, char **ret, struct snp_err *err)
{
    unsigned char hash[SHA256_DIGEST_LENGTH];
    char name[2 * sizeof(hash) + 1];
    snp_autofree char *state = NULL;
    snp_autofree char *folder = NULL;

    SNP_TRY(snp_state_dir(&state, err));
    folder = snp_format("%s/context", state);
    SNP_TRY_MEMORY(folder, err);
    SNP_TRY(snp_private_dir(folder, err));
    (void)SHA256((const unsigned char *)root, strlen(root), hash);
    snp_hex(hash, sizeof(hash), name);
    *ret = snp_format("%s/%.32s", folder, name);
    SNP_TRY_MEMORY(*ret, err);
    return 0;
}

static void files_remove(const char *base)
{
    static const char *const ends[] = {".db", ".db-wal", ".db-shm"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(ends); i++) {
        snp_autofree char *path = snp_format("%s%s", base, ends[i]);
        (void)(path != NULL && unlink(path) == 0);
    }
}

/*
 * Two processes that convert a file to WAL both hold a read lock. SQLite reports SQLITE_BUSY to one
 * of them at once, without waiting.
 */
static int wal_begin(struct snp_db *db, struct snp_err *err)
{
    int rc = SQLITE_BUSY;

    for (int ms = 0; (rc & 0xff) == SQLITE_BUSY && ms < BUSY_MS; ms += AGAIN_MS) {
        rc = sqlite3_exec(db->sqlite, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if ((rc & 0xff) == SQLITE_BUSY) {
            (void)sqlite3_sleep(AGAIN_MS);
        }
    }
    return rc == SQLITE_OK ? 0 : snp_db_fail(db, rc, err);
}

static int db_open(struct snp_index *index, const char *base, struct snp_err *err)
{
    struct snp_db *db = &index->db;
    snp_autoclose int fd = -1;
    int rc;

    db->path = snp_format("%s.db", base);
    SNP_TRY_MEMORY(db->path, err);
    fd = open(db->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return snp_fail_sys(err, errno, "open %.300s", db->path);
    }
    rc = sqlite3_open_v2(db->path, &db->sqlite,
                         SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW |
                             SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
                         NULL);
    if (rc != SQLITE_OK) {
        return snp_db_fail(db, rc, err);
    }
    (void)sqlite3_busy_timeout(db->sqlite, BUSY_MS);
    SNP_TRY(snp_words_register(db->sqlite, err));
    SNP_TRY(wal_begin(db, err));
    return snp_db_exec(db,
                       "PRAGMA synchronous = NORMAL;"
                       "PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384;"
                       "PRAGMA mmap_size = 268435456; PRAGMA trusted_schema = OFF;",
                       err);
}

static int schema_make(struct snp_index *index, struct snp_err *err)
{
    int64_t version = 0;
    int r;

    SNP_TRY(snp_db_number(&index->db, 0, &version, err, "PRAGMA user_version", ""));
    if (version == VERSION) {
        return 0;
    }
    SNP_TRY(snp_db_exec(&index->db, "BEGIN IMMEDIATE", err));
    r = snp_db_number(&index->db, 0, &version, err, "PRAGMA user_version", "");
    if (r == 0 && version != 0 && version < VERSION) {
        r = snp_db_exec(&index->db, forget, err);
        version = 0;
    }
    if (r == 0 && version != 0 && version != VERSION) {
        r = snp_fail(err, SNP_E_UNSUPPORTED,
                     "the index was made by a newer snipara-sandbox; rebuild it with `context "
                     "index --rebuild`");
    }
    r = r < 0 || version == VERSION ? r : snp_db_exec(&index->db, schema, err);
    if (r == 0) {
        return snp_db_exec(&index->db, "COMMIT", err);
    }
    (void)sqlite3_exec(index->db.sqlite, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

static int open_at(struct snp_index *index, const char *base, bool rebuild, struct snp_err *err)
{
    snp_autofree char *lock = snp_format("%s.lock", base);

    SNP_TRY_MEMORY(lock, err);
    index->lock_fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (index->lock_fd < 0) {
        return snp_fail_sys(err, errno, "open %.300s", lock);
    }
    if (rebuild) {
        if (flock(index->lock_fd, LOCK_EX) < 0) {
            return snp_fail_sys(err, errno, "lock %.300s", lock);
        }
        files_remove(base);
    }
    SNP_TRY(db_open(index, base, err));
    SNP_TRY(schema_make(index, err));
    if (rebuild) {
        (void)flock(index->lock_fd, LOCK_UN);
    }
    return 0;
}

int snp_index_open(const char *dir, bool rebuild, struct snp_index *ret, struct snp_err *err)
{
    snp_autofree char *base = NULL;
    int r;

    *ret = (struct snp_index)SNP_INDEX_NONE;
    ret->root = realpath(dir, NULL);
    ret->root_fd =
        ret->root == NULL ? -1 : open(ret->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (ret->root_fd < 0) {
        int eno = errno;

        snp_index_close(ret);
        return eno == ENOENT ? snp_fail(err, SNP_E_NOT_FOUND, "no folder %.300s", dir)
                             : snp_fail_sys(err, eno, "open %.300s", dir);
    }
    r = place(ret->root, &base, err);
    SNP_THEN(r, open_at(ret, base, rebuild, err));
    if (r < 0) {
        snp_index_close(ret);
    }
    return r;
}

void snp_index_close(struct snp_index *index)
{
    snp_db_close(&index->db);
    free(index->root);
    snp_closep(&index->root_fd);
    snp_closep(&index->lock_fd);
    *index = (struct snp_index)SNP_INDEX_NONE;
}

/* Reading ------------------------------------------------------------------------------ */

int snp_index_text(
    struct snp_index *index, int64_t file, char **ret, size_t *ret_n, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    const void *bytes;
    int r =
        snp_db_row(&index->db, &rows, err, "SELECT text FROM content WHERE file = ?", "i", file);

    SNP_TRY(r);
    if (r == 0) {
        return snp_fail(err, SNP_E_NOT_FOUND,
                        "the index has only the name of this file: it is binary, larger than %d "
                        "KiB, contains a private key, or cannot be read",
                        SNP_INDEX_FILE_MAX >> 10);
    }
    bytes = snp_col_bytes(&rows, 0, ret_n);
    *ret = malloc(*ret_n + 1);
    SNP_TRY_MEMORY(*ret, err);
    memcpy(*ret, *ret_n == 0 ? "" : bytes, *ret_n);
    (*ret)[*ret_n] = '\0';
    return 0;
}

static struct snp_chunk chunk_row(const struct snp_rows *rows)
{
    uint32_t v[13];

    for (int i = 0; i < 13; i++) {
        v[i] = (uint32_t)snp_col_u64(rows, i);
    }
    return (struct snp_chunk){
        .kind = v[0] < SNP_CHUNK_KINDS ? (enum snp_chunk_kind)v[0] : SNP_CHUNK_FILE,
        .parent = v[1],
        .lines = {v[2], v[3]},
        .all = {v[4], v[5]},
        .name = {v[6], v[7]},
        .signature = {v[8], v[9]},
        .doc = {v[10], v[11]},
    };
}

int snp_index_chunks(struct snp_index *index,
                     int64_t file,
                     struct snp_chunks *ret,
                     struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int64_t n = 0;
    int r;

    *ret = (struct snp_chunks){0};
    SNP_TRY(snp_db_number(&index->db, 0, &n, err, "SELECT count(*) FROM chunk WHERE file = ?", "i",
                          file));
    ret->items = calloc((size_t)n + 1, sizeof(*ret->items));
    SNP_TRY_MEMORY(ret->items, err);
    r = snp_db_ask(&index->db, &rows, err,
                   "SELECT kind, parent, first, last, start, end, name_start, name_end,"
                   " sig_start, sig_end, doc_start, doc_end, ordinal FROM chunk"
                   " WHERE file = ? ORDER BY ordinal",
                   "i", file);
    while (r == 0 && ret->n < (size_t)n && (r = snp_db_step(&rows, err)) > 0) {
        ret->items[ret->n++] = chunk_row(&rows);
        r = 0;
    }
    if (r < 0) {
        snp_chunks_done(ret);
    }
    return r < 0 ? r : 0;
}

static int fail_no_file(struct snp_index *index, const char *path, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    snp_autofree char *nearest = NULL;
    unsigned best = UINT32_MAX;
    struct snp_err ignored;
    int r = snp_db_ask(&index->db, &rows, &ignored, "SELECT path FROM file LIMIT ?", "i",
                       (int64_t)NAMED_MAX);

    while (r == 0 && snp_db_step(&rows, &ignored) > 0) {
        const char *other = snp_col_text(&rows, 0);
        const char *slash = other == NULL ? NULL : strrchr(other, '/');
        unsigned distance;

        if (other == NULL) {
            continue;
        }
        distance = slash != NULL && snp_streq(slash + 1, path) ? 0 : snp_edit_distance(path, other);
        if (distance < best && distance <= strlen(path) / 3) {
            free(nearest);
            nearest = strdup(other);
            best = distance;
        }
    }
    return snp_fail_near(err, SNP_E_NOT_FOUND, nearest, "no file '%.300s' in the index of %.200s",
                         path, index->root);
}

int snp_index_file(struct snp_index *index, const char *path, int64_t *ret, struct snp_err *err)
{
    path += snp_has_prefix(path, "./") ? 2 : 0;
    SNP_TRY(
        snp_db_number(&index->db, 0, ret, err, "SELECT id FROM file WHERE path = ?", "t", path));
    return *ret != 0 ? 0 : fail_no_file(index, path, err);
}
