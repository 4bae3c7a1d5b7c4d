/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_FILES_COPIES_H
#define SNP_GUEST_FILES_COPIES_H

/*
 * Copies of the workspace at points in time. A copy is a list; the contents of its files are
 * immutable files in a folder that the code cannot reach, shared by all copies with the same
 * contents. Only files changed since the last copy are copied.
 */

#include <errno.h>

#include "guest/files/tree.h"

struct snp_copies;

/* The folders in use; all borrowed. */
struct snp_workspace {
    int view_fd;  /* the workspace as the code sees it, through which it is changed */
    int layer_fd; /* the written files: the overlay's layer, or the same folder */
    int base_fd;  /* the project below the layer; -1 = none, or unreadable */
    int store_fd; /* folder for copies */
    bool is_layer;
    bool is_local; /* the kernel may refuse modes, times and leases */
};

/* If the kernel refuses to set modes and times, they stay. */
static inline int snp_forgive(const struct snp_workspace *place, int eno)
{
    return place->is_local && (eno == EPERM || eno == EBADF || eno == EFAULT) ? 0 : eno;
}

struct snp_copy_most {
    uint64_t bytes;
    uint64_t new_bytes; /* to be copied */
    uint32_t files;
};

struct snp_copied {
    uint64_t bytes;
    uint32_t files;
    uint8_t flags; /* SNP_KEEP_* */
};

/* Immutable contents of a file. */
struct snp_content {
    struct snp_content *next; /* of those to remove */
    uint64_t size;
    uint64_t stored; /* without holes */
    uint64_t packed; /* encoded in a bundle */
    uint64_t key[2]; /* see sparse.h; high half first */
    uint32_t number; /* its name in the store */
    unsigned refs;
};

/* Lives as long as the process. NULL when out of memory. */
struct snp_copies *snp_copies_new(const struct snp_workspace *place);

/*
 * Take copy number of the current workspace. 0 or errno; with SNP_KEEP_OVER in the answer (and 0)
 * none was made: the workspace, or all copies together, would be too large.
 */
int snp_copies_take(struct snp_copies *s,
                    uint32_t number,
                    const struct snp_copy_most *most,
                    struct snp_copied *ret);

/*
 * Restore the workspace to copy number; no process of the code may run. Surplus files are removed
 * first, so that a full file system can be restored. 0 or errno (ENOENT: no such copy); after a
 * failure the workspace is undefined.
 */
int snp_copies_restore(struct snp_copies *s, uint32_t number);

/* ENOENT if there is none. */
int snp_copies_drop(struct snp_copies *s, uint32_t number);

/* The list of a copy, NULL if there is none; borrowed until it is dropped. */
const struct snp_tree *snp_copies_find(const struct snp_copies *s, uint32_t number);

const struct snp_workspace *snp_copies_workspace(const struct snp_copies *s);

/* We changed the workspace: forget the state of its files. */
void snp_copies_forget(struct snp_copies *s);

/* While a child reads copies, none is removed. */
void snp_copies_read(struct snp_copies *s, bool on);

/* Open a copy to read; -1 with errno. */
int snp_content_open(const struct snp_workspace *place, const struct snp_content *content);

/* Interface of restore.c ---------------------------------------------------------------- */

/* Are size bytes of both files the same? */
bool snp_files_are_equal(int a, int b, uint64_t size);

/*
 * Restore the workspace at place to want; known: the known contents of the layer's files. 0 or
 * errno.
 */
int snp_restore(const struct snp_workspace *place,
                const struct snp_tree *want,
                const struct snp_tree *known);

#endif
