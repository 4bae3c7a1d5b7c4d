/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pid 1 of a sandbox.
 *
 * One thread, one poll loop: the supervisor's control stream, the sockets of copies with pending
 * answers, SIGCHLD. It reaps, starts commands, passes on signals, sweeps, and reads and writes
 * single files for the host; its helper makes copies and bundles of the workspace (helper.h). It
 * has no privilege: filter, Landlock domain and limits are those of the code. When the control
 * stream ends it exits, and the kernel then kills everything else in the sandbox.
 *
 * In the local tier there is no pid namespace: pid 1 is the ancestor of all processes inside and
 * adopts orphans; the supervisor sweeps, watches and kills from outside.
 *
 * usage: init INTERPRETER_PID [FOLDER]   (0: not started yet; descriptors as in guest/spec.h)
 *        init                            in a container (container.h)
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "guest/body.h"
#include "guest/pid1/command.h"
#include "guest/pid1/container.h"
#include "guest/pid1/files.h"
#include "guest/pid1/frame.h"
#include "guest/pid1/inside.h"
#include "guest/pid1/kill.h"
#include "guest/pid1/memory.h"
#include "guest/pid1/process.h"
#include "guest/pid1/reap.h"
#include "guest/pid1/stop.h"
#include "guest/pid1/sweep.h"
#include "guest/pid1/wire.h"
#include "guest/spec.h"

enum {
    KILL_ROUNDS = 400,
    WORKER_MS = 500, /* after which a worker may have been stopped by the code */
    KEPT_FLAGS = SNP_INIT_HEADER_LEN + 4 + 8 + 4, /* offset in the answer to KEEP */
    POLLED_CONTROL = 0,
    POLLED_CHILDREN = 1,
    POLLED_SLEEPERS = 2 /* and the polled copies */
};

static void send_reply(struct snp_init *in, uint32_t id, int eno)
{
    uint32_t code = (uint32_t)eno;

    memcpy(snp_buf_bytes(&in->out), &code, sizeof(code));
    snp_frame_send(SNP_INIT_REPLY, id, snp_buf_bytes(&in->out),
                   eno == 0 ? in->out.len : sizeof(code));
}

/* Report a process that a sweep must spare, or its end. pid 0: not known yet. */
static void tell_spared(void *data, uint32_t number, pid_t pid, bool is_there)
{
    char raw[9];
    int32_t who = pid;

    (void)data;
    memcpy(raw, &who, 4);
    memcpy(raw + 4, &number, 4);
    raw[8] = is_there ? 1 : 0;
    snp_frame_send(SNP_INIT_SPARED, 0, raw, sizeof(raw));
}

/* A copy, and whether code shares its session. */
struct company {
    pid_t copy;
    bool is_shared;
    uint32_t n; /* processes of the code */
};

static void look_whose_session(pid_t pid, void *data)
{
    struct company *company = data;
    uint64_t ids[2]; /* group, session */

    company->n++;
    /* Under gVisor the intermediate process of a fork may still be a zombie in the session. */
    if (snp_process_stat(pid, 5, ids, 2) && ids[1] == (uint64_t)company->copy &&
        !snp_process_is_dead(pid)) {
        company->is_shared = true;
    }
}

/*
 * Is no code in this copy's session? A process group can be continued by signals to it, and by the
 * kernel when it becomes orphaned. Groups are within sessions, and a process cannot join another
 * session.
 */
static bool is_alone(void *data, pid_t pid, pid_t woken)
{
    struct snp_init *in = data;
    struct company company = {.copy = pid};
    uint64_t ids[2];

    if (in->is_local) {
        return true; /* signals go to single processes there; the kernel's are reported */
    }
    (void)snp_processes_each(in, look_whose_session, &company);
    in->n_others = company.n;
    if (woken > 1 && woken != pid) {
        look_whose_session(woken, &company); /* a job is not counted */
    }
    return !company.is_shared && snp_process_stat(pid, 5, ids, 2) && ids[0] == (uint64_t)pid &&
           ids[1] == (uint64_t)pid;
}

static int on_command(struct snp_init *in, struct snp_guest_request *rq)
{
    return snp_command_start(in, rq->id, &rq->body);
}

static int on_stream(struct snp_init *in, struct snp_guest_request *rq)
{
    uint8_t stream = (uint8_t)snp_body_take(&rq->body, 1);

    if (rq->body.bad || stream >= SNP_ARRAY_LEN(in->stream_fd) || rq->fd < 0) {
        return EINVAL;
    }
    snp_closep(&in->stream_fd[stream]);
    in->stream_fd[stream] = SNP_TAKE_FD(rq->fd);
    return 0;
}

