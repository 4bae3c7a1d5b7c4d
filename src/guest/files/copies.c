/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file counts as unchanged if its inode, size and times are, but only where these are reliable: a
 * time equal to "now" when the copy was made may hide a later write (the kernel's clock for files
 * is coarse), and so may a writer or a mapping that existed already. In doubt the contents are
 * compared. Mapping a file sets its access time, given the mount options of the workspace; where it
 * does not, in memory, contents are always compared.
 */
#include "guest/files/copies.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include "base/fd.h"
#include "guest/files/sparse.h"
#include "guest/pid1/wire.h"
#include "guest/spec.h"

enum {
    COPIES_MAX = 1024,
    NAME_LEN = 16
};

struct copy {
    uint32_t number;
    struct snp_tree tree;
};

struct snp_copies {
    struct snp_workspace place;
    struct copy copy[COPIES_MAX];
    size_t n;
    struct snp_tree last;       /* the workspace at the last walk */
    struct snp_content *doomed; /* owned; to remove when no reader is left */
    uint64_t bytes;             /* of all copies */
    size_t n_contents;
    uint32_t next_content;
    bool is_read;
    bool tells_mapping; /* access times of files reveal mappings */
};

static char chunk_a[SNP_RUN_MAX]; /* one thread */
static char chunk_b[SNP_RUN_MAX];

static void content_name(const struct snp_content *content, char name[NAME_LEN])
{
    (void)snprintf(name, NAME_LEN, "%08x", content->number);
}

