/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_OS_IDMAP_H
#define SNP_OS_IDMAP_H

/*
 * User and group ids of sandboxes, and mounts that translate owners.
 *
 * A supervisor is always user 0 of its namespace: real root, or an ordinary user mapped to 0 in a
 * separate namespace. As root each sandbox gets an exclusive range of 65,536 host ids; otherwise
 * SNP_INSIDE_ID is mapped to the only available id.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
    SNP_IDMAP_BASE = 0x70000000, /* above the ids of distributions and systemd */
    SNP_IDMAP_RANGE = 65536,
    SNP_IDMAP_SLOTS = 4096,
};

/*
 * The ranges are available. False for user 0 of a rootless container, whose namespace does not
 * include them.
 */
bool snp_idmap_has_ranges(void);

/*
 * Open the file in which the supervisors of a host lock their ranges, a byte for each; a lock ends
 * with its owner. -1 with err if it is not available.
 */
int snp_idmap_open_locks(int *ret_fd, struct snp_err *err) SNP_NODISCARD;

/* Take or release a range on the whole host; false: another supervisor has it. */
bool snp_idmap_lock(int locks_fd, unsigned slot, bool on);

/* Write uid_map and gid_map of a process in a new user namespace. slot < 0: the single-id form. */
int snp_idmap_write(pid_t pid, int slot, uid_t inside_id, struct snp_err *err) SNP_NODISCARD;

/*
 * A detached, read-only, nosuid, nodev mount of a folder in *ret_fd (caller closes). slot >= 0:
 * owners are translated into that sandbox's range, and the folder's owner becomes inside_id.
 * SNP_E_UNSUPPORTED, with slot >= 0: the file system or kernel cannot translate owners.
 */
int snp_idmap_mount(int dir_fd, int slot, uid_t inside_id, int *ret_fd, struct snp_err *err)
    SNP_NODISCARD;

#endif
