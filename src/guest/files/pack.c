/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/files/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/files/bundle.h"
#include "guest/files/sparse.h"

enum {
    KEY_LEN = 32 /* hexadecimal digits */
};

struct packed_entry {
    const struct snp_node *node;
    char *name;                 /* owned; encoded */
    struct packed_entry *first; /* the first name of its file; NULL = it has one name */
    char key[KEY_LEN + 1];      /* of the sent contents */
};

struct packing {
    const struct snp_pack *pack;
    struct snp_bundle_out out;
    char (*known)[KEY_LEN]; /* owned, sorted */
    size_t n_known;
    char *chunk; /* owned; SNP_RUN_MAX bytes */
};

static int by_key(const void *a, const void *b)
{
    return memcmp(a, b, KEY_LEN);
}

static int by_name(const void *a, const void *b)
{
    const struct packed_entry *x = a;
    const struct packed_entry *y = b;

    return strcmp(x->name, y->name);
}

/* Sort names of one file together, in order. */
static int by_inode(const void *a, const void *b)
{
    const struct packed_entry *x = *(struct packed_entry *const *)a;
    const struct packed_entry *y = *(struct packed_entry *const *)b;
    int inode = (x->node->ino > y->node->ino) - (x->node->ino < y->node->ino);

    return inode != 0 ? inode : (x > y) - (x < y);
}

/* Skip keys of other kinds (of variables). */
static int take_known(struct packing *p)
{
    const char *at = p->pack->known;
    const char *end = at == NULL ? NULL : at + p->pack->n_known;

    p->known = calloc(p->pack->n_known / (KEY_LEN + 1) + 1, sizeof(*p->known));
    if (p->known == NULL) {
        return ENOMEM;
    }
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((line_end == NULL ? end : line_end) - at);
        if (n == KEY_LEN) {
            memcpy(p->known[p->n_known++], at, n);
        }
        at += n + 1;
    }
    if (p->n_known > 1) {
        qsort(p->known, p->n_known, sizeof(*p->known), by_key);
    }
    return 0;
}

static bool is_known(const struct packing *p, const char *key)
{
    return p->n_known > 0 && bsearch(key, p->known, p->n_known, sizeof(*p->known), by_key) != NULL;
}

static void send_run(struct packing *p, const struct snp_extent *run, bool is_sparse)
{
    const uint64_t head[2] = {run->offset, run->n};

    if (is_sparse) {
        snp_bundle_put_data(&p->out, head, sizeof(head));
    }
    snp_bundle_put_data(&p->out, run->bytes, run->n);
}

/* Read the file, and send it unless item is NULL. 0 or errno. */
static int read_through(struct packing *p,
                        int fd,
                        uint64_t length,
                        const struct snp_bundle_item *item,
                        struct snp_sum *sum)
{
    struct snp_runs runs = {.fd = fd, .size = length, .chunk = p->chunk};
    struct snp_extent run;

    snp_sum_init(sum);
    while (p->out.eno == 0 && snp_runs_next(&runs, &run)) {
        snp_sum_run(sum, run.offset, run.n);
        snp_sum_data(sum, run.bytes, run.n);
        if (item != NULL) {
            send_run(p, &run, item->is_sparse);
        }
    }
    return runs.eno != 0 ? runs.eno : p->out.eno;
}

/* Open the file of a node. -1 with errno. */
static int open_node(struct packing *p, const struct snp_node *node)
{
    const struct snp_workspace *place = p->pack->place;
    const char *name;

    if (p->pack->open != NULL) {
        return p->pack->open(p->pack->data, node);
    }
    if (node->content != NULL) {
        return snp_content_open(place, node->content);
    }
    snp_autoclose int dir = snp_tree_open_parent(place->layer_fd, node->path, &name);
    return dir < 0 ? -1 : snp_tree_open_file(dir, name, place->view_fd, node);
}

static void put_lost(struct packing *p, const char *name, const char *type, const char *reason)
{
    const struct snp_bundle_item item = {.kind = SNP_BUNDLE_LOST,
                                         .name = name,
                                         .key = "",
                                         .target = "",
                                         .type = type,
                                         .reason = reason};

    snp_bundle_put(&p->out, &item, NULL, 0);
}

static int put_file(struct packing *p, struct packed_entry *e, const struct snp_bundle_item *head)
{
    const struct snp_node *node = e->node;
    snp_autoclose int fd = open_node(p, node);
    struct snp_bundle_item item = *head;
    uint64_t key[2];
    char again[KEY_LEN + 1];
    struct snp_sum sum;
    struct stat st;
    int r = 0;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        put_lost(p, item.name, "file", "the file could not be read");
        return 0;
    }
    item.length = (uint64_t)st.st_size;
    if (node->content != NULL) {
        item.size = node->content->packed;
        item.is_sparse = node->content->stored != item.length;
        memcpy(key, node->content->key, sizeof(key));
    } else {
        r = read_through(p, fd, item.length, NULL, &sum);
        item.size = snp_sum_packed(&sum, item.length);
        item.is_sparse = sum.bytes != item.length;
        snp_sum_key(&sum, item.length, key);
    }
    if (r != 0) {
        return r;
    }
    snp_bundle_key(key, e->key);
    item.key = e->key;
    if (e->first != NULL && by_key(e->first->key, e->key) == 0) {
        item.linked = e->first->name;
    }
    item.is_same = is_known(p, e->key);
    snp_bundle_put(&p->out, &item, NULL, 0);
    if (item.is_same) {
        return 0;
    }
    r = read_through(p, fd, item.length, &item, &sum);
    snp_sum_key(&sum, item.length, key);
    snp_bundle_key(key, again);
    return r == 0 && by_key(e->key, again) != 0 ? EAGAIN : r;
}

