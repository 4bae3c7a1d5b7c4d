/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_ROOM_H
#define SNP_DAEMON_SAVE_ROOM_H

/* The number of sessions awake, and hibernation when idle or to make room. */

#include "base/err.h"

struct snp_server;
struct snp_session;

/*
 * Find room for the executor of one more named session. 0: there is room. 1: there will be, once a
 * session has hibernated; waking sessions then continue. SNP_E_LIMIT: no session can hibernate,
 * because their state cannot be saved.
 */
int snp_room_find(struct snp_server *server, struct snp_err *err) SNP_NODISCARD;

/* The session waits for room to wake, or no longer does. */
void snp_room_want(struct snp_session *session);
void snp_room_unwant(struct snp_session *session);

/* A session has come to rest: continue sessions that wait for room, one of each client in turn. */
void snp_room_serve(struct snp_server *server);

/* Hibernate sessions that were idle too long, and the least recently used beyond the bounds. */
void snp_room_tick(struct snp_server *server);

#endif
