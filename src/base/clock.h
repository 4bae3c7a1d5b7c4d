/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLOCK_H
#define SNP_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in microseconds. */
uint64_t snp_now_us(void);
/* CLOCK_REALTIME in microseconds since 1970; for records only, never for deadlines. */
uint64_t snp_wall_us(void);
/* CLOCK_THREAD_CPUTIME_ID: processor time of the calling thread, in microseconds. */
uint64_t snp_cpu_us(void);

#endif
