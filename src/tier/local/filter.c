/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Without namespaces the host's processes, sockets and files can be named, and Landlock
 * covers only some calls. So:
 *
 * - no sockets but connected pairs, of kinds that cannot be sent elsewhere by address;
 * - no descriptors are sent: a removed file that is under way nobody holds, so it would not be counted;
 *   pid 1 does, with its mark;
 * - signals are sent by the supervisor, who looks whether the target is inside (emulate.c);
 * - no descriptor that owns a signal (F_SETOWN, F_SETSIG), no pidfd of others;
 * - no file opened for neither reading nor writing: Landlock lets such an open pass, and
 *   fchmod and the like work on it. openat2 hides its flags behind a pointer: not there;
 * - no file gets the rights of its user for others who run it (set-id bits): Landlock does not
 *   look at modes, and the file lies on the host;
 * - where the code is the same user as its host, modes and times are changed by the
 *   supervisor, below the session's folder only: Landlock does not look at those calls.
 */
#include "tier/local/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "os/idmap.h"

/* Of the table: allowed by argument below, asked for through the supervisor, or not at all. */
static const char *const session_skip[] = {
    "connect",   "bind",      "listen",     "accept4",           "openat", "openat2",
    "kill",      "tgkill",    "pidfd_open", "pidfd_send_signal", "fcntl",  "getxattr",
    "lgetxattr", "listxattr", "llistxattr", "truncate",          "chmod",  "fchmod",
    "fchmodat",  "fchown",    "fchownat",   "utimensat",         "creat",  "mknodat",
    "sendmsg",   NULL,
};

static const char *const zygote_skip[] = {"connect", "bind", "listen", "accept4", NULL};

/* Harmless where the user is nobody else; asked for where it is the host's. */
static const char *const as_owner[] = {"fchown", "fchownat", "utimensat"};

/* Calls that make or change a file, and which argument is its mode. */
static const struct moded {
    const char *name;
    unsigned arg;
    bool is_as_owner;
} moded[] = {
    {"creat",    1, false},
    {"mknodat",  2, false},
    {"chmod",    1, true },
    {"fchmod",   1, true },
    {"fchmodat", 2, true },
};

static const struct {
    const char *name;
    int error;
} absent[] = {
    {"openat2",           ENOSYS    },
    {"pidfd_open",        ENOSYS    },
    {"pidfd_send_signal", ENOSYS    },
    {"getxattr",          EOPNOTSUPP},
    {"lgetxattr",         EOPNOTSUPP},
    {"listxattr",         EOPNOTSUPP},
    {"llistxattr",        EOPNOTSUPP},
};

static const uint64_t fcntls[] = {
    F_DUPFD,         F_GETFD,      F_SETFD,      F_GETFL,     F_SETFL,      F_GETLK,
    F_SETLK,         F_SETLKW,     F_OFD_GETLK,  F_OFD_SETLK, F_OFD_SETLKW, F_GETLEASE,
    F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS,
};

/* What a zygote's child calls on its way to being a sandbox. */
static const char *const setup_calls[] = {
    "memfd_create",
    "mmap",
    "clone",
    "capset",
    "prctl",
    "seccomp",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
    "sched_setaffinity",
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

static int add_absent(const struct snp_making *m)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(absent); i++) {
        r = seccomp_rule_add(m->ctx, SCMP_ACT_ERRNO((unsigned)absent[i].error),
                             seccomp_syscall_resolve_name(absent[i].name), 0);
    }
    return r;
}

/* Of a connected pair neither kind takes an address; a datagram socket would. */
static int add_pairs(const struct snp_making *m)
{
    static const uint64_t kinds[] = {SOCK_STREAM, SOCK_SEQPACKET};
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(kinds); i++) {
        r = seccomp_rule_add(m->ctx, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 2,
                             SCMP_CMP(0, SCMP_CMP_MASKED_EQ, 0xffffffffU, AF_UNIX),
                             SCMP_CMP(1, SCMP_CMP_MASKED_EQ, 0xfU, kinds[i]));
    }
    return r;
}

static int add_opens(const struct snp_making *m)
{
    static const uint64_t modes[] = {O_RDONLY, O_WRONLY, O_RDWR};
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(modes); i++) {
        r = seccomp_rule_add(m->ctx, SCMP_ACT_ALLOW, SCMP_SYS(openat), 2,
                             SCMP_CMP(2, SCMP_CMP_MASKED_EQ, O_ACCMODE, modes[i]),
                             SCMP_CMP(3, SCMP_CMP_MASKED_EQ, S_ISUID | S_ISGID, 0));
    }
    return r;
}

