/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_WAKE_H
#define SNP_DAEMON_CELL_WAKE_H

/*
 * Wake a session without an executor: open the next one like the first, and fill it from the latest
 * checkpoint.
 *
 * Cells whose effects are in no checkpoint are then missing. The caller decides about them
 * (`recover`): no cell runs on a state it does not expect, and none runs twice unless asked for.
 */

struct snp_session;

/* Start waking. The session has no executor, no running cell, and a waiter. */
void snp_wake_start(struct snp_session *session);

/* Continue a wake after a change of its session; called by snp_session_go_on. */
void snp_wake_go_on(struct snp_session *session);

/*
 * The session is ending or being cleared: abort the wake for its waiters. Harmless without a wake.
 */
void snp_wake_abort(struct snp_session *session);

#endif
