/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of file systems are hostile. The list of contents is checked first: an absolute name, a
 * '..' or too much data is refused. Devices are never created (/dev is left out, others are
 * refused); owners and set-id bits are dropped. tar itself creates links that lead out only at the
 * end, so nothing is written through one.
 */
#include "cli/setup/rootfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/spawn.h"
#include "base/cli/term.h"
#include "base/fd.h"
#include "base/registry/treehash.h"
#include "base/str.h"
#include "cli/setup/template_build.h"

enum {
    LIST_MAX = 64 << 20, /* bytes of the table of contents */
    ENTRIES_MAX = 400000,
    KEPT_MAX = 4,   /* unpacked archives */
    SIZE_FIELD = 2, /* of a line of the table, from 0 */
    PATH_LEN = 4096,
};
#define UNPACKED_MAX (16ULL << 30)

/*
 * The target of a symbolic link is checked when it is followed, as a process would inside; here
 * only its name matters. false: the end of the name is ambiguous.
 */
static bool cut_target(char *name)
{
    char *arrow = strstr(name, " -> ");

    if (arrow == NULL || strstr(arrow + 1, " -> ") != NULL) {
        return false;
    }
    *arrow = '\0';
    return true;
}

/* One line of `tar -tv`: "-rw-r--r-- 0/0 123 2024-01-01 00:00 ./path". */
static int line_check(const char *line, size_t len, uint64_t *total, struct snp_err *err)
{
    char text[PATH_LEN];
    char size[24] = "";
    char *at = text;
    uint64_t bytes = 0;

    (void)snprintf(text, sizeof(text), "%.*s", (int)(len < sizeof(text) ? len : sizeof(text) - 1),
                   line);
    for (int field = 0; field < 5; field++) {
        size_t n = strcspn(at, " ");
        if (field == SIZE_FIELD) {
            (void)snprintf(size, sizeof(size), "%.*s", (int)(n < 23 ? n : 23), at);
        }
        at += n;
        at += strspn(at, " ");
    }
    if (strchr("-dlh", text[0]) == NULL) {
        return snp_fail(err, SNP_E_DENIED, "the archive contains a device or pipe: %.200s", at);
    }
    if (text[0] == 'l' && !cut_target(at)) {
        return snp_fail(err, SNP_E_DENIED, "the archive contains an unreadable link: %.200s", at);
    }
    if (at[0] == '/' || snp_has_prefix(at, "../") || strstr(at, "/../") != NULL ||
        snp_has_suffix(at, "/..") || len >= sizeof(text)) {
        return snp_fail(err, SNP_E_DENIED, "the archive contains a path that leads outside: %.200s",
                        at);
    }
    if (text[0] == '-' && snp_parse_u64(size, &bytes) < 0) {
        return snp_fail(err, SNP_E_INVALID, "the contents of the archive cannot be read: %.200s",
                        text);
    }
    if (bytes > UNPACKED_MAX - *total) {
        return snp_fail(err, SNP_E_LIMIT, "the archive unpacks to more than %llu GiB",
                        UNPACKED_MAX >> 30);
    }
    *total += bytes;
    return 0;
}

static int contents_check(const char *archive, struct snp_err *err)
{
    const char *const argv[] = {
        "tar",  "--numeric-owner", "--anchored", "--exclude=./dev/*", "--exclude=dev/*",
        "-tvf", archive,           NULL};
    snp_autobuf struct snp_buf table = {0};
    uint64_t total = 0;
    size_t entries = 0;
    const char *at;
    const char *end;
    int r;

    snp_buf_init(&table, LIST_MAX);
    r = snp_spawn(argv, &table, err);
    at = r == 0 ? snp_buf_bytes(&table) : NULL;
    end = r == 0 ? at + table.len : NULL;
    while (r == 0 && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t len = newline == NULL ? (size_t)(end - at) : (size_t)(newline - at);

        r = ++entries > ENTRIES_MAX
                ? snp_fail(err, SNP_E_LIMIT, "the archive has more than %d entries", ENTRIES_MAX)
                : line_check(at, len, &total, err);
        at += len + 1;
    }
    return r;
}

