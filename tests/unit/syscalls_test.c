/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filters of x86-64 and of aarch64, evaluated as the kernel would: what libseccomp made
 * of the table is run by an interpreter of our own over every call number, and over calls with
 * arguments that are told from each other. A build for aarch64 runs this under qemu, so
 * both architectures compile both filters.
 */
#include "tier/host/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/str.h"
#include "guest/spec.h"
#include "tier/local/filter.h"
#include "unit/harness.h"

enum {
    CALLS_MAX = 1024, /* above all numbers of both architectures */
    STEPS_MAX = 4096, /* the kernel's BPF_MAXINSNS */
    FILTERS = 3,
    API_WITH_NOTIFY = 6, /* of libseccomp: it knows refusal by notification */
};

static const struct {
    enum snp_arch arch;
    uint32_t token;
    const char *name;
} arches[] = {
    {SNP_ARCH_X86_64, AUDIT_ARCH_X86_64, "x86-64"},
    {SNP_ARCH_AARCH64, AUDIT_ARCH_AARCH64, "aarch64"},
};

struct program {
    struct sock_filter *steps; /* owned */
    size_t n;
};

/* A file for a program. */
static int new_file(void)
{
    int fd = memfd_create("filter", MFD_CLOEXEC);

    assert_true(fd >= 0);
    /* An emulator has no seccomp for libseccomp to find; what is compiled depends on no kernel. */
    assert_int_equal(seccomp_api_set(API_WITH_NOTIFY), 0);
    return fd;
}

static void program_read(struct program *program, int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    program->n = (size_t)st.st_size / sizeof(*program->steps);
    assert_true(program->n > 0 && program->n <= STEPS_MAX);
    program->steps = malloc((size_t)st.st_size);
    assert_non_null(program->steps);
    assert_int_equal(pread(fd, program->steps, (size_t)st.st_size, 0), st.st_size);
}

static void program_make(struct program *program,
                         enum snp_arch arch,
                         const struct snp_filter_parts *parts)
{
    snp_autoclose int fd = new_file();
    struct snp_err err;

    assert_int_equal(snp_filter_compile_for(arch, parts, fd, &err), 0);
    program_read(program, fd);
}

static void program_load(struct program *program, enum snp_arch arch, enum snp_filter filter)
{
    program_make(program, arch, &snp_syscalls_parts[filter]);
}

static void program_free(struct program *program)
{
    free(SNP_TAKE_PTR(program->steps));
}

static bool jumps(const struct sock_filter *step, uint32_t value)
{
    switch (BPF_OP(step->code)) {
    case BPF_JEQ:
        return value == step->k;
    case BPF_JGT:
        return value > step->k;
    case BPF_JGE:
        return value >= step->k;
    case BPF_JSET:
        return (value & step->k) != 0;
    default:
        fail_msg("jump 0x%x", step->code);
        return false;
    }
}

/* What the kernel would do with a call. An instruction that libseccomp does not use fails. */
static uint32_t run(const struct program *program, const struct seccomp_data *data)
{
    uint32_t value = 0;

    for (size_t at = 0; at < program->n; at++) {
        const struct sock_filter *step = &program->steps[at];

        switch (step->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(step->k % 4 == 0 && step->k <= sizeof(*data) - sizeof(value));
            memcpy(&value, (const char *)data + step->k, sizeof(value));
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            value &= step->k;
            break;
        case BPF_JMP | BPF_JA:
            at += step->k;
            break;
        case BPF_RET | BPF_K:
            return step->k;
        default:
            assert_int_equal(BPF_CLASS(step->code), BPF_JMP);
            at += jumps(step, value) ? step->jt : step->jf;
        }
    }
    fail_msg("the program has no end");
    return 0;
}

static const char *action_name(uint32_t action)
{
    switch (action & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
        return "allow";
    case SECCOMP_RET_USER_NOTIF:
        return "refuse";
    case SECCOMP_RET_ERRNO:
        return "absent";
    case SECCOMP_RET_KILL_PROCESS:
        return "kill";
    default:
        return "something else";
    }
}

