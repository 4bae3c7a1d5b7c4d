/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals: a pid may be reused between its check and the kernel's run of the call, so the
 * supervisor sends the signal through a pidfd. The kernel runs only signals of a process to itself,
 * because its pid cannot be reused while it waits.
 *
 * Modes and times: the path is read once from the caller's memory and opened below the session's
 * folder without leaving it; the change is made to the open file.
 */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/fd.h"
#include "base/str.h"
#include "tier/host/procs.h"
#include "tier/local/local.h"

enum {
    PATH_LEN = 4096,
    SIGNAL_MAX = 64
};

static bool is_target(const struct snp_proc *p, pid_t caller, const struct snp_proc *self, pid_t to)
{
    if (to > 0) {
        return p->pid == to;
    }
    if (to == -1) {
        return p->pid != caller;
    }
    return p->group == (to == 0 ? self->group : -to);
}

/* kill(to, number) by caller, limited to processes inside. 0 or errno. */
static int send_signal(const struct snp_asked *a, pid_t caller, pid_t to, int number)
{
    const struct snp_sandbox *s = a->sandbox;
    struct snp_procs procs = {0};
    struct snp_proc self = {0};
    int r = ESRCH;
    size_t reached = 0;

    (void)snp_proc_read(caller, &self);
    if (!snp_asked_waits(a)) {
        return EINTR;
    }
    snp_procs_below(snp_forked_of(s)->process.pid, &procs);
    for (size_t i = 0; i < procs.n; i++) {
        const struct snp_proc *p = &procs.at[i];
        int one;
        if (!is_target(p, caller, &self, to)) {
            continue;
        }
        /* Protected from the code like the first process, which is not in the list. */
        one = snp_spared_has(&s->spared, p->pid) && caller != snp_forked_of(s)->process.pid
                  ? EPERM
                  : snp_proc_signal(p, number);
        reached += one == 0 ? 1 : 0;
        r = one;
    }
    snp_procs_done(&procs);
    if (to == snp_forked_of(s)->process.pid) {
        return EPERM;
    }
    return reached > 0 ? 0 : r;
}

static int do_kill(struct snp_asked *a)
{
    pid_t caller = snp_proc_leader((pid_t)a->req->pid);
    pid_t to = (pid_t)a->req->data.args[0];
    int number = (int)a->req->data.args[1];

    if (number < 0 || number > SIGNAL_MAX) {
        return EINVAL;
    }
    if (caller > 0 && to == caller) {
        a->goes_on = true;
        return 0;
    }
    return snp_local_sandbox_of(a->sandbox)->is_sweeping ? ESRCH
                                                         : send_signal(a, caller, to, number);
}

/* Only to a thread of the caller's process; others are refused. */
static int do_tgkill(struct snp_asked *a)
{
    a->goes_on = snp_proc_leader((pid_t)a->req->pid) == (pid_t)a->req->data.args[0];
    return a->goes_on ? 0 : ESRCH;
}

/* Read the caller's memory. */
static int read_memory(const struct snp_asked *a, uint64_t address, void *to, size_t n)
{
    struct iovec local = {.iov_base = to, .iov_len = n};
    struct iovec remote = {.iov_base = (void *)(uintptr_t)address, .iov_len = n};

    return process_vm_readv((pid_t)a->req->pid, &local, 1, &remote, 1, 0) == (ssize_t)n ? 0 : -1;
}

/*
 * Read a text from the caller's memory, page by page, because the next may be unmapped. 0 or errno.
 */
static int read_path(const struct snp_asked *a, uint64_t address, char *path)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (size_t n = 0; n < PATH_LEN;) {
        size_t part = page - (size_t)((address + n) % page);
        part = part < PATH_LEN - n ? part : PATH_LEN - n;
        if (read_memory(a, address + n, path + n, part) < 0) {
            return EFAULT;
        }
        if (memchr(path + n, '\0', part) != NULL) {
            return path[0] == '\0' ? ENOENT : 0;
        }
        n += part;
    }
    return ENAMETOOLONG;
}

static int read_proc_link(const struct snp_asked *a, const char *name, char *path)
{
    char link[64];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/%d/%s", (int)a->req->pid, name);
    n = readlink(link, path, PATH_LEN - 1);
    path[n < 0 ? 0 : n] = '\0';
    return n < 0 ? EBADF : 0;
}

static int read_fd_link(const struct snp_asked *a, int fd, char *path)
{
    char name[24];

    (void)snprintf(name, sizeof(name), "fd/%d", fd);
    return read_proc_link(a, fd == AT_FDCWD ? "cwd" : name, path);
}

