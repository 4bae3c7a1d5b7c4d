/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table, and its compilation by libseccomp.
 *
 * Other calls are refused through a notification, so that the refusal is recorded; without a
 * supervisor the kernel answers ENOSYS. The filter of zygotes, which sandboxes inherit below
 * theirs, refuses in the same way: of two equal verdicts the kernel takes the newer filter's, and
 * with it the listener. An error number from the older one would take precedence, and nothing would
 * be recorded. Calls of other architectures (32-bit programs, the x32 calls of x86-64) kill the
 * process.
 *
 * One table serves all architectures. It lists the calls of x86-64, including old ones (access,
 * dup2, open ...: musl uses them); other architectures have only their newer equivalents, which are
 * listed too, or a stand-in. Checked arguments have the same positions and values on x86-64 and
 * aarch64 (see tests/unit/syscalls_test.c).
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
    const char *const *calls; /* NULL-terminated */
};

/* clang-format off */
#define CALLS(...)   (const char *const[]){__VA_ARGS__, NULL}
#define NUMBERS(...) (const int[]){__VA_ARGS__, 0}
static const struct group groups[] = {
    {"files", "read and write what the mounts and Landlock allow", CALLS(
        "read", "write", "readv", "writev", "pread64", "pwrite64", "creat", "open", "openat",
        "openat2", "close", "close_range", "lseek", "stat", "lstat", "fstat", "newfstatat", "statx",
        "statfs", "fstatfs", "access", "faccessat", "faccessat2", "fsync", "fdatasync", "truncate",
        "ftruncate", "fallocate", "fadvise64", "flock", "sendfile", "copy_file_range", "umask",
        "utimensat")},
    {"names", "folders, links, renames", CALLS(
        "getdents64", "getcwd", "chdir", "fchdir", "rename", "renameat", "renameat2", "mkdir",
        "mkdirat", "rmdir", "unlink", "unlinkat", "link", "linkat", "symlink", "symlinkat",
        "readlink", "readlinkat", "chmod", "fchmod", "fchmodat", "fchown", "fchownat", "mknodat")},
    {"attributes", "programs that copy files preserve their attributes", CALLS(
        "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr")},
    {"descriptors", "pipes, polling, events", CALLS(
        "dup", "dup2", "dup3", "pipe", "pipe2", "poll", "ppoll", "select", "pselect6",
        "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "eventfd2", "signalfd4")},
    {"memory", "allocation and mapping, within the limit", CALLS(
        "brk", "munmap", "mremap", "mprotect", "madvise", "msync")},
    {"processes", "fork, threads, run, wait, in a separate pid namespace", CALLS(
        "fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid",
        "pidfd_open", "getpid", "getppid", "gettid", "setpgid", "getpgrp",
        "setsid", "futex", "set_tid_address", "set_robust_list", "rseq", "arch_prctl",
        "sched_yield", "sched_getaffinity")},
    {"signals", "handlers and timers", CALLS(
        "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigtimedwait", "rt_sigsuspend",
        "sigaltstack", "alarm", "setitimer", "pause", "restart_syscall")},
    {"time", "clocks, sleep", CALLS(
        "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "times")},
    {"identity", "ids, system, usage, random bytes", CALLS(
        "getuid", "geteuid", "getgid", "getegid", "getgroups", "uname", "sysinfo",
        "getrusage", "getpriority", "getrandom")},
    {"sockets", "unix sockets, and the loopback of an empty network namespace", CALLS(
        "connect", "bind", "listen", "accept", "accept4", "getsockname", "getpeername", "sendto",
        "recvfrom", "sendmsg", "recvmsg", "shutdown")},
};
/* clang-format on */

/* Allowed with some arguments only; included in the count. */
static const char *const conditional[] = {
    "memfd_create", "mmap",  "clone", "socket",    "socketpair", "getsockopt",
    "setsockopt",   "ioctl", "prctl", "prlimit64", "fcntl",
};

/* The supervisor checks their targets. */
static const char *const asked[] = {"kill", "tgkill", "pidfd_send_signal"};

/*
 * Calls that libraries and tools only probe, with a fallback: answered with an error, unrecorded.
 * clone3 is one because its flags cannot be inspected.
 */
static const struct {
    const char *name;
    int error;
} absent[] = {
    {"clone3", ENOSYS},         {"pkey_alloc", ENOSYS},         {"capget", ENOSYS},
    {"flistxattr", EOPNOTSUPP}, {"setxattr", EOPNOTSUPP},       {"fsetxattr", EOPNOTSUPP},
    {"sched_getparam", ENOSYS}, {"sched_getscheduler", ENOSYS}, {"membarrier", ENOSYS},
    {"mincore", ENOSYS},        {"get_mempolicy", ENOSYS},      {"mbind", ENOSYS},
    {"timer_create", ENOSYS},
};

/*
 * Calls that libraries use where an architecture lacks the one in the table: allowed there, if
 * their first argument is 0 (the caller).
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
    [SNP_ARCH_NATIVE] = {SCMP_ARCH_NATIVE, "this machine"},
    [SNP_ARCH_X86_64] = {SCMP_ARCH_X86_64, "x86-64"},
    [SNP_ARCH_AARCH64] = {SCMP_ARCH_AARCH64, "aarch64"},
};

static const uint64_t ioctls[] = {
    TCGETS,        TIOCGWINSZ,  TIOCGPGRP,   FIONREAD,
    FIONBIO,       FIOCLEX,     FIONCLEX,    0x40049409 /* FICLONE: cp tries it */,
    SIOCGIFCONF,   SIOCGIFNAME, SIOCGIFADDR, SIOCGIFFLAGS,
    SIOCGIFHWADDR,
};

/* clang-format off */
static const uint64_t prctls[] = {
    PR_SET_NAME, PR_GET_NAME, PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE, PR_CAPBSET_READ,
    PR_GET_NO_NEW_PRIVS, PR_GET_SECCOMP, PR_GET_TID_ADDRESS, PR_SET_NO_NEW_PRIVS, PR_SET_TIMERSLACK,
    PR_SET_THP_DISABLE,
    0x53564d41 /* PR_SET_VMA: names of mappings */,
};

/* All commands except those that make a descriptor send signals, to any process. */
static const uint64_t fcntls[] = {
    F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETOWN, F_GETSIG,
    F_GETLK, F_SETLK, F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_GETLEASE,
    F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS,
    F_GET_RW_HINT, F_SET_RW_HINT, F_GET_FILE_RW_HINT, F_SET_FILE_RW_HINT,
};

/*
 * Options that servers and clients set. Not SO_PEERPIDFD and SO_PASSPIDFD: the peer of some sockets
 * is the supervisor, and a pidfd could be used to signal it. Not SO_LINGER: such a socket, passed
 * to the supervisor, would block its last close.
 */
static const struct {
    uint64_t level;
    const int *names; /* 0-terminated */
} options[] = {
    {SOL_SOCKET, NUMBERS(
        SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ERROR, SO_ACCEPTCONN, SO_REUSEADDR, SO_REUSEPORT,
        SO_BROADCAST, SO_KEEPALIVE, SO_DONTROUTE, SO_OOBINLINE, SO_PRIORITY, SO_SNDBUF, SO_RCVBUF,
        SO_RCVLOWAT, SO_SNDTIMEO, SO_RCVTIMEO, SO_TIMESTAMP, SO_PASSCRED, SO_PEERCRED)},
    {IPPROTO_TCP, NUMBERS(
        TCP_NODELAY, TCP_MAXSEG, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT,
        TCP_DEFER_ACCEPT, TCP_INFO, TCP_QUICKACK, TCP_CONGESTION, TCP_USER_TIMEOUT, TCP_FASTOPEN)},
    {IPPROTO_IP, NUMBERS(
        IP_TOS, IP_TTL, IP_PKTINFO, IP_MTU_DISCOVER, IP_RECVERR, IP_MULTICAST_IF, IP_MULTICAST_TTL,
        IP_MULTICAST_LOOP, IP_ADD_MEMBERSHIP, IP_DROP_MEMBERSHIP)},
    {IPPROTO_IPV6, NUMBERS(IPV6_V6ONLY, IPV6_UNICAST_HOPS, IPV6_TCLASS, IPV6_RECVPKTINFO,
     IPV6_RECVERR)},
};

/* By all three arguments: others make the kernel load rarely used modules. */
static const struct {
    uint64_t domain;
    uint64_t kind;
    uint64_t protocol;
} sockets[] = {
    {AF_UNIX,  SOCK_STREAM, 0}, {AF_UNIX,  SOCK_DGRAM,  0}, {AF_UNIX,  SOCK_SEQPACKET, 0},
    {AF_INET,  SOCK_STREAM, 0}, {AF_INET,  SOCK_STREAM, IPPROTO_TCP},
    {AF_INET,  SOCK_DGRAM,  0}, {AF_INET,  SOCK_DGRAM,  IPPROTO_UDP},
    {AF_INET6, SOCK_STREAM, 0}, {AF_INET6, SOCK_STREAM, IPPROTO_TCP},
    {AF_INET6, SOCK_DGRAM,  0}, {AF_INET6, SOCK_DGRAM,  IPPROTO_UDP},
};

/* Calls of a zygote's child during set-up, besides conditional and asked ones: everywhere ... */
static const char *const landlock_calls[] = {
    "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
};
static const char *const setup_calls[] = {
    "capset", "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self",
    "sched_setaffinity",
};
/* ... and with namespaces. */
static const char *const namespace_calls[] = {
    "unshare", "mount", "umount2", "move_mount", "mknod", "sethostname", "setgroups", "setresuid",
    "setresgid",
};
/* clang-format on */

#define NAMESPACE_FLAGS                                                                        \
    (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
     CLONE_NEWCGROUP | 0x80U)

static bool has_call(enum snp_arch arch, const char *name)
{
    return seccomp_syscall_resolve_name_arch(arches[arch].token, name) >= 0;
}

void snp_filter_rule(struct snp_making *m,
                     uint32_t action,
                     const char *name,
                     unsigned n,
                     const struct scmp_arg_cmp *args)
{
    /* Rules take native numbers, and pseudo numbers for missing calls. */
    if (m->r == 0 && has_call(m->arch, name)) {
        m->r = seccomp_rule_add_array(m->ctx, action, seccomp_syscall_resolve_name(name), n, args);
    }
}

void snp_filter_allow(struct snp_making *m, const char *name)
{
    SNP_RULE(m, SCMP_ACT_ALLOW, name);
}

void snp_filter_values(
    struct snp_making *m, const char *name, unsigned arg, const uint64_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        SNP_RULE(m, SCMP_ACT_ALLOW, name, SNP_LOW(arg, values[i]));
    }
}

static bool is_skipped(const struct snp_making *m, const char *name)
{
    for (const char *const *skip = m->skip; skip != NULL && *skip != NULL; skip++) {
        if (strcmp(*skip, name) == 0) {
            return true;
        }
    }
    return false;
}

static void allow_all(struct snp_making *m, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n && names[i] != NULL; i++) {
        if (!is_skipped(m, names[i])) {
            snp_filter_allow(m, names[i]);
        }
    }
}

static void add_common(struct snp_making *m)
{
    for (size_t g = 0; g < SNP_ARRAY_LEN(groups); g++) {
        allow_all(m, groups[g].calls, SIZE_MAX);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(stand_ins); i++) {
        if (!has_call(m->arch, stand_ins[i].missing)) {
            SNP_RULE(m, SCMP_ACT_ALLOW, stand_ins[i].name, SNP_LOW(0, 0));
        }
    }
}

static bool is_size_of_buffer(uint64_t level, int name)
{
    return level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF);
}

