/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_PROCESS_H
#define SNP_GUEST_PID1_PROCESS_H

/*
 * Processes of the code, from /proc. In the local tier /proc is not accessible, and none are found.
 */

#include "guest/pid1/inside.h"

/*
 * Call visit for every process except pid 1, its helper, copies and jobs; returns their number. If
 * /proc cannot be read, the sandbox ends: reporting no processes would be wrong.
 */
unsigned snp_processes_each(const struct snp_init *in, void (*visit)(pid_t, void *), void *data);

/* CPU time of all current and past processes, except copies; microseconds. */
uint64_t snp_processes_cpu(const struct snp_init *in);

/* The number at the start of a name; 0 = none. */
pid_t snp_pid_of(const char *name);

/* Read the file name of process pid in /proc into text (NUL-terminated); false if it is gone. */
bool snp_proc_text(pid_t pid, const char *name, char *text, size_t text_len);

/* Numbers of a process's stat, starting with field first (3 is its state); false if it is gone. */
bool snp_process_stat(pid_t pid, unsigned first, uint64_t *ret, unsigned n);

/* Have all threads of a process ended? Its parent may not have waited for it yet. */
bool snp_process_is_dead(pid_t pid);

#endif
