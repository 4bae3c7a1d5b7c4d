/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_CLI_H
#define SNP_CLI_CLI_H

/* The verbs of the runtime, and the lists of sessions that several verbs print. */

#include "base/cli/cli.h"

/* The verbs of the runtime, in the order of --help; base/cli/cli.c has the group titles. */
/* clang-format off */
#define SNP_VERBS(F) \
    F(exec) F(ps) F(attach) F(kill) F(rerun) F(output) \
    F(sessions) F(history) F(show) F(snapshot) F(snapshots) F(rollback) F(fork) F(checkpoint) \
    F(hibernate) F(export) F(import) F(gc) \
    F(put) F(get) F(ls) F(diff) \
    F(init) F(mcp_install) F(mcp_serve) F(trust) F(config) F(template) F(doctor) F(daemon) \
    F(version) F(completion) F(man)
/* clang-format on */
SNP_VERBS(SNP_VERB_DECLARE)
SNP_VERB_DECLARE(serve_command)

/*
 * The lists that verbs print when called without a word, and a line with the next step: `next` is a
 * command without the program's name. session: NULL = snapshots of all. They return the exit
 * status.
 */
int snp_sessions_tell(struct snp_cli *cli, const char *next);
/* Print the sessions of exec below a list of runs; nothing if no daemon runs. */
void snp_sessions_below(struct snp_cli *cli);
/*
 * Rows of `sessions.list` without those of runs, the most recently used first, and the row of the
 * session `asked` (name or id; NULL = none). New reference; empty if no daemon runs.
 */
json_t *snp_sessions_of_exec(struct snp_cli *cli, const char *asked)
    __attribute__((returns_nonnull));
/* Print the newest cells of the session with that name. < 0: no such session, or no daemon. */
int snp_history_tell(struct snp_cli *cli, const char *session);
/*
 * Call record with {"_type": "session", "name", "before"}, then with the newest cells of a session,
 * oldest first, as `show --json` prints them. before: cells before this number were left out;
 * 0 = none.
 */
int snp_history_read(struct snp_cli *cli,
                     const char *session,
                     int (*record)(void *ctx, json_t *record, struct snp_err *err),
                     void *ctx,
                     struct snp_err *err) SNP_NODISCARD;
int snp_snapshots_tell(struct snp_cli *cli, const char *session, const char *next);
/* Print the names of sessions for shell completion, one a line; starts no daemon. */
int snp_sessions_names(struct snp_cli *cli);

#endif
