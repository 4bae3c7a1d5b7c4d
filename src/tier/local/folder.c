/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/local/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"

enum {
    PATH_LEN = 4096,
    /* folders open at the same time; deeper ones are moved up before they are removed */
    DEPTH_MAX = 48,
    COPY_DEPTH_MAX = 128,
    CHUNK = 128 << 10,
    ROUNDS_MAX = 1000000
};

#define PREFIX      "local-"
#define SHARED_HOME "/var/tmp/snipara-sandbox-"
#define CLOSED      "/closed"

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int open_dir(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Open a folder to empty it, readable and writable regardless of its mode. */
static int open_to_empty(int parent, const char *name)
{
    struct stat st;
    int fd = open_dir(parent, name);

    if (fd < 0 && errno == EACCES && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(st.st_mode)) {
        (void)!fchmodat(parent, name, 0700, 0); /* no process is left to swap it */
        fd = open_dir(parent, name);
    }
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700) {
        (void)fchmod(fd, (st.st_mode & 07777) | 0700);
    }
    return fd;
}

struct folder_removal {
    int top; /* deeply nested folders are moved here */
    unsigned moved;
    unsigned rounds;
};

static void empty(struct folder_removal *r, int fd, int depth);

static void remove_entry(struct folder_removal *r, int fd, const struct dirent *entry, int depth)
{
    char name[32];
    int below;

    if (entry->d_type != DT_DIR && unlinkat(fd, entry->d_name, 0) == 0) {
        return;
    }
    if (unlinkat(fd, entry->d_name, AT_REMOVEDIR) == 0 || errno == ENOTDIR || errno == ENOENT) {
        return;
    }
    if (depth >= DEPTH_MAX) {
        (void)snprintf(name, sizeof(name), ".removed-%u", r->moved++);
        (void)!renameat(fd, entry->d_name, r->top, name);
        return;
    }
    below = open_to_empty(fd, entry->d_name);
    if (below >= 0) {
        empty(r, below, depth + 1);
        (void)unlinkat(fd, entry->d_name, AT_REMOVEDIR);
    }
}

/* Empty the folder fd (consumed). */
static void empty(struct folder_removal *r, int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;

    if (dir == NULL) {
        snp_closep(&fd);
        return;
    }
    while ((entry = readdir(dir)) != NULL && /* NOLINT(concurrency-mt-unsafe): a private stream */
           r->rounds++ < ROUNDS_MAX) {
        if (!is_dots(entry->d_name)) {
            remove_entry(r, dirfd(dir), entry, depth);
        }
    }
    (void)closedir(dir);
}

void snp_folder_remove(const char *path)
{
    struct folder_removal r = {.top = open_to_empty(AT_FDCWD, path)};

    /* Folders moved up are removed in the next pass. */
    for (int pass = 0; pass < 10000 && r.top >= 0; pass++) {
        unsigned moved = r.moved;
        int fd = open_dir(r.top, ".");
        r.rounds = 0;
        if (fd >= 0) {
            empty(&r, fd, 0);
        }
        if (rmdir(path) == 0 || (moved == r.moved && r.rounds < ROUNDS_MAX)) {
            break;
        }
    }
    snp_closep(&r.top);
    (void)rmdir(path);
}

/* Remove the folder of a supervisor whose lock is free. */
static void remove_left(int state_fd, const char *name)
{
    char path[PATH_LEN];
    ssize_t n = readlinkat(state_fd, name, path, sizeof(path) - 1);
    snp_autoclose int fd = -1;
    struct stat st;

    path[n < 0 ? 0 : n] = '\0';
    if (n < 0) {
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", state_fd, name);
    } else if (strncmp(path, SHARED_HOME, strlen(SHARED_HOME)) != 0 ||
               strchr(path + strlen(SHARED_HOME), '/') != NULL) {
        return;
    }
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || flock(fd, LOCK_EX | LOCK_NB) < 0) {
            return;
        }
        snp_folder_remove(path);
    }
    if (n >= 0) {
        (void)unlinkat(state_fd, name, 0);
    }
}

