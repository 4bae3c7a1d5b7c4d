/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put, get and ls, one call each without state.
 *
 * The kernel resolves paths: openat2 beneath /workspace or /tmp, no magic links. Only regular files
 * are read or written, and opened without blocking, so that a planted FIFO or device cannot block
 * pid 1.
 */
#include "guest/pid1/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "guest/dir.h"
#include "guest/pid1/wire.h"

enum {
    GET_MAX = 1 << 20,
    HOLE_MIN = 64 << 10, /* shorter holes are read: cheaper than another request */
    PATH_LEN = 4096
};

struct root {
    const char *name; /* as users write it */
    char path[PATH_LEN];
};

/* Set once, before the first request. */
static struct root roots[] = {{"/workspace", "/workspace"}, {"/tmp", "/tmp"}};

void snp_files_locate(const char *folder)
{
    for (size_t i = 0; folder != NULL && i < SNP_ARRAY_LEN(roots); i++) {
        (void)snprintf(roots[i].path, sizeof(roots[i].path), "%s%s", folder, roots[i].name);
    }
}

const char *snp_files_workspace(void)
{
    return roots[0].path;
}

const char *snp_files_tmp(void)
{
    return roots[1].path;
}

/* The rest of path after top, without leading slashes; NULL if path is not below it. */
static const char *below(const char *path, const char *top)
{
    size_t n = strlen(top);

    if (strncmp(path, top, n) != 0 || (path[n] != '/' && path[n] != '\0')) {
        return NULL;
    }
    path += n;
    return path + strspn(path, "/");
}

/* Do its ".." lead above its start? */
static bool leads_up(const char *rest)
{
    int depth = 0;

    while (*rest != '\0' && depth >= 0) {
        size_t n = strcspn(rest, "/");

        if (n == 2 && rest[0] == '.' && rest[1] == '.') {
            depth--;
        } else if (n > 0 && !(n == 1 && rest[0] == '.')) {
            depth++;
        }
        rest += n;
        rest += strspn(rest, "/");
    }
    return depth < 0;
}

/* The folder of a path, and the rest of the path. NULL with errno. */
static const char *find_root(const char *path, const char **ret_rest)
{
    const char *root = path[0] == '/' ? NULL : roots[0].path;
    const char *rest = path;

    for (size_t i = 0; root == NULL && i < SNP_ARRAY_LEN(roots); i++) {
        rest = below(path, roots[i].path);
        rest = rest == NULL ? below(path, roots[i].name) : rest;
        root = rest == NULL ? NULL : roots[i].path;
    }
    if (root == NULL || leads_up(rest)) {
        errno = EACCES;
        return NULL;
    }
    *ret_rest = *rest == '\0' ? "." : rest;
    return root;
}

/*
 * Without openat2: open, then check the result. Landlock confines us to the code's folders; this
 * check confines us to the requested root.
 */
static int open_and_look(const char *root, int root_fd, const char *rest, int flags, unsigned mode)
{
    char link[48];
    char path[PATH_LEN];
    int fd = openat(root_fd, rest, flags, mode);
    ssize_t n;

    if (fd < 0) {
        return -1;
    }
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = '\0';
    if (below(path, root) == NULL) {
        snp_closep(&fd);
        errno = EXDEV;
    }
    return fd;
}

static int open_beneath(const char *root, int root_fd, const char *rest, int flags, unsigned mode)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
        .mode = mode,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, root_fd, rest, &how, sizeof(how));

    if (fd >= 0 || errno != ENOSYS) {
        return fd;
    }
    return open_and_look(root, root_fd, rest, (int)how.flags, mode);
}

static int open_path(const char *path, int flags, unsigned mode)
{
    const char *rest;
    const char *root = find_root(path, &rest);
    snp_autoclose int root_fd = root == NULL ? -1 : open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = root_fd < 0 ? -1 : open_beneath(root, root_fd, rest, flags, mode);

    if (fd < 0 && errno == ENXIO) { /* a socket, or a pipe without a reader: not a regular file */
        errno = EINVAL;
    }
    return fd;
}

int snp_files_open(const char *path)
{
    return open_path(path, O_RDONLY | O_NOFOLLOW, 0);
}

