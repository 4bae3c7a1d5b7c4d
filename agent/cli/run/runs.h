/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_RUNS_H
#define SNP_CLI_RUN_RUNS_H

/* The folder of records, for the verbs that read it: its path, and its runs. */

#include "base/cli/cli.h"

#define SNP_RUNS_OPT_DIR(letter)                                                         \
    {                                                                                    \
        "dir", letter, SNP_OPT_STRING, "DIR", "folder of the records (default: ./logs)", \
            SNP_KEY_LOG_DIR                                                              \
    }

/* The folder; the caller frees. */
int snp_runs_folder(struct snp_cli *cli,
                    const struct snp_opts *opts,
                    char **ret,
                    struct snp_err *err) SNP_NODISCARD;
/* The path of the record that the verb's i-th argument names; the caller frees. */
int snp_runs_find(struct snp_cli *cli,
                  const struct snp_opts *opts,
                  size_t i,
                  char **ret,
                  struct snp_err *err) SNP_NODISCARD;
/*
 * Print the list of runs, and a line with the next step, as snp_sessions_tell() does. resumable:
 * only runs that `resume` accepts. Returns the exit status.
 */
int snp_runs_tell(struct snp_cli *cli,
                  const struct snp_opts *opts,
                  bool resumable,
                  const char *next);
/* `runs call`, for the MCP server's tools about agents. */
int snp_runs_call(struct snp_cli *cli, const struct snp_opts *opts);
/* For snp_trajectory_read: append each record to the array ctx. */
int snp_runs_collect(void *ctx, json_t *record, struct snp_err *err) SNP_NODISCARD;

#endif
