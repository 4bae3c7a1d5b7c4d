/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the kernel, of which names may be anybody's: the first byte chooses what the rest is:
 * 'M' /proc/self/mountinfo, 'G' /proc/self/cgroup, 'S' /proc/swaps, else a control group's
 * files of numbers. What is found lies in the text and fits its place.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "fuzz/target.h"
#include "os/meter.h"

/* NOLINTNEXTLINE(bugprone-suspicious-include): without the readers of the result */
#include "os/cgroup.c"

static const char *const counters[] = {"memory.peak", "memory.events", "cpu.stat", "pids.events",
                                       "memory.current"};

static int group_fd = -1;
static char group_dir[32];

static void check_found(const char *text, const char *found)
{
    SNP_ASSERT(strlen(found) < PATH_LEN && strpbrk(found, "\n") == NULL);
    SNP_ASSERT(strstr(text, found) != NULL || strlen(found) == PATH_LEN - 1);
}

static void check_mounts(const char *text)
{
    static const char *const controllers[] = {NULL, "memory", "cpu"};
    char point[PATH_LEN];
    char root[PATH_LEN];

    for (size_t i = 0; i < SNP_ARRAY_LEN(controllers); i++) {
        if (find_mount(text, controllers[i], point, root)) {
            check_found(text, point);
            check_found(text, root);
        }
    }
}

static void check_group(const char *text)
{
    static const char *const controllers[] = {NULL, "memory", "cpu"};
    char group[PATH_LEN];
    char path[PATH_LEN];

    for (size_t i = 0; i < SNP_ARRAY_LEN(controllers); i++) {
        if (find_group(text, controllers[i], group)) {
            check_found(text, group);
            group_path(path, sizeof(path), "/sys/fs/cgroup", "/docker/x", group);
            SNP_ASSERT(strlen(path) < sizeof(path));
        }
    }
}

static void remove_group(void)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(counters); i++) {
        (void)unlinkat(group_fd, counters[i], 0);
    }
    (void)rmdir(group_dir);
}

static void check_counters(const char *bytes, size_t n)
{
    struct snp_cgroups groups = {0};
    struct snp_meter meter;
    struct snp_meter_reading reading = {0};

    if (group_fd < 0) {
        (void)snprintf(group_dir, sizeof(group_dir), "/dev/shm/snp-fuzz-XXXXXX"); /* quick */
        if (mkdtemp(group_dir) == NULL) {
            (void)snprintf(group_dir, sizeof(group_dir), "/tmp/snp-fuzz-XXXXXX");
            SNP_ASSERT(mkdtemp(group_dir) != NULL);
        }
        SNP_ASSERT(atexit(remove_group) == 0);
        group_fd = open(group_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        SNP_ASSERT(group_fd >= 0);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(counters); i++) {
        snp_autoclose int fd =
            openat(group_fd, counters[i], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        SNP_ASSERT(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    }
    for (int i = 0; i < SNP_CGROUP_N; i++) {
        groups.slot[i] = (struct snp_cgroup_slot){.version = 2, .base_fd = group_fd};
    }
    snp_meter_init(&meter);
    snp_meter_read(&meter, &groups, ".", &reading);
    snp_meter_done(&meter);
    SNP_ASSERT(n > 0 || (!reading.has_memory && !reading.has_cpu));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    snp_autofree char *text = n == 0 ? NULL : strndup((const char *)bytes + 1, n - 1);

    if (text == NULL) {
        return 0;
    }
    switch (bytes[0]) {
    case 'M':
        check_mounts(text);
        break;
    case 'G':
        check_group(text);
        break;
    case 'S':
        (void)snp_swap_is_on(text);
        break;
    default:
        check_counters((const char *)bytes + 1, n - 1);
    }
    return 0;
}