static int put_entry(struct packing *p, struct packed_entry *e)
{
    const struct snp_node *node = e->node;
    char target[SNP_BUNDLE_NAME_LEN];
    struct snp_bundle_item item = {
        .name = e->name,
        .key = "",
        .target = target,
        .mode = node->mode,
        .mtime_ns = (int64_t)node->mtime_ns,
    };

    switch ((enum snp_node_kind)node->kind) {
    case SNP_NODE_FILE:
        item.kind = SNP_BUNDLE_FILE;
        return put_file(p, e, &item);
    case SNP_NODE_DIR:
        item.kind = SNP_BUNDLE_DIR;
        item.is_opaque = node->is_opaque;
        break;
    case SNP_NODE_LINK:
        item.kind = SNP_BUNDLE_LINK;
        if (snp_bundle_from_path(node->target, target) < 0) {
            return ENAMETOOLONG;
        }
        break;
    case SNP_NODE_WHITEOUT:
        item.kind = SNP_BUNDLE_WHITEOUT;
        break;
    case SNP_NODE_LOST:
        put_lost(p, e->name, "special", "a socket, FIFO, device or unreadable file");
        return 0;
    }
    snp_bundle_put(&p->out, &item, NULL, 0);
    return 0;
}

/* List all nodes but the top, by their encoded names. */
static int list(const struct snp_tree *tree, struct packed_entry **ret, size_t *ret_n)
{
    struct packed_entry *entries = calloc(tree->n + 1, sizeof(*entries));
    char text[SNP_BUNDLE_NAME_LEN];
    size_t n = 0;
    int r = entries == NULL ? ENOMEM : tree->n > SNP_BUNDLE_ITEMS ? E2BIG : 0;

    for (size_t i = 0; r == 0 && i < tree->n; i++) {
        const struct snp_node *node = &tree->node[i];
        if (node->path[0] == '\0') {
            continue;
        }
        r = snp_bundle_from_path(node->path, text) < 0 ? ENAMETOOLONG : 0;
        entries[n] = (struct packed_entry){.node = node, .name = r == 0 ? strdup(text) : NULL};
        r = r == 0 && entries[n].name == NULL ? ENOMEM : r;
        n++;
    }
    if (r == 0 && n > 1) {
        qsort(entries, n, sizeof(*entries), by_name);
    }
    *ret = entries;
    *ret_n = n;
    return r;
}

/* Find names of the same file. */
static int find_links(struct packed_entry *entries, size_t n)
{
    snp_autofree struct packed_entry **files = calloc(n + 1, sizeof(struct packed_entry *));
    size_t n_files = 0;

    if (files == NULL) {
        return ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        if (entries[i].node->kind == SNP_NODE_FILE && entries[i].node->ino != 0) {
            files[n_files++] = &entries[i];
        }
    }
    if (n_files > 1) {
        qsort(files, n_files, sizeof(struct packed_entry *), by_inode);
    }
    for (size_t i = 1; i < n_files; i++) {
        if (files[i]->node->ino == files[i - 1]->node->ino) {
            struct packed_entry *first = files[i - 1]->first;

            files[i]->first = files[i - 1]->first = first == NULL ? files[i - 1] : first;
        }
    }
    return 0;
}

static int put_tree(struct packing *p, const struct snp_tree *tree)
{
    struct packed_entry *entries;
    size_t n = 0;
    int r = list(tree, &entries, &n);

    r = r == 0 ? find_links(entries, n) : r;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = put_entry(p, &entries[i]);
        r = r == 0 ? p->out.eno : r;
    }
    for (size_t i = 0; i < n; i++) {
        free(entries[i].name);
    }
    free(entries);
    return r == 0 ? snp_bundle_finish(&p->out, "files") : r;
}

int snp_pack(const struct snp_pack *pack)
{
    const struct snp_tree_most most = {.nodes = SNP_BUNDLE_ITEMS, .bytes = UINT64_MAX};
    const struct snp_workspace *place = pack->place;
    struct packing p = {.pack = pack, .chunk = malloc(SNP_RUN_MAX)};
    struct snp_tree now = {0};
    int r = p.chunk == NULL ? ENOMEM : take_known(&p);

    snp_bundle_out_init(&p.out, pack->fd);
    if (r == 0 && pack->tree == NULL) {
        r = snp_tree_walk(place->layer_fd, place->view_fd, place->is_layer, &most, &now);
        r = r == 0 && now.is_cut ? E2BIG : r;
    }
    if (r == 0) {
        r = put_tree(&p, pack->tree == NULL ? &now : pack->tree);
    }
    snp_tree_return(place->view_fd, &now);
    snp_tree_done(&now);
    snp_bundle_out_done(&p.out);
    free(p.known);
    free(p.chunk);
    return r;
}
