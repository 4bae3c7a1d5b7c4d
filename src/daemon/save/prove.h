/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_PROVE_H
#define SNP_DAEMON_SAVE_PROVE_H

/*
 * Test whether a session's checkpoint can be restored: in a second sandbox of the same kind and
 * with the same limits, which is closed afterwards. Cells continue.
 */

#include "base/err.h"
#include "base/json.h"

struct snp_place;
struct snp_session;

/* err: NULL = it can be restored; session->durable.unrestorable lists the exceptions. */
typedef void snp_prove_done(void *ctx, const struct snp_err *err);

/* The session has an executor and a checkpoint, and is not being proven. done always follows. */
void snp_prove(struct snp_session *session, snp_prove_done *done, void *ctx);

/* A trial in another place. The session is unaffected. */
struct snp_trial {
    struct snp_place *place; /* borrowed; it gets the manifest */
    uint64_t checkpoint;     /* the checkpoint tried */
    json_t *failed;          /* owned by the caller: what could not be restored; NULL = not tried */
};

/*
 * The same in another place; the session may be asleep or have no checkpoint. trial: the caller's,
 * until done.
 */
void snp_prove_elsewhere(struct snp_session *session,
                         struct snp_trial *trial,
                         snp_prove_done *done,
                         void *ctx);

/* The latest checkpoint was restored once, in such a sandbox or on waking. */
bool snp_prove_is_done(const struct snp_session *session);

/* Record that this checkpoint was restored, except for these. failed: borrowed. */
void snp_prove_note(struct snp_session *session, uint64_t checkpoint, json_t *failed);

#endif
