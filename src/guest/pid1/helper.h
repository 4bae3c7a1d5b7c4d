/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_HELPER_H
#define SNP_GUEST_PID1_HELPER_H

/*
 * snp-files (guest/files/main.c), a child of pid 1. It is there before any code runs, so that the
 * supervisor knows whom signals spare; it executes its program when the first request comes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

struct snp_helper {
    pid_t pid; /* -1 = there is none, or it has ended */
    int fd;    /* the stream to it; owned; -1 = there is none */
};

/*
 * Where copies of the workspace are wanted: start it. Before descriptors of pid 1 are closed on
 * exec. folder: of a session in the local tier, or NULL. Whether they are wanted.
 */
bool snp_helper_start(struct snp_helper *h, const char *folder);

/*
 * Pass a frame on, with fd unless that is -1, and wait for the whole frame that answers it. Ends
 * pid 1 when the helper has ended.
 */
void snp_helper_ask(
    struct snp_helper *h, const char *frame, size_t n, int fd, struct snp_buf *answer);

/* Pass a frame on that has no answer. */
void snp_helper_tell(struct snp_helper *h, const char *frame, size_t n);

#endif
