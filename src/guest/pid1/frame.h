/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_FRAME_H
#define SNP_GUEST_PID1_FRAME_H

/* Frames to the supervisor. If it has closed the stream, the process ends. */

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

void snp_frame_send(uint8_t type, uint32_t id, const void *bytes, size_t n);

/* Report the end of a process. target: SNP_INIT_INTERPRETER or another. */
void snp_frame_send_exit(uint8_t target, uint32_t id, int status, const struct rusage *usage);

uint64_t snp_now_ms(void);
uint64_t snp_micros(const struct timeval *tv);

#endif
