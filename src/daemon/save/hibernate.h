/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_HIBERNATE_H
#define SNP_DAEMON_SAVE_HIBERNATE_H

/*
 * Sessions without an executor: how they get there, whether asked for, for idleness, to make
 * room, because the daemon ends, or because their interpreter was lost.
 */

#include "base/err.h"
#include "base/json.h"

struct snp_server;
struct snp_session;
struct snp_trial;

/*
 * Save what is not saved yet, then close the executor. done: NULL = nobody waits; err: NULL =
 * the session is hibernated. If it cannot be saved it stays as it was. is_gentle: also if something
 * of it could not be saved (it would be lost). The session is IDLE, or being saved, or hibernating:
 * then done is called with the outcome of that.
 */
typedef void snp_hibernate_done(void *ctx, const struct snp_err *err);
void snp_hibernate(struct snp_session *session,
                   bool is_gentle,
                   snp_hibernate_done *done,
                   void *ctx);

/*
 * The session runs a cell, wakes or rolls back: hibernation waits for its turn. A pending save
 * needs no turn.
 */
bool snp_hibernate_must_wait(const struct snp_session *session);

/* A hibernation that ends only if the session can wake somewhere else, or with other limits. */
struct snp_departure {
    struct snp_trial *trial;
    bool stays;      /* it is only tried whether its data fit there */
    bool may_lose;   /* also if something of it cannot come along */
    bool has_losses; /* that was why it stays, or the trial failed */
};

/*
 * The same, tried in that place; the session may also be asleep already, with nothing missing. It
 * is not hibernating. departure: the caller's, until done.
 */
void snp_hibernate_for(struct snp_session *session,
                       struct snp_departure *departure,
                       snp_hibernate_done *done,
                       void *ctx);

#endif
