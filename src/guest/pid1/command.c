/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pid1/command.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "guest/pid1/container.h"
#include "guest/pid1/files.h"
#include "guest/spec.h"

enum {
    ARGS_MAX = 4096,
    GO_FIRST_SPINS = 100,
    GO_FIRST_TRIES = 140,
};

static int input_fd(const char *bytes, size_t n)
{
    int fd = memfd_create("stdin", MFD_CLOEXEC);

    if (fd < 0) { /* refused where no cgroup counts its pages */
        fd = open(snp_files_tmp(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    }

    if (fd >= 0 && (snp_write_all(fd, bytes, n) < 0 || lseek(fd, 0, SEEK_SET) < 0)) {
        snp_closep(&fd);
    }
    return fd;
}

/* Search the PATH of the program's environment, as a shell does. */
static void exec_in_path(char **argv, char **envp)
{
    const char *path = "/usr/local/bin:/usr/bin:/bin";
    char file[4096];

    for (char **e = envp; *e != NULL; e++) {
        path = strncmp(*e, "PATH=", 5) == 0 ? *e + 5 : path;
    }
    if (strchr(argv[0], '/') != NULL) {
        (void)execve(argv[0], argv, envp);
        return;
    }
    for (const char *at = path; at != NULL && *at != '\0';) {
        size_t n = strcspn(at, ":");
        if (snprintf(file, sizeof(file), "%.*s/%s", (int)n, at, argv[0]) < (int)sizeof(file)) {
            (void)execve(file, argv, envp);
        }
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) {
            return;
        }
        at = at[n] == ':' ? at + n + 1 : NULL;
    }
}

/* The contents of a request; arrays owned. */
struct program {
    char **argv;
    char **envp;
    const char *cwd;
    int stdin_fd;    /* owned; -1 = our standard input */
    int out_fd[2];   /* standard output and error; -1 = ours */
    int guest_fd;    /* of an interpreter; -1 = none */
    int pristine_fd; /* of its pristine copy; -1 = none */
    bool is_fenced;
    bool goes_first; /* killed before the interpreter when memory is short */
};

static SNP_NORETURN void run(const struct program *p)
{
    struct sigaction act = {.sa_handler = SIG_DFL};
    sigset_t none;
    int eno;

    /* We inherit ignored signals from the interpreter's template. */
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &act, NULL);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid();
    if ((p->stdin_fd >= 0 && dup2(p->stdin_fd, 0) < 0) ||
        (p->out_fd[0] >= 0 && dup2(p->out_fd[0], 1) < 0) ||
        (p->out_fd[1] >= 0 && dup2(p->out_fd[1], 2) < 0) ||
        (p->guest_fd >= 0 && dup2(p->guest_fd, SNP_GUEST_FD) < 0)) {
        _exit(126);
    }
    if (p->is_fenced && snp_container_fence() < 0) {
        _exit(126);
    }
    if (p->guest_fd >= 0) { /* when memory is short, the code is killed first */
        (void)(p->pristine_fd >= 0 && dup2(p->pristine_fd, SNP_GUEST_PRISTINE_FD) >= 0);
        (void)syscall(SYS_close_range,
                      p->pristine_fd >= 0 ? SNP_GUEST_PRISTINE_FD + 1 : SNP_GUEST_FD + 1, ~0U, 0);
        (void)!snp_file_poke("/proc/self/oom_score_adj", "500");
    }
    if (chdir(p->cwd) < 0) {
        eno = errno;
        (void)dprintf(2, "%s: %s\n", p->cwd, strerror(eno)); /* NOLINT(concurrency-mt-unsafe) */
        _exit(126);
    }
    exec_in_path(p->argv, p->envp);
    eno = errno;
    (void)dprintf(2, "%s: %s\n", p->argv[0],
                  eno == ENOENT ? "command not found"
                                : strerror(eno)); /* NOLINT(concurrency-mt-unsafe) */
    _exit(eno == ENOENT ? 127 : 126);
}

static char **take_list(struct snp_body *c)
{
    uint32_t n = (uint32_t)snp_body_take(c, 4);
    char **list = n > ARGS_MAX ? NULL : calloc((size_t)n + 1, sizeof(*list));

    if (list == NULL) {
        c->bad = true;
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        list[i] = (char *)(uintptr_t)snp_body_text(c);
    }
    return list;
}

/* 0 or errno. */
static int take_program(struct snp_body *c, struct program *ret)
{
    *ret = (struct program){.argv = take_list(c),
                            .stdin_fd = -1,
                            .out_fd = {-1, -1},
                            .guest_fd = -1,
                            .pristine_fd = -1};
    ret->envp = take_list(c);
    ret->cwd = snp_body_text(c);
    return c->bad || ret->argv == NULL || ret->argv[0] == NULL ? EINVAL : 0;
}

static void program_done(struct program *p)
{
    snp_closep(&p->stdin_fd);
    free(p->argv);
    free(p->envp);
}

/*
 * When memory is short, kill a command before the interpreter, which holds the results of cells.
 * vfork returns shortly before the kernel makes the new program's /proc files writable.
 */
