/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_LOGS_VISUALIZE_H
#define SNP_CLI_LOGS_VISUALIZE_H

/*
 * Shared by the two programs of `visualize`: `agent` writes a page, and replaces itself by
 * `visualize` to serve pages: only that one loads the HTTP library.
 */

#include "base/cli/cli.h"
#include "cli/logs/page.h"

/* The selection, from the options. */
struct snp_visualize {
    struct snp_cli *cli;             /* borrowed */
    const struct snp_config *config; /* borrowed */
    char *path;                      /* of the run that was named; owned; NULL = none was */
    char *session;                   /* the session that was named; owned; NULL = none was */
    struct snp_page page;            /* borrows from these */
    bool as_json;                    /* the format in which the address is printed */
};
void snp_visualize_done(struct snp_visualize *v);

/* Read the options. SNP_E_INVALID: they are wrong; SNP_E_NOT_FOUND: no such run or session. */
int snp_visualize_read(struct snp_cli *cli,
                       const struct snp_opts *opts,
                       struct snp_visualize *ret,
                       struct snp_err *err) SNP_NODISCARD;

/*
 * The run or session with this name, as a path or an id that the caller frees. SNP_E_NOT_FOUND:
 * neither exists.
 */
int snp_visualize_find(const struct snp_visualize *v,
                       const char *name,
                       char **ret_path,
                       char **ret_session,
                       struct snp_err *err) SNP_NODISCARD;

/* The verb in the program `visualize`. */
int snp_visualize_http_verb(struct snp_cli *cli, const struct snp_opts *opts);

#endif
