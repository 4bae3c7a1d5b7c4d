/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table, and its compilation by libseccomp.
 *
 * What is not listed is refused through a notification, so that the refusal is recorded;
 * without a supervisor the kernel answers ENOSYS by itself. The filter of zygotes, which
 * sandboxes inherit below their own, refuses in the same way: of two equal verdicts the
 * kernel takes the newer filter's, and with it the listener. An error number from the older
 * one would go before, and nothing would be recorded. Calls of other architectures (32-bit
 * programs, the x32 calls of x86-64) kill the process.
 *
 * One table for all architectures. It names what x86-64 has; of the old calls among these
 * (access, dup2, poll ...) others have only the newer ones, which are in it as well.
 * Where that is not so there is a stand-in. Arguments that are looked at are in the same place
 * and have the same values on x86-64 and aarch64; tests/unit/syscalls_test.c holds that.
 */
#include "tier/host/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <asm/termbits.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "guest/spec.h"

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
    {"attributes", "programs that copy files preserve their attributes", CALLS(
        "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr")},
    {"descriptors", "pipes, polling, events", CALLS(
        "dup", "dup2", "dup3", "pipe", "pipe2", "poll", "ppoll", "pselect6", "epoll_create1",
        "epoll_ctl", "epoll_wait", "epoll_pwait", "eventfd2", "signalfd4")},
    {"memory", "allocation and mapping, within the limit", CALLS(
        "brk", "munmap", "mremap", "mprotect", "madvise", "msync")},
    {"processes", "fork, threads, run, wait, in a separate pid namespace", CALLS(
        "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid",
        "pidfd_open", "getpid", "getppid", "gettid", "setpgid", "getpgrp",
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
        "recvmsg", "shutdown")},
};
/* clang-format on */

/* Allowed with some arguments only; counted with the above. */
static const char *const conditional[] = {
    "memfd_create", "mmap",  "clone", "socket",    "socketpair", "getsockopt",
    "setsockopt",   "ioctl", "prctl", "prlimit64", "fcntl",
};

/* The supervisor looks whom they reach. */
static const char *const asked[] = {"kill", "tgkill", "pidfd_send_signal"};

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
    {"mbind",              ENOSYS    },
    {"timer_create",       ENOSYS    },
};

/*
 * Calls that libraries use where an architecture has not the one of the table: allowed
 * there, if their first argument is 0 (oneself).
 */
static const struct {
    const char *name;
    const char *missing;
} stand_ins[] = {
    {"getpgid", "getpgrp"},
};

static const struct {
    uint32_t token;
    const char *name;
} arches[] = {
    [SNP_ARCH_NATIVE] = {SCMP_ARCH_NATIVE,  "this machine"},
    [SNP_ARCH_X86_64] = {SCMP_ARCH_X86_64,  "x86-64"      },
    [SNP_ARCH_AARCH64] = {SCMP_ARCH_AARCH64, "aarch64"     },
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
    PR_GET_DUMPABLE,
    PR_CAPBSET_READ,
    PR_GET_NO_NEW_PRIVS,
    PR_GET_SECCOMP,
    PR_GET_TID_ADDRESS,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_TIMERSLACK,
    PR_SET_THP_DISABLE,
    0x53564d41 /* PR_SET_VMA: names of mappings */,
};

/* All but what makes a descriptor send signals, to whomever. */
static const uint64_t fcntls[] = {
    F_DUPFD,
    F_GETFD,
    F_SETFD,
    F_GETFL,
    F_SETFL,
    F_GETLK,
    F_SETLK,
    F_SETLKW,
    F_GETOWN,
    F_GETSIG,
    F_OFD_GETLK,
    F_OFD_SETLK,
    F_OFD_SETLKW,
    F_SETLEASE,
    F_GETLEASE,
    F_DUPFD_CLOEXEC,
    F_SETPIPE_SZ,
    F_GETPIPE_SZ,
    F_ADD_SEALS,
    F_GET_SEALS,
    F_GET_RW_HINT,
    F_SET_RW_HINT,
    F_GET_FILE_RW_HINT,
    F_SET_FILE_RW_HINT,
};

