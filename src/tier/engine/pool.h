/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_POOL_H
#define SNP_TIER_ENGINE_POOL_H

/*
 * Sandboxes made in advance for recently opened kinds of session. They are complete except for a
 * session's id and environment.
 */

#include "tier/engine/sandbox.h"

enum {
    SNP_POOL_MAX = 2 /* of each kind; tier->pool_max may lower it */
};

/*
 * Find a ready pooled sandbox that fits s: same template, limits, project, masks. NULL if there is
 * none. Borrowed; the caller clears is_pooled when it takes it.
 */
struct snp_sandbox *snp_pool_find(const struct snp_sandbox *s);

/* A session like spec was opened: prepare sandboxes for the next. spec is borrowed. */
void snp_pool_want(struct snp_supervisor *supervisor, const struct snp_sandbox_spec *spec);

/*
 * A pooled sandbox has ended. Unless the pool ended it, the next would fail too, at once and
 * forever (e.g. a removed venv): stop making this kind until a session requests it again.
 */
void snp_pool_lost(struct snp_sandbox *s);

/* End all pooled sandboxes to free resources; true while any still holds some. */
bool snp_pool_drop(struct snp_supervisor *supervisor);

/* Stop making sandboxes. */
void snp_pool_close(struct snp_supervisor *supervisor);

#endif
