/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SESSION_DIFF_H
#define SNP_CLI_SESSION_DIFF_H

/* Show the changes of a session to its project, for `diff --project` and `apply`. */

#include "cli/session/changes.h"

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

/* Print the differences, or (ret_json not NULL) return them as an object, which is the caller's. */
int snp_diff_project(struct snp_cli *cli,
                     const struct snp_session_changes *changes,
                     const struct snp_diff_show *show,
                     json_t **ret_json,
                     struct snp_err *err) SNP_NODISCARD;

#endif
