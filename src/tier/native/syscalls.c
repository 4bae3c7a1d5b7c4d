/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table, and its compilation by libseccomp.
 *
 * What is not listed is refused through a notification, so that the refusal is recorded;
 * without a supervisor the kernel answers ENOSYS by itself. The filter of zygotes, which
 * sandboxes inherit below their own, refuses in the same way: of two equal verdicts the
 * kernel takes the newer filter's, and with it the listener. An error number from the older
 * one would go before, and nothing would be recorded. Calls of other architectures kill
 * the process.
 */
#include "tier/native/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <asm/termbits.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/fd.h"

struct group {
    const char *name;
    const char *reason;
    const char *const *calls; /* ends with NULL */
};

#define CALLS(...)        \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

/* clang-format off */
static const struct group groups[] = {
    {"files", "read and write what the mounts and Landlock allow", CALLS(
        "read", "write", "readv", "writev", "pread64", "pwrite64", "creat", "openat", "openat2",
        "close", "close_range", "lseek", "fstat", "newfstatat", "statx", "statfs", "fstatfs",
        "access", "faccessat", "faccessat2", "fsync", "fdatasync", "truncate", "ftruncate", "fallocate", "fadvise64",
        "flock", "sendfile", "copy_file_range", "umask", "utimensat")},
    {"names", "folders, links, renames", CALLS(
        "getdents64", "getcwd", "chdir", "fchdir", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir",
        "unlink", "unlinkat", "link", "linkat", "symlink", "symlinkat", "readlink", "readlinkat", "chmod", "fchmod",
        "fchmodat", "fchown", "fchownat", "mknodat")},
    {"attributes", "copies keep what belongs to a file", CALLS(
        "getxattr", "lgetxattr", "fgetxattr", "listxattr")},
    {"descriptors", "pipes, polling, events", CALLS(
        "dup", "dup2", "dup3", "pipe", "pipe2", "fcntl", "poll", "ppoll", "pselect6", "epoll_create1",
        "epoll_ctl", "epoll_wait", "epoll_pwait", "eventfd2", "signalfd4")},
    {"memory", "allocation and mapping, within the limit", CALLS(
        "brk", "mmap", "munmap", "mremap", "mprotect", "madvise", "msync")},
    {"processes", "fork, threads, run, wait, in a pid namespace of its own", CALLS(
        "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "kill", "tgkill",
        "pidfd_open", "pidfd_send_signal", "getpid", "getppid", "gettid", "setpgid", "getpgrp",
        "setsid", "futex", "set_tid_address", "set_robust_list", "rseq", "arch_prctl", "sched_yield",
        "sched_getaffinity")},
    {"signals", "handlers and timers", CALLS(
        "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "rt_sigsuspend", "sigaltstack", "alarm",
        "setitimer", "pause", "restart_syscall")},
    {"time", "clocks, sleep", CALLS(
        "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "times")},
    {"identity", "who and where am I; limits can only be lowered", CALLS(
        "getuid", "geteuid", "getgid", "getegid", "getgroups", "uname", "sysinfo",
        "getrusage", "getpriority", "getrandom")},
    {"sockets", "unix sockets, and the loopback of an empty network namespace", CALLS(
        "connect", "bind", "listen", "accept4", "getsockname", "getpeername", "sendto", "recvfrom", "sendmsg",
        "recvmsg", "shutdown", "getsockopt", "setsockopt")},
};
/* clang-format on */

/* Allowed with some arguments only; counted with the above. */
static const char *const conditional[] = {"memfd_create", "clone", "socket",   "socketpair",
                                          "ioctl",        "prctl", "prlimit64"};

/*
 * Calls that libraries and tools only try, and do without when they are not there: told
 * so, without a record. clone3 is one because its flags cannot be seen.
 */
static const struct {
    const char *name;
    int error;
} absent[] = {
    {"clone3",             ENOSYS    },
    {"pkey_alloc",         ENOSYS    },
    {"capget",             ENOSYS    },
    {"flistxattr",         EOPNOTSUPP},
    {"setxattr",           EOPNOTSUPP},
    {"fsetxattr",          EOPNOTSUPP},
    {"sched_getparam",     ENOSYS    },
    {"sched_getscheduler", ENOSYS    },
    {"membarrier",         ENOSYS    },
    {"mincore",            ENOSYS    },
    {"get_mempolicy",      ENOSYS    },
    {"timer_create",       ENOSYS    },
};

static const uint64_t ioctls[] = {
    TCGETS,        TIOCGWINSZ,  TIOCGPGRP,   FIONREAD,
    FIONBIO,       FIOCLEX,     FIONCLEX,    0x40049409 /* FICLONE: cp tries it */,
    SIOCGIFCONF,   SIOCGIFNAME, SIOCGIFADDR, SIOCGIFFLAGS,
    SIOCGIFHWADDR,
};

static const uint64_t prctls[] = {
    PR_SET_NAME,
    PR_GET_NAME,
    PR_SET_PDEATHSIG,
    PR_GET_PDEATHSIG,
    PR_SET_DUMPABLE,
    PR_GET_DUMPABLE,
    PR_CAPBSET_READ,
    PR_GET_NO_NEW_PRIVS,
    PR_GET_SECCOMP,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_TIMERSLACK,
    PR_SET_THP_DISABLE,
    0x53564d41 /* PR_SET_VMA: names of mappings */,
};

static const uint64_t domains[] = {AF_UNIX, AF_INET, AF_INET6};

/* What a zygote's child calls on its way to being a sandbox. */
static const char *const setup_calls[] = {
    "memfd_create",
    "clone",
    "clone3",
    "unshare",
    "mount",
    "umount2",
    "move_mount",
    "mknod",
    "sethostname",
    "setgroups",
    "setresuid",
    "setresgid",
    "capset",
    "prctl",
    "seccomp",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
    "sched_setaffinity",
    "socket",
    "socketpair",
    "ioctl",
    "prlimit64",
};

#define NAMESPACE_FLAGS                                                                        \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
     CLONE_NEWCGROUP | 0x80U)

static int allow(scmp_filter_ctx ctx, const char *name)
{
    int nr = seccomp_syscall_resolve_name(name);

    if (nr == __NR_SCMP_ERROR || nr < 0) {
        return 0; /* this architecture has no such call */
    }
    return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
}

static int allow_values(
    scmp_filter_ctx ctx, const char *name, unsigned arg, const uint64_t *values, size_t n)
{
    int nr = seccomp_syscall_resolve_name(name);

    for (size_t i = 0; i < n; i++) {
        /* The kernel looks at the low 32 bits of these arguments; so must the filter. */
        int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 1,
                                 SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, 0xffffffffU, values[i]));
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int add_common(scmp_filter_ctx ctx)
{
    int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

    if (r == 0) {
        r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    }
    for (size_t g = 0; g < SNP_ARRAY_LEN(groups); g++) {
        for (const char *const *call = groups[g].calls; r == 0 && *call != NULL; call++) {
            r = allow(ctx, *call);
        }
    }
    return r;
}

/*
 * Of others limits may be read only: those of pid 1, who is the same user, are none of the
 * code's business.
 */
static int allow_own_limits(scmp_filter_ctx ctx)
{
    int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
                             SCMP_CMP(0, SCMP_CMP_MASKED_EQ, 0xffffffffU, 0));

    return r < 0 ? r
                 : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
                                    SCMP_CMP(2, SCMP_CMP_EQ, 0, 0));
}