static int unpack(const char *archive, const char *folder, struct snp_err *err)
{
    const char *const argv[] = {"tar",
                                "--no-same-owner",
                                "--no-same-permissions",
                                "--anchored",
                                "--exclude=./dev/*",
                                "--exclude=dev/*",
                                "-C",
                                folder,
                                "-xf",
                                archive,
                                NULL};
    const char *const chmod_argv[] = {"chmod", "-R", "u+rwX,go+rX,ug-s", folder, NULL};
    struct snp_tree_digest tree = {0};
    int r;

    snp_term_printf(stderr, "rootfs: unpacking %s, once\n", archive);
    (void)umask(0022);
    r = snp_spawn(argv, NULL, err);
    if (r == 0) {
        r = snp_spawn(chmod_argv, NULL, err); /* the sandbox must be able to read everything */
    }
    return r < 0 ? r : snp_tree_hash(folder, &tree, err); /* files, folders and links only */
}

struct cached_rootfs {
    char *path; /* owned */
    time_t used;
};

static int by_use(const void *a, const void *b)
{
    const struct cached_rootfs *x = a;
    const struct cached_rootfs *y = b;

    return (x->used < y->used) - (x->used > y->used);
}

/* Remove all but the most recently used, and remains of interrupted unpacking. */
static void sweep(const char *dir, const char *current)
{
    struct cached_rootfs kept[64];
    size_t n = 0;
    DIR *list = opendir(dir);
    const struct dirent *entry;

    while (list != NULL && n < SNP_ARRAY_LEN(kept) &&
           (entry = readdir(list)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        snp_autofree char *path = snp_need_format("%s/%s", dir, entry->d_name);
        struct stat st;

        if (entry->d_name[0] == '.' || path == NULL || snp_streq(path, current) ||
            lstat(path, &st) < 0) {
            continue;
        }
        kept[n++] =
            (struct cached_rootfs){.path = SNP_TAKE_PTR(path),
                                   .used = strchr(entry->d_name, '-') != NULL ? 0 : st.st_mtime};
    }
    if (list != NULL) {
        (void)closedir(list);
    }
    qsort(kept, n, sizeof(kept[0]), by_use);
    for (size_t i = 0; i < n; i++) {
        if (i >= KEPT_MAX - 1 || kept[i].used == 0) {
            snp_build_remove(kept[i].path);
        }
        free(kept[i].path);
    }
}

static int archive_folder(const char *archive,
                          const char *state_dir,
                          char **ret,
                          struct snp_err *err)
{
    char hash[SNP_TREE_HASH_LEN + 1];
    snp_autofree char *dir = snp_need_format("%s/rootfs", state_dir);
    snp_autofree char *lock = snp_need_format("%s/.lock", dir);
    snp_autofree char *folder = NULL;
    snp_autofree char *part = NULL;
    snp_autoclose int fd = -1;
    int r = snp_mkdir_p(dir, 0700, err);
    if (r == 0) {
        r = snp_file_hash(archive, hash, err);
    }
    if (r < 0) {
        return r;
    }
    fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || SNP_RETRY(flock(fd, LOCK_EX)) < 0) {
        return snp_fail_sys(err, errno, "lock %.300s", lock);
    }
    folder = snp_need_format("%s/%s", dir, hash + strlen("sha256:"));
    part = snp_need_format("%s-part", folder);
    if (utimensat(AT_FDCWD, folder, NULL, AT_SYMLINK_NOFOLLOW) < 0) { /* missing: unpack it */
        sweep(dir, folder);
        r = contents_check(archive, err);
        if (r == 0 && mkdir(part, 0755) < 0) {
            r = snp_fail_sys(err, errno, "make %.300s", part);
        }
        r = r < 0 ? r : unpack(archive, part, err);
        if (r == 0 && rename(part, folder) < 0) {
            r = snp_fail_sys(err, errno, "rename %.300s", part);
        }
        if (r < 0) {
            snp_build_remove(part);
            return r;
        }
    }
    *ret = SNP_TAKE_PTR(folder);
    return 0;
}

int snp_rootfs_folder(const char *given,
                      const char *state_dir,
                      char **ret_folder,
                      struct snp_err *err)
{
    snp_autofree char *path = realpath(given, NULL);
    struct stat st;
    int r;

    if (path == NULL || stat(path, &st) < 0) {
        return errno == ENOENT
                   ? snp_fail(err, SNP_E_NOT_FOUND, "--rootfs: no such file or folder: %s", given)
                   : snp_fail_sys(err, errno, "--rootfs %s", given);
    }
    if (S_ISDIR(st.st_mode)) {
        *ret_folder = SNP_TAKE_PTR(path);
        return 0;
    }
    if (!S_ISREG(st.st_mode)) {
        return snp_fail(err, SNP_E_INVALID, "--rootfs: %s is neither folder nor archive", given);
    }
    r = archive_folder(path, state_dir, ret_folder, err);
    return r < 0 ? snp_err_wrap(err, "--rootfs %.200s", given) : 0;
}
