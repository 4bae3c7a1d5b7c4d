/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client.
 *
 * The socket is non-blocking and both directions are handled together: otherwise a daemon that
 * sends much while this client still sends much would deadlock. Signals arrive through a
 * descriptor, so that they are handled only between frames.
 */
#include "client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"
#include "client/calls.h"
#include "client/start.h"
#include "wire/rpc.h"
#include "wire/session.h"

enum {
    START_MS = 20000,   /* for one daemon to be ready; less if it ends */
    CONNECT_MS = 40000, /* for all attempts together */
    RETRY_MS = 20,
    HELLO_MS = 20000,
    WORDS_MAX = 256,
};

struct snp_client {
    struct snp_calls calls; /* fd -1: no longer usable */
    int signal_fd;          /* borrowed */
    bool has_start;         /* of the options */
    unsigned n_signals;
    int signal_no; /* the first; 0 = none */
};

void snp_client_free(struct snp_client *client)
{
    if (client == NULL) {
        return;
    }
    snp_calls_done(&client->calls);
    free(client);
}

void snp_reply_done(struct snp_reply *reply)
{
    json_decref(reply->head);
    free(reply->raw);
    *reply = (struct snp_reply){0};
}

int snp_client_interrupted(const struct snp_client *client)
{
    return client->signal_no;
}

/* Signals and waiting ----------------------------------------------------------------- */

/* The first signal asks the daemon to stop the cell, the second ends the call. */
static int signal_handle(struct snp_client *client, uint32_t id, struct snp_err *err)
{
    struct signalfd_siginfo info;
    ssize_t n = SNP_RETRY(read(client->signal_fd, &info, sizeof(info)));

    if (n <= 0) {
        return 0;
    }
    client->signal_no = client->n_signals++ == 0 ? (int)info.ssi_signo : client->signal_no;
    if (client->n_signals > 1) {
        return snp_fail(err, SNP_E_TIMEOUT, "interrupted twice; the cell was abandoned");
    }
    snp_calls_interrupt(&client->calls, id);
    return 0;
}

