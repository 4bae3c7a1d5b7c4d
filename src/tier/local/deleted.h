/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_DELETED_H
#define SNP_TIER_LOCAL_DELETED_H

/*
 * Resources of processes that no folder shows: removed files that are open or mapped, and kernel
 * memory of mappings. Blocks: for a worker.
 */

#include <stdint.h>
#include <sys/types.h>

struct snp_deleted {
    uint64_t file_bytes;    /* on disk */
    uint64_t mapping_bytes; /* kernel memory, approximate */
};

/*
 * Measure all processes below top, counting files of the session's folder only. An ordinary user
 * cannot inspect a process whose program is unreadable; of a file that is only mapped, the mapped
 * length counts.
 */
void snp_deleted_measure(pid_t top, const char *folder, struct snp_deleted *ret);

#endif
