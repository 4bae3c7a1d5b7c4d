/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_WATCH_H
#define SNP_CONTEXT_WATCH_H

/* Wait for changes in the folders that an index reads (inotify(7)). */

#include "base/err.h"

/*
 * Watch the folders of a project that are not ignored, including folders created since the last
 * call. *fd: -1 at first; the caller closes it. SNP_E_LIMIT: the kernel watches no more folders for
 * this user. SNP_E_NOT_FOUND: the project was removed.
 */
int snp_watch_folders(int root_fd, int *fd, struct snp_err *err) SNP_NODISCARD;

/* Wait for a change, then until changes pause, at most 2 s more. */
int snp_watch_wait(int fd, struct snp_err *err) SNP_NODISCARD;

#endif