/*
 * Without a cgroup that counts socket buffers, those keep their size: setting another has no
 * effect.
 */
static void add_options(struct snp_making *m, const char *call, bool keeps_sizes)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(options); i++) {
        for (const int *name = options[i].names; *name != 0; name++) {
            bool is_size = is_size_of_buffer(options[i].level, *name);

            SNP_RULE(m, keeps_sizes && is_size ? SCMP_ACT_ERRNO(0) : SCMP_ACT_ALLOW, call,
                     SNP_LOW(1, options[i].level), SNP_LOW(2, (uint64_t)*name));
        }
    }
}

/*
 * memfds belong to no process and no counted file: a cgroup counts them, samples of processes do
 * not. Without a cgroup they are refused, unrecorded; callers can use a file in /dev/shm instead.
 */
static void add_shared_memory(struct snp_making *m, bool counts_memory)
{
    if (counts_memory) {
        snp_filter_allow(m, "memfd_create");
        snp_filter_allow(m, "mmap");
        return;
    }
    SNP_RULE(m, SCMP_ACT_ERRNO(ENOSYS), "memfd_create");
    SNP_RULE(m, SCMP_ACT_ALLOW, "mmap", SNP_BITS(3, MAP_ANONYMOUS, 0));
    SNP_RULE(m, SCMP_ACT_ALLOW, "mmap", SNP_BITS(3, MAP_TYPE, MAP_PRIVATE));
    SNP_RULE(m, SCMP_ACT_ERRNO(ENOMEM), "mmap",
             SNP_BITS(3, MAP_TYPE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS));
}