int snp_content_open(const struct snp_workspace *place, const struct snp_content *content)
{
    char name[NAME_LEN];

    content_name(content, name);
    return openat(place->store_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

static void content_remove(struct snp_copies *s, struct snp_content *content)
{
    char name[NAME_LEN];

    content_name(content, name);
    (void)unlinkat(s->place.store_fd, name, 0);
    s->bytes -= content->stored;
    s->n_contents--;
    free(content);
}

static void content_unref(struct snp_copies *s, struct snp_content *content)
{
    if (content == NULL || --content->refs > 0) {
        return;
    }
    if (s->is_read) {
        content->next = s->doomed;
        s->doomed = content;
    } else {
        content_remove(s, content);
    }
}

void snp_copies_read(struct snp_copies *s, bool on)
{
    s->is_read = on;
    while (!on && s->doomed != NULL) {
        struct snp_content *content = s->doomed;
        s->doomed = content->next;
        content_remove(s, content);
    }
}

static void tree_done(struct snp_copies *s, struct snp_tree *tree)
{
    for (size_t i = 0; i < tree->n; i++) {
        content_unref(s, tree->node[i].content);
    }
    snp_tree_done(tree);
}

void snp_copies_forget(struct snp_copies *s)
{
    tree_done(s, &s->last);
}

/* Copy a list, with references to its contents. 0 or -1. */
static int tree_copy(const struct snp_tree *from, struct snp_tree *ret)
{
    for (size_t i = 0; i < from->n; i++) {
        struct snp_node node = from->node[i];
        node.path = strdup(node.path);
        node.target = node.target == NULL ? NULL : strdup(node.target);
        if (node.path == NULL || (from->node[i].target != NULL && node.target == NULL) ||
            snp_tree_add(ret, &node) < 0) {
            free(node.path);
            free(node.target);
            return -1;
        }
        if (node.content != NULL) {
            node.content->refs++;
        }
    }
    return 0;
}

/* The coarse clock of file times. */
static uint64_t coarse_now(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_REALTIME_COARSE, &ts);
    return snp_tree_ns(&ts);
}

/* Copying ------------------------------------------------------------------------------- */

/* Copy content->size bytes of fd into to. 0 or errno: EFBIG beyond most. */
static int content_bytes(int fd, int to, uint64_t most, struct snp_content *content)
{
    struct snp_sum sum;
    int r;

    snp_sum_init(&sum);
    r = snp_runs_copy(fd, to, content->size, most, &sum);
    content->stored = sum.bytes;
    content->packed = snp_sum_packed(&sum, content->size);
    snp_sum_key(&sum, content->size, content->key);
    return r == EAGAIN ? EFBIG : r;
}

/* 0 or errno. *ret has one reference. */
static int content_make(struct snp_copies *s,
                        int fd,
                        const struct snp_node *node,
                        uint64_t most,
                        struct snp_content **ret)
{
    struct snp_content *content = calloc(1, sizeof(*content));
    snp_autoclose int to = -1;
    char name[NAME_LEN];
    int r;

    if (content == NULL) {
        return ENOMEM;
    }
    *content = (struct snp_content){.size = node->size, .number = s->next_content++, .refs = 1};
    content_name(content, name);
    to =
        openat(s->place.store_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    r = to < 0 ? errno : content_bytes(fd, to, most, content);
    if (r != 0) {
        if (to >= 0) {
            (void)unlinkat(s->place.store_fd, name, 0);
        }
        free(content);
        return r;
    }
    s->bytes += content->stored;
    s->n_contents++;
    *ret = content;
    return 0;
}

bool snp_files_are_equal(int a, int b, uint64_t size)
{
    struct snp_runs x = {.fd = a, .size = size, .chunk = chunk_a};
    struct snp_runs y = {.fd = b, .size = size, .chunk = chunk_b};
    struct snp_extent p = {0};
    struct snp_extent q = {0};
    bool has_more = true;

    while (has_more) {
        has_more = snp_runs_next(&x, &p);
        if (snp_runs_next(&y, &q) != has_more ||
            (has_more &&
             (p.offset != q.offset || p.n != q.n || memcmp(p.bytes, q.bytes, p.n) != 0))) {
            return false;
        }
    }
    return x.eno == 0 && y.eno == 0;
}

/* Taking copies ------------------------------------------------------------------------------- */

struct copy_pass {
    struct snp_copies *s;
    uint64_t new_left; /* bytes that may be copied */
    struct snp_copied *kept;
    const char *path; /* of the folder dir_fd is, below the layer */
    size_t path_len;
    int dir_fd; /* of the layer; -1 = none yet */
};

/* Open the folder of the node; names are sorted, so it is often the previous one. */
static int open_folder(struct copy_pass *k, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - path);

    *ret_name = slash == NULL ? path : slash + 1;
    if (k->dir_fd >= 0 && k->path_len == n && strncmp(k->path, path, n) == 0) {
        return k->dir_fd;
    }
    snp_closep(&k->dir_fd);
    k->dir_fd = snp_tree_open_parent(k->s->place.layer_fd, path, ret_name);
    k->path = path;
    k->path_len = n;
    return k->dir_fd;
}

/* Is this file open for writing, or mapped writable? In doubt yes. */
static bool has_writer(int fd)
{
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0) {
        return true;
    }
    (void)fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
}

static bool is_same_file(const struct snp_node *a, const struct snp_node *b)
{
    return a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
}

/* It cannot have been written to since then. */
static bool is_as_known(const struct snp_node *known, const struct snp_node *node)
{
    return known->content != NULL && known->is_sure && is_same_file(known, node) &&
           known->atime_ns == node->atime_ns;
}

/* Copy the contents, if there is room. 0 or errno. */
static int content_new(struct copy_pass *k, int fd, struct snp_node *node)
{
    struct snp_copies *s = k->s;
    uint64_t room = SNP_COPIES_BYTES_MAX - s->bytes;
    int r;

    if (node->stored > k->new_left) {
        k->kept->flags |= SNP_KEEP_SHORT;
        return ENOSPC;
    }
    if (node->stored > room || s->n_contents >= SNP_COPIES_FILES_MAX) {
        return ENOSPC;
    }
    /* It may exceed the allocated size, if the file system compresses. */
    r = content_make(s, fd, node, room < k->new_left ? room : k->new_left, &node->content);
    k->new_left -= r == 0 ? node->content->stored : 0;
    return r;
}

