/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/files/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "guest/dir.h"
#include "guest/files/sparse.h"

enum {
    MODE_BITS = 07777,
    TARGET_LEN = 4096,
    ROUNDS_MAX = 100000
};

uint64_t snp_tree_ns(const struct timespec *ts)
{
    return (uint64_t)ts->tv_sec * 1000000000U + (uint64_t)ts->tv_nsec;
}

static void node_done(struct snp_node *node)
{
    free(node->path);
    free(node->target);
}

void snp_tree_done(struct snp_tree *tree)
{
    for (size_t i = 0; i < tree->n; i++) {
        node_done(&tree->node[i]);
    }
    free(tree->node);
    *tree = (struct snp_tree){0};
}

int snp_tree_add(struct snp_tree *tree, const struct snp_node *node)
{
    if (tree->n == tree->cap) {
        size_t cap = tree->cap == 0 ? 64 : tree->cap * 2;
        struct snp_node *grown = realloc(tree->node, cap * sizeof(*grown));
        if (grown == NULL) {
            return -1;
        }
        tree->node = grown;
        tree->cap = cap;
    }
    tree->node[tree->n++] = *node;
    tree->bytes += node->kind == SNP_NODE_FILE ? node->stored : 0;
    tree->n_files += node->kind == SNP_NODE_DIR ? 0 : 1;
    tree->is_cut |= node->is_cut;
    return 0;
}

static int by_path(const void *a, const void *b)
{
    const struct snp_node *x = a;
    const struct snp_node *y = b;

    return strcmp(x->path, y->path);
}

struct snp_node *snp_tree_find(const struct snp_tree *tree, const char *path)
{
    struct snp_node key = {.path = (char *)(uintptr_t)path};

    return tree->n == 0 ? NULL : bsearch(&key, tree->node, tree->n, sizeof(*tree->node), by_path);
}

bool snp_tree_is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return n == 0 ? path[0] != '\0' : strncmp(path, folder, n) == 0 && path[n] == '/';
}

static enum snp_node_kind kind_of(const struct stat *st, bool is_layer)
{
    if (S_ISREG(st->st_mode)) {
        return SNP_NODE_FILE;
    }
    if (S_ISDIR(st->st_mode)) {
        return SNP_NODE_DIR;
    }
    if (S_ISLNK(st->st_mode)) {
        return SNP_NODE_LINK;
    }
    return is_layer && S_ISCHR(st->st_mode) && st->st_rdev == 0 ? SNP_NODE_WHITEOUT : SNP_NODE_LOST;
}

