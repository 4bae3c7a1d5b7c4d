/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_CLOSE_H
#define SNP_DAEMON_SAVE_CLOSE_H

/* Close an executor; its session stays. */

#include "base/err.h"

struct snp_session;

/*
 * In a coroutine, whose caller has a reference and then continues the session. Snapshots in memory
 * are written to disk first. The session is then ASLEEP. Fails if the executor may not be gone.
 */
int snp_leave(struct snp_session *session, struct snp_err *err) SNP_NODISCARD;

/* The same for an executor that cannot be used; waiting calls continue. */
void snp_leave_drop(struct snp_session *session);

#endif
