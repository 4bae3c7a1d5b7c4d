/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context-history DIR: prints the files of git's last commits. An untrusted repository may name
 * programs that git starts (signatures, transports, pagers), so this process gives up writing,
 * sockets, signals and new processes before git runs. If the kernel cannot take these away, git
 * does not run.
 */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <unistd.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/fd.h"

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#    define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14) /* ABI 3 */
#endif
/* All rights of the first ABI except reading. */
#define FS_FIRST                                \
    (((LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1) & \
     ~(uint64_t)(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR))
#define GIT_MEMORY_MAX (UINT64_C(2) << 30)

enum {
    CPU_S = 4,
    WALL_S = 6,
    MISSING = 3, /* exit status: no git, or it cannot be contained */
};

static const char *const programs[] = {"/usr/bin/git", "/usr/local/bin/git"};

static int may(int ruleset, const char *path, uint64_t access)
{
    snp_autoclose int fd = open(path, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};

    return fd < 0
               ? -1
               : (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

/* The dynamic loader of this program and of git. */
static int find_loader(struct dl_phdr_info *info, size_t size, void *ret)
{
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_INTERP) {
            *(const char **)ret =
                (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr); /* NOLINT */
        }
    }
    return 1; /* the first one is the program */
}

static int close_files(const char *program)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    const uint64_t handled = FS_FIRST | (abi >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0);
    const struct landlock_ruleset_attr attr = {.handled_access_fs = handled};
    const char *loader = NULL;
    snp_autoclose int ruleset =
        abi < 1 ? -1 : (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(uint64_t), 0);

    (void)dl_iterate_phdr(find_loader, &loader);
    if (ruleset < 0 || may(ruleset, program, LANDLOCK_ACCESS_FS_EXECUTE) < 0 ||
        (loader != NULL && may(ruleset, loader, LANDLOCK_ACCESS_FS_EXECUTE) < 0) ||
        may(ruleset, "/dev/null", LANDLOCK_ACCESS_FS_WRITE_FILE) < 0) { /* git opens it */
        return -1;
    }
    return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}

/*
 * Signals, other processes, attributes of files, objects that outlive the process, and calls that
 * open more than their arguments show.
 */
static const int closed[] = {
    SCMP_SYS(socket), SCMP_SYS(socketpair), SCMP_SYS(io_uring_setup), SCMP_SYS(fork),
    SCMP_SYS(vfork), SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(tgkill), SCMP_SYS(rt_sigqueueinfo),
    SCMP_SYS(rt_tgsigqueueinfo), SCMP_SYS(pidfd_send_signal), SCMP_SYS(pidfd_getfd),
    SCMP_SYS(ptrace), SCMP_SYS(process_vm_writev), SCMP_SYS(process_madvise), SCMP_SYS(setpriority),
    SCMP_SYS(ioprio_set), SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_setscheduler),
    SCMP_SYS(sched_setparam), SCMP_SYS(sched_setattr), SCMP_SYS(unshare), SCMP_SYS(setns),
    SCMP_SYS(mount), SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd),
    SCMP_SYS(keyctl), SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(shmget), SCMP_SYS(semget),
    SCMP_SYS(msgget), SCMP_SYS(mq_open), SCMP_SYS(mq_unlink), SCMP_SYS(truncate), SCMP_SYS(creat),
    SCMP_SYS(openat2), SCMP_SYS(ioctl), SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat),
    SCMP_SYS(chown), SCMP_SYS(fchown), SCMP_SYS(fchownat), SCMP_SYS(lchown), SCMP_SYS(utime),
    SCMP_SYS(utimes), SCMP_SYS(futimesat), SCMP_SYS(utimensat), SCMP_SYS(setxattr),
    SCMP_SYS(fsetxattr), SCMP_SYS(lsetxattr), SCMP_SYS(removexattr), SCMP_SYS(fremovexattr),
    SCMP_SYS(lremovexattr),
    /* too new for names in the library; the numbers are the same on every architecture */
    452, /* fchmodat2 */
    463, /* setxattrat */
    466, /* removexattrat */
    469, /* file_setattr */
};

/*
 * Calls that depend on an argument. clone may make threads, no processes. The flags of clone3 are
 * in memory, where a filter cannot read them; with ENOSYS libraries use clone.
 */
static const struct {
    int call;
    int error;
    struct scmp_arg_cmp arg;
} closed_if[] = {
    {SCMP_SYS(clone), EPERM, {0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0}},
    {SCMP_SYS(clone3), ENOSYS, {0, SCMP_CMP_GE, 0, 0}},
    {SCMP_SYS(open), EPERM, {1, SCMP_CMP_MASKED_EQ, O_TRUNC, O_TRUNC}},
    {SCMP_SYS(openat), EPERM, {2, SCMP_CMP_MASKED_EQ, O_TRUNC, O_TRUNC}},
    {SCMP_SYS(fcntl), EPERM, {1, SCMP_CMP_EQ, F_SETOWN, 0}},
    {SCMP_SYS(fcntl), EPERM, {1, SCMP_CMP_EQ, F_SETOWN_EX, 0}},
    {SCMP_SYS(prlimit64), EPERM, {0, SCMP_CMP_NE, 0, 0}},
};

static int close_calls(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int r = filter == NULL ? -1 : 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(closed) && r == 0; i++) {
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), closed[i], 0);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(closed_if) && r == 0; i++) {
        r = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO((uint32_t)closed_if[i].error),
                                   closed_if[i].call, 1, &closed_if[i].arg);
    }
    r = r != 0 ? r : seccomp_load(filter);
    seccomp_release(filter);
    return r;
}

static int confine(const char *program)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {{0}};
    const struct rlimit memory = {GIT_MEMORY_MAX, GIT_MEMORY_MAX};
    const struct rlimit cpu = {CPU_S, CPU_S};
    const struct rlimit core = {1, 1}; /* 0 would still start a program that takes dumps */

    if (syscall(SYS_close_range, 3U, ~0U, 0U) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || close_files(program) < 0 ||
        syscall(SYS_capset, &header, none) < 0 || setrlimit(RLIMIT_CORE, &core) < 0 ||
        setrlimit(RLIMIT_CPU, &cpu) < 0 || close_calls() < 0) {
        return -1;
    }
    return setrlimit(RLIMIT_AS, &memory); /* last: sanitizers have already mapped more */
}

int main(int argc, char **argv)
{
    const char *program = NULL;

    for (size_t i = 0; i < SNP_ARRAY_LEN(programs) && program == NULL; i++) {
        program = access(programs[i], X_OK) == 0 ? programs[i] : NULL;
    }
    if (argc != 2 || program == NULL || confine(program) < 0) {
        return MISSING;
    }
    (void)alarm(WALL_S); /* git may block in a file that is not a regular one */
    (void)execl(program, "git", "--no-pager", "-C", argv[1], "-c", "core.packedGitLimit=256m", "-c",
                "core.packedGitWindowSize=32m", "-c", "safe.directory=*", "-c",
                "log.showSignature=false", "-c", "log.showRoot=true", "log", "--no-mailmap", "-z",
                "-n", "200", "--no-merges", "--no-renames", "--no-ext-diff", "--no-textconv",
                "--name-only", "--relative", "--format=tformat:", "--", ".", (char *)NULL);
    return MISSING;
}
