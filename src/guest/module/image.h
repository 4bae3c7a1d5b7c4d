/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_IMAGE_H
#define SNP_GUEST_MODULE_IMAGE_H

/*
 * An interpreter's memory as it differs from that of another fork of the same template. Each of the
 * two takes two pipes from a socket, to read from and to write to; the supervisor moves bytes
 * between them:
 *
 *   the other   tells what it has: mappings, pages of its own, and then a hash of each
 *   the one     hashes the same pages meanwhile, and writes what the other has not
 *               (snp_image_freeze)
 *   the other   takes that in and goes on where the one stood (snp_image_thaw)
 *
 * An image at rest is all that a process has, as items of a checkpoint. Who takes it in is a fork
 * of the same template, or of one that was thawed from the image of that: at the same addresses.
 *
 * Both are whole processes of one thread. Nothing is believed of the image but its form: whoever
 * forges one gets what his code could have done to its own memory.
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

/* Of an image at rest, which goes into a pipe. */
struct snp_image_rest {
    const char *known; /* keys of items that need not be written again, one a line */
    uint32_t *n_items; /* that were written */
};

/* What is to be gone on with, in the process that became the one. */
struct snp_image_given {
    int stream_fd;
    uint32_t id; /* of the order that it answers */
};

/*
 * Once, before the first fork: what forks of this template know each other by. is_new: where all
 * lies is new, too; else it lies where it did in the template whose image this one was thawed from.
 */
void snp_image_mark(bool is_new);

/* Note the resource limits of the sandbox; called when its set-up is complete. */
void snp_image_opened(void);

/*
 * rest: NULL = to the other, by the pipes that come on the socket fd. Returns 0 once it is written;
 * -1, and why not ("" = the other says it); and 1, with *ret, in the process that took it in. There
 * -1 means that it is of no use.
 */
int snp_image_freeze(int fd,
                     const struct snp_image_rest *rest,
                     struct snp_image_given *ret,
                     char why[SNP_IMAGE_WHY_MAX]) SNP_NODISCARD;

/*
 * Returns only if it cannot be done, and why; then nothing has changed. is_rest: fd is a pipe, of
 * one at rest.
 */
void snp_image_thaw(int fd,
                    bool is_rest,
                    const struct snp_image_given *given,
                    char why[SNP_IMAGE_WHY_MAX]);

#endif
