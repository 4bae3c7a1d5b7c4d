/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_CLOSE_H
#define SNP_DAEMON_SAVE_CLOSE_H

/* Closing an executor whose session stays. */

#include "base/err.h"

struct snp_session;

/* err: NULL = it is gone. The callee has the session go on. */
typedef void snp_leave_done(void *ctx, const struct snp_err *err);

/* What stays is saved. Snapshots in its memory go to disk first. The session is ASLEEP then. */
int snp_leave(struct snp_session *session, snp_leave_done *done, void *ctx, struct snp_err *err)
    SNP_NODISCARD;

/* The same of an executor that is of no use; who waits goes on. */
void snp_leave_drop(struct snp_session *session);

#endif
