/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that the supervisor makes for a caller: what it takes by the caller's number may be
 * another's when the caller was killed and its number given away meanwhile. That race is made here:
 * the call is received, its caller killed, and its number replaced by that of a bystander, who has
 * the same descriptors and memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/str.h"
#include "tier/local/local.h"
#include "tier/native/native.h"
#include "unit/harness.h"

enum {
    STACK = 64 << 10,
    ARGS = 4,
    MODE_BEFORE = 0640,
    MODE_AFTER = 0600,
};

/* A session of one process below another, and a file in its workspace. */
struct world {
    struct snp_sandbox *sandbox;
    struct snp_local_sandbox own; /* begins as native's does */
    pid_t top;
    pid_t victim;
    int victim_fd;
    int file_fd;
    char file[SNP_FOLDER_MAX + 64];
};

/* What a caller does: the number of the call, and where the listener is told. */
struct asking {
    long nr;
    uint64_t args[ARGS];
    int told_fd;
};

static char stack[STACK];

/* ---- the world ---- */

/* Until its parent ends, at most: a test that fails leaves nobody. */
static void sleep_long(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        (void)pause();
    }
}

static int run_bystander(void *unused)
{
    (void)unused;
    sleep_long();
    return 0;
}

static void top_start(struct world *world)
{
    int told[2];

    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    world->top = fork();
    assert_true(world->top >= 0);
    if (world->top == 0) {
        pid_t victim = fork();
        if (victim > 0) {
            (void)!write(told[1], &victim, sizeof(victim));
        }
        sleep_long();
    }
    assert_int_equal(read(told[0], &world->victim, sizeof(world->victim)), sizeof(world->victim));
    world->victim_fd = (int)syscall(SYS_pidfd_open, world->victim, 0);
    assert_true(world->victim_fd >= 0);
    (void)close(told[0]);
    (void)close(told[1]);
}

static void world_make(struct world *world)
{
    struct snp_sandbox *sandbox = calloc(1, sizeof(*sandbox));
    char path[SNP_FOLDER_MAX + 32];

    assert_non_null(sandbox);
    *world = (struct world){.sandbox = sandbox};
    (void)snprintf(sandbox->folder, sizeof(sandbox->folder), "/tmp/snp-emulate-XXXXXX");
    assert_non_null(mkdtemp(sandbox->folder));
    (void)snprintf(path, sizeof(path), "%s/workspace", sandbox->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(world->file, sizeof(world->file), "%s/file", path);
    world->file_fd = open(world->file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, MODE_BEFORE);
    assert_true(world->file_fd >= 0);
    assert_int_equal(fchmod(world->file_fd, MODE_BEFORE), 0);
    assert_int_equal(
        futimens(world->file_fd, (const struct timespec[]){{.tv_sec = 1}, {.tv_sec = 1}}), 0);
    top_start(world);
    sandbox->own = &world->own;
    world->own.forked.process.pid = world->top;
    world->own.forked.process.pidfd = (int)syscall(SYS_pidfd_open, world->top, 0);
    assert_true(world->own.forked.process.pidfd >= 0);
}

static void world_drop(struct world *world)
{
    char path[SNP_FOLDER_MAX + 32];

    (void)syscall(SYS_pidfd_send_signal, world->victim_fd, SIGKILL, NULL, 0);
    assert_int_equal(kill(world->top, SIGKILL), 0);
    assert_int_equal(waitpid(world->top, NULL, 0), world->top);
    (void)close(world->victim_fd);
    (void)close(world->file_fd);
    (void)close(world->own.forked.process.pidfd);
    assert_int_equal(unlink(world->file), 0);
    (void)snprintf(path, sizeof(path), "%s/workspace", world->sandbox->folder);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(world->sandbox->folder), 0);
    free(world->sandbox);
}

/* Has anything been done to the file, or to the process? */
static bool is_changed(const struct world *world, int wait_ms)
{
    struct pollfd ended = {.fd = world->victim_fd, .events = POLLIN};
    struct stat st;

    assert_int_equal(fstat(world->file_fd, &st), 0);
    return (st.st_mode & 0777) != MODE_BEFORE || st.st_mtim.tv_sec != 1 ||
           poll(&ended, 1, wait_ms) != 0;
}

/* ---- callers ---- */