static void expect(const struct program *program,
                   const struct seccomp_data *data,
                   const char *wanted,
                   const char *of)
{
    const char *got = action_name(run(program, data));

    if (strcmp(got, wanted) != 0) {
        fail_msg("%s, number %d, arguments %llx %llx %llx: %s, not %s", of, data->nr,
                 (unsigned long long)data->args[0], (unsigned long long)data->args[1],
                 (unsigned long long)data->args[2], got, wanted);
    }
}

enum verdict {
    REFUSED,
    ALLOWED,
    BY_ARGUMENT, /* with some arguments only */
    ABSENT,      /* answered as not there */
};

/* Does a line have the word? Words end at a blank or a full stop. */
static bool line_has(const char *line, size_t len, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = line; (at = memmem(at, (size_t)(line + len - at), word, n)) != NULL;
         at += n) {
        if (at > line && at[-1] == ' ' && strchr(" .\n", at[n]) != NULL) {
            return true;
        }
    }
    return false;
}

static enum verdict verdict_of_row(enum snp_filter filter, const char *row, const char *name)
{
    bool counts = filter == SNP_FILTER_SESSION;

    if (snp_has_prefix(row, "| set-up |")) {
        return filter == SNP_FILTER_ZYGOTE ? ALLOWED : REFUSED;
    }
    if (snp_has_prefix(row, "| by argument |") || snp_has_prefix(row, "| checked each time |")) {
        if (filter == SNP_FILTER_ZYGOTE) {
            return ALLOWED;
        }
        if (strcmp(name, "memfd_create") == 0) {
            return counts ? ALLOWED : ABSENT;
        }
        if (strcmp(name, "mmap") == 0 && counts) {
            return ALLOWED;
        }
        return strcmp(name, "mmap") == 0 || row[2] == 'b' ? BY_ARGUMENT : REFUSED;
    }
    return ALLOWED;
}

/* What docs/syscalls.md says of a call, as the program prints it. */
static enum verdict verdict_of(enum snp_filter filter, const char *table, const char *name)
{
    for (const char *line = table; *line != '\0'; line += strcspn(line, "\n") + 1) {
        const char *calls = line + strcspn(line, "\n");

        if (snp_has_prefix(line, "## ")) {
            break;
        }
        if (snp_has_prefix(line, "These fail as unknown calls") &&
            line_has(line, strcspn(line, "\n"), name)) {
            return filter == SNP_FILTER_ZYGOTE ? REFUSED : ABSENT;
        }
        if (!snp_has_prefix(line, "| ")) {
            continue;
        }
        for (int bar = 0; bar < 2; bar++) { /* the last column */
            calls = memrchr(line, '|', (size_t)(calls - line));
            assert_non_null(calls);
        }
        if (line_has(calls, strcspn(calls, "\n"), name)) {
            return verdict_of_row(filter, line, name);
        }
    }
    return REFUSED;
}

/* Every number of an architecture, with all bits of its arguments clear, and set. */
static void follow_the_table(enum snp_arch arch,
                             uint32_t token,
                             enum snp_filter filter,
                             const char *table)
{
    struct program program = {0};
    unsigned allowed = 0;

    program_load(&program, arch, filter);
    for (int nr = -1; nr < CALLS_MAX; nr++) {
        struct seccomp_data clear = {.nr = nr, .arch = token};
        struct seccomp_data set = clear;
        char *name = seccomp_syscall_resolve_num_arch(token, nr);
        enum verdict verdict = name == NULL ? REFUSED : verdict_of(filter, table, name);

        if (arch == SNP_ARCH_AARCH64 && name != NULL && strcmp(name, "getpgid") == 0) {
            verdict = BY_ARGUMENT; /* it stands in for one that is not there */
        }

        memset(set.args, 0xff, sizeof(set.args));
        if (verdict != BY_ARGUMENT) {
            const char *wanted = verdict == ALLOWED  ? "allow"
                                 : verdict == ABSENT ? "absent"
                                                     : "refuse";
            expect(&program, &clear, wanted, name);
            expect(&program, &set, wanted, name);
        } else {
            expect(&program, &set, "refuse", name);
        }
        allowed += verdict == ALLOWED || verdict == BY_ARGUMENT ? 1 : 0;
        free(name);
    }
    assert_true(allowed > 100 && allowed <= 200);
    program_free(&program);
}

