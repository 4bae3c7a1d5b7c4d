/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The zygote: a warm interpreter that is forked into sandboxes.
 *
 * It creates four kinds of process:
 *   zygote       waits for orders; never learns the purpose of a session;
 *   first child  one per sandbox, in new namespaces; runs the set-up steps on a separate
 *                stack, then executes init and is pid 1;
 *   interpreter  forked by the first child when everything is confined;
 *   copy         a fork that the interpreter makes of itself between two cells; sleeps, and
 *                forks an interpreter with its state when the session continues from it.
 *                The pristine copy is made before any foreign code runs.
 *
 * The first child shares the zygote's memory, as after vfork, and the zygote is blocked until it
 * has executed init: so the page tables of a large interpreter are copied once per sandbox, for the
 * interpreter, and not again for pid 1. Therefore no data of a session may stay in that memory
 * (make_child), and no process inside may inspect pid 1 (PR_SET_DUMPABLE belongs to the memory;
 * serve resets it).
 */
#include "guest/module/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/slice.h"
#include "guest/module/freeze.h"
#include "guest/module/image.h"
#include "guest/module/setup.h"
#include "guest/spec.h"

enum {
    FILTER_MAX = 64 << 10,
    FD_PARK = 64, /* first number for descriptors moved away from the low ones */
    STACK_BYTES = 256 << 10,
    ROOM_TRIES = 200, /* one millisecond apart */
    NAMESPACES =
        CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
    FIRST_CHILD = CLONE_VM | CLONE_VFORK | SIGCHLD,
};

/* State of a first child. */
struct first_child {
    int control_fd;
    uint32_t number; /* of the order */
    bool is_announced;
    struct snp_setup setup;
    char *mask; /* mapping of mask_len bytes, NULL = none */
};

/* One per process; static, because an interpreter returns to it from another stack. */
static struct zygote {
    int control_fd;
    struct sock_fprog filter;
    const struct snp_zygote_hooks *hooks;
    jmp_buf back;  /* where an interpreter leaves the first child's stack */
    jmp_buf begin; /* where a thawed zygote starts */
    bool is_thawed;
    char *stack;
    struct first_child child;
} zygote;

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

/* Move fd above the low numbers; the old one is closed. */
static int park(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, FD_PARK);

    if (high >= 0) {
        (void)close(fd);
    }
    return high;
}

/*
 * Last in each process, because parked descriptors may be above the limit. A lower limit of the
 * host stays.
 */
static int limit_open_files(rlim_t most)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        return -1;
    }
    limit.rlim_max = limit.rlim_max < most ? limit.rlim_max : most;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit);
}

static int standard_fds(const struct first_child *c)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    return null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(c->setup.fd[SNP_SPEC_FD_STDOUT], 1) < 0 ||
                   dup2(c->setup.fd[SNP_SPEC_FD_STDERR], 2) < 0
               ? -1
               : 0;
}

/* Move the streams to their numbers and close all other descriptors. */
static int interpreter_fds(const struct first_child *c, int pristine_fd)
{
    if (standard_fds(c) < 0 || dup2(c->setup.fd[SNP_SPEC_FD_GUEST], SNP_GUEST_FD) < 0 ||
        dup2(pristine_fd, SNP_GUEST_PRISTINE_FD) < 0 ||
        fcntl(SNP_GUEST_FD, F_SETFD, FD_CLOEXEC) < 0 ||
        fcntl(SNP_GUEST_PRISTINE_FD, F_SETFD, FD_CLOEXEC) < 0) {
        return -1;
    }
    return (int)syscall(SYS_close_range, SNP_GUEST_PRISTINE_FD + 1, ~0U, 0);
}

static void name_interpreter(void)
{
    (void)setsid(); /* interrupts are sent to its process group */
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "python", 0, 0, 0);
    /* When memory is short, the code is killed first, not init or the pristine copy. */
    (void)!snp_file_poke("/proc/self/oom_score_adj", "500");
}

static void become_interpreter(struct first_child *c, int pristine_fd)
{
    if (interpreter_fds(c, pristine_fd) < 0 || limit_open_files(c->setup.spec.open_files) < 0) {
        _exit(4);
    }
    snp_image_opened();
    name_interpreter();
}

