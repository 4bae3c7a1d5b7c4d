/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_PROCESS_H
#define SNP_BASE_PROCESS_H

/* Telling a process from a later one of the same number: its start, and the machine's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SNP_PROCESS_MARK_MAX = 96, /* bytes of a mark, with its NUL */
};

/* What tells this start of the machine from the next. The caller frees; NULL: not known. */
char *snp_boot_id(void);
/* When a process began, in clock ticks since boot; 0 if it is gone, or a zombie. */
uint64_t snp_process_began(uint64_t pid);

/* A process as "PID START BOOT NAMESPACE", also one that has ended; "" if it cannot be told. */
void snp_process_mark(uint64_t pid, char out[SNP_PROCESS_MARK_MAX]);
/*
 * Whether the process of a mark has certainly ended: not where no file can be read, or numbers
 * mean others.
 */
bool snp_process_is_over(const char *mark);

#endif
