/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads part "files" into the workspace. Restored variables may run code at the same time: folders
 * are opened one by one and never through a link, files are newly created, and any conflict ends
 * the reading.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/files/bundle.h"
#include "guest/files/pack.h"
#include "guest/files/sparse.h"

/* A file with further names to come. */
struct known_file {
    char *name; /* owned; encoded */
    char key[33];
};

struct unpacking {
    const struct snp_workspace *place;
    struct known_file *known; /* owned, n_known of them, sorted by name */
    size_t n_known;
    struct snp_tree folders; /* with the modes and times to set */
    char last[SNP_BUNDLE_NAME_LEN];
    /* The current file: */
    int fd; /* -1 = none */
    char path[SNP_BUNDLE_PATH_LEN];
    char key[33];
    uint32_t mode;
    int64_t mtime_ns;
    uint64_t left;   /* bytes of data still to come */
    uint64_t length; /* of the file */
    uint64_t at;     /* offset of the next byte */
    uint64_t run_left;
    unsigned char head[SNP_RUN_HEAD]; /* of a run */
    size_t n_head;
    bool is_sparse;
    bool is_link;    /* another name of an existing file: its data are only checked */
    bool has_others; /* further names follow */
    struct snp_sum sum;
};

static int write_bytes(struct unpacking *u, const char *bytes, size_t n)
{
    snp_sum_data(&u->sum, bytes, n);
    u->at += u->is_link ? n : 0;
    while (!u->is_link && n > 0) {
        ssize_t done = SNP_RETRY(pwrite(u->fd, bytes, n, (off_t)u->at));
        if (done <= 0) {
            return done < 0 ? errno : ENOSPC;
        }
        bytes += done;
        u->at += (uint64_t)done;
        n -= (size_t)done;
    }
    return 0;
}

/*
 * Collect bytes of a run's head; when complete, the run begins. Runs are in order and within the
 * file.
 */
static int take_head(struct unpacking *u, const char *bytes, size_t n, size_t *ret_n)
{
    size_t step = SNP_RUN_HEAD - u->n_head < n ? SNP_RUN_HEAD - u->n_head : n;
    uint64_t head[2];

    memcpy(u->head + u->n_head, bytes, step);
    u->n_head += step;
    *ret_n = step;
    if (u->n_head < SNP_RUN_HEAD) {
        return 0;
    }
    u->n_head = 0;
    memcpy(head, u->head, sizeof(head));
    if (head[1] == 0 || head[0] < u->at || head[0] > u->length || head[1] > u->length - head[0]) {
        return EBADMSG;
    }
    snp_sum_run(&u->sum, head[0], head[1]);
    u->at = head[0];
    u->run_left = head[1];
    return 0;
}

static int write_part(struct unpacking *u, const char *bytes, size_t n)
{
    int r = 0;

    u->left -= n; /* the bundle's reader guarantees that they suffice */
    while (r == 0 && n > 0) {
        size_t step = n;
        if (u->is_sparse && u->run_left == 0) {
            r = take_head(u, bytes, n, &step);
        } else {
            step = u->is_sparse && u->run_left < n ? (size_t)u->run_left : n;
            u->run_left -= u->is_sparse ? step : 0;
            r = write_bytes(u, bytes, step);
        }
        bytes += step;
        n -= step;
    }
    return r;
}

/* Remember a file, to link its further names. */
static bool know(struct unpacking *u)
{
    size_t n = u->n_known;
    struct known_file *more = (n & (n - 1)) != 0 /* grow to the next power of two */
                                  ? u->known
                                  : realloc(u->known, (n == 0 ? 1 : 2 * n) * sizeof(*more));

    if (more == NULL) {
        return false;
    }
    u->known = more;
    more[n] = (struct known_file){.name = strdup(u->last)};
    memcpy(more[n].key, u->key, sizeof(more[n].key));
    u->n_known += more[n].name == NULL ? 0 : 1;
    return more[n].name != NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct known_file *)a)->name, ((const struct known_file *)b)->name);
}

