/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_IMAGE_H
#define SNP_GUEST_MODULE_IMAGE_H

/*
 * The memory of an interpreter (the origin), as its difference from another fork of the same
 * template (the target). Each of the two receives two pipes over a socket, to read from and to
 * write to; the supervisor relays between them:
 *
 *   the target  lists its memory: mappings, its private pages, and then a hash of each
 *   the origin  hashes the same pages at the same time, and writes those that the target lacks
 *               (snp_image_freeze)
 *   the target  restores them and continues where the origin stopped (snp_image_thaw)
 *
 * An image at rest contains all memory of a process, as items of a checkpoint. It can be restored
 * by a fork of the same template, or of one thawed from that template's image: at the same
 * addresses.
 *
 * Both are whole processes with one thread. Only the form of an image is verified: a forged one
 * gains nothing that its code could not have done to its own memory.
 */

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"

enum {
    SNP_IMAGE_WHY_MAX = 200,
};

/* For an image at rest, written to a pipe. */
struct snp_image_rest {
    const char *known; /* keys of items to omit, one a line */
    uint32_t *n_items; /* number of items written */
};

/* The descriptors of the target, for the restored interpreter. */
struct snp_image_given {
    int stream_fd;
    uint32_t id; /* of the request to answer */
};

/*
 * Call once, before the first fork: sets the identity shared by forks of this template. is_new: the
 * addresses are new, too; else they equal those of the template whose image was thawed.
 */
void snp_image_mark(bool is_new);

/* Record the resource limits of the sandbox; called at the end of its set-up. */
void snp_image_opened(void);

/* Keep in memory what the kernel knows of this process besides it; and restore that. */
void snp_image_keep_kernel(void);
int snp_image_restore_kernel(void) SNP_NODISCARD;

/*
 * rest: NULL = to the target, over the pipes from the socket fd. Returns 0 once it is written; -1
 * with the reason ("" = the target reports it); and 1, with *ret, in the process that has restored
 * it. There -1 means that it is unusable.
 */
int snp_image_freeze(int fd,
                     const struct snp_image_rest *rest,
                     struct snp_image_given *ret,
                     char why[SNP_IMAGE_WHY_MAX]) SNP_NODISCARD;

/*
 * Returns only on failure, with the reason; then nothing has changed. is_rest: fd is a pipe with an
 * image at rest.
 */
void snp_image_thaw(int fd,
                    bool is_rest,
                    const struct snp_image_given *given,
                    char why[SNP_IMAGE_WHY_MAX]);

#endif
