/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of a group: which file on which version, and what is missing. The groups are
 * plain folders.
 */
#include "os/meter.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "unit/harness.h"

#define NAME "7"

struct place {
    char dir[64];
    struct snp_cgroups groups;
    struct snp_meter meter;
};

static const char *const files[] = {
    "memory.max_usage_in_bytes",
    "memory.oom_control",
    "cpuacct.usage",
    "pids.events",
    "memory.usage_in_bytes",
    "memory.peak",
    "memory.events",
    "cpu.stat",
    "memory.current",
};

static int set_up(void **state)
{
    struct place *p = calloc(1, sizeof(*p));
    char path[96];

    assert_non_null(p);
    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/snp-meter-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    (void)snprintf(path, sizeof(path), "%s/" NAME, p->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        p->groups.slot[c].base_fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(p->groups.slot[c].base_fd >= 0);
    }
    snp_meter_init(&p->meter);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;
    char path[160];

    snp_meter_done(&p->meter);
    for (size_t i = 0; i < SNP_ARRAY_LEN(files); i++) {
        (void)snprintf(path, sizeof(path), "%s/" NAME "/%s", p->dir, files[i]);
        (void)unlink(path);
    }
    (void)snprintf(path, sizeof(path), "%s/" NAME, p->dir);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(p->dir), 0);
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        snp_closep(&p->groups.slot[c].base_fd);
    }
    free(p);
    return 0;
}

static void write_file(const struct place *p, const char *name, const char *text)
{
    char path[160];
    snp_autoclose int fd = -1;

    (void)snprintf(path, sizeof(path), "%s/" NAME "/%s", p->dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(snp_write_all(fd, text, strlen(text)), 0);
}

static void versions(struct place *p, int memory, int pids, int cpu, int cpuacct)
{
    p->groups.slot[SNP_CGROUP_MEMORY].version = memory;
    p->groups.slot[SNP_CGROUP_PIDS].version = pids;
    p->groups.slot[SNP_CGROUP_CPU].version = cpu;
    p->groups.slot[SNP_CGROUP_CPUACCT].version = cpuacct;
}

TEST(version_1_is_read_again_and_again)
{
    struct place *p = *state;
    struct snp_meter_reading reading;

    versions(p, 1, 1, 1, 1);
    write_file(p, "memory.max_usage_in_bytes", "5000\n");
    write_file(p, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    write_file(p, "cpuacct.usage", "7000\n");
    write_file(p, "pids.events", "max 2\n");
    snp_meter_start(&p->meter, &p->groups, NAME);
    snp_meter_read(&p->meter, &p->groups, NAME, &reading);
    assert_true(reading.has_memory && reading.has_cpu);
    assert_int_equal(reading.memory_peak_bytes, 0); /* "0" was written over "5" of "5000" */
    assert_int_equal(reading.oom_kills, 3);
    assert_int_equal(reading.cpu_us, 7);
    assert_int_equal(reading.pids_denied, 2);
    write_file(p, "memory.max_usage_in_bytes", "6000\n");
    write_file(p, "cpuacct.usage", "9000\n");
    snp_meter_read(&p->meter, &p->groups, NAME, &reading);
    assert_int_equal(reading.memory_peak_bytes, 6000);
    assert_int_equal(reading.cpu_us, 9);
}

TEST(version_2_counts_time_without_a_controller)
{
    struct place *p = *state;
    struct snp_meter_reading reading;

    versions(p, 0, 2, 0, 0);
    write_file(p, "cpu.stat", "usage_usec 44\nuser_usec 40\n");
    snp_meter_read(&p->meter, &p->groups, NAME, &reading);
    assert_true(reading.has_cpu);
    assert_int_equal(reading.cpu_us, 44);
    assert_false(reading.has_memory);
}

TEST(version_2_without_a_peak_takes_what_is_held)
{
    struct place *p = *state;
    struct snp_meter_reading reading;

    versions(p, 2, 0, 0, 0);
    write_file(p, "memory.current", "4096\n");
    write_file(p, "memory.events", "low 0\noom 1\noom_kill 1\n");
    snp_meter_read(&p->meter, &p->groups, NAME, &reading);
    assert_true(reading.has_memory);
    assert_int_equal(reading.memory_peak_bytes, 4096);
    assert_int_equal(reading.oom_kills, 1);
}

TEST(what_is_no_number_counts_as_missing)
{
    struct place *p = *state;
    struct snp_meter_reading reading;

    versions(p, 1, 1, 0, 1);
    write_file(p, "memory.max_usage_in_bytes", "much\n");
    write_file(p, "memory.oom_control", "under_oom 0\n");
    write_file(p, "cpuacct.usage", "");
    snp_meter_read(&p->meter, &p->groups, NAME, &reading);
    assert_false(reading.has_memory || reading.has_cpu);
    assert_int_equal(reading.oom_kills, 0);
    assert_int_equal(reading.pids_denied, 0);
}

#define PLACED(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

RUN(PLACED(version_1_is_read_again_and_again),
    PLACED(version_2_counts_time_without_a_controller),
    PLACED(version_2_without_a_peak_takes_what_is_held),
    PLACED(what_is_no_number_counts_as_missing))
