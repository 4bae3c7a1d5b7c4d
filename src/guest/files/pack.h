/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_FILES_PACK_H
#define SNP_GUEST_FILES_PACK_H

/*
 * The workspace as part "files" of a bundle, written and read. Both are slow, block on their pipe,
 * and run in a child of pid 1.
 */

#include <stddef.h>

#include "guest/files/copies.h"

enum {
    SNP_PACK_LIVE = 0xffffffff, /* instead of a copy: the live workspace */
};

struct snp_pack {
    const struct snp_workspace *place;
    const struct snp_tree *tree; /* of a copy; NULL = the live workspace */
    const char *known;           /* keys of data that the reader has, one a line; n_known bytes */
    size_t n_known;
    int fd;
    /* Open the file of a node of tree; -1 = unreadable. NULL = the default. */
    int (*open)(void *data, const struct snp_node *node);
    void *data;
};

/*
 * Write the part. 0 or errno; EAGAIN: a file changed while it was read, possible in a live
 * workspace only.
 */
int snp_pack(const struct snp_pack *pack);

/*
 * Read the part and restore the workspace from it: files that the bundle does not name are removed,
 * or revert to the project's. 0 or errno; after any error (EBADMSG: a broken rule, or contents that
 * do not match their key) the workspace is undefined.
 */
int snp_unpack(const struct snp_workspace *place, int fd);

#endif
