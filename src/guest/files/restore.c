/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores the workspace to a list, through its merged view.
 *
 * Three passes: remove, write, set modes and times. In an overlay a covered file of the project
 * cannot be uncovered, so it is written again from the base. Only differing files of the layer are
 * changed; a file keeps its inode if possible, because a sleeping copy of the interpreter may hold
 * it open.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/dir.h"
#include "guest/files/copies.h"
#include "guest/files/sparse.h"

struct restore {
    const struct snp_workspace *place;
    const struct snp_tree *want;
    const struct snp_tree *known;
    struct snp_tree now;     /* the current layer */
    struct snp_tree reverts; /* to revert to the base, with everything below */
    /* folders whose base is hidden by a newer one: restore missing entries */
    struct snp_tree refills;
    struct snp_tree folders;        /* of the base, whose mode and time must be set */
    char folder[SNP_TREE_PATH_LEN]; /* the last opened folder ... */
    int folder_fd;                  /* ... owned; -1 = none */
    int eno;
};

static void fail(struct restore *r, int eno)
{
    r->eno = r->eno == 0 && eno != 0 ? eno : r->eno;
}

/* Remember a path for later, in order. */
static void note(struct restore *r, struct snp_tree *paths, const char *path)
{
    const struct snp_node node = {.path = strdup(path)};

    if (node.path == NULL || snp_tree_add(paths, &node) < 0) {
        free(node.path);
        fail(r, ENOMEM);
    }
}

static int open_again(struct restore *r, const char *path, const char **ret_name)
{
    int fd = snp_tree_open_parent(r->place->view_fd, path, ret_name);
    char part[SNP_TREE_PATH_LEN];
    struct stat st;

    if (fd < 0 && errno != EACCES) {
        return -1;
    }
    if (fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) == 0700) {
        return fd;
    }
    snp_closep(&fd);
    /* Open up each folder from the top; the last pass sets the final modes. */
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        const char *name;
        memcpy(part, path, (size_t)(slash - path));
        part[slash - path] = '\0';
        snp_autoclose int parent = snp_tree_open_parent(r->place->view_fd, part, &name);
        if (parent >= 0 && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(st.st_mode) && (st.st_mode & 0700) != 0700 &&
            fchmodat(parent, name, 0700, 0) == 0) {
            note(r, &r->folders, part);
        }
    }
    return snp_tree_open_parent(r->place->view_fd, path, ret_name);
}

/* A folder was removed or made: the open one may be outdated. */
static void forget_folder(struct restore *r)
{
    snp_closep(&r->folder_fd);
}

/*
 * Open the folder of path in the view, whatever its mode; borrowed until the next call. -1 with
 * errno.
 */
static int open_view(struct restore *r, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path);

    *ret_name = slash == NULL ? path : slash + 1;
    if (r->folder_fd >= 0 && path[0] != '\0' && strlen(r->folder) == n &&
        memcmp(r->folder, path, n) == 0) {
        return r->folder_fd;
    }
    snp_closep(&r->folder_fd);
    r->folder_fd = open_again(r, path, ret_name);
    memcpy(r->folder, path, n);
    r->folder[n] = '\0';
    return r->folder_fd;
}

/* The entry of the base at path, unless want covers it; false if there is none. */
static bool base_stat(const struct restore *r, const char *path, struct stat *ret)
{
    char part[SNP_TREE_PATH_LEN];
    const char *name;
    snp_autoclose int fd = -1;

    if (r->place->base_fd < 0) {
        return false;
    }
    for (const char *slash = path; slash != NULL; slash = strchr(slash + 1, '/')) {
        size_t n = slash == path ? 0 : (size_t)(slash - path); /* the top first */
        const struct snp_node *node;
        memcpy(part, path, n);
        part[n] = '\0';
        node = snp_tree_find(r->want, part);
        if (node != NULL && (node->kind != SNP_NODE_DIR || node->is_opaque)) {
            return false;
        }
    }
    fd = snp_tree_open_parent(r->place->base_fd, path, &name);
    return fd >= 0 && fstatat(fd, name, ret, AT_SYMLINK_NOFOLLOW) == 0;
}

