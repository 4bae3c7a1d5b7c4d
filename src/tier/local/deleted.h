/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_DELETED_H
#define SNP_TIER_LOCAL_DELETED_H

/*
 * What processes hold that no folder shows: files that were removed but are open or mapped, and
 * what the kernel keeps of mappings. All of it blocks: for a worker.
 */

#include <stdint.h>
#include <sys/types.h>

struct snp_deleted {
    uint64_t file_bytes;    /* on disk */
    uint64_t mapping_bytes; /* memory of the kernel, about */
};

/*
 * Of all below top, files of the session's folder only. An ordinary user cannot look into a
 * program that may not be read, and sees of a file that is only mapped how far that goes.
 */
void snp_deleted_measure(pid_t top, const char *folder, struct snp_deleted *ret);

#endif
