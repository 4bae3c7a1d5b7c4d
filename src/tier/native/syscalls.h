/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_NATIVE_SYSCALLS_H
#define SNP_TIER_NATIVE_SYSCALLS_H

/*
 * Which system calls the code may make: an allow-list in groups, each with its reason.
 * docs/syscalls.md is printed from it (`tier-native --syscalls`).
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"

/*
 * Compile the two programs into sealed memfds: for sandboxes, and for zygotes (which also
 * may set up a sandbox). counts_memory: a cgroup counts a sandbox's pages. If not, code
 * may not make memfds, whose pages belong to no process.
 */
int snp_syscalls_compile(bool counts_memory,
                         int *ret_session_fd,
                         int *ret_zygote_fd,
                         struct snp_err *err) SNP_NODISCARD;

/* Number of allowed calls. */
unsigned snp_syscalls_count(bool counts_memory);

/* The table as Markdown. */
void snp_syscalls_print(FILE *out);

#endif
