/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_OS_IDMAP_H
#define SNP_OS_IDMAP_H

/*
 * User and group ids of sandboxes, and mounts that translate owners.
 *
 * A supervisor always is user 0 of its namespace: real root, or an ordinary user mapped
 * to 0 in a namespace of its own. As root each sandbox gets a range of 65,536 host ids
 * that nobody else has; otherwise the one id there is stands behind SNP_INSIDE_ID.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum {
    SNP_IDMAP_BASE = 0x70000000, /* above what distributions and systemd hand out */
    SNP_IDMAP_RANGE = 65536,
    SNP_IDMAP_SLOTS = 4096,
};

/*
 * Are the ranges ours to give? False for user 0 of a rootless container, whose own
 * namespace does not hold them.
 */
bool snp_idmap_has_ranges(void);

/*
 * The file in which the supervisors of a host lock the ranges they use, a byte for each;
 * the lock of one that is gone is gone too. -1 with err where it cannot be had.
 */
int snp_idmap_open_locks(int *ret_fd, struct snp_err *err) SNP_NODISCARD;

/* Take or give back a range for all of the host; false: another supervisor has it. */
bool snp_idmap_lock(int locks_fd, unsigned slot, bool on);

/* Write uid_map and gid_map of a process in a new user namespace. slot < 0: the single-id form. */
int snp_idmap_write(pid_t pid, int slot, uid_t inside_id, struct snp_err *err) SNP_NODISCARD;

/*
 * A detached, read-only, nosuid, nodev mount of a folder in *ret_fd (caller closes).
 * slot >= 0: owners are translated into that sandbox's range, the folder's owner becoming
 * inside_id. *ret_mapped says whether a translation was made; a file system or kernel
 * that cannot is SNP_E_UNSUPPORTED with slot >= 0.
 */
int snp_idmap_mount(int dir_fd, int slot, uid_t inside_id, int *ret_fd, struct snp_err *err)
    SNP_NODISCARD;

#endif