int snp_tree_open_dir(int parent_fd, const char *name)
{
    return openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int snp_tree_open_parent(int top_fd, const char *path, const char **ret_name)
{
    int fd = snp_tree_open_dir(top_fd, ".");
    char name[256];

    for (const char *slash; fd >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        size_t n = (size_t)(slash - path);
        int below = -1;
        if (n == 0 || n >= sizeof(name)) {
            errno = EINVAL;
        } else {
            memcpy(name, path, n);
            name[n] = '\0';
            below = snp_tree_open_dir(fd, name);
        }
        snp_closep(&fd);
        fd = below;
    }
    *ret_name = *path == '\0' ? "." : path;
    return fd;
}

/* Walking ------------------------------------------------------------------------------- */

struct tree_walk {
    struct snp_tree *tree;
    const struct snp_tree_most *most;
    int view_fd;
    bool is_layer;
    int eno; /* the reason for an early end */
    char path[SNP_TREE_PATH_LEN];
};

static int set_mode(int view_fd, const char *path, uint32_t mode)
{
    const char *name;
    snp_autoclose int fd = snp_tree_open_parent(view_fd, path, &name);

    return fd < 0 ? -1 : fchmodat(fd, name, mode, 0);
}

void snp_tree_return(int view_fd, const struct snp_tree *tree)
{
    for (size_t i = tree->n; i-- > 0;) {
        if (tree->node[i].is_lent) {
            (void)set_mode(view_fd, tree->node[i].path, tree->node[i].mode);
        }
    }
}

static int open_quietly(int dir_fd, const char *name)
{
    const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = openat(dir_fd, name, flags | O_NOATIME);

    return fd < 0 && errno == EPERM ? openat(dir_fd, name, flags) : fd;
}

int snp_tree_open_file(int dir_fd, const char *name, int view_fd, const struct snp_node *node)
{
    int fd = open_quietly(dir_fd, name);

    if (fd < 0 && errno == EACCES && set_mode(view_fd, node->path, node->mode | 0400) == 0) {
        fd = open_quietly(dir_fd, name);
        (void)set_mode(view_fd, node->path, node->mode);
    }
    return fd;
}

static bool is_opaque(int fd)
{
    char value = '\0';

    return fgetxattr(fd, "user.overlay.opaque", &value, sizeof(value)) == 1 && value == 'y';
}

static char *read_target(int parent_fd, const char *name)
{
    char target[TARGET_LEN];
    ssize_t n = readlinkat(parent_fd, name, target, sizeof(target));

    return n <= 0 || (size_t)n >= sizeof(target) ? NULL : strndup(target, (size_t)n);
}

static struct snp_node describe(const struct stat *st, enum snp_node_kind kind)
{
    return (struct snp_node){
        .size = (uint64_t)st->st_size,
        .stored = snp_stored_bytes(st),
        .ino = st->st_ino,
        .mtime_ns = snp_tree_ns(&st->st_mtim),
        .ctime_ns = snp_tree_ns(&st->st_ctim),
        .atime_ns = snp_tree_ns(&st->st_atim),
        .mode = st->st_mode & MODE_BITS,
        .kind = (uint8_t)kind,
    };
}

/* Append to the list; returns the index, or SIZE_MAX with w->eno. */
static size_t list(struct tree_walk *w, struct snp_node *node)
{
    struct snp_tree *tree = w->tree;

    node->path = strdup(w->path);
    if (node->path == NULL || snp_tree_add(tree, node) < 0) {
        node_done(node);
        w->eno = ENOMEM;
        return SIZE_MAX;
    }
    if (tree->n > w->most->nodes || tree->bytes > w->most->bytes) {
        w->eno = E2BIG;
        return SIZE_MAX;
    }
    return tree->n - 1;
}

static void walk_folder(struct tree_walk *w, int fd, size_t len, unsigned depth);

static void enter(struct tree_walk *w, int parent_fd, const char *name, size_t len, unsigned depth)
{
    size_t number = w->tree->n - 1;
    uint32_t mode = w->tree->node[number].mode;
    int fd;

    if ((mode & 0700) != 0700) {
        w->tree->node[number].is_lent = set_mode(w->view_fd, w->path, mode | 0700) == 0;
    }
    fd = depth >= SNP_TREE_DEPTH_MAX ? -1 : snp_tree_open_dir(parent_fd, name);
    if (fd < 0) {
        w->tree->node[number].is_cut = true;
        w->tree->is_cut = true;
        return;
    }
    w->tree->node[number].is_opaque = w->is_layer && is_opaque(fd);
    w->path[len] = '/';
    walk_folder(w, fd, len + 1, depth + 1);
    w->path[len] = '\0';
}

/* Visit a name of the folder parent_fd; w->path holds it, len bytes in total. */
static void visit(struct tree_walk *w, int parent_fd, const char *name, size_t len, unsigned depth)
{
    struct stat st;
    struct snp_node node;

    if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return; /* gone */
    }
    node = describe(&st, kind_of(&st, w->is_layer));
    if (node.kind == SNP_NODE_LINK) {
        node.target = read_target(parent_fd, name);
        node.kind = node.target == NULL ? SNP_NODE_LOST : SNP_NODE_LINK;
    }
    if (list(w, &node) != SIZE_MAX && node.kind == SNP_NODE_DIR) {
        enter(w, parent_fd, name, len, depth);
    }
}

/* Walk the folder fd (consumed), whose path has len bytes with its slash. */
static void walk_folder(struct tree_walk *w, int fd, size_t len, unsigned depth)
{
    snp_autodir DIR *dir = snp_dir_of(fd);
    const char *name;

    if (dir == NULL) {
        w->eno = ENOMEM;
        return;
    }
    while (w->eno == 0 && (name = snp_dir_next(dir)) != NULL) {
        size_t name_len = strlen(name);

        if (len + name_len + 2 > sizeof(w->path)) {
            w->tree->is_cut = true;
            continue;
        }
        memcpy(w->path + len, name, name_len + 1);
        visit(w, dirfd(dir), name, len + name_len, depth);
    }
    w->path[len == 0 ? 0 : len - 1] = '\0';
}

int snp_tree_walk(
    int top_fd, int view_fd, bool is_layer, const struct snp_tree_most *most, struct snp_tree *ret)
{
    struct tree_walk w = {.tree = ret, .most = most, .view_fd = view_fd, .is_layer = is_layer};
    struct snp_node top;
    struct stat st;
    int fd = -1;

    if (fstat(view_fd < 0 ? top_fd : view_fd, &st) < 0) {
        return errno;
    }
    top = describe(&st, SNP_NODE_DIR);
    if (list(&w, &top) == SIZE_MAX) {
        return w.eno;
    }
    if ((top.mode & 0700) != 0700) {
        ret->node[0].is_lent = fchmod(view_fd, top.mode | 0700) == 0;
    }
    fd = snp_tree_open_dir(top_fd, ".");
    if (fd < 0) {
        w.eno = errno;
    } else {
        walk_folder(&w, fd, 0, 0);
    }
    if (ret->n > 1) {
        qsort(ret->node, ret->n, sizeof(*ret->node), by_path);
    }
    return w.eno;
}

