/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_AT_REST_H
#define SNP_DAEMON_SAVE_AT_REST_H

/*
 * What the journal has of a session, asked on the store's thread: what one that is asleep lacks
 * depends on it.
 */

struct snp_session;

/* Look at its checkpoint, and if it is asleep at what it lacks. */
void snp_rest_look(struct snp_session *session);

/*
 * Raise RESTED, then look. What it was known to lack, before a wake that failed, is said
 * until then.
 */
void snp_session_rest(struct snp_session *session);

#endif
