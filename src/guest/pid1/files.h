/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_FILES_H
#define SNP_GUEST_PID1_FILES_H

/*
 * Access to files inside, for the host. Pid 1 is confined like the code, so a path leads nowhere
 * that the code cannot reach; the host gets bytes and never walks these folders.
 */

#include <stdint.h>

#include "base/buf.h"
#include "guest/body.h"

/*
 * Call first. Sets the locations of /workspace and /tmp. folder: contains workspace/ and tmp/ (the
 * local tier); NULL: at their names.
 */
void snp_files_locate(const char *folder);

/* The real paths. */
const char *snp_files_workspace(void);
const char *snp_files_tmp(void);

/*
 * Each takes the body of its request (docs/wire.md), returns 0 or an errno, and appends the payload
 * of its REPLY (after the errno) to out. A path is relative to /workspace, or absolute below
 * /workspace or /tmp; other places are EACCES. *ret_path: the written path, borrowed from the body.
 */
int snp_files_put(struct snp_body *b, struct snp_buf *out, const char **ret_path);
int snp_files_get(struct snp_body *b, struct snp_buf *out);
int snp_files_ls(struct snp_body *b, struct snp_buf *out);

/* Open a regular file for reading, never waiting; path: as above. -1 with errno. */
int snp_files_open(const char *path) SNP_NODISCARD;

#endif
