/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_END_H
#define SNP_DAEMON_CELL_END_H

/* The end of sessions, and of what they hold: asked for, or because their executor is gone. */

#include <stdbool.h>

#include "base/err.h"

struct snp_request;
struct snp_session;

/*
 * End a session: its waiting cells fail, the tier clears up, the journal forgets it. request: of
 * the method `sessions.destroy`, answered when nothing is left, taken over; NULL = nobody waits.
 * The session `default` is cleared instead.
 */
void snp_session_end(struct snp_session *session, struct snp_request *request);

/* The same, but for what a run kept of its steps; after these have come to disk. */
void snp_session_retire(struct snp_session *session, struct snp_request *request);

/*
 * A fresh interpreter, an empty workspace, no cells, no snapshots, no checkpoints; name, id and
 * policy stay, the epoch is raised. What is being saved, hibernated or rolled back is so first.
 * request: taken over. is_idle_only: refused if that cuts off cells.
 */
void snp_session_clear(struct snp_session *session, struct snp_request *request, bool is_idle_only);

/* SNP_E_DENIED: cells run in it or wait for it, which its end would cut off. */
int snp_session_unused_check(const struct snp_session *session, struct snp_err *err) SNP_NODISCARD;

/* Its executor is gone, for this reason. */
void snp_session_lost(struct snp_session *session, const char *reason);

#endif
