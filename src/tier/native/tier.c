/* SPDX-License-Identifier: Apache-2.0 */
/* Id ranges of the supervisor: each sandbox of the host has one of its own while it lives. */
#include "tier/native/tier.h"

#include "os/idmap.h"

int snp_tier_take_slot(struct snp_tier *tier)
{
    if (!tier->is_root) {
        return -1;
    }
    for (unsigned i = 0; i < SNP_IDMAP_SLOTS; i++) {
        unsigned slot =
            1 + (tier->next_slot + i) % (SNP_IDMAP_SLOTS - 1); /* 0 is the templates' */
        if (tier->slots[slot] == 0 && snp_idmap_lock(tier->locks_fd, slot, true)) {
            tier->slots[slot] = 1;
            tier->next_slot = slot;
            return (int)slot;
        }
    }
    return -2;
}

void snp_tier_free_slot(struct snp_tier *tier, int slot)
{
    if (slot >= 0) {
        tier->slots[slot] = 0;
        (void)snp_idmap_lock(tier->locks_fd, (unsigned)slot, false);
    }
}
