/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_FILES_H
#define SNP_GUEST_PID1_FILES_H

/*
 * Files inside, for the host. Pid 1 is as confined as the code, so a path can lead it
 * nowhere the code could not go itself; the host gets bytes and never walks these folders.
 */

#include <stdint.h>

#include "base/buf.h"

/* A part of a file to write; all borrowed. */
struct snp_put {
    const char *path;
    uint64_t offset;
    bool truncate; /* the file ends at offset before the bytes are written */
    uint32_t mode; /* permission bits of a new file; 0 = 0644 */
    const char *bytes;
    size_t n;
};

/*
 * Before anything else: where /workspace and /tmp are. folder: holds workspace/ and tmp/
 * (the local tier); NULL: they are where their names say.
 */
void snp_files_locate(const char *folder);

/* The real paths. */
const char *snp_files_workspace(void);
const char *snp_files_tmp(void);

/*
 * Each answers 0 or an errno, and appends to out what docs/wire.md gives for its REPLY
 * (after the errno). path: NUL-terminated; relative to /workspace, or absolute below
 * /workspace or /tmp; other places are EACCES.
 */
int snp_files_put(const struct snp_put *put, struct snp_buf *out);
int snp_files_get(const char *path, uint64_t offset, uint32_t length, struct snp_buf *out);
int snp_files_ls(const char *path, struct snp_buf *out);

#endif