/*
 * What servers and clients set. Not SO_PEERPIDFD and SO_PASSPIDFD: the other end of some
 * sockets is the supervisor, and a pidfd of it would be a way to signal it. Not SO_LINGER: such a
 * socket, sent to the supervisor as a descriptor, holds up whoever closes it last.
 */
static const struct {
    uint64_t level;
    uint64_t name;
} options[] = {
    {SOL_SOCKET,   SO_TYPE           },
    {SOL_SOCKET,   SO_DOMAIN         },
    {SOL_SOCKET,   SO_PROTOCOL       },
    {SOL_SOCKET,   SO_ERROR          },
    {SOL_SOCKET,   SO_ACCEPTCONN     },
    {SOL_SOCKET,   SO_REUSEADDR      },
    {SOL_SOCKET,   SO_REUSEPORT      },
    {SOL_SOCKET,   SO_BROADCAST      },
    {SOL_SOCKET,   SO_KEEPALIVE      },
    {SOL_SOCKET,   SO_DONTROUTE      },
    {SOL_SOCKET,   SO_OOBINLINE      },
    {SOL_SOCKET,   SO_PRIORITY       },
    {SOL_SOCKET,   SO_SNDBUF         },
    {SOL_SOCKET,   SO_RCVBUF         },
    {SOL_SOCKET,   SO_RCVLOWAT       },
    {SOL_SOCKET,   SO_SNDTIMEO       },
    {SOL_SOCKET,   SO_RCVTIMEO       },
    {SOL_SOCKET,   SO_TIMESTAMP      },
    {SOL_SOCKET,   SO_PASSCRED       },
    {SOL_SOCKET,   SO_PEERCRED       },
    {IPPROTO_TCP,  TCP_NODELAY       },
    {IPPROTO_TCP,  TCP_MAXSEG        },
    {IPPROTO_TCP,  TCP_CORK          },
    {IPPROTO_TCP,  TCP_KEEPIDLE      },
    {IPPROTO_TCP,  TCP_KEEPINTVL     },
    {IPPROTO_TCP,  TCP_KEEPCNT       },
    {IPPROTO_TCP,  TCP_SYNCNT        },
    {IPPROTO_TCP,  TCP_DEFER_ACCEPT  },
    {IPPROTO_TCP,  TCP_INFO          },
    {IPPROTO_TCP,  TCP_QUICKACK      },
    {IPPROTO_TCP,  TCP_CONGESTION    },
    {IPPROTO_TCP,  TCP_USER_TIMEOUT  },
    {IPPROTO_TCP,  TCP_FASTOPEN      },
    {IPPROTO_IP,   IP_TOS            },
    {IPPROTO_IP,   IP_TTL            },
    {IPPROTO_IP,   IP_PKTINFO        },
    {IPPROTO_IP,   IP_MTU_DISCOVER   },
    {IPPROTO_IP,   IP_RECVERR        },
    {IPPROTO_IP,   IP_MULTICAST_IF   },
    {IPPROTO_IP,   IP_MULTICAST_TTL  },
    {IPPROTO_IP,   IP_MULTICAST_LOOP },
    {IPPROTO_IP,   IP_ADD_MEMBERSHIP },
    {IPPROTO_IP,   IP_DROP_MEMBERSHIP},
    {IPPROTO_IPV6, IPV6_V6ONLY       },
    {IPPROTO_IPV6, IPV6_UNICAST_HOPS },
    {IPPROTO_IPV6, IPV6_TCLASS       },
    {IPPROTO_IPV6, IPV6_RECVPKTINFO  },
    {IPPROTO_IPV6, IPV6_RECVERR      },
};

