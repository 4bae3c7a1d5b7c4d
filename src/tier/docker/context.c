/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Written without a library: there are three kinds of entry, with order, owners and names of our
 * choice. Names too long for a header precede it, as in GNU tar.
 */
#include "tier/docker/context.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "guest/files/tree.h"
#include "guest/spec.h"
#include "tier/docker/docker.h"
#include "tier/engine/secrets.h"

enum {
    BLOCK = 512,
    NAME_LEN = 100,
    CHUNK = 64 << 10,
    NODES_MAX = 400000,
};
#define SIZE_MAX_OCTAL (8ULL << 30)

struct tar_header {
    char name[NAME_LEN];
    char mode[8];
    char uid[8];
    char gid[8];
    char size[12];
    char mtime[12];
    char sum[8];
    char type;
    char target[NAME_LEN];
    char magic[8];
    char rest[BLOCK - 265];
};
_Static_assert(sizeof(struct tar_header) == BLOCK, "a header is a block");

struct tar {
    int fd;
    int eno; /* the first failure */
};

static void put(struct tar *tar, const void *bytes, size_t n)
{
    if (tar->eno == 0 && snp_write_all(tar->fd, bytes, n) < 0) {
        tar->eno = errno;
    }
}

static void pad(struct tar *tar, uint64_t size)
{
    static const char zeros[BLOCK];

    put(tar, zeros, (BLOCK - size % BLOCK) % BLOCK);
}

static void put_header(
    struct tar *tar, char type, const char *name, const char *target, const struct snp_node *node)
{
    struct tar_header h = {.type = type, .magic = "ustar  "};
    unsigned sum = 0;

    memcpy(h.name, name, strnlen(name, sizeof(h.name)));
    memcpy(h.target, target, strnlen(target, sizeof(h.target)));
    (void)snprintf(h.mode, sizeof(h.mode), "%07o", node->mode & 0777U);
    (void)snprintf(h.uid, sizeof(h.uid), "%07o", 0U);
    (void)snprintf(h.gid, sizeof(h.gid), "%07o", 0U);
    (void)snprintf(h.size, sizeof(h.size), "%011llo", (unsigned long long)node->size);
    (void)snprintf(h.mtime, sizeof(h.mtime), "%011llo",
                   (unsigned long long)(node->mtime_ns / 1000000000U) & 077777777777ULL);
    memset(h.sum, ' ', sizeof(h.sum));
    for (size_t i = 0; i < sizeof(h); i++) {
        sum += ((const unsigned char *)&h)[i];
    }
    (void)snprintf(h.sum, sizeof(h.sum) - 1, "%06o", sum);
    put(tar, &h, sizeof(h));
}

/* Write a name or target before its header, if it is too long for it. */
static void put_long(struct tar *tar, char type, const char *text)
{
    const struct snp_node head = {.size = strlen(text) + 1};

    if (strlen(text) > NAME_LEN) {
        put_header(tar, type, "././@LongLink", "", &head);
        put(tar, text, head.size);
        pad(tar, head.size);
    }
}

/* Write exactly as many bytes as the header states, even if the file changes. */
static void put_content(struct tar *tar, int fd, uint64_t size, char *chunk)
{
    for (uint64_t left = size; left > 0 && tar->eno == 0;) {
        size_t step = left < CHUNK ? (size_t)left : CHUNK;
        ssize_t n = SNP_RETRY(read(fd, chunk, step));

        if (n <= 0) {
            memset(chunk, 0, step);
            n = (ssize_t)step;
        }
        put(tar, chunk, (size_t)n);
        left -= (uint64_t)n;
    }
    pad(tar, size);
}

struct context {
    struct tar tar;
    int dir_fd;
    struct snp_buf mask;
    struct snp_tree tree;
    char *chunk; /* owned; CHUNK bytes */
};

static void put_node(struct context *c, const struct snp_node *node)
{
    struct snp_node head = *node;
    snp_autoclose int fd = -1;
    const char *target = node->kind == SNP_NODE_LINK ? node->target : "";
    char type = node->kind == SNP_NODE_DIR ? '5' : node->kind == SNP_NODE_LINK ? '2' : '0';
    struct stat st;

    head.size = 0;
    if (node->kind == SNP_NODE_FILE) {
        fd = snp_docker_open_masked(c->dir_fd, snp_buf_bytes(&c->mask), c->mask.len, node);
        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
            return;
        }
        head.size = (uint64_t)st.st_size;
        c->tar.eno = head.size >= SIZE_MAX_OCTAL ? EFBIG : c->tar.eno;
    }
    head.mode |= node->kind == SNP_NODE_LINK ? 0777 : 0;
    put_long(&c->tar, 'K', target);
    put_long(&c->tar, 'L', node->path);
    put_header(&c->tar, type, node->path, target, &head);
    if (fd >= 0) {
        put_content(&c->tar, fd, head.size, c->chunk);
    }
}