static int on_run(struct snp_init *in, struct snp_guest_request *rq)
{
    int32_t pid;
    int r = snp_detached_start(in, &rq->body, &pid);

    return r == 0 && snp_buf_add(&in->out, &pid, sizeof(pid)) < 0 ? ENOMEM : r;
}

static int on_signal(struct snp_init *in, struct snp_guest_request *rq)
{
    uint8_t target = (uint8_t)snp_body_take(&rq->body, 1);
    pid_t pid = target == SNP_INIT_INTERPRETER ? in->interpreter : in->command;
    int signal_number = (int)snp_body_take(&rq->body, 4);

    if (target == SNP_INIT_JOB_TARGET) {
        pid = (pid_t)snp_body_take(&rq->body, 4);
        pid = snp_sleepers_is_job(&in->sleepers, pid) ? pid : -1;
    } else if (target == SNP_INIT_PROCESS_TARGET) {
        pid = (pid_t)snp_body_take(&rq->body, 4);
        pid = snp_detached_slot(in, pid) != NULL ? pid : -1; /* 0, a free entry, is refused below */
    } else if (target == SNP_INIT_LEFT_TARGET) {
        pid = (pid_t)snp_body_take(&rq->body, 4);
        pid = snp_left_is(in, pid) ? pid : -1;
    }

    if (pid <= 1 || signal_number <= 0 || signal_number > 64) {
        return ESRCH;
    }
    in->is_stopped = in->is_stopped || target == SNP_INIT_COMMAND_TARGET;
    /* Before its setsid the process is no group leader yet; signal it alone. */
    return snp_init_kill(-pid, signal_number) < 0 && snp_init_kill(pid, signal_number) < 0 ? errno
                                                                                           : 0;
}

/*
 * In the local tier the supervisor sweeps: our answer lists the processes to spare, and it asks
 * again until no copy has been ended since.
 */
static int on_sweep(struct snp_init *in, struct snp_guest_request *rq)
{
    uint64_t before = in->n_ended;
    int r;

    (void)rq;
    snp_settle(in);
    r = snp_sweep(in);
    in->n_ended = in->sleepers.n_ended;
    return r == 0 && in->is_local && in->n_ended != before ? EAGAIN : r;
}

/* A copy has answered or failed: answer its request. */
static void on_sleeper(void *data, const struct snp_sleeper *b, int eno, pid_t pid)
{
    const uint32_t code = (uint32_t)eno;
    struct snp_init *in = data;
    char raw[12];
    int32_t who = pid;
    uint32_t others = 0;

    if (eno == 0 && b->waits_for == SNP_COPY_AWAKE && !b->is_job) {
        in->interpreter = pid;
    } else if (eno == 0 && b->waits_for == SNP_COPY_ASLEEP) {
        others = in->n_others - (in->interpreter > 0 && in->n_others > 0 ? 1 : 0);
    }
    memcpy(raw, &code, 4);
    memcpy(raw + 4, &who, 4);
    memcpy(raw + 8, &others, 4);
    snp_frame_send(SNP_INIT_REPLY, b->reply_to, raw, eno == 0 ? sizeof(raw) : sizeof(code));
}

static int on_hold(struct snp_init *in, struct snp_guest_request *rq)
{
    uint32_t number = (uint32_t)snp_body_take(&rq->body, 4);

    return rq->body.bad ? EINVAL : snp_sleepers_add(&in->sleepers, number, rq->fd, rq->id);
}

/* End an interpreter that lost its stream and may still run. 0 or EBUSY. */
static int end_interpreter(struct snp_init *in)
{
    for (int i = 0; in->interpreter > 0 && i < KILL_ROUNDS; i++) {
        (void)snp_init_kill(in->interpreter, SIGKILL);
        (void)poll(NULL, 0, 1);
        snp_reap(in);
    }
    return in->interpreter > 0 ? EBUSY : 0;
}

static int on_wake(struct snp_init *in, struct snp_guest_request *rq)
{
    uint32_t number = (uint32_t)snp_body_take(&rq->body, 4);
    bool is_job = snp_body_take(&rq->body, 1) != 0;
    int r = rq->body.bad ? EINVAL : is_job ? 0 : end_interpreter(in);

    return r != 0 ? r : snp_sleepers_wake(&in->sleepers, number, is_job, rq->fd, rq->id);
}

