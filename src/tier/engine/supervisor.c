/* SPDX-License-Identifier: Apache-2.0 */
/* Id ranges of the supervisor: each sandbox of the host has one of its own while it lives. */
#include "tier/engine/supervisor.h"

#include <stdio.h>

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

int snp_tier_folder(const struct snp_tier *tier,
                    const char *session_id,
                    char *out,
                    size_t len,
                    struct snp_err *err)
{
    int n = tier->is_local ? snprintf(out, len, "%s/%.16s", tier->folder, session_id)
                           : snprintf(out, len, "%s", "");

    return n < 0 || (size_t)n >= len
               ? snp_fail(err, SNP_E_LIMIT, "the state folder's path is too long")
               : 0;
}

uid_t snp_tier_code_uid(const struct snp_tier *tier, int slot)
{
    return !tier->is_root || slot < 0
               ? 0
               : (uid_t)SNP_IDMAP_BASE + (uid_t)slot * SNP_IDMAP_RANGE + SNP_INSIDE_ID;
}

void snp_tier_free_slot(struct snp_tier *tier, int slot)
{
    if (slot >= 0) {
        tier->slots[slot] = 0;
        (void)snp_idmap_lock(tier->locks_fd, (unsigned)slot, false);
    }
}