/* Link name to the named file, if that has the same contents. Else it becomes a separate file. */
static bool link_file(struct unpacking *u, int dir, const char *name, const char *linked)
{
    char path[SNP_BUNDLE_PATH_LEN];
    const struct known_file wanted = {.name = (char *)(uintptr_t)linked};
    const struct known_file *found =
        u->n_known == 0 ? NULL : bsearch(&wanted, u->known, u->n_known, sizeof(wanted), by_name);
    const char *first;

    if (found == NULL || strcmp(found->key, u->key) != 0 || snp_bundle_to_path(linked, path) < 0) {
        return false;
    }
    snp_autoclose int folder = snp_tree_open_parent(u->place->view_fd, path, &first);
    return folder >= 0 && linkat(folder, first, dir, name, 0) == 0;
}

/* The file is complete: does it match its key? */
static int end_file(struct unpacking *u)
{
    uint64_t key[2];
    char text[33];
    const char *name;
    int r = u->is_sparse && !u->is_link && ftruncate(u->fd, (off_t)u->length) < 0 ? errno : 0;

    snp_closep(&u->fd);
    snp_sum_key(&u->sum, u->length, key);
    snp_bundle_key(key, text);
    if (r != 0 || strcmp(text, u->key) != 0 || u->n_head > 0 || u->run_left > 0) {
        return r != 0 ? r : EBADMSG;
    }
    if (u->has_others && !know(u)) {
        return ENOMEM;
    }
    snp_autoclose int dir = snp_tree_open_parent(u->place->view_fd, u->path, &name);
    return dir < 0
               ? errno
               : snp_forgive(u->place, snp_tree_stamp(dir, name, u->mode, (uint64_t)u->mtime_ns));
}

static int begin_file(struct unpacking *u,
                      int dir,
                      const char *name,
                      const struct snp_bundle_item *item)
{
    int r = snp_tree_remove(dir, name);

    if (r != 0) {
        return r;
    }
    if (item->is_same || strlen(item->key) != sizeof(u->key) - 1) {
        return EBADMSG; /* we never have its data */
    }
    memcpy(u->key, item->key, sizeof(u->key));
    u->mode = item->mode & 0777;
    u->mtime_ns = item->mtime_ns;
    u->left = item->size;
    u->is_sparse = item->is_sparse;
    u->length = item->is_sparse ? item->length : item->size;
    u->at = u->run_left = 0;
    u->n_head = 0;
    snp_sum_init(&u->sum);
    u->has_others = strcmp(item->linked, item->name) == 0;
    u->is_link = item->linked[0] != '\0' && !u->has_others && link_file(u, dir, name, item->linked);
    if (u->is_link) {
        u->fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        return u->fd < 0 ? errno : 0;
    }
    u->fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, u->mode | 0200);
    return u->fd < 0 ? errno : 0;
}

static int make_folder(struct unpacking *u,
                       int dir,
                       const char *name,
                       const struct snp_bundle_item *item)
{
    struct snp_node node = {.kind = SNP_NODE_DIR,
                            .mode = item->mode & 01777,
                            .mtime_ns = (uint64_t)item->mtime_ns,
                            .path = strdup(u->path)};
    struct stat st;
    bool is_there = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    int r = 0;

    if (is_there && (!S_ISDIR(st.st_mode) || item->is_opaque)) {
        r = snp_tree_remove(dir, name);
        is_there = false;
    }
    if (r == 0 && !is_there && mkdirat(dir, name, node.mode | 0700) < 0) {
        r = errno;
    }
    if (r == 0 && (node.path == NULL || snp_tree_add(&u->folders, &node) < 0)) {
        r = ENOMEM;
    }
    if (r != 0) {
        free(node.path);
    }
    return r;
}

static int make_link(struct unpacking *u,
                     int dir,
                     const char *name,
                     const struct snp_bundle_item *item)
{
    char target[SNP_BUNDLE_PATH_LEN];
    int r = snp_bundle_to_path(item->target, target) < 0 || target[0] == '\0'
                ? EBADMSG
                : snp_tree_remove(dir, name);

    if (r == 0 && symlinkat(target, dir, name) < 0) {
        r = errno;
    }
    return r == 0 ? snp_forgive(u->place, snp_tree_stamp(dir, name, 0, (uint64_t)item->mtime_ns))
                  : r;
}

