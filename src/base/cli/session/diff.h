/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SESSION_DIFF_H
#define SNP_BASE_CLI_SESSION_DIFF_H

/* Show the changes of a session: between two moments, or to its project as `apply` does. */

#include "base/cli/session/changes.h"

/*
 * Quote a name, C-like, if it could be read as more than a name, and put before in front of it. The
 * caller frees.
 */
char *snp_diff_name(const char *before, const char *name);

struct snp_diff_show {
    bool is_stat;
    bool may_page;
    bool has_contents; /* JSON includes file contents, without line differences */
};

/*
 * Print how b differs from a: sessions or snapshots. *ret_json: with --json all of it instead, the
 * caller's.
 */
int snp_diff_moments(struct snp_cli *cli,
                     const char *a,
                     const char *b,
                     const struct snp_diff_show *show,
                     json_t **ret_json,
                     struct snp_err *err) SNP_NODISCARD;

/* Print the differences, or (ret_json not NULL) return them as an object, which is the caller's. */
int snp_diff_project(struct snp_cli *cli,
                     const struct snp_session_changes *changes,
                     const struct snp_diff_show *show,
                     json_t **ret_json,
                     struct snp_err *err) SNP_NODISCARD;

#endif
