/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zygote: a warm interpreter that is forked into sandboxes.
 *
 * Four kinds of process come from here:
 *   zygote       waits for orders; never learns what a session is for;
 *   first child  one per sandbox, in new namespaces; reads the spec, runs the set-up
 *                steps, then executes init and is pid 1;
 *   interpreter  forked by the first child when everything is confined;
 *   seed         a second fork of it that only sleeps, and forks a pristine interpreter
 *                when the current one had to be killed.
 * Nothing of the host language runs in the first two after the fork.
 */
#include "guest/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "guest/setup.h"
#include "guest/spec.h"

enum {
    FILTER_MAX = 64 << 10,
    FD_PARK = 64, /* descriptors are parked from here while 0 to 5 are rearranged */
    NAMESPACES =
        CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
};

struct zygote {
    int control_fd;
    struct sock_fprog filter;
    const struct snp_zygote_hooks *hooks;
};

/* All that a first child holds; nothing of it is shared with the zygote after the fork. */
struct child {
    int control_fd;
    struct snp_setup setup;
    char *env;
    char *mask;
};

static int filter_load(int fd, struct sock_fprog *ret, struct snp_err *err)
{
    struct stat st;
    void *code;

    if (fstat(fd, &st) < 0) {
        return snp_fail_sys(err, errno, "stat the filter");
    }
    if (st.st_size <= 0 || st.st_size > FILTER_MAX ||
        st.st_size % (off_t)sizeof(struct sock_filter) != 0) {
        return snp_fail(err, SNP_E_PEER, "the filter has a wrong size");
    }
    code = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (code == MAP_FAILED) {
        return snp_fail_sys(err, errno, "map the filter");
    }
    ret->filter = code;
    ret->len = (unsigned short)((size_t)st.st_size / sizeof(struct sock_filter));
    return 0;
}

static void default_sigchld(void)
{
    struct sigaction act = {.sa_handler = SIG_DFL};

    (void)sigaction(SIGCHLD, &act, NULL);
}

/* Move fd out of the way of the low numbers; the old one is closed. */
static int park(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_PARK);

    if (high >= 0) {
        (void)close(fd);
    }
    return high;
}

/*
 * Last in each process, because what is parked has higher numbers than a low limit
 * admits. Where the host's own limit is tighter, that stays.
 */
static int limit_open_files(const struct child *c)
{
    rlim_t most = c->setup.spec.open_files;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return -1;
    }
    limit.rlim_max = limit.rlim_max < most ? limit.rlim_max : most;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit);
}

/* Put the guest stream and the output pipes in their places and close everything else. */
static int interpreter_fds(int guest_fd, int out_fd, int err_fd)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(err_fd, 2) < 0 ||
        dup2(guest_fd, 3) < 0) {
        return -1;
    }
    if (fcntl(3, F_SETFD, FD_CLOEXEC) < 0) {
        return -1;
    }
    return (int)syscall(SYS_close_range, 4, ~0U, 0);
}

static void become_interpreter(const struct child *c, int guest_fd, int out_fd, int err_fd)
{
    (void)setsid(); /* its process group is what an interrupt is sent to */
    if (interpreter_fds(guest_fd, out_fd, err_fd) < 0 || limit_open_files(c) < 0) {
        _exit(4);
    }
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "python", 0, 0, 0);
    /* Under memory pressure the code goes first, not init or the seed. */
    (void)!snp_file_poke("/proc/self/oom_score_adj", "500");
}

/*
 * The seed sleeps until init passes it a guest stream. The new interpreter is a
 * grandchild whose parent exits, so that it belongs to init.
 */
static int seed_run(struct child *c, int socket_fd, int out_fd, int err_fd)
{
    int fds[SNP_FDS_MAX];
    size_t n_fds;
    char byte;

    (void)setsid();
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "seed", 0, 0, 0);
    for (;;) {
        ssize_t n = snp_recv_fds(socket_fd, &byte, 1, fds, &n_fds);
        pid_t middle;
        int32_t self;

        if (n <= 0) {
            _exit(0);
        }
        if (n_fds != 1) {
            _exit(4);
        }
        middle = fork();
        if (middle == 0) {
            pid_t pid = fork();
            if (pid != 0) {
                _exit(pid < 0 ? 1 : 0);
            }
            self = (int32_t)getpid();
            if (snp_write_all(socket_fd, &self, sizeof(self)) < 0) {
                _exit(4);
            }
            become_interpreter(c, fds[0], out_fd, err_fd);
            return 3;
        }
        (void)close(fds[0]);
        if (middle > 0) {
            int status = 1;
            (void)SNP_RETRY(waitpid(middle, &status, 0));
            if (status == 0) {
                continue;
            }
        }
        self = -1;
        if (snp_write_all(socket_fd, &self, sizeof(self)) < 0) {
            _exit(0);
        }
    }
}

