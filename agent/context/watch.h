/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_WATCH_H
#define SNP_CONTEXT_WATCH_H

/* Waiting for a change in the folders that an index reads (inotify(7)). */

#include "base/err.h"

/*
 * Watch the folders of a project that are not ignored, and those that came since the last call.
 * *fd: -1 at first, then the caller's to close. SNP_E_LIMIT: the kernel watches no more folders for
 * this user. SNP_E_NOT_FOUND: it was removed.
 */
int snp_watch_folders(int root_fd, int *fd, struct snp_err *err) SNP_NODISCARD;

/* Until something has changed and nothing more has for a moment, or for 2 s. */
int snp_watch_wait(int fd, struct snp_err *err) SNP_NODISCARD;

#endif
