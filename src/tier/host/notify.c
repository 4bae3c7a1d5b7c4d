/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that makes a refused call sleeps until we answer. To keep code from occupying the
 * supervisor with such calls, answers above a rate wait for the rest of the tenth of a second.
 */
#include "tier/host/notify.h"

#include <errno.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "tier/engine/stream/handle.h"

enum {
    RATE_MAX = 500,
    CHEAP = 10, /* this many calls run by the kernel count as one */
    WINDOW_US = 100000
};

/* Calls with a familiar name; all others are "syscalls". */
static const struct {
    const char *call;
    const char *control;
    const char *hint;
} known[] = {
    {"socket", "network", "only unix, TCP and UDP sockets exist here, and no network behind them"},
    {"mount", "filesystem", "mounts are fixed when the sandbox starts"},
    {"umount2", "filesystem", "mounts are fixed when the sandbox starts"},
    {"unshare", "syscalls", "namespaces cannot be nested"},
    {"clone", "syscalls", "namespaces cannot be nested"},
    {"setns", "syscalls", "namespaces cannot be entered"},
    {"ptrace", "syscalls", "debuggers and tracers do not work in the sandbox"},
    {"process_vm_readv", "syscalls", "debuggers and tracers do not work in the sandbox"},
    {"process_vm_writev", "syscalls", "debuggers and tracers do not work in the sandbox"},
    {"io_uring_setup", "syscalls", "io_uring is closed; programs fall back to ordinary calls"},
    {"sched_setaffinity", "resources", "CPUs are assigned by the sandbox"},
    {"setuid", "syscalls", "the sandbox has one user"},
    {"setgid", "syscalls", "the sandbox has one user"},
    {"chroot", "filesystem", "the root is fixed when the sandbox starts"},
    /* In the local tier: */
    {"kill", "syscalls", "only processes of the session can be signalled, except its copies"},
    {"chmod", "filesystem", "modes can be changed only in the workspace and in TMPDIR"},
    {"fchmod", "filesystem", "modes can be changed only in the workspace and in TMPDIR"},
    {"fchmodat", "filesystem", "modes can be changed only in the workspace and in TMPDIR"},
    {"utimensat", "filesystem", "times can be changed only in the workspace and in TMPDIR"},
    {"fchown", "filesystem", "the sandbox has one user"},
    {"fchownat", "filesystem", "the sandbox has one user"},
    {"openat", "filesystem", "open a file for reading or for writing"},
    {"sendmsg", "syscalls", "descriptors cannot be sent; send() sends bytes"},
    {"fcntl", "syscalls", "descriptors send no signals in the sandbox"},
    {"getsockopt", "syscalls",
     "only the socket options that servers and clients use are available"},
    {"setsockopt", "syscalls",
     "only the socket options that servers and clients use are available"},
};

static const struct {
    uint64_t domain;
    const char *name;
} domain_names[] = {
    {AF_NETLINK, "AF_NETLINK"}, {AF_PACKET, "AF_PACKET"},       {AF_VSOCK, "AF_VSOCK"},
    {AF_ALG, "AF_ALG"},         {AF_BLUETOOTH, "AF_BLUETOOTH"}, {AF_XDP, "AF_XDP"},
    {AF_TIPC, "AF_TIPC"}};

bool snp_asked_waits(const struct snp_asked *a)
{
    return seccomp_notify_id_valid(a->listener_fd, a->req->id) == 0;
}

bool snp_emulate(const struct snp_emulated *table,
                 struct snp_asked *a,
                 struct seccomp_notif_resp *resp)
{
    for (; table != NULL && table->call != NULL; table++) {
        if (seccomp_syscall_resolve_name(table->call) == a->req->data.nr) {
            resp->error = -table->run(a);
            resp->flags = a->goes_on ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
            return true;
        }
    }
    return false;
}

