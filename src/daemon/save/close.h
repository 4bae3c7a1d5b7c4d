/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_CLOSE_H
#define SNP_DAEMON_SAVE_CLOSE_H

/* Close an executor; its session stays. */

#include "base/err.h"

struct snp_session;

/* err: NULL = it is gone. The callee continues the session. */
typedef void snp_leave_done(void *ctx, const struct snp_err *err);

/*
 * Save the state that stays. Snapshots in memory are written to disk first. The session is then
 * ASLEEP.
 */
int snp_leave(struct snp_session *session, snp_leave_done *done, void *ctx, struct snp_err *err)
    SNP_NODISCARD;

/* The same for an executor that cannot be used; waiting calls continue. */
void snp_leave_drop(struct snp_session *session);

#endif
