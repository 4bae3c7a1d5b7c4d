/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_CONTEXT_OPEN_H
#define SNP_CLI_CONTEXT_OPEN_H

/* Common start of the verbs of `context`: the project's index, up to date. */

#include "base/cli/cli.h"
#include "context/index.h"

/* dir: NULL = the repository around this folder, else this folder. Home and / are refused. */
int snp_context_open(const char *dir, bool rebuild, struct snp_index *ret, struct snp_err *err)
    SNP_NODISCARD;

/* The same with --dir, brought up to date. */
int snp_context_update(struct snp_cli *cli,
                       const struct snp_opts *opts,
                       struct snp_index *ret,
                       struct snp_err *err) SNP_NODISCARD;

/* The same, then unchanged for the rest of the verb. */
int snp_context_fresh(struct snp_cli *cli,
                      const struct snp_opts *opts,
                      struct snp_index *ret,
                      struct snp_err *err) SNP_NODISCARD;

/* A path given by the user, relative to the project's folder; the caller frees. */
char *snp_context_path(const struct snp_index *index, const char *path);

struct snp_context_range {
    int64_t fallback;
    int64_t min;
    int64_t max;
};

/* A numeric option within a range. */
int snp_context_number(const struct snp_opts *opts,
                       const char *name,
                       struct snp_context_range range,
                       uint64_t *ret,
                       struct snp_err *err) SNP_NODISCARD;

/* Print text of files: unchanged into a pipe, escaped on a terminal. */
int snp_context_print(const char *text, size_t n, struct snp_err *err) SNP_NODISCARD;

/* The exit status; answer: NULL = printed already. */
int snp_context_end(struct snp_cli *cli, int r, const struct snp_err *err, json_t *answer);

#endif
