/* SPDX-License-Identifier: Apache-2.0 */
/* Reading trajectories. */
#include "trajectory/reader.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "trajectory/writer.h"

enum {
    CHUNK = 64 << 10,
    HASH_ROOM = 256, /* of mac and hash */
    ID_MAX = 64,
    SHOWN = 5, /* ids named when several begin alike */
    FILES_MAX = 100000,
};

static const char suffix[] = ".jsonl";

/* Records ----------------------------------------------------------------------------------- */

bool snp_trajectory_is_head(const json_t *record)
{
    return snp_streq(snp_json_str(record, "_type", NULL), "trajectory_metadata");
}

bool snp_trajectory_is_event(const json_t *record)
{
    return json_object_get(record, "_type") == NULL &&
           json_is_string(json_object_get(record, "call_id"));
}

const char *snp_trajectory_step(const json_t *record)
{
    return snp_streq(snp_json_str(record, "_type", NULL), "step") ? snp_json_str(record, "step", "")
                                                                  : "";
}

/* Lines ------------------------------------------------------------------------------------- */

struct line_reader {
    int (*line)(void *ctx, json_t *record, struct snp_err *err);
    void *ctx;
    const unsigned char *key; /* NULL: the writer is not checked */
    struct snp_trajectory_check *check;
    size_t number;    /* of the line, from 1 */
    bool is_skipping; /* the rest of a line that is too long */
};

static void bad(struct line_reader *reading, size_t *count, const char *why)
{
    struct snp_trajectory_check *check = reading->check;

    (*count)++;
    if (check->first_bad == 0) {
        check->first_bad = reading->number;
        check->why = why;
    }
    if (check->n_corrupt > 0 && check->first_corrupt == 0) {
        check->first_corrupt = reading->number;
        check->why_corrupt = why;
    }
}

char *snp_trajectory_passed_over(const char *path, const struct snp_trajectory_check *check)
{
    return check->n_corrupt == 0
               ? NULL
               : snp_format("%s: skipped %zu %s, first line %zu: %s", path, check->n_corrupt,
                            check->n_corrupt == 1 ? "line" : "lines", check->first_corrupt,
                            check->why_corrupt);
}

static void chain_follow(struct line_reader *reading, const char *text, size_t n)
{
    struct snp_trajectory_check *check = reading->check;
    enum snp_chain_link link;

    if (reading->key != NULL && !snp_chain_is_ours(&check->chain, reading->key, text, n)) {
        check->n_foreign++;
    }
    link = snp_chain_check(&check->chain, text, n);

    if (link == SNP_CHAIN_OK) {
        check->is_chained = true;
    } else if (link == SNP_CHAIN_BROKEN) {
        check->is_chained = true;
        bad(reading, &check->n_broken,
            "the hash does not follow from the line before: lines were changed, moved or "
            "removed");
    } else if (check->is_chained) {
        bad(reading, &check->n_broken, "the line has no hash, but lines before it have one");
    }
}

static int line_take(struct line_reader *reading, const char *text, size_t n, struct snp_err *err)
{
    struct snp_trajectory_check *check = reading->check;
    snp_autojson json_t *record = NULL;
    struct snp_err ignored;

    reading->number++;
    if (strspn(text, " \t\r") >= n) {
        return 0;
    }
    if (snp_json_parse(text, n, &record, &ignored) < 0) {
        bad(reading, &check->n_corrupt, "not a JSON object");
        return 0;
    }
    chain_follow(reading, text, n);
    check->n_lines++;
    check->is_ended = snp_trajectory_is_head(record) && json_object_get(record, "end") != NULL;
    check->last_seq = snp_json_int(record, "seq", check->last_seq);
    return reading->line == NULL ? 0 : reading->line(reading->ctx, record, err);
}

