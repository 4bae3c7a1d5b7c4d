/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids of sandboxes: as root each range is its own and a project's owner is the code's
 * user; a user without ranges is refused them.
 */
#include "os/idmap.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "unit/harness.h"

enum {
    INSIDE = 1000
};

/* A process that only waits, in a user namespace of its own; -1 where there are none. */
static pid_t waiting_child(void)
{
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    return (pid_t)pid;
}

static void end(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void read_map(pid_t pid, const char *which, unsigned ret[3])
{
    char path[64];
    snp_autofree char *text = NULL;
    char *at;
    struct snp_err err;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, which);
    assert_int_equal(snp_file_read(path, 4096, &text, NULL, &err), 0);
    at = text;
    for (int i = 0; i < 3; i++) {
        ret[i] = 0;
        at += strspn(at, " \n");
        for (; *at >= '0' && *at <= '9'; at++) {
            ret[i] = ret[i] * 10 + (unsigned)(*at - '0');
        }
    }
}

TEST(each_slot_is_a_range_that_no_other_has)
{
    bool may = geteuid() == 0 && snp_idmap_has_ranges();
    pid_t pid = waiting_child();
    struct snp_err err;
    unsigned uids[3];
    unsigned gids[3];

    if (pid < 0) {
        assert_false(may); /* no namespaces: nothing is to be had of them */
        return;
    }
    if (!may) {
        assert_true(snp_idmap_write(pid, 3, INSIDE, &err) < 0);
        end(pid);
        return;
    }
    assert_int_equal(snp_idmap_write(pid, 3, INSIDE, &err), 0);
    read_map(pid, "uid_map", uids);
    read_map(pid, "gid_map", gids);
    assert_memory_equal(uids, gids, sizeof(uids));
    assert_int_equal(uids[0], 0);
    assert_int_equal(uids[1], (unsigned)SNP_IDMAP_BASE + 3U * SNP_IDMAP_RANGE);
    assert_int_equal(uids[2], SNP_IDMAP_RANGE);
    end(pid);
}

/* The owner of `name` in the folder fd. */
static uid_t owner_of(int fd, const char *name)
{
    struct stat st;

    assert_int_equal(fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_uid;
}

static void check_mount(int dir_fd, uid_t owner)
{
    const uid_t base = (uid_t)SNP_IDMAP_BASE + 5U * SNP_IDMAP_RANGE;
    snp_autoclose int fd = -1;
    struct snp_err err;
    int r;

    assert_int_equal(fchown(dir_fd, owner, owner), 0);
    assert_int_equal(fchownat(dir_fd, "file", owner, owner, 0), 0);
    assert_int_equal(fchownat(dir_fd, "other", owner + 1, owner + 1, 0), 0);
    r = snp_idmap_mount(dir_fd, 5, INSIDE, &fd, &err);
    if (r == SNP_E_UNSUPPORTED) { /* this file system or kernel cannot; it says so */
        assert_string_not_equal(err.msg, "");
        return;
    }
    assert_int_equal(r, 0);
    assert_int_equal(owner_of(fd, "file"), base + INSIDE);
    assert_int_not_equal(owner_of(fd, "other"), base + INSIDE);
    assert_int_equal(openat(fd, "file", O_WRONLY | O_CLOEXEC), -1); /* read-only */
    assert_int_equal(unlinkat(fd, "file", 0), -1);
}

TEST(the_owner_of_a_mounted_folder_is_the_user_inside)
{
    static const uid_t owners[] = {0, 5, INSIDE, INSIDE + 1, 65534, 100000, 2000000000};
    char dir[] = "/tmp/snp-idmap-XXXXXX";
    snp_autoclose int dir_fd = -1;
    snp_autoclose int file = -1;
    snp_autoclose int other = -1;
    snp_autoclose int mounted = -1;
    struct snp_err err;

    assert_non_null(mkdtemp(dir));
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    file = openat(dir_fd, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    other = openat(dir_fd, "other", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(dir_fd >= 0 && file >= 0 && other >= 0);
    if (geteuid() == 0 && snp_idmap_has_ranges()) {
        for (size_t i = 0; i < SNP_ARRAY_LEN(owners); i++) {
            check_mount(dir_fd, owners[i]);
        }
    } else {
        assert_true(snp_idmap_mount(dir_fd, 5, INSIDE, &mounted, &err) < 0);
    }
    (void)unlinkat(dir_fd, "file", 0);
    (void)unlinkat(dir_fd, "other", 0);
    (void)rmdir(dir);
}

RUN(UNIT(each_slot_is_a_range_that_no_other_has),
    UNIT(the_owner_of_a_mounted_folder_is_the_user_inside))
