/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request waits for its copy without blocking others: the loop polls the socket. A copy that does
 * not answer in time, answers wrongly, or runs unasked, is killed.
 */
#include "guest/pid1/sleepers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "guest/pid1/frame.h"
#include "guest/pid1/kill.h"
#include "guest/spec.h"

enum {
    HOLD_MS = 3000,
    WAKE_MS = 12000,
    CONT_TRIES = 20,
    PRISTINE = 0
};

void snp_sleepers_init(struct snp_sleepers *bs, int pristine_fd)
{
    bs->at[0] =
        (struct snp_sleeper){.number = PRISTINE, .fd = pristine_fd, .waits_for = SNP_COPY_ASLEEP};
    bs->n = 1;
}

static struct snp_sleeper *find(struct snp_sleepers *bs, uint32_t number)
{
    for (size_t i = 0; i < bs->n; i++) {
        if (bs->at[i].number == number && !bs->at[i].is_dropped) {
            return &bs->at[i];
        }
    }
    return NULL;
}

/* An entry that is being ended may have the same pid. */
static struct snp_sleeper *find_pid(const struct snp_sleepers *bs, pid_t pid, bool is_dropped_too)
{
    for (size_t i = 0; i < bs->n; i++) {
        if (bs->at[i].pid == pid && (is_dropped_too || !bs->at[i].is_dropped)) {
            return (struct snp_sleeper *)(uintptr_t)&bs->at[i];
        }
    }
    return NULL;
}

bool snp_sleepers_has(const struct snp_sleepers *bs, pid_t pid)
{
    return find_pid(bs, pid, true) != NULL;
}

bool snp_sleepers_spare(const struct snp_sleepers *bs, pid_t pid)
{
    return find_pid(bs, pid, false) != NULL || snp_sleepers_is_job(bs, pid);
}

bool snp_sleepers_is_job(const struct snp_sleepers *bs, pid_t pid)
{
    for (size_t i = 0; i < bs->n_jobs; i++) {
        if (bs->jobs[i] == pid) {
            return true;
        }
    }
    return false;
}

bool snp_sleepers_add_job(struct snp_sleepers *bs, pid_t pid)
{
    if (bs->n_jobs == SNP_INIT_JOBS_MAX) {
        return false;
    }
    bs->jobs[bs->n_jobs++] = pid;
    bs->spared(bs->data, UINT32_MAX, pid, true);
    return true;
}

static int begin_wake(struct snp_sleeper *b, bool is_job, int fd, uint32_t reply_to);

/* Start the wake that was delayed. */
static void wake_next(struct snp_sleepers *bs, struct snp_sleeper *b, int eno)
{
    struct snp_sleeper told = *b;
    snp_autoclose int fd = b->next.fd == 0 ? -1 : b->next.fd;

    memset(&b->next, 0, sizeof(b->next));
    if (fd < 0) {
        return;
    }
    eno = eno != 0 ? eno : begin_wake(b, told.next.is_job, fd, told.next.reply_to);
    if (eno != SNP_INIT_LATER) {
        told.waits_for = SNP_COPY_AWAKE;
        told.is_job = told.next.is_job;
        told.reply_to = told.next.reply_to;
        bs->done(bs->data, &told, eno, -1);
    }
}

/* Answer the request. is_there: the copy can be woken again. */
static void answer(
    struct snp_sleepers *bs, struct snp_sleeper *b, int eno, pid_t pid, bool is_there)
{
    struct snp_sleeper told = *b;

    b->reply_to = 0;
    b->waits_for = 0;
    if (told.reply_to != 0) {
        bs->done(bs->data, &told, eno, pid);
    }
    wake_next(bs, b, is_there ? 0 : ECHILD);
}

static void stop(struct snp_sleeper *b, pid_t woken)
{
    b->is_stopping = true;
    b->woken = woken;
    (void)snp_init_kill(b->pid, SIGSTOP);
}

