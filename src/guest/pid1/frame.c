/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pid1/frame.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "guest/pid1/wire.h"
#include "guest/spec.h"

void snp_frame_send(uint8_t type, uint32_t id, const void *bytes, size_t n)
{
    char header[SNP_INIT_HEADER_LEN] = {0};
    uint32_t len = (uint32_t)n;

    memcpy(header, &len, sizeof(len));
    memcpy(header + 4, &id, sizeof(id));
    header[12] = (char)type;
    if (snp_write_all(SNP_INIT_CONTROL_FD, header, sizeof(header)) < 0 ||
        snp_write_all(SNP_INIT_CONTROL_FD, bytes, n) < 0) {
        _exit(0);
    }
}

uint64_t snp_now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000U + (uint64_t)ts.tv_nsec / 1000000U;
}

uint64_t snp_micros(const struct timeval *tv)
{
    return (uint64_t)tv->tv_sec * 1000000U + (uint64_t)tv->tv_usec;
}

void snp_frame_send_exit(uint8_t target, uint32_t id, int status, const struct rusage *usage)
{
    char raw[21];
    uint32_t code = (uint32_t)status;
    uint64_t cpu_us = snp_micros(&usage->ru_utime) + snp_micros(&usage->ru_stime);
    uint64_t peak = (uint64_t)usage->ru_maxrss * 1024;

    raw[0] = (char)target;
    memcpy(raw + 1, &code, 4);
    memcpy(raw + 5, &cpu_us, 8);
    memcpy(raw + 13, &peak, 8);
    snp_frame_send(SNP_INIT_EXIT, id, raw, sizeof(raw));
}