static void remove_all_left(const char *state_dir)
{
    DIR *dir = opendir(state_dir);
    struct dirent *entry;

    while (dir != NULL &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): a private stream */
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0) {
            remove_left(dirfd(dir), entry->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

/* The link in state_dir to the folder at path. */
static void entry_name(const char *state_dir, const char *path, char *out, size_t len)
{
    (void)snprintf(out, len, "%s/" PREFIX "%s", state_dir, path + strlen(SHARED_HOME));
}

int snp_folders_open(const char *state_dir,
                     int as_root,
                     char *ret_path,
                     size_t path_len,
                     int *ret_lock_fd,
                     struct snp_err *err)
{
    snp_autofree char *state = realpath(state_dir, NULL);
    char path[PATH_LEN];
    char entry[PATH_LEN];
    int n;

    if (state == NULL) {
        return snp_fail_sys(err, errno, "%.300s", state_dir);
    }
    remove_all_left(state);
    n = as_root != 0 ? snprintf(path, sizeof(path), "%sXXXXXX", SHARED_HOME)
                     : snprintf(path, sizeof(path), "%s/" PREFIX "XXXXXX", state);
    if (n < 0 || (size_t)n >= path_len) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the state folder's path is longer than %zu bytes: %.200s", path_len,
                        state);
    }
    if (mkdtemp(path) == NULL || chmod(path, as_root != 0 ? 0711 : 0700) < 0) {
        return snp_fail_sys(err, errno, "make a folder for sessions, %s", path);
    }
    *ret_lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*ret_lock_fd < 0 || flock(*ret_lock_fd, LOCK_EX | LOCK_NB) < 0) {
        return snp_fail_sys(err, errno, "lock %s", path);
    }
    if (as_root != 0) {
        entry_name(state, path, entry, sizeof(entry));
        if (symlink(path, entry) < 0) {
            return snp_fail_sys(err, errno, "note %s", entry);
        }
    }
    (void)snprintf(ret_path, path_len, "%s", path);
    return 0;
}

void snp_folders_close(const char *state_dir, const char *path, int *lock_fd)
{
    char entry[PATH_LEN];

    if (path[0] == '\0') {
        return;
    }
    snp_folder_remove(path);
    if (strncmp(path, SHARED_HOME, strlen(SHARED_HOME)) == 0) {
        entry_name(state_dir, path, entry, sizeof(entry));
        (void)unlink(entry);
    }
    snp_closep(lock_fd);
}

int snp_folder_make(const char *path, uid_t owner, bool has_copies, struct snp_err *err)
{
    static const struct {
        const char *name;
        mode_t mode;
        bool is_ours; /* as root: the code may traverse it, by its group, and not change it */
        bool is_of_shadows;
    } parts[] = {
        {"", 0710, true, false},
        {"/workspace", 0755, false, false},
        {"/tmp", 0755, false, false},
        {CLOSED, 0711, true, true},
        {CLOSED "/shadow", 0700, false, true},
    };
    char part[PATH_LEN];

    for (size_t i = 0; i < SNP_ARRAY_LEN(parts); i++) {
        if (parts[i].is_of_shadows && !has_copies) {
            continue;
        }
        (void)snprintf(part, sizeof(part), "%s%s", path, parts[i].name);
        if (mkdir(part, 0700) < 0 || chmod(part, parts[i].mode) < 0 ||
            (owner != 0 && chown(part, parts[i].is_ours ? (uid_t)-1 : owner, (gid_t)owner) < 0)) {
            return snp_fail_sys(err, errno, "make the session's folder %s", part);
        }
    }
    return 0;
}

int snp_folder_close(const char *path, struct snp_err *err)
{
    char part[PATH_LEN];

    (void)snprintf(part, sizeof(part), "%s" CLOSED, path);
    return chmod(part, 0) < 0 ? snp_fail_sys(err, errno, "close %s", part) : 0;
}

/* Copying a project ------------------------------------------------------------------- */

struct copying {
    const struct snp_folder_copy *what;
    uint64_t bytes;
    uint64_t files;
    char path[PATH_LEN]; /* of the current entry, relative to the project */
    char *chunk;         /* CHUNK bytes; owned */
};

/* The mask record of the path, NULL if it is not masked. */
static const char *masked(const struct copying *c)
{
    const char *at = c->what->mask;
    const char *end = at == NULL ? NULL : at + c->what->mask_len;

    while (at < end) {
        const char *record = at;
        const char *name = at + 1;
        uint32_t len;
        at = name + strlen(name) + 1;
        memcpy(&len, at, sizeof(len));
        at += sizeof(len) + len;
        if (strcmp(name, c->path) == 0) {
            return record;
        }
    }
    return NULL;
}

