/* SPDX-License-Identifier: Apache-2.0 */
/* Programs outside any sandbox. */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"

enum {
    KEPT_MAX = 15,
};

/* Whether it is one of our programs, which must find the same daemon. */
static bool is_ours(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash == NULL ? program : slash + 1;

    return strcmp(name, "snipara-sandbox") == 0 || strcmp(name, "rlm") == 0;
}

/* Whether the child inherits this variable of ours, NAME=VALUE. */
static bool is_kept(const char *variable, bool ours)
{
    static const char *const kept[] = {"HOME",  "LANG", "LC_ALL", "LOGNAME", "PATH",
                                       "SHELL", "TERM", "TMPDIR", "TZ",      "USER"};
    static const char *const folders[] = {"SNIPARA_SANDBOX_RUNTIME_DIR",
                                          "SNIPARA_SANDBOX_STATE_DIR", "XDG_DATA_HOME",
                                          "XDG_RUNTIME_DIR", "XDG_STATE_HOME"};
    size_t n = strcspn(variable, "=");
    bool found = false;

    for (size_t i = 0; i < SNP_ARRAY_LEN(kept); i++) {
        found |= strlen(kept[i]) == n && strncmp(variable, kept[i], n) == 0;
    }
    for (size_t i = 0; ours && i < SNP_ARRAY_LEN(folders); i++) {
        found |= strlen(folders[i]) == n && strncmp(variable, folders[i], n) == 0;
    }
    return found;
}

/* The inherited variables and the given ones. Texts are borrowed; the caller frees the array. */
static char **environment(const char *const *given, bool has_only_given, bool ours)
{
    size_t n = 0;
    size_t n_given = 0;
    char **env;

    while (given != NULL && given[n_given] != NULL) {
        n_given++;
    }
    env = calloc(KEPT_MAX + n_given + 1, sizeof(*env));
    for (size_t i = 0; env != NULL && !has_only_given && environ[i] != NULL; i++) {
        if (n < KEPT_MAX && is_kept(environ[i], ours)) {
            env[n++] = environ[i];
        }
    }
    for (size_t i = 0; env != NULL && i < n_given; i++) {
        size_t name = strcspn(given[i], "=") + 1;
        size_t at = 0;

        while (at < n && strncmp(env[at], given[i], name) != 0) {
            at++;
        }
        env[at] = (char *)(uintptr_t)given[i];
        n = at == n ? n + 1 : n;
    }
    return env;
}

static int attributes_make(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    return posix_spawnattr_setsigmask(attributes, &none) |
           posix_spawnattr_setsigdefault(attributes, &all) |
           posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF);
}

int snp_child_start(const struct snp_child *child, pid_t *ret, struct snp_err *err)
{
    char **env = environment(child->env, child->has_only_env, is_ours(child->argv[0]));
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int eno = 0;

    if (env == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    for (int fd = 0; fd < 3; fd++) {
        eno |= posix_spawn_file_actions_adddup2(&actions, child->fds[fd], fd);
    }
    if (child->cwd != NULL) {
        eno |= posix_spawn_file_actions_addchdir_np(&actions, child->cwd);
    }
    eno |= attributes_make(&attributes);
    eno = eno != 0 ? ENOMEM
                   : posix_spawnp(ret, child->argv[0], &actions, &attributes,
                                  (char *const *)(uintptr_t)child->argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    free((void *)env);
    if (eno == ENOENT) {
        return snp_fail(err, SNP_E_NOT_FOUND, "no program '%.200s'%s", child->argv[0],
                        child->cwd == NULL ? "" : ", or no such working directory");
    }
    return eno == 0 ? 0 : snp_fail_sys(err, eno, "start %.200s", child->argv[0]);
}

int snp_child_start_piped(const struct snp_child *child,
                          int ret_ends[3],
                          pid_t *ret,
                          struct snp_err *err)
{
    struct snp_child piped = *child;
    int r = 0;

    for (int fd = 0; fd < 3; fd++) {
        ret_ends[fd] = piped.fds[fd] = -1;
    }
    for (int fd = 0; fd < 3 && r == 0; fd++) {
        int ends[2] = {-1, -1}; /* read end, write end */
        int its = fd == 0 ? 0 : 1;

        r = pipe2(ends, O_CLOEXEC) < 0 ? snp_fail_sys(err, errno, "pipe") : 0;
        piped.fds[fd] = ends[its];
        ret_ends[fd] = ends[1 - its];
        if (r == 0 && snp_set_nonblock(ret_ends[fd], true) < 0) {
            r = snp_fail_sys(err, errno, "set up a pipe");
        }
    }
    r = r == 0 ? snp_child_start(&piped, ret, err) : r;
    for (int fd = 0; fd < 3; fd++) {
        snp_closep(&piped.fds[fd]);
        if (r < 0) {
            snp_closep(&ret_ends[fd]);
        }
    }
    return r;
}

int snp_child_output_begin(const struct snp_child *child,
                           struct snp_child_output *ret,
                           struct snp_err *err)
{
    snp_autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    snp_autoclose int out = -1;
    snp_autoclose int in = -1;
    struct snp_child silent = *child;
    int ends[2];

    if (null < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    out = ends[0];
    in = ends[1];
    silent.fds[0] = null;
    silent.fds[1] = in;
    silent.fds[2] = null;
    SNP_TRY(snp_child_start(&silent, &ret->pid, err));
    ret->fd = SNP_TAKE_FD(out);
    return 0;
}

static int left_ms(uint64_t until)
{
    uint64_t now = snp_now_us();

    return now >= until ? 0 : (int)((until - now) / 1000) + 1;
}

/* Read until end of file; false: not reached in time, or too much. */
static bool take_all(int fd, uint64_t until, struct snp_buf *ret)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    char part[4096];

    for (;;) {
        ssize_t n;

        if (SNP_RETRY(poll(&ready, 1, left_ms(until))) <= 0) {
            return false;
        }
        n = SNP_RETRY(read(fd, part, sizeof(part)));
        if (n <= 0) {
            return n == 0;
        }
        if (snp_buf_add(ret, part, (size_t)n) < 0) {
            return false;
        }
    }
}

int snp_child_output_end(struct snp_child_output *output,
                         unsigned ms,
                         struct snp_buf *ret,
                         struct snp_err *err)
{
    const uint64_t until = snp_now_us() + (uint64_t)ms * 1000;
    bool is_whole = take_all(output->fd, until, ret);
    snp_autoclose int end = snp_child_watch(output->pid);
    struct pollfd over = {.fd = end, .events = POLLIN};
    int status = 0;

    snp_closep(&output->fd);
    if (is_whole && end >= 0) { /* it may still run after closing its output */
        (void)SNP_RETRY(poll(&over, 1, left_ms(until)));
    }
    (void)kill(-output->pid, SIGKILL); /* after its end: processes that it left */
    (void)SNP_RETRY(waitpid(output->pid, &status, 0));
    return is_whole && status == 0 ? 0 : snp_fail(err, SNP_E_PEER, "it failed");
}

int snp_child_watch(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

bool snp_child_reap(pid_t pid, int *ret_status)
{
    siginfo_t info = {0};

    if (SNP_RETRY(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT)) < 0 ||
        info.si_pid == 0) {
        return false;
    }
    (void)kill(-pid, SIGKILL);
    (void)SNP_RETRY(waitpid(pid, ret_status, 0));
    return true;
}