/* Wait for the socket or a signal, and handle it. deadline_us: 0 = none. */
static int pump(struct snp_client *client, uint32_t id, uint64_t deadline_us, struct snp_err *err)
{
    struct pollfd p[2] = {
        {.fd = client->calls.fd, .events = POLLIN},
        {.fd = client->signal_fd, .events = POLLIN},
    };
    int wait_ms = -1;
    int n;
    int r = snp_calls_send(&client->calls, err);

    if (r < 0) {
        return r;
    }
    if (client->calls.out.len > 0) {
        p[0].events |= POLLOUT;
    }
    if (deadline_us != 0) {
        uint64_t now = snp_now_us();

        if (now >= deadline_us) {
            return snp_fail(err, SNP_E_TIMEOUT, "the daemon does not answer");
        }
        wait_ms = (int)((deadline_us - now + 999) / 1000);
    }
    n = poll(p, 2, wait_ms);
    if (n < 0 && errno != EINTR) {
        return snp_fail_sys(err, errno, "poll");
    }
    if (n > 0 && p[1].revents != 0) {
        r = signal_handle(client, id, err);
    }
    if (r == 0 && n > 0 && (p[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        r = snp_calls_receive(&client->calls, err);
    }
    return r;
}

/* Calls ------------------------------------------------------------------------------- */

struct waiting {
    const struct snp_call *call;
    struct snp_reply *ret;
    struct snp_err *err;
    uint32_t id;
    bool is_over;
    int r;
};

static void on_event(void *ctx, const json_t *head, const char *raw, size_t raw_len)
{
    struct waiting *w = ctx;

    if (w->call->event != NULL && w->r == 0) {
        w->r = w->call->event(w->call->ctx, head, raw, raw_len, w->err);
    }
}

static void on_done(
    void *ctx, const struct snp_err *err, json_t *head, const char *raw, size_t raw_len)
{
    struct waiting *w = ctx;
    char *copy = err != NULL || w->r < 0 ? NULL : malloc(raw_len + 1);

    w->is_over = true;
    if (w->r < 0) {
        return;
    }
    if (err != NULL) {
        *w->err = *err;
        w->r = err->code;
    } else if (copy == NULL) {
        w->r = snp_fail(w->err, SNP_E_NOMEM, "out of memory");
    } else {
        if (raw_len > 0) {
            memcpy(copy, raw, raw_len);
        }
        copy[raw_len] = '\0';
        *w->ret = (struct snp_reply){json_incref(head), copy, raw_len};
    }
}

static int call_begin(struct snp_client *client, struct waiting *w)
{
    const struct snp_async_call begun = {.head = json_incref(w->call->head),
                                         .raw = w->call->raw,
                                         .raw_len = w->call->raw_len,
                                         .event = on_event,
                                         .done = on_done,
                                         .ctx = w};

    if (client->calls.fd < 0) {
        json_decref(begun.head);
        return snp_fail(w->err, SNP_E_PEER, "the connection to the daemon is closed");
    }
    return snp_calls_begin(&client->calls, &begun, &w->id, w->err);
}

static int call_wait(struct snp_client *client, const struct waiting *w, uint64_t deadline_us)
{
    int r = 0;

    while (!w->is_over && w->r == 0 && r == 0) {
        r = pump(client, w->id, deadline_us, w->err);
    }
    return r;
}

/* r: of call_wait(), or of the following call. */
static int call_end(struct snp_client *client, const struct waiting *w, int r)
{
    if (!w->is_over) { /* later frames of the call must find no recipient */
        snp_calls_done(&client->calls);
    }
    return w->r < 0 ? w->r : r;
}

/* Connect to the next daemon, which gets the requests that the previous one did not read. */
static int reconnect(struct snp_client *client, struct snp_err *err)
{
    const struct snp_client_options options = {.has_start = true, .signal_fd = -1};
    snp_autoclient struct snp_client *next = NULL;

    SNP_TRY(snp_client_connect(&options, &next, err));
    client->calls.fd = snp_client_take_fd(next);
    return 0;
}

int snp_client_call(struct snp_client *client,
                    const struct snp_call *call,
                    struct snp_reply *ret,
                    struct snp_err *err)
{
    struct waiting w = {.call = call, .ret = ret, .err = err};
    int r = call_begin(client, &w);

    SNP_TRY(r);
    r = call_wait(client, &w, 0);
    if (r == SNP_E_PEER && client->has_start && client->calls.is_unread &&
        snp_calls_again(&client->calls, err) && !w.is_over) {
        r = reconnect(client, err);
        r = r < 0 ? r : call_wait(client, &w, 0);
    }
    return call_end(client, &w, r);
}

int snp_client_take_fd(struct snp_client *client)
{
    SNP_ASSERT(client->calls.in.len == 0 && client->calls.out.len == 0);
    return SNP_TAKE_FD(client->calls.fd);
}

/* Connecting -------------------------------------------------------------------------- */

/* SNP_E_NOT_FOUND: no daemon listens, so starting one would help. */
static int socket_connect(const char *path, int *ret_fd, struct snp_err *err)
{
    snp_autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred cred = {0};
    socklen_t len = sizeof(cred);

    memcpy(address.sun_path, path, strlen(path)); /* its length was checked */
    if (fd < 0) {
        return snp_fail_sys(err, errno, "socket");
    }
    if (SNP_RETRY(connect(fd, (const struct sockaddr *)&address, sizeof(address))) < 0) {
        if (errno == ENOENT || errno == ECONNREFUSED) {
            return snp_fail(err, SNP_E_NOT_FOUND, "no daemon answers at %s", path);
        }
        return snp_fail_sys(err, errno, "connect to %s", path);
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || cred.uid != geteuid()) {
        return snp_fail(err, SNP_E_DENIED, "%s is served by another user", path);
    }
    if (snp_set_nonblock(fd, true) < 0) {
        return snp_fail_sys(err, errno, "socket");
    }
    *ret_fd = SNP_TAKE_FD(fd);
    return 0;
}

/* The daemon does not take its folder from a client, so a client that names another is refused. */
static int state_check(const json_t *greeting, struct snp_err *err)
{
    const char *own = getenv("SNIPARA_SANDBOX_STATE_DIR");   /* NOLINT(concurrency-mt-unsafe) */
    const char *id = snp_json_str(greeting, "state_id", ""); /* an older daemon sends none */
    char own_id[SNP_DIR_ID_MAX + 1];

    if (own == NULL || own[0] == '\0' || id[0] == '\0' ||
        strcmp(snp_dir_id(own, own_id), id) == 0) {
        return 0;
    }
    return snp_fail(err, SNP_E_INVALID,
                    "the running daemon has the state folder %.120s, but SNIPARA_SANDBOX_STATE_DIR "
                    "is %.120s; unset it, stop that daemon (snipara-sandbox daemon stop), or set "
                    "SNIPARA_SANDBOX_RUNTIME_DIR, too, for another daemon",
                    snp_json_str(greeting, "state_dir", "?"), own);
}

/* Connect and greet once. SNP_E_NOT_FOUND: retry after starting a daemon. */
static int greet(const char *path,
                 const struct snp_client_options *options,
                 struct snp_client **ret,
                 struct snp_err *err)
{
    snp_autoclient struct snp_client *client = calloc(1, sizeof(*client));
    snp_autojson json_t *head = SNP_WRITE(snp_hello_request, .version = SNP_RPC_VERSION);
    snp_autoreply struct snp_reply reply = {0};
    struct snp_call hello = {.head = head};
    struct waiting w = {.call = &hello, .ret = &reply, .err = err};
    int r;

    if (client == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    snp_calls_init(&client->calls); /* before any failure: snp_client_free closes it */
    client->signal_fd = -1;
    if (head == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = socket_connect(path, &client->calls.fd, err);
    if (r < 0) {
        return r;
    }
    r = call_begin(client, &w);
    SNP_TRY(r);
    r = call_wait(client, &w, snp_now_us() + (uint64_t)HELLO_MS * 1000);
    r = call_end(client, &w, r);
    if (r == SNP_E_PEER && client->calls.fd < 0) {
        /* It was about to end; the next one will answer. */
        return snp_fail(err, SNP_E_NOT_FOUND, "the daemon at %s is ending", path);
    }
    if (r == SNP_E_UNSUPPORTED) {
        return snp_err_wrap(err, "daemon and client do not match; stop the daemon and try again");
    }
    SNP_TRY(r);
    SNP_TRY(options->any_state ? 0 : state_check(reply.head, err));
    client->signal_fd = options->signal_fd;
    *ret = SNP_TAKE_PTR(client);
    return 0;
}

static int start_and_greet(const char *path,
                           const struct snp_client_options *options,
                           struct snp_client **ret,
                           struct snp_err *err)
{
    uint64_t deadline = snp_now_us() + (uint64_t)CONNECT_MS * 1000;
    char words[WORDS_MAX];
    int r;

    for (;;) {
        r = snp_daemon_start(START_MS, err);
        if (r < 0) {
            return snp_err_wrap(err, "the daemon cannot start");
        }
        r = greet(path, options, ret, err);
        if (r != SNP_E_NOT_FOUND) {
            return r;
        }
        if (snp_now_us() > deadline - (uint64_t)(CONNECT_MS - START_MS) * 1000) {
            break;
        }
        (void)poll(NULL, 0, RETRY_MS);
    }
    return snp_fail(err, SNP_E_PEER, "the daemon does not start%s",
                    snp_daemon_last_words(words, sizeof(words)));
}

int snp_client_connect(const struct snp_client_options *options,
                       struct snp_client **ret,
                       struct snp_err *err)
{
    const bool has_start = options->has_start && options->socket_path == NULL;
    snp_autofree char *path = NULL;
    int r;

    if (options->socket_path != NULL) {
        r = snp_socket_path_check(options->socket_path, err);
        path = strdup(options->socket_path);
    } else {
        r = snp_socket_path(&path, err);
    }
    if (r < 0) {
        return r;
    }
    if (path == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = greet(path, options, ret, err);
    if (r == SNP_E_NOT_FOUND && has_start) {
        r = start_and_greet(path, options, ret, err);
    }
    SNP_TRY(r);
    SNP_ASSERT(*ret != NULL);
    (*ret)->has_start = has_start;
    return 0;
}