/* By all three arguments: with others kernels load modules that hardly anybody uses. */
static const struct {
    uint64_t domain;
    uint64_t kind;
    uint64_t protocol;
} sockets[] = {
    {AF_UNIX,  SOCK_STREAM,    0          },
    {AF_UNIX,  SOCK_DGRAM,     0          },
    {AF_UNIX,  SOCK_SEQPACKET, 0          },
    {AF_INET,  SOCK_STREAM,    0          },
    {AF_INET,  SOCK_STREAM,    IPPROTO_TCP},
    {AF_INET,  SOCK_DGRAM,     0          },
    {AF_INET,  SOCK_DGRAM,     IPPROTO_UDP},
    {AF_INET6, SOCK_STREAM,    0          },
    {AF_INET6, SOCK_STREAM,    IPPROTO_TCP},
    {AF_INET6, SOCK_DGRAM,     0          },
    {AF_INET6, SOCK_DGRAM,     IPPROTO_UDP},
};

/* What a zygote's child calls on its way to being a sandbox. */
static const char *const setup_calls[] = {
    "memfd_create",
    "mmap",
    "clone",
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
    "getsockopt",
    "setsockopt",
    "ioctl",
    "prlimit64",
    "fcntl",
    "kill",
    "tgkill",
    "pidfd_send_signal",
};

#define NAMESPACE_FLAGS                                                                        \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
     CLONE_NEWCGROUP | 0x80U)

static bool has_call(enum snp_arch arch, const char *name)
{
    return seccomp_syscall_resolve_name_arch(arches[arch].token, name) >= 0;
}

/* A rule for one call; none if the architecture has no such call, which is then refused. */
static int rule(const struct snp_making *m,
                uint32_t action,
                const char *name,
                const struct scmp_arg_cmp *arg)
{
    /* Rules are given in native numbers, of calls that are not there in pseudo numbers. */
    return has_call(m->arch, name)
               ? seccomp_rule_add_array(m->ctx, action, seccomp_syscall_resolve_name(name),
                                        arg == NULL ? 0 : 1, arg)
               : 0;
}

int snp_filter_allow(const struct snp_making *m, const char *name)
{
    return rule(m, SCMP_ACT_ALLOW, name, NULL);
}

/* The kernel looks at the low 32 bits of these arguments; so must the filter. */
static int allow_value(const struct snp_making *m,
                       const char *name,
                       unsigned arg,
                       uint64_t value)
{
    const struct scmp_arg_cmp is = SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, 0xffffffffU, value);

    return rule(m, SCMP_ACT_ALLOW, name, &is);
}

int snp_filter_values(const struct snp_making *m,
                      const char *name,
                      unsigned arg,
                      const uint64_t *values,
                      size_t n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++) {
        r = allow_value(m, name, arg, values[i]);
    }
    return r;
}

int snp_filter_without(const struct snp_making *m,
                       const char *name,
                       unsigned arg,
                       uint64_t bits)
{
    const struct scmp_arg_cmp has_none = SCMP_CMP(arg, SCMP_CMP_MASKED_EQ, bits, 0);

    return rule(m, SCMP_ACT_ALLOW, name, &has_none);
}

static bool is_skipped(const char *name, const char *const *skip)
{
    for (; skip != NULL && *skip != NULL; skip++) {
        if (strcmp(*skip, name) == 0) {
            return true;
        }
    }
    return false;
}

static int add_common(const struct snp_making *m, const char *const *skip)
{
    int r = seccomp_attr_set(m->ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);

    if (r == 0) {
        r = seccomp_attr_set(m->ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    }
    for (size_t g = 0; g < SNP_ARRAY_LEN(groups); g++) {
        for (const char *const *call = groups[g].calls; r == 0 && *call != NULL; call++) {
            r = is_skipped(*call, skip) ? 0 : snp_filter_allow(m, *call);
        }
    }
    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(stand_ins); i++) {
        if (!has_call(m->arch, stand_ins[i].missing)) {
            r = allow_value(m, stand_ins[i].name, 0, 0);
        }
    }
    return r;
}

