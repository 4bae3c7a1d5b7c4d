/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_OS_METER_H
#define SNP_OS_METER_H

/* The kernel's counters for the groups of one sandbox. */

#include <stdbool.h>
#include <stdint.h>

#include "os/cgroup.h"

enum snp_meter_file {
    SNP_METER_PEAK = 0,
    SNP_METER_OOM,
    SNP_METER_CPU,
    SNP_METER_PIDS,
    SNP_METER_CURRENT,
    SNP_METER_ACTIVE,
    SNP_METER_INACTIVE,
    SNP_METER_FILES,
};

/*
 * The files are opened when first read and stay open: opening takes six times as long as reading.
 */
struct snp_meter {
    int fd[SNP_METER_FILES]; /* owned; -1 = not open */
};

struct snp_meter_reading {
    bool has_memory;
    bool has_cpu;
    uint64_t memory_peak_bytes;
    uint64_t oom_kills;
    uint64_t cpu_us;
    uint64_t pids_denied;
};

void snp_meter_init(struct snp_meter *meter);
void snp_meter_done(struct snp_meter *meter);

/*
 * Reset the peak: for all readers on version 1, for this meter on version 2 from kernel 6.12.
 * Before that the peak is the highest of the group so far.
 */
void snp_meter_start(struct snp_meter *meter, const struct snp_cgroups *groups, const char *name);

/* Counters of the group called name; unreadable ones stay zero with has_* false. */
void snp_meter_read(struct snp_meter *meter,
                    const struct snp_cgroups *groups,
                    const char *name,
                    struct snp_meter_reading *ret);

/*
 * The group's current memory, without file contents that the kernel can reclaim; false if it is not
 * counted.
 */
bool snp_meter_usage(struct snp_meter *meter,
                     const struct snp_cgroups *groups,
                     const char *name,
                     uint64_t enough,
                     uint64_t *ret);

#endif