static bool is_excluded_folder(const char *name, size_t n)
{
    static const char *const folders[] = {
        ".git",         ".hg",         ".svn",        ".venv",         "venv",
        "node_modules", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache",
        ".tox",         ".nox",        "build",       "dist"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(folders); i++) {
        if (strlen(folders[i]) == n && memcmp(folders[i], name, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_excluded(const struct snp_node *node)
{
    static const char *const globs[] = {"*.pyc",     "*.pyo",     "*.pyd",
                                        ".DS_Store", ".coverage", ".snipara-sandbox-*"};
    const char *name = node->path;

    for (const char *slash; (slash = strchr(name, '/')) != NULL; name = slash + 1) {
        if (is_excluded_folder(name, (size_t)(slash - name))) {
            return true;
        }
    }
    for (size_t i = 0; node->kind != SNP_NODE_DIR && i < SNP_ARRAY_LEN(globs); i++) {
        if (fnmatch(globs[i], name, 0) == 0) {
            return true;
        }
    }
    /* Files that the engine would interpret; our Dockerfile has the first name. */
    return snp_streq(node->path, SNP_DOCKERFILE) || snp_streq(node->path, ".dockerignore") ||
           (node->kind == SNP_NODE_DIR && is_excluded_folder(name, strlen(name))) ||
           node->kind == SNP_NODE_LOST || node->path[0] == '\0';
}

static int find_files(struct context *c, const char *path, struct snp_err *err)
{
    const struct snp_tree_most most = {.nodes = NODES_MAX, .bytes = UINT64_MAX};
    snp_autojson json_t *paths = json_array();
    int eno;

    c->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (c->dir_fd < 0) {
        return snp_fail_sys(err, errno, "%.300s", path);
    }
    SNP_TRY(snp_secrets_scan(c->dir_fd, &c->mask, paths, err));
    eno = snp_tree_walk(c->dir_fd, -1, false, &most, &c->tree);
    if (eno == E2BIG) {
        return snp_fail(err, SNP_E_LIMIT,
                        "%.300s has more than %d files; set "
                        "docker_workspace_path to a smaller folder",
                        path, NODES_MAX);
    }
    if (eno != 0) {
        return snp_fail_sys(err, eno, "%.300s", path);
    }
    snp_docker_mask(&c->tree, snp_buf_bytes(&c->mask), c->mask.len);
    return 0;
}

static int write_tar(struct context *c, const char *dockerfile, struct snp_err *err)
{
    static const char end[2 * BLOCK];
    const struct snp_node head = {.mode = 0644, .size = strlen(dockerfile)};

    put_header(&c->tar, '0', SNP_DOCKERFILE, "", &head);
    put(&c->tar, dockerfile, head.size);
    pad(&c->tar, head.size);
    for (size_t i = 0; i < c->tree.n; i++) {
        if (!is_excluded(&c->tree.node[i])) {
            put_node(c, &c->tree.node[i]);
        }
    }
    put(&c->tar, end, sizeof(end));
    return c->tar.eno == 0 ? 0 : snp_fail_sys(err, c->tar.eno, "write the build context");
}

int snp_docker_context(
    const char *path, const char *dockerfile, int *ret_fd, uint64_t *ret_bytes, struct snp_err *err)
{
    const char *folder = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe): one thread */
    struct context c = {.dir_fd = -1, .chunk = malloc(CHUNK)};
    struct stat st = {0};
    int r;

    folder = folder == NULL || folder[0] == '\0' ? "/tmp" : folder;
    c.tar.fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    snp_buf_init(&c.mask, SNP_MASK_MAX);
    r = c.chunk == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
        : c.tar.fd < 0  ? snp_fail_sys(err, errno, "a file in %.200s", folder)
                        : find_files(&c, path, err);
    r = r < 0 ? r : write_tar(&c, dockerfile, err);
    if (r == 0 && fstat(c.tar.fd, &st) == 0) {
        *ret_fd = SNP_TAKE_FD(c.tar.fd);
        *ret_bytes = (uint64_t)st.st_size;
    }
    snp_closep(&c.tar.fd);
    snp_closep(&c.dir_fd);
    snp_tree_done(&c.tree);
    snp_buf_done(&c.mask);
    free(c.chunk);
    return r;
}