static int on_spawn(struct snp_init *in, struct snp_guest_request *rq)
{
    int r = end_interpreter(in);
    int32_t pid;

    r = r != 0 ? r : snp_interpreter_start(in, &rq->body, rq->fd);
    pid = in->interpreter;
    return r == 0 && snp_buf_add(&in->out, &pid, sizeof(pid)) < 0 ? ENOMEM : r;
}

static int on_drop(struct snp_init *in, struct snp_guest_request *rq)
{
    uint32_t number = (uint32_t)snp_body_take(&rq->body, 4);

    if (!rq->body.bad && in->helper.fd >= 0) {
        snp_helper_tell(&in->helper, rq->frame, rq->frame_len); /* the helper may have no copy */
    }
    return rq->body.bad ? EINVAL : snp_sleepers_drop(&in->sleepers, number, rq->id);
}

/* Pass a request on to the helper. 0, with its answer in in->answer, or errno. */
static int ask_files(struct snp_init *in, const struct snp_guest_request *rq)
{
    uint32_t eno;

    if (in->helper.fd < 0) {
        return EOPNOTSUPP;
    }
    snp_helper_ask(&in->helper, rq->frame, rq->frame_len, rq->fd, &in->answer);
    memcpy(&eno, snp_buf_bytes(&in->answer) + SNP_INIT_HEADER_LEN, sizeof(eno));
    return (int)eno;
}

/* Pass the answer on unchanged. */
static int pass_answer(const struct snp_init *in)
{
    if (snp_write_all(SNP_INIT_CONTROL_FD, snp_buf_bytes(&in->answer), in->answer.len) < 0) {
        _exit(0);
    }
    return SNP_INIT_LATER;
}

static int on_put(struct snp_init *in, struct snp_guest_request *rq)
{
    const char *path;
    int r = snp_files_put(&rq->body, &in->out, &path);

    if (r == 0) {
        snp_changes_accept(in->changes, path);
    }
    return r;
}

static int on_get(struct snp_init *in, struct snp_guest_request *rq)
{
    return snp_files_get(&rq->body, &in->out);
}

static int on_ls(struct snp_init *in, struct snp_guest_request *rq)
{
    return snp_files_ls(&rq->body, &in->out);
}

static int on_restore(struct snp_init *in, struct snp_guest_request *rq)
{
    int r = ask_files(in, rq);

    snp_changes_rebase(in->changes);
    return r != 0 ? r : pass_answer(in);
}

static int on_changes(struct snp_init *in, struct snp_guest_request *rq)
{
    (void)rq;
    snp_reap(in); /* report a dead interpreter before answering about its cell */
    return snp_changes_report(in->changes, snp_processes_cpu(in), &in->out);
}

static void stop_one(pid_t pid, void *data)
{
    snp_stop_one(data, pid);
}

/* Stop all code, if any of it could write. 0 or EAGAIN. */
static int stop_code(struct snp_init *in, struct snp_stop *stop)
{
    stop->interpreter = in->interpreter;
    stop->is_counting = true;
    (void)snp_processes_each(in, stop_one, stop);
    stop->is_counting = false;
    if (stop->n_active == 0) {
        return 0;
    }
    do {
        stop->n_moving = 0;
        (void)snp_processes_each(in, stop_one, stop);
    } while (stop->n_moving > 0 && snp_stop_again(stop));
    return stop->n_moving > 0 ? EAGAIN : 0;
}

/*
 * Copies are made while the code is stopped. gVisor, which is connected by a relay, sends SIGHUP to
 * a process group with a stopped member when another leaves, as a new copy of the interpreter does:
 * so wait for that first.
 */
static int on_keep(struct snp_init *in, struct snp_guest_request *rq)
{
    struct snp_stop stop = {0};
    bool was_stopped;
    int r;

    if (in->relay > 0) {
        snp_await_copies(in);
    }
    r = stop_code(in, &stop);
    was_stopped = stop.n > 0;

    r = r == 0 ? ask_files(in, rq) : r;
    snp_stop_done(&stop);
    if (r == 0 && was_stopped && in->answer.len == KEPT_FLAGS + 1) {
        snp_buf_bytes(&in->answer)[KEPT_FLAGS] |= SNP_KEEP_STOPPED;
    }
    return r != 0 ? r : pass_answer(in);
}

