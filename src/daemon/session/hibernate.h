/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_HIBERNATE_H
#define SNP_DAEMON_SESSION_HIBERNATE_H

/*
 * Sessions without an executor: how they get there, whether asked for, for idleness, to make
 * room, because the daemon ends, or because their interpreter was lost.
 */

#include "base/err.h"
#include "base/json.h"

struct snp_server;
struct snp_session;

/*
 * Save what is not saved yet, then close the executor. done: NULL = nobody waits; err: NULL =
 * the session is hibernated. If it cannot be saved it stays as it was. is_gentle: also if something
 * of it could not be saved (it would be lost). The session is IDLE.
 */
typedef void snp_hibernate_done(void *ctx, const struct snp_err *err);
void snp_hibernate(struct snp_session *session,
                   bool is_gentle,
                   snp_hibernate_done *done,
                   void *ctx);

/* [{name, type, reason}]: what its checkpoint could not hold, and what of it did not come back when tried. New. */
json_t *snp_hibernate_lost(const struct snp_session *session);

/* Close the executor without saving: what it holds is of no use. */
void snp_hibernate_drop(struct snp_session *session);

/*
 * Ask the journal which checkpoint is the latest usable one, and what the session takes there; of
 * one without an executor also what it lacks.
 */
void snp_hibernate_look(struct snp_session *session);
/* It has no executor (any more): its state is that, and what it lacks is looked up. */
void snp_hibernate_rest(struct snp_session *session);

/*
 * Is there room for one more executor of a session that lasts? 0: there is. 1: there will be, when
 * somebody has gone to sleep: then snp_wake_go_on is called. SNP_E_LIMIT: all of them are
 * there to stay, for what they hold cannot be saved.
 */
int snp_hibernate_room(struct snp_server *server, struct snp_err *err) SNP_NODISCARD;

/* The daemon ends, and with it what is not on disk: say what that is. err: why it is not saved, or NULL. */
void snp_hibernate_tell_end(const struct snp_session *session, const struct snp_err *err);

/* A session has come to rest: those that wait for room may go on. */
void snp_hibernate_serve(struct snp_server *server);

/* Hibernate who has been idle for long, and the least recently used beyond the bounds. */
void snp_hibernate_tick(struct snp_server *server);

#endif