/* Whole lines at the front of buf. */
static int lines_take(struct line_reader *reading, struct snp_buf *buf, struct snp_err *err)
{
    int r = 0;

    while (r == 0 && buf->len > 0) {
        char *text = snp_buf_bytes(buf);
        char *end = memchr(text, '\n', buf->len);
        size_t n = end == NULL ? 0 : (size_t)(end - text);

        if (end == NULL) {
            break;
        }
        *end = '\0';
        if (reading->is_skipping) {
            reading->is_skipping = false;
            reading->number++;
            bad(reading, &reading->check->n_corrupt, "it is too long");
        } else {
            r = line_take(reading, text, n, err);
        }
        reading->check->whole += n + 1;
        snp_buf_consume(buf, n + 1);
    }
    if (r == 0 && buf->len > SNP_TRAJECTORY_LINE_MAX + HASH_ROOM) {
        reading->check->whole += buf->len;
        snp_buf_clear(buf);
        reading->is_skipping = true;
    }
    return r;
}

static int file_read(struct line_reader *reading, int fd, const char *path, struct snp_err *err)
{
    snp_autobuf struct snp_buf buf = SNP_BUF(SNP_TRAJECTORY_LINE_MAX + HASH_ROOM + CHUNK + 1);
    int r = 0;

    while (r == 0) {
        char *space = NULL;
        ssize_t n;

        if (snp_buf_reserve(&buf, CHUNK, &space) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        n = SNP_RETRY(read(fd, space, CHUNK));
        if (n < 0) {
            return snp_fail_sys(err, errno, "read %s", path);
        }
        if (n == 0) {
            break;
        }
        snp_buf_commit(&buf, (size_t)n);
        r = lines_take(reading, &buf, err);
    }
    reading->check->torn = buf.len;
    return r;
}

/* Read it from its beginning. */
static int path_read(struct line_reader *reading, const char *path, struct snp_err *err)
{
    /* Do not wait for the other end of a FIFO. */
    snp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    *reading->check = (struct snp_trajectory_check){.why = "", .why_corrupt = ""};
    snp_chain_init(&reading->check->chain);
    if (fd < 0 && errno == ENOENT) {
        return snp_fail(err, SNP_E_NOT_FOUND, "no such file: %s", path);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return snp_fail_sys(err, errno, "open %s", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return snp_fail(err, SNP_E_INVALID, "%s is not a file", path);
    }
    return file_read(reading, fd, path, err);
}

int snp_trajectory_read(const char *path,
                        int (*line)(void *ctx, json_t *record, struct snp_err *err),
                        void *ctx,
                        struct snp_trajectory_check *ret_check,
                        struct snp_err *err)
{
    struct line_reader reading = {.line = line, .ctx = ctx, .check = ret_check};

    return path_read(&reading, path, err);
}

int snp_trajectory_own(const char *path,
                       const unsigned char key[SNP_CHAIN_KEY],
                       struct snp_trajectory_check *ret_check,
                       struct snp_err *err)
{
    struct line_reader reading = {.key = key, .check = ret_check};
    int r = path_read(&reading, path, err);

    if (r < 0) {
        return r;
    }
    if (ret_check->n_corrupt > 0 || ret_check->n_broken > 0 || !ret_check->is_chained) {
        return snp_fail(err, SNP_E_INVALID,
                        "%.200s is not intact (line %zu: %s), so it can be read but not resumed",
                        path, ret_check->first_bad,
                        ret_check->first_bad == 0 ? "not a line of a snipara-sandbox record"
                                                  : ret_check->why);
    }
    if (ret_check->n_foreign > 0) {
        return snp_fail(err, SNP_E_DENIED,
                        "the record was not made by this user on this machine, so its project, "
                        "session, model and limits are not trusted; start a new run with "
                        "snipara-sandbox agent or run (%.200s)",
                        path);
    }
    return 0;
}

/* In brief ---------------------------------------------------------------------------------- */

const char *snp_trajectory_state_name(enum snp_trajectory_state state)
{
    static const char *const names[] = {"done", "stopped", "running", "interrupted", "damaged"};

    return names[state];
}

void snp_trajectory_info_done(struct snp_trajectory_info *info)
{
    free(info->path);
    free(info->id);
    json_decref(info->head);
    json_decref(info->end);
    *info = (struct snp_trajectory_info){0};
}

/*
 * Add a number of a record that may be forged: negative ones are ignored, and the sum is clamped.
 */
static void sum_add(int64_t *sum, const json_t *record, const char *member)
{
    int64_t more = snp_json_int(record, member, 0);

    if (more > 0 && __builtin_add_overflow(*sum, more, sum)) {
        *sum = INT64_MAX;
    }
}

static int on_brief(void *ctx, json_t *record, struct snp_err *err)
{
    struct snp_trajectory_info *info = ctx;

    (void)err;
    if (snp_trajectory_is_event(record)) {
        info->calls++;
        sum_add(&info->tokens, record, "input_tokens");
        sum_add(&info->tokens, record, "output_tokens");
        sum_add(&info->duration_ms, record, "duration_ms");
        json_decref(info->end);
        info->end = NULL;
    } else if (snp_trajectory_is_head(record) && json_object_get(record, "end") != NULL) {
        json_decref(info->end);
        info->end = json_incref(record);
    } else if (snp_trajectory_is_head(record)) {
        json_decref(info->head);
        info->head = json_incref(record);
    } else if (snp_trajectory_step(record)[0] != '\0') {
        json_decref(info->end);
        info->end = NULL;
        if (snp_streq(snp_trajectory_step(record), "resume")) {
            (void)json_object_set(info->head, "process", json_object_get(record, "process"));
        }
    }
    return 0;
}

static char *id_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    size_t n = strlen(name);

    return strndup(name, snp_has_suffix(name, suffix) ? n - strlen(suffix) : n);
}

/* The predecessor product has the sums in its head, the first record. */
static void sums_take(struct snp_trajectory_info *info)
{
    const json_t *sums = info->end != NULL ? info->end : info->head;

    if (info->end == NULL && info->check.is_chained) {
        return;
    }
    info->calls = snp_json_int(sums, "event_count", info->calls);
    info->tokens = snp_json_int(sums, "total_tokens", info->tokens);
    info->duration_ms = snp_json_int(sums, "total_duration_ms", info->duration_ms);
}

static enum snp_trajectory_state state_of(const struct snp_trajectory_info *info)
{
    if (snp_trajectory_is_written(info->path)) {
        return SNP_TRAJECTORY_RUNNING;
    }
    if (info->end != NULL) {
        return snp_json_bool(json_object_get(info->end, "end"), "success", false)
                   ? SNP_TRAJECTORY_DONE
                   : SNP_TRAJECTORY_FAILED;
    }
    if (!info->check.is_chained && info->calls == 0 && json_object_size(info->head) == 0) {
        return SNP_TRAJECTORY_DAMAGED;
    }
    return info->check.is_chained ? SNP_TRAJECTORY_INTERRUPTED : SNP_TRAJECTORY_DONE;
}

int snp_trajectory_info_read(const char *path, struct snp_trajectory_info *ret, struct snp_err *err)
{
    int r;

    *ret = (struct snp_trajectory_info){
        .path = strdup(path), .id = id_of(path), .head = json_object()};
    r = ret->path == NULL || ret->id == NULL || ret->head == NULL
            ? snp_fail(err, SNP_E_NOMEM, "out of memory")
            : snp_trajectory_read(path, on_brief, ret, &ret->check, err);
    if (r < 0) {
        snp_trajectory_info_done(ret);
        return r;
    }
    sums_take(ret);
    ret->state = state_of(ret);
    return 0;
}

/* Folders ----------------------------------------------------------------------------------- */

struct folder_entry {
    char *name;
    struct timespec changed;
};

static int entry_compare(const void *a, const void *b)
{
    const struct folder_entry *x = a;
    const struct folder_entry *y = b;

    if (x->changed.tv_sec != y->changed.tv_sec) {
        return x->changed.tv_sec < y->changed.tv_sec ? 1 : -1;
    }
    if (x->changed.tv_nsec != y->changed.tv_nsec) {
        return x->changed.tv_nsec < y->changed.tv_nsec ? 1 : -1;
    }
    return strcmp(x->name, y->name);
}

struct folder {
    struct folder_entry *entries; /* owned */
    size_t n;
    size_t cap;
};

static void folder_done(struct folder *folder)
{
    for (size_t i = 0; i < folder->n; i++) {
        free(folder->entries[i].name);
    }
    free(folder->entries);
}

static int entry_add(struct folder *folder, const char *name, const struct stat *st)
{
    if (folder->n == folder->cap) {
        size_t cap = folder->cap == 0 ? 64 : folder->cap * 2;
        struct folder_entry *grown = reallocarray(folder->entries, cap, sizeof(*grown));

        if (grown == NULL) {
            return -1;
        }
        folder->entries = grown;
        folder->cap = cap;
    }
    folder->entries[folder->n] =
        (struct folder_entry){.name = strdup(name), .changed = st->st_mtim};
    folder->n += folder->entries[folder->n].name == NULL ? 0 : 1;
    return 0;
}

static int folder_read(const char *path, struct folder *ret, struct snp_err *err)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    struct stat st;
    int r = 0;

    if (dir == NULL) {
        return errno == ENOENT ? 0 : snp_fail_sys(err, errno, "open %s", path);
    }
    while (r == 0 && ret->n < FILES_MAX &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        if (entry->d_name[0] == '.' || !snp_has_suffix(entry->d_name, suffix) ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode)) {
            continue;
        }
        r = entry_add(ret, entry->d_name, &st);
    }
    (void)closedir(dir);
    if (r < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (ret->n > 1) {
        qsort(ret->entries, ret->n, sizeof(*ret->entries), entry_compare);
    }
    return 0;
}

