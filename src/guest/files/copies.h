/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_FILES_COPIES_H
#define SNP_GUEST_FILES_COPIES_H

/*
 * Copies of the workspace, as it was when each was taken. A copy is a list; the contents of its
 * files are immutable copies in a folder the code cannot reach, shared by all copies that
 * have them. Only what changed since the last one is copied.
 */

#include <errno.h>

#include "guest/files/tree.h"

struct snp_copies;

/* Where things are; all borrowed. */
struct snp_workspace {
    int view_fd;  /* the workspace, as the code sees it; all changes go through it */
    int layer_fd; /* what was written to it: the overlay's layer, or the same folder */
    int base_fd;  /* the project below the layer; -1 = none, or it cannot be read */
    int store_fd; /* folder for the copies */
    bool is_layer;
    bool is_local; /* others share this file system: what is lost is not ours to grant */
};

/* Where the kernel lets nobody set modes and times they stay as they are. */
static inline int snp_forgive(const struct snp_workspace *place, int eno)
{
    return place->is_local && (eno == EPERM || eno == EBADF || eno == EFAULT) ? 0 : eno;
}

struct snp_copy_most {
    uint64_t bytes;
    uint64_t new_bytes; /* of copies that are made for it */
    uint32_t files;
};

struct snp_copied {
    uint64_t bytes;
    uint32_t files;
    uint8_t flags; /* SNP_KEEP_ */
};

/* A file's immutable contents. */
struct snp_content {
    struct snp_content *next; /* of those to be removed */
    uint64_t size;
    uint64_t stored; /* without holes */
    uint64_t packed; /* as it goes into a bundle */
    uint64_t key[2]; /* see sparse.h; high half first */
    uint32_t number; /* its name in the store */
    unsigned refs;
};

/* For as long as the process lives. NULL when out of memory. */
struct snp_copies *snp_copies_new(const struct snp_workspace *place);

/*
 * Take copy number of the workspace as it is. 0 or errno; with SNP_KEEP_OVER in the answer (and
 * 0) there is none: the workspace, or all copies together, would be too large.
 */
int snp_copies_take(struct snp_copies *s,
                    uint32_t number,
                    const struct snp_copy_most *most,
                    struct snp_copied *ret);

/*
 * Make the workspace what copy number says; no process of the code may run. First all is taken
 * away that is too much, so that a full file system can be restored. 0 or errno (ENOENT: no
 * such copy); after a failure the workspace is neither what it was nor what it is to be.
 */
int snp_copies_restore(struct snp_copies *s, uint32_t number);

/* ENOENT if there is none. */
int snp_copies_drop(struct snp_copies *s, uint32_t number);

/* The list of a copy, NULL if there is none; borrowed until it is dropped. */
const struct snp_tree *snp_copies_find(const struct snp_copies *s, uint32_t number);

const struct snp_workspace *snp_copies_workspace(const struct snp_copies *s);

/* The workspace was changed by ourselves: what was known of its files no longer holds. */
void snp_copies_forget(struct snp_copies *s);

/* While a child of ours reads copies no copy is removed. */
void snp_copies_read(struct snp_copies *s, bool on);

/* Open a copy to read; -1 with errno. */
int snp_content_open(const struct snp_workspace *place, const struct snp_content *content);

/* Parts of restore.c ---------------------------------------------------------------- */

/* Are size bytes of both files the same? */
bool snp_files_are_equal(int a, int b, uint64_t size);

/*
 * Make the workspace at place what want says; known: what the layer's files are known to hold.
 * 0 or errno.
 */
int snp_restore(const struct snp_workspace *place,
                const struct snp_tree *want,
                const struct snp_tree *known);

#endif