static void take_away(struct restore *r, const char *path)
{
    const char *name;
    int fd = open_view(r, path, &name);

    if (fd >= 0) {
        fail(r, snp_tree_remove(fd, name));
        forget_folder(r);
    } else if (errno != ENOENT && errno != ENOTDIR) {
        fail(r, errno);
    }
}

/* Free the bytes of a file that will be rewritten. */
static void make_room(struct restore *r, const struct snp_node *want, const struct snp_node *now)
{
    const struct snp_node *known = snp_tree_find(r->known, now->path);
    bool is_known = known != NULL && known->content != NULL && known->ino == now->ino &&
                    known->mtime_ns == now->mtime_ns && known->ctime_ns == now->ctime_ns;
    const char *name;

    if (want->size == now->size && now->stored <= want->stored &&
        (!is_known || known->content == want->content)) {
        return; /* it may be unchanged */
    }
    int dir = open_view(r, now->path, &name);
    snp_autoclose int fd =
        dir < 0 ? -1 : openat(dir, name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1) {
        (void)!ftruncate(fd, 0);
    } else {
        take_away(r, now->path);
    }
}

/* Join a folder and a name; false if the path is too long. */
static bool join(char path[SNP_TREE_PATH_LEN], const char *folder, const char *name)
{
    int n = folder[0] == '\0' ? snprintf(path, SNP_TREE_PATH_LEN, "%s", name)
                              : snprintf(path, SNP_TREE_PATH_LEN, "%s/%s", folder, name);

    return n > 0 && n < SNP_TREE_PATH_LEN;
}

/* Remove the folder's entries that want lacks, and hide their base. */
static void purge(struct restore *r, const char *folder)
{
    const char *name;
    int parent = open_view(r, folder, &name);
    snp_autodir DIR *dir = snp_dir_of(parent < 0 ? -1 : snp_tree_open_dir(parent, name));
    char path[SNP_TREE_PATH_LEN];

    while ((name = snp_dir_next(dir)) != NULL) {
        if (join(path, folder, name) && snp_tree_find(r->want, path) == NULL) {
            fail(r, snp_tree_remove(dirfd(dir), name));
        }
    }
}

/* Removing ---------------------------------------------------------------------------- */

/* The layer has an entry that want lacks. True if nothing below it needs a check. */
static bool clear_extra(struct restore *r, const struct snp_node *now)
{
    struct stat st;
    bool has_base = base_stat(r, now->path, &st);

    if (now->kind == SNP_NODE_WHITEOUT) {
        if (has_base) {
            note(r, &r->reverts, now->path);
        }
        return false;
    }
    if (has_base && S_ISDIR(st.st_mode) && now->kind == SNP_NODE_DIR) {
        note(r, now->is_opaque ? &r->refills : &r->folders, now->path);
        return false;
    }
    if (has_base) {
        note(r, &r->reverts, now->path);
    }
    if (!has_base || now->kind != SNP_NODE_FILE || !S_ISREG(st.st_mode)) {
        take_away(r, now->path);
    }
    return true;
}

static bool is_same_link(const struct snp_node *a, const struct snp_node *b)
{
    return a->target != NULL && b->target != NULL && strcmp(a->target, b->target) == 0;
}

/* Is the base hidden in this folder: is it, or a parent, opaque? */
static bool is_covered(const struct snp_tree *tree, const char *path)
{
    char part[SNP_TREE_PATH_LEN];
    size_t n = strlen(path);

    memcpy(part, path, n + 1);
    for (;;) {
        const struct snp_node *node = snp_tree_find(tree, part);
        char *slash = strrchr(part, '/');
        if (node != NULL && node->is_opaque) {
            return true;
        }
        if (slash == NULL) {
            return false;
        }
        *slash = '\0';
    }
}

