/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SESSION_FILES_H
#define SNP_BASE_CLI_SESSION_FILES_H

/* Copy files and folders to and from a session. */

#include <stdint.h>

#include "base/cli/cli.h"
#include "base/err.h"

/* A file or folder of a session; all borrowed. */
struct snp_remote_file {
    struct snp_cli *cli;
    const char *session;
    const char *path;
    unsigned mode;   /* put: mode to set; get: mode found */
    bool is_written; /* get: written by the code, not part of the project */
    bool has_more;   /* put: more files follow; the session is saved with the last one */
    /* put: the last file if more may follow, its path owned; or NULL */
    struct snp_remote_file *last;
};

/* Totals of a copy. */
struct snp_moved {
    uint64_t files;
    uint64_t folders; /* get only */
    uint64_t bytes;
    uint64_t stored;  /* get only: bytes written here, without holes */
    uint64_t skipped; /* other than files and folders */
};

/* Copy the content of fd into the session. *ret_size: bytes. */
int snp_file_put(const struct snp_remote_file *to, int fd, uint64_t *ret_size, struct snp_err *err)
    SNP_NODISCARD;

/* Save the session with all files put into it; this file was the last. */
int snp_file_put_end(const struct snp_remote_file *to, struct snp_err *err) SNP_NODISCARD;

/*
 * Copy a file of the session to fd, and add its bytes to moved. In a new file its holes stay holes.
 * SNP_E_LIMIT: the total is more than the session can hold.
 */
int snp_file_get(struct snp_remote_file *from, int fd, struct snp_moved *moved, struct snp_err *err)
    SNP_NODISCARD;

/*
 * Copy the files below the folder `source`; empty folders are skipped, links not followed. Files
 * copied before a failure stay.
 */
int snp_tree_put(const struct snp_remote_file *to,
                 const char *source,
                 struct snp_moved *moved,
                 struct snp_err *err) SNP_NODISCARD;

/*
 * Copy a folder of the session to `dest`, which must not exist: files of the code never replace a
 * file here, and its links lead nowhere else. Files copied before a failure stay.
 */
int snp_tree_get(const struct snp_remote_file *from,
                 const char *dest,
                 struct snp_moved *moved,
                 struct snp_err *err) SNP_NODISCARD;

/*
 * Copy files of the session, named by their paths below from->path (an array of strings), into the
 * folder `dest`, which must not exist, with the same layout. Paths that are no longer files are
 * counted as skipped. Files copied before a failure stay.
 */
int snp_tree_get_files(const struct snp_remote_file *from,
                       const json_t *paths,
                       const char *dest,
                       struct snp_moved *moved,
                       struct snp_err *err) SNP_NODISCARD;

#endif
