/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_WAKE_H
#define SNP_DAEMON_CELL_WAKE_H

/*
 * Bringing a session back that has no executor: the next one is opened as the first was, and
 * filled from the latest checkpoint.
 *
 * Cells whose effects are in no checkpoint are missing then. What becomes of them is for the
 * caller to say (`recover`): nothing runs on a state it does not expect, and nothing runs twice
 * that it did not ask for.
 */

struct snp_session;

/* The session has no executor, no running cell, and somebody waits for it. */
void snp_wake_start(struct snp_session *session);

/* Something has happened to a session that wakes; called by snp_session_go_on. */
void snp_wake_go_on(struct snp_session *session);

/* It is ending or being cleared: whoever waits is not woken for. Harmless if it does not wake. */
void snp_wake_abort(struct snp_session *session);

#endif