/* A worker of the helper packs or unpacks; the answer is sent at its end. */
static int on_bundle(struct snp_init *in, struct snp_guest_request *rq)
{
    int r = rq->fd < 0 ? EINVAL : ask_files(in, rq);
    int32_t pid;

    if (r != 0) {
        return r;
    }
    if (in->answer.len != SNP_INIT_HEADER_LEN + sizeof(uint32_t) + sizeof(pid)) {
        _exit(1); /* both are of one build */
    }
    memcpy(&pid, snp_buf_bytes(&in->answer) + SNP_INIT_HEADER_LEN + sizeof(uint32_t), sizeof(pid));
    if (!snp_sleepers_add_job(&in->sleepers, pid)) {
        (void)snp_init_kill(pid, SIGKILL); /* the answer is sent when it is reaped */
    }
    in->worker = pid;
    in->worker_reply = rq->id;
    in->is_unpacking = rq->type == SNP_INIT_UNPACK;
    return SNP_INIT_LATER;
}

static int on_watch(struct snp_init *in, struct snp_guest_request *rq)
{
    in->watch_limit = snp_body_take(&rq->body, 8);
    in->most_threads = snp_body_take(&rq->body, 4);
    in->is_watching = in->watch_limit != 0 || in->most_threads != 0;
    in->watched = 0;
    in->was_crowded = false;
    return rq->body.bad ? EINVAL : 0;
}

static int on_secret(struct snp_init *in, struct snp_guest_request *rq)
{
    uint64_t secret = snp_body_take(&rq->body, 8);

    (void)in;
    if (!rq->body.bad) {
        snp_init_kill_secret(secret);
    }
    return rq->body.bad ? EINVAL : 0;
}

static const struct {
    uint8_t type;
    bool has_fd; /* takes a descriptor */
    int (*run)(struct snp_init *,
               struct snp_guest_request *); /* 0, errno or LATER; appends to in->out */
} handlers[] = {
    {SNP_INIT_COMMAND, false, on_command}, {SNP_INIT_SIGNAL, false, on_signal},
    {SNP_INIT_STREAM, true, on_stream},    {SNP_INIT_RUN, false, on_run},
    {SNP_INIT_SWEEP, false, on_sweep},     {SNP_INIT_WAKE, true, on_wake},
    {SNP_INIT_SPAWN, true, on_spawn},      {SNP_INIT_PUT, false, on_put},
    {SNP_INIT_GET, false, on_get},         {SNP_INIT_LS, false, on_ls},
    {SNP_INIT_CHANGES, false, on_changes}, {SNP_INIT_WATCH, false, on_watch},
    {SNP_INIT_HOLD, true, on_hold},        {SNP_INIT_DROP, false, on_drop},
    {SNP_INIT_SECRET, false, on_secret},   {SNP_INIT_KEEP, false, on_keep},
    {SNP_INIT_RESTORE, false, on_restore}, {SNP_INIT_PACK, true, on_bundle},
    {SNP_INIT_UNPACK, true, on_bundle},
};

/* Reserve the room that none of our processes needs now; n_more are about to start. */
static void hold_room(const struct snp_init *in, unsigned n_more)
{
    const unsigned taken = snp_sleepers_taken(&in->sleepers) + (in->helper.pid > 0 ? 1 : 0) +
                           (in->relay > 0 ? 1 : 0) + n_more;

    snp_container_hold(taken < in->room ? in->room - taken : 0);
}

/* The next passed descriptor; -1 = none. */
static int take_fd(struct snp_init *in)
{
    int fd = in->n_passed == 0 ? -1 : in->passed_fd[0];

    if (in->n_passed > 0) {
        in->n_passed--;
        memmove(in->passed_fd, in->passed_fd + 1, in->n_passed * sizeof(fd));
    }
    return fd;
}

static void dispatch(struct snp_init *in, struct snp_guest_request *rq)
{
    const uint32_t no_error = 0;
    int r = ENOSYS;

    snp_buf_clear(&in->out);
    if (snp_buf_add(&in->out, &no_error, sizeof(no_error)) < 0) {
        _exit(1);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(handlers); i++) {
        if (handlers[i].type != rq->type) {
            continue;
        }
        rq->fd = handlers[i].has_fd ? take_fd(in) : -1;
        hold_room(in, handlers[i].has_fd ? 1 : 0); /* requests with a descriptor fork a process */
        r = handlers[i].run(in, rq);
        snp_closep(&rq->fd);
        break;
    }
    if (r != SNP_INIT_LATER) {
        send_reply(in, rq->id, r);
    }
}

/*
 * Read available bytes, then run every complete request. Descriptors are in the order of requests.
 */
