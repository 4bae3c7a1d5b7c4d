/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups: with what this host gives, be it nothing. Where a controller is to be
 * had the whole life of a group is walked; where not, the reason is told.
 */
#include "os/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "os/meter.h"
#include "unit/harness.h"

#define NAME "unit-test"

struct place {
    char dir[32];
    char registry[48];
    struct snp_cgroups groups;
};

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof(*p));

    if (p == NULL) {
        return -1;
    }
    (void)snprintf(p->dir, sizeof(p->dir), "/tmp/snp-cgroup-XXXXXX");
    if (mkdtemp(p->dir) == NULL) {
        free(p);
        return -1;
    }
    (void)snprintf(p->registry, sizeof(p->registry), "%s/cgroups", p->dir);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;

    snp_cgroups_close(&p->groups);
    (void)unlink(p->registry);
    (void)rmdir(p->dir);
    free(p);
    return 0;
}

static bool has_group(const struct snp_cgroups *groups, int c)
{
    return faccessat(groups->slot[c].base_fd, NAME, F_OK, 0) == 0;
}

TEST(disabled_there_are_none_and_all_calls_are_harmless)
{
    struct place *p = *state;
    const struct snp_cgroup_limits limits = {64 << 20, 10, 1000};
    struct snp_meter_reading usage;
    struct snp_meter meter;
    int doors[SNP_CGROUP_N];
    unsigned n_doors = 9;
    struct snp_err err;

    snp_cgroups_open(&p->groups, geteuid(), p->registry, true);
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        assert_false(snp_cgroups_has(&p->groups, (enum snp_cgroup_controller)c));
        assert_string_not_equal(p->groups.slot[c].why, "");
    }
    assert_int_equal(snp_cgroup_create(&p->groups, NAME, &err), 0);
    assert_int_equal(snp_cgroup_limit(&p->groups, NAME, &limits, &err), 0);
    assert_int_equal(snp_cgroup_attach(&p->groups, NAME, getpid(), 1, &err), 0);
    assert_int_equal(snp_cgroup_attach(&p->groups, NAME, getpid(), 2, &err), 0);
    assert_int_equal(snp_cgroup_doors(&p->groups, NAME, doors, &n_doors, &err), 0);
    assert_int_equal(n_doors, 0);
    assert_true(snp_cgroup_contains(&p->groups, NAME, getpid()));
    snp_meter_init(&meter);
    snp_meter_start(&meter, &p->groups, NAME);
    snp_meter_read(&meter, &p->groups, NAME, &usage);
    assert_false(usage.has_memory || usage.has_cpu);
    snp_meter_done(&meter);
    assert_true(snp_cgroup_remove(&p->groups, NAME));
}

TEST(what_is_missing_says_why)
{
    struct place *p = *state;

    snp_cgroups_open(&p->groups, geteuid(), p->registry, false);
    for (int c = 0; c < SNP_CGROUP_CPUACCT; c++) {
        bool has = snp_cgroups_has(&p->groups, (enum snp_cgroup_controller)c);
        assert_true(has || p->groups.slot[c].why[0] != '\0');
        assert_int_equal(has, p->groups.slot[c].base_fd >= 0);
    }
}

TEST(a_group_is_made_counted_and_removed)
{
    struct place *p = *state;
    const struct snp_cgroup_limits limits = {64 << 20, 10, 1000};
    struct snp_meter meter;
    struct snp_meter_reading usage;
    int doors[SNP_CGROUP_N];
    unsigned n_doors = 0;
    int entered[2];
    char answer = 0;
    struct snp_err err;
    pid_t pid;
    int status;

    snp_cgroups_open(&p->groups, geteuid(), p->registry, false);
    assert_int_equal(snp_cgroup_create(&p->groups, NAME, &err), 0);
    assert_int_equal(snp_cgroup_limit(&p->groups, NAME, &limits, &err), 0);
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        bool has = snp_cgroups_has(&p->groups, (enum snp_cgroup_controller)c);
        assert_int_equal(has, has && has_group(&p->groups, c));
    }
    assert_int_equal(snp_cgroup_doors(&p->groups, NAME, doors, &n_doors, &err), 0);
    assert_int_equal(pipe2(entered, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        bool ok = getppid() > 0;
        for (unsigned i = 0; i < n_doors; i++) {
            ok = write(doors[i], "0", 1) == 1 && ok;
        }
        (void)!write(entered[1], ok ? "y" : "n", 1);
        for (;;) {
            (void)pause();
        }
    }
    assert_true(pid > 0);
    for (unsigned i = 0; i < n_doors; i++) {
        (void)close(doors[i]);
    }
    assert_int_equal(snp_cgroup_attach(&p->groups, NAME, pid, 2, &err), 0);
    assert_int_equal(read(entered[0], &answer, 1), 1);
    assert_int_equal(answer, 'y');
    (void)close(entered[0]);
    (void)close(entered[1]);
    assert_true(snp_cgroup_contains(&p->groups, NAME, pid));
    if (snp_cgroups_has(&p->groups, SNP_CGROUP_PIDS)) {
        assert_false(snp_cgroup_contains(&p->groups, NAME, getpid()));
    }
    snp_meter_init(&meter);
    snp_meter_read(&meter, &p->groups, NAME, &usage);
    snp_meter_done(&meter);
    assert_int_equal(usage.has_memory, snp_cgroups_has(&p->groups, SNP_CGROUP_MEMORY));
    assert_int_equal(usage.oom_kills, 0);
    assert_int_equal(usage.pids_denied, 0);
    if (snp_cgroups_has(&p->groups, SNP_CGROUP_PIDS)) {
        assert_false(snp_cgroup_remove(&p->groups, NAME)); /* a process is in it */
    }
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (int i = 0; i < 12000 && !snp_cgroup_remove(&p->groups, NAME); i++) {
        (void)poll(NULL, 0, 5);
    }
    assert_true(snp_cgroup_remove(&p->groups, NAME)); /* also of what is gone already */
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        assert_false(p->groups.slot[c].version != 0 && has_group(&p->groups, c));
    }
}

