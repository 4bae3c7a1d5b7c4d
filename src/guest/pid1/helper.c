/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request at a time: pid 1's actions on a sandbox have an order, which includes work on files.
 * A stopped helper is continued; if it has ended, pid 1 ends too, because the state of its work is
 * unknown.
 */
#include "guest/pid1/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "guest/pid1/kill.h"
#include "guest/pid1/wire.h"
#include "guest/spec.h"

enum {
    READ_LEN = 64 << 10,
    STILL_MS = 500 /* after this it may have been stopped */
};

/* Keep only the descriptors that it needs, under the same numbers. */
static SNP_NORETURN void become_helper(int stream_fd, const char *folder)
{
    char *argv[] = {(char *)(uintptr_t) "files", (char *)(uintptr_t)folder, NULL};
    char *envp[] = {NULL};
    struct pollfd first = {.fd = SNP_FILES_CONTROL_FD, .events = POLLIN};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)prctl(PR_SET_NAME, "files", 0, 0, 0);
    if (dup2(0, 1) < 0 || dup2(0, 2) < 0 || dup2(stream_fd, SNP_FILES_CONTROL_FD) < 0) {
        _exit(126);
    }
    (void)close(SNP_INIT_PRISTINE_FD);
    (void)fcntl(SNP_INIT_FILES_FD, F_SETFD, FD_CLOEXEC);
    (void)syscall(SYS_close_range, SNP_INIT_FILES_FD + 1, ~0U, 0);
    while (poll(&first, 1, -1) < 0 && errno == EINTR) {
    }
    if ((first.revents & POLLIN) != 0) { /* else pid 1 has ended */
        (void)syscall(SYS_execveat, SNP_INIT_FILES_FD, "", argv, envp, AT_EMPTY_PATH);
    }
    _exit(126);
}

/* Move a descriptor above the reserved numbers. */
static int park(int *fd)
{
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, SNP_INIT_FILES_FD + 1);

    snp_closep(fd);
    *fd = high;
    return high;
}

bool snp_helper_start(struct snp_helper *h, const char *folder)
{
    bool has_store = fcntl(SNP_INIT_COPIES_FD, F_SETFD, 0) == 0;
    int pair[2] = {-1, -1};
    pid_t pid = -1;

    if (has_store && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
        park(&pair[0]) >= 0 && park(&pair[1]) >= 0 && snp_set_nonblock(pair[0], true) == 0) {
        pid = fork();
    }
    if (pid == 0) {
        become_helper(pair[1], folder);
    }
    if (has_store && pid < 0) {
        _exit(1);
    }
    snp_closep(&pair[1]);
    (void)close(SNP_INIT_FILES_FD);
    (void)close(SNP_INIT_BASE_FD);
    (void)fcntl(SNP_INIT_COPIES_FD, F_SETFD, FD_CLOEXEC);
    *h = (struct snp_helper){.pid = pid, .fd = pair[0]};
    return has_store;
}

static void await(const struct snp_helper *h, short events)
{
    struct pollfd polled = {.fd = h->fd, .events = events};

    if (poll(&polled, 1, STILL_MS) == 0 && h->pid > 0) {
        (void)snp_init_kill(h->pid, SIGCONT);
    }
}

void snp_helper_tell(struct snp_helper *h, const char *frame, size_t n)
{
    while (n > 0) {
        ssize_t done = send(h->fd, frame, n, MSG_NOSIGNAL);

        if (done < 0 && errno != EAGAIN && errno != EINTR) {
            _exit(1);
        }
        if (done < 0) {
            await(h, POLLOUT);
            continue;
        }
        frame += done;
        n -= (size_t)done;
    }
}

static bool is_whole(const struct snp_buf *frame)
{
    uint32_t len;

    if (frame->len < SNP_INIT_HEADER_LEN) {
        return false;
    }
    memcpy(&len, snp_buf_bytes(frame), sizeof(len));
    return frame->len >= SNP_INIT_HEADER_LEN + (size_t)len;
}

void snp_helper_ask(
    struct snp_helper *h, const char *frame, size_t n, int fd, struct snp_buf *answer)
{
    snp_buf_clear(answer);
    if (fd >= 0) { /* no other request is active, so there is room */
        if (snp_init_send_fd(h->fd, frame[0], fd) < 0) {
            _exit(1);
        }
        frame++;
        n--;
    }
    snp_helper_tell(h, frame, n);
    while (!is_whole(answer)) {
        char *space;
        ssize_t got;

        await(h, POLLIN);
        if (snp_buf_reserve(answer, READ_LEN, &space) < 0) {
            _exit(1);
        }
        got = read(h->fd, space, READ_LEN);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            _exit(1);
        }
        snp_buf_commit(answer, got < 0 ? 0 : (size_t)got);
    }
}
