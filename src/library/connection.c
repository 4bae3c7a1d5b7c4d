/* SPDX-License-Identifier: Apache-2.0 */
/* A connection, and those of its runs. */
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

/* The daemon has ended since the last call. */
static bool is_hung_up(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};

    return poll(&p, 1, 0) > 0;
}

int snp_library_connect(struct snipara *box, struct snp_err *err)
{
    struct snp_calls *calls = &box->connection.calls;

    if (box->pid != getpid()) {
        return snp_fail(
            err, SNP_E_INVALID,
            "this connection belongs to the process that made it; connect again after a fork");
    }
    /* In a callback its frame is still in the connection's buffer. */
    if (!snp_library_root(box)->is_handling && calls->n_open == 0 && calls->fd >= 0 &&
        is_hung_up(calls->fd)) {
        snp_calls_done(calls);
    }
    if (calls->fd < 0 && box->root != NULL) {
        return snp_fail(err, SNP_E_PEER, "the process of the run has ended");
    }
    return snp_connection_open(&box->connection, err);
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

struct snipara *snp_library_box_new(int epoll_fd)
{
    struct snipara *box = calloc(1, sizeof(*box));

    if (box != NULL) {
        snp_connection_init(&box->connection, epoll_fd);
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
    struct snipara *box = snp_library_box_new(-1);
    struct snp_connection *connection;
    int r = 0;

    *ret = NULL;
    snp_library_take(&own, sizeof(own), options);
    if (box == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_library_error(&err, &error);
        return &error;
    }
    find_programs();
    connection = &box->connection;
    connection->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    connection->no_start = own.no_start;
    connection->socket = own.socket == NULL ? NULL : strdup(own.socket);
    if (connection->epoll_fd < 0) {
        r = snp_fail_sys(&err, errno, "epoll");
    } else if (connection->socket == NULL && own.socket != NULL) {
        r = snp_fail(&err, SNP_E_NOMEM, "out of memory");
    } else if (!own.later) {
        r = snp_connection_wait(connection, &err);
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
    snp_connection_done(&box->connection);
    if (box->root == NULL) {
        snp_closep(&box->connection.epoll_fd);
    }
    free(box);
}

int snipara_fd(const struct snipara *box)
{
    return box->connection.epoll_fd;
}

static void step(struct snipara *box)
{
    struct snp_err err;
    int r = snp_connection_step(&box->connection, &err);

    if (r < 0 && box->root == NULL) {
        snp_connection_lost(&box->connection, &err);
    } else if (r < 0) {
        if (r == SNP_E_PEER) {
            (void)snp_fail(&err, r, "the process of the run ended; its work is recorded");
            snp_err_about(&err, box->run_id);
        }
        snp_calls_drop(&box->connection.calls, &err);
    }
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
        if (run->connection.calls.fd < 0) {
            *at = run->next_run;
            run_end(run);
        } else {
            at = &run->next_run;
        }
    }
    box->is_handling = false;
    n_open = box->connection.calls.n_open;
    for (const struct snipara *run = box->runs; run != NULL; run = run->next_run) {
        n_open += run->connection.calls.n_open;
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
    const struct snp_calls *calls = &box->connection.calls;
    const bool is_one = box->runs == NULL && calls->fd >= 0; /* then without epoll */
    struct pollfd p = {.fd = is_one ? calls->fd : box->connection.epoll_fd,
                       .events = (short)(POLLIN | (is_one && calls->out.len > 0 ? POLLOUT : 0))};
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
    snp_connection_push(&call->box->connection);
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
