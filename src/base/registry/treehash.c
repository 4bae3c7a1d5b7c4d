/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash is SHA-256 over one record per entry, in the byte order of the names: kind, execute bit,
 * path, NUL, length, then content or link target. Folders are opened relative to their parent and
 * without following links, so all hashed files are below the folder.
 */
#include "base/registry/treehash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    CHUNK = 1 << 20,
    PATH_LEN = 4096,
    NAMES_MAX = 100000, /* of one folder */
};

struct hash_walk {
    EVP_MD_CTX *ctx;
    struct snp_tree_digest *tree;
    char *chunk;
    char path[PATH_LEN]; /* relative to the folder; "" = itself */
    unsigned depth;
};

static void add(struct hash_walk *w, const void *bytes, size_t n)
{
    (void)EVP_DigestUpdate(w->ctx, bytes, n);
}

static void add_head(struct hash_walk *w, char kind, mode_t mode, uint64_t length)
{
    char head[40];
    int n = snprintf(head, sizeof(head), "%c%c%llu ", kind,
                     S_ISREG(mode) && (mode & 0111) != 0 ? 'x' : '-', (unsigned long long)length);

    add(w, head, (size_t)n);
    add(w, w->path, strlen(w->path) + 1);
}

static int hash_file(struct hash_walk *w, int dir_fd, const char *name, struct snp_err *err)
{
    snp_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    uint64_t left;

    if (fd < 0 || fstat(fd, &st) < 0) {
        return snp_fail_sys(err, errno, "%.200s", w->path);
    }
    if (!S_ISREG(st.st_mode)) {
        return snp_fail(err, SNP_E_INVALID, "%.200s changed while it was read", w->path);
    }
    left = (uint64_t)st.st_size;
    w->tree->bytes += left;
    if (w->tree->bytes > SNP_TREE_BYTES_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the folder has more than %llu GiB",
                        SNP_TREE_BYTES_MAX >> 30);
    }
    add_head(w, 'f', st.st_mode, left);
    while (left > 0) {
        ssize_t n = SNP_RETRY(read(fd, w->chunk, left < CHUNK ? (size_t)left : CHUNK));
        if (n <= 0) {
            return snp_fail(err, SNP_E_INVALID, "%.200s changed while it was read", w->path);
        }
        add(w, w->chunk, (size_t)n);
        left -= (uint64_t)n;
    }
    return 0;
}

static int hash_link(struct hash_walk *w, int dir_fd, const char *name, struct snp_err *err)
{
    char target[PATH_LEN];
    ssize_t n = readlinkat(dir_fd, name, target, sizeof(target));

    if (n < 0 || n == (ssize_t)sizeof(target)) {
        return snp_fail_sys(err, n < 0 ? errno : ENAMETOOLONG, "%.200s", w->path);
    }
    add_head(w, 'l', 0, (uint64_t)n);
    add(w, target, (size_t)n);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct folder_names {
    char **at; /* owned, with its elements */
    size_t n;
    size_t room;
};

static void names_free(struct folder_names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        free(names->at[i]);
    }
    free((void *)names->at);
}

static int names_add(struct folder_names *names, const char *name)
{
    if (names->n == names->room) {
        size_t room = names->room == 0 ? 32 : names->room * 2;
        char **at = reallocarray((void *)names->at, room, sizeof(*at));
        if (at == NULL) {
            return -1;
        }
        names->at = at;
        names->room = room;
    }
    names->at[names->n] = strdup(name);
    if (names->at[names->n] == NULL) {
        return -1;
    }
    names->n++;
    return 0;
}

static int names_read(const struct hash_walk *w,
                      int fd,
                      struct folder_names *names,
                      struct snp_err *err)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    int r = 0;

    if (dir == NULL) {
        r = snp_fail_sys(err, errno, "read folder %.200s", w->path);
        snp_closep(&copy);
        return r;
    }
    while (r == 0 && (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        if (snp_streq(entry->d_name, ".") || snp_streq(entry->d_name, "..") ||
            (w->tree->skip_bytecode && snp_streq(entry->d_name, "__pycache__"))) {
            continue;
        }
        if (names->n == NAMES_MAX) {
            r = snp_fail(err, SNP_E_LIMIT, "folder %.200s has more than %d entries", w->path,
                         NAMES_MAX);
        } else if (names_add(names, entry->d_name) < 0) {
            r = snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    (void)closedir(dir);
    if (names->n > 0) {
        qsort((void *)names->at, names->n, sizeof(*names->at), by_name);
    }
    return r;
}

static int hash_dir(struct hash_walk *w, int fd, struct snp_err *err);

static int hash_entry(struct hash_walk *w, int dir_fd, const char *name, struct snp_err *err)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return snp_fail_sys(err, errno, "%.200s", w->path);
    }
    if (++w->tree->files > SNP_TREE_FILES_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the folder has more than %d files", SNP_TREE_FILES_MAX);
    }
    if (w->tree->must_be_public && !S_ISLNK(st.st_mode) &&
        (st.st_mode & (S_ISDIR(st.st_mode) ? 0005U : 0004U)) !=
            (S_ISDIR(st.st_mode) ? 0005U : 0004U)) {
        return snp_fail(err, SNP_E_DENIED,
                        "%.200s is not readable by others, so a sandbox cannot read it either; "
                        "run chmod -R o+rX on the folder",
                        w->path);
    }
    if (S_ISLNK(st.st_mode)) {
        return hash_link(w, dir_fd, name, err);
    }
    if (S_ISREG(st.st_mode)) {
        return hash_file(w, dir_fd, name, err);
    }
    if (S_ISDIR(st.st_mode)) {
        int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int r;

        if (fd < 0) {
            return snp_fail_sys(err, errno, "%.200s", w->path);
        }
        add_head(w, 'd', 0, 0);
        r = hash_dir(w, fd, err);
        (void)close(fd);
        return r;
    }
    return snp_fail(err, SNP_E_INVALID, "%.200s is not a file, folder or link", w->path);
}