static int add_conditional(scmp_filter_ctx ctx)
{
    int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                             SCMP_CMP(0, SCMP_CMP_MASKED_EQ, NAMESPACE_FLAGS, 0));

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(absent); i++) {
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO((unsigned)absent[i].error),
                             seccomp_syscall_resolve_name(absent[i].name), 0);
    }
    if (r == 0) {
        r = allow_values(ctx, "socket", 0, domains, SNP_ARRAY_LEN(domains));
    }
    if (r == 0) {
        r = allow_values(ctx, "socketpair", 0, domains, 1);
    }
    if (r == 0) {
        r = allow_values(ctx, "ioctl", 1, ioctls, SNP_ARRAY_LEN(ioctls));
    }
    if (r == 0) {
        r = allow_values(ctx, "prctl", 0, prctls, SNP_ARRAY_LEN(prctls));
    }
    return r < 0 ? r : allow_own_limits(ctx);
}

static int add_setup(scmp_filter_ctx ctx)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(setup_calls); i++) {
        r = allow(ctx, setup_calls[i]);
    }
    return r;
}

/* Where a cgroup counts the pages of memfds. */
static int add_with_memfd(scmp_filter_ctx ctx)
{
    int r = allow(ctx, "memfd_create");

    return r == 0 ? add_conditional(ctx) : r;
}

