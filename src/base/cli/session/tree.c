/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `put -r` and `get -r`.
 *
 * Names from a session are hostile: each is one component, resolved relative to a descriptor of its
 * folder, and created new. Depth, number and bytes are bounded.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/cli/need.h"
#include "base/cli/session/files.h"
#include "base/cli/session/remote.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/wire/file.h"

enum {
    DEPTH_MAX = 32,
    FILES_MAX = 100000,
    FOLDER_MODE = 0755,
};

/* Count one more file or folder; fails at the limit. */
static int count(uint64_t *n, struct snp_err *err)
{
    if (++*n > FILES_MAX) {
        return snp_fail(err, SNP_E_LIMIT,
                        "there are more than %d files or folders; copy an archive of them",
                        FILES_MAX);
    }
    return 0;
}

static int deep_check(unsigned depth, const char *path, struct snp_err *err)
{
    return depth > DEPTH_MAX
               ? snp_fail(err, SNP_E_LIMIT, "%.120s: deeper than %d folders", path, DEPTH_MAX)
               : 0;
}

/* put -------------------------------------------------------------------------------------- */

static int put_folder(const struct snp_remote_file *to,
                      int dir_fd,
                      unsigned depth,
                      struct snp_moved *moved,
                      struct snp_err *err);

static int put_entry(const struct snp_remote_file *to,
                     int dir_fd,
                     const char *name,
                     unsigned depth,
                     struct snp_moved *moved,
                     struct snp_err *err)
{
    snp_autofree char *path = snp_need_format("%s/%s", to->path, name);
    struct snp_remote_file below = *to;
    snp_autoclose int fd = -1;
    struct stat st;
    uint64_t size = 0;
    int r;

    fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && (errno == ELOOP || errno == ENXIO)) {
        moved->skipped++; /* a link; a socket */
        return 0;
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return snp_fail_sys(err, errno, "open %.150s", name);
    }
    below.path = path;
    below.mode = st.st_mode & 0777;
    if (S_ISDIR(st.st_mode)) {
        return put_folder(&below, SNP_TAKE_FD(fd), depth + 1, moved, err);
    }
    if (!S_ISREG(st.st_mode)) {
        moved->skipped++;
        return 0;
    }
    r = count(&moved->files, err);
    if (r == 0) {
        r = snp_file_put(&below, fd, &size, err);
    }
    if (r < 0) {
        return snp_err_wrap(err, "%.100s", path);
    }
    moved->bytes += size;
    free((char *)(uintptr_t)to->last->path);
    *to->last = below;
    to->last->path = SNP_TAKE_PTR(path);
    to->last->last = NULL;
    return 0;
}

/* An empty folder; others are created with their files. */
static int put_empty(const struct snp_remote_file *to, struct snp_err *err)
{
    snp_autofree char *path = snp_need_format("%s/", to->path);
    snp_autoreply struct snp_reply reply = {0};

    return snp_remote_call(
        to->cli, SNP_WRITE(snp_put_request, .session = to->session, .path = path, .truncate = true),
        &reply, err);
}

/* dir_fd is consumed. */
static int put_folder(const struct snp_remote_file *to,
                      int dir_fd,
                      unsigned depth,
                      struct snp_moved *moved,
                      struct snp_err *err)
{
    DIR *dir = fdopendir(dir_fd);
    const struct dirent *entry;
    uint64_t files = moved->files;
    uint64_t folders = moved->folders;
    int r = deep_check(depth, to->path, err);

    if (dir == NULL) {
        (void)close(dir_fd);
        return snp_fail_sys(err, errno, "read %.150s", to->path);
    }
    while (r == 0 && (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            r = put_entry(to, dirfd(dir), entry->d_name, depth, moved, err);
        }
    }
    if (r == 0 && moved->files == files && moved->folders == folders) {
        r = count(&moved->folders, err);
        r = r < 0 ? r : put_empty(to, err);
    }
    (void)closedir(dir);
    return r;
}

