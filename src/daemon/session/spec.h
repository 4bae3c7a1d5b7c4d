/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_SPEC_H
#define SNP_DAEMON_SESSION_SPEC_H

/*
 * A session's policy as text for the journal and back, so that the session can be opened again
 * exactly; and the compatibility of its checkpoints.
 */

#include "base/err.h"
#include "base/json.h"
#include "daemon/session.h"

/* Record the manifest of its latest executor. */
int snp_session_policy_opened(struct snp_session *session,
                              const json_t *manifest,
                              struct snp_err *err) SNP_NODISCARD;
/* It runs in a weaker tier, for the reason in err. */
int snp_session_policy_weaken(struct snp_session *session,
                              struct snp_found_tier *tier,
                              struct snp_err *err) SNP_NODISCARD;

/* Its next executor is opened in *place; *place becomes its place so far. */
void snp_session_policy_swap(struct snp_session *session, struct snp_place *place);

/* JSON; caller frees; NULL when out of memory. */
char *snp_session_spec_text(const struct snp_session *session);
/* The same for a session made from it: without the accepted losses of its cells, and its owner. */
char *snp_session_spec_copy(const struct snp_session *session);
/* The same for a spec text from the journal. NULL when out of memory or invalid. */
char *snp_session_spec_strip(const char *text);
/* A spec text with that owner (base/process.h). NULL: out of memory. */
char *snp_session_spec_own(const char *text, const char *owner);

/* Fill a new session's policy from a spec text. SNP_E_INVALID: it is not one. */
int snp_session_spec_read(struct snp_session *session,
                          const char *text,
                          struct snp_err *err) SNP_NODISCARD;

/* Cells up to this one need no replay, for a session with that record and checkpoint. */
uint64_t snp_session_spec_floor(const char *text, uint64_t checkpoint_cell);

/*
 * Check that a checkpoint made under the manifest `then` may be restored under `now`. Pickles of
 * one interpreter and its packages are invalid in another. SNP_E_INVALID names the difference and
 * the remedies.
 */
int snp_state_key_check(const struct snp_session *session,
                        const json_t *now,
                        struct snp_err *err) SNP_NODISCARD;
/* The same for another tier, which has a different file system. */
int snp_state_key_check_elsewhere(const struct snp_session *session,
                                  const json_t *now,
                                  struct snp_err *err) SNP_NODISCARD;

#endif
