/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_FILES_TREE_H
#define SNP_GUEST_FILES_TREE_H

/*
 * A file tree as a sorted list, and the steps by which pid 1 walks and changes one. The tree may be
 * malicious: names are opened one component at a time, never through a link; depth and number are
 * bounded; anything but files, folders and links is listed and left alone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/macro.h"

enum {
    SNP_TREE_PATH_LEN = 4096, /* with its NUL */
    SNP_TREE_DEPTH_MAX = 64,  /* nested folders, and open descriptors for them */
    SNP_TREE_NODES_MAX = 1 << 20,
};

enum snp_node_kind {
    SNP_NODE_FILE = 0,
    SNP_NODE_DIR,
    SNP_NODE_LINK,
    SNP_NODE_WHITEOUT, /* in an overlay's layer: a deleted entry of the project */
    SNP_NODE_LOST,     /* socket, FIFO, device, or unreadable */
};

struct snp_content; /* an immutable copy of a file; of copies.c */

struct snp_node {
    char *path;                  /* owned; relative to the top; "" = the top */
    char *target;                /* owned; of a link, else NULL */
    struct snp_content *content; /* counted; of a file, NULL = unknown */
    uint64_t size;
    uint64_t stored; /* of a file: without holes */
    uint64_t ino;
    uint64_t mtime_ns;
    uint64_t ctime_ns;
    uint64_t atime_ns;
    uint32_t mode; /* permission bits */
    uint8_t kind;
    bool is_opaque; /* folder of a layer that hides the project's */
    bool is_cut;    /* folder that was not entered: too deep */
    bool is_sure;   /* these times identify copy's contents */
    bool is_lent;   /* its mode is changed temporarily: see snp_tree_return */
};

struct snp_tree {
    struct snp_node *node; /* owned, sorted by path (bytes) */
    size_t n;
    size_t cap;
    uint64_t bytes; /* of files, without holes */
    size_t n_files; /* all except folders */
    bool is_cut;    /* an entry was too deep, too long or too many */
};

/* Limits of a walk. */
struct snp_tree_most {
    size_t nodes;
    uint64_t bytes;
};

void snp_tree_done(struct snp_tree *tree);

/* Append a node and take its members; -1 when out of memory (then nothing is taken). */
int snp_tree_add(struct snp_tree *tree, const struct snp_node *node) SNP_NODISCARD;
struct snp_node *snp_tree_find(const struct snp_tree *tree, const char *path);

/*
 * List everything below the folder at top_fd (borrowed), with the folder. view_fd: the same folder
 * for changes: inaccessible folders are opened up until snp_tree_return; -1 = no changes allowed.
 * is_layer: of an overlay. Contents are not copied. 0 or errno; E2BIG beyond most. The caller frees
 * it in any case.
 */
int snp_tree_walk(
    int top_fd, int view_fd, bool is_layer, const struct snp_tree_most *most, struct snp_tree *ret);

/* Restore the modes of folders opened up for the walk. */
void snp_tree_return(int view_fd, const struct snp_tree *tree);

/*
 * Open a file of the folder dir_fd for reading, without changing its times. If it is unreadable for
 * its owner, its mode is changed temporarily, through the view. -1 with errno.
 */
int snp_tree_open_file(int dir_fd, const char *name, int view_fd, const struct snp_node *node);

/* Open a folder without following a link. */
int snp_tree_open_dir(int parent_fd, const char *name);

/* The name in a path, and its folder opened component by component. -1 with errno. */
int snp_tree_open_parent(int top_fd, const char *path, const char **ret_name);

/* Is path below folder (or is folder the top)? */
bool snp_tree_is_below(const char *path, const char *folder);

/* Remove an entry, with everything below. 0 or errno; 0 if there is none. */
int snp_tree_remove(int parent_fd, const char *name);

/* Remove everything in the folder fd (borrowed). */
int snp_tree_empty(int fd);

/*
 * Set the mode and modification time of an entry; of a link only the time. 0 or errno; EPERM if the
 * kernel refuses both (the local tier of ordinary users).
 */
int snp_tree_stamp(int parent_fd, const char *name, uint32_t mode, uint64_t mtime_ns);

uint64_t snp_tree_ns(const struct timespec *ts);

#endif
