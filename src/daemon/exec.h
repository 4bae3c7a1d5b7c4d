/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_EXEC_H
#define SNP_DAEMON_EXEC_H

/*
 * Cells: opening their session, waiting for their turn, running in the tier, and the
 * end of sessions. One cell at a time runs in a session, in the order they came.
 */

#include "base/err.h"
#include "base/json.h"

struct snp_exec;
struct snp_request;
struct snp_server;
struct snp_session;
struct snp_tier;

/* The request `exec`; head has passed snp_exec_record. The request is taken over. */
void snp_exec_start(struct snp_request *request, json_t *head, const char *raw, size_t raw_len);

/*
 * Stop a cell: a waiting one is answered at once, a running one is interrupted by its
 * tier. request: of the method `interrupt`; taken over.
 */
void snp_exec_interrupt(struct snp_exec *exec, struct snp_request *request);

/* The client of the cell has gone: a waiting one is dropped, an unnamed session ends. */
void snp_exec_abandon(struct snp_exec *exec);

/*
 * End a session: its waiting cells fail, the tier clears up. request: of the method
 * `sessions.destroy`, answered when nothing is left, taken over; NULL = nobody waits.
 */
void snp_session_end(struct snp_session *session, struct snp_request *request);

/* A session ended by itself, for this reason. */
void snp_exec_session_lost(struct snp_session *session, const char *reason);

/* A tier has ended: all its sessions are lost. */
void snp_exec_tier_lost(struct snp_server *server, struct snp_tier *tier, const char *reason);

#endif
