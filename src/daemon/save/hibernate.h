/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_HIBERNATE_H
#define SNP_DAEMON_SAVE_HIBERNATE_H

/*
 * Sessions without an executor: hibernated on request, when idle, to make room, because the daemon
 * ends, or because the interpreter was lost.
 */

#include "base/err.h"
#include "base/json.h"

struct snp_server;
struct snp_session;
struct snp_trial;

/*
 * Save unsaved state, then close the executor. err: NULL = the session is hibernated. If it cannot
 * be saved it stays unchanged. is_gentle: it also stays if a part of it could not be saved (and
 * would be lost). The session is IDLE, being saved, or hibernating: then done is called with that
 * outcome.
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

/* A hibernation that completes only if the session can wake elsewhere, or with other limits. */
struct snp_departure {
    struct snp_trial *trial;
    bool stays;      /* trial only: do its data fit there */
    bool may_lose;   /* even if some of its state cannot be moved */
    bool has_losses; /* the reason that it stays, or the trial failed */
};

/*
 * The same, with a trial in that place; the session may also be asleep already, with nothing
 * missing. It is not hibernating. departure: the caller's, until done.
 */
void snp_hibernate_for(struct snp_session *session,
                       struct snp_departure *departure,
                       snp_hibernate_done *done,
                       void *ctx);

#endif