/* Copy a file that must be opened. 0 or errno. */
static int content_look(struct copy_pass *k, struct snp_node *node, const struct snp_node *known)
{
    struct snp_copies *s = k->s;
    const char *name;
    int dir_fd = open_folder(k, node->path, &name);
    snp_autoclose int fd =
        dir_fd < 0 ? -1 : snp_tree_open_file(dir_fd, name, s->place.view_fd, node);
    uint64_t now;
    struct stat st;

    now = coarse_now();
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        node->kind = SNP_NODE_LOST;
        k->kept->flags |= SNP_KEEP_LOST;
        return 0;
    }
    node->ctime_ns = snp_tree_ns(&st.st_ctim);
    node->atime_ns = snp_tree_ns(&st.st_atim);
    node->mtime_ns = snp_tree_ns(&st.st_mtim);
    node->size = (uint64_t)st.st_size;
    node->stored = snp_stored_bytes(&st);
    node->is_sure = s->tells_mapping && node->ctime_ns < now && node->atime_ns < now;
    /* The local tier refuses leases, so writers are unknown. */
    if (s->place.is_local || has_writer(fd)) {
        node->is_sure = false;
        k->kept->flags |= SNP_KEEP_OPEN;
    }
    if (known != NULL && known->content->size == node->size) {
        snp_autoclose int content_fd = snp_content_open(&s->place, known->content);
        if (content_fd >= 0 && snp_files_are_equal(fd, content_fd, node->size)) {
            node->content = known->content;
            node->content->refs++;
            return 0;
        }
    }
    return content_new(k, fd, node);
}

static int take_file(struct copy_pass *k, struct snp_node *node)
{
    const struct snp_node *known = snp_tree_find(&k->s->last, node->path);

    known = known == NULL || known->content == NULL || known->size != node->size ? NULL : known;
    if (known != NULL && is_as_known(known, node)) {
        node->content = known->content;
        node->content->refs++;
        node->is_sure = true;
        return 0;
    }
    /* Often only a mode or a time has changed; changed contents of the same size are rare. */
    return content_look(k, node, known);
}

static int take_all(struct copy_pass *k, struct snp_tree *tree)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < tree->n; i++) {
        struct snp_node *node = &tree->node[i];
        if (node->kind == SNP_NODE_FILE) {
            r = take_file(k, node);
        }
        k->kept->flags |= node->kind == SNP_NODE_LOST ? SNP_KEEP_LOST : 0;
    }
    snp_closep(&k->dir_fd);
    return r;
}

static struct copy *find(const struct snp_copies *s, uint32_t number)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->copy[i].number == number) {
            return (struct copy *)(uintptr_t)&s->copy[i];
        }
    }
    return NULL;
}

const struct snp_tree *snp_copies_find(const struct snp_copies *s, uint32_t number)
{
    struct copy *copy = find(s, number);

    return copy == NULL ? NULL : &copy->tree;
}

/* Store tree (taken) as the copy; last becomes the same. 0 or errno. */
static int enter(struct snp_copies *s, uint32_t number, struct snp_tree *tree)
{
    struct copy *copy = find(s, number);
    struct snp_tree last = {0};

    if (copy == NULL && s->n == COPIES_MAX) {
        return ENOSPC;
    }
    if (tree_copy(tree, &last) < 0) {
        tree_done(s, &last);
        return ENOMEM;
    }
    if (copy == NULL) {
        copy = &s->copy[s->n++];
        *copy = (struct copy){.number = number};
    }
    tree_done(s, &copy->tree);
    tree_done(s, &s->last);
    copy->tree = *tree;
    s->last = last;
    *tree = (struct snp_tree){0};
    return 0;
}

int snp_copies_take(struct snp_copies *s,
                    uint32_t number,
                    const struct snp_copy_most *most,
                    struct snp_copied *ret)
{
    /* The caller does not count folders, but they are limited. */
    const struct snp_tree_most walk_most = {.nodes = (size_t)most->files * 3 + 64,
                                            .bytes = most->bytes};
    struct copy_pass k = {.s = s, .new_left = most->new_bytes, .kept = ret, .dir_fd = -1};
    struct snp_tree tree = {0};
    int r;