/* Become pid 1: descriptors in their places, then execute init. */
static void exec_init(struct child *c, pid_t interpreter, pid_t seed, int seed_fd)
{
    char pids[2][16];
    char *argv[] = {(char *)(uintptr_t) "init", pids[0], pids[1], NULL};
    char *envp[] = {NULL};
    /* High numbers first, or putting one in its place could close another. */
    const int from[] = {c->control_fd, park(seed_fd), park(c->setup.upper_fd)};
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int init_fd = park(c->setup.fd[SNP_SPEC_FD_INIT]);

    (void)snprintf(pids[0], sizeof(pids[0]), "%d", (int)interpreter);
    (void)snprintf(pids[1], sizeof(pids[1]), "%d", (int)seed);
    if (null_fd < 0 || init_fd < 0 || dup2(null_fd, 0) < 0 ||
        dup2(c->setup.fd[SNP_SPEC_FD_STDOUT], 1) < 0 ||
        dup2(c->setup.fd[SNP_SPEC_FD_STDERR], 2) < 0) {
        _exit(4);
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(from[i], SNP_INIT_CONTROL_FD + i) < 0) {
            _exit(4);
        }
    }
    (void)syscall(SYS_close_range, SNP_INIT_UPPER_FD + 1, (unsigned)init_fd - 1, 0);
    (void)syscall(SYS_close_range, (unsigned)init_fd + 1, ~0U, 0);
    if (limit_open_files(c) < 0) {
        _exit(4);
    }
    (void)syscall(SYS_execveat, init_fd, "", argv, envp, AT_EMPTY_PATH);
    _exit(4);
}

static int receive_spec(struct child *c)
{
    struct snp_spec *spec = &c->setup.spec;
    int fds[SNP_FDS_MAX];
    size_t n_fds = 0;
    ssize_t n = snp_recv_fds(c->control_fd, spec, sizeof(*spec), fds, &n_fds);

    if (n <= 0) {
        _exit(0); /* the supervisor went away; nothing has begun */
    }
    if (n < (ssize_t)sizeof(*spec)) {
        ssize_t rest = snp_read_all(c->control_fd, (char *)spec + n, sizeof(*spec) - (size_t)n);
        n = rest < 0 ? rest : n + rest;
    }
    if (n != (ssize_t)sizeof(*spec) || spec->magic != SNP_SPEC_MAGIC ||
        spec->env_len > SNP_ENV_MAX || spec->mask_len > SNP_MASK_MAX ||
        n_fds != SNP_SPEC_FD_PROJECT + (spec->has_project != 0 ? 1U : 0U)) {
        return -1;
    }
    for (size_t i = 0; i < n_fds; i++) {
        c->setup.fd[i] = park(fds[i]);
    }
    c->env = malloc((size_t)spec->env_len + 1);
    c->mask = malloc((size_t)spec->mask_len + 1);
    if (c->env == NULL || c->mask == NULL ||
        snp_read_all(c->control_fd, c->env, spec->env_len) != spec->env_len ||
        snp_read_all(c->control_fd, c->mask, spec->mask_len) != spec->mask_len) {
        return -1;
    }
    c->setup.mask = c->mask;
    return 0;
}

static void send_reply(struct child *c, int result, const struct snp_err *err)
{
    struct snp_setup_reply reply = {
        .magic = SNP_SPEC_MAGIC,
        .ok = result == 0,
        .landlock_abi = c->setup.landlock_abi,
        .n_steps = c->setup.n_steps,
        .err = *err,
    };
    size_t n_fds = c->setup.listener_fd >= 0 ? 1 : 0;

    memcpy(reply.step_us, c->setup.step_us, sizeof(reply.step_us));
    if (snp_send_fds(c->control_fd, &reply, sizeof(reply), &c->setup.listener_fd, n_fds) < 0 ||
        result < 0) {
        _exit(4);
    }
    if (c->setup.listener_fd >= 0) {
        (void)close(c->setup.listener_fd); /* the listener must not be inside */
        c->setup.listener_fd = -1;
    }
}

