/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes: the keeper, which never runs foreign code and stays until nothing is left
 * below it, and the template, confined by Landlock and a filter before it imports anything.
 * As root the template keeps one right, to become the user of a sandbox, and the filter
 * lets it become nothing else.
 */
#include "tier/local/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/str.h"
#include "guest/module/landlock.h"
#include "guest/spec.h"
#include "tier/host/procs.h"
#include "tier/host/template.h"

enum {
    FILTER_MAX = 64 << 10,
    CAPS_N = 64,
    THREAD_STACK = 2 << 20,
    SWEEP_MS = 3000,
    EXIT_FAILED = 3
};

struct launch {
    const char *template_name;
    const char *python;
    const char *guest_dir;
    const char *folder;
    uint64_t host_id;
    uint64_t landlock_abi;
    char tmp[SNP_FOLDER_MAX + 32]; /* scratch of the template: font caches and the like */
};

static int step_rlimits(struct launch *l, struct snp_err *err)
{
    /* 1 stops even a program that cores are piped into. */
    const struct rlimit core = {.rlim_cur = 1, .rlim_max = 1};
    struct rlimit stack;

    (void)l;
    (void)setrlimit(RLIMIT_CORE, &core);
    if (getrlimit(RLIMIT_STACK, &stack) < 0) {
        return snp_fail_sys(err, errno, "getrlimit");
    }
    stack.rlim_cur = THREAD_STACK; /* of each thread; see tier/native/launch.c */
    return setrlimit(RLIMIT_STACK, &stack) < 0 ? snp_fail_sys(err, errno, "setrlimit") : 0;
}

static int step_scratch(struct launch *l, struct snp_err *err)
{
    uid_t uid = (uid_t)l->host_id;

    (void)snprintf(l->tmp, sizeof(l->tmp), "%s/template-%d", l->folder, (int)getpid());
    if (mkdir(l->tmp, 0700) < 0 || (uid != 0 && chown(l->tmp, uid, (gid_t)uid) < 0)) {
        return snp_fail_sys(err, errno, "mkdir %s", l->tmp);
    }
    return 0;
}

/* Each set as bits. */
struct caps {
    uint64_t effective;
    uint64_t permitted;
    uint64_t inheritable;
};

static int set_caps(const struct caps *caps)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];

    for (unsigned i = 0; i < 2; i++) {
        data[i] = (struct __user_cap_data_struct){(uint32_t)(caps->effective >> (32 * i)),
                                                  (uint32_t)(caps->permitted >> (32 * i)),
                                                  (uint32_t)(caps->inheritable >> (32 * i))};
    }
    return (int)syscall(SYS_capset, &header, data);
}

static int get_caps(struct caps *ret)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};

    if (syscall(SYS_capget, &header, data) < 0) {
        return -1;
    }
    *ret = (struct caps){(uint64_t)data[1].effective << 32 | data[0].effective,
                         (uint64_t)data[1].permitted << 32 | data[0].permitted,
                         (uint64_t)data[1].inheritable << 32 | data[0].inheritable};
    return 0;
}

#define CHANGE_IDS (1ULL << CAP_SETUID | 1ULL << CAP_SETGID)

/* Become the templates' user with the right to change it, through executing the interpreter too. */
static int change_user(uid_t uid, struct snp_err *err)
{
    const struct caps kept = {CHANGE_IDS, CHANGE_IDS, CHANGE_IDS};
    struct caps now;

    /* Inheritable first: what the bounding set has lost cannot be made so. */
    if (get_caps(&now) < 0) {
        return snp_fail_sys(err, errno, "capget");
    }
    now.inheritable = CHANGE_IDS;
    if (set_caps(&now) < 0) {
        return snp_fail_sys(err, errno, "capset");
    }
    for (int cap = 0; cap < CAPS_N && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++) {
    }
    if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS, 0, 0,
              0) < 0 ||
        setgroups(0, NULL) < 0 || setresgid((gid_t)uid, (gid_t)uid, (gid_t)uid) < 0 ||
        setresuid(uid, uid, uid) < 0) {
        return snp_fail_sys(err, errno, "change user");
    }
    if (set_caps(&kept) < 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETUID, 0, 0) < 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETGID, 0, 0) < 0) {
        return snp_fail_sys(err, errno, "keep the right to change user");
    }
    return 0;
}