/* Make the parent folders of a path to be written. */
static void make_parents(const char *path)
{
    const char *rest;
    const char *root = find_root(path, &rest);
    snp_autoclose int root_fd = root == NULL ? -1 : open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snp_autofree char *copy = root_fd < 0 ? NULL : strdup(rest);

    for (char *slash = copy == NULL ? NULL : strchr(copy, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdirat(root_fd, copy, 0755);
        *slash = '/';
    }
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

/* make_parents() has made it, unless its name is taken. */
static int put_folder(const char *path, struct snp_buf *out)
{
    const uint64_t size = 0;
    snp_autoclose int fd = open_path(path, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0) {
        return errno;
    }
    return snp_buf_add(out, &size, sizeof(size)) < 0 ? ENOMEM : 0;
}

int snp_files_put(struct snp_body *b, struct snp_buf *out, const char **ret_path)
{
    const uint64_t offset = snp_body_take(b, 8);
    const bool truncate = snp_body_take(b, 1) != 0;
    const uint32_t mode = (uint32_t)snp_body_take(b, 4);
    const char *path = *ret_path = snp_body_text(b);
    struct stat st;
    uint64_t size;
    int r;

    if (b->bad || offset > INT64_MAX / 2) {
        return EINVAL;
    }
    make_parents(path);
    if (path[0] != '\0' && path[strlen(path) - 1] == '/') {
        return put_folder(path, out);
    }
    snp_autoclose int fd = open_path(path, O_WRONLY | O_CREAT, mode == 0 ? 0644 : mode & 0777);
    if (fd < 0) {
        return errno;
    }
    r = regular(fd, &st);
    if (r == 0 && truncate && ftruncate(fd, (off_t)offset) < 0) {
        r = errno;
    }
    if (r == 0 && truncate && mode != 0) {
        (void)fchmod(fd, mode & 0777);
    }
    r = r == 0 ? write_at(fd, b->at, (size_t)(b->end - b->at), offset) : r;
    if (r != 0 || fstat(fd, &st) < 0) {
        return r;
    }
    size = (uint64_t)st.st_size;
    return snp_buf_add(out, &size, sizeof(size)) < 0 ? ENOMEM : 0;
}

/* Length of the hole at offset; 0 if it is short. */
static uint64_t hole_at(int fd, uint64_t offset, uint64_t size)
{
    off_t data = offset >= size ? -1 : lseek(fd, (off_t)offset, SEEK_DATA);
    uint64_t end = data < 0 ? size : (uint64_t)data;

    if (offset >= size || (data < 0 && errno != ENXIO)) {
        return 0;
    }
    return end - offset >= HOLE_MIN ? end - offset : 0;
}

int snp_files_get(struct snp_body *b, struct snp_buf *out)
{
    const uint64_t offset = snp_body_take(b, 8);
    const uint32_t length = (uint32_t)snp_body_take(b, 4);
    const char *path = snp_body_text(b);
    const bool is_good = !b->bad && offset <= INT64_MAX / 2;
    snp_autoclose int fd = is_good ? open_path(path, O_RDONLY, 0) : -1;
    struct stat st = {0};
    char *space = NULL;
    ssize_t n = 0;
    int r = !is_good ? EINVAL : fd < 0 ? errno : length > GET_MAX ? EINVAL : regular(fd, &st);

    if (r != 0) {
        return r;
    }
    const uint64_t size = (uint64_t)st.st_size;
    const uint32_t mode = st.st_mode & 0777;
    const uint64_t hole = hole_at(fd, offset, size);
    if (snp_buf_add(out, &size, sizeof(size)) < 0 || snp_buf_add(out, &mode, sizeof(mode)) < 0 ||
        snp_buf_add(out, &hole, sizeof(hole)) < 0 || snp_buf_reserve(out, length, &space) < 0) {
        return ENOMEM;
    }
    if (hole == 0 && (n = SNP_RETRY(pread(fd, space, length, (off_t)offset))) < 0) {
        return errno;
    }
    snp_buf_commit(out, (size_t)n);
    return 0;
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
    uint64_t mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000U + (uint64_t)st->st_mtim.tv_nsec;

    if (snp_buf_add(out, &type, 1) < 0 || snp_buf_add(out, &size, 8) < 0 ||
        snp_buf_add(out, &mtime_ns, 8) < 0) {
        return -1;
    }
    return snp_buf_add(out, name, strlen(name) + 1);
}

static int list_dir(int fd, struct snp_buf *out)
{
    snp_autodir DIR *dir = snp_dir_of(fd);
    const uint8_t whole = 0;
    const char *name;
    struct stat st;
    unsigned n = 0;
    size_t mark = out->len;

    if (dir == NULL) {
        return errno;
    }
    if (snp_buf_add(out, &whole, 1) < 0) {
        return ENOMEM;
    }
    while ((name = snp_dir_next(dir)) != NULL) {
        if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        if (n++ >= SNP_INIT_ENTRIES_MAX || add_entry(&st, name, out) < 0) {
            snp_buf_bytes(out)[mark] = 1; /* the list is incomplete */
            break;
        }
    }
    return 0;
}

int snp_files_ls(struct snp_body *b, struct snp_buf *out)
{
    const char *path = snp_body_text(b);
    const char *name = strrchr(path, '/');
    const uint8_t whole = 0;
    int fd = b->bad ? -1 : open_path(path, O_RDONLY, 0);
    struct stat st;

    if (fd < 0) {
        return b->bad ? EINVAL : errno;
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