/* Both have it. True if nothing below it needs a check. */
static bool clear_known(struct restore *r, const struct snp_node *want, const struct snp_node *now)
{
    struct stat st;

    if (want->kind == SNP_NODE_LOST) {
        return true; /* never copied, so never changed */
    }
    if (want->kind != now->kind || (want->kind == SNP_NODE_LINK && !is_same_link(want, now))) {
        if (now->kind != SNP_NODE_WHITEOUT) {
            take_away(r, now->path);
        }
        return true;
    }
    if (want->kind == SNP_NODE_FILE) {
        make_room(r, want, now);
    } else if (want->kind == SNP_NODE_DIR) {
        if (now->is_cut) { /* too deep to check; want has nothing there */
            purge(r, now->path);
        }
        if (is_covered(&r->now, now->path) && !want->is_opaque && base_stat(r, now->path, &st)) {
            note(r, &r->refills, now->path);
        }
    }
    return false;
}

static void clear_layer(struct restore *r)
{
    const char *skip = NULL;

    for (size_t i = 0; i < r->now.n && r->eno == 0; i++) {
        const struct snp_node *now = &r->now.node[i];
        const struct snp_node *want = snp_tree_find(r->want, now->path);
        if (now->path[0] == '\0' || (skip != NULL && snp_tree_is_below(now->path, skip))) {
            continue;
        }
        bool is_done = want == NULL ? clear_extra(r, now) : clear_known(r, want, now);
        skip = is_done ? now->path : skip;
    }
    /* Hide entries of the project that the layer does not hide. */
    for (size_t i = 0; i < r->want->n && r->eno == 0; i++) {
        const struct snp_node *want = &r->want->node[i];
        if (want->kind == SNP_NODE_WHITEOUT) {
            take_away(r, want->path);
        } else if (want->kind == SNP_NODE_DIR && is_covered(r->want, want->path)) {
            purge(r, want->path);
        }
    }
}

/* Writing -------------------------------------------------------------------------------- */

/* Open or make the file of this name for writing, keeping its inode if possible. -1 with errno. */
static int open_to_write(int dir_fd, const char *name, uint32_t mode, bool *ret_is_new)
{
    const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    struct stat st;
    int fd = -1;
    int r;

    *ret_is_new = false;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISREG(st.st_mode) && st.st_nlink == 1) {
            fd = openat(dir_fd, name, flags);
            if (fd < 0 && errno == EACCES && fchmodat(dir_fd, name, 0600, 0) == 0) {
                fd = openat(dir_fd, name, flags);
            }
        }
        if (fd >= 0) {
            return fd;
        }
        r = snp_tree_remove(dir_fd, name);
        if (r != 0) {
            errno = r;
            return -1;
        }
    }
    *ret_is_new = true;
    return openat(dir_fd, name, flags | O_CREAT | O_EXCL, mode & 0777);
}

struct content {
    int fd;
    uint64_t size;
    uint32_t mode;
    uint64_t mtime_ns;
};

static int write_content(int dir_fd, const char *name, const struct content *c)
{
    bool is_new;
    snp_autoclose int fd = open_to_write(dir_fd, name, c->mode, &is_new);
    struct stat st = {0};

    if (fd < 0 || fstat(fd, &st) < 0) {
        return errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return EEXIST; /* of another kind now: a race with the code */
    }
    if (!is_new && (uint64_t)st.st_size == c->size && snp_files_are_equal(c->fd, fd, c->size)) {
        return 0;
    }
    return ftruncate(fd, 0) < 0 ? errno : snp_runs_copy(c->fd, fd, c->size, UINT64_MAX, NULL);
}

static int write_file(int dir_fd, const char *name, const struct content *c)
{
    struct stat st;
    int r = write_content(dir_fd, name, c);

    r = r == 0 ? snp_tree_stamp(dir_fd, name, c->mode, c->mtime_ns) : r;
    /* If its mode cannot be set, make the file again with the right mode. */
    if (r != 0 && fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
        (st.st_mode & 0777) != (c->mode & 0777) && snp_tree_remove(dir_fd, name) == 0) {
        r = write_content(dir_fd, name, c);
        r = r == 0 ? snp_tree_stamp(dir_fd, name, c->mode, c->mtime_ns) : r;
    }
    return r;
}