TEST(closing_removes_the_folders)
{
    struct place *p = *state;
    char made[SNP_CGROUP_N][256] = {{0}};

    snp_cgroups_open(&p->groups, geteuid(), p->registry, false);
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        if (p->groups.made[c] != NULL) {
            (void)snprintf(made[c], sizeof(made[c]), "%s", p->groups.made[c]);
            assert_int_equal(access(made[c], F_OK), 0);
        }
    }
    snp_cgroups_close(&p->groups);
    for (int c = 0; c < SNP_CGROUP_N; c++) {
        assert_true(made[c][0] == '\0' || access(made[c], F_OK) < 0);
        assert_false(snp_cgroups_has(&p->groups, (enum snp_cgroup_controller)c));
    }
}

/* A folder that looks like a group, with a file of the kernel. Its descriptor. */
static int open_group(struct place *p, const char *file, struct snp_cgroups *groups)
{
    groups->slot[SNP_CGROUP_MEMORY].base_fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return openat(groups->slot[SNP_CGROUP_MEMORY].base_fd, file, O_WRONLY | O_CREAT | O_CLOEXEC,
                  0600);
}

static void close_group(const char *file, int fd, struct snp_cgroups *groups)
{
    (void)close(fd);
    (void)unlinkat(groups->slot[SNP_CGROUP_MEMORY].base_fd, file, 0);
    (void)close(groups->slot[SNP_CGROUP_MEMORY].base_fd);
}

static bool bounds_swap(struct place *p, int version, const char *file)
{
    struct snp_cgroups groups = {.slot[SNP_CGROUP_MEMORY] = {.version = version}};
    int fd = open_group(p, file, &groups);
    bool bounded = snp_cgroups_bound_swap(&groups);

    close_group(file, fd, &groups);
    return bounded;
}

TEST(swap_is_bounded_where_the_kernel_counts_it)
{
    struct place *p = *state;

    assert_true(bounds_swap(p, 1, "memory.memsw.limit_in_bytes"));
    assert_false(bounds_swap(p, 1, "memory.limit_in_bytes"));
    assert_true(bounds_swap(p, 2, "memory.swap.max"));
    assert_false(bounds_swap(p, 2, "memory.max"));
    assert_false(bounds_swap(p, 0, "memory.swap.max"));
}

TEST(what_the_kernel_does_not_count_is_named)
{
    static const char tcp[] = "memory.kmem.tcp.limit_in_bytes";
    static const struct {
        int version;
        const char *file;
        const char *cmdline;
        const char *says; /* NULL = all is counted */
    } rows[] = {
        {1, tcp, "quiet\n", NULL},
        {1, "any", "quiet\n", tcp},
        {1, tcp, "quiet cgroup.memory=nokmem\n", "nokmem"},
        {1, tcp, "cgroup.memory=nosocket quiet\n", NULL},
        {2, "any", "quiet\n", NULL},
        {2, "any", "quiet cgroup.memory=nosocket,nokmem a\n", "nokmem"},
        {2, "any", "cgroup.memory=nosocket", "nosocket"},
        {2, "any", "cgroup.memory=nobpf nosocket\n", NULL},
        {0, "any", "cgroup.memory=nokmem\n", NULL},
    };
    struct place *p = *state;
    struct snp_err err;

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        struct snp_cgroups groups = {.slot[SNP_CGROUP_MEMORY] = {.version = rows[i].version}};
        int fd = open_group(p, rows[i].file, &groups);
        const char *says;

        assert_int_equal(snp_file_write_atomic(p->registry, rows[i].cmdline,
                                               strlen(rows[i].cmdline), 0600, &err),
                         0);
        says = snp_cgroups_uncounted(&groups, p->registry);
        close_group(rows[i].file, fd, &groups);
        if (rows[i].says == NULL) {
            assert_null(says);
        } else {
            assert_non_null(says);
            assert_non_null(strstr(says, rows[i].says));
        }
    }
}

TEST(a_host_swaps_when_its_table_has_a_line)
{
    static const struct {
        const char *text;
        bool is_on;
    } tables[] = {
        {"", false},
        {"Filename\t\tType\n", false},
        {"Filename\t\tType\n/dev/vda2 partition 1048572 0 -2\n", true},
    };
    struct place *p = *state;
    struct snp_err err;

    for (size_t i = 0; i < SNP_ARRAY_LEN(tables); i++) {
        assert_int_equal(
            snp_file_write_atomic(p->registry, tables[i].text, strlen(tables[i].text), 0600, &err),
            0);
        assert_int_equal(snp_swap_is_on(p->registry), tables[i].is_on);
    }
    assert_false(snp_swap_is_on("/nonexistent"));
}

#define PLACE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

RUN(PLACE(disabled_there_are_none_and_all_calls_are_harmless),
    PLACE(what_is_missing_says_why),
    PLACE(a_group_is_made_counted_and_removed),
    PLACE(closing_removes_the_folders),
    PLACE(swap_is_bounded_where_the_kernel_counts_it),
    PLACE(what_the_kernel_does_not_count_is_named),
    PLACE(a_host_swaps_when_its_table_has_a_line))