static int too_large(const struct copying *c, struct snp_err *err)
{
    char size[32];

    (void)snp_fail_with(err, SNP_E_LIMIT, SNP_REMEDY_RAISE_LIMIT, "project_size", 0,
                        "the project has more than %s or %llu files, and the local tier copies it "
                        "into the workspace",
                        snp_format_bytes(c->what->max_bytes, size, sizeof(size)),
                        (unsigned long long)c->what->max_files);
    snp_err_limit(err, "workspace_size", (int64_t)c->what->max_bytes);
    return SNP_E_LIMIT;
}

static int count(struct copying *c, uint64_t bytes, uint64_t files, struct snp_err *err)
{
    c->bytes += bytes;
    c->files += files;
    return c->bytes > c->what->max_bytes || c->files > c->what->max_files ? too_large(c, err) : 0;
}

static int give(const struct copying *c, int fd, const struct stat *st, struct snp_err *err)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};

    if ((c->what->owner != 0 && fchown(fd, c->what->owner, (gid_t)c->what->owner) < 0) ||
        fchmod(fd, st->st_mode & 0777) < 0) {
        return snp_fail_sys(err, errno, "copy %.200s of the project", c->path);
    }
    (void)futimens(fd, times);
    return 0;
}

/* Write the bytes of a replaced file's mask record. */
static int write_record(struct copying *c, int to, const char *record, struct snp_err *err)
{
    const char *bytes = record + 1 + strlen(record + 1) + 1;
    uint32_t len;

    memcpy(&len, bytes, sizeof(len));
    if (count(c, len, 0, err) < 0) {
        return err->code;
    }
    return snp_write_all(to, bytes + sizeof(len), len) < 0
               ? snp_fail_sys(err, errno, "copy %.200s of the project", c->path)
               : 0;
}

static int copy_bytes(struct copying *c, int from, int to, struct snp_err *err)
{
    for (;;) {
        ssize_t n = SNP_RETRY(read(from, c->chunk, CHUNK));
        if (n < 0) {
            return snp_fail_sys(err, errno, "read %.200s of the project", c->path);
        }
        if (n == 0) {
            return 0;
        }
        if (count(c, (uint64_t)n, 0, err) < 0) {
            return err->code;
        }
        if (snp_write_all(to, c->chunk, (size_t)n) < 0) {
            return snp_fail_sys(err, errno, "copy %.200s of the project", c->path);
        }
    }
}

static int copy_file(struct copying *c,
                     int from_dir,
                     int to_dir,
                     const char *name,
                     const char *record,
                     struct snp_err *err)
{
    snp_autoclose int from =
        openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    snp_autoclose int to = -1;
    struct stat st;
    int r;

    /* Skip unreadable, removed and other than regular files. */
    if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode)) {
        return 0;
    }
    to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0) {
        return snp_fail_sys(err, errno, "copy %.200s of the project", c->path);
    }
    r = record != NULL ? write_record(c, to, record, err) : copy_bytes(c, from, to, err);
    return r < 0 ? r : give(c, to, &st, err);
}

static int copy_link(
    struct copying *c, int from_dir, int to_dir, const char *name, struct snp_err *err)
{
    char target[PATH_LEN];
    ssize_t n = readlinkat(from_dir, name, target, sizeof(target) - 1);

    if (n < 0) {
        return 0;
    }
    target[n] = '\0';
    if (symlinkat(target, to_dir, name) < 0 ||
        (c->what->owner != 0 &&
         fchownat(to_dir, name, c->what->owner, (gid_t)c->what->owner, AT_SYMLINK_NOFOLLOW) < 0)) {
        return snp_fail_sys(err, errno, "copy %.200s of the project", c->path);
    }
    return 0;
}

/* A folder of the project and its copy; path holds its name, len bytes with the slash. */
struct folder_copy {
    int from;
    int to;
    size_t len;
    int depth;
};

static int copy_below(struct copying *c, const struct folder_copy *at, struct snp_err *err);