TEST(each_call_is_answered_as_the_table_says)
{
    snp_autofree char *table = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&table, &n);

    assert_non_null(out);
    snp_syscalls_print(out);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i < SNP_ARRAY_LEN(arches); i++) {
        for (int filter = 0; filter < FILTERS; filter++) {
            follow_the_table(arches[i].arch, arches[i].token, (enum snp_filter)filter, table);
        }
    }
}

TEST(the_native_filter_is_that_of_its_architecture)
{
    struct program native = {0};

    program_load(&native, SNP_ARCH_NATIVE, SNP_FILTER_SESSION);
    for (size_t i = 0; i < SNP_ARRAY_LEN(arches); i++) {
        struct program other = {0};
        bool is_same;

        program_load(&other, arches[i].arch, SNP_FILTER_SESSION);
        is_same = native.n == other.n &&
                  memcmp(native.steps, other.steps, native.n * sizeof(*native.steps)) == 0;
        assert_int_equal(is_same, arches[i].token == seccomp_arch_native());
        program_free(&other);
    }
    program_free(&native);
}

/* Said here once more and without the table: what the code must never be able to call. */
TEST(what_reaches_out_of_a_sandbox_is_refused_everywhere)
{
    static const char *const calls[] = {
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "pidfd_getfd",
        "kcmp",
        "mount",
        "umount2",
        "move_mount",
        "open_tree",
        "fsopen",
        "mount_setattr",
        "pivot_root",
        "chroot",
        "unshare",
        "setns",
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "io_uring_setup",
        "io_uring_enter",
        "keyctl",
        "add_key",
        "request_key",
        "init_module",
        "finit_module",
        "delete_module",
        "kexec_load",
        "reboot",
        "swapon",
        "settimeofday",
        "clock_settime",
        "adjtimex",
        "setuid",
        "setgid",
        "setresuid",
        "setresgid",
        "setgroups",
        "capset",
        "seccomp",
        "personality",
        "open_by_handle_at",
        "name_to_handle_at",
        "quotactl",
        "acct",
        "syslog",
        "sethostname",
        "mknod",
        "memfd_secret",
        "shmget",
        "msgget",
        "semget",
        "mq_open",
        "sched_setaffinity",
        "sched_setscheduler",
        "setpriority",
        "ioprio_set",
        "set_mempolicy",
        "move_pages",
        "process_madvise",
        "fanotify_init",
        "inotify_init1",
        "vmsplice",
        "splice",
        "tee",
        "lookup_dcookie",
        "nfsservctl",
        "iopl",
        "modify_ldt",
        "landlock_restrict_self",
        "swapoff",
        "pkey_mprotect",
        "remap_file_pages",
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(arches); i++) {
        struct program program = {0};

        program_load(&program, arches[i].arch, SNP_FILTER_SESSION);
        for (size_t c = 0; c < SNP_ARRAY_LEN(calls); c++) {
            struct seccomp_data data = {
                .nr = seccomp_syscall_resolve_name_arch(arches[i].token, calls[c]),
                .arch = arches[i].token};

            if (data.nr >= 0) {
                expect(&program, &data, "refuse", calls[c]);
            } else { /* but no name is wrong */
                assert_true(seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, calls[c]) >= 0);
            }
        }
        program_free(&program);
    }
}

#define HIGH      (UINT64_C(1) << 32) /* of the high half, which the kernel does not look at */
#define MARK_HIGH ((uint64_t)SNP_MARK_PLACE_HIGH << 32)
#define MARK_LOW  ((uint64_t)SNP_MARK_PLACE_LOW << 32)
#define ANY       UINT64_C(0x7e020080) /* all namespace flags, where they mean nothing */

