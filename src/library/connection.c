/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection. An epoll descriptor represents the socket: a program watches the same descriptor
 * after a restart of the daemon, and need not watch for writing.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "client/client.h"
#include "library/library.h"

static const char version[] = SNP_VERSION;

const char *snipara_version(void)
{
    return version;
}

void snp_library_take(void *ret, size_t ret_size, const void *given)
{
    size_t size = 0;

    memset(ret, 0, ret_size);
    if (given != NULL) {
        memcpy(&size, given, sizeof(size)); /* the first member of each */
        memcpy(ret, given, size < ret_size ? size : ret_size);
    }
}

void snp_library_error(const struct snp_err *err, struct snipara_error *ret)
{
    /* Indexed by their bits: enum snp_recover_way. */
    static const char *const ways[] = {"",
                                       "replay",
                                       "skip",
                                       "replay skip",
                                       "checkpoint",
                                       "replay checkpoint",
                                       "skip checkpoint",
                                       "replay skip checkpoint"};

    *ret = (struct snipara_error){
        .code = (enum snipara_code)err->code,
        .system_error = err->sys_errno,
        .name = snp_code_name(err->code),
        .message = err->msg,
        .object = err->object,
        .limit = err->limit,
        .limit_value = err->limit_value,
        .remedy = snp_remedy_name(err->remedy.kind),
        .remedy_name = err->remedy.name,
        .remedy_value = err->remedy.value,
        .remedy_ways = err->remedy.kind == SNP_REMEDY_RECOVER ? ways[err->remedy.value & 7] : ""};
}

static void watch(struct snipara *box)
{
    const uint32_t events = EPOLLIN | (box->calls.out.len > 0 ? EPOLLOUT : 0);
    struct epoll_event event = {.events = events};

    if (box->calls.fd >= 0 && events != box->events) {
        box->events = events;
        (void)epoll_ctl(box->epoll_fd, EPOLL_CTL_MOD, box->calls.fd, &event);
    }
}

/* The daemon has ended since the last call. */
static bool is_hung_up(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) > 0;
}

int snp_library_watch(struct snipara *box, int fd, struct snp_err *err)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (epoll_ctl(box->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        (void)snp_fail_sys(err, errno, "epoll");
        snp_closep(&fd);
        return err->code;
    }
    box->events = EPOLLIN;
    box->calls.fd = fd;
    return 0;
}

int snp_library_connect(struct snipara *box, struct snp_err *err)
{
    const struct snp_client_options options = {
        .socket_path = box->socket, .has_start = !box->no_start, .signal_fd = -1};
    snp_autoclient struct snp_client *client = NULL;
    int r;

    if (box->pid != getpid()) {
        return snp_fail(
            err, SNP_E_INVALID,
            "this connection belongs to the process that made it; connect again after a fork");
    }
    /* In a callback its frame is still in the connection's buffer. */
    if (!snp_library_root(box)->is_handling && box->calls.n_open == 0 && box->calls.fd >= 0 &&
        is_hung_up(box->calls.fd)) {
        snp_calls_done(&box->calls);
    }
    if (box->calls.fd >= 0) {
        return 0;
    }
    if (box->root != NULL) {
        return snp_fail(err, SNP_E_PEER, "the process of the run has ended");
    }
    r = snp_client_connect(&options, &client, err);
    if (r < 0) {
        return r;
    }
    return snp_library_watch(box, snp_client_take_fd(client), err);
}

/*
 * The programs are in the folder of this library, wherever that is installed; with the static
 * library, in the folder of the program.
 */
static void find_programs(void)
{
    static char folder[PATH_MAX];
    Dl_info info;
    char *slash;

    if (folder[0] != '\0' || dladdr(version, &info) == 0 || info.dli_fname == NULL ||
        strstr(info.dli_fname, "libsnipara-sandbox.so") == NULL ||
        realpath(info.dli_fname, folder) == NULL) {
        return;
    }
    slash = strrchr(folder, '/');
    if (slash != NULL) {
        *slash = '\0';
        snp_own_folder(folder);
    }
}

struct snipara *snp_library_box_new(void)
{
    struct snipara *box = calloc(1, sizeof(*box));

    if (box != NULL) {
        snp_calls_init(&box->calls);
        box->epoll_fd = -1;
        box->pid = getpid();
    }
    return box;
}

const struct snipara_error *snipara_connect(const struct snipara_options *options,
                                            struct snipara **ret)
{
    static _Thread_local struct snp_err err;
    static _Thread_local struct snipara_error error;
    struct snipara_options own;
    struct snipara *box = snp_library_box_new();
    int r = 0;

    *ret = NULL;
    snp_library_take(&own, sizeof(own), options);
    if (box == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_library_error(&err, &error);
        return &error;
    }
    find_programs();
    box->no_start = own.no_start;
    box->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    box->socket = own.socket == NULL ? NULL : strdup(own.socket);
    if (box->epoll_fd < 0) {
        r = snp_fail_sys(&err, errno, "epoll");
    } else if (box->socket == NULL && own.socket != NULL) {
        r = snp_fail(&err, SNP_E_NOMEM, "out of memory");
    } else if (!own.later) {
        r = snp_library_connect(box, &err);
    }
    if (r < 0) {
        snipara_close(box);
        snp_library_error(&err, &error);
        return &error;
    }
    *ret = box;
    return NULL;
}

