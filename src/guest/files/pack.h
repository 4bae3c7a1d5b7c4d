/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_FILES_PACK_H
#define SNP_GUEST_FILES_PACK_H

/*
 * The workspace as part "files" of a bundle, out and in. Both take their time and run in a
 * child of pid 1; they block on their pipe.
 */

#include <stddef.h>

#include "guest/files/copies.h"

enum {
    SNP_PACK_LIVE = 0xffffffff, /* instead of a copy: the workspace as it is */
};

struct snp_pack {
    const struct snp_workspace *place;
    const struct snp_tree *tree; /* of a copy; NULL = the workspace as it is */
    const char *known;           /* keys the reader has the data of, one a line; n_known bytes */
    size_t n_known;
    int fd;
    /* The file behind a node of tree, to read; -1 = it cannot be. NULL = that in place. */
    int (*open)(void *data, const struct snp_node *node);
    void *data;
};

/*
 * Write the part. 0 or errno; EAGAIN: a file changed while it was read, which only happens to
 * the workspace as it is.
 */
int snp_pack(const struct snp_pack *pack);

/*
 * Read the part and make the workspace so: what the bundle does not name is taken away, or
 * is the project's again. 0 or errno; after EBADMSG (a broken rule, or a file that is not what
 * its key says) or any other the workspace is undefined.
 */
int snp_unpack(const struct snp_workspace *place, int fd);

#endif
