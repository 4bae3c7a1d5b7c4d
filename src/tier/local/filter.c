/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Without namespaces the host's processes, sockets and files can be named, and Landlock covers only
 * some calls. So:
 *
 * - no sockets but connected pairs, of kinds without a destination address;
 * - no descriptors are sent: a removed file in transit belongs to no process and would not be
 *   counted; pid 1 may send some, with its mark;
 * - signals are sent by the supervisor, which checks that the target is inside (emulate.c);
 * - no descriptor that sends signals (F_SETOWN, F_SETSIG), no pidfd of others;
 * - no file opened for neither reading nor writing: Landlock allows such an open, and fchmod
 *   and the like work on it. openat2 hides its flags behind a pointer: refused;
 * - no set-id bits on files: Landlock does not check modes, and the file lies on the host;
 * - if the code has the host's user, modes and times are changed by the supervisor, only below
 *   the session's folder: Landlock does not check those calls.
 */
#include "tier/local/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "os/idmap.h"

/* Removed from the table: allowed by argument below, passed to the supervisor, or refused. */
static const char *const session_skip[] = {
    "connect", "bind",     "listen",    "accept4",   "openat",     "openat2",
    "accept",  "open",     "kill",      "tgkill",    "pidfd_open", "pidfd_send_signal",
    "fcntl",   "getxattr", "lgetxattr", "listxattr", "llistxattr", "truncate",
    "chmod",   "fchmod",   "fchmodat",  "fchown",    "fchownat",   "utimensat",
    "creat",   "mknodat",  "sendmsg",   NULL,
};

static const char *const zygote_skip[] = {"connect", "bind",   "listen", "accept",
                                          "accept4", "socket", NULL};

/* Harmless for a private user; passed to the supervisor if it is the host's. */
static const char *const as_owner[] = {"fchown", "fchownat", "utimensat"};

/* Calls that create a file or change its mode, and the mode's argument. */
static const struct moded {
    const char *name;
    unsigned arg;
    bool is_as_owner;
} moded[] = {
    {"creat", 1, false}, {"mknodat", 2, false}, {"chmod", 1, true},
    {"fchmod", 1, true}, {"fchmodat", 2, true},
};

static const struct {
    const char *name;
    int error;
} absent[] = {
    {"openat2", ENOSYS},        {"pidfd_open", ENOSYS},    {"pidfd_send_signal", ENOSYS},
    {"getxattr", EOPNOTSUPP},   {"lgetxattr", EOPNOTSUPP}, {"listxattr", EOPNOTSUPP},
    {"llistxattr", EOPNOTSUPP},
};

static const uint64_t fcntls[] = {
    F_DUPFD,         F_GETFD,      F_SETFD,      F_GETFL,     F_SETFL,      F_GETLK,
    F_SETLK,         F_SETLKW,     F_OFD_GETLK,  F_OFD_SETLK, F_OFD_SETLKW, F_GETLEASE,
    F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS,
};

static void add_opens(struct snp_making *m)
{
    static const uint64_t modes[] = {O_RDONLY, O_WRONLY, O_RDWR};

    for (size_t i = 0; i < SNP_ARRAY_LEN(modes); i++) {
        SNP_RULE(m, SCMP_ACT_ALLOW, "openat", SNP_BITS(2, O_ACCMODE, modes[i]),
                 SNP_BITS(3, S_ISUID | S_ISGID, 0));
    }
}

static void add_moded(struct snp_making *m, const struct snp_local_filter *want)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(moded); i++) {
        if (want->has_own_ids || !moded[i].is_as_owner) {
            SNP_RULE(m, SCMP_ACT_ALLOW, moded[i].name,
                     SNP_BITS(moded[i].arg, S_ISUID | S_ISGID, 0));
        }
    }
}

/*
 * Code with the supervisor's user could make itself non-dumpable, and hide removed files. Inside,
 * no process may inspect another anyway, so the call succeeds without effect.
 */
static void add_dumpable(struct snp_making *m, const struct snp_local_filter *want)
{
    for (uint64_t on = 0; on < 2; on++) {
        SNP_RULE(m, on != 0 || want->has_own_ids ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(0), "prctl",
                 SNP_LOW(0, PR_SET_DUMPABLE), SCMP_CMP(1, SCMP_CMP_EQ, on));
    }
}

static void add_session(struct snp_making *m, const void *data)
{
    const struct snp_local_filter *want = data;

    snp_filter_conditional(m, want->counts_memory);
    for (size_t i = 0; i < SNP_ARRAY_LEN(absent); i++) {
        SNP_RULE(m, SCMP_ACT_ERRNO((unsigned)absent[i].error), absent[i].name);
    }
    /* Connected pairs of these kinds take no address; datagram sockets do. */
    SNP_RULE(m, SCMP_ACT_ALLOW, "socketpair", SNP_LOW(0, AF_UNIX), SNP_BITS(1, 0xfU, SOCK_STREAM));
    SNP_RULE(m, SCMP_ACT_ALLOW, "socketpair", SNP_LOW(0, AF_UNIX),
             SNP_BITS(1, 0xfU, SOCK_SEQPACKET));
    snp_filter_marked(m, "sendmsg", 2);
    add_opens(m);
    add_moded(m, want);
    add_dumpable(m, want);
    snp_filter_values(m, "fcntl", 1, fcntls, SNP_ARRAY_LEN(fcntls));
    /* Limits of other processes may be neither read nor set. */
    SNP_RULE(m, SCMP_ACT_ALLOW, "prlimit64", SNP_LOW(0, 0));
    if (want->has_truncate) {
        snp_filter_allow(m, "truncate");
    }
    for (size_t i = 0; want->has_own_ids && i < SNP_ARRAY_LEN(as_owner); i++) {
        snp_filter_allow(m, as_owner[i]);
    }
}

/* Only to ids of sandboxes, which their high bits identify. */
static void add_ids(struct snp_making *m)
{
    const uint64_t mask = ~(uint64_t)(SNP_IDMAP_SLOTS * (uint64_t)SNP_IDMAP_RANGE - 1);
    static const char *const calls[] = {"setresuid", "setresgid"};

    SNP_RULE(m, SCMP_ACT_ALLOW, "setgroups", SCMP_CMP(0, SCMP_CMP_EQ, 0, 0));
    for (size_t i = 0; i < SNP_ARRAY_LEN(calls); i++) {
        SNP_RULE(m, SCMP_ACT_ALLOW, calls[i], SNP_BITS(0, mask, SNP_IDMAP_BASE),
                 SNP_BITS(1, mask, SNP_IDMAP_BASE), SNP_BITS(2, mask, SNP_IDMAP_BASE));
    }
}

static void add_setup(struct snp_making *m, const void *data)
{
    const struct snp_local_filter *want = data;

    if (want->has_own_ids) {
        add_ids(m);
    }
    snp_filter_setup(m);
}

struct snp_filter_parts snp_local_session_parts(const struct snp_local_filter *want)
{
    return (struct snp_filter_parts){session_skip, add_session, want};
}

struct snp_filter_parts snp_local_zygote_parts(const struct snp_local_filter *want)
{
    return (struct snp_filter_parts){zygote_skip, add_setup, want};
}