static void describe(struct snp_notify *notify, const struct seccomp_notif *req)
{
    char *name = seccomp_syscall_resolve_num_arch(req->data.arch, req->data.nr);
    char number[32];
    char object[64] = "";
    struct snp_denial d = {
        .source = "kernel",
        .control = "syscalls",
        .object = object,
        .rule = "not in the list of allowed calls",
        .hint = "this call is not available in the sandbox",
    };

    (void)snprintf(number, sizeof(number), "syscall %d", req->data.nr);
    d.operation = name == NULL ? number : name;
    for (size_t i = 0; i < SNP_ARRAY_LEN(known); i++) {
        if (strcmp(known[i].call, d.operation) == 0) {
            d.control = known[i].control;
            d.hint = known[i].hint;
        }
    }
    if (strcmp(d.operation, "socket") == 0) {
        (void)snprintf(object, sizeof(object), "domain %u, type %u, protocol %u",
                       (unsigned)req->data.args[0], (unsigned)req->data.args[1] & 0xfU,
                       (unsigned)req->data.args[2]);
        for (size_t i = 0; i < SNP_ARRAY_LEN(domain_names); i++) {
            if (domain_names[i].domain == (req->data.args[0] & 0xffffffffU)) {
                (void)snprintf(object, sizeof(object), "%s", domain_names[i].name);
            }
        }
    }
    if (strcmp(d.operation, "ioctl") == 0) {
        (void)snprintf(object, sizeof(object), "request 0x%x", (unsigned)req->data.args[1]);
    }
    if (strcmp(d.operation + 1, "etsockopt") == 0) {
        (void)snprintf(object, sizeof(object), "level %d, option %d", (int)req->data.args[1],
                       (int)req->data.args[2]);
    }
    notify->cb(notify->data, &d);
    free(name);
}

/* Answer one waiting call. False when there is none (left). */
static bool answer_one(struct snp_notify *notify)
{
    struct seccomp_notif req = {0};
    struct seccomp_notif_resp resp = {0};
    struct snp_asked asked = {.sandbox = notify->data, .listener_fd = notify->fd, .req = &req};
    char *name;

    if (ioctl(notify->fd, SECCOMP_IOCTL_NOTIF_RECV, &req) < 0) {
        return false; /* ENOENT: the caller was killed */
    }
    resp.id = req.id;
    if (snp_emulate(notify->emulated, &asked, &resp)) {
        if (resp.error == -EPERM) {
            describe(notify, &req);
        }
        (void)ioctl(notify->fd, SECCOMP_IOCTL_NOTIF_SEND, &resp);
        if (resp.flags != 0 && notify->n_cheap++ % CHEAP != 0) {
            notify->in_window--;
        }
        return true;
    }
    name = seccomp_syscall_resolve_num_arch(req.data.arch, req.data.nr);
    resp.error = name == NULL ? -ENOSYS : -EPERM; /* a call without a name does not exist */
    free(name);
    describe(notify, &req);
    (void)ioctl(notify->fd, SECCOMP_IOCTL_NOTIF_SEND, &resp);
    return true;
}

static void on_listener(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
    struct snp_notify *notify = timer->data;

    if (notify->poll != NULL) {
        (void)uv_poll_start(notify->poll, UV_READABLE | UV_DISCONNECT, on_listener);
    }
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    struct snp_notify *notify = poll->data;
    uint64_t now = snp_now_us();

    if (status < 0 || (events & UV_DISCONNECT) != 0) {
        (void)uv_poll_stop(poll); /* no process with this filter is left */
        return;
    }
    if (now - notify->window_us > WINDOW_US) {
        notify->window_us = now;
        notify->in_window = 0;
    }
    if (notify->in_window++ >= RATE_MAX) {
        (void)uv_poll_stop(poll);
        (void)uv_timer_start(notify->pause, on_pause_over, WINDOW_US / 1000, 0);
        return;
    }
    (void)answer_one(notify);
}

int snp_notify_open(struct snp_notify *notify,
                    uv_loop_t *loop,
                    int fd,
                    snp_notify_cb cb,
                    void *data,
                    struct snp_err *err)
{
    *notify = (struct snp_notify){.fd = fd, .cb = cb, .data = data};
    notify->poll = snp_poll_new(loop, fd, notify);
    notify->pause = snp_timer_new(loop, notify);
    if (notify->poll == NULL || notify->pause == NULL) {
        snp_notify_close(notify);
        snp_closep(&notify->fd);
        return snp_fail(err, SNP_E_NOMEM, "cannot watch the seccomp listener");
    }
    (void)uv_poll_start(notify->poll, UV_READABLE | UV_DISCONNECT, on_listener);
    return 0;
}

void snp_notify_close(struct snp_notify *notify)
{
    if (notify->poll != NULL || notify->pause != NULL) {
        snp_handle_close(&notify->poll);
        snp_handle_close(&notify->pause);
        snp_closep(&notify->fd);
    }
}