static void on_control(struct snp_init *in)
{
    int fds[SNP_FDS_MAX];
    size_t n_fds = 0;
    struct snp_guest_request rq;
    char *space;
    ssize_t n;

    if (snp_buf_reserve(&in->in, 64 << 10, &space) < 0) {
        _exit(1);
    }
    n = snp_recv_fds(SNP_INIT_CONTROL_FD, space, 64 << 10, fds, &n_fds);
    if (n <= 0) {
        _exit(0);
    }
    snp_buf_commit(&in->in, (size_t)n);
    for (size_t i = 0; i < n_fds; i++) {
        if (in->n_passed == SNP_ARRAY_LEN(in->passed_fd)) {
            _exit(1);
        }
        in->passed_fd[in->n_passed++] = fds[i];
    }
    while (snp_request_take(&in->in, &rq)) {
        dispatch(in, &rq);
        snp_buf_consume(&in->in, rq.frame_len);
    }
}

static SNP_NORETURN void serve(struct snp_init *in)
{
    struct pollfd polled[POLLED_SLEEPERS + SNP_SLEEPERS_MAX] = {
        [POLLED_CONTROL] = {.fd = SNP_INIT_CONTROL_FD, .events = POLLIN},
        [POLLED_CHILDREN] = {.fd = in->children_fd, .events = POLLIN},
    };

    for (;;) {
        int timeout_ms;
        size_t n;

        snp_look_round(in); /* children that died before the signal was watched */
        hold_room(in, 0);
        n = snp_sleepers_poll(&in->sleepers, polled + POLLED_SLEEPERS, &timeout_ms);
        if (in->is_watching && (timeout_ms < 0 || timeout_ms > SNP_INIT_WATCH_MS)) {
            timeout_ms = SNP_INIT_WATCH_MS;
        }
        if (in->worker > 0 && (timeout_ms < 0 || timeout_ms > WORKER_MS)) {
            timeout_ms = WORKER_MS;
        }
        if (poll(polled, POLLED_SLEEPERS + n, timeout_ms) < 0 && errno != EINTR) {
            _exit(1);
        }
        if (in->worker > 0) {
            (void)snp_init_kill(in->worker, SIGCONT); /* the code may have stopped it */
        }
        if (polled[POLLED_CHILDREN].revents != 0) {
            struct signalfd_siginfo info;
            (void)!read(in->children_fd, &info, sizeof(info));
        }
        if (polled[POLLED_CONTROL].revents != 0) {
            snp_look_round(in);
            on_control(in);
        }
        if (in->is_watching) {
            snp_memory_watch(in);
        }
    }
}

int main(int argc, char **argv)
{
    struct snp_init in = {.command = -1, .worker = -1, .stream_fd = {-1, -1, -1}};
    sigset_t all;

    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "init", 0, 0, 0);
    if (argc < 1 || argc > 3) {
        return 2;
    }
    in.is_container = argc == 1;
    in.relay = in.is_container ? snp_container_enter() : 0;
    in.room = in.is_container ? snp_container_room() : 0;
    in.is_local = argc == 3;
    snp_files_locate(in.is_local ? argv[2] : NULL);
    in.interpreter = argc == 1 ? 0 : snp_pid_of(argv[1]);
    in.diag_fd =
        argc == 2 && fcntl(SNP_INIT_DIAG_FD, F_SETFD, FD_CLOEXEC) == 0 ? SNP_INIT_DIAG_FD : -1;
    in.sleepers.done = on_sleeper;
    in.sleepers.spared = tell_spared;
    in.sleepers.is_alone = is_alone;
    in.sleepers.data = &in;
    if (fcntl(SNP_INIT_PRISTINE_FD, F_SETFD, FD_CLOEXEC) == 0) { /* without a zygote */
        snp_sleepers_init(&in.sleepers, SNP_INIT_PRISTINE_FD);
    }
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    in.has_store = snp_helper_start(
        &in.helper, in.is_local ? argv[2] : NULL); /* before other descriptors take their numbers */
    (void)sigemptyset(&all);
    (void)sigaddset(&all, SIGCHLD);
    in.children_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    for (int fd = SNP_INIT_CONTROL_FD; fd <= SNP_INIT_UPPER_FD; fd++) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
    snp_buf_init(&in.in, SNP_INIT_BODY_MAX + (1 << 20));
    snp_buf_init(&in.out, 8 << 20);
    snp_buf_init(&in.answer, SNP_INIT_BODY_MAX);
    in.changes = snp_changes_new(SNP_INIT_UPPER_FD, in.is_local);
    if (in.children_fd < 0 || in.changes == NULL) {
        return 1;
    }
    if (in.helper.pid > 0) { /* before any code runs that could be rolled back */
        tell_spared(NULL, UINT32_MAX, in.helper.pid, true);
    } else if (in.is_local) {
        tell_spared(NULL, 0, 0, false);
    } /* in the local tier the existing files of the workspace are known by now */
    serve(&in);
}
