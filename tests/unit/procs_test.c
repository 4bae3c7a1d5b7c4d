/* SPDX-License-Identifier: Apache-2.0 */
#include "tier/host/procs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "unit/harness.h"

enum {
    STACK = 64 << 10
};

static int sleep_here(void *unused)
{
    (void)unused;
    return pause();
}

/*
 * A pidfd of a new process that sleeps, in the namespaces of flags; -1 where that is not allowed.
 */
static int start(int flags, pid_t *ret_pid)
{
    char *stack = malloc(STACK);
    int pidfd = -1;

    assert_non_null(stack);
    *ret_pid = clone(sleep_here, stack + STACK, flags | CLONE_PIDFD | SIGCHLD, NULL, &pidfd);
    free(stack); /* the child has a copy */
    return *ret_pid < 0 ? -1 : pidfd;
}

static void stop(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(a_process_is_numbered_only_where_it_is_proven_to_be)
{
    snp_autoclose int own = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (own < 0) {
        /* valgrind does not know this call; a process that was started would outlive the test */
        skip();
    }
    snp_autoclose int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t near;
    pid_t far;
    snp_autoclose int near_fd = start(0, &near);
    snp_autoclose int far_fd = start(CLONE_NEWUSER | CLONE_NEWPID, &far);

    assert_true(near_fd >= 0 && null_fd >= 0);
    assert_int_equal(snp_pidfd_inner(own, near_fd), snp_proc_inner(getpid()));
    assert_int_equal(snp_pidfd_inner(near_fd, own), snp_proc_inner(near));
    assert_int_equal(snp_pidfd_inner(null_fd, own), -EBADF);
    assert_int_equal(snp_pidfd_inner(own, null_fd), -EPERM);
    if (far_fd >= 0) { /* a host may forbid namespaces */
        assert_int_equal(snp_pidfd_inner(far_fd, far_fd), 1);
        assert_int_equal(snp_pidfd_inner(far_fd, own), -EPERM);
        assert_int_equal(snp_pidfd_inner(own, far_fd), -EPERM);
        stop(far);
    }
    stop(near);
    assert_int_equal(snp_pidfd_inner(near_fd, own), -ESRCH);
}

RUN(UNIT(a_process_is_numbered_only_where_it_is_proven_to_be))
