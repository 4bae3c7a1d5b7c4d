/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put, get and ls, one call each without state.
 *
 * Resolution is the kernel's: openat2 beneath /workspace or /tmp, no magic links. Only
 * regular files are read or written, opened without blocking, so that a FIFO or a
 * device planted under a known name stalls nobody.
 */
#include "guest/init_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "guest/init_wire.h"

enum {
    GET_MAX = 1 << 20
};

/* The folder a path is relative to, and the rest of the path. -1 with errno. */
static int open_root(const char *path, const char **ret_rest)
{
    static const char *const roots[] = {"/workspace", "/tmp"};
    const char *root = path[0] == '/' ? NULL : roots[0];
    const char *rest = path;

    for (size_t i = 0; root == NULL && i < SNP_ARRAY_LEN(roots); i++) {
        size_t n = strlen(roots[i]);
        if (strncmp(path, roots[i], n) == 0 && (path[n] == '/' || path[n] == '\0')) {
            root = roots[i];
            rest = path + n;
        }
    }
    if (root == NULL) {
        errno = EACCES;
        return -1;
    }
    while (*rest == '/') {
        rest++;
    }
    *ret_rest = *rest == '\0' ? "." : rest;
    return open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int open_beneath(int root_fd, const char *rest, int flags, unsigned mode)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
        .mode = mode,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };

    return (int)syscall(SYS_openat2, root_fd, rest, &how, sizeof(how));
}

static int open_path(const char *path, int flags, unsigned mode)
{
    const char *rest;
    int root_fd = open_root(path, &rest);
    int fd;

    if (root_fd < 0) {
        return -1;
    }
    fd = open_beneath(root_fd, rest, flags, mode);
    snp_closep(&root_fd);
    return fd;
}

/* Make the folders above a path that is about to be written. */
static void make_parents(const char *path)
{
    const char *rest;
    int root_fd = open_root(path, &rest);
    char *copy = root_fd < 0 ? NULL : strdup(rest);

    for (char *slash = copy == NULL ? NULL : strchr(copy, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdirat(root_fd, copy, 0755);
        *slash = '/';
    }
    free(copy);
    snp_closep(&root_fd);
}

static int regular(int fd, struct stat *st)
{
    if (fstat(fd, st) < 0) {
        return errno;
    }
    if (S_ISDIR(st->st_mode)) {
        return EISDIR;
    }
    return S_ISREG(st->st_mode) ? 0 : EINVAL;
}

/* 0 or errno. */
static int write_at(int fd, const char *bytes, size_t n, uint64_t offset)
{
    while (n > 0) {
        ssize_t done = SNP_RETRY(pwrite(fd, bytes, n, (off_t)offset));
        if (done <= 0) {
            return done < 0 ? errno : ENOSPC;
        }
        bytes += done;
        offset += (uint64_t)done;
        n -= (size_t)done;
    }
    return 0;
}

int snp_files_put(const struct snp_put *put, struct snp_buf *out)
{
    struct stat st;
    int fd;
    int r;

    make_parents(put->path);
    fd = open_path(put->path, O_WRONLY | O_CREAT, put->mode == 0 ? 0644 : put->mode & 0777);
    if (fd < 0) {
        return errno;
    }
    r = regular(fd, &st);
    if (r == 0 && put->truncate && ftruncate(fd, (off_t)put->offset) < 0) {
        r = errno;
    }
    if (r == 0 && put->truncate && put->mode != 0) {
        (void)fchmod(fd, put->mode & 0777);
    }
    if (r == 0) {
        r = write_at(fd, put->bytes, put->n, put->offset);
    }
    if (r == 0 && fstat(fd, &st) == 0) {
        uint64_t size = (uint64_t)st.st_size;
        r = snp_buf_add(out, &size, sizeof(size)) < 0 ? ENOMEM : 0;
    }
    snp_closep(&fd);
    return r;
}

int snp_files_get(const char *path, uint64_t offset, uint32_t length, struct snp_buf *out)
{
    struct stat st;
    char *space = NULL;
    int fd = open_path(path, O_RDONLY, 0);
    int r;

    if (fd < 0) {
        return errno;
    }
    r = length > GET_MAX ? EINVAL : regular(fd, &st);
    if (r == 0) {
        uint64_t size = (uint64_t)st.st_size;
        uint32_t mode = st.st_mode & 0777;
        ssize_t n;
        if (snp_buf_add(out, &size, sizeof(size)) < 0 ||
            snp_buf_add(out, &mode, sizeof(mode)) < 0 ||
            snp_buf_reserve(out, length, &space) < 0) {
            r = ENOMEM;
        } else if ((n = SNP_RETRY(pread(fd, space, length, (off_t)offset))) < 0) {
            r = errno;
        } else {
            snp_buf_commit(out, (size_t)n);
        }
    }
    snp_closep(&fd);
    return r;
}

static uint8_t entry_type(mode_t mode)
{
    if (S_ISREG(mode)) {
        return SNP_ENTRY_FILE;
    }
    if (S_ISDIR(mode)) {
        return SNP_ENTRY_DIR;
    }
    return S_ISLNK(mode) ? SNP_ENTRY_LINK : SNP_ENTRY_OTHER;
}

static int add_entry(const struct stat *st, const char *name, struct snp_buf *out)
{
    uint8_t type = entry_type(st->st_mode);
    uint64_t size = (uint64_t)st->st_size;
    uint64_t mtime_ns =
        (uint64_t)st->st_mtim.tv_sec * 1000000000U + (uint64_t)st->st_mtim.tv_nsec;

    if (snp_buf_add(out, &type, 1) < 0 || snp_buf_add(out, &size, 8) < 0 ||
        snp_buf_add(out, &mtime_ns, 8) < 0) {
        return -1;
    }
    return snp_buf_add(out, name, strlen(name) + 1);
}

static int list_dir(int fd, struct snp_buf *out)
{
    DIR *dir = fdopendir(fd);
    struct dirent *entry;
    uint8_t truncated = 0;
    unsigned n = 0;
    size_t mark;

    if (dir == NULL) {
        int eno = errno;
        snp_closep(&fd);
        return eno;
    }
    mark = out->len;
    if (snp_buf_add(out, &truncated, 1) < 0) {
        (void)closedir(dir);
        return ENOMEM;
    }
    while ((entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread */
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        if (n++ >= SNP_INIT_ENTRIES_MAX || add_entry(&st, entry->d_name, out) < 0) {
            snp_buf_bytes(out)[mark] = 1;
            break;
        }
    }
    (void)closedir(dir);
    return 0;
}

int snp_files_ls(const char *path, struct snp_buf *out)
{
    struct stat st;
    const uint8_t whole = 0;
    int fd = open_path(path, O_RDONLY, 0);
    const char *name = strrchr(path, '/');

    if (fd < 0) {
        return errno;
    }
    if (fstat(fd, &st) < 0 || S_ISDIR(st.st_mode)) {
        return list_dir(fd, out);
    }
    snp_closep(&fd);
    if (snp_buf_add(out, &whole, 1) < 0 ||
        add_entry(&st, name == NULL ? path : name + 1, out) < 0) {
        return ENOMEM;
    }
    return 0;
}