void snp_filter_conditional(struct snp_making *m, bool counts_memory)
{
    /* No namespaces; and its exit signal to the parent is SIGCHLD or none. */
    SNP_RULE(m, SCMP_ACT_ALLOW, "clone", SNP_BITS(0, NAMESPACE_FLAGS | CSIGNAL, 0));
    SNP_RULE(m, SCMP_ACT_ALLOW, "clone", SNP_BITS(0, NAMESPACE_FLAGS | CSIGNAL, SIGCHLD));
    for (size_t i = 0; i < SNP_ARRAY_LEN(absent); i++) {
        SNP_RULE(m, SCMP_ACT_ERRNO((unsigned)absent[i].error), absent[i].name);
    }
    snp_filter_values(m, "ioctl", 1, ioctls, SNP_ARRAY_LEN(ioctls));
    snp_filter_values(m, "prctl", 0, prctls, SNP_ARRAY_LEN(prctls));
    add_shared_memory(m, counts_memory);
    add_options(m, "getsockopt", false);
    add_options(m, "setsockopt", !counts_memory);
}

/* Pid 1 puts the sandbox's mark into argument bits that the kernel ignores. */
void snp_filter_marked(struct snp_making *m, const char *name, unsigned last)
{
    const uint64_t upper = 0xffffffff00000000U;

    SNP_RULE(m, SCMP_ACT_ALLOW, name, SNP_BITS(0, upper, (uint64_t)SNP_MARK_PLACE_HIGH << 32U),
             SNP_BITS(last, upper, (uint64_t)SNP_MARK_PLACE_LOW << 32U));
}

