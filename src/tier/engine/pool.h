/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_POOL_H
#define SNP_TIER_ENGINE_POOL_H

/*
 * Sandboxes made ahead, complete but for what makes them somebody's session: its id and
 * its environment. They are made for the kinds of session opened lately.
 */

#include "tier/engine/sandbox.h"

enum {
    SNP_POOL_MAX = 2 /* of each kind; tier->pool_max may be less */
};

/*
 * A ready sandbox of the pool that is what s asks for: same template, limits, project, masks. NULL
 * if there is none. Borrowed; whoever takes it clears is_pooled.
 */
struct snp_sandbox *snp_pool_find(const struct snp_sandbox *s);

/* Somebody opens a session like spec: have some ready for the next. spec is borrowed. */
void snp_pool_want(struct snp_supervisor *supervisor, const struct snp_sandbox_spec *spec);

/*
 * A pooled sandbox is gone. If it was not the pool that ended it, the next would end likewise, at
 * once and for ever (a venv was removed): none is made of that kind until somebody asks again.
 */
void snp_pool_lost(struct snp_sandbox *s);

/* End them all, because room is needed; true while one has not given back its own. */
bool snp_pool_drop(struct snp_supervisor *supervisor);

/* Make no more. */
void snp_pool_close(struct snp_supervisor *supervisor);

#endif
