/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_PROVE_H
#define SNP_DAEMON_SAVE_PROVE_H

/*
 * Whether a session's checkpoint can be restored, found out by doing it: in a sandbox beside the
 * session's own, of the same kind and with the same limits, which ends then. Cells go on meanwhile.
 */

#include "base/err.h"
#include "base/json.h"

struct snp_place;
struct snp_session;

/* err: NULL = it can be; session->durable.unrestorable has what of it cannot. */
typedef void snp_prove_done(void *ctx, const struct snp_err *err);

/* The session has an executor and a checkpoint, and is not being proven. done always follows. */
void snp_prove(struct snp_session *session, snp_prove_done *done, void *ctx);

/* Somewhere else than where the session is. The session is told nothing of it. */
struct snp_trial {
    struct snp_place *place; /* borrowed; it gets the manifest */
    uint64_t checkpoint;     /* that was tried */
    json_t *failed; /* owned by the caller: what of it could not be restored; NULL = not tried */
};

/*
 * The same there, of a session that may be asleep, or have no checkpoint. trial: the caller's,
 * until done.
 */
void snp_prove_elsewhere(struct snp_session *session,
                         struct snp_trial *trial,
                         snp_prove_done *done,
                         void *ctx);

/* Its latest checkpoint was restored once, in such a sandbox or when it woke. */
bool snp_prove_is_done(const struct snp_session *session);

/* This checkpoint was restored, but for these. failed: borrowed. */
void snp_prove_note(struct snp_session *session, uint64_t checkpoint, json_t *failed);

#endif