static void go_first(const char *path)
{
    const struct timespec moment = {.tv_nsec = 50000};

    for (int i = 0; i < GO_FIRST_TRIES && snp_file_poke(path, "1000") < 0; i++) {
        if (i >= GO_FIRST_SPINS) { /* it may need our processor */
            (void)nanosleep(&moment, NULL);
        }
    }
}

/* 0 or errno. */
static int start(const struct program *p, pid_t *ret)
{
    /*
     * Wait until it has executed its program: before that, as a copy of pid 1, its files are not
     * writable.
     */
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
    char path[48];

    if (pid == 0) {
        run(p);
    }
    if (pid < 0) {
        return errno;
    }
    if (p->goes_first) {
        (void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
        go_first(path);
    }
    *ret = pid;
    return 0;
}

/* A program of the code, with its standard input. 0 or errno. */
static int take_command(const struct snp_init *in, struct snp_body *c, struct program *ret)
{
    int r = take_program(c, ret);
    bool has_stdin = snp_body_take(c, 1) != 0;

    ret->is_fenced = in->is_container;
    ret->goes_first = !in->is_local; /* in the local tier /proc is not accessible */
    r = c->bad ? EINVAL : r;
    if (r == 0 && has_stdin) {
        ret->stdin_fd = input_fd(c->at, (size_t)(c->end - c->at));
        r = ret->stdin_fd < 0 ? errno : 0;
    }
    return r;
}

int snp_command_start(struct snp_init *in, uint32_t id, struct snp_body *c)
{
    struct program p;
    int r = take_command(in, c, &p);

    r = r == 0 && in->command != -1 ? EBUSY : r;
    r = r == 0 ? start(&p, &in->command) : r;
    if (r == 0) {
        in->is_stopped = false;
        in->command_id = id;
    }
    program_done(&p);
    return r;
}

int snp_detached_start(struct snp_init *in, struct snp_body *c, pid_t *ret)
{
    struct program p;
    pid_t *slot = snp_detached_slot(in, 0);
    int r = take_command(in, c, &p);

    memcpy(p.out_fd, in->stream_fd, sizeof(p.out_fd));
    if (in->stream_fd[2] >= 0) {
        snp_closep(&p.stdin_fd);
        p.stdin_fd = SNP_TAKE_FD(in->stream_fd[2]);
    }
    r = r == 0 && (p.out_fd[0] < 0 || p.out_fd[1] < 0) ? EINVAL : r;
    r = r == 0 && slot == NULL ? EBUSY : r;
    r = r == 0 ? start(&p, slot) : r;
    *ret = r == 0 ? *slot : 0;
    snp_closep(&in->stream_fd[0]);
    snp_closep(&in->stream_fd[1]);
    program_done(&p);
    return r;
}

pid_t *snp_detached_slot(struct snp_init *in, pid_t pid)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(in->processes); i++) {
        if (in->processes[i] == pid) {
            return &in->processes[i];
        }
    }
    return NULL;
}

/* Has the group a process? Those that lost their parent are our children. */
static bool has_members(pid_t group)
{
    siginfo_t info;

    return waitid(P_PGID, (id_t)group, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

void snp_left_add(struct snp_init *in, pid_t pid)
{
    if (has_members(pid)) { /* the oldest makes room */
        memmove(in->left + 1, in->left, sizeof(in->left) - sizeof(in->left[0]));
        in->left[0] = pid;
    }
}

void snp_left_look(struct snp_init *in)
{
    size_t n = 0;

    for (size_t i = 0; i < SNP_ARRAY_LEN(in->left); i++) {
        const pid_t group = in->left[i];

        in->left[i] = 0;
        if (group != 0 && has_members(group)) {
            in->left[n++] = group;
        }
    }
}

bool snp_left_is(const struct snp_init *in, pid_t pid)
{
    size_t i = 0;

    while (i < SNP_ARRAY_LEN(in->left) && in->left[i] != pid) {
        i++;
    }
    return i < SNP_ARRAY_LEN(in->left);
}

/*
 * Make the socket to the first interpreter's pristine copy. *ret_fd: the interpreter's end. 0 or
 * errno.
 */
static int make_pristine(struct snp_init *in, int *ret_fd)
{
    const int on = 1;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return errno;
    }
    (void)setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
    snp_sleepers_init(&in->sleepers, ends[0]);
    *ret_fd = ends[1];
    return 0;
}

int snp_interpreter_start(struct snp_init *in, struct snp_body *c, int guest_fd)
{
    struct program p;
    int r = take_program(c, &p);

    p.guest_fd = guest_fd;
    p.is_fenced = in->is_container;
    r = r != 0 || guest_fd < 0 ? EINVAL : 0;
    if (r == 0 && in->is_container && in->sleepers.n == 0) {
        r = make_pristine(in, &p.pristine_fd);
    }
    r = r == 0 ? start(&p, &in->interpreter) : r;
    snp_closep(&p.pristine_fd);
    program_done(&p);
    return r;
}