void snipara_close(struct snipara *box)
{
    if (box == NULL) {
        return;
    }
    if (box->is_handling && box->pid == getpid()) {
        box->is_closed = true;
        return;
    }
    while (box->runs != NULL) {
        struct snipara *run = box->runs;

        box->runs = run->next_run;
        snipara_close(run);
    }
    for (struct snipara_call *call = box->first; call != NULL; call = call->next) {
        call->box = NULL;
        call->id = 0;
        if (!call->is_done) {
            call->done = NULL;
            call->is_done = true;
            (void)snp_fail(&call->err, SNP_E_PEER, "the connection was closed");
            snp_library_error(&call->err, &call->error);
        }
    }
    if (box->wait != NULL) {
        box->wait->box = NULL;
    }
    snp_calls_done(&box->calls);
    if (box->root == NULL && box->epoll_fd >= 0) {
        snp_closep(&box->epoll_fd);
    }
    free(box->socket);
    free(box);
}

int snipara_fd(const struct snipara *box)
{
    return box->epoll_fd;
}

void snp_library_push(struct snipara *box)
{
    struct snp_err err;

    if (box->calls.fd >= 0) { /* the next step detects a broken socket */
        (void)!snp_calls_send(&box->calls, &err);
        watch(box);
    }
}

/*
 * The connection has ended. Requests that the daemon did not read are sent to the next one, which
 * is started if needed.
 */
static void connection_end(struct snipara *box, struct snp_err *err)
{
    struct snp_err again;
    int r;

    if (box->root != NULL || !box->calls.is_unread) {
        snp_calls_drop(&box->calls, err);
    } else if (snp_calls_again(&box->calls, err)) {
        r = snp_library_connect(box, &again);
        if (r < 0) { /* no next daemon: report the first error */
            snp_calls_drop(&box->calls, r == SNP_E_NOT_FOUND ? err : &again);
        }
        snp_library_push(box);
    }
}

static void step(struct snipara *box)
{
    struct snp_err err;
    int r;

    if (box->calls.fd < 0) {
        return;
    }
    r = snp_calls_send(&box->calls, &err);
    r = r < 0 ? r : snp_calls_receive(&box->calls, &err);
    if (r < 0) {
        (void)epoll_ctl(box->epoll_fd, EPOLL_CTL_DEL, box->calls.fd, NULL);
        if (r == SNP_E_PEER && box->root != NULL) {
            (void)snp_fail(&err, r, "the process of the run ended; its work is recorded");
            snp_err_about(&err, box->run_id);
        }
        connection_end(box, &err);
    }
    watch(box);
}

/* The process of a run is gone: its calls, which have ended, become the root's. */
static void run_end(struct snipara *run)
{
    while (run->first != NULL) {
        snp_call_move(run->first, run->root);
    }
    snipara_close(run);
}

size_t snipara_step(struct snipara *box)
{
    size_t n_open;

    if (box->is_handling || box->pid != getpid()) {
        return 0;
    }
    box->is_handling = true;
    step(box);
    for (struct snipara **at = &box->runs; *at != NULL;) { /* callbacks may append runs */
        struct snipara *run = *at;

        step(run);
        if (run->calls.fd < 0) {
            *at = run->next_run;
            run_end(run);
        } else {
            at = &run->next_run;
        }
    }
    box->is_handling = false;
    n_open = box->calls.n_open;
    for (const struct snipara *run = box->runs; run != NULL; run = run->next_run) {
        n_open += run->calls.n_open;
    }
    if (box->is_closed) {
        snipara_close(box);
        n_open = 0;
    }
    return n_open;
}

/* Wait for the sockets: true = an event. until_us: 0 = no limit. */
static bool wait_for_socket(struct snipara *box, uint64_t until_us)
{
    const bool is_one = box->runs == NULL; /* then without epoll */
    struct pollfd p = {.fd = is_one ? box->calls.fd : box->epoll_fd,
                       .events =
                           (short)(POLLIN | (is_one && box->calls.out.len > 0 ? POLLOUT : 0))};
    uint64_t now = until_us == 0 ? 0 : snp_now_us();
    int ms = until_us == 0 ? -1 : now >= until_us ? 0 : (int)((until_us - now + 999) / 1000);

    return poll(&p, 1, ms) > 0;
}

bool snipara_wait(struct snipara_call *call, int timeout_ms)
{
    uint64_t until_us = timeout_ms < 0 ? 0 : snp_now_us() + (uint64_t)timeout_ms * 1000 + 1;
    bool is_ready = true;
    struct snipara *box = call == NULL || call->box == NULL ? NULL : snp_library_root(call->box);

    if (box == NULL || call->is_done || box->is_handling || box->pid != getpid()) {
        return call == NULL || call->is_done;
    }
    struct snp_library_wait wait = {box, call};
    snp_library_push(call->box);
    box->wait = &wait;
    while (is_ready && wait.call != NULL && !call->is_done) {
        is_ready = wait_for_socket(box, until_us);
        if (is_ready) {
            (void)snipara_step(box);
        }
    }
    if (wait.box != NULL) {
        box->wait = NULL;
    }
    return is_ready;
}
