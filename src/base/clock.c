/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks. The calls cannot fail on Linux with these ids. */
#include "base/clock.h"

#include <time.h>

#include "base/macro.h"

static uint64_t read_us(clockid_t id)
{
    struct timespec ts = {0};
    SNP_ASSERT(clock_gettime(id, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000000U + (uint64_t)ts.tv_nsec / 1000U;
}

uint64_t snp_now_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

uint64_t snp_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

uint64_t snp_cpu_us(void)
{
    return read_us(CLOCK_THREAD_CPUTIME_ID);
}