int snp_trajectory_list(const char *dir, size_t max, json_t **ret, struct snp_err *err)
{
    snp_cleanup(folder_done) struct folder folder = {0};
    snp_autojson json_t *paths = json_array();
    int r = folder_read(dir, &folder, err);

    for (size_t i = 0; r == 0 && i < folder.n && i < max; i++) {
        snp_autofree char *path = snp_format("%s/%s", dir, folder.entries[i].name);

        if (path == NULL || json_array_append_new(paths, snp_json_bytes(path, strlen(path))) < 0) {
            r = snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    if (r == 0) {
        *ret = SNP_TAKE_PTR(paths);
    }
    return r;
}

static bool is_id(const char *text)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)text[i]) && text[i] != '-' && text[i] != '_') {
            return false;
        }
    }
    return n > 0 && n <= ID_MAX;
}

int snp_trajectory_find(const char *dir, const char *id, char **ret_path, struct snp_err *err)
{
    snp_cleanup(folder_done) struct folder folder = {0};
    snp_autobuf struct snp_buf several = SNP_BUF((size_t)SHOWN * 300);
    const char *found = NULL;
    size_t n = 0;
    int r = is_id(id) ? folder_read(dir, &folder, err)
                      : snp_fail(err, SNP_E_NOT_FOUND, "no run %.80s", id);

    for (size_t i = 0; r == 0 && i < folder.n; i++) {
        const char *name = folder.entries[i].name;
        bool is_whole = snp_has_prefix(name, id) && snp_streq(name + strlen(id), suffix);

        if (is_whole || snp_has_prefix(name, id)) {
            found = name;
            n = is_whole ? 1 : n + 1;
        }
        if (is_whole) {
            break;
        }
        if (found != NULL && found == name && n <= SHOWN) {
            (void)!snp_buf_addf(&several, "%s%.*s", n == 1 ? "" : ", ",
                                (int)(strlen(name) - strlen(suffix)), name);
        }
    }
    if (r < 0) {
        return r;
    }
    if (found == NULL) {
        return snp_fail(err, SNP_E_NOT_FOUND, "no run %s in %s", id, dir);
    }
    if (n > 1) {
        return snp_fail(err, SNP_E_INVALID, "%zu runs begin with %s: %s%s", n, id,
                        snp_buf_cstr(&several), n > SHOWN ? ", ..." : "");
    }
    *ret_path = snp_format("%s/%s", dir, found);
    return *ret_path == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}
