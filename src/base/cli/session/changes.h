/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SESSION_CHANGES_H
#define SNP_BASE_CLI_SESSION_CHANGES_H

/*
 * The changes of a session to its project, as a patch; and how that and `diff` read the daemon's
 * answers.
 */

#include "base/cli/cli.h"
#include "base/patch/patch.h"
#include "base/wire/snapshot.h"

struct snp_session_changes {
    char *session;  /* owned: id */
    char *name;     /* owned */
    char *project;  /* owned: its folder */
    int project_fd; /* owned */
    char *tier;     /* owned */
    char *template; /* owned */
    char *rootfs;   /* owned: image and runtime of the docker tier; else NULL */
    json_t *limits; /* owned: as limits.h writes them */
    double created; /* unix seconds: start of the session */
    struct snp_patch patch;
    json_t *lost; /* owned: parts of the session that could not be saved */
};
void snp_changes_done(struct snp_session_changes *changes);
#define snp_autochanges snp_cleanup(snp_changes_done)

/*
 * Read the changes. only: files or folders of the project to include; none: all. *ret is the
 * caller's, also on failure. SNP_E_INVALID: the session has no project.
 */
int snp_changes_read(struct snp_cli *cli,
                     const char *session,
                     const char *const *only,
                     size_t n_only,
                     struct snp_session_changes *ret,
                     struct snp_err *err) SNP_NODISCARD;

/* The bytes of a row's path, a string; the caller frees. */
char *snp_changes_path(const struct snp_diff_file *row);

/*
 * A content by its hash, with a NUL behind it; the caller frees. SNP_E_PEER: it has more than
 * max bytes.
 */
int snp_changes_content(struct snp_cli *cli,
                        const char *hash,
                        size_t max,
                        char **ret,
                        size_t *ret_len,
                        struct snp_err *err) SNP_NODISCARD;

#endif