static const struct {
    const char *call;
    uint64_t args[5];
    const char *wanted;
} by_argument[] = {
    /* fork, vfork, a thread: as the libraries of both architectures call them */
    {"clone", {SIGCHLD}, "allow"},
    {"clone", {CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | SIGCHLD, 0, 0, 0, 0x7f00}, "allow"},
    {"clone", {CLONE_VM | CLONE_VFORK | SIGCHLD, 0x7f00}, "allow"},
    {"clone", {0x3d0f00, 0x7f00, 0x7f01, 0x7f02, 0x7f03}, "allow"},
    /* flags are the first argument; the others are addresses, in an order of their own */
    {"clone", {SIGCHLD, ANY, ANY, ANY, ANY}, "allow"},
    {"clone", {CLONE_NEWUSER | SIGCHLD}, "refuse"},
    {"clone", {CLONE_NEWPID | SIGCHLD}, "refuse"},
    {"clone", {CLONE_NEWNS | SIGCHLD}, "refuse"},
    {"clone", {CLONE_NEWNET | SIGCHLD}, "refuse"},
    {"clone", {CLONE_NEWIPC | SIGCHLD}, "refuse"},
    {"clone", {CLONE_NEWUTS | SIGCHLD}, "refuse"},
    {"clone", {CLONE_NEWCGROUP | SIGCHLD}, "refuse"},
    {"clone", {HIGH | CLONE_NEWUSER | SIGCHLD}, "refuse"},
    {"clone", {HIGH | SIGCHLD}, "allow"},
    {"clone3", {0}, "absent"},
    {"clone", {SIGCONT}, "refuse"},
    {"clone", {HIGH | CLONE_VM | SIGKILL}, "refuse"},
    /* pid 1's, with both halves of its mark, of which the program has the places */
    {"kill", {MARK_HIGH | 5, MARK_LOW | SIGCONT}, "allow"},
    {"kill", {MARK_HIGH | 5, SIGCONT}, "refuse"},
    {"kill", {5, MARK_LOW | SIGCONT}, "refuse"},
    /* domain, type, which has flags beside it, and protocol */
    {"socket", {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK}, "allow"},
    {"socket", {AF_INET, SOCK_DGRAM}, "allow"},
    {"socket", {AF_INET6, SOCK_STREAM}, "allow"},
    {"socket", {AF_INET, SOCK_STREAM, IPPROTO_TCP}, "allow"},
    {"socket", {AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, HIGH | IPPROTO_UDP}, "allow"},
    {"socket", {AF_INET, SOCK_STREAM, 262}, "refuse"}, /* IPPROTO_MPTCP */
    {"socket", {AF_INET, SOCK_DGRAM, IPPROTO_ICMP}, "refuse"},
    {"socket", {AF_INET, SOCK_DGRAM, IPPROTO_TCP}, "refuse"},
    {"socket", {AF_INET, SOCK_RAW, IPPROTO_UDP}, "refuse"},
    {"socket", {AF_INET, SOCK_SEQPACKET}, "refuse"}, /* SCTP, if it is there */
    {"socket", {AF_UNIX, SOCK_RAW}, "refuse"},
    {"socket", {HIGH | AF_UNIX, SOCK_STREAM}, "allow"},
    {"socket", {AF_NETLINK, AF_UNIX}, "refuse"},
    {"socket", {AF_PACKET, AF_UNIX}, "refuse"},
    {"socket", {AF_VSOCK, AF_UNIX}, "refuse"},
    {"socket", {AF_ALG, AF_UNIX}, "refuse"},
    {"socket", {HIGH | AF_NETLINK}, "refuse"},
    {"socketpair", {AF_UNIX, SOCK_STREAM}, "allow"},
    {"socketpair", {AF_INET, SOCK_STREAM}, "refuse"},
    /* numbers, not names: they must be these on both */
    {"ioctl", {0, 0x5401}, "allow"},           /* TCGETS */
    {"ioctl", {0, 0x5413}, "allow"},           /* TIOCGWINSZ */
    {"ioctl", {0, 0x541b}, "allow"},           /* FIONREAD */
    {"ioctl", {0, 0x5421}, "allow"},           /* FIONBIO */
    {"ioctl", {0, 0x40049409}, "allow"},       /* FICLONE */
    {"ioctl", {0x5401, 0x5412}, "refuse"},     /* TIOCSTI */
    {"ioctl", {0, HIGH | 0x5412}, "refuse"},   /* of which the kernel sees TIOCSTI */
    {"ioctl", {0, 0x541c}, "refuse"},          /* TIOCLINUX */
    {"ioctl", {0, 0x5402}, "refuse"},          /* TCSETS */
    {"ioctl", {0, 0xae01}, "refuse"},          /* KVM_CREATE_VM */
    {"ioctl", {0, 0x40086602}, "refuse"},      /* FS_IOC_SETFLAGS */
    {"prctl", {PR_SET_NAME, 0x7f00}, "allow"}, /* 15 */
    {"prctl", {38, 1}, "allow"},               /* PR_SET_NO_NEW_PRIVS */
    {"prctl", {22, 2}, "refuse"},              /* PR_SET_SECCOMP */
    {"prctl", {24, 0}, "refuse"},              /* PR_CAPBSET_DROP */
    {"prctl", {28, 0}, "refuse"},              /* PR_SET_SECUREBITS */
    {"prctl", {35, 1}, "refuse"},              /* PR_SET_MM */
    {"prctl", {47, 2}, "refuse"},              /* PR_CAP_AMBIENT */
    {"prctl", {50, 16}, "refuse"},             /* PR_SVE_SET_VL */
    {"prctl", {55, 1}, "refuse"},              /* PR_SET_TAGGED_ADDR_CTRL */
    {"prctl", {0x59616d61, 1}, "refuse"},      /* PR_SET_PTRACER */
    {"getsockopt", {3, SOL_SOCKET, SO_ERROR}, "allow"},
    {"getsockopt", {3, HIGH | SOL_SOCKET, HIGH | SO_ERROR}, "allow"},
    {"getsockopt", {3, SOL_SOCKET, 77}, "refuse"}, /* SO_PEERPIDFD */
    {"getsockopt", {3, HIGH | SOL_SOCKET, HIGH | 77}, "refuse"},
    {"setsockopt", {3, IPPROTO_TCP, 1}, "allow"},   /* TCP_NODELAY */
    {"setsockopt", {3, IPPROTO_TCP, 31}, "refuse"}, /* TCP_ULP */
    {"setsockopt", {3, SOL_SOCKET, 76}, "refuse"},  /* SO_PASSPIDFD */
    {"setsockopt", {3, SOL_SOCKET, SO_LINGER}, "refuse"},
    {"setsockopt", {3, IPPROTO_IPV6, 20}, "refuse"}, /* IPV6_JOIN_GROUP */
    {"prlimit64", {0, 7, 0x7f00, 0}, "allow"},
    {"prlimit64", {HIGH, 7, 0x7f00, 0}, "allow"},
    {"prlimit64", {1, 7, 0, 0x7f00}, "allow"},
    {"prlimit64", {1, 7, 0x7f00, 0}, "refuse"},
    {"prlimit64", {1, 7, HIGH, 0}, "refuse"},
};