/* Removing ------------------------------------------------------------------------------ */

struct tree_removal {
    int top_fd; /* deeply nested folders are moved here */
    unsigned moved;
    unsigned rounds;
};

static void empty(struct tree_removal *r, int fd, unsigned depth);

/* Open a folder to empty it, whatever its mode. */
static int open_to_empty(int parent_fd, const char *name)
{
    int fd = snp_tree_open_dir(parent_fd, name);
    struct stat st;

    if (fd < 0 && errno == EACCES) {
        (void)!fchmodat(parent_fd, name, 0700, 0);
        fd = snp_tree_open_dir(parent_fd, name);
    }
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700) {
        (void)!fchmod(fd, 0700);
    }
    return fd;
}

static void remove_one(struct tree_removal *r, int parent_fd, const char *name, unsigned depth)
{
    char aside[40];
    int fd;

    if (unlinkat(parent_fd, name, 0) == 0 || (errno != EISDIR && errno != EPERM) ||
        unlinkat(parent_fd, name, AT_REMOVEDIR) == 0) {
        return;
    }
    if (depth >= SNP_TREE_DEPTH_MAX) {
        (void)snprintf(aside, sizeof(aside), ".removed-%d-%u", (int)getpid(), r->moved++);
        if (renameat(parent_fd, name, r->top_fd, aside) == 0) {
            return;
        }
    }
    fd = open_to_empty(parent_fd, name);
    if (fd >= 0) {
        empty(r, fd, depth + 1);
        (void)unlinkat(parent_fd, name, AT_REMOVEDIR);
    }
}

/* Empty the folder fd (consumed). */
static void empty(struct tree_removal *r, int fd, unsigned depth)
{
    snp_autodir DIR *dir = snp_dir_of(fd);
    const char *name;

    while (r->rounds++ < SNP_TREE_NODES_MAX && (name = snp_dir_next(dir)) != NULL) {
        remove_one(r, dirfd(dir), name, depth);
    }
}

static bool is_empty(int fd)
{
    snp_autodir DIR *dir = snp_dir_of(snp_tree_open_dir(fd, "."));

    return dir != NULL && snp_dir_next(dir) == NULL;
}

int snp_tree_empty(int fd)
{
    struct tree_removal r = {.top_fd = fd};

    /* Folders moved up are removed in the next pass. */
    for (unsigned pass = 0; pass < ROUNDS_MAX; pass++) {
        unsigned moved = r.moved;
        int own = snp_tree_open_dir(fd, ".");
        r.rounds = 0;
        if (own < 0) {
            return errno;
        }
        empty(&r, own, 0);
        if (is_empty(fd)) {
            return 0;
        }
        if (moved == r.moved) {
            break;
        }
    }
    return ENOTEMPTY;
}

int snp_tree_remove(int parent_fd, const char *name)
{
    int fd;
    int r;

    if (unlinkat(parent_fd, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return errno;
    }
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0) {
        return 0;
    }
    fd = open_to_empty(parent_fd, name);
    if (fd < 0) {
        return errno;
    }
    r = snp_tree_empty(fd);
    snp_closep(&fd);
    if (r == 0 && unlinkat(parent_fd, name, AT_REMOVEDIR) < 0) {
        r = errno;
    }
    return r;
}

int snp_tree_stamp(int parent_fd, const char *name, uint32_t mode, uint64_t mtime_ns)
{
    int64_t ns = (int64_t)mtime_ns; /* negative before 1970 */
    int64_t part = ((ns % 1000000000) + 1000000000) % 1000000000;
    const struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = (ns - part) / 1000000000, .tv_nsec = part},
    };
    struct stat st;

    if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno;
    }
    if (S_ISDIR(st.st_mode) && st.st_uid != geteuid()) {
        return 0; /* the top, if an engine has set no owner: no process inside can change it */
    }
    if (!S_ISLNK(st.st_mode) && (st.st_mode & MODE_BITS) != mode &&
        fchmodat(parent_fd, name, mode, 0) < 0) {
        return errno;
    }
    if (snp_tree_ns(&st.st_mtim) != mtime_ns &&
        utimensat(parent_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0) {
        return errno;
    }
    return 0;
}
