/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_SPEC_H
#define SNP_DAEMON_SESSION_SPEC_H

/*
 * What a session was opened with, as text for the journal and back, so that it can be opened
 * again exactly so; and what its checkpoints depend on.
 */

#include "base/err.h"
#include "base/json.h"
#include "daemon/session.h"

/* Its latest executor was opened with this manifest. */
int snp_session_policy_opened(struct snp_session *session,
                              const json_t *manifest,
                              struct snp_err *err) SNP_NODISCARD;
/* It runs in a weaker tier, for the reason that err says. */
int snp_session_policy_weaken(struct snp_session *session,
                              struct snp_found_tier *tier,
                              struct snp_err *err) SNP_NODISCARD;

/* Its next executor is had there, and *place is where it was so far. */
void snp_session_policy_swap(struct snp_session *session, struct snp_place *place);

/* JSON; caller frees; NULL when out of memory. */
char *snp_session_spec_text(const struct snp_session *session);
/*
 * The same for a session that is made from it: without what was accepted about its own cells, and
 * its owner.
 */
char *snp_session_spec_copy(const struct snp_session *session);
/* The same of a session's text in the journal. NULL when out of memory or it is none. */
char *snp_session_spec_strip(const char *text);
/* Such a text with that owner (base/process.h). NULL: out of memory. */
char *snp_session_spec_own(const char *text, const char *owner);

/*
 * Fill a new session's policy from such a text. SNP_E_INVALID: it is not one of ours.
 */
int snp_session_spec_read(struct snp_session *session,
                          const char *text,
                          struct snp_err *err) SNP_NODISCARD;

/* Cells up to this one need not be run again, of a session with that record and checkpoint. */
uint64_t snp_session_spec_floor(const char *text, uint64_t checkpoint_cell);

/*
 * May a checkpoint made under the manifest `then` be restored where `now` is in force? What
 * was pickled by one interpreter and its packages is not for another. SNP_E_INVALID names
 * what differs and the ways out.
 */
int snp_state_key_check(const struct snp_session *session,
                        const json_t *now,
                        struct snp_err *err) SNP_NODISCARD;
/* The same for another tier, whose file system is its own. */
int snp_state_key_check_elsewhere(const struct snp_session *session,
                                  const json_t *now,
                                  struct snp_err *err) SNP_NODISCARD;

#endif