static void let_go_on(const struct snp_sleeper *b)
{
    siginfo_t ours;

    /* In the local tier the supervisor must find it, and may not see it at once. */
    for (int i = 0; i < CONT_TRIES && snp_init_kill(b->pid, SIGCONT) < 0; i++) {
        (void)poll(NULL, 0, 1);
    }
    /* so that another's becomes visible */
    (void)waitid(P_PID, (id_t)b->pid, &ours, WCONTINUED | WNOHANG);
}

static void forget(struct snp_sleepers *bs, struct snp_sleeper *b)
{
    snp_closep(&b->fd);
    *b = bs->at[--bs->n];
}

/* Kill an unusable copy. */
static void give_up(struct snp_sleepers *bs, struct snp_sleeper *b, int eno)
{
    answer(bs, b, eno, -1, false);
    if (b->pid > 1) {
        bs->n_ended++;
        (void)snp_init_kill(b->pid, SIGKILL);
        b->is_dropped = true; /* until it is reaped */
        snp_closep(&b->fd);
        return;
    }
    forget(bs, b);
}

int snp_sleepers_add(struct snp_sleepers *bs, uint32_t number, int fd, uint32_t reply_to)
{
    const int on = 1;
    int own;

    if (fd < 0 || number == PRISTINE || find(bs, number) != NULL) {
        return EINVAL;
    }
    if (bs->n == SNP_SLEEPERS_MAX) {
        return ENOSPC;
    }
    own = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0 || setsockopt(own, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0) {
        int eno = errno;
        snp_closep(&own);
        return eno;
    }
    bs->at[bs->n++] = (struct snp_sleeper){.number = number,
                                           .fd = own,
                                           .waits_for = SNP_COPY_ASLEEP,
                                           .reply_to = reply_to,
                                           .until_ms = snp_now_ms() + HOLD_MS};
    return SNP_INIT_LATER;
}

static int begin_wake(struct snp_sleeper *b, bool is_job, int fd, uint32_t reply_to)
{
    if (snp_init_send_fd(b->fd, 'W', fd) < 0) {
        return ECHILD;
    }
    let_go_on(b);
    b->waits_for = SNP_COPY_AWAKE;
    b->is_job = is_job;
    b->reply_to = reply_to;
    b->until_ms = snp_now_ms() + WAKE_MS;
    return SNP_INIT_LATER;
}

int snp_sleepers_wake(
    struct snp_sleepers *bs, uint32_t number, bool is_job, int stream_fd, uint32_t reply_to)
{
    struct snp_sleeper *b = find(bs, number);

    if (stream_fd < 0) {
        return EINVAL;
    }
    if (b == NULL || b->pid <= 0) {
        return ESRCH;
    }
    if (b->waits_for == 0) {
        return begin_wake(b, is_job, stream_fd, reply_to);
    }
    if (b->waits_for != SNP_COPY_AWAKE || b->next.fd > 0) {
        return EBUSY;
    }
    /* The woken process may have ended before the copy has stopped again. */
    b->next.fd = fcntl(stream_fd, F_DUPFD_CLOEXEC, 3);
    if (b->next.fd < 0) {
        b->next.fd = 0;
        return errno;
    }
    b->next.is_job = is_job;
    b->next.reply_to = reply_to;
    return SNP_INIT_LATER;
}

int snp_sleepers_drop(struct snp_sleepers *bs, uint32_t number, uint32_t reply_to)
{
    struct snp_sleeper *b = find(bs, number);

    if (b == NULL || number == PRISTINE) {
        return b == NULL ? ESRCH : EINVAL;
    }
    answer(bs, b, ECANCELED, -1, false);
    if (b->pid <= 0) { /* it ends at the end of its stream */
        forget(bs, b);
        return 0;
    }
    b->is_dropped = true;
    b->reply_to = reply_to;
    snp_closep(&b->fd);
    (void)snp_init_kill(b->pid, SIGKILL);
    return SNP_INIT_LATER;
}

