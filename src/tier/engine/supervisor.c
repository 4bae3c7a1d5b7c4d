/* SPDX-License-Identifier: Apache-2.0 */
/* Id ranges of the supervisor: each sandbox of the host has one of its own while it lives. */
#include "tier/engine/supervisor.h"

#include <stdio.h>

#include "os/idmap.h"

int snp_supervisor_take_slot(struct snp_supervisor *supervisor)
{
    if (!supervisor->is_root) {
        return -1;
    }
    for (unsigned i = 0; i < SNP_IDMAP_SLOTS; i++) {
        unsigned slot =
            1 + (supervisor->next_slot + i) % (SNP_IDMAP_SLOTS - 1); /* 0 is the templates' */
        if (supervisor->slots[slot] == 0 && snp_idmap_lock(supervisor->locks_fd, slot, true)) {
            supervisor->slots[slot] = 1;
            supervisor->next_slot = slot;
            return (int)slot;
        }
    }
    return -2;
}

int snp_supervisor_folder(const struct snp_supervisor *supervisor,
                          const char *session_id,
                          char *out,
                          size_t len,
                          struct snp_err *err)
{
    int n = supervisor->is_local
                ? snprintf(out, len, "%s/%.16s", supervisor->folder, session_id)
                : snprintf(out, len, "%s", "");

    return n < 0 || (size_t)n >= len
               ? snp_fail(err, SNP_E_LIMIT, "the state folder's path is too long")
               : 0;
}

uid_t snp_supervisor_code_uid(const struct snp_supervisor *supervisor, int slot)
{
    return !supervisor->is_root || slot < 0
               ? 0
               : (uid_t)SNP_IDMAP_BASE + (uid_t)slot * SNP_IDMAP_RANGE + SNP_INSIDE_ID;
}

void snp_supervisor_free_slot(struct snp_supervisor *supervisor, int slot)
{
    if (slot >= 0) {
        supervisor->slots[slot] = 0;
        (void)snp_idmap_lock(supervisor->locks_fd, (unsigned)slot, false);
    }
}
