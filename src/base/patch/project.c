/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The project is the user's, but folders in it may belong to others, who may change them at any
 * time: no step follows a link, nothing waits for a pipe, and every read is bounded.
 */
#include "base/patch/project.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    TRIES = 16, /* for a path that is being renamed */
    CHUNK = 256 << 10,
    TARGET_MAX = 4096,
    DEPTH_MAX = 64,
};

#define HASHED_MAX ((uint64_t)1 << 30) /* a larger file is not read */

int snp_project_open_at(int project_fd, const char *path, int flags)
{
    const struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd = -1;

    errno = EAGAIN;
    for (int i = 0; i < TRIES && fd < 0 && (errno == EAGAIN || errno == EINTR); i++) {
        fd = (int)syscall(SYS_openat2, project_fd, path[0] == '\0' ? "." : path, &how, sizeof(how));
    }
    return fd;
}

int snp_project_open(const char *path, int *ret_fd, struct snp_err *err)
{
    snp_autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = root < 0 || path[0] != '/'
                 ? -1
                 : snp_project_open_at(root, path + 1, O_RDONLY | O_DIRECTORY);

    if (fd < 0) {
        return errno == ENOENT ? snp_fail(err, SNP_E_NOT_FOUND,
                                          "the project %.200s does not exist any more", path)
               : errno == ELOOP
                   ? snp_fail(err, SNP_E_DENIED,
                              "the project %.200s lies behind a symbolic link now", path)
                   : snp_fail_sys(err, errno, "open %.200s", path);
    }
    *ret_fd = fd;
    return 0;
}

/* Read to the end: the hash, and the contents if they fit. */
static int contents_read(
    int fd, uint64_t most, struct snp_patch_side *ret, EVP_MD_CTX *md, struct snp_err *err)
{
    snp_autofree char *chunk = malloc(CHUNK);
    snp_autofree char *bytes = most > 0 ? malloc((size_t)most + 1) : NULL;
    uint64_t size = 0;
    ssize_t n = 1;

    SNP_TRY_MEMORY(chunk != NULL && (most == 0 || bytes != NULL), err);
    while (n > 0) {
        n = snp_read_all(fd, chunk, CHUNK);
        if (n < 0) {
            return snp_fail_sys(err, errno, "read");
        }
        if (size + (uint64_t)n > HASHED_MAX || EVP_DigestUpdate(md, chunk, (size_t)n) != 1) {
            return snp_fail(err, SNP_E_LIMIT, "larger than 1 GiB");
        }
        if (bytes != NULL && size + (uint64_t)n <= most) {
            memcpy(bytes + size, chunk, (size_t)n);
        }
        size += (uint64_t)n;
    }
    ret->size = size;
    if (bytes != NULL && size <= most) {
        bytes[size] = '\0';
        ret->bytes = SNP_TAKE_PTR(bytes);
    }
    return 0;
}

static int file_read(int fd, uint64_t most, struct snp_patch_side *ret, struct snp_err *err)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    int r = md == NULL || EVP_DigestInit_ex(md, EVP_sha256(), NULL) != 1
                ? snp_fail(err, SNP_E_INTERNAL, "SHA-256 cannot be computed")
                : 0;

    SNP_THEN(r, contents_read(fd, most, ret, md, err));
    if (r == 0 && (EVP_DigestFinal_ex(md, hash, &len) != 1 || len * 2 != SNP_PATCH_HASH_LEN)) {
        r = snp_fail(err, SNP_E_INTERNAL, "SHA-256 cannot be computed");
    }
    EVP_MD_CTX_free(md);
    if (r == 0) {
        snp_hex(hash, len, ret->hash);
    }
    return r;
}

static int link_read(int fd, struct snp_patch_side *ret, struct snp_err *err)
{
    char target[TARGET_MAX];
    ssize_t n = readlinkat(fd, "", target, sizeof(target));

    if (n < 0 || (size_t)n >= sizeof(target)) {
        ret->kind = SNP_PATCH_OTHER;
        return 0;
    }
    ret->target = strndup(target, (size_t)n);
    SNP_TRY_MEMORY(ret->target, err);
    return 0;
}