bool snp_sleepers_reaped(struct snp_sleepers *bs, pid_t pid)
{
    struct snp_sleeper *b = find_pid(bs, pid, true);

    for (size_t i = 0; i < bs->n_jobs; i++) {
        if (bs->jobs[i] == pid) {
            bs->jobs[i] = bs->jobs[--bs->n_jobs];
            bs->spared(bs->data, UINT32_MAX, pid, false);
            return true;
        }
    }
    if (b == NULL) {
        return false;
    }
    b->pid = -1;
    answer(bs, b, b->is_dropped ? 0 : ECHILD, -1, false);
    bs->spared(bs->data, b->number, pid, false);
    forget(bs, b);
    return true;
}

size_t snp_sleepers_poll(const struct snp_sleepers *bs, struct pollfd *ret, int *ret_timeout_ms)
{
    uint64_t first = UINT64_MAX;
    uint64_t now = 0;
    size_t n = 0;

    for (size_t i = 0; i < bs->n; i++) {
        const struct snp_sleeper *b = &bs->at[i];
        if (b->waits_for == 0 || b->fd < 0) {
            continue;
        }
        if (!b->is_stopping) {
            ret[n++] = (struct pollfd){.fd = b->fd, .events = POLLIN};
        }
        if (b->until_ms != 0 && b->until_ms < first) {
            first = b->until_ms;
            now = snp_now_ms();
        }
    }
    *ret_timeout_ms = first == UINT64_MAX ? -1 : first <= now ? 0 : (int)(first - now);
    return n;
}

/* Receive a byte and its sender; 0 if there is none yet, -1 at the end of the stream. */
static int hear(int fd, char *ret_byte, pid_t *ret_pid)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = ret_byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &part,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof(control.room)};
    ssize_t n = SNP_RETRY(recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));

    *ret_pid = -1;
    if (n <= 0) {
        return n < 0 && errno == EAGAIN ? 0 : -1;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c != NULL; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET) {
            continue;
        }
        if (c->cmsg_type == SCM_CREDENTIALS) {
            struct ucred who;
            memcpy(&who, CMSG_DATA(c), sizeof(who));
            *ret_pid = who.pid;
        } else if (c->cmsg_type == SCM_RIGHTS) { /* only hostile code sends descriptors */
            int *fds = (int *)(void *)CMSG_DATA(c);
            for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len; i++) {
                (void)close(fds[i]);
            }
        }
    }
    return 1;
}

static bool is_known(const struct snp_sleepers *bs, pid_t pid, const pid_t *other, size_t n_other)
{
    for (size_t i = 0; i < n_other; i++) {
        if (other[i] == pid) {
            return true;
        }
    }
    return snp_sleepers_spare(bs, pid);
}