static int step_ids(struct launch *l, struct snp_err *err)
{
    const struct caps none = {0};

    if (l->host_id != 0) {
        if (change_user((uid_t)l->host_id, err) < 0) {
            return err->code;
        }
    } else {
        /* User 0 of a container may have something to lose. */
        for (int cap = 0; cap < CAPS_N && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++) {
        }
        (void)prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, 0, 0, 0);
        if (set_caps(&none) < 0) {
            return snp_fail_sys(err, errno, "drop capabilities");
        }
    }
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? snp_fail_sys(err, errno, "no_new_privs")
                                                      : 0;
}

static int step_landlock(struct launch *l, struct snp_err *err)
{
    const struct snp_landlock_rule rules[] = {
        {"/usr",         SNP_LANDLOCK_RUN },
        {"/lib",         SNP_LANDLOCK_RUN },
        {"/lib32",       SNP_LANDLOCK_RUN },
        {"/lib64",       SNP_LANDLOCK_RUN },
        {"/bin",         SNP_LANDLOCK_RUN },
        {"/sbin",        SNP_LANDLOCK_RUN },
        {"/etc",         SNP_LANDLOCK_READ},
        {"/proc",        SNP_LANDLOCK_READ},
        {"/dev/null",    SNP_LANDLOCK_EDIT},
        {"/dev/zero",    SNP_LANDLOCK_EDIT},
        {"/dev/full",    SNP_LANDLOCK_EDIT},
        {"/dev/random",  SNP_LANDLOCK_READ},
        {"/dev/urandom", SNP_LANDLOCK_READ},
        {l->guest_dir,   SNP_LANDLOCK_RUN },
        {l->folder,      SNP_LANDLOCK_OWN },
    };
    int abi;

    return snp_landlock_fence(rules, SNP_ARRAY_LEN(rules), (int)l->landlock_abi, &abi, err);
}

static int step_seccomp(struct launch *l, struct snp_err *err)
{
    static char code[FILTER_MAX];
    ssize_t n = pread(SNP_LAUNCH_ZYGOTE_FILTER_FD, code, sizeof(code), 0);
    struct sock_fprog program = {.filter = (struct sock_filter *)(void *)code};

    (void)l;
    if (n <= 0 || (size_t)n % sizeof(struct sock_filter) != 0) {
        return snp_fail(err, SNP_E_INTERNAL, "the filter cannot be read");
    }
    program.len = (unsigned short)((size_t)n / sizeof(struct sock_filter));
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        return snp_fail_sys(err, errno, "seccomp");
    }
    return 0;
}

/* Folders before ids, which end the right to give them away; seccomp last. */
static const struct {
    const char *name;
    int (*run)(struct launch *, struct snp_err *);
} steps[] = {
    {"rlimits",  step_rlimits },
    {"scratch",  step_scratch },
    {"ids",      step_ids     },
    {"landlock", step_landlock},
    {"seccomp",  step_seccomp },
};

static SNP_NORETURN void exec_template(struct launch *l)
{
    char driver[SNP_FOLDER_MAX + 32];
    char home[sizeof(l->tmp) + 16];
    char tmpdir[sizeof(l->tmp) + 8];
    char *argv[] = {(char *)(uintptr_t)l->python,
                    (char *)(uintptr_t) "-I",
                    driver,
                    (char *)(uintptr_t) "--template",
                    (char *)(uintptr_t)l->template_name,
                    (char *)(uintptr_t) "--zygote",
                    (char *)(uintptr_t) "3",
                    NULL};
    char *envp[] = {(char *)(uintptr_t) "PATH=/usr/local/bin:/usr/bin:/bin",
                    home,
                    tmpdir,
                    (char *)(uintptr_t) "LANG=C.UTF-8",
                    (char *)(uintptr_t) "PYTHONDONTWRITEBYTECODE=1",
                    NULL};

    for (size_t i = 0; i < SNP_ARRAY_LEN(steps); i++) {
        struct snp_err err;
        if (steps[i].run(l, &err) < 0) {
            (void)dprintf(2, "template %s: step %s: %s\n", l->template_name, steps[i].name,
                          err.msg);
            _exit(EXIT_FAILED);
        }
    }
    (void)snprintf(driver, sizeof(driver), "%s/driver.py", l->guest_dir);
    (void)snprintf(home, sizeof(home), "HOME=%s/.home", l->tmp);
    (void)snprintf(tmpdir, sizeof(tmpdir), "TMPDIR=%s", l->tmp);
    for (int fd = SNP_LAUNCH_CONTROL_FD; fd <= SNP_LAUNCH_SESSION_FILTER_FD; fd++) {
        (void)fcntl(fd, F_SETFD, 0);
    }
    if (chdir(l->tmp) == 0) {
        (void)execve(l->python, argv, envp);
    }
    (void)dprintf(2, "template %s: cannot run %s: errno %d\n", l->template_name, l->python,
                  errno);
    _exit(EXIT_FAILED);
}

