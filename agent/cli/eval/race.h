/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_EVAL_RACE_H
#define SNP_CLI_EVAL_RACE_H

/* Candidates of a repair: the same command, several times in parallel. */

#include "base/cli/cli.h"

enum {
    SNP_RACE_MAX = 16
};

/*
 * Run the verb's words n times, each with its share of tokens and cost (cost below 0: no limit;
 * unpriced: unchanged). The first with exit status 0 ends the others, whose sessions are destroyed.
 * Prints; returns the exit status.
 */
int snp_race_run(
    struct snp_cli *cli, const struct snp_opts *opts, size_t n, int64_t tokens, double cost_usd);

#endif