static int take_item(struct unpacking *u, const struct snp_bundle_item *item)
{
    const char *name;
    size_t n = strlen(item->name);

    /* Sorted: so no name is repeated, and folders precede their entries. */
    if (n >= sizeof(u->last) || strcmp(item->name, u->last) <= 0 ||
        snp_bundle_to_path(item->name, u->path) < 0 || !snp_bundle_is_path(u->path) ||
        (item->kind != SNP_BUNDLE_FILE && item->size != 0)) {
        return EBADMSG;
    }
    memcpy(u->last, item->name, n + 1);
    snp_autoclose int dir = snp_tree_open_parent(u->place->view_fd, u->path, &name);
    if (dir < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? EBADMSG : errno;
    }
    switch (item->kind) {
    case SNP_BUNDLE_FILE:
        return begin_file(u, dir, name, item);
    case SNP_BUNDLE_DIR:
        return make_folder(u, dir, name, item);
    case SNP_BUNDLE_LINK:
        return make_link(u, dir, name, item);
    case SNP_BUNDLE_WHITEOUT:
        return snp_tree_remove(dir, name);
    case SNP_BUNDLE_LOST:
        return 0;
    case SNP_BUNDLE_VARS:
    case SNP_BUNDLE_KINDS:
        break;
    }
    return EBADMSG;
}

static int take_frame(struct unpacking *u, const struct snp_bundle_frame *f)
{
    int r = f->type == SNP_BUNDLE_ITEM ? take_item(u, &f->item) : 0;

    if (r == 0 && f->n > 0) {
        r = u->fd < 0 ? EBADMSG : write_part(u, f->bytes, f->n);
    }
    return r == 0 && u->fd >= 0 && u->left == 0 ? end_file(u) : r;
}

/* From last to first: entries change the time of their folder. */
static int stamp_folders(struct unpacking *u)
{
    int r = 0;

    for (size_t i = u->folders.n; r == 0 && i-- > 0;) {
        const struct snp_node *folder = &u->folders.node[i];
        const char *name;
        snp_autoclose int dir = snp_tree_open_parent(u->place->view_fd, folder->path, &name);
        r = dir < 0
                ? errno
                : snp_forgive(u->place, snp_tree_stamp(dir, name, folder->mode, folder->mtime_ns));
    }
    return r;
}

/* Reset the workspace to its initial state. */
static int clear(const struct snp_workspace *place)
{
    char no_path[] = "";
    struct stat st;
    struct snp_node top = {.kind = SNP_NODE_DIR, .path = no_path};
    const struct snp_tree nothing = {.node = &top, .n = 1};
    const struct snp_tree nothing_known = {0};

    if (fstat(place->view_fd, &st) < 0) {
        return errno;
    }
    top.mode = (st.st_mode & 07777) | 0700;
    top.mtime_ns = snp_tree_ns(&st.st_mtim);
    return snp_restore(place, &nothing, &nothing_known);
}

int snp_unpack(const struct snp_workspace *place, int fd)
{
    struct unpacking u = {.place = place, .fd = -1};
    struct snp_bundle_in in = {0};
    /* created with final modes, where these cannot be set later */
    mode_t mask = umask(0);
    int r = snp_bundle_in_init(&in, fd) < 0 ? ENOMEM : clear(place);

    while (r == 0 && !in.is_at_end) {
        struct snp_bundle_frame frame;
        r = snp_bundle_next(&in, "files", &frame);
        if (r == 0 && frame.type != SNP_BUNDLE_END) {
            r = take_frame(&u, &frame);
        }
    }
    if (r == 0) {
        r = stamp_folders(&u);
    }
    (void)umask(mask);
    snp_closep(&u.fd);
    snp_tree_done(&u.folders);
    while (u.n_known > 0) {
        free(u.known[--u.n_known].name);
    }
    free(u.known);
    snp_bundle_in_done(&in);
    return r;
}