/*
 * Of others limits may be read only: those of pid 1, who is the same user, are none of the
 * code's business.
 */
static int allow_own_limits(const struct snp_making *m)
{
    const struct scmp_arg_cmp reads = SCMP_CMP(2, SCMP_CMP_EQ, 0, 0);
    int r = allow_value(m, "prlimit64", 0, 0);

    return r < 0 ? r : rule(m, SCMP_ACT_ALLOW, "prlimit64", &reads);
}

/* Where nobody counts buffers of sockets, those keep their size: asking for another changes nothing. */
static int allow_options(const struct snp_making *m, bool counts_memory)
{
    static const char *const calls[] = {"getsockopt", "setsockopt"};
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(calls) * SNP_ARRAY_LEN(options); i++) {
        size_t at = i % SNP_ARRAY_LEN(options);
        bool is_size = !counts_memory && i >= SNP_ARRAY_LEN(options) &&
                       options[at].level == SOL_SOCKET &&
                       (options[at].name == SO_SNDBUF || options[at].name == SO_RCVBUF);

        r = seccomp_rule_add(m->ctx, is_size ? SCMP_ACT_ERRNO(0) : SCMP_ACT_ALLOW,
                             seccomp_syscall_resolve_name(calls[i / SNP_ARRAY_LEN(options)]), 2,
                             SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xffffffffU, options[at].level),
                             SCMP_CMP(2, SCMP_CMP_MASKED_EQ, 0xffffffffU, options[at].name));
    }
    return r;
}

/*
 * Memory that belongs to no process and lies in no file that is counted: a control group counts
 * it, a look at the processes does not. Without one it is not to be had; who asks has another
 * way (a file in /dev/shm), and need not be told on.
 */
static int add_shared_memory(const struct snp_making *m, bool counts_memory)
{
    const struct scmp_arg_cmp of_file = SCMP_CMP(3, SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, 0);
    const struct scmp_arg_cmp is_private =
        SCMP_CMP(3, SCMP_CMP_MASKED_EQ, MAP_TYPE, MAP_PRIVATE);
    const struct scmp_arg_cmp is_shared =
        SCMP_CMP(3, SCMP_CMP_MASKED_EQ, MAP_TYPE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS);
    int r;

    if (counts_memory) {
        r = snp_filter_allow(m, "memfd_create");
        return r < 0 ? r : snp_filter_allow(m, "mmap");
    }
    r = rule(m, SCMP_ACT_ERRNO(ENOSYS), "memfd_create", NULL);
    r = r < 0 ? r : rule(m, SCMP_ACT_ALLOW, "mmap", &of_file);
    r = r < 0 ? r : rule(m, SCMP_ACT_ALLOW, "mmap", &is_private);
    return r < 0 ? r : rule(m, SCMP_ACT_ERRNO(ENOMEM), "mmap", &is_shared);
}

int snp_filter_conditional(const struct snp_making *m, bool counts_memory)
{
    /* No namespaces; and its end tells the parent of it by no signal that would do something else. */
    static const uint64_t ends[] = {0, SIGCHLD};
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(ends); i++) {
        const struct scmp_arg_cmp is_plain =
            SCMP_CMP(0, SCMP_CMP_MASKED_EQ, NAMESPACE_FLAGS | CSIGNAL, ends[i]);
        r = rule(m, SCMP_ACT_ALLOW, "clone", &is_plain);
    }
    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(absent); i++) {
        r = rule(m, SCMP_ACT_ERRNO((unsigned)absent[i].error), absent[i].name, NULL);
    }
    if (r == 0) {
        r = snp_filter_values(m, "ioctl", 1, ioctls, SNP_ARRAY_LEN(ioctls));
    }
    if (r == 0) {
        r = snp_filter_values(m, "prctl", 0, prctls, SNP_ARRAY_LEN(prctls));
    }
    r = r < 0 ? r : add_shared_memory(m, counts_memory);
    return r < 0 ? r : allow_options(m, counts_memory);
}

