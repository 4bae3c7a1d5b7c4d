/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the counters of control groups.
 *
 * The file of a counter depends on the version of its controller: see the table below. The kernel
 * regenerates a file that is read again at offset 0 through the same descriptor, so one open is
 * enough. Descriptors do not prevent the removal of a group.
 */
#include "os/meter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

enum {
    TEXT_MAX = 4096,
    NS_PER_US = 1000,
};

/* The first row of a counter whose controller has that version is used. */
static const struct meter_row {
    enum snp_meter_file file;
    enum snp_cgroup_controller controller;
    int version;
    const char *name;
    const char *key; /* of its line; NULL = the file is the number */
    unsigned divide;
} rows[] = {
    {SNP_METER_PEAK, SNP_CGROUP_MEMORY, 1, "memory.max_usage_in_bytes", NULL, 1},
    {SNP_METER_PEAK, SNP_CGROUP_MEMORY, 2, "memory.peak", NULL, 1},
    {SNP_METER_CURRENT, SNP_CGROUP_MEMORY, 1, "memory.usage_in_bytes", NULL, 1},
    {SNP_METER_CURRENT, SNP_CGROUP_MEMORY, 2, "memory.current", NULL, 1},
    {SNP_METER_ACTIVE, SNP_CGROUP_MEMORY, 1, "memory.stat", "total_active_file", 1},
    {SNP_METER_ACTIVE, SNP_CGROUP_MEMORY, 2, "memory.stat", "active_file", 1},
    {SNP_METER_INACTIVE, SNP_CGROUP_MEMORY, 1, "memory.stat", "total_inactive_file", 1},
    {SNP_METER_INACTIVE, SNP_CGROUP_MEMORY, 2, "memory.stat", "inactive_file", 1},
    {SNP_METER_OOM, SNP_CGROUP_MEMORY, 1, "memory.oom_control", "oom_kill", 1},
    {SNP_METER_OOM, SNP_CGROUP_MEMORY, 2, "memory.events", "oom_kill", 1},
    {SNP_METER_CPU, SNP_CGROUP_CPUACCT, 1, "cpuacct.usage", NULL, NS_PER_US},
    /* Without a controller: in every group of version 2. */
    {SNP_METER_CPU, SNP_CGROUP_MEMORY, 2, "cpu.stat", "usage_usec", 1},
    {SNP_METER_CPU, SNP_CGROUP_PIDS, 2, "cpu.stat", "usage_usec", 1},
    {SNP_METER_CPU, SNP_CGROUP_CPU, 2, "cpu.stat", "usage_usec", 1},
    {SNP_METER_PIDS, SNP_CGROUP_PIDS, 1, "pids.events", "max", 1},
    {SNP_METER_PIDS, SNP_CGROUP_PIDS, 2, "pids.events", "max", 1},
};

static const struct meter_row *row_find(const struct snp_cgroups *groups, enum snp_meter_file file)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (rows[i].file == file && groups->slot[rows[i].controller].version == rows[i].version) {
            return &rows[i];
        }
    }
    return NULL;
}

/* The open descriptor, or -1. */
static int file_open(struct snp_meter *meter,
                     const struct snp_cgroups *groups,
                     const char *name,
                     const struct meter_row *row)
{
    char path[PATH_MAX];
    int base_fd = groups->slot[row->controller].base_fd;

    if (meter->fd[row->file] >= 0) {
        return meter->fd[row->file];
    }
    (void)snprintf(path, sizeof(path), "%s/%s", name, row->name);
    if (row->file == SNP_METER_PEAK) {
        meter->fd[row->file] = openat(base_fd, path, O_RDWR | O_CLOEXEC); /* to reset the peak */
    }
    if (meter->fd[row->file] < 0) {
        meter->fd[row->file] = openat(base_fd, path, O_RDONLY | O_CLOEXEC);
    }
    return meter->fd[row->file];
}

/* The number of the line "key number". */
static bool line_read(const char *text, const char *key, uint64_t *ret)
{
    size_t n = key == NULL ? 0 : strlen(key);
    const char *at = text;
    char number[32];

    while (n > 0 && !(strncmp(at, key, n) == 0 && at[n] == ' ')) {
        at = strchr(at, '\n');
        if (at == NULL) {
            return false;
        }
        at++;
    }
    at += n > 0 ? n + 1 : 0;
    (void)snprintf(number, sizeof(number), "%.*s", (int)strcspn(at, "\n"), at);
    return snp_parse_u64(number, ret) == 0;
}

static bool counter_read(struct snp_meter *meter,
                         const struct snp_cgroups *groups,
                         const char *name,
                         enum snp_meter_file file,
                         uint64_t *ret)
{
    const struct meter_row *row = row_find(groups, file);
    int fd = row == NULL ? -1 : file_open(meter, groups, name, row);
    char text[TEXT_MAX];
    ssize_t n = fd < 0 ? -1 : SNP_RETRY(pread(fd, text, sizeof(text) - 1, 0));

    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    if (!line_read(text, row->key, ret)) {
        return false;
    }
    *ret /= row->divide;
    return true;
}

void snp_meter_init(struct snp_meter *meter)
{
    for (int i = 0; i < SNP_METER_FILES; i++) {
        meter->fd[i] = -1;
    }
}

void snp_meter_done(struct snp_meter *meter)
{
    for (int i = 0; i < SNP_METER_FILES; i++) {
        snp_closep(&meter->fd[i]);
        meter->fd[i] = -1;
    }
}

void snp_meter_start(struct snp_meter *meter, const struct snp_cgroups *groups, const char *name)
{
    const struct meter_row *row = row_find(groups, SNP_METER_PEAK);
    int fd = row == NULL ? -1 : file_open(meter, groups, name, row);

    if (fd >= 0) {
        (void)!pwrite(fd, "0", 1, 0); /* refused before 6.12 on version 2 */
    }
}

void snp_meter_read(struct snp_meter *meter,
                    const struct snp_cgroups *groups,
                    const char *name,
                    struct snp_meter_reading *ret)
{
    *ret = (struct snp_meter_reading){0};
    ret->has_memory = counter_read(meter, groups, name, SNP_METER_PEAK, &ret->memory_peak_bytes) ||
                      /* Version 2 before 5.19 has no peak. */
                      counter_read(meter, groups, name, SNP_METER_CURRENT, &ret->memory_peak_bytes);
    ret->has_cpu = counter_read(meter, groups, name, SNP_METER_CPU, &ret->cpu_us);
    (void)counter_read(meter, groups, name, SNP_METER_OOM, &ret->oom_kills);
    (void)counter_read(meter, groups, name, SNP_METER_PIDS, &ret->pids_denied);
}

bool snp_meter_usage(struct snp_meter *meter,
                     const struct snp_cgroups *groups,
                     const char *name,
                     uint64_t enough,
                     uint64_t *ret)
{
    uint64_t active = 0;
    uint64_t inactive = 0;

    if (!counter_read(meter, groups, name, SNP_METER_CURRENT, ret)) {
        return false;
    }
    if (*ret > enough && counter_read(meter, groups, name, SNP_METER_ACTIVE, &active) &&
        counter_read(meter, groups, name, SNP_METER_INACTIVE, &inactive)) {
        *ret -= active + inactive < *ret ? active + inactive : *ret;
    }
    return true;
}