void snp_filter_setup(struct snp_making *m)
{
    allow_all(m, conditional, SNP_ARRAY_LEN(conditional));
    allow_all(m, asked, SNP_ARRAY_LEN(asked));
    allow_all(m, setup_calls, SNP_ARRAY_LEN(setup_calls));
}

static void add_setup(struct snp_making *m, const void *data)
{
    (void)data;
    snp_filter_setup(m);
    allow_all(m, namespace_calls, SNP_ARRAY_LEN(namespace_calls));
}

static void add_session(struct snp_making *m, const void *counts_memory)
{
    snp_filter_conditional(m, *(const bool *)counts_memory);
    SNP_RULE(m, SCMP_ACT_ALLOW, "socketpair", SNP_LOW(0, AF_UNIX));
    for (size_t i = 0; i < SNP_ARRAY_LEN(sockets); i++) {
        SNP_RULE(m, SCMP_ACT_ALLOW, "socket", SNP_LOW(0, sockets[i].domain),
                 SNP_BITS(1, 0xfU, sockets[i].kind), /* less the flags */
                 SNP_LOW(2, sockets[i].protocol));
    }
    snp_filter_values(m, "fcntl", 1, fcntls, SNP_ARRAY_LEN(fcntls));
    SNP_RULE(m, SCMP_ACT_ALLOW, "prctl", SNP_LOW(0, PR_SET_DUMPABLE));
    /*
     * Limits of other processes may only be read: pid 1, which has the same user, must keep its
     * limits.
     */
    SNP_RULE(m, SCMP_ACT_ALLOW, "prlimit64", SNP_LOW(0, 0));
    SNP_RULE(m, SCMP_ACT_ALLOW, "prlimit64", SCMP_CMP(2, SCMP_CMP_EQ, 0, 0));
    snp_filter_marked(m, "kill", 1);
}

static const bool counts[] = {true, false};
const struct snp_filter_parts snp_syscalls_parts[] = {
    [SNP_FILTER_SESSION] = {NULL, add_session, &counts[0]},
    [SNP_FILTER_SESSION_UNCOUNTED] = {NULL, add_session, &counts[1]},
    [SNP_FILTER_ZYGOTE] = {NULL, add_setup, NULL},
};