TEST(arguments_are_looked_at_where_the_architecture_has_them)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(arches); i++) {
        struct program program = {0};

        program_load(&program, arches[i].arch, SNP_FILTER_SESSION);
        for (size_t c = 0; c < SNP_ARRAY_LEN(by_argument); c++) {
            struct seccomp_data data = {
                .nr = seccomp_syscall_resolve_name_arch(arches[i].token, by_argument[c].call),
                .arch = arches[i].token};

            assert_true(data.nr >= 0);
            memcpy(data.args, by_argument[c].args, sizeof(by_argument[c].args));
            expect(&program, &data, by_argument[c].wanted, by_argument[c].call);
        }
        program_free(&program);
    }
}

/* x86-64 has getpgrp, for which the libraries of aarch64 ask getpgid for 0. */
TEST(a_stand_in_is_allowed_only_where_it_is_needed)
{
    static const struct {
        uint64_t pid;
        const char *wanted[SNP_ARRAY_LEN(arches)];
    } cases[] = {
        {0, {"refuse", "allow"}},
        {HIGH, {"refuse", "allow"}},
        {1, {"refuse", "refuse"}},
        {HIGH | 1, {"refuse", "refuse"}},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(arches); i++) {
        struct program program = {0};

        program_load(&program, arches[i].arch, SNP_FILTER_SESSION);
        for (size_t c = 0; c < SNP_ARRAY_LEN(cases); c++) {
            const struct seccomp_data data = {
                .nr = seccomp_syscall_resolve_name_arch(arches[i].token, "getpgid"),
                .arch = arches[i].token,
                .args = {cases[c].pid}};

            expect(&program, &data, cases[c].wanted[i], "getpgid");
        }
        program_free(&program);
    }
}