/* The control socket and all else must end with the template. */
static int keep_only_life(int sigchld_fd)
{
    int life = fcntl(SNP_LAUNCH_LIFE_FD, F_DUPFD_CLOEXEC, 64);
    int child = fcntl(sigchld_fd, F_DUPFD_CLOEXEC, 64);

    if (life < 0 || child < 0 || dup3(life, 3, O_CLOEXEC) < 0 ||
        dup3(child, 4, O_CLOEXEC) < 0) {
        return -1;
    }
    return (int)syscall(SYS_close_range, 5, ~0U, 0);
}

/* Until the last process below is gone, or the supervisor: then they are killed. */
static int keep(int sigchld_fd)
{
    struct pollfd polled[2] = {
        {.fd = 3, .events = POLLIN},
        {.fd = 4, .events = POLLIN}
    };

    if (keep_only_life(sigchld_fd) < 0) {
        return EXIT_FAILED;
    }
    (void)prctl(PR_SET_NAME, "snp-keeper", 0, 0, 0);
    for (;;) {
        struct signalfd_siginfo info;
        pid_t pid;

        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        }
        if (pid < 0 && errno == ECHILD) {
            return 0;
        }
        if (poll(polled, 2, -1) < 0 && errno != EINTR) {
            return EXIT_FAILED;
        }
        if (polled[0].revents != 0) {
            const struct snp_family all = {.top = getpid()};
            (void)snp_family_sweep(&all, SWEEP_MS);
            return 0;
        }
        if (polled[1].revents != 0) {
            (void)!read(4, &info, sizeof(info));
        }
    }
}

/* The value of NAME=VALUE; NULL if there is no such word. */
static const char *argument(int argc, char **argv, const char *name)
{
    size_t n = strlen(name);

    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=') {
            return argv[i] + n + 1;
        }
    }
    return NULL;
}

static bool read_arguments(struct launch *l, int argc, char **argv)
{
    const char *host_id = argument(argc, argv, "host-id");
    const char *abi = argument(argc, argv, "landlock-abi");

    l->template_name = argument(argc, argv, "template");
    l->python = argument(argc, argv, "python");
    l->guest_dir = argument(argc, argv, "guest");
    l->folder = argument(argc, argv, "folder");
    return l->template_name != NULL && l->python != NULL && l->guest_dir != NULL &&
           l->folder != NULL && host_id != NULL && abi != NULL &&
           snp_parse_u64(host_id, &l->host_id) == 0 &&
           snp_parse_u64(abi, &l->landlock_abi) == 0;
}

int snp_local_launch_main(int argc, char **argv)
{
    struct launch l = {0};
    sigset_t chld;
    int sigchld_fd;
    pid_t pid;

    if (!read_arguments(&l, argc, argv)) {
        (void)dprintf(2, "usage: tier-local --zygote NAME=VALUE..., see launch.h\n");
        return EXIT_FAILED;
    }
    (void)umask(0022);
    (void)sigemptyset(&chld);
    (void)sigaddset(&chld, SIGCHLD);
    if (setsid() < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
        (void)dprintf(2, "template %s: cannot adopt orphans: errno %d\n", l.template_name,
                      errno);
        return EXIT_FAILED;
    }
    pid = fork();
    if (pid == 0) {
        exec_template(&l);
    }
    (void)sigprocmask(SIG_BLOCK, &chld, NULL);
    sigchld_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    /* At once: what a sanitizer does at an orderly exit needs helpers, which are adopted here. */
    _exit(pid < 0 || sigchld_fd < 0 ? EXIT_FAILED : keep(sigchld_fd));
}