/* Open an absolute path below workspace/ or tmp/ of the session. */
static int open_inside(const struct snp_sandbox *s, const char *path, bool follow, int *ret_fd)
{
    static const char *const tops[] = {"/workspace", "/tmp"};
    struct open_how how = {
        .flags = (uint64_t)(O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW)),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    size_t n = strlen(s->folder);

    if (strncmp(path, s->folder, n) != 0) {
        return EPERM;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(tops); i++) {
        size_t len = strlen(tops[i]);
        const char *rest = path + n + len;
        char top[PATH_LEN];
        snp_autoclose int top_fd = -1;

        if (strncmp(path + n, tops[i], len) != 0 || (*rest != '/' && *rest != '\0')) {
            continue;
        }
        rest += strspn(rest, "/");
        (void)snprintf(top, sizeof(top), "%s%s", s->folder, tops[i]);
        top_fd = open(top, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        *ret_fd = top_fd < 0 ? -1
                             : (int)syscall(SYS_openat2, top_fd, *rest == '\0' ? "." : rest, &how,
                                            sizeof(how));
        return *ret_fd >= 0 ? 0 : errno == EXDEV ? EPERM : errno;
    }
    return EPERM;
}

/*
 * Open the caller's dirfd and path (0: the descriptor itself), if the caller could change the file:
 * it must own it, because the caller lacks our capabilities. 0 or errno.
 */
static int open_target(
    const struct snp_asked *a, int dirfd, uint64_t address, bool follow, int *ret_fd)
{
    char name[PATH_LEN];
    char path[2 * PATH_LEN];
    struct stat ours;
    struct stat theirs;
    int r = address == 0 ? read_fd_link(a, dirfd, path) : read_path(a, address, name);

    if (r == 0 && address != 0 && name[0] != '/') {
        char dir[PATH_LEN];
        r = read_fd_link(a, dirfd, dir);
        (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    } else if (r == 0 && address != 0) {
        (void)snprintf(path, sizeof(path), "%s", name);
    }
    r = r == 0 && !snp_asked_waits(a) ? EINTR : r;
    r = r == 0 ? open_inside(a->sandbox, path, follow, ret_fd) : r;
    if (r == 0 && (fstat(*ret_fd, &ours) < 0 || ours.st_uid != geteuid())) {
        snp_closep(ret_fd);
        r = EPERM;
    }
    if (r == 0 && address == 0) {
        (void)snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)a->req->pid, dirfd);
        if (stat(name, &theirs) < 0 || ours.st_ino != theirs.st_ino ||
            ours.st_dev != theirs.st_dev || !snp_asked_waits(a)) {
            snp_closep(ret_fd);
            r = EPERM; /* removed, or its name was reused */
        }
    }
    return r;
}

static int change_mode(struct snp_asked *a, int dirfd, uint64_t address, mode_t mode)
{
    snp_autoclose int fd = -1;
    char self[40];
    struct stat st;
    int r = open_target(a, dirfd, address, true, &fd);

    if (r != 0) {
        return r;
    }
    if (fstat(fd, &st) < 0) {
        return errno;
    }
    /* Without set-id bits, and folders stay accessible to us. */
    mode &= 01777;
    mode |= S_ISDIR(st.st_mode) ? 0700 : 0;
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    return chmod(self, mode) < 0 ? errno : 0;
}

static int do_chmod(struct snp_asked *a)
{
    return change_mode(a, AT_FDCWD, a->req->data.args[0], (mode_t)a->req->data.args[1]);
}

static int do_fchmod(struct snp_asked *a)
{
    return change_mode(a, (int)a->req->data.args[0], 0, (mode_t)a->req->data.args[1]);
}

static int do_fchmodat(struct snp_asked *a)
{
    uint64_t address = a->req->data.args[1];

    return address == 0
               ? EFAULT
               : change_mode(a, (int)a->req->data.args[0], address, (mode_t)a->req->data.args[2]);
}

static int do_utimensat(struct snp_asked *a)
{
    const __u64 *args = a->req->data.args;
    struct timespec times[2];
    snp_autoclose int fd = -1;
    char self[40];
    int r = 0;

    if (args[2] != 0 && read_memory(a, args[2], times, sizeof(times)) < 0) {
        return EFAULT;
    }
    r = open_target(a, (int)args[0], args[1], (args[3] & AT_SYMLINK_NOFOLLOW) == 0, &fd);
    if (r != 0) {
        return r;
    }
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    return utimensat(AT_FDCWD, self, args[2] == 0 ? NULL : times, 0) < 0 ? errno : 0;
}

const struct snp_emulated snp_local_calls[] = {
    {"kill", do_kill},     {"tgkill", do_tgkill},     {"chmod", do_chmod},
    {"fchmod", do_fchmod}, {"fchmodat", do_fchmodat}, {"utimensat", do_utimensat},
    {NULL, NULL},
};
