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

extern const struct snp_transport snp_transport_client;
SNP_VERB_DECLARE(serve_command)

/*
 * The lists that verbs print when called without a word, and a line with the next step: `next` is a
 * command without the program's name. session: NULL = snapshots of all. They return the exit
 * status.
 */
int snp_sessions_tell(struct snp_cli *cli, const char *next);
int snp_snapshots_tell(struct snp_cli *cli, const char *session, const char *next);
/* Print the names of sessions for shell completion, one a line; starts no daemon. */
int snp_sessions_names(struct snp_cli *cli);

#endif
