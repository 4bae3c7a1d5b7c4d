/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snp_index_refresh compares the files with the index. A file with the same size, times and inode
 * is not read, unless its change was so shortly before its last reading that a later change may not
 * show in the times. While one file is parsed, the previous one is written.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/file.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "context/history/history.h"
#include "context/index.h"
#include "context/parse.h"
#include "context/put.h"

enum {
    BATCH_FILES = 250, /* in one transaction */
    BATCH_BYTES = 16 << 20,
    WALKED_SHOWN = 64, /* files between two reports of progress */
};

/* A file system's times may be this coarse. */
#define RACY_NS INT64_C(2000000000)
#define NS      INT64_C(1000000000)

/* The index's data of a file. */
struct indexed_file {
    char *path; /* owned */
    struct snp_put put;
    bool is_seen;
};

/* A file that was read and is being parsed. */
struct pending {
    struct snp_put put;
    char *path; /* owned; NULL = there is none */
    char *text; /* owned */
    size_t n;
    bool is_asked;
};

struct refresh {
    struct snp_index *index;
    struct snp_index_report *report;
    snp_index_progress_fn progress;
    void *arg;
    struct indexed_file *known;
    size_t n_known;
    struct snp_parse parse;
    struct pending pending;
    unsigned batch_files;
    size_t batch_bytes;
};

/* Existing files -------------------------------------------------------------------------- */

static int known_read(struct refresh *f, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int64_t n = 0;
    int r;

    SNP_TRY(snp_db_number(&f->index->db, 0, &n, err, "SELECT count(*) FROM file", ""));
    f->known = calloc((size_t)n + 1, sizeof(*f->known));
    SNP_TRY_MEMORY(f->known, err);
    r = snp_db_ask(&f->index->db, &rows, err,
                   "SELECT path, id, size, mtime, ctime, inode, read, language, state, hash"
                   " FROM file ORDER BY path",
                   "");
    while (r == 0 && f->n_known < (size_t)n && (r = snp_db_step(&rows, err)) > 0) {
        struct indexed_file *known = &f->known[f->n_known];
        const char *path = snp_col_text(&rows, 0);
        size_t len;
        const void *hash = snp_col_bytes(&rows, 9, &len);

        r = 0;
        known->path = strdup(path == NULL ? "" : path);
        SNP_TRY_MEMORY(known->path, err);
        f->n_known++;
        known->put = (struct snp_put){
            .path = known->path,
            .id = (int64_t)snp_col_u64(&rows, 1),
            .size = (int64_t)snp_col_u64(&rows, 2),
            .mtime_ns = (int64_t)snp_col_u64(&rows, 3),
            .ctime_ns = (int64_t)snp_col_u64(&rows, 4),
            .inode = (int64_t)snp_col_u64(&rows, 5),
            .read_ns = (int64_t)snp_col_u64(&rows, 6),
            .language = (enum snp_language)snp_col_u64(&rows, 7),
            .state = (enum snp_index_state)snp_col_u64(&rows, 8),
        };
        if (hash != NULL && len == sizeof(known->put.hash)) {
            memcpy(known->put.hash, hash, len);
        }
    }
    return r < 0 ? r : 0;
}

static int by_path(const void *key, const void *item)
{
    return strcmp(key, ((const struct indexed_file *)item)->path);
}

/* Indexed as plain text by a build without the parser, which is now present. */
static bool is_outdated(const struct refresh *f, const struct snp_put *known)
{
    return known->state == SNP_INDEX_TEXT && known->language != SNP_LANGUAGE_NONE &&
           !f->parse.is_missing;
}

static bool is_unchanged(const struct snp_put *known, const struct snp_put *now)
{
    return known->size == now->size && known->mtime_ns == now->mtime_ns &&
           known->ctime_ns == now->ctime_ns && known->inode == now->inode &&
           known->ctime_ns + RACY_NS < known->read_ns;
}

/* Writing -------------------------------------------------------------------------------- */

static int batch_end(struct refresh *f, struct snp_err *err)
{
    if (f->batch_files == 0) {
        return 0;
    }
    f->batch_files = 0;
    f->batch_bytes = 0;
    return snp_db_exec(&f->index->db, "COMMIT", err);
}

static int batch_begin(struct refresh *f, size_t bytes, struct snp_err *err)
{
    if (f->batch_files >= BATCH_FILES || f->batch_bytes >= BATCH_BYTES) {
        SNP_TRY(batch_end(f, err));
    }
    f->batch_bytes += bytes;
    return f->batch_files++ > 0 ? 0 : snp_db_exec(&f->index->db, "BEGIN IMMEDIATE", err);
}

static void pending_done(struct pending *pending)
{
    free(pending->path);
    free(pending->text);
    *pending = (struct pending){0};
}

