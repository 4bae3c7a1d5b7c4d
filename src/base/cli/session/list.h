/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SESSION_LIST_H
#define SNP_BASE_CLI_SESSION_LIST_H

/* Lists of sessions: rows of `sessions.list`. */

#include "base/cli/cli.h"

void snp_sessions_print(const json_t *list);
/* The most recently used first. */
void snp_sessions_sort(json_t *list);
/* Print the sessions of exec below a list of runs; nothing if no daemon runs. */
void snp_sessions_below(struct snp_cli *cli);
/*
 * Rows of `sessions.list` without those of runs, the most recently used first, and the row of the
 * session `asked` (name or id; NULL = none). New reference; empty if no daemon runs.
 */
json_t *snp_sessions_of_exec(struct snp_cli *cli, const char *asked)
    __attribute__((returns_nonnull));

#endif