/* A new context's filter has the native architecture; replace it. */
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
    struct snp_making m = {.ctx = seccomp_init(SCMP_ACT_NOTIFY), .arch = arch, .skip = parts->skip};
    int r = 0;

    m.r = m.ctx == NULL ? -ENOMEM : set_arch(&m);
    if (m.r == 0) {
        m.r = seccomp_attr_set(m.ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    }
    if (m.r == 0) {
        m.r = seccomp_attr_set(m.ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    }
    add_common(&m);
    parts->add(&m, parts->data);
    if (m.r < 0) {
        r = snp_fail_sys(err, -m.r, "build the system call filter");
    } else if (seccomp_export_bpf(m.ctx, fd) < 0) {
        r = snp_fail(err, SNP_E_INTERNAL, "the system call filter does not compile");
    }
    if (m.ctx != NULL) {
        seccomp_release(m.ctx);
    }
    return r;
}

static int compile(const struct snp_filter_parts *parts, int *ret_fd, struct snp_err *err)
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

int snp_filters_compile(const struct snp_filter_parts *session,
                        const struct snp_filter_parts *zygote,
                        int *ret_session_fd,
                        int *ret_zygote_fd,
                        struct snp_err *err)
{
    int r = compile(session, ret_session_fd, err);

    return r < 0 ? r : compile(zygote, ret_zygote_fd, err);
}

/* Profiles of engines ------------------------------------------------------------------------- */

struct profile_arg {
    unsigned index;
    uint64_t mask;
    uint64_t value;
};

enum {
    NOTHING_DONE = -1 /* not an error: the call succeeds without effect */
};

/* One rule of a profile; name is taken for one call, or names (taken) for more. */
static void profile_add(
    json_t *list, json_t *names, int error, const struct profile_arg *args, size_t n)
{
    json_t *rule = json_pack("{s:o,s:s}", "names", names, "action",
                             error != 0 ? "SCMP_ACT_ERRNO" : "SCMP_ACT_ALLOW");
    json_t *conditions = json_array();

    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(
            conditions, json_pack("{s:i,s:I,s:I,s:s}", "index", (int)args[i].index, "value",
                                  (json_int_t)args[i].mask, "valueTwo", (json_int_t)args[i].value,
                                  "op", "SCMP_CMP_MASKED_EQ"));
    }
    (void)json_object_set_new(rule, "args", conditions);
    if (error != 0) {
        (void)json_object_set_new(rule, "errnoRet",
                                  json_integer(error == NOTHING_DONE ? 0 : error));
    }
    (void)json_array_append_new(list, rule);
}

static json_t *names_of(const char *const *names, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n && names[i] != NULL; i++) {
        (void)json_array_append_new(list, json_string(names[i]));
    }
    return list;
}

static void profile_values(
    json_t *list, const char *name, unsigned arg, const uint64_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct profile_arg is = {arg, 0xffffffffU, values[i]};

        profile_add(list, names_of(&name, 1), 0, &is, 1);
    }
}

static void profile_sockets(json_t *list)
{
    static const char *const calls[] = {"getsockopt", "setsockopt"};
    static const char *const make = "socket";

    for (size_t i = 0; i < SNP_ARRAY_LEN(sockets); i++) {
        const struct profile_arg are[] = {
            {0, 0xffffffffU, sockets[i].domain},
            {1, 0xfU, sockets[i].kind},
            {2, 0xffffffffU, sockets[i].protocol},
        };
        profile_add(list, names_of(&make, 1), 0, are, SNP_ARRAY_LEN(are));
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(options); i++) {
        for (const int *name = options[i].names; *name != 0; name++) {
            const struct profile_arg are[] = {
                {1, 0xffffffffU, options[i].level},
                {2, 0xffffffffU, (uint64_t)*name},
            };
            bool is_size = is_size_of_buffer(options[i].level, *name);

            profile_add(list, names_of(calls, 1), 0, are, SNP_ARRAY_LEN(are));
            profile_add(list, names_of(calls + 1, 1), is_size ? NOTHING_DONE : 0, are,
                        SNP_ARRAY_LEN(are));
        }
    }
}

