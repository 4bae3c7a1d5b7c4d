/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_PROCESS_H
#define SNP_BASE_PROCESS_H

/* Identify a process even after its number is reused: by its start time and the machine's boot. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SNP_PROCESS_MARK_MAX = 96, /* bytes of a mark, with its NUL */
};

/* An id of this boot of the machine. The caller frees; NULL: unknown. */
char *snp_boot_id(void);
/* When a process started, in clock ticks since boot; 0 if it is gone, or a zombie. */
uint64_t snp_process_began(uint64_t pid);

/* A process as "PID START BOOT NAMESPACE", even if it has ended; "" if unknown. */
void snp_process_mark(uint64_t pid, char out[SNP_PROCESS_MARK_MAX]);
/*
 * Whether the marked process has certainly ended. False if /proc cannot be read, or if its numbers
 * belong to another namespace.
 */
bool snp_process_is_over(const char *mark);

#endif