/* Is the layer's file certainly equal to want's, without a comparison? */
static bool is_untouched(const struct restore *r, const struct snp_node *want)
{
    const struct snp_node *now = snp_tree_find(&r->now, want->path);
    const struct snp_node *known = snp_tree_find(r->known, want->path);

    return now != NULL && known != NULL && known->is_sure && known->content == want->content &&
           now->kind == SNP_NODE_FILE && now->mode == want->mode &&
           now->mtime_ns == want->mtime_ns && now->ino == known->ino && now->size == known->size &&
           now->mtime_ns == known->mtime_ns && now->ctime_ns == known->ctime_ns &&
           now->atime_ns == known->atime_ns;
}

static void put_file(struct restore *r, int dir_fd, const char *name, const struct snp_node *want)
{
    if (is_untouched(r, want)) {
        return;
    }
    snp_autoclose int from = snp_content_open(r->place, want->content);
    const struct content content = {
        .fd = from, .size = want->size, .mode = want->mode, .mtime_ns = want->mtime_ns};

    fail(r, from < 0 ? errno : snp_forgive(r->place, write_file(dir_fd, name, &content)));
}

static int put_link(int dir_fd, const char *name, const char *target, uint64_t mtime_ns)
{
    char now[SNP_TREE_PATH_LEN];
    ssize_t n = readlinkat(dir_fd, name, now, sizeof(now));

    if (n != (ssize_t)strlen(target) || memcmp(now, target, (size_t)n) != 0) {
        int r = snp_tree_remove(dir_fd, name);
        if (r != 0) {
            return r;
        }
        if (symlinkat(target, dir_fd, name) < 0) {
            return errno;
        }
    }
    return snp_tree_stamp(dir_fd, name, 0, mtime_ns);
}

/*
 * Make a folder of this name, accessible to us until the last pass; *ret_is_new if it did not
 * exist. 0 or errno.
 */
static int put_dir(int dir_fd, const char *name, uint32_t mode, bool *ret_is_new)
{
    struct stat st;
    int r;

    *ret_is_new = false;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISDIR(st.st_mode)) {
            return 0;
        }
        r = snp_tree_remove(dir_fd, name);
        if (r != 0) {
            return r;
        }
    }
    *ret_is_new = true;
    return mkdirat(dir_fd, name, (mode & 01777) | 0700) < 0 ? errno : 0;
}

static void put_node(struct restore *r, const struct snp_node *want)
{
    const char *name;
    int dir = open_view(r, want->path, &name);
    bool is_new;
    struct stat st;

    if (dir < 0) {
        fail(r, errno);
        return;
    }
    switch ((enum snp_node_kind)want->kind) {
    case SNP_NODE_DIR:
        fail(r, put_dir(dir, name, want->mode, &is_new));
        if (is_new && !want->is_opaque && base_stat(r, want->path, &st) && S_ISDIR(st.st_mode)) {
            note(r, &r->refills, want->path);
        }
        break;
    case SNP_NODE_FILE:
        put_file(r, dir, name, want);
        break;
    case SNP_NODE_LINK:
        fail(r, snp_forgive(r->place, put_link(dir, name, want->target, want->mtime_ns)));
        break;
    case SNP_NODE_WHITEOUT:
    case SNP_NODE_LOST:
        break;
    }
}

/* From the base ----------------------------------------------------------------------------- */

static void revert(struct restore *r, const char *path);

/* Restore entries of the folder's base that want does not name. */
static void refill(struct restore *r, const char *folder)
{
    const char *name;
    snp_autoclose int parent = snp_tree_open_parent(r->place->base_fd, folder, &name);
    snp_autodir DIR *dir = snp_dir_of(parent < 0 ? -1 : snp_tree_open_dir(parent, name));
    snp_autofree char *path = malloc(SNP_TREE_PATH_LEN);

    if (dir == NULL || path == NULL) {
        fail(r, dir == NULL ? errno : ENOMEM);
        return;
    }
    while (r->eno == 0 && (name = snp_dir_next(dir)) != NULL) {
        if (join(path, folder, name) && snp_tree_find(r->want, path) == NULL) {
            revert(r, path);
        }
    }
    note(r, &r->folders, folder);
}