    *ret = (struct snp_copied){0};
    if (s->place.is_layer && s->place.base_fd < 0) {
        return EOPNOTSUPP; /* a file of the project could not be restored */
    }
    r = snp_tree_walk(s->place.layer_fd, s->place.view_fd, s->place.is_layer, &walk_most, &tree);
    if (r == 0 && (tree.is_cut || tree.n_files > most->files)) {
        r = E2BIG;
    }
    r = r == 0 ? take_all(&k, &tree) : r;
    snp_tree_return(s->place.view_fd, &tree);
    r = r == 0 ? enter(s, number, &tree) : r;
    if (r == 0) {
        const struct snp_tree *kept = snp_copies_find(s, number);
        ret->bytes = kept->bytes;
        ret->files = (uint32_t)kept->n_files;
    } else if (r == E2BIG || r == ENOSPC || r == EDQUOT || r == EFBIG) {
        ret->bytes = tree.bytes;
        ret->files = (uint32_t)tree.n_files;
        ret->flags |= SNP_KEEP_OVER;
        r = 0;
    }
    tree_done(s, &tree);
    return r;
}

int snp_copies_drop(struct snp_copies *s, uint32_t number)
{
    struct copy *copy = find(s, number);

    if (copy == NULL) {
        return ENOENT;
    }
    tree_done(s, &copy->tree);
    *copy = s->copy[--s->n];
    return 0;
}

/* Restoring ----------------------------------------------------------------------------- */

/* After a restore the layer's files hold want's contents; record this for the next walk. */
static void learn(struct snp_copies *s, const struct snp_tree *want)
{
    const struct snp_tree_most most = {.nodes = SNP_TREE_NODES_MAX, .bytes = UINT64_MAX};
    struct snp_tree now = {0};

    if (snp_tree_walk(s->place.layer_fd, s->place.view_fd, s->place.is_layer, &most, &now) != 0) {
        snp_tree_return(s->place.view_fd, &now);
        snp_tree_done(&now);
        snp_copies_forget(s);
        return;
    }
    snp_tree_return(s->place.view_fd, &now);
    for (size_t i = 0; i < now.n; i++) {
        struct snp_node *node = &now.node[i];
        const struct snp_node *same =
            node->kind == SNP_NODE_FILE ? snp_tree_find(want, node->path) : NULL;
        if (same != NULL && same->content != NULL && same->content->size == node->size) {
            /* As reliable as before: a sleeping copy of the interpreter may hold it open. */
            const struct snp_node *known = snp_tree_find(&s->last, node->path);
            node->content = same->content;
            node->content->refs++;
            node->is_sure =
                known != NULL && known->content == same->content && is_as_known(known, node);
        }
    }
    snp_copies_forget(s);
    s->last = now;
}

int snp_copies_restore(struct snp_copies *s, uint32_t number)
{
    struct copy *copy = find(s, number);
    int r;

    if (copy == NULL) {
        return ENOENT;
    }
    r = snp_restore(&s->place, &copy->tree, &s->last);
    if (r == 0) {
        learn(s, &copy->tree);
    } else {
        snp_copies_forget(s);
    }
    return r;
}

const struct snp_workspace *snp_copies_workspace(const struct snp_copies *s)
{
    return &s->place;
}

struct snp_copies *snp_copies_new(const struct snp_workspace *place)
{
    struct snp_copies *s = calloc(1, sizeof(*s));
    struct statfs fs;
    const unsigned long lazy = ST_NOATIME | ST_NODIRATIME | ST_RELATIME;

    if (s != NULL) {
        s->place = *place;
        s->tells_mapping = fstatfs(place->view_fd, &fs) == 0 &&
                           ((fs.f_type != TMPFS_MAGIC && fs.f_type != OVERLAYFS_SUPER_MAGIC) ||
                            ((unsigned long)fs.f_flags & lazy) == 0);
    }
    return s;
}
