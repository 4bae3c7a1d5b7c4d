/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_POOL_H
#define SNP_TIER_ENGINE_POOL_H

/*
 * Sandboxes made ahead, complete but for what makes them somebody's session: its id and
 * its environment. They are made for the kinds of session opened lately.
 */

#include "tier/engine/sandbox.h"

enum {
    SNP_SPARES_MAX = 2 /* of each kind; tier->pool_max may be less */
};

/*
 * A ready spare that is what s asks for: same template, limits, project, masks. NULL if there is none.
 * Borrowed; whoever takes it clears is_spare.
 */
struct snp_session *snp_spare_find(const struct snp_session *s);

/* Somebody opens a session like spec: have some ready for the next. spec is borrowed. */
void snp_spare_want(struct snp_tier *tier, const struct snp_session_spec *spec);

/* End them all, because room is needed; true while one has not given back its own. */
bool snp_spares_drop(struct snp_tier *tier);

/* Make no more. */
void snp_spares_close(struct snp_tier *tier);

#endif
