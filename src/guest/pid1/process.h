/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_PROCESS_H
#define SNP_GUEST_PID1_PROCESS_H

/*
 * Processes of the code, as /proc shows them. In the local tier /proc is closed, and nobody
 * is seen.
 */

#include "guest/pid1/inside.h"

/*
 * Calls visit for every process but pid 1, its helper, copies and jobs; the number of them. Who
 * cannot look must not report that there is nothing: then the sandbox ends.
 */
unsigned snp_processes_each(const struct snp_init *in, void (*visit)(pid_t, void *), void *data);

/* Time on processors of all that is there and was, but for copies; microseconds. */
uint64_t snp_processes_cpu(const struct snp_init *in);

/* The number a name begins with; 0 = none. */
pid_t snp_pid_of(const char *name);

/* Read the file name of process pid in /proc into text (NUL-terminated); false if it is gone. */
bool snp_proc_text(pid_t pid, const char *name, char *text, size_t text_len);

/* Numbers from the stat of a process, from field first on (3 is its state); false if it is gone. */
bool snp_process_stat(pid_t pid, unsigned first, uint64_t *ret, unsigned n);

#endif