static void all_numbers(
    const struct program *program, uint32_t token, int bits, const char *wanted, const char *of)
{
    for (int nr = 0; nr < CALLS_MAX; nr++) {
        const struct seccomp_data data = {.nr = nr | bits, .arch = token};

        expect(program, &data, wanted, of);
    }
}

static void only_its_own(enum snp_arch arch, uint32_t token, enum snp_filter filter)
{
    static const uint32_t others[] = {AUDIT_ARCH_I386,
                                      AUDIT_ARCH_ARM,
                                      AUDIT_ARCH_ARMEB,
                                      AUDIT_ARCH_X86_64,
                                      AUDIT_ARCH_AARCH64,
                                      AUDIT_ARCH_RISCV64,
                                      0,
                                      UINT32_MAX};
    struct program program = {0};

    program_load(&program, arch, filter);
    for (size_t i = 0; i < SNP_ARRAY_LEN(others); i++) {
        if (others[i] != token) {
            all_numbers(&program, others[i], 0, "kill", "another architecture");
        }
    }
    /* x32: the same token, and a bit in the number; nothing on aarch64 */
    all_numbers(&program, token, 0x40000000, arch == SNP_ARCH_X86_64 ? "kill" : "refuse", "x32");
    program_free(&program);
}

TEST(calls_of_other_architectures_kill)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(arches); i++) {
        for (int filter = 0; filter < FILTERS; filter++) {
            only_its_own(arches[i].arch, arches[i].token, (enum snp_filter)filter);
        }
    }
}

TEST(a_zygote_may_make_namespaces_and_no_more_than_its_setup_needs)
{
    static const struct {
        const char *call;
        const char *wanted;
    } cases[] = {
        {"clone", "allow"},   {"mount", "allow"},   {"unshare", "allow"},
        {"seccomp", "allow"}, {"ptrace", "refuse"}, {"setns", "refuse"},
        {"bpf", "refuse"},    {"chroot", "refuse"}, {"keyctl", "refuse"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(arches); i++) {
        struct program program = {0};

        program_load(&program, arches[i].arch, SNP_FILTER_ZYGOTE);
        for (size_t c = 0; c < SNP_ARRAY_LEN(cases); c++) {
            const struct seccomp_data data = {
                .nr = seccomp_syscall_resolve_name_arch(arches[i].token, cases[c].call),
                .arch = arches[i].token};

            expect(&program, &data, cases[c].wanted, cases[c].call);
        }
        program_free(&program);
    }
}

struct expected {
    const char *call;
    uint64_t args[5];
    const char *wanted;
};

static void follow_expected(const struct program *program,
                            uint32_t token,
                            const struct expected *rows,
                            size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct seccomp_data data = {.nr = seccomp_syscall_resolve_name_arch(token, rows[i].call),
                                    .arch = token};

        if (data.nr < 0) { /* an old call, which newer architectures have not */
            assert_true(seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, rows[i].call) >= 0);
            continue;
        }
        memcpy(data.args, rows[i].args, sizeof(rows[i].args));
        expect(program, &data, rows[i].wanted, rows[i].call);
    }
}