int snp_project_look(int project_fd,
                     const char *path,
                     uint64_t *bytes_left,
                     struct snp_patch_side *ret,
                     struct snp_err *err)
{
    snp_autoclose int fd = snp_project_open_at(project_fd, path, O_PATH | O_NOFOLLOW);
    snp_autoclose int file = -1;
    uint64_t most;
    struct stat st;

    *ret = (struct snp_patch_side){0};
    if (fd < 0 || fstat(fd, &st) < 0) {
        ret->kind = errno == ENOENT || errno == ENOTDIR ? SNP_PATCH_NONE : SNP_PATCH_OTHER;
        return 0;
    }
    ret->mode = st.st_mode & 0777;
    ret->ctime = (double)st.st_ctim.tv_sec + (double)st.st_ctim.tv_nsec / 1e9;
    ret->kind = S_ISREG(st.st_mode)   ? SNP_PATCH_FILE
                : S_ISLNK(st.st_mode) ? SNP_PATCH_LINK
                : S_ISDIR(st.st_mode) ? SNP_PATCH_FOLDER
                                      : SNP_PATCH_OTHER;
    if (ret->kind == SNP_PATCH_LINK) {
        return link_read(fd, ret, err);
    }
    if (ret->kind != SNP_PATCH_FILE) {
        return 0;
    }
    file = snp_project_open_at(project_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    most = *bytes_left < SNP_PATCH_FILE_MAX ? *bytes_left : SNP_PATCH_FILE_MAX;
    most = (uint64_t)st.st_size <= most ? (uint64_t)st.st_size + 1 : 0;
    if (file < 0 || fstat(file, &st) < 0 || !S_ISREG(st.st_mode) ||
        file_read(file, most, ret, err) < 0) {
        snp_patch_side_done(ret);
        ret->kind = SNP_PATCH_OTHER;
        return 0;
    }
    *bytes_left -= ret->bytes == NULL ? 0 : ret->size < *bytes_left ? ret->size : *bytes_left;
    return 0;
}

/* Walking ------------------------------------------------------------------------------------ */

struct file_walk {
    int project_fd;
    int (*found)(void *ctx, const char *path, struct snp_err *err);
    void *ctx;
    unsigned n;
};

static int folder_walk(struct file_walk *w,
                       const char *folder,
                       unsigned depth,
                       struct snp_err *err);

static int entry_walk(struct file_walk *w,
                      int dir_fd,
                      const char *folder,
                      const char *name,
                      unsigned depth,
                      struct snp_err *err)
{
    snp_autofree char *path = snp_format("%s%s%s", folder, folder[0] == '\0' ? "" : "/", name);
    struct stat st;

    SNP_TRY_MEMORY(path, err);
    if (++w->n > SNP_PATCH_FILES_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "more than %d files differ from the project",
                        SNP_PATCH_FILES_MAX);
    }
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0; /* gone */
    }
    return S_ISDIR(st.st_mode) ? folder_walk(w, path, depth + 1, err) : w->found(w->ctx, path, err);
}

static int folder_walk(struct file_walk *w, const char *folder, unsigned depth, struct snp_err *err)
{
    int fd =
        depth > DEPTH_MAX ? -1 : snp_project_open_at(w->project_fd, folder, O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int r = 0;

    if (dir == NULL) {
        int eno = depth > DEPTH_MAX ? ELOOP : errno;

        snp_closep(&fd);
        return snp_fail_sys(err, eno, "open %.200s of the project", folder);
    }
    while (r == 0 &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): own stream */
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            r = entry_walk(w, dirfd(dir), folder, entry->d_name, depth, err);
        }
    }
    (void)closedir(dir);
    return r;
}

int snp_project_walk(int project_fd,
                     const char *folder,
                     int (*found)(void *ctx, const char *path, struct snp_err *err),
                     void *ctx,
                     struct snp_err *err)
{
    struct file_walk w = {.project_fd = project_fd, .found = found, .ctx = ctx};

    return folder_walk(&w, folder, 0, err);
}