/* Take the parser's answer, send it the next file, then write this one. */
static int pending_write(struct refresh *f, struct pending *next, struct snp_err *err)
{
    snp_cleanup(pending_done) struct pending now = f->pending;
    snp_cleanup(snp_chunks_done) struct snp_chunks chunks = {0};
    const struct snp_parse_item *items = NULL;
    size_t n_items = 0;
    bool has_items = now.path != NULL && now.is_asked &&
                     snp_parse_items(&f->parse, now.put.language, now.n, &items, &n_items);

    f->pending = (struct pending){0};
    if (now.path != NULL) {
        now.put.state = has_items                                           ? SNP_INDEX_CODE
                        : now.is_asked || f->parse.failed[now.put.language] ? SNP_INDEX_UNPARSED
                                                                            : SNP_INDEX_TEXT;
        /* The items are valid until the next request, so they become chunks first. */
        if (snp_chunks_make(now.text, now.n, has_items ? items : NULL, n_items, &chunks) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    if (next != NULL) {
        next->is_asked = snp_parse_ask(&f->parse, next->put.language, next->text, next->n);
        f->pending = *next;
        *next = (struct pending){0};
    }
    if (now.path == NULL) {
        return 0;
    }
    SNP_TRY(batch_begin(f, now.n, err));
    return snp_put(f->index, &now.put, now.text, now.n, &chunks, err);
}

/* Reading -------------------------------------------------------------------------------- */

/* The record of a run contains each query made here and would be the best answer to it. */
static bool is_record(const char *text, size_t n)
{
    static const char head[] = "{\"_type\":\"trajectory_metadata\"";

    return n >= sizeof(head) - 1 && memcmp(text, head, sizeof(head) - 1) == 0;
}

static bool is_key(const char *text, size_t n)
{
    static const char mark[] = "PRIVATE KEY-----";
    static const char begin[] = "-----BEGIN ";
    const char *at = memmem(text, n, mark, sizeof(mark) - 1);

    /* as in a key, at the beginning of a line, not as in a program that looks for keys */
    while (at != NULL) {
        const char *line = memrchr(text, '\n', (size_t)(at - text));

        line = line == NULL ? text : line + 1;
        if ((size_t)(at - line) >= sizeof(begin) - 1 &&
            memcmp(line, begin, sizeof(begin) - 1) == 0) {
            return true;
        }
        at = memmem(at + 1, n - (size_t)(at + 1 - text), mark, sizeof(mark) - 1);
    }
    return false;
}

/* Set state, hash and, if the index may have it, the text. */
static void file_read(int dir_fd, const char *name, struct pending *p)
{
    snp_autoclose int fd =
        openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    struct snp_err ignored;
    char *clean;

    p->put.state = SNP_INDEX_UNREADABLE;
    if (p->put.size > SNP_INDEX_FILE_MAX) {
        p->put.state = SNP_INDEX_LARGE;
        return;
    }
    if (fd < 0 || snp_file_read_fd(fd, name, SNP_INDEX_FILE_MAX, &p->text, &p->n, &ignored) < 0) {
        return;
    }
    (void)SHA256((const unsigned char *)p->text, p->n, p->put.hash);
    p->put.state = memchr(p->text, '\0', p->n) != NULL ? SNP_INDEX_BINARY
                   : is_key(p->text, p->n)             ? SNP_INDEX_SECRET
                   : is_record(p->text, p->n)          ? SNP_INDEX_BINARY
                                                       : SNP_INDEX_TEXT;
    if (p->put.state == SNP_INDEX_TEXT && !snp_utf8_valid(p->text, p->n)) {
        clean = snp_utf8_clean(p->text, p->n, &p->n);
        free(p->text);
        p->text = clean;
        p->put.state = clean == NULL ? SNP_INDEX_UNREADABLE : SNP_INDEX_TEXT;
    }
}

/* Index a file without its text. */
static int nameless(struct refresh *f, const struct pending *p, struct snp_err *err)
{
    SNP_TRY(batch_begin(f, 0, err));
    SNP_TRY(p->put.id == 0 ? 0 : snp_put_clear(f->index, p->put.id, p->path, err));
    return snp_put_file(f->index, &p->put, NULL, err);
}

static int changed(struct refresh *f,
                   const struct indexed_file *known,
                   struct pending *p,
                   struct snp_err *err)
{
    bool has_text = known != NULL && known->put.state < SNP_INDEX_BINARY;
    bool is_same = known != NULL && !is_outdated(f, &known->put) &&
                   (has_text ? p->put.state == SNP_INDEX_TEXT : p->put.state == known->put.state) &&
                   known->put.language == p->put.language &&
                   memcmp(known->put.hash, p->put.hash, sizeof(p->put.hash)) == 0;

    if (is_same) {
        /* only its times have changed */
        p->put.state = known->put.state;
        SNP_TRY(batch_begin(f, 0, err));
        return snp_put_file(f->index, &p->put, NULL, err);
    }
    f->report->changed++;
    f->report->bytes += p->n;
    p->put.path = p->path;
    return p->put.state != SNP_INDEX_TEXT ? nameless(f, p, err) : pending_write(f, p, err);
}

static int64_t nanoseconds(struct timespec t)
{
    return (int64_t)t.tv_sec * NS + t.tv_nsec;
}

static int on_file(void *arg,
                   const char *path,
                   int dir_fd,
                   const char *name,
                   const struct stat *st,
                   struct snp_err *err)
{
    struct refresh *f = arg;
    struct indexed_file *known = bsearch(path, f->known, f->n_known, sizeof(*f->known), by_path);
    snp_cleanup(pending_done) struct pending p = {.put = {.path = path,
                                                          .id = known == NULL ? 0 : known->put.id,
                                                          .size = st->st_size,
                                                          .mtime_ns = nanoseconds(st->st_mtim),
                                                          .ctime_ns = nanoseconds(st->st_ctim),
                                                          .inode = (int64_t)st->st_ino,
                                                          .read_ns = (int64_t)snp_wall_us() * 1000,
                                                          .language = snp_language_of(path)}};

    if (++f->report->files % WALKED_SHOWN == 0 && f->progress != NULL) {
        f->progress(f->arg, f->report->files);
    }
    if (known != NULL) {
        known->is_seen = true;
        if (is_unchanged(&known->put, &p.put) && !is_outdated(f, &known->put)) {
            return 0;
        }
    }
    p.path = strdup(path);
    SNP_TRY_MEMORY(p.path, err);
    file_read(dir_fd, name, &p);
    return changed(f, known, &p, err);
}

static int gone(struct refresh *f, struct snp_err *err)
{
    int r = 0;

    for (size_t i = 0; i < f->n_known && r == 0; i++) {
        if (!f->known[i].is_seen) {
            r = batch_begin(f, 0, err);
            SNP_THEN(r, snp_put_remove(f->index, f->known[i].put.id, f->known[i].path, err));
            f->report->removed++;
        }
    }
    return r;
}

static void refresh_done(struct refresh *f)
{
    for (size_t i = 0; i < f->n_known; i++) {
        free(f->known[i].path);
    }
    free(f->known);
    pending_done(&f->pending);
    snp_parse_done(&f->parse);
    if (sqlite3_get_autocommit(f->index->db.sqlite) == 0) {
        (void)sqlite3_exec(f->index->db.sqlite, "ROLLBACK", NULL, NULL, NULL);
    }
    (void)flock(f->index->lock_fd, LOCK_UN);
}

/*
 * Whether a refresh has ever finished: until then the index lacks files. A header field of SQLite
 * stores this.
 */
static int is_finished(struct snp_index *index, bool *ret, struct snp_err *err)
{
    int64_t n = 0;

    SNP_TRY(snp_db_number(&index->db, 0, &n, err,
                          "SELECT application_id FROM pragma_application_id", ""));
    *ret = n != 0;
    return 0;
}

int snp_index_refresh(struct snp_index *index,
                      bool waits,
                      snp_index_progress_fn progress,
                      void *arg,
                      struct snp_index_report *ret_report,
                      struct snp_err *err)
{
    snp_cleanup(refresh_done) struct refresh f = {.index = index,
                                                  .report = ret_report,
                                                  .progress = progress,
                                                  .arg = arg,
                                                  .parse = SNP_PARSE_NEW};
    bool had_end = false;

    *ret_report = (struct snp_index_report){0};
    SNP_TRY(is_finished(index, &had_end, err));
    /* An index that is being built for the first time finds nothing yet, so every caller waits. */
    if (SNP_RETRY(flock(index->lock_fd, waits || !had_end ? LOCK_EX : LOCK_EX | LOCK_NB)) < 0) {
        ret_report->is_busy = errno == EWOULDBLOCK;
        return ret_report->is_busy ? 0 : snp_fail_sys(err, errno, "lock the index");
    }
    snp_parse_find(&f.parse);
    SNP_TRY(known_read(&f, err));
    SNP_TRY(snp_walk(index->root_fd, on_file, &f, &ret_report->left, err));
    SNP_TRY(pending_write(&f, NULL, err));
    SNP_TRY(gone(&f, err));
    SNP_TRY(batch_end(&f, err));
    SNP_TRY(snp_history_refresh(index, err));
    if (!had_end) {
        SNP_TRY(snp_db_exec(&index->db, "PRAGMA application_id = 1", err));
    }
    ret_report->is_plain = f.parse.is_missing;
    return 0;
}