/* Become pid 1: move descriptors to their numbers, then execute init. */
static SNP_NORETURN void exec_init(struct first_child *c, pid_t interpreter, int pristine_fd)
{
    char pid[16];
    char *folder = c->setup.spec.is_local != 0 ? c->setup.spec.folder : NULL;
    char *argv[] = {(char *)(uintptr_t) "init", pid, folder, NULL};
    char *envp[] = {NULL};
    /* Move them high first, or setting one could close another. */
    const int from[] = {
        c->control_fd,
        pristine_fd,
        park(c->setup.fs_fd[SNP_SETUP_WORKSPACE]),
        park(c->setup.copies_fd),
        park(c->setup.base_fd),
        c->setup.fd[SNP_SPEC_FD_FILES],
        park(c->setup.diag_fd),
    };
    int init_fd = c->setup.fd[SNP_SPEC_FD_INIT];

    (void)snprintf(pid, sizeof(pid), "%d", (int)interpreter);
    if (standard_fds(c) < 0) {
        _exit(4);
    }
    (void)syscall(SYS_close_range, SNP_INIT_COPIES_FD, SNP_INIT_DIAG_FD, 0);
    for (int i = 0; i < (int)SNP_ARRAY_LEN(from); i++) {
        bool is_optional = SNP_INIT_CONTROL_FD + i > SNP_INIT_UPPER_FD;
        if ((from[i] >= 0 || !is_optional) && dup2(from[i], SNP_INIT_CONTROL_FD + i) < 0) {
            _exit(4);
        }
    }
    (void)syscall(SYS_close_range, SNP_INIT_DIAG_FD + 1, (unsigned)init_fd - 1, 0);
    (void)syscall(SYS_close_range, (unsigned)init_fd + 1, ~0U, 0);
    if (limit_open_files(c->setup.spec.open_files) < 0) {
        _exit(4);
    }
    (void)syscall(SYS_execveat, init_fd, "", argv, envp, AT_EMPTY_PATH);
    _exit(4);
}

/* Send the supervisor our pidfd. */
static int announce(struct first_child *c)
{
    char forked[1 + sizeof(c->number)] = {SNP_ZYGOTE_FORKED};
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    memcpy(forked + 1, &c->number, sizeof(c->number));
    if (pidfd < 0 || snp_send_fds(zygote.control_fd, forked, sizeof(forked), &pidfd, 1) < 0) {
        return -1;
    }
    (void)close(pidfd);
    (void)close(zygote.control_fd);
    c->is_announced = true;
    return 0;
}

