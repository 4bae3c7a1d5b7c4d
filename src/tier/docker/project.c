/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A project is copied into the workspace before any code runs. An engine may be rootless or remote,
 * so nothing is mounted: a worker writes a bundle, as in a checkpoint, without masked paths, and
 * pid 1 unpacks it. The folder is only read, and its links are not followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/fd.h"
#include "base/policy/limits.h"
#include "base/str.h"
#include "guest/files/bundle.h"
#include "guest/files/pack.h"
#include "guest/pid1/wire.h"
#include "tier/docker/docker.h"
#include "tier/engine/inside.h"
#include "tier/engine/open.h"

enum {
    TRIES = 3,   /* the project's files may change during a try */
    HIDDEN = 99, /* kind of nodes to be removed */
};

/* A record of a mask (guest/spec.h); all borrowed. */
struct record {
    char kind;
    const char *path;
    const char *bytes;
    uint32_t n;
};

struct filling {
    uv_work_t work;
    struct snp_sandbox *sandbox; /* counted in n_asked, so it outlives this */
    int project_fd;              /* owned */
    int out_fd;                  /* owned; the worker's output */
    unsigned n_pending;          /* worker and pid 1 */
    unsigned tries;
    int packed; /* 0 or errno */
    int unpacked;
    struct snp_tree_most most;
    bool is_many; /* too many files, rather than bytes */
};

/* Read the mask record at *at, and advance *at. */
static struct record record_next(const char **at)
{
    const char *path = *at + 1;
    const char *length = path + strlen(path) + 1;
    struct record record = {.kind = **at, .path = path, .bytes = length + sizeof(uint32_t)};

    memcpy(&record.n, length, sizeof(record.n));
    *at = record.bytes + record.n;
    return record;
}

