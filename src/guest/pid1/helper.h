/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_HELPER_H
#define SNP_GUEST_PID1_HELPER_H

/*
 * snp-files (guest/files/main.c), a child of pid 1. It is forked before any code runs, so that the
 * supervisor can exempt it from signals; it executes its program at the first request.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

struct snp_helper {
    pid_t pid; /* -1 = none, or ended */
    int fd;    /* the stream to it; owned; -1 = none */
};

/*
 * Start it, if copies of the workspace are wanted. Call before descriptors of pid 1 become
 * close-on-exec. folder: of a session in the local tier, or NULL. Returns true if copies are
 * wanted.
 */
bool snp_helper_start(struct snp_helper *h, const char *folder);

/*
 * Pass a frame on, with fd unless that is -1, and wait for the complete answer. Ends pid 1 if the
 * helper has ended.
 */
void snp_helper_ask(
    struct snp_helper *h, const char *frame, size_t n, int fd, struct snp_buf *answer);

/* Pass on a frame that has no answer. */
void snp_helper_tell(struct snp_helper *h, const char *frame, size_t n);

#endif