static int add_moded(const struct snp_making *m, const struct snp_local_filter *want)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(moded); i++) {
        if (want->has_own_ids || !moded[i].is_as_owner) {
            r = snp_filter_without(m, moded[i].name, moded[i].arg, S_ISUID | S_ISGID);
        }
    }
    return r;
}

/*
 * Who is the same user as the supervisor could close itself to it, and hold removed files unseen.
 * Nothing inside can look into another process anyway, so that changes nothing but is no failure.
 */
static int add_dumpable(const struct snp_making *m, const struct snp_local_filter *want)
{
    int r = 0;

    for (uint64_t on = 0; r == 0 && on < 2; on++) {
        r = seccomp_rule_add(
            m->ctx, on != 0 || want->has_own_ids ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(0),
            SCMP_SYS(prctl), 2, SCMP_CMP(0, SCMP_CMP_MASKED_EQ, 0xffffffffU, PR_SET_DUMPABLE),
            SCMP_CMP(1, SCMP_CMP_EQ, on));
    }
    return r;
}

static int add_session(const struct snp_making *m, const void *data)
{
    const struct snp_local_filter *want = data;
    int r = snp_filter_conditional(m, want->counts_memory);

    r = r == 0 ? add_absent(m) : r;
    r = r == 0 ? add_pairs(m) : r;
    r = r == 0 ? snp_filter_marked(m, "sendmsg", 2) : r;
    r = r == 0 ? add_opens(m) : r;
    r = r == 0 ? add_moded(m, want) : r;
    r = r == 0 ? add_dumpable(m, want) : r;
    r = r == 0 ? snp_filter_values(m, "fcntl", 1, fcntls, SNP_ARRAY_LEN(fcntls)) : r;
    if (r == 0) { /* limits of others, to read or to set, are none of its business */
        r = seccomp_rule_add(m->ctx, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
                             SCMP_CMP(0, SCMP_CMP_MASKED_EQ, 0xffffffffU, 0));
    }
    if (r == 0 && want->has_truncate) {
        r = snp_filter_allow(m, "truncate");
    }
    for (size_t i = 0; r == 0 && want->has_own_ids && i < SNP_ARRAY_LEN(as_owner); i++) {
        r = snp_filter_allow(m, as_owner[i]);
    }
    return r;
}

/* Only to ids of sandboxes, whose high bits tell them. */
static int add_ids(const struct snp_making *m)
{
    const uint64_t mask = ~(uint64_t)(SNP_IDMAP_SLOTS * (uint64_t)SNP_IDMAP_RANGE - 1);
    static const char *const calls[] = {"setresuid", "setresgid"};
    int r = seccomp_rule_add(m->ctx, SCMP_ACT_ALLOW, SCMP_SYS(setgroups), 1,
                             SCMP_CMP(0, SCMP_CMP_EQ, 0, 0));

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(calls); i++) {
        r = seccomp_rule_add(m->ctx, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(calls[i]), 3,
                             SCMP_CMP(0, SCMP_CMP_MASKED_EQ, mask, SNP_IDMAP_BASE),
                             SCMP_CMP(1, SCMP_CMP_MASKED_EQ, mask, SNP_IDMAP_BASE),
                             SCMP_CMP(2, SCMP_CMP_MASKED_EQ, mask, SNP_IDMAP_BASE));
    }
    return r;
}

static int add_setup(const struct snp_making *m, const void *data)
{
    const struct snp_local_filter *want = data;
    int r = want->has_own_ids ? add_ids(m) : 0;

    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(setup_calls); i++) {
        r = snp_filter_allow(m, setup_calls[i]);
    }
    return r;
}

struct snp_filter_parts snp_local_session_parts(const struct snp_local_filter *want)
{
    return (struct snp_filter_parts){session_skip, add_session, want};
}

struct snp_filter_parts snp_local_zygote_parts(const struct snp_local_filter *want)
{
    return (struct snp_filter_parts){zygote_skip, add_setup, want};
}

int snp_local_filters(const struct snp_local_filter *want,
                      int *ret_session_fd,
                      int *ret_zygote_fd,
                      struct snp_err *err)
{
    const struct snp_filter_parts session = snp_local_session_parts(want);
    const struct snp_filter_parts zygote = snp_local_zygote_parts(want);
    snp_autoclose int session_fd = -1;
    int r = snp_filter_compile(&session, &session_fd, err);

    if (r < 0) {
        return r;
    }
    r = snp_filter_compile(&zygote, ret_zygote_fd, err);
    if (r == 0) {
        *ret_session_fd = SNP_TAKE_FD(session_fd);
    }
    return r;
}
