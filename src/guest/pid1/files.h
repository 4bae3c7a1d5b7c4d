/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_FILES_H
#define SNP_GUEST_PID1_FILES_H

/*
 * Files inside, for the host. Pid 1 is as confined as the code, so a path can lead it
 * nowhere the code could not go itself; the host gets bytes and never walks these folders.
 */

#include <stdint.h>

#include "base/buf.h"
#include "guest/body.h"

/*
 * Before anything else: where /workspace and /tmp are. folder: holds workspace/ and tmp/
 * (the local tier); NULL: they are where their names say.
 */
void snp_files_locate(const char *folder);

/* The real paths. */
const char *snp_files_workspace(void);
const char *snp_files_tmp(void);

/*
 * Each takes the body of its request (docs/wire.md), answers 0 or an errno, and appends to out what
 * belongs into its REPLY (after the errno). A path is relative to /workspace, or absolute below
 * /workspace or /tmp; other places are EACCES. *ret_path: what was written, borrowed from the body.
 */
int snp_files_put(struct snp_body *b, struct snp_buf *out, const char **ret_path);
int snp_files_get(struct snp_body *b, struct snp_buf *out);
int snp_files_ls(struct snp_body *b, struct snp_buf *out);

#endif
