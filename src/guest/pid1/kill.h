/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_KILL_H
#define SNP_GUEST_PID1_KILL_H

/*
 * Signals and descriptors sent by pid 1. The supervisor checks each signal of the code, and the
 * local tier lets it send no descriptors; pid 1 has the same filter, which allows calls with a
 * secret.
 */

#include <stdint.h>
#include <sys/types.h>

/* Use this secret; without one the supervisor checks our signals, too. */
void snp_init_kill_secret(uint64_t secret);

/* Like kill. */
int snp_init_kill(pid_t pid, int number);

/* Send a byte and a descriptor; fd stays the caller's. 0, or -1 with errno. */
int snp_init_send_fd(int sock, char byte, int fd);

#endif
