/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_FOLDER_H
#define SNP_TIER_LOCAL_FOLDER_H

/*
 * Folders of sandboxes on the host's file system: made, filled with a copy of the project,
 * measured, removed. Hostile code writes to them: these functions follow no links and open only
 * regular files. Blocks: for a worker.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* The copied part of a project. */
struct snp_folder_copy {
    int project_fd;   /* borrowed */
    const char *mask; /* mask records (guest/spec.h), mask_len bytes; borrowed */
    size_t mask_len;
    uint64_t max_bytes;
    uint64_t max_files;
    uid_t owner; /* of the copies; 0 = our user */
};

/*
 * Make the folder that contains the sandboxes' folders, locked while the supervisor lives
 * (*ret_lock_fd, owned). as_root: it must be reachable by other users, so it is in /var/tmp, with a
 * link in state_dir. Removes folders of dead supervisors.
 */
int snp_folders_open(const char *state_dir,
                     int as_root,
                     char *ret_path,
                     size_t path_len,
                     int *ret_lock_fd,
                     struct snp_err *err) SNP_NODISCARD;
void snp_folders_close(const char *state_dir, const char *path, int *lock_fd);

/*
 * Make a folder that only owner (0 = our user) can traverse, with workspace/ and tmp/ of owner in
 * it. has_copies: also closed/shadow/ for copies of the workspace.
 */
int snp_folder_make(const char *path, uid_t owner, bool has_copies, struct snp_err *err)
    SNP_NODISCARD;

/*
 * Close closed/ before any code runs: it cannot be traversed any more, only through open
 * descriptors below it. (Its Landlock rule applies to the code as well.) As root we own it, so the
 * code cannot change its mode; as an ordinary user the filter refuses that.
 */
int snp_folder_close(const char *path, struct snp_err *err) SNP_NODISCARD;

/* Copy a project below path/workspace. SNP_E_LIMIT: it exceeds a limit. */
int snp_folder_fill(const char *path,
                    const struct snp_folder_copy *copy,
                    struct snp_err *err) SNP_NODISCARD;

struct snp_folder_size {
    uint64_t bytes; /* on disk */
    uint64_t files;
};

/* Measure a folder below path; stops when either member exceeds most. */
void snp_folder_measure(const char *path,
                        const struct snp_folder_size *most,
                        struct snp_folder_size *ret);

/* Remove path with its contents, of any depth and mode. */
void snp_folder_remove(const char *path);

#endif