/* Returns in the interpreter and in what the seed forks; the number of the guest stream. */
static int child_main(struct zygote *z, int control_fd, struct child *c)
{
    struct snp_err err = {.code = SNP_OK};
    int pair[2];
    int out_fd;
    int err_fd;
    pid_t interpreter;
    pid_t seed;
    int r;

    default_sigchld();
    c->control_fd = park(control_fd);
    (void)close(z->control_fd);
    for (size_t i = 0; i < SNP_SPEC_FD_N; i++) {
        c->setup.fd[i] = -1;
    }
    c->setup.listener_fd = c->setup.upper_fd = -1;
    c->setup.filter = &z->filter;
    if (receive_spec(c) < 0) {
        (void)snp_fail(&err, SNP_E_PEER, "the spec was not understood");
        send_reply(c, -1, &err);
    }
    r = snp_setup_run(&c->setup, &err);
    explicit_bzero(c->mask, c->setup.spec.mask_len); /* names of secrets, not for the code */
    free(SNP_TAKE_PTR(c->mask));
    send_reply(c, r, &err);
    out_fd = c->setup.fd[SNP_SPEC_FD_STDOUT];
    err_fd = c->setup.fd[SNP_SPEC_FD_STDERR];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        _exit(4);
    }
    /* Until init is executed the code, which starts now, must not look into us. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    interpreter = fork();
    if (interpreter == 0) {
        become_interpreter(c, c->setup.fd[SNP_SPEC_FD_GUEST], out_fd, err_fd);
        return 3;
    }
    seed = interpreter < 0 ? -1 : fork();
    if (seed == 0) {
        int socket_fd = park(pair[1]);
        (void)close(pair[0]);
        (void)close(c->control_fd);
        (void)close(c->setup.fd[SNP_SPEC_FD_GUEST]);
        (void)close(c->setup.fd[SNP_SPEC_FD_INIT]);
        (void)close(c->setup.fd[SNP_SPEC_FD_PROJECT]);
        (void)close(c->setup.upper_fd);
        return seed_run(c, socket_fd, out_fd, err_fd);
    }
    if (interpreter < 0 || seed < 0) {
        _exit(4);
    }
    (void)close(pair[1]);
    exec_init(c, interpreter, seed, pair[0]);
    return -1;
}

/*
 * A child alone in new namespaces. Old container runtimes refuse clone3 as a whole; clone
 * takes the same flags. The pid, 0 in the child, -1 with errno.
 */
static long fork_apart(int *ret_pidfd)
{
    struct clone_args args = {
        .flags = NAMESPACES | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)ret_pidfd,
        .exit_signal = SIGCHLD,
    };
    long pid = syscall(SYS_clone3, &args, sizeof(args));

    if (pid < 0 && (errno == ENOSYS || errno == EPERM)) {
        pid =
            syscall(SYS_clone, NAMESPACES | CLONE_PIDFD | SIGCHLD, NULL, ret_pidfd, NULL, NULL);
    }
    return pid;
}

/* One order: fork a first child for the session's control socket in session_fd (consumed). 1 in the interpreter. */
static int fork_one(struct zygote *z, int session_fd, struct child *c)
{
    int pidfd = -1;
    char answer[5] = {SNP_ZYGOTE_FORKED};
    long pid;

    z->hooks->before_fork();
    pid = fork_apart(&pidfd);
    if (pid == 0) {
        (void)child_main(z, session_fd, c);
        z->hooks->after_fork_child();
        return 1;
    }
    int32_t eno = errno;
    z->hooks->after_fork_parent();
    (void)close(session_fd);
    if (pid < 0) {
        answer[0] = SNP_ZYGOTE_FAILED;
        memcpy(answer + 1, &eno, sizeof(eno));
        if (send(z->control_fd, answer, sizeof(answer), MSG_NOSIGNAL) < 0) {
            _exit(0);
        }
        return 0;
    }
    if (snp_send_fds(z->control_fd, answer, 1, &pidfd, 1) < 0) {
        _exit(0);
    }
    (void)close(pidfd);
    return 0;
}

int snp_zygote_serve(int control_fd,
                     int filter_fd,
                     const struct snp_zygote_hooks *hooks,
                     struct snp_interpreter *ret_interpreter,
                     struct snp_err *err)
{
    struct zygote z = {.control_fd = control_fd, .hooks = hooks};
    struct child c = {0};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    char ready[2 + SNP_VERSION_MAX];
    int ready_len = snprintf(ready, sizeof(ready), "%c%s", SNP_ZYGOTE_READY, hooks->version);
    int r = filter_load(filter_fd, &z.filter, err);

    (void)close(filter_fd);
    if (r < 0) {
        return r;
    }
    (void)sigaction(SIGCHLD, &ignore, NULL); /* first children are reaped by the kernel */
    ready_len = ready_len < (int)sizeof(ready) ? ready_len : (int)sizeof(ready) - 1;
    if (send(control_fd, ready, (size_t)ready_len, MSG_NOSIGNAL) != ready_len) {
        return snp_fail_sys(err, errno, "tell the supervisor");
    }
    for (;;) {
        int fds[SNP_FDS_MAX];
        size_t n_fds = 0;
        char order = 0;
        ssize_t n = snp_recv_fds(control_fd, &order, 1, fds, &n_fds);

        if (n <= 0 || order != SNP_ZYGOTE_FORK || n_fds != 1) {
            _exit(0);
        }
        if (fork_one(&z, fds[0], &c) == 1) {
            break;
        }
    }
    ret_interpreter->guest_fd = 3;
    ret_interpreter->env = c.env;
    ret_interpreter->env_len = c.setup.spec.env_len;
    return 0;
}