/* Ask for one call; its listener is ours as well, for descriptors are shared. */
static int run_caller(void *arg)
{
    const struct asking *asking = arg;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)asking->nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {SNP_ARRAY_LEN(code), code};
    int listener = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0
                       ? -1
                       : (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                      SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);

    (void)!write(asking->told_fd, &listener, sizeof(listener));
    if (listener >= 0) {
        (void)syscall(asking->nr, asking->args[0], asking->args[1], asking->args[2],
                      asking->args[3]);
    }
    sleep_long();
    return 0;
}

static pid_t start(int (*run)(void *), void *arg)
{
    pid_t pid = clone(run, stack + STACK, CLONE_FILES | SIGCHLD, arg);

    assert_true(pid > 0);
    return pid;
}

static void stop(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/*
 * What the supervisor answers to a call that a bystander seems to have made: 0 or -errno. is_over:
 * its caller was killed after it was received, so the bystander's is what was the caller's number.
 */
static int answer_of(const struct world *world,
                     const struct snp_emulated *table,
                     struct asking *asking,
                     bool is_over)
{
    struct seccomp_notif req = {0};
    struct seccomp_notif_resp resp = {0};
    int told[2];
    int listener = -1;
    pid_t bystander = start(run_bystander, NULL);
    pid_t caller;

    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    asking->told_fd = told[1];
    caller = start(run_caller, asking);
    assert_int_equal(read(told[0], &listener, sizeof(listener)), sizeof(listener));
    if (listener < 0) {
        stop(caller);
        stop(bystander);
        skip(); /* another filter of this process listens already */
    }
    assert_int_equal(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &req), 0);
    assert_int_equal(req.pid, caller);
    if (is_over) {
        stop(caller);
    }
    req.pid = (uint32_t)bystander;
    resp.id = req.id;
    assert_true(snp_emulate(
        table, &(struct snp_asked){.sandbox = world->sandbox, .listener_fd = listener, .req = &req},
        &resp));
    assert_int_equal(resp.flags, 0); /* it was made here, not left to the kernel */
    if (!is_over) {
        stop(caller);
    }
    stop(bystander);
    (void)close(listener);
    (void)close(told[0]);
    (void)close(told[1]);
    return resp.error;
}

/* Every call for which something is taken by the caller's number, and then acted upon. */
TEST(what_was_taken_by_the_number_of_a_caller_that_is_gone_is_not_used)
{
    static const struct timespec times[2] = {{.tv_sec = 9}, {.tv_sec = 9}};
    snp_autoclose int own = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (own < 0) {
        skip(); /* valgrind does not know this call */
    }
    for (size_t i = 0;; i++) {
        struct world world;
        world_make(&world);
        const uint64_t path = (uint64_t)(uintptr_t)world.file;
        const uint64_t cwd = (uint64_t)AT_FDCWD;
        const struct {
            const struct snp_emulated *table;
            const char *call;
            uint64_t args[ARGS];
        } rows[] = {
            {snp_native_calls, "kill", {(uint64_t)-1, SIGKILL}},
            {snp_native_calls, "pidfd_send_signal", {(uint64_t)world.victim_fd, SIGKILL}},
            {snp_local_calls, "kill", {(uint64_t)world.victim, SIGKILL}},
            {snp_local_calls, "fchmod", {(uint64_t)world.file_fd, MODE_AFTER}},
            {snp_local_calls, "fchmodat", {cwd, path, MODE_AFTER}},
            {snp_local_calls, "utimensat", {cwd, path, (uint64_t)(uintptr_t)times}},
#ifdef SYS_chmod
            {snp_local_calls, "chmod", {path, MODE_AFTER}},
#endif
        };
        struct asking asking = {0};

        if (i == SNP_ARRAY_LEN(rows)) {
            world_drop(&world);
            break;
        }
        asking.nr = seccomp_syscall_resolve_name(rows[i].call);
        memcpy(asking.args, rows[i].args, sizeof(asking.args));
        assert_int_equal(answer_of(&world, rows[i].table, &asking, true), -EINTR);
        assert_false(is_changed(&world, 0));
        /* the control: nothing but the caller that still waits is different */
        assert_int_equal(answer_of(&world, rows[i].table, &asking, false), 0);
        assert_true(is_changed(&world, 60000));
        world_drop(&world);
    }
}

RUN(UNIT(what_was_taken_by_the_number_of_a_caller_that_is_gone_is_not_used))
