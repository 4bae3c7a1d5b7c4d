/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_AT_REST_H
#define SNP_DAEMON_SAVE_AT_REST_H

/* Read a session's journal rows on the store's thread: they say what a sleeping session lacks. */

struct snp_session;

/* Read the session's checkpoint and, if it is asleep, its missing parts. */
void snp_rest_look(struct snp_session *session);

/* Raise RESTED, then read. Until then the losses known before a failed wake are reported. */
void snp_session_rest(struct snp_session *session);

#endif
