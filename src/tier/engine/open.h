/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_OPEN_H
#define SNP_TIER_ENGINE_OPEN_H

/* How a sandbox comes and goes. */

#include "tier/engine/sandbox.h"

/*
 * Begin to open; answers the request open_id later. spec's owned members are taken, on
 * failure too. SNP_E_LIMIT, SNP_E_UNSUPPORTED, SNP_E_DENIED (a degraded control without
 * allow_degraded, or anything less than whole with require_exact) come back at once.
 */
int snp_sandbox_open(struct snp_supervisor *supervisor,
                     struct snp_sandbox_spec *spec,
                     uint32_t open_id,
                     struct snp_err *err) SNP_NODISCARD;

/* Is every control and limit of it whole? SNP_E_DENIED names what is not, and the way out. */
int snp_sandbox_check_exact(const struct snp_sandbox *s, struct snp_err *err) SNP_NODISCARD;

/*
 * Begin to make a sandbox ahead, for a session like spec, of which a copy is taken. It
 * shows up in supervisor->pooled, and nowhere else, with is_pooled set.
 */
int snp_sandbox_prepare(struct snp_supervisor *supervisor,
                        const struct snp_sandbox_spec *spec,
                        struct snp_err *err) SNP_NODISCARD;

/*
 * The supervisor ends: kill all and wait (bounded) until nothing of them is left. Answers nothing.
 */
void snp_sandbox_end_all(struct snp_supervisor *supervisor);

/*
 * End the sandboxes whose pid 1 leaves a call unanswered for long; for a timer. Otherwise
 * one of them would make the daemon think that the whole tier hangs.
 */
void snp_sandboxes_watch(struct snp_supervisor *supervisor);

/* For tiers -------------------------------------------------------------------------- */

/* Everything stands: cells can come. */
void snp_sandbox_opened(struct snp_sandbox *s);

/* It could not be opened, and nothing of it is left: s is freed. */
void snp_sandbox_failed(struct snp_sandbox *s, const struct snp_err *err);

/* Its pid 1 is gone. Whoever waits is answered; what is left is the tier's to remove. */
void snp_sandbox_ended(struct snp_sandbox *s);

/* Nothing of it is left: whoever asked is told, and s is freed. */
void snp_sandbox_gone(struct snp_sandbox *s);

#endif
