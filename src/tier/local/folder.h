/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_FOLDER_H
#define SNP_TIER_LOCAL_FOLDER_H

/*
 * Folders of sandboxes on the host's own file system: made, filled with a copy of the
 * project, measured, removed. What is in them was written by hostile code: nothing here
 * follows a link or opens what is no regular file. All of it blocks: for a worker.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* What of a project comes along. */
struct snp_folder_copy {
    int project_fd;   /* borrowed */
    const char *mask; /* mask records (guest/spec.h), mask_len bytes; borrowed */
    size_t mask_len;
    uint64_t max_bytes;
    uint64_t max_files;
    uid_t owner; /* of the copies; 0 = whoever makes them */
};

/*
 * The folder all sandboxes of a supervisor have theirs in, held by a lock while it lives
 * (*ret_lock_fd, owned). as_root: it must be reachable by other users, so it is in /var/tmp
 * and only named in state_dir. Removes what dead supervisors left.
 */
int snp_folders_open(const char *state_dir,
                     int as_root,
                     char *ret_path,
                     size_t path_len,
                     int *ret_lock_fd,
                     struct snp_err *err) SNP_NODISCARD;
void snp_folders_close(const char *state_dir, const char *path, int *lock_fd);

/*
 * A folder that only owner (0 = ourselves) passes, with workspace/ and tmp/ of owner in it.
 * has_shadows: and closed/shadow/ for copies of the workspace.
 */
int snp_folder_make(const char *path, uid_t owner, bool has_copies, struct snp_err *err)
    SNP_NODISCARD;

/*
 * Before any code runs: from now on nobody passes closed/, and only who has what is behind it open
 * reaches it. (Its rule of Landlock holds for the code as well.) As root it is ours, and the code
 * may change no mode of it; as an ordinary user the filter refuses that.
 */
int snp_folder_close(const char *path, struct snp_err *err) SNP_NODISCARD;

/* Copy a project below path/workspace. SNP_E_LIMIT: it is larger than allowed. */
int snp_folder_fill(const char *path,
                    const struct snp_folder_copy *copy,
                    struct snp_err *err) SNP_NODISCARD;

struct snp_folder_size {
    uint64_t bytes; /* on disk */
    uint64_t files;
};

/* Of a folder below path; stops when either passes most. */
void snp_folder_measure(const char *path,
                        const struct snp_folder_size *most,
                        struct snp_folder_size *ret);

/* Remove path and all below, however deep and whatever its modes are. */
void snp_folder_remove(const char *path);

#endif