/* ENOSYS, as of a kernel that has none: who asks has another way, and need not be told on. */
static int add_without_memfd(scmp_filter_ctx ctx)
{
    int r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(memfd_create), 0);

    return r == 0 ? add_conditional(ctx) : r;
}

static int export_program(scmp_filter_ctx ctx,
                          const char *name,
                          int *ret_fd,
                          struct snp_err *err)
{
    snp_autoclose int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0) {
        return snp_fail_sys(err, errno, "memfd for the system call filter");
    }
    if (seccomp_export_bpf(ctx, fd) < 0) {
        return snp_fail(err, SNP_E_INTERNAL, "the system call filter does not compile");
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
        return snp_fail_sys(err, errno, "seal the system call filter");
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}

static int compile(uint32_t other_calls,
                   int (*add)(scmp_filter_ctx),
                   int *ret_fd,
                   struct snp_err *err)
{
    scmp_filter_ctx ctx = seccomp_init(other_calls);
    int r = ctx == NULL ? -ENOMEM : add_common(ctx);

    if (r == 0) {
        r = add(ctx);
    }
    if (r < 0) {
        r = snp_fail_sys(err, -r, "build the system call filter");
    } else {
        r = export_program(ctx, "filter", ret_fd, err);
    }
    if (ctx != NULL) {
        seccomp_release(ctx);
    }
    return r;
}

int snp_syscalls_compile(bool counts_memory,
                         int *ret_session_fd,
                         int *ret_zygote_fd,
                         struct snp_err *err)
{
    snp_autoclose int session_fd = -1;
    int r = compile(SCMP_ACT_NOTIFY, counts_memory ? add_with_memfd : add_without_memfd,
                    &session_fd, err);

    if (r < 0) {
        return r;
    }
    r = compile(SCMP_ACT_NOTIFY, add_setup, ret_zygote_fd, err);
    if (r == 0) {
        *ret_session_fd = SNP_TAKE_FD(session_fd);
    }
    return r;
}

unsigned snp_syscalls_count(bool counts_memory)
{
    unsigned n = SNP_ARRAY_LEN(conditional) - (counts_memory ? 0 : 1);

    for (size_t g = 0; g < SNP_ARRAY_LEN(groups); g++) {
        for (const char *const *call = groups[g].calls; *call != NULL; call++) {
            n++;
        }
    }
    return n;
}

void snp_syscalls_print(FILE *out)
{
    (void)fprintf(out,
                  "# System calls\n\nThe code may make %u calls; everything else is refused "
                  "and recorded.\n\n"
                  "| group | why | calls |\n|---|---|---|\n",
                  snp_syscalls_count(true));
    for (size_t g = 0; g < SNP_ARRAY_LEN(groups); g++) {
        (void)fprintf(out, "| %s | %s |", groups[g].name, groups[g].reason);
        for (const char *const *call = groups[g].calls; *call != NULL; call++) {
            (void)fprintf(out, " %s", *call);
        }
        (void)fprintf(out, " |\n");
    }
    (void)fprintf(
        out,
        "| by argument | clone without namespaces; unix, IPv4 and IPv6 sockets; "
        "harmless ioctl and prctl; limits of oneself, of others to read; memfd_create where "
        "a cgroup counts its pages |");
    for (size_t i = 0; i < SNP_ARRAY_LEN(conditional); i++) {
        (void)fprintf(out, " %s", conditional[i]);
    }
    (void)fprintf(out, " |\n\nAnswered as not there, without a record, because libraries and "
                       "tools only try them:");
    for (size_t i = 0; i < SNP_ARRAY_LEN(absent); i++) {
        (void)fprintf(out, " %s", absent[i].name);
    }
    (void)fprintf(out, ".\n");
}