/* Whoever has no namespace could name others: "refuse" is also what the supervisor does instead. */
static const struct expected of_local[] = {
    {"read", {0}, "allow"},
    {"execve", {0}, "allow"},
    {"clone", {CLONE_VM | CLONE_VFORK | SIGCHLD}, "allow"},
    {"clone", {CLONE_NEWUSER | SIGCHLD}, "refuse"},
    {"clone3", {0}, "absent"},
    {"socket", {AF_UNIX, SOCK_STREAM}, "refuse"},
    {"socket", {AF_INET, SOCK_STREAM}, "refuse"},
    {"connect", {0}, "refuse"},
    {"bind", {0}, "refuse"},
    {"listen", {0}, "refuse"},
    {"accept4", {0}, "refuse"},
    {"accept", {0}, "refuse"},
    {"open", {0, O_RDONLY}, "refuse"},
    {"stat", {0}, "allow"},
    {"socketpair", {AF_UNIX, SOCK_STREAM}, "allow"},
    {"socketpair", {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK}, "allow"},
    {"socketpair", {AF_UNIX, SOCK_SEQPACKET}, "allow"},
    {"socketpair", {AF_UNIX, SOCK_DGRAM}, "refuse"},
    {"socketpair", {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC}, "refuse"},
    {"socketpair", {AF_INET, SOCK_STREAM}, "refuse"},
    {"sendmsg", {3, 0x7f00, MSG_NOSIGNAL}, "refuse"},
    {"sendmsg", {MARK_HIGH | 3, 0x7f00, MSG_NOSIGNAL}, "refuse"},
    {"sendmsg", {MARK_HIGH | 3, 0x7f00, MARK_LOW | MSG_NOSIGNAL}, "allow"},
    {"openat", {0, 0, O_RDONLY | O_CLOEXEC}, "allow"},
    {"openat", {0, 0, O_WRONLY | O_CREAT | O_TRUNC}, "allow"},
    {"openat", {0, 0, O_RDWR | O_DIRECTORY}, "allow"},
    {"openat", {0, 0, O_ACCMODE}, "refuse"},
    {"openat", {0, 0, HIGH | O_ACCMODE}, "refuse"},
    {"openat", {0, 0, O_WRONLY | O_CREAT, 01777}, "allow"},
    {"openat", {0, 0, O_WRONLY | O_CREAT, 04755}, "refuse"},
    {"openat", {0, 0, O_WRONLY | O_CREAT, 02755}, "refuse"},
    {"mknodat", {0, 0, S_IFREG | 0600}, "allow"},
    {"mknodat", {0, 0, S_IFREG | 06777}, "refuse"},
    {"openat2", {0}, "absent"},
    {"kill", {1, SIGKILL}, "refuse"},
    {"tgkill", {1, 1, SIGKILL}, "refuse"},
    {"pidfd_open", {1}, "absent"},
    {"pidfd_send_signal", {0}, "absent"},
    {"fcntl", {0, F_SETFD}, "allow"},
    {"fcntl", {0, F_DUPFD_CLOEXEC}, "allow"},
    {"fcntl", {0, 8 /* F_SETOWN */}, "refuse"},
    {"fcntl", {0, 10 /* F_SETSIG */}, "refuse"},
    {"fcntl", {0, 15 /* F_SETOWN_EX */}, "refuse"},
    {"fcntl", {0, 1026 /* F_NOTIFY */}, "refuse"},
    {"prlimit64", {0, 7, 0x7f00}, "allow"},
    {"prlimit64", {1, 7, 0}, "refuse"},
    {"chmod", {0}, "refuse"},
    {"fchmodat", {0}, "refuse"},
    {"utimensat", {0}, "refuse"},
    {"truncate", {0}, "refuse"},
    {"memfd_create", {0}, "absent"},
    {"prctl", {PR_SET_DUMPABLE, 0}, "absent"},
    {"prctl", {PR_SET_DUMPABLE, 1}, "allow"},
    {"prctl", {PR_SET_DUMPABLE, 2}, "refuse"},
    {"mmap", {0, 0, 0, MAP_PRIVATE | MAP_ANONYMOUS}, "allow"},
    {"mmap", {0, 0, 0, MAP_SHARED}, "allow"},
    {"mmap", {0, 0, 0, MAP_SHARED | MAP_ANONYMOUS}, "absent"},
    {"mmap", {0, 0, 0, HIGH | MAP_SHARED | MAP_ANONYMOUS}, "absent"},
    {"mmap", {0, 0, 0, MAP_SHARED_VALIDATE | MAP_ANONYMOUS}, "refuse"},
    {"setsockopt", {0, SOL_SOCKET, SO_KEEPALIVE}, "allow"},
    {"setsockopt", {0, SOL_SOCKET, SO_SNDBUF}, "absent"},
    {"getsockopt", {0, SOL_SOCKET, SO_SNDBUF}, "allow"},
    {"ptrace", {0}, "refuse"},
    {"unshare", {0}, "refuse"},
    {"ioctl", {0, 0x5412 /* TIOCSTI */}, "refuse"},
};

