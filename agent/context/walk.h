/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_WALK_H
#define SNP_CONTEXT_WALK_H

/*
 * The files of a project that an index may have: not ignored by git and without a secret's name.
 * Links are not followed.
 */

#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

enum {
    SNP_WALK_FILES_MAX = 200000,
    SNP_WALK_DEPTH_MAX = 64,
    SNP_WALK_PATH_MAX = 4096,
};

/*
 * Called for a regular file: its path from the project, and the folder in which `name` opens. < 0
 * ends the walk.
 */
typedef int (*snp_walk_fn)(void *arg,
                           const char *path,
                           int dir_fd,
                           const char *name,
                           const struct stat *st,
                           struct snp_err *err);

/* Files and folders that were left out. */
struct snp_walk_left {
    uint64_t ignored; /* files and folders: .gitignore */
    uint64_t secret;  /* by name */
    uint64_t special; /* links, sockets and the like */
    uint64_t beyond;  /* too deep, too long a path, or could not be read */
};

/* Walk the files in the order of their names. SNP_E_LIMIT: more files than an index can have. */
int snp_walk(int dir_fd,
             snp_walk_fn fn,
             void *arg,
             struct snp_walk_left *ret_left,
             struct snp_err *err) SNP_NODISCARD;

/* Walk the folders, including those without files, in the same order. < 0 ends the walk. */
int snp_walk_folders(int dir_fd,
                     int (*fn)(void *arg, int dir_fd, struct snp_err *err),
                     void *arg,
                     struct snp_err *err) SNP_NODISCARD;

#endif
