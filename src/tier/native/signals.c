/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and groups are named by numbers in registers, which cannot change while the caller
 * waits: unless the number is a snapshot's, the kernel runs the call. A pidfd can be replaced while
 * it is checked, so the supervisor takes it and sends the signal; it also sends signals to -1. Pid
 * 1 need not ask (snp_filter_marked).
 *
 * Signals sent here have the supervisor's rights. So a target must be proven to be in the pid
 * namespace of the session, where every process has the caller's user: calls that change users are
 * not allowed.
 */
#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "tier/host/forked.h"
#include "tier/host/procs.h"
#include "tier/native/native.h"

static bool is_spared(const struct snp_asked *a, pid_t pid)
{
    return snp_spared_has(&a->sandbox->spared, pid);
}

/* kill(-1): every process that the kernel would signal, except the snapshots. */
static int signal_all(const struct snp_asked *a, int number)
{
    struct snp_procs procs = {0};
    pid_t caller = snp_proc_leader((pid_t)a->req->pid);
    size_t reached = 0;

    if (!snp_asked_waits(a)) {
        return EINTR;
    }
    snp_procs_below(snp_forked_of(a->sandbox)->process.pid, &procs);
    for (size_t i = 0; i < procs.n; i++) {
        const struct snp_proc *p = &procs.at[i];
        if (p->pid != caller && !is_spared(a, snp_proc_inner(p->pid)) &&
            snp_proc_signal(p, number) == 0) {
            reached++;
        }
    }
    snp_procs_done(&procs);
    return reached > 0 ? 0 : ESRCH;
}

static int do_kill(struct snp_asked *a)
{
    pid_t to = (pid_t)a->req->data.args[0];
    int number = (int)a->req->data.args[1];

    if (to == -1 && (pid_t)a->req->pid != snp_forked_of(a->sandbox)->process.pid) {
        return number < 0 || number > SIGRTMAX ? EINVAL : signal_all(a, number);
    }
    if (is_spared(a, to < -1 ? -to : to) &&
        (pid_t)a->req->pid != snp_forked_of(a->sandbox)->process.pid) {
        return EPERM;
    }
    a->goes_on = true;
    return 0;
}

static int do_tgkill(struct snp_asked *a)
{
    if (is_spared(a, (pid_t)a->req->data.args[0]) || is_spared(a, (pid_t)a->req->data.args[1])) {
        return EPERM;
    }
    a->goes_on = true;
    return 0;
}

/* Duplicate the caller's descriptor; -1 with errno. */
static int take_descriptor(pid_t caller, int fd)
{
    snp_autoclose int pidfd = (int)syscall(SYS_pidfd_open, snp_proc_leader(caller), 0);

    return pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
}

static int do_pidfd_send_signal(struct snp_asked *a)
{
    snp_autoclose int target = take_descriptor((pid_t)a->req->pid, (int)a->req->data.args[0]);
    pid_t pid;

    if (!snp_asked_waits(a)) {
        return EINTR;
    }
    if (target < 0) {
        return EBADF;
    }
    if (a->req->data.args[3] != 0) {
        return EINVAL;
    }
    pid = snp_pidfd_inner(target, snp_forked_of(a->sandbox)->process.pidfd);
    if (pid <= 0) {
        return -pid;
    }
    if (is_spared(a, pid)) {
        return EPERM;
    }
    if (pid == 1) {
        return 0; /* the kernel would not signal pid 1 from inside, but would from us */
    }
    /* The call's siginfo would only tell the receiver the sender: drop it. */
    return syscall(SYS_pidfd_send_signal, target, (int)a->req->data.args[1], NULL, 0) < 0 ? errno
                                                                                          : 0;
}

const struct snp_emulated snp_native_calls[] = {
    {"kill", do_kill},
    {"tgkill", do_tgkill},
    {"pidfd_send_signal", do_pidfd_send_signal},
    {NULL, NULL},
};