/* Ids of sandboxes begin at 0x70000000; no other may be taken. */
static const struct expected of_local_zygotes[] = {
    {"setresuid", {0x70000000, 0x70000000, 0x70000000}, "allow"},
    {"setresuid", {0x7ffff000, 0x7ffff000, 0x7ffff000}, "allow"},
    {"setresuid", {0, 0x70000000, 0x70000000}, "refuse"},
    {"setresuid", {0x70000000, 0x70000000, 0}, "refuse"},
    {"setresgid", {1000, 1000, 1000}, "refuse"},
    {"setgroups", {0}, "allow"},
    {"setgroups", {1}, "refuse"},
    {"seccomp", {0}, "allow"},
    {"connect", {0}, "refuse"},
    {"mount", {0}, "refuse"},
    {"unshare", {0}, "refuse"},
};

TEST(without_namespaces_no_call_that_names_others_goes_through)
{
    const struct snp_local_filter shared = {0};
    const struct snp_local_filter own = {.has_own_ids = true};
    const struct snp_filter_parts session = snp_local_session_parts(&shared);
    const struct snp_filter_parts zygote = snp_local_zygote_parts(&own);

    for (size_t i = 0; i < SNP_ARRAY_LEN(arches); i++) {
        struct program programs[2] = {0};

        program_make(&programs[0], arches[i].arch, &session);
        program_make(&programs[1], arches[i].arch, &zygote);
        follow_expected(&programs[0], arches[i].token, of_local, SNP_ARRAY_LEN(of_local));
        follow_expected(&programs[1], arches[i].token, of_local_zygotes,
                        SNP_ARRAY_LEN(of_local_zygotes));
        for (int p = 0; p < 2; p++) {
            all_numbers(&programs[p], AUDIT_ARCH_ARM, 0, "kill", "another architecture");
            all_numbers(&programs[p], AUDIT_ARCH_I386, 0, "kill", "another architecture");
            program_free(&programs[p]);
        }
    }
}

/*
 * Asked of the system itself, on whichever of the two this runs: flags in the first place (a
 * child, with its id where one is told to put it), and what differs in a later one.
 */
TEST(clone_takes_flags_first_on_both_architectures)
{
    const int which = seccomp_arch_native() == SCMP_ARCH_AARCH64 ? 1 : 0;
    pid_t told[2] = {0, 0};
    int status = 0;
    long pid = syscall(SYS_clone, CLONE_CHILD_SETTID | SIGCHLD, NULL, NULL, &told[0], &told[1]);

    if (pid == 0) {
        _exit(told[which] == getpid() && told[1 - which] == 0 ? 7 : 1);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid((pid_t)pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

RUN(UNIT(each_call_is_answered_as_the_table_says),
    UNIT(the_native_filter_is_that_of_its_architecture),
    UNIT(what_reaches_out_of_a_sandbox_is_refused_everywhere),
    UNIT(arguments_are_looked_at_where_the_architecture_has_them),
    UNIT(a_stand_in_is_allowed_only_where_it_is_needed),
    UNIT(calls_of_other_architectures_kill),
    UNIT(a_zygote_may_make_namespaces_and_no_more_than_its_setup_needs),
    UNIT(without_namespaces_no_call_that_names_others_goes_through),
    UNIT(clone_takes_flags_first_on_both_architectures))
