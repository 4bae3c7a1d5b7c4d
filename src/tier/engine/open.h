/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_OPEN_H
#define SNP_TIER_ENGINE_OPEN_H

/* Opening and closing of sandboxes. */

#include "tier/engine/sandbox.h"

/*
 * Begin to open a sandbox; answers the request open_id later. spec's owned members are taken, on
 * failure too. SNP_E_LIMIT, SNP_E_UNSUPPORTED, SNP_E_DENIED (a degraded control without
 * allow_degraded, or with require_exact) are returned at once.
 */
int snp_sandbox_open(struct snp_supervisor *supervisor,
                     struct snp_sandbox_spec *spec,
                     uint32_t open_id,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * Check that every control and limit is fully enforced. SNP_E_DENIED names the others, and the fix.
 */
int snp_sandbox_check_exact(const struct snp_sandbox *s, struct snp_err *err) SNP_NODISCARD;

/*
 * Begin to make a sandbox in advance, for a session like spec (copied). It appears only in
 * supervisor->pooled, with is_pooled set.
 */
int snp_sandbox_prepare(struct snp_supervisor *supervisor,
                        const struct snp_sandbox_spec *spec,
                        struct snp_err *err) SNP_NODISCARD;

/* For the supervisor's end: kill all sandboxes and wait (bounded) for their removal. No answers. */
void snp_sandbox_end_all(struct snp_supervisor *supervisor);

/*
 * End sandboxes whose pid 1 leaves a call unanswered too long; called by a timer. Without this, one
 * such sandbox would make the daemon take the whole tier for hung.
 */
void snp_sandboxes_watch(struct snp_supervisor *supervisor);

/* For tiers -------------------------------------------------------------------------- */

/* The sandbox is ready for cells. */
void snp_sandbox_opened(struct snp_sandbox *s);

/* Opening failed and everything is cleaned up: s is freed. */
void snp_sandbox_failed(struct snp_sandbox *s, const struct snp_err *err);

/* The sandbox's pid 1 has ended. Pending requests are answered; the tier removes the rest. */
void snp_sandbox_ended(struct snp_sandbox *s);

/* Everything of the sandbox is removed: pending requests are answered, and s is freed. */
void snp_sandbox_gone(struct snp_sandbox *s);

#endif