static int allow_sockets(const struct snp_making *m)
{
    static const uint64_t pairs[] = {AF_UNIX};
    int r = snp_filter_values(m, "socketpair", 0, pairs, SNP_ARRAY_LEN(pairs));

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(sockets); i++) {
        r = seccomp_rule_add(
            m->ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 3,
            SCMP_CMP(0, SCMP_CMP_MASKED_EQ, 0xffffffffU, sockets[i].domain),
            SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xfU, sockets[i].kind), /* less the flags */
            SCMP_CMP(2, SCMP_CMP_MASKED_EQ, 0xffffffffU, sockets[i].protocol));
    }
    return r;
}

static int add_conditional(const struct snp_making *m, bool counts_memory)
{
    int r = snp_filter_conditional(m, counts_memory);

    r = r < 0 ? r : allow_sockets(m);
    r = r < 0 ? r : snp_filter_values(m, "fcntl", 1, fcntls, SNP_ARRAY_LEN(fcntls));
    r = r < 0 ? r : allow_value(m, "prctl", 0, PR_SET_DUMPABLE);
    return r < 0 ? r : allow_own_limits(m);
}

/* Pid 1 is known by what it puts where the kernel does not look; each sandbox has its own mark. */
int snp_filter_marked(const struct snp_making *m, const char *name, unsigned last)
{
    const uint64_t upper = 0xffffffff00000000U;
    const uint64_t high = (uint64_t)SNP_MARK_PLACE_HIGH << 32U;
    const uint64_t low = (uint64_t)SNP_MARK_PLACE_LOW << 32U;

    return seccomp_rule_add(m->ctx, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(name), 2,
                            SCMP_CMP(0, SCMP_CMP_MASKED_EQ, upper, high),
                            SCMP_CMP(last, SCMP_CMP_MASKED_EQ, upper, low));
}

static int add_setup(const struct snp_making *m, const void *data)
{
    (void)data;
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(setup_calls); i++) {
        r = snp_filter_allow(m, setup_calls[i]);
    }
    return r;
}

static int add_counted(const struct snp_making *m, const void *data)
{
    int r = add_conditional(m, true);

    (void)data;
    return r == 0 ? snp_filter_marked(m, "kill", 1) : r;
}

static int add_uncounted(const struct snp_making *m, const void *data)
{
    int r = add_conditional(m, false);

    (void)data;
    return r == 0 ? snp_filter_marked(m, "kill", 1) : r;
}

/* An empty filter of a context speaks of the native architecture; make it another. */
static int set_arch(const struct snp_making *m)
{
    uint32_t token = arches[m->arch].token;
    int r;

    if (token == SCMP_ARCH_NATIVE || token == seccomp_arch_native()) {
        return 0;
    }
    r = seccomp_arch_add(m->ctx, token);
    return r < 0 ? r : seccomp_arch_remove(m->ctx, SCMP_ARCH_NATIVE);
}

int snp_filter_compile_for(enum snp_arch arch,
                           const struct snp_filter_parts *parts,
                           int fd,
                           struct snp_err *err)
{
    struct snp_making m = {.ctx = seccomp_init(SCMP_ACT_NOTIFY), .arch = arch};
    int r = m.ctx == NULL ? -ENOMEM : set_arch(&m);

    if (r == 0) {
        r = add_common(&m, parts->skip);
    }
    if (r == 0) {
        r = parts->add(&m, parts->data);
    }
    if (r < 0) {
        r = snp_fail_sys(err, -r, "build the system call filter");
    } else if (seccomp_export_bpf(m.ctx, fd) < 0) {
        r = snp_fail(err, SNP_E_INTERNAL, "the system call filter does not compile");
    }
    if (m.ctx != NULL) {
        seccomp_release(m.ctx);
    }
    return r;
}

