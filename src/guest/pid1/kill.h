/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_KILL_H
#define SNP_GUEST_PID1_KILL_H

/*
 * Signals and descriptors that pid 1 sends. The code has to ask the supervisor for each signal of
 * its own, and sends no descriptors in the local tier; pid 1 shares its filter, which lets through
 * what bears a secret.
 */

#include <stdint.h>
#include <sys/types.h>

/* From now on; without one the supervisor is asked. */
void snp_init_kill_secret(uint64_t secret);

/* As kill. */
int snp_init_kill(pid_t pid, int number);

/* A byte and a descriptor; fd stays the caller's. 0, or -1 with errno. */
int snp_init_send_fd(int sock, char byte, int fd);

#endif
