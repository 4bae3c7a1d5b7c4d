/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only the layer that takes the writes is walked, so the cost grows with the written files, not
 * with the project. A file is changed if its size, inode, times or kind differ. In an overlay's
 * layer a whiteout is a deletion, and a new file may replace one of the project (copied up, or
 * renamed): the supervisor, which sees the project, decides. Walks are bounded in depth and number;
 * anything beyond is reported as truncated. A hash of new contents is for comparison with a replay:
 * changed files were just written, so reading a bounded part of them costs little.
 */
#include "guest/pid1/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/fd.h"
#include "guest/dir.h"
#include "guest/pid1/files.h"
#include "guest/pid1/wire.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    DEPTH_MAX = 32,
    PATH_LEN = 4096,
    HASHED_BYTES_MAX = 4 << 20, /* in one report */
    HASHED_FILES_MAX = 256,
    CHUNK = 32 << 10
};

struct changed_file {
    char *path; /* owned */
    uint64_t size;
    uint64_t ino;
    uint64_t mtime_ns;
    uint64_t ctime_ns;
    uint64_t bytes; /* on disk */
    bool is_regular;
    bool is_whiteout;
};

struct change_list {
    struct changed_file *file; /* owned, sorted by path after the walk */
    size_t n;
    size_t cap;
    size_t n_seen; /* entries of every kind */
    bool is_truncated;
};

struct snp_layer_changes {
    int upper_fd;
    bool is_layer; /* of an overlay; elsewhere code could make devices like whiteouts */
    bool is_whole; /* see snp_changes_new */
    struct change_list last;
};

static void listing_done(struct change_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->file[i].path);
    }
    free(l->file);
    *l = (struct change_list){0};
}

static uint64_t nanoseconds(const struct timespec *ts)
{
    return (uint64_t)ts->tv_sec * 1000000000U + (uint64_t)ts->tv_nsec;
}

/* The compared properties of a file; path is the record's copy. */
static struct changed_file describe(const struct stat *st, char *path)
{
    return (struct changed_file){
        .path = path,
        .size = (uint64_t)st->st_size,
        .ino = st->st_ino,
        .mtime_ns = nanoseconds(&st->st_mtim),
        .ctime_ns = nanoseconds(&st->st_ctim),
        .bytes = (uint64_t)st->st_blocks * 512,
        .is_regular = S_ISREG(st->st_mode),
        .is_whiteout = S_ISCHR(st->st_mode) && st->st_rdev == 0,
    };
}

static int listing_add(struct change_list *l, const char *path, const struct stat *st)
{
    char *copy;

    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? 64 : l->cap * 2;
        struct changed_file *grown = realloc(l->file, cap * sizeof(*grown));
        if (grown == NULL) {
            return -1;
        }
        l->file = grown;
        l->cap = cap;
    }
    copy = strdup(path);
    if (copy == NULL) {
        return -1;
    }
    l->file[l->n++] = describe(st, copy);
    return 0;
}