static int receive_spec(struct first_child *c)
{
    struct snp_spec *spec = &c->setup.spec;
    int fds[SNP_FDS_MAX];
    size_t n_fds = 0;
    ssize_t n = snp_recv_fds(c->control_fd, spec, sizeof(*spec), fds, &n_fds);

    if (n <= 0) {
        _exit(0); /* the supervisor has ended; nothing was started */
    }
    if (n < (ssize_t)sizeof(*spec)) {
        ssize_t rest = snp_read_all(c->control_fd, (char *)spec + n, sizeof(*spec) - (size_t)n);
        n = rest < 0 ? rest : n + rest;
    }
    if (n != (ssize_t)sizeof(*spec) || spec->magic != SNP_SPEC_MAGIC ||
        spec->mask_len > SNP_MASK_MAX || spec->n_groups > SNP_SPEC_GROUPS_MAX ||
        n_fds != SNP_SPEC_FD_PROJECT + (spec->has_project != 0 ? 1U : 0U) + spec->n_groups) {
        return -1;
    }
    for (size_t i = 0; i < n_fds - spec->n_groups; i++) {
        c->setup.fd[i] = park(fds[i]);
    }
    for (size_t i = 0; i < spec->n_groups; i++) {
        c->setup.group_fd[i] = park(fds[n_fds - spec->n_groups + i]);
    }
    if (spec->mask_len > 0) {
        void *mask =
            mmap(NULL, spec->mask_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        c->mask = mask == MAP_FAILED ? NULL : mask;
        if (c->mask == NULL ||
            snp_read_all(c->control_fd, c->mask, spec->mask_len) != spec->mask_len) {
            return -1;
        }
    }
    c->setup.mask = c->mask;
    return 0;
}

/*
 * Send the reply with the file systems' descriptors, by which the supervisor monitors their usage.
 */
static void send_reply(struct first_child *c, int result, const struct snp_err *err)
{
    struct snp_setup_reply reply = {
        .magic = SNP_SPEC_MAGIC,
        .ok = result == 0,
        .landlock_abi = c->setup.landlock_abi,
        .err = *err,
    };
    int fds[SNP_SETUP_FS_N + 1];
    size_t n_fds = 0;

    for (size_t i = 0; i < SNP_SETUP_FS_N && result == 0; i++) {
        fds[n_fds++] = c->setup.fs_fd[i];
    }
    if (c->setup.listener_fd >= 0 && result == 0) {
        fds[n_fds++] = c->setup.listener_fd;
    }
    if (snp_send_fds_marked(c->control_fd, &reply, sizeof(reply), fds, n_fds, c->setup.spec.mark) <
            0 ||
        result < 0) {
        _exit(4);
    }
    snp_closep(&c->setup.listener_fd); /* it must not stay inside */
}

/*
 * The first child, on a separate stack in the zygote's memory. Its fork returns to its copy of the
 * zygote's stack, and is the interpreter.
 */
static int child_main(void *arg)
{
    struct first_child *c = arg;
    struct snp_err err = {.code = SNP_OK};
    const int on = 1;
    int pair[2];
    pid_t interpreter;
    int r;

    default_sigchld();
    snp_slice_short(); /* pid 1, executed below */
    c->control_fd = park(c->control_fd);
    if (announce(c) < 0) {
        _exit(4);
    }
    if (receive_spec(c) < 0) {
        r = snp_fail(&err, SNP_E_PEER, "the spec was not understood");
    } else {
        r = snp_setup_run(&c->setup, &err);
    }
    send_reply(c, r, &err);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ||
        setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0) {
        _exit(4);
    }
    /* The code starts now: until init is executed, it must not inspect us. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    pair[0] = park(pair[0]);
    pair[1] = park(pair[1]);
    interpreter = fork();
    if (interpreter == 0) {
        become_interpreter(c, pair[1]);
        longjmp(zygote.back, 1);
    }
    if (interpreter < 0) {
        _exit(4);
    }
    exec_init(c, interpreter, pair[0]);
}

static void forget_child(struct first_child *c)
{
    if (c->mask != NULL) {
        (void)munmap(c->mask, c->setup.spec.mask_len);
    }
    explicit_bzero(c, sizeof(*c));
}

static void prepare_child(struct first_child *c, int session_fd)
{
    c->control_fd = session_fd;
    for (size_t i = 0; i < SNP_SPEC_FD_N; i++) {
        c->setup.fd[i] = -1;
    }
    for (size_t i = 0; i < SNP_SETUP_FS_N; i++) {
        c->setup.fs_fd[i] = -1;
    }
    c->setup.copies_fd = c->setup.base_fd = c->setup.diag_fd = -1;
    c->setup.listener_fd = -1;
    c->setup.filter = &zygote.filter;
}

/*
 * Carry out an order: make a first child for the session's control socket in session_fd (consumed).
 */
static void make_child(const char *order, int session_fd)
{
    const int namespaces = order[0] == SNP_ZYGOTE_PLAIN ? 0 : NAMESPACES;
    struct first_child *c = &zygote.child;
    char answer[1 + sizeof(c->number) + sizeof(int32_t)] = {SNP_ZYGOTE_FAILED};
    int32_t eno;
    int pid;

    prepare_child(c, session_fd);
    memcpy(&c->number, order + 1, sizeof(c->number));
    /* The supervisor can map the child's ids only if our user owns our /proc files. */
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    zygote.hooks->before_fork();
    pid = clone(child_main, zygote.stack + STACK_BYTES, namespaces | FIRST_CHILD, c);
    eno = pid < 0 ? errno : ECHILD;
    zygote.hooks->after_fork_parent();
    (void)close(session_fd);
    if (!c->is_announced) {
        memcpy(answer + 1, &c->number, sizeof(c->number));
        memcpy(answer + 1 + sizeof(c->number), &eno, sizeof(eno));
        if (send(zygote.control_fd, answer, sizeof(answer), MSG_NOSIGNAL) < 0) {
            _exit(0);
        }
    }
    /* Leave no data of this sandbox in the memory from which the next is forked. */
    forget_child(c);
    if (madvise(zygote.stack, STACK_BYTES, MADV_DONTNEED) < 0) {
        explicit_bzero(zygote.stack, STACK_BYTES);
    }
}

/* Continue in a process thawed from an image, which was written while serving orders. */
static void go_on(void *start, size_t len)
{
    (void)munmap(start, len);
    if (snp_image_restore_kernel() < 0) {
        _exit(1);
    }
    longjmp(zygote.begin, 1);
}

/* The image contains no resource of the supervisor: the filter is passed again. */
static void send_image(int fd)
{
    const struct snp_template_image_source source = {
        .files = zygote.hooks->files,
        .files_len = zygote.hooks->files_len,
        .began = &zygote.hooks->began,
        .entry = go_on,
    };
    const struct iovec hidden[] = {
        {zygote.filter.filter, zygote.filter.len * sizeof(*zygote.filter.filter)},
        {zygote.stack, STACK_BYTES},
    };

    if (source.files_len > 0) { /* else a stale image could not be detected */
        snp_template_image_send(&source, fd, zygote.control_fd, hidden, SNP_ARRAY_LEN(hidden));
    }
    (void)close(fd);
}

/* Never returns in the zygote. */
static SNP_NORETURN void serve_orders(void)
{
    for (;;) {
        int fds[SNP_FDS_MAX];
        size_t n_fds = 0;
        char order[1 + sizeof(uint32_t)];
        ssize_t n = snp_recv_fds(zygote.control_fd, order, sizeof(order), fds, &n_fds);

        if (n == (ssize_t)sizeof(order) && order[0] == SNP_ZYGOTE_IMAGE && n_fds == 1) {
            send_image(fds[0]);
            continue;
        }
        if (n != (ssize_t)sizeof(order) ||
            (order[0] != SNP_ZYGOTE_FORK && order[0] != SNP_ZYGOTE_PLAIN) || n_fds != 1) {
            _exit(0);
        }
        make_child(order, fds[0]);
    }
}

static int serve(int control_fd,
                 int filter_fd,
                 const struct snp_zygote_hooks *hooks,
                 struct snp_err *err)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    char ready[2 + SNP_VERSION_MAX];
    int ready_len =
        snprintf(ready, sizeof(ready), "%c%s",
                 zygote.is_thawed ? SNP_ZYGOTE_THAWED : SNP_ZYGOTE_READY, hooks->version);
    int r = filter_load(filter_fd, &zygote.filter, err);
    void *stack;

    (void)close(filter_fd);
    if (r < 0) {
        return r;
    }
    stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) {
        return snp_fail_sys(err, errno, "map a stack");
    }
    zygote.stack = stack;
    zygote.control_fd = control_fd;
    zygote.hooks = hooks;
    (void)sigaction(SIGCHLD, &ignore, NULL); /* first children are reaped by the kernel */
    ready_len = ready_len < (int)sizeof(ready) ? ready_len : (int)sizeof(ready) - 1;
    if (send(control_fd, ready, (size_t)ready_len, MSG_NOSIGNAL) != ready_len) {
        return snp_fail_sys(err, errno, "tell the supervisor");
    }
    if (setjmp(zygote.back) == 0) {
        serve_orders();
    }
    forget_child(&zygote.child);
    (void)munmap(SNP_TAKE_PTR(zygote.stack), STACK_BYTES);
    /* Keep it out of session images: the file would differ. */
    (void)munmap(SNP_TAKE_PTR(zygote.filter.filter),
                 zygote.filter.len * sizeof(*zygote.filter.filter));
    zygote.hooks->after_fork_child();
    return 0;
}

