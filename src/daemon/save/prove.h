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

/* A trial in another place. The session is unaffected. */
struct snp_trial {
    struct snp_place *place; /* borrowed; it gets the manifest */
    uint64_t checkpoint;     /* the checkpoint tried */
    json_t *failed;          /* owned by the caller: what could not be restored; NULL = not tried */
};

/*
 * In a coroutine. The session is not being proven, and the caller has a reference. trial: NULL =
 * where it is: it has an executor and a checkpoint, and session->durable.unrestorable will list the
 * exceptions; else it may be asleep or have no checkpoint.
 */
int snp_prove(struct snp_session *session,
              struct snp_trial *trial,
              struct snp_err *err) SNP_NODISCARD;

/* The latest checkpoint was restored once, in such a sandbox or on waking. */
bool snp_prove_is_done(const struct snp_session *session);

/* Record that this checkpoint was restored, except for these. failed: borrowed. */
void snp_prove_note(struct snp_session *session, uint64_t checkpoint, json_t *failed);

#endif