static const struct snp_filter_parts native_parts[] = {
    [SNP_FILTER_SESSION] = {.add = add_counted},
    [SNP_FILTER_SESSION_UNCOUNTED] = {.add = add_uncounted},
    [SNP_FILTER_ZYGOTE] = {.add = add_setup},
};

int snp_syscalls_compile_for(enum snp_arch arch,
                             enum snp_filter filter,
                             int fd,
                             struct snp_err *err)
{
    return snp_filter_compile_for(arch, &native_parts[filter], fd, err);
}

int snp_filter_compile(const struct snp_filter_parts *parts, int *ret_fd, struct snp_err *err)
{
    snp_autoclose int fd = memfd_create("filter", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r;

    if (fd < 0) {
        return snp_fail_sys(err, errno, "memfd for the system call filter");
    }
    r = snp_filter_compile_for(SNP_ARCH_NATIVE, parts, fd, err);
    if (r < 0) {
        return r;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
        return snp_fail_sys(err, errno, "seal the system call filter");
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}

int snp_syscalls_compile(bool counts_memory,
                         int *ret_session_fd,
                         int *ret_zygote_fd,
                         struct snp_err *err)
{
    snp_autoclose int session_fd = -1;
    int r = snp_filter_compile(
        &native_parts[counts_memory ? SNP_FILTER_SESSION : SNP_FILTER_SESSION_UNCOUNTED],
        &session_fd, err);

    if (r < 0) {
        return r;
    }
    r = snp_filter_compile(&native_parts[SNP_FILTER_ZYGOTE], ret_zygote_fd, err);
    if (r == 0) {
        *ret_session_fd = SNP_TAKE_FD(session_fd);
    }
    return r;
}

static bool is_listed(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_in_a_group(const char *name)
{
    for (size_t g = 0; g < SNP_ARRAY_LEN(groups); g++) {
        for (const char *const *call = groups[g].calls; *call != NULL; call++) {
            if (strcmp(*call, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool stands_in(enum snp_arch arch, const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(stand_ins); i++) {
        if (strcmp(stand_ins[i].name, name) == 0 && !has_call(arch, stand_ins[i].missing)) {
            return true;
        }
    }
    return false;
}

/* Of the calls that are in no group. */
static enum snp_call verdict_of_session(enum snp_filter filter, const char *name)
{
    if (strcmp(name, "memfd_create") == 0) {
        return filter == SNP_FILTER_SESSION ? SNP_CALL_ALLOWED : SNP_CALL_ABSENT;
    }
    if (strcmp(name, "mmap") == 0) {
        return filter == SNP_FILTER_SESSION ? SNP_CALL_ALLOWED : SNP_CALL_BY_ARGUMENT;
    }
    if (is_listed(asked, SNP_ARRAY_LEN(asked), name)) {
        return SNP_CALL_REFUSED; /* by the filter */
    }
    if (is_listed(conditional, SNP_ARRAY_LEN(conditional), name)) {
        return SNP_CALL_BY_ARGUMENT;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(absent); i++) {
        if (strcmp(absent[i].name, name) == 0) {
            return SNP_CALL_ABSENT;
        }
    }
    return SNP_CALL_REFUSED;
}

enum snp_call snp_syscalls_verdict(enum snp_arch arch, enum snp_filter filter, const char *name)
{
    if (!has_call(arch, name)) {
        return SNP_CALL_REFUSED;
    }
    if (is_in_a_group(name)) {
        return SNP_CALL_ALLOWED;
    }
    if (stands_in(arch, name)) {
        return SNP_CALL_BY_ARGUMENT;
    }
    if (filter == SNP_FILTER_ZYGOTE) {
        return is_listed(setup_calls, SNP_ARRAY_LEN(setup_calls), name) ? SNP_CALL_ALLOWED
                                                                        : SNP_CALL_REFUSED;
    }
    return verdict_of_session(filter, name);
}

static unsigned count_calls(enum snp_arch arch)
{
    unsigned n = SNP_ARRAY_LEN(conditional); /* every architecture has these */

    for (size_t g = 0; g < SNP_ARRAY_LEN(groups); g++) {
        for (const char *const *call = groups[g].calls; *call != NULL; call++) {
            n += has_call(arch, *call) ? 1 : 0;
        }
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(stand_ins); i++) {
        n += stands_in(arch, stand_ins[i].name) ? 1 : 0;
    }
    return n;
}

unsigned snp_syscalls_count(bool counts_memory)
{
    return count_calls(SNP_ARCH_NATIVE) - (counts_memory ? 0 : 1);
}

/* What an architecture has not of the table, and what it has instead. */
static void print_differences(FILE *out, enum snp_arch arch)
{
    (void)fprintf(out,
                  "\n## %s\n\nThe code may make %u calls, by the same table. aarch64 does not "
                  "have these:",
                  arches[arch].name, count_calls(arch));
    for (size_t g = 0; g < SNP_ARRAY_LEN(groups); g++) {
        for (const char *const *call = groups[g].calls; *call != NULL; call++) {
            if (!has_call(arch, *call)) {
                (void)fprintf(out, " %s", *call);
            }
        }
    }
    (void)fprintf(out, ".\nLibraries there use newer calls, which are in the table too");
    for (size_t i = 0; i < SNP_ARRAY_LEN(stand_ins); i++) {
        if (stands_in(arch, stand_ins[i].name)) {
            (void)fprintf(out, ",\nand instead of %s, %s with a first argument of 0",
                          stand_ins[i].missing, stand_ins[i].name);
        }
    }
    (void)fprintf(out, ".\n");
}

void snp_syscalls_print(FILE *out)
{
    (void)fprintf(out,
                  "# System calls\n\nThe code may make %u calls on x86-64; everything else is "
                  "refused and recorded.\n\n"
                  "| group | why | calls |\n|---|---|---|\n",
                  count_calls(SNP_ARCH_X86_64));
    for (size_t g = 0; g < SNP_ARRAY_LEN(groups); g++) {
        (void)fprintf(out, "| %s | %s |", groups[g].name, groups[g].reason);
        for (const char *const *call = groups[g].calls; *call != NULL; call++) {
            (void)fprintf(out, " %s", *call);
        }
        (void)fprintf(out, " |\n");
    }
    (void)fprintf(
        out,
        "| by argument | clone without namespaces, whose end sends SIGCHLD or nothing; unix, "
        "TCP and UDP sockets, with the options that servers and clients set; "
        "harmless ioctl and prctl; own limits, and reading those of others; fcntl that makes "
        "no "
        "descriptor send signals; memfd_create, mmap of shared memory without a "
        "file, and setsockopt of sizes of buffers where a cgroup counts their pages |");
    for (size_t i = 0; i < SNP_ARRAY_LEN(conditional); i++) {
        (void)fprintf(out, " %s", conditional[i]);
    }
    (void)fprintf(out, " |\n| checked each time | signals to processes of the session, except "
                       "its copies: the supervisor checks |");
    for (size_t i = 0; i < SNP_ARRAY_LEN(asked); i++) {
        (void)fprintf(out, " %s", asked[i]);
    }
    (void)fprintf(out,
                  " |\n\nThese fail as unknown calls, without a record, because libraries and "
                  "tools only probe for them:");
    for (size_t i = 0; i < SNP_ARRAY_LEN(absent); i++) {
        (void)fprintf(out, " %s", absent[i].name);
    }
    (void)fprintf(out,
                  ".\nCalls of another architecture (32-bit programs, and the x32 calls of "
                  "x86-64) end the process.\n");
    print_differences(out, SNP_ARCH_AARCH64);
}