int snp_zygote_serve(int control_fd,
                     int filter_fd,
                     const struct snp_zygote_hooks *hooks,
                     struct snp_err *err)
{
    zygote.is_thawed = setjmp(zygote.begin) != 0;
    snp_image_mark(
        !zygote.is_thawed); /* two zygotes thawed from one image each have separate forks */
    return serve(control_fd, filter_fd, hooks, err);
}

/*
 * Where the C library keeps this thread's id; NULL if the kernel does not tell. A process made by a
 * bare clone must set it.
 */
static int *thread_number(void)
{
    int *at = NULL;

    return prctl(PR_GET_TID_ADDRESS, &at, 0, 0, 0) < 0 ? NULL : at;
}

static pid_t clone_with(unsigned long flags)
{
    int *number = thread_number();

    flags |= SIGCHLD | (number == NULL ? 0 : CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID);
#ifdef __x86_64__
    return (pid_t)syscall(SYS_clone, flags, NULL, NULL, number, NULL);
#else
    return (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, number);
#endif
}

/* Continue as a child of pid 1: returns in another process, whose parent has ended. */
static void be_adopted(void)
{
    const pid_t parent = getpid();
    pid_t pid = clone_with(0);

    if (pid != 0) {
        _exit(pid < 0 ? 1 : 0);
    }
    while (getppid() == parent) {
        (void)sched_yield();
    }
}

