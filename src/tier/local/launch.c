/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes: the keeper, which never runs foreign code and stays until no process is left below
 * it, and the template, confined by Landlock and a filter before it imports anything. As root the
 * template keeps one capability, to become the user of a sandbox, and the filter allows no other
 * ids.
 */
#include "tier/local/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/fd.h"
#include "guest/module/landlock.h"
#include "guest/spec.h"
#include "tier/host/launch.h"
#include "tier/host/procs.h"
#include "tier/host/template.h"

enum {
    SWEEP_MS = 3000
};

static int step_scratch(struct snp_launch *l, struct snp_err *err)
{
    uid_t uid = (uid_t)l->host_id;

    (void)snprintf(l->tmp, sizeof(l->tmp), "%s/template-%d", l->folder, (int)getpid());
    if (mkdir(l->tmp, 0700) < 0 || (uid != 0 && chown(l->tmp, uid, (gid_t)uid) < 0) ||
        chdir(l->tmp) < 0) {
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

/* Become the templates' user, keeping the capability to change it, also across execve. */
static int change_user(uid_t uid, struct snp_err *err)
{
    const struct caps kept = {CHANGE_IDS, CHANGE_IDS, CHANGE_IDS};
    struct caps now;

    /* Inheritable first: a capability outside the bounding set cannot be added. */
    if (get_caps(&now) < 0) {
        return snp_fail_sys(err, errno, "capget");
    }
    now.inheritable = CHANGE_IDS;
    if (set_caps(&now) < 0) {
        return snp_fail_sys(err, errno, "capset");
    }
    snp_launch_bound_caps();
    if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS, 0, 0, 0) <
            0 ||
        setgroups(0, NULL) < 0 || setresgid((gid_t)uid, (gid_t)uid, (gid_t)uid) < 0 ||
        setresuid(uid, uid, uid) < 0) {
        return snp_fail_sys(err, errno, "change user");
    }
    if (set_caps(&kept) < 0 || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETUID, 0, 0) < 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETGID, 0, 0) < 0) {
        return snp_fail_sys(err, errno, "keep the right to change user");
    }
    return 0;
}

static int step_ids(struct snp_launch *l, struct snp_err *err)
{
    const struct caps none = {0};

    if (l->host_id != 0) {
        if (change_user((uid_t)l->host_id, err) < 0) {
            return err->code;
        }
    } else {
        /* User 0 of a container may have capabilities. */
        snp_launch_bound_caps();
        (void)prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, 0, 0, 0);
        if (set_caps(&none) < 0) {
            return snp_fail_sys(err, errno, "drop capabilities");
        }
    }
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? snp_fail_sys(err, errno, "no_new_privs")
                                                      : 0;
}

static int step_landlock(struct snp_launch *l, struct snp_err *err)
{
    const struct snp_landlock_rule rules[] = {
        {"/usr", SNP_LANDLOCK_RUN},          {"/lib", SNP_LANDLOCK_RUN},
        {"/lib32", SNP_LANDLOCK_RUN},        {"/lib64", SNP_LANDLOCK_RUN},
        {"/bin", SNP_LANDLOCK_RUN},          {"/sbin", SNP_LANDLOCK_RUN},
        {"/etc", SNP_LANDLOCK_READ},         {"/proc", SNP_LANDLOCK_READ},
        {"/dev/null", SNP_LANDLOCK_EDIT},    {"/dev/zero", SNP_LANDLOCK_EDIT},
        {"/dev/full", SNP_LANDLOCK_EDIT},    {"/dev/random", SNP_LANDLOCK_READ},
        {"/dev/urandom", SNP_LANDLOCK_READ}, {l->source[SNP_TREE_GUEST], SNP_LANDLOCK_RUN},
        {l->folder, SNP_LANDLOCK_OWN},
    };
    int abi;

    return snp_landlock_fence(rules, SNP_ARRAY_LEN(rules), (int)l->landlock_abi, true, &abi, err);
}

/* Folders before ids, because chown needs the capabilities; seccomp last. */
static const struct snp_launch_step steps[] = {
    {"rlimits", snp_launch_rlimits}, {"scratch", step_scratch},       {"ids", step_ids},
    {"landlock", step_landlock},     {"seccomp", snp_launch_seccomp},
};

static SNP_NORETURN void exec_template(struct snp_launch *l)
{
    char driver[SNP_FOLDER_MAX + 32];
    char home[sizeof(l->tmp) + 16];
    char tmpdir[sizeof(l->tmp) + 8];

    snp_launch_steps(l, steps, SNP_ARRAY_LEN(steps));
    (void)snprintf(driver, sizeof(driver), "%s/driver.py", l->source[SNP_TREE_GUEST]);
    (void)snprintf(home, sizeof(home), "HOME=%s/.home", l->tmp);
    (void)snprintf(tmpdir, sizeof(tmpdir), "TMPDIR=%s", l->tmp);
    snp_launch_exec(l, driver, home, tmpdir);
}

/* The control socket and all other descriptors must close with the template. */
static int keep_only_life(int sigchld_fd)
{
    int life = fcntl(SNP_LAUNCH_LIFE_FD, F_DUPFD_CLOEXEC, 64);
    int child = fcntl(sigchld_fd, F_DUPFD_CLOEXEC, 64);

    if (life < 0 || child < 0 || dup3(life, 3, O_CLOEXEC) < 0 || dup3(child, 4, O_CLOEXEC) < 0) {
        return -1;
    }
    return (int)syscall(SYS_close_range, 5, ~0U, 0);
}

/* Wait for the end of the last process below, or of the supervisor: then kill the rest. */
static int keep(int sigchld_fd)
{
    struct pollfd polled[2] = {{.fd = 3, .events = POLLIN}, {.fd = 4, .events = POLLIN}};

    if (keep_only_life(sigchld_fd) < 0) {
        return SNP_LAUNCH_FAILED;
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
            return SNP_LAUNCH_FAILED;
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

int snp_local_launch_main(int argc, char **argv)
{
    struct snp_launch l;
    sigset_t chld;
    int sigchld_fd;
    pid_t pid;

    if (snp_launch_read(&l, argc, argv) < 0 || l.folder == NULL) {
        return SNP_LAUNCH_FAILED;
    }
    (void)umask(0022);
    (void)sigemptyset(&chld);
    (void)sigaddset(&chld, SIGCHLD);
    if (setsid() < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
        (void)dprintf(2, "template %s: cannot adopt orphans: errno %d\n", l.template_name, errno);
        return SNP_LAUNCH_FAILED;
    }
    pid = fork();
    if (pid == 0) {
        exec_template(&l);
    }
    (void)sigprocmask(SIG_BLOCK, &chld, NULL);
    sigchld_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    /* Not exit(): a sanitizer's exit needs helper processes, which would be adopted here. */
    _exit(pid < 0 || sigchld_fd < 0 ? SNP_LAUNCH_FAILED : keep(sigchld_fd));
}
