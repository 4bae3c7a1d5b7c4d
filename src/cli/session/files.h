/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SESSION_FILES_H
#define SNP_CLI_SESSION_FILES_H

/* Single files to and from a session, and whole folders of them. */

#include <stdint.h>

#include "base/err.h"
#include "cli/cli.h"

/* A file or folder of a session; all borrowed. */
struct snp_remote_file {
    struct snp_cli *cli;
    const char *session;
    const char *path;
    unsigned mode;   /* put: to be set; get: out */
    bool is_written; /* get: the code wrote it, it is none of a project's */
    bool has_more;   /* put: more files follow; the session is saved with the last one */
    /* put: the last file if more may follow, its path owned; or NULL */
    struct snp_remote_file *last;
};

/* What went over. */
struct snp_moved {
    uint64_t files;
    uint64_t folders; /* get only */
    uint64_t bytes;
    uint64_t stored;  /* get only: what was written here, without holes */
    uint64_t skipped; /* neither file nor folder */
};

/* Copy what fd holds into the session. *ret_size: bytes. */
int snp_file_put(const struct snp_remote_file *to, int fd, uint64_t *ret_size, struct snp_err *err)
    SNP_NODISCARD;

/* Save the session with all files put into it; this file was the last. */
int snp_file_put_end(const struct snp_remote_file *to, struct snp_err *err) SNP_NODISCARD;

/*
 * Copy a file of the session to fd, and add its bytes to moved. Into a new file its holes stay
 * holes. SNP_E_LIMIT: with what was moved before it is more than the session can hold.
 */
int snp_file_get(struct snp_remote_file *from, int fd, struct snp_moved *moved, struct snp_err *err)
    SNP_NODISCARD;

/*
 * Copy what is below the folder `source`; folders without files are left out, links not
 * followed. What was copied before a failure stays.
 */
int snp_tree_put(const struct snp_remote_file *to,
                 const char *source,
                 struct snp_moved *moved,
                 struct snp_err *err) SNP_NODISCARD;

/*
 * Copy a folder of the session to `dest`, which must not exist: what the code wrote never
 * replaces a file here, nor does a link it made lead anywhere. What was copied before a
 * failure stays.
 */
int snp_tree_get(const struct snp_remote_file *from,
                 const char *dest,
                 struct snp_moved *moved,
                 struct snp_err *err) SNP_NODISCARD;

/*
 * Copy files of the session, named by their paths below from->path (an array of strings), into the
 * folder `dest`, which must not exist, as they lie there. What is no file any more is counted as
 * skipped. What was copied before a failure stays.
 */
int snp_tree_get_files(const struct snp_remote_file *from,
                       const json_t *paths,
                       const char *dest,
                       struct snp_moved *moved,
                       struct snp_err *err) SNP_NODISCARD;

#endif