static int copy_folder(struct copying *c,
                       const struct folder_copy *parent,
                       const char *name,
                       struct snp_err *err)
{
    const struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
    };
    size_t end = parent->len + strlen(name);
    struct stat st;
    snp_autoclose int to = -1;
    int from = (int)syscall(SYS_openat2, parent->from, name, &how, sizeof(how));
    int r;

    /* Skip folders that we may not enter, and mounts in the project. */
    if (from < 0) {
        return 0;
    }
    if (fstat(from, &st) < 0 || mkdirat(parent->to, name, 0700) < 0 ||
        (to = open_dir(parent->to, name)) < 0) {
        snp_closep(&from);
        return snp_fail_sys(err, errno, "copy %.200s of the project", c->path);
    }
    c->path[end] = '/';
    r = copy_below(c, &(struct folder_copy){from, to, end + 1, parent->depth + 1}, err);
    c->path[end] = '\0';
    return r < 0 ? r : give(c, to, &st, err);
}

static int copy_entry(struct copying *c,
                      const struct folder_copy *at,
                      const char *name,
                      struct snp_err *err)
{
    size_t name_len = strlen(name);
    const char *record;
    struct stat st;

    if (at->len + name_len + 2 > sizeof(c->path) || at->depth > COPY_DEPTH_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the project's folders are nested deeper than %d",
                        COPY_DEPTH_MAX);
    }
    memcpy(c->path + at->len, name, name_len + 1);
    record = masked(c);
    if ((record != NULL && *record != 'f') ||
        fstatat(at->from, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0;
    }
    if (count(c, 0, 1, err) < 0) {
        return err->code;
    }
    if (S_ISDIR(st.st_mode)) {
        return copy_folder(c, at, name, err);
    }
    if (S_ISLNK(st.st_mode)) {
        return copy_link(c, at->from, at->to, name, err);
    }
    return copy_file(c, at->from, at->to, name, record, err);
}

/* Copy everything below at->from (consumed) into at->to. */
static int copy_below(struct copying *c, const struct folder_copy *at, struct snp_err *err)
{
    int from = at->from;
    DIR *dir = fdopendir(from);
    struct dirent *entry;
    int r = 0;

    if (dir == NULL) {
        snp_closep(&from);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    while (r == 0 &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): a private stream */
        if (!is_dots(entry->d_name)) {
            r = copy_entry(c, at, entry->d_name, err);
        }
    }
    (void)closedir(dir);
    return r;
}

int snp_folder_fill(const char *path, const struct snp_folder_copy *copy, struct snp_err *err)
{
    struct copying c = {.what = copy, .chunk = malloc(CHUNK)};
    char workspace[PATH_LEN];
    snp_autoclose int to = -1;
    int from;
    int r;

    (void)snprintf(workspace, sizeof(workspace), "%s/workspace", path);
    to = open_dir(AT_FDCWD, workspace);
    from = openat(copy->project_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c.chunk == NULL || to < 0 || from < 0) {
        snp_closep(&from);
        free(c.chunk);
        return snp_fail_sys(err, errno, "copy the project");
    }
    r = copy_below(&c, &(struct folder_copy){from, to, 0, 0}, err);
    free(c.chunk);
    return r;
}

/* Measuring ------------------------------------------------------------------------------ */

static void measure(int fd,
                    int depth,
                    const struct snp_folder_size *most,
                    struct snp_folder_size *ret)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    struct stat st;

    if (dir == NULL) {
        snp_closep(&fd);
        return;
    }
    while (ret->bytes <= most->bytes && ret->files <= most->files &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): a private stream */
        if (is_dots(entry->d_name) ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        ret->files++;
        ret->bytes += (uint64_t)st.st_blocks * 512;
        if (S_ISDIR(st.st_mode) && depth >= COPY_DEPTH_MAX) {
            ret->files = most->files + 1; /* nested too deeply: report too many */
        } else if (S_ISDIR(st.st_mode)) {
            measure(open_dir(dirfd(dir), entry->d_name), depth + 1, most, ret);
        }
    }
    (void)closedir(dir);
}

void snp_folder_measure(const char *path,
                        const struct snp_folder_size *most,
                        struct snp_folder_size *ret)
{
    *ret = (struct snp_folder_size){0};
    measure(open_dir(AT_FDCWD, path), 0, most, ret);
}
