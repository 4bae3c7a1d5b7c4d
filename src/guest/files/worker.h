/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_FILES_WORKER_H
#define SNP_GUEST_FILES_WORKER_H

/*
 * A copy of this process that reads or writes a bundle, so that requests go on being answered. It
 * holds the workspace, the copies and its pipe, nothing else of ours, and ends with pid 1.
 */

#include <sys/types.h>

#include "guest/files/shadow.h"

/* As fork. Whoever is the child has only the descriptors of place and pipe_fd besides 0 to 2. */
pid_t snp_worker_fork(const struct snp_shadow_place *place, int pipe_fd);

#endif
