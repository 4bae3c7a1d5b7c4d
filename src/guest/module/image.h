/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_MODULE_IMAGE_H
#define SNP_GUEST_MODULE_IMAGE_H

/*
 * An interpreter's memory as it differs from that of another fork of the same template, through a
 * socket between the two:
 *
 *   the other   tells what it has: mappings, pages of its own, and then a hash of each
 *   the one     hashes the same pages meanwhile, and writes what the other has not (snp_image_freeze)
 *   the other   takes that in and goes on where the one stood (snp_image_thaw)
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

/* What is to be gone on with, in the process that became the one. */
struct snp_image_given {
    int stream_fd;
    uint32_t id; /* of the order that it answers */
};

/* Once, before the first fork: what forks of this template know each other by. */
void snp_image_mark(void);

/*
 * Returns 0 once it is written; -1, and why not ("" = the other says it); and 1, with *ret, in the process that
 * took it in. There -1 means that it is of no use.
 */
int snp_image_freeze(int fd,
                     struct snp_image_given *ret,
                     char why[SNP_IMAGE_WHY_MAX]) SNP_NODISCARD;

/* Returns only if it cannot be done, and why; then nothing has changed. */
void snp_image_thaw(int fd, const struct snp_image_given *given, char why[SNP_IMAGE_WHY_MAX]);

#endif
