/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_PATCH_PROJECT_H
#define SNP_BASE_PATCH_PROJECT_H

/* Read a project's files on the host: below its folder, never through a link. */

#include "base/patch/patch.h"

/*
 * Open the folder, whose path goes through no link. *ret_fd is the caller's. SNP_E_NOT_FOUND,
 * SNP_E_DENIED.
 */
int snp_project_open(const char *path, int *ret_fd, struct snp_err *err) SNP_NODISCARD;

/* Open a path beneath it; -1 with errno (ELOOP: behind a link). */
int snp_project_open_at(int project_fd, const char *path, int flags);

/*
 * Read the file at path. *ret is the caller's: snp_patch_side_done(). An unreadable one is
 * SNP_PATCH_OTHER. bytes_left is reduced by its size; a larger file has no contents, only a hash.
 */
int snp_project_look(int project_fd,
                     const char *path,
                     uint64_t *bytes_left,
                     struct snp_patch_side *ret,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * Call found with the path of each file, link and special file below a folder. Negative ends it.
 * SNP_E_LIMIT: too many, or too deep.
 */
int snp_project_walk(int project_fd,
                     const char *folder,
                     int (*found)(void *ctx, const char *path, struct snp_err *err),
                     void *ctx,
                     struct snp_err *err) SNP_NODISCARD;

#endif