json_t *snp_syscalls_profile(void)
{
    static const char *const whole[] = {"memfd_create", "mmap", "prlimit64"};
    static const char *const clone_call = "clone";
    static const char *const pair_call = "socketpair";
    static const uint64_t dumpable[] = {PR_SET_DUMPABLE};
    const struct profile_arg no_namespace = {0, NAMESPACE_FLAGS, 0};
    const struct profile_arg is_unix = {0, 0xffffffffU, AF_UNIX};
    json_t *list = json_array();

    for (size_t g = 0; g < SNP_ARRAY_LEN(groups); g++) {
        profile_add(list, names_of(groups[g].calls, SIZE_MAX), 0, NULL, 0);
    }
    profile_add(list, names_of(asked, SNP_ARRAY_LEN(asked)), 0, NULL, 0);
    profile_add(list, names_of(whole, SNP_ARRAY_LEN(whole)), 0, NULL, 0);
    profile_add(list, names_of(landlock_calls, SNP_ARRAY_LEN(landlock_calls)), 0, NULL, 0);
    profile_add(list, names_of(&clone_call, 1), 0, &no_namespace, 1);
    profile_add(list, names_of(&pair_call, 1), 0, &is_unix, 1);
    profile_values(list, "ioctl", 1, ioctls, SNP_ARRAY_LEN(ioctls));
    profile_values(list, "prctl", 0, prctls, SNP_ARRAY_LEN(prctls));
    profile_values(list, "prctl", 0, dumpable, SNP_ARRAY_LEN(dumpable));
    profile_values(list, "fcntl", 1, fcntls, SNP_ARRAY_LEN(fcntls));
    profile_sockets(list);
    for (size_t i = 0; i < SNP_ARRAY_LEN(absent); i++) {
        profile_add(list, names_of(&absent[i].name, 1), absent[i].error, NULL, 0);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(stand_ins); i++) {
        const struct profile_arg oneself = {0, 0xffffffffU, 0};

        if (!has_call(SNP_ARCH_NATIVE, stand_ins[i].missing)) {
            profile_add(list, names_of(&stand_ins[i].name, 1), 0, &oneself, 1);
        }
    }
    return json_pack("{s:s,s:o}", "defaultAction", "SCMP_ACT_ERRNO", "syscalls", list);
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

static unsigned count_calls(enum snp_arch arch)
{
    unsigned n = SNP_ARRAY_LEN(conditional); /* on every architecture */

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

/* Calls of the table that an architecture lacks, and their replacements. */
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
        out, "| by argument | clone without new namespaces, with SIGCHLD or no signal at the end; "
             "unix, TCP and UDP sockets, with options that servers and clients set; harmless ioctl "
             "and prctl; own limits (hard ones can only be lowered), reading those of others; "
             "fcntl that makes no descriptor send signals; memfd_create, mmap of shared memory "
             "without a file, setsockopt of buffer sizes where a cgroup counts their pages |");
    for (size_t i = 0; i < SNP_ARRAY_LEN(conditional); i++) {
        (void)fprintf(out, " %s", conditional[i]);
    }
    (void)fprintf(out, " |\n| checked each time | signals to processes of the session, except "
                       "its copies: the supervisor checks |");
    for (size_t i = 0; i < SNP_ARRAY_LEN(asked); i++) {
        (void)fprintf(out, " %s", asked[i]);
    }
    (void)fprintf(out, " |\n| set-up | also while a sandbox is set up, before its code runs |");
    for (size_t i = 0; i < SNP_ARRAY_LEN(setup_calls) + SNP_ARRAY_LEN(namespace_calls); i++) {
        (void)fprintf(out, " %s",
                      i < SNP_ARRAY_LEN(setup_calls)
                          ? setup_calls[i]
                          : namespace_calls[i - SNP_ARRAY_LEN(setup_calls)]);
    }
    (void)fprintf(out, " |\n\nThese fail as unknown calls, without a record, because libraries and "
                       "tools only probe for them:");
    for (size_t i = 0; i < SNP_ARRAY_LEN(absent); i++) {
        (void)fprintf(out, " %s", absent[i].name);
    }
    (void)fprintf(out, ".\nCalls of another architecture (32-bit programs, and the x32 calls of "
                       "x86-64) end the process.\n");
    print_differences(out, SNP_ARCH_AARCH64);
}