/*
 * Fork a child of pid 1, not of ours, so that code that waits for its children does not see it. No
 * fork handlers run: the result is this program at another time, not a child that must
 * reinitialize. gVisor ignores CLONE_PARENT: there an intermediate process, which we wait for,
 * leaves its child to pid 1.
 */
static pid_t clone_self(void)
{
    const pid_t self = getpid();
    int status = 0;
    pid_t pid = clone_with(CLONE_PARENT);

    for (int i = 0; pid < 0 && errno == EAGAIN && i < ROOM_TRIES; i++) { /* pid 1 makes room */
        (void)poll(NULL, 0, 1);
        pid = clone_with(CLONE_PARENT);
    }
    if (pid == 0 && getppid() == self) {
        be_adopted();
    }
    if (pid > 0 && SNP_RETRY(waitpid(pid, &status, 0)) == pid && status != 0) {
        errno = EAGAIN;
        return -1;
    }
    return pid;
}

/* Send a byte to pid 1, which gets its authentic sender from the kernel. */
static int say(int socket_fd, char what)
{
    return SNP_RETRY(send(socket_fd, &what, 1, MSG_NOSIGNAL)) == 1 ? 0 : -1;
}

/*
 * Sleep until pid 1 passes a guest stream. Returns the stream in each process forked for this,
 * which has reported its pid to pid 1.
 */
static int sleep_until_woken(int socket_fd)
{
    (void)setsid();
    /* inaccessible after PR_SET_DUMPABLE 0 */
    (void)!snp_file_poke("/proc/self/oom_score_adj", "0");
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "snapshot", 0, 0, 0);
    if (say(socket_fd, SNP_COPY_ASLEEP) < 0) {
        _exit(0);
    }
    for (;;) {
        int fds[SNP_FDS_MAX];
        size_t n_fds = 0;
        char byte;
        ssize_t n = snp_recv_fds(socket_fd, &byte, 1, fds, &n_fds);
        pid_t pid;

        if (n <= 0 || n_fds != 1) {
            _exit(0);
        }
        pid = clone_self();
        if (pid == 0) {
            name_interpreter(); /* first: a sleeping copy must be alone in its session */
            if (say(socket_fd, SNP_COPY_AWAKE) < 0) {
                _exit(4);
            }
            (void)close(socket_fd);
            return fds[0];
        }
        (void)close(fds[0]);
        if (pid < 0 && say(socket_fd, SNP_COPY_FAILED) < 0) {
            _exit(0);
        }
    }
}

int snp_zygote_leave_copy(const struct snp_zygote_copy *copy, int *ret_stream_fd)
{
    pid_t pid = clone_self();

    if (pid == 0) {
        (void)close(copy->stream_fd); /* its end must be visible when the interpreter ends */
        for (size_t i = 0; i < copy->n_closing; i++) {
            (void)close(copy->closing[i]);
        }
        *ret_stream_fd = sleep_until_woken(copy->socket_fd);
        return 0;
    }
    *ret_stream_fd = -1;
    if (pid < 0) {
        int eno = errno;
        (void)close(copy->socket_fd);
        errno = eno;
        return -1;
    }
    return close(copy->socket_fd);
}

static void on_hangup(int number, siginfo_t *info, void *context)
{
    const struct sigaction act = {.sa_handler = SIG_DFL};

    (void)context;
    if (info->si_code != SI_KERNEL) {
        (void)sigaction(number, &act, NULL);
        (void)raise(number); /* delivered on return */
    }
}

void snp_zygote_outlive_hangups(void)
{
    const struct sigaction act = {.sa_sigaction = on_hangup, .sa_flags = SA_SIGINFO | SA_RESTART};

    (void)sigaction(SIGHUP, &act, NULL);
}