static void revert_file(
    struct restore *r, int base, int view, const char *name, const struct stat *st)
{
    snp_autoclose int from = openat(base, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const struct content content = {.fd = from,
                                    .size = (uint64_t)st->st_size,
                                    .mode = st->st_mode & 07777,
                                    .mtime_ns = snp_tree_ns(&st->st_mtim)};

    fail(r, from < 0 ? errno : snp_forgive(r->place, write_file(view, name, &content)));
}

static void revert(struct restore *r, const char *path)
{
    const char *name;
    snp_autoclose int base = snp_tree_open_parent(r->place->base_fd, path, &name);
    int view = open_view(r, path, &name);
    char target[SNP_TREE_PATH_LEN];
    struct stat st;
    bool is_new;
    ssize_t n;

    if (base < 0 || view < 0 || fstatat(base, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        fail(r, errno);
        return;
    }
    if (S_ISREG(st.st_mode)) {
        revert_file(r, base, view, name, &st);
    } else if (S_ISDIR(st.st_mode)) {
        fail(r, put_dir(view, name, st.st_mode & 07777, &is_new));
        refill(r, path);
    } else if (S_ISLNK(st.st_mode)) {
        n = readlinkat(base, name, target, sizeof(target) - 1);
        target[n < 0 ? 0 : n] = '\0';
        fail(r, n < 0 ? errno : put_link(view, name, target, snp_tree_ns(&st.st_mtim)));
    }
}

/* Modes and times last, bottom-up, because each change below sets a folder's time. */
static void stamp(struct restore *r, const char *path, uint32_t mode, uint64_t mtime_ns)
{
    const char *name;
    int fd = open_view(r, path, &name);
    int eno = fd < 0 ? errno : snp_tree_stamp(fd, name, mode, mtime_ns);

    fail(r, eno == ENOENT ? 0 : snp_forgive(r->place, eno));
}

static void stamp_folders(struct restore *r)
{
    for (size_t i = r->folders.n; i-- > 0;) {
        struct stat st;
        const char *path = r->folders.node[i].path;
        if (snp_tree_find(r->want, path) == NULL && base_stat(r, path, &st)) {
            stamp(r, path, st.st_mode & 07777, snp_tree_ns(&st.st_mtim));
        }
    }
    for (size_t i = r->want->n; i-- > 0;) {
        const struct snp_node *want = &r->want->node[i];
        if (want->kind == SNP_NODE_DIR) {
            stamp(r, want->path, want->mode, want->mtime_ns);
        }
    }
}

int snp_restore(const struct snp_workspace *place,
                const struct snp_tree *want,
                const struct snp_tree *known)
{
    const struct snp_tree_most most = {.nodes = SNP_TREE_NODES_MAX, .bytes = UINT64_MAX};
    struct restore r = {.place = place, .want = want, .known = known, .folder_fd = -1};
    mode_t mask = umask(0); /* as in guest/files/unpack.c */
    struct stat st;

    if (fstat(place->view_fd, &st) == 0 && (st.st_mode & 0700) != 0700) {
        (void)!fchmod(place->view_fd, 0700);
    }
    fail(&r, snp_tree_walk(place->layer_fd, place->view_fd, place->is_layer, &most, &r.now));
    if (r.eno == 0) {
        clear_layer(&r);
    }
    for (size_t i = 0; i < want->n && r.eno == 0; i++) {
        if (want->node[i].path[0] != '\0') {
            put_node(&r, &want->node[i]);
        }
    }
    for (size_t i = 0; i < r.reverts.n && r.eno == 0; i++) {
        revert(&r, r.reverts.node[i].path);
    }
    for (size_t i = 0; i < r.refills.n && r.eno == 0; i++) {
        refill(&r, r.refills.node[i].path);
    }
    if (r.eno == 0) {
        stamp_folders(&r);
    }
    (void)umask(mask);
    forget_folder(&r);
    snp_tree_done(&r.now);
    snp_tree_done(&r.reverts);
    snp_tree_done(&r.refills);
    snp_tree_done(&r.folders);
    return r.eno;
}