/* Is it alive and our child? Only then we notice its end and can end it. */
static bool is_living_child(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

static void on_byte(struct snp_sleepers *bs, struct snp_sleeper *b, char byte, pid_t pid)
{
    if (b->waits_for == SNP_COPY_ASLEEP) {
        b->pid = pid;
    } else if (byte == SNP_COPY_AWAKE && b->is_job && pid > 1) {
        (void)snp_sleepers_add_job(bs, pid);
    }
    stop(b, byte == SNP_COPY_FAILED ? 0 : pid);
}

/* The copy has stopped: answer the request. */
static void at_rest(struct snp_sleepers *bs, struct snp_sleeper *b)
{
    bool is_gone =
        b->waits_for == SNP_COPY_AWAKE && !b->is_job && b->woken > 1 && !is_living_child(b->woken);

    if (!bs->is_alone(bs->data, b->pid, b->woken)) {
        give_up(bs, b, EPROTO);
        return;
    }
    b->is_stopping = false;
    if (b->waits_for == SNP_COPY_ASLEEP) {
        bs->spared(bs->data, b->number, b->pid, true);
    }
    answer(bs, b, b->woken == 0 ? EAGAIN : is_gone ? ECHILD : 0, b->woken, true);
}

void snp_sleepers_moved(struct snp_sleepers *bs, pid_t pid, bool is_stopped)
{
    struct snp_sleeper *b = find_pid(bs, pid, false);

    if (b == NULL || (b->waits_for != 0 && !b->is_stopping)) {
        return;
    }
    if (is_stopped && b->is_stopping) {
        at_rest(bs, b);
    } else {
        give_up(bs, b, EPROTO);
    }
}

static bool is_awake(const struct snp_sleeper *b)
{
    return b->pid > 1 && !b->is_dropped && b->waits_for != 0;
}

unsigned snp_sleepers_coming(const struct snp_sleepers *bs)
{
    unsigned n = 0;

    for (size_t i = 0; i < bs->n; i++) {
        n += bs->at[i].waits_for == SNP_COPY_ASLEEP && !bs->at[i].is_dropped ? 1 : 0;
    }
    return n;
}

unsigned snp_sleepers_awake(const struct snp_sleepers *bs)
{
    unsigned n = 0;

    for (size_t i = 0; i < bs->n; i++) {
        n += is_awake(&bs->at[i]) ? 1 : 0;
    }
    return n;
}

unsigned snp_sleepers_taken(const struct snp_sleepers *bs)
{
    unsigned n = (unsigned)(bs->n + bs->n_jobs);

    for (size_t i = 0; i < bs->n; i++) {
        n += bs->at[i].waits_for == SNP_COPY_AWAKE && bs->at[i].is_job ? 1 : 0;
    }
    return n;
}

void snp_sleepers_end_awake(struct snp_sleepers *bs, pid_t job)
{
    for (size_t i = bs->n; i-- > 0;) {
        if (is_awake(&bs->at[i])) {
            give_up(bs, &bs->at[i], ECANCELED);
        }
    }
    for (size_t i = bs->n_jobs; i-- > 0;) {
        pid_t pid = bs->jobs[i];

        if (pid != job) {
            bs->jobs[i] = bs->jobs[--bs->n_jobs];
            bs->spared(bs->data, UINT32_MAX, pid, false);
            (void)snp_init_kill(pid, SIGKILL);
        }
    }
}

unsigned snp_sleepers_dying(const struct snp_sleepers *bs)
{
    unsigned n = 0;

    for (size_t i = 0; i < bs->n; i++) {
        n += bs->at[i].is_dropped ? 1 : 0;
    }
    return n;
}

static void look_at(struct snp_sleepers *bs,
                    struct snp_sleeper *b,
                    const pid_t *other,
                    size_t n_other)
{
    char byte = 0;
    pid_t pid = -1;
    int r = b->is_stopping ? 0 : hear(b->fd, &byte, &pid);

    if (r == 0) {
        if (b->until_ms != 0 && b->until_ms <= snp_now_ms()) {
            give_up(bs, b, ETIMEDOUT);
        }
        return;
    }
    if (r > 0 && b->waits_for == SNP_COPY_AWAKE && byte == SNP_COPY_FAILED && pid == b->pid) {
        on_byte(bs, b, byte, -1);
        return;
    }
    if (r < 0 || byte != (char)b->waits_for || pid <= 1 || is_known(bs, pid, other, n_other)) {
        give_up(bs, b, r < 0 ? ECHILD : EPROTO);
        return;
    }
    if (is_living_child(pid)) {
        on_byte(bs, b, byte, pid);
    } else if (b->waits_for == SNP_COPY_AWAKE && b->is_job) {
        on_byte(bs, b, byte, -1); /* a short job may have ended and been reaped already */
    } else {
        give_up(bs, b, EPROTO);
    }
}

void snp_sleepers_look(struct snp_sleepers *bs, const pid_t *other, size_t n_other)
{
    for (size_t i = bs->n; i-- > 0;) { /* removal moves the last entry */
        if (bs->at[i].waits_for != 0 && bs->at[i].fd >= 0) {
            look_at(bs, &bs->at[i], other, n_other);
        }
    }
}