/* Add everything below the folder fd (consumed); path holds its name, len bytes. */
static void walk(struct change_list *l, int fd, char *path, size_t len, unsigned depth)
{
    snp_autodir DIR *dir = snp_dir_of(fd);
    const char *name;
    struct stat st;

    if (dir == NULL || depth > DEPTH_MAX) {
        l->is_truncated = true;
        return;
    }
    while ((name = snp_dir_next(dir)) != NULL) {
        size_t name_len = strlen(name);

        if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        if (l->n_seen++ >= SNP_INIT_ENTRIES_MAX || len + name_len + 2 > PATH_LEN) {
            l->is_truncated = true;
            break;
        }
        memcpy(path + len, name, name_len + 1);
        if (S_ISDIR(st.st_mode)) {
            path[len + name_len] = '/';
            walk(l, openat(dirfd(dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), path,
                 len + name_len + 1, depth + 1);
        } else if (listing_add(l, path, &st) < 0) {
            l->is_truncated = true;
        }
    }
}

static int by_path(const void *a, const void *b)
{
    const struct changed_file *x = a;
    const struct changed_file *y = b;

    return strcmp(x->path, y->path);
}

struct change_report {
    struct snp_buf *out; /* borrowed */
    bool is_layer;
    uint64_t bytes; /* may still be hashed */
    unsigned files;
};

/* 0: not hashed, because the file is special, unreadable or beyond the bounds. */
static uint64_t contents_hash(struct change_report *report, const struct changed_file *f)
{
    static char chunk[CHUNK];
    snp_autoclose int fd = -1;
    XXH64_state_t state;
    uint64_t left = f->size;

    if (!f->is_regular || left > report->bytes || report->files == 0) {
        return 0;
    }
    fd = snp_files_open(f->path);
    (void)XXH64_reset(&state, 0);
    while (fd >= 0 && left > 0) {
        ssize_t n = SNP_RETRY(read(fd, chunk, left < CHUNK ? left : CHUNK));

        if (n <= 0) {
            return 0; /* it changes at this moment */
        }
        (void)XXH64_update(&state, chunk, (size_t)n);
        left -= (uint64_t)n;
    }
    report->bytes -= f->size;
    report->files--;
    return fd < 0 ? 0 : XXH64_digest(&state);
}

static int add_change(struct change_report *report, uint8_t kind, const struct changed_file *f)
{
    const uint64_t hash = kind == SNP_CHANGE_DELETED ? 0 : contents_hash(report, f);
    struct snp_buf *out = report->out;

    if (snp_buf_add(out, &kind, 1) < 0 || snp_buf_add(out, &f->size, 8) < 0 ||
        snp_buf_add(out, &hash, 8) < 0) {
        return -1;
    }
    return snp_buf_add(out, f->path, strlen(f->path) + 1);
}

/* before: the same path in the previous walk, or NULL. */
static int compare(struct change_report *out,
                   const struct changed_file *before,
                   const struct changed_file *now)
{
    if (now == NULL) {
        return before->is_whiteout ? 0 : add_change(out, SNP_CHANGE_DELETED, before);
    }
    if (before == NULL || before->is_whiteout != now->is_whiteout) {
        if (now->is_whiteout) {
            return add_change(out, SNP_CHANGE_DELETED, now);
        }
        return add_change(
            out, before == NULL && out->is_layer ? SNP_CHANGE_APPEARED : SNP_CHANGE_CREATED, now);
    }
    if (before->size != now->size || before->ino != now->ino || before->mtime_ns != now->mtime_ns ||
        before->ctime_ns != now->ctime_ns) {
        return add_change(out, SNP_CHANGE_MODIFIED, now);
    }
    return 0;
}

static int report_files(const struct snp_layer_changes *changes,
                        const struct change_list *now,
                        struct snp_buf *out)
{
    const struct change_list *before = &changes->last;
    struct change_report report = {out, changes->is_layer, HASHED_BYTES_MAX, HASHED_FILES_MAX};
    size_t i = 0;
    size_t k = 0;

    while (i < before->n || k < now->n) {
        int order = i == before->n ? 1
                    : k == now->n  ? -1
                                   : strcmp(before->file[i].path, now->file[k].path);
        const struct changed_file *old = order <= 0 ? &before->file[i++] : NULL;
        const struct changed_file *new = order >= 0 ? &now->file[k++] : NULL;
        if (new == NULL && now->is_truncated) {
            continue; /* unseen this time, perhaps not removed */
        }
        if (compare(&report, old, new) < 0) {
            return -1;
        }
    }
    return 0;
}

/* List the current files of the layer, sorted. */
static void look(const struct snp_layer_changes *changes, struct change_list *ret)
{
    static char path[PATH_LEN];

    walk(ret, openat(changes->upper_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), path, 0, 0);
    for (size_t i = 0; i < ret->n; i++) {
        ret->file[i].is_whiteout &= changes->is_layer;
    }
    if (ret->n > 1) {
        qsort(ret->file, ret->n, sizeof(*ret->file), by_path);
    }
}

struct snp_layer_changes *snp_changes_new(int upper_fd, bool is_whole)
{
    struct snp_layer_changes *c = calloc(1, sizeof(*c));
    struct statfs fs;

    if (c != NULL) {
        c->upper_fd = upper_fd;
        c->is_whole = is_whole;
        c->is_layer =
            !is_whole && statfs("/workspace", &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC;
        if (is_whole) {
            look(c, &c->last);
        }
    }
    return c;
}

void snp_changes_rebase(struct snp_layer_changes *changes)
{
    listing_done(&changes->last);
    look(changes, &changes->last);
}

/* Can the walk find a file under this name: no "..", and no link in the path? */
static bool is_walked(int fd, const char *path)
{
    char copy[PATH_LEN];
    struct stat st;

    if (snprintf(copy, sizeof(copy), "%s", path) >= (int)sizeof(copy)) {
        return false;
    }
    for (char *slash = strchr(copy, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        const char *name;

        *slash = '\0';
        name = strrchr(copy, '/');
        name = name == NULL ? copy : name + 1;
        if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            fstatat(fd, copy, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode)) {
            return false;
        }
        *slash = '/';
    }
    return true;
}

void snp_changes_accept(struct snp_layer_changes *changes, const char *path)
{
    const char *root = snp_files_workspace();
    size_t root_len = strlen(root);
    struct change_list *l = &changes->last;
    struct changed_file key = {0};
    struct changed_file *known;
    struct stat st;

    if (strncmp(path, root, root_len) == 0 && path[root_len] == '/') {
        path += root_len + 1;
    } else if (strncmp(path, "/workspace/", strlen("/workspace/")) == 0) {
        path += strlen("/workspace/");
    }
    if (path[0] == '/' || !is_walked(changes->upper_fd, path) ||
        fstatat(changes->upper_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode)) {
        return; /* no file, elsewhere, or reached by another name: report it */
    }
    key.path = (char *)(uintptr_t)path;
    known = l->n == 0 ? NULL : bsearch(&key, l->file, l->n, sizeof(*l->file), by_path);
    if (known != NULL) {
        *known = describe(&st, known->path);
    } else if (listing_add(l, path, &st) == 0 && l->n > 1) {
        qsort(l->file, l->n, sizeof(*l->file), by_path);
    }
}

enum {
    NEARLY_FULL = 64 << 10 /* bytes: a failed write may have left this much */
};

static uint8_t full_flags(const struct statfs *workspace)
{
    static const struct {
        const char *path;
        uint8_t flag;
    } others[] = {{"/tmp", SNP_CHANGES_TMP_FULL}, {"/dev/shm", SNP_CHANGES_SHM_FULL}};
    uint8_t flags = 0;
    struct statfs fs;

    if ((uint64_t)workspace->f_bfree * (uint64_t)workspace->f_bsize < NEARLY_FULL) {
        flags |= SNP_CHANGES_WORKSPACE_FULL;
    }
    if (workspace->f_files > 0 && workspace->f_ffree == 0) {
        flags |= SNP_CHANGES_INODES_FULL;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(others); i++) {
        if (statfs(others[i].path, &fs) == 0 &&
            (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize < NEARLY_FULL) {
            flags |= others[i].flag;
        }
    }
    return flags;
}

/* Bytes written: of the whole layer, or in a shared folder, of the files seen. */
static uint64_t written_bytes(const struct snp_layer_changes *changes,
                              const struct change_list *now,
                              const struct statfs *fs)
{
    uint64_t bytes = 0;

    if (!changes->is_whole) {
        return (uint64_t)(fs->f_blocks - fs->f_bfree) * (uint64_t)fs->f_bsize;
    }
    for (size_t i = 0; i < now->n; i++) {
        bytes += now->file[i].bytes;
    }
    return bytes;
}

int snp_changes_report(struct snp_layer_changes *changes, uint64_t cpu_us, struct snp_buf *out)
{
    struct change_list now = {0};
    struct statfs fs;
    uint64_t written = 0;
    uint8_t flags = 0;

    look(changes, &now);
    if (fstatfs(changes->upper_fd, &fs) == 0) {
        written = written_bytes(changes, &now, &fs);
        flags = changes->is_whole ? 0 : full_flags(&fs);
    }
    flags |= now.is_truncated ? SNP_CHANGES_TRUNCATED : 0;
    if (snp_buf_add(out, &flags, 1) < 0 || snp_buf_add(out, &cpu_us, 8) < 0 ||
        snp_buf_add(out, &written, 8) < 0 || report_files(changes, &now, out) < 0) {
        listing_done(&now);
        return ENOMEM;
    }
    listing_done(&changes->last);
    changes->last = now;
    return 0;
}
