/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_END_H
#define SNP_DAEMON_CELL_END_H

/* The end of sessions and of their state: requested, or because the executor is gone. */

#include <stdbool.h>

#include "base/err.h"

struct snp_session;
struct snp_work;

/* End a session: its waiting cells fail, the tier clears up, the journal forgets it. */
void snp_session_end(struct snp_session *session);

/*
 * For a request: the same, answered when all is gone. The session `default` is cleared instead.
 * With `keep_steps` the steps of a run stay; they are written to disk first.
 */
void snp_run_destroy(const struct snp_work *work);

/*
 * For a request: give the session a fresh interpreter and an empty workspace, without cells,
 * snapshots and checkpoints; name, id and policy stay, the epoch is raised. A pending save,
 * hibernation or rollback ends first. With `idle_only` refused if that would cut off cells.
 */
void snp_run_clear(const struct snp_work *work);

/* SNP_E_DENIED: the session has running or waiting cells, which its end would cut off. */
int snp_session_unused_check(const struct snp_session *session, struct snp_err *err) SNP_NODISCARD;

/* The session's executor is gone, for this reason. */
void snp_session_lost(struct snp_session *session, const char *reason);

#endif