/* The first node at or after path. */
static size_t lower_bound(const struct snp_tree *tree, const char *path)
{
    size_t low = 0;
    size_t high = tree->n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(tree->node[middle].path, path) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void hide(struct snp_tree *tree, const char *path)
{
    snp_autofree char *below = snp_format("%s/", path);
    size_t at = lower_bound(tree, path);

    if (at < tree->n && strcmp(tree->node[at].path, path) == 0) {
        tree->node[at].kind = HIDDEN;
    }
    for (at = below == NULL ? 0 : lower_bound(tree, below);
         at < tree->n && snp_tree_is_below(tree->node[at].path, path); at++) {
        tree->node[at].kind = HIDDEN;
    }
}

void snp_docker_mask(struct snp_tree *tree, const char *mask, size_t n)
{
    const char *const end = n == 0 ? mask : mask + n;
    size_t kept = 0;

    while (mask < end) {
        struct record record = record_next(&mask);
        struct snp_node *node = snp_tree_find(tree, record.path);

        if (record.kind != 'f') {
            hide(tree, record.path);
        } else if (node != NULL) {
            node->is_lent = true; /* here: its content is replaced */
        }
    }
    for (size_t i = 0; i < tree->n; i++) {
        if (tree->node[i].kind == HIDDEN) {
            free(tree->node[i].path);
            free(tree->node[i].target);
        } else {
            tree->node[kept++] = tree->node[i];
        }
    }
    tree->n = kept;
}

int snp_docker_open_masked(int dir_fd, const char *mask, size_t n, const struct snp_node *node)
{
    const char *const end = n == 0 ? mask : mask + n; /* NULL: empty mask */
    const char *name;

    while (node->is_lent && mask < end) {
        struct record record = record_next(&mask);
        if (record.kind == 'f' && strcmp(record.path, node->path) == 0) {
            snp_autoclose int fd = memfd_create("masked", MFD_CLOEXEC);
            return fd < 0 || snp_write_all(fd, record.bytes, record.n) < 0 ? -1 : SNP_TAKE_FD(fd);
        }
    }
    snp_autoclose int dir = snp_tree_open_parent(dir_fd, node->path, &name);
    return node->is_lent || dir < 0 ? -1 : snp_tree_open_file(dir, name, -1, node);
}

static int open_file(void *data, const struct snp_node *node)
{
    const struct filling *f = data;
    const struct snp_buf *mask = &f->sandbox->mask;

    return snp_docker_open_masked(f->project_fd, snp_buf_bytes(mask), mask->len, node);
}

/* Runs in a worker. */
static void write_bundle(uv_work_t *work)
{
    struct filling *f = work->data;
    const struct snp_workspace place = {.view_fd = -1, .layer_fd = f->project_fd};
    struct snp_tree tree = {0};
    const struct snp_pack pack = {
        .place = &place, .tree = &tree, .fd = f->out_fd, .open = open_file, .data = f};

    f->packed = snp_tree_walk(f->project_fd, -1, false, &f->most, &tree);
    f->is_many = tree.n > f->most.nodes;
    if (f->packed == 0) {
        snp_docker_mask(&tree, snp_buf_bytes(&f->sandbox->mask), f->sandbox->mask.len);
        f->packed = snp_pack(&pack);
    }
    snp_tree_done(&tree);
    snp_closep(&f->out_fd);
}

static void fill(struct filling *f);

static void too_large(const struct filling *f, struct snp_err *err)
{
    uint64_t room;
    const enum snp_limit limit =
        f->is_many ? SNP_LIMIT_INODES : snp_sandbox_room(f->sandbox, &room);
    char most[32];

    (void)snprintf(most, sizeof(most), "%zu files", f->most.nodes);
    if (!f->is_many) {
        (void)snp_format_bytes(f->most.bytes, most, sizeof(most));
    }
    (void)snp_fail_with(err, SNP_E_LIMIT, SNP_REMEDY_RAISE_LIMIT,
                        limit == SNP_LIMIT_MEMORY ? "memory" : "project_size", 0,
                        "the project has more than %s, and the docker tier copies it into the "
                        "workspace",
                        most);
    snp_err_limit(err, snp_limit_info(limit)->key,
                  (int64_t)(f->is_many ? f->most.nodes : f->most.bytes));
}

static void fail(const struct filling *f, int eno)
{
    struct snp_sandbox *s = f->sandbox;
    struct snp_err *err = &s->open_err;

    if (eno == E2BIG || eno == ENOSPC || eno == EDQUOT) {
        too_large(f, err);
    } else if (eno == EAGAIN) {
        (void)snp_fail(err, SNP_E_PEER,
                       "a file of project %.200s changed each time it was copied; try again when "
                       "no program writes to it",
                       s->spec.project);
    } else {
        (void)snp_fail(err, SNP_E_INTERNAL, "project %.200s could not be copied: %s",
                       s->spec.project, strerrordesc_np(eno));
    }
    snp_sandbox_kill(s, err->msg);
}

/* When both are done: is the workspace complete? */
static void step(struct filling *f)
{
    struct snp_sandbox *s = f->sandbox;
    int eno = f->packed != 0 && f->packed != EPIPE ? f->packed : f->unpacked;
    bool goes_on;

    if (--f->n_pending > 0) {
        return;
    }
    eno = eno == 0 ? f->packed : eno;
    goes_on = snp_container_goes_on(s);
    if (goes_on && eno == EAGAIN && ++f->tries < TRIES) {
        fill(f);
        return;
    }
    if (goes_on && eno != 0) {
        fail(f, eno);
    } else if (goes_on) {
        snp_container_filled(s);
    }
    snp_closep(&f->project_fd);
    free(f);
}

static void on_written(uv_work_t *work, int status)
{
    struct filling *f = work->data;

    f->packed = status < 0 ? ECANCELED : f->packed;
    step(f);
}

static void on_unpacked(void *data, int eno, const char *bytes, size_t n)
{
    struct filling *f = data;

    (void)bytes;
    (void)n;
    f->unpacked = eno;
    step(f);
}

static void fill(struct filling *f)
{
    struct snp_sandbox *s = f->sandbox;
    int ends[2] = {-1, -1};

    snp_docker_sandbox_of(s)->n_asked++;
    f->n_pending = 2;
    f->packed = f->unpacked = 0;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        f->packed = errno;
        f->n_pending = 1;
        step(f);
        return;
    }
    f->out_fd = ends[1];
    snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_UNPACK, NULL, 0, ends[0]), on_unpacked, f);
    snp_closep(&ends[0]);
    if (uv_queue_work(s->supervisor->loop, &f->work, write_bundle, on_written) < 0) {
        snp_closep(&f->out_fd); /* pid 1 fails on the incomplete bundle */
        on_written(&f->work, -1);
    }
}

void snp_docker_fill(struct snp_sandbox *s)
{
    struct filling *f = calloc(1, sizeof(*f));
    int fd = fcntl(s->project_fd, F_DUPFD_CLOEXEC, 3);

    if (f == NULL || fd < 0) {
        snp_closep(&fd);
        free(f);
        (void)snp_fail(&s->open_err, SNP_E_NOMEM, "out of memory or descriptors");
        snp_sandbox_kill(s, s->open_err.msg);
        return;
    }
    f->sandbox = s;
    f->work.data = f;
    f->project_fd = fd;
    f->out_fd = -1;
    (void)snp_sandbox_room(s, &f->most.bytes);
    f->most.nodes = s->spec.limits.value[SNP_LIMIT_INODES];
    f->most.nodes = f->most.nodes < SNP_BUNDLE_ITEMS ? f->most.nodes : SNP_BUNDLE_ITEMS;
    fill(f);
}