int snp_tree_put(const struct snp_remote_file *to,
                 const char *source,
                 struct snp_moved *moved,
                 struct snp_err *err)
{
    int fd = open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct snp_remote_file all = *to;
    struct snp_remote_file last = {0};
    int r;

    *moved = (struct snp_moved){0};
    if (fd < 0) {
        return snp_fail_sys(err, errno, "open %.150s", source);
    }
    all.last = &last;
    r = put_folder(&all, fd, 0, moved, err);
    if (r == 0 && last.path != NULL) {
        r = snp_file_put_end(&last, err);
    }
    free((char *)(uintptr_t)last.path);
    return r;
}

/* get -------------------------------------------------------------------------------------- */

static bool is_component(const char *name)
{
    return name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static int get_file(struct snp_remote_file *from,
                    int dir_fd,
                    const char *name,
                    struct snp_moved *moved,
                    struct snp_err *err)
{
    snp_autoclose int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    mode_t mask = umask(0);
    int r;

    (void)umask(mask);
    if (fd < 0) {
        return snp_fail_sys(err, errno, "create %.150s", name);
    }
    r = count(&moved->files, err);
    if (r == 0) {
        r = snp_file_get(from, fd, moved, err);
    }
    if (r == 0 && fchmod(fd, (from->mode & 0777) & ~mask) < 0) {
        r = snp_fail_sys(err, errno, "write %.150s", name);
    }
    return r;
}

static int get_folder(const struct snp_remote_file *from,
                      int dir_fd,
                      unsigned depth,
                      struct snp_moved *moved,
                      struct snp_err *err);

static int get_entry(const struct snp_remote_file *from,
                     int dir_fd,
                     const json_t *entry,
                     unsigned depth,
                     struct snp_moved *moved,
                     struct snp_err *err)
{
    const char *name = snp_json_str(entry, "name", "");
    const char *type = snp_json_str(entry, "type", "");
    snp_autofree char *path = snp_need_format("%s/%s", from->path, name);
    struct snp_remote_file below = *from;
    snp_autoclose int fd = -1;
    int r;

    if (!is_component(name)) {
        return snp_fail(err, SNP_E_PEER, "the session lists a file '%.100s'", name);
    }
    below.path = path;
    if (strcmp(type, "file") == 0) {
        r = get_file(&below, dir_fd, name, moved, err);
        return r < 0 ? snp_err_wrap(err, "%.100s", path) : 0;
    }
    if (strcmp(type, "dir") != 0) {
        moved->skipped++;
        return 0;
    }
    if (mkdirat(dir_fd, name, FOLDER_MODE) < 0 ||
        (fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0) {
        return snp_fail_sys(err, errno, "create %.150s", path);
    }
    return get_folder(&below, fd, depth + 1, moved, err);
}

static int get_folder(const struct snp_remote_file *from,
                      int dir_fd,
                      unsigned depth,
                      struct snp_moved *moved,
                      struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    int r = deep_check(depth, from->path, err);
    size_t i;
    json_t *entry;

    if (r == 0) {
        r = count(&moved->folders, err);
    }
    if (r == 0) {
        r = snp_remote_call(from->cli,
                            SNP_WRITE(snp_ls_request, .session = from->session, .path = from->path),
                            &reply, err);
    }
    if (r < 0) {
        return r;
    }
    if (snp_json_bool(reply.head, "truncated", true)) {
        return snp_fail(err, SNP_E_LIMIT, "%.120s has too many files to list; copy an archive",
                        from->path);
    }
    json_array_foreach(json_object_get(reply.head, "entries"), i, entry)
    {
        r = get_entry(from, dir_fd, entry, depth, moved, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* A new folder; *ret_fd is the caller's. */
static int dest_make(const char *dest, int *ret_fd, struct snp_err *err)
{
    if (mkdir(dest, FOLDER_MODE) < 0 && errno == EEXIST) {
        return snp_fail(err, SNP_E_DENIED,
                        "%.150s exists; a folder of a session is copied to a new one", dest);
    }
    *ret_fd = open(dest, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? snp_fail_sys(err, errno, "create %.150s", dest) : 0;
}

/* Listing a file returns the file itself, so reading it shows whether the path is a file. */
static int file_refuse(const struct snp_remote_file *from, struct snp_err *err)
{
    snp_autoreply struct snp_reply reply = {0};
    struct snp_err ignored;
    int r = snp_remote_call(
        from->cli,
        SNP_WRITE(snp_get_request, .session = from->session, .path = from->path, .length = 1),
        &reply, &ignored);

    return r < 0 ? 0
                 : snp_fail(err, SNP_E_INVALID, "%.150s is a file; it is copied without -r",
                            from->path);
}

int snp_tree_get(const struct snp_remote_file *from,
                 const char *dest,
                 struct snp_moved *moved,
                 struct snp_err *err)
{
    snp_autoclose int fd = -1;
    int r;

    *moved = (struct snp_moved){0};
    r = file_refuse(from, err);
    r = r < 0 ? r : dest_make(dest, &fd, err);
    if (r < 0) {
        return r;
    }
    r = get_folder(from, fd, 0, moved, err);
    if (r < 0) {
        (void)rmdir(dest); /* only if it is empty */
    }
    return r;
}

/*
 * Open the parent folder of the file `path`, below dest_fd, creating missing ones; *ret_name: its
 * last component. Everything below dest_fd was created by us, so there are no links on the way.
 */
static int parent_open(
    int dest_fd, char *path, int *ret_fd, const char **ret_name, struct snp_err *err)
{
    snp_autoclose int fd = fcntl(dest_fd, F_DUPFD_CLOEXEC, 3);
    unsigned depth = 0;
    char *name = path;

    for (char *slash = strchr(name, '/'); slash != NULL; slash = strchr(name, '/')) {
        snp_autoclose int below = -1;
        int r;

        *slash = '\0';
        r = deep_check(++depth, name, err);
        if (r < 0) {
            return r;
        }
        if (!is_component(name) || (mkdirat(fd, name, FOLDER_MODE) < 0 && errno != EEXIST) ||
            (below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0) {
            return snp_fail(err, SNP_E_PEER, "no folder can be made for '%.100s'", name);
        }
        snp_closep(&fd);
        fd = SNP_TAKE_FD(below);
        name = slash + 1;
    }
    if (!is_component(name) || fd < 0) {
        return snp_fail(err, SNP_E_PEER, "the session names a file '%.100s'", name);
    }
    *ret_name = name;
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}

static int named_get(const struct snp_remote_file *from,
                     int dest_fd,
                     const char *path,
                     struct snp_moved *moved,
                     struct snp_err *err)
{
    snp_autofree char *whole = snp_need_format("%s/%s", from->path, path);
    snp_autofree char *parts = snp_need_copy(path);
    struct snp_remote_file file = *from;
    snp_autoclose int fd = -1;
    const char *name = "";
    int r;

    r = parent_open(dest_fd, parts, &fd, &name, err);
    if (r < 0) {
        return r;
    }
    file.path = whole;
    r = get_file(&file, fd, name, moved, err);
    /* Removed since, a folder, or a link, possibly one that leads out. */
    if (r == SNP_E_NOT_FOUND || r == SNP_E_INVALID || r == SNP_E_DENIED) {
        (void)unlinkat(fd, name, 0);
        moved->files--;
        moved->skipped++;
        return 0;
    }
    return r < 0 ? snp_err_wrap(err, "%.100s", path) : 0;
}

int snp_tree_get_files(const struct snp_remote_file *from,
                       const json_t *paths,
                       const char *dest,
                       struct snp_moved *moved,
                       struct snp_err *err)
{
    snp_autoclose int fd = -1;
    int r;

    *moved = (struct snp_moved){0};
    r = dest_make(dest, &fd, err);
    for (size_t i = 0; r == 0 && i < json_array_size(paths); i++) {
        const char *path = json_string_value(json_array_get(paths, i));

        if (path != NULL) {
            r = named_get(from, fd, path, moved, err);
        }
    }
    return r;
}