static int hash_dir(struct hash_walk *w, int fd, struct snp_err *err)
{
    struct folder_names names = {0};
    size_t len = strlen(w->path);
    int r =
        ++w->depth > SNP_TREE_DEPTH_MAX
            ? snp_fail(err, SNP_E_LIMIT, "folders are nested deeper than %d", SNP_TREE_DEPTH_MAX)
            : names_read(w, fd, &names, err);

    for (size_t i = 0; r == 0 && i < names.n; i++) {
        if (snprintf(w->path + len, sizeof(w->path) - len, "%s%s", len == 0 ? "" : "/",
                     names.at[i]) >= (int)(sizeof(w->path) - len)) {
            r = snp_fail(err, SNP_E_LIMIT, "a path is longer than %d bytes", PATH_LEN);
        } else {
            r = hash_entry(w, fd, names.at[i], err);
        }
        w->path[len] = '\0';
    }
    names_free(&names);
    w->depth--;
    return r;
}

static int hash_text(EVP_MD_CTX *ctx, char out[SNP_TREE_HASH_LEN + 1], struct snp_err *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (EVP_DigestFinal_ex(ctx, digest, &n) != 1 || n != 32) {
        return snp_fail(err, SNP_E_INTERNAL, "the hash cannot be computed");
    }
    (void)snprintf(out, SNP_TREE_HASH_LEN + 1, "sha256:");
    snp_hex(digest, n, out + strlen("sha256:"));
    return 0;
}

int snp_bytes_hash(const void *bytes,
                   size_t n,
                   char out[SNP_TREE_HASH_LEN + 1],
                   struct snp_err *err)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int r = ctx == NULL || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1 ||
                    EVP_DigestUpdate(ctx, bytes, n) != 1
                ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                : hash_text(ctx, out, err);

    EVP_MD_CTX_free(ctx);
    return r;
}

int snp_file_hash(const char *path, char out[SNP_TREE_HASH_LEN + 1], struct snp_err *err)
{
    snp_autoclose int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    snp_autofree char *chunk = malloc(CHUNK);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    ssize_t n = -1;
    int r = 0;

    if (fd < 0) {
        r = snp_fail_sys(err, errno, "open %.300s", path);
    } else if (ctx == NULL || chunk == NULL || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
        r = snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    while (r == 0 && (n = SNP_RETRY(read(fd, chunk, CHUNK))) > 0) {
        (void)EVP_DigestUpdate(ctx, chunk, (size_t)n);
    }
    if (r == 0) {
        r = n < 0 ? snp_fail_sys(err, errno, "read %.300s", path) : hash_text(ctx, out, err);
    }
    EVP_MD_CTX_free(ctx);
    return r;
}

int snp_tree_hash(const char *path, struct snp_tree_digest *tree, struct snp_err *err)
{
    snp_autoclose int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snp_autofree char *chunk = malloc(CHUNK);
    struct hash_walk w = {.ctx = EVP_MD_CTX_new(), .tree = tree, .chunk = chunk};
    int r = 0;

    tree->files = tree->bytes = 0;
    if (fd < 0) {
        r = snp_fail_sys(err, errno, "open %.300s", path);
    } else if (w.ctx == NULL || chunk == NULL ||
               EVP_DigestInit_ex(w.ctx, EVP_sha256(), NULL) != 1) {
        r = snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (r == 0) {
        r = hash_dir(&w, fd, err);
        r = r < 0 ? snp_err_wrap(err, "%.120s", path) : 0;
    }
    if (r == 0) {
        r = hash_text(w.ctx, tree->hash, err);
    }
    EVP_MD_CTX_free(w.ctx);
    return r;
}
