/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_ROOM_H
#define SNP_DAEMON_SAVE_ROOM_H

/* How many sessions are awake, and who goes to sleep for idleness or to make room. */

#include "base/err.h"

struct snp_server;
struct snp_session;

/*
 * Is there room for one more executor of a session that lasts? 0: there is. 1: there will be, when
 * somebody has gone to sleep: then sessions that wake go on. SNP_E_LIMIT: all of them are
 * there to stay, for what they hold cannot be saved.
 */
int snp_room_find(struct snp_server *server, struct snp_err *err) SNP_NODISCARD;

/* The session waits for room to wake, or no longer does. */
void snp_room_want(struct snp_session *session);
void snp_room_unwant(struct snp_session *session);

/* A session has come to rest: sessions that wait for room continue, one of each client in turn. */
void snp_room_serve(struct snp_server *server);

/* Hibernate who has been idle for long, and the least recently used beyond the bounds. */
void snp_room_tick(struct snp_server *server);

#endif
