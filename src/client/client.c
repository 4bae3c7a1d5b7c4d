/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client.
 *
 * The socket is non-blocking and both directions are pumped together: a daemon that sends
 * much while we still send much would otherwise wait for us as we wait for it.
 * Signals come through a descriptor, so that they are handled between frames and nowhere else.
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

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"
#include "client/socket.h"
#include "client/start.h"
#include "wire/frame.h"
#include "wire/rpc.h"
#include "wire/session.h"

enum {
    START_MS =
        20000, /* for one daemon to say that it is ready; one that ends is not waited for */
    CONNECT_MS = 40000, /* for all attempts together */
    RETRY_MS = 20,
    HELLO_MS = 20000,
    WORDS_MAX = 256,
};

struct snp_client {
    int fd;        /* owned; -1 = of no more use */
    int signal_fd; /* borrowed */
    unsigned n_signals;
    uint32_t last_id;
    struct snp_buf in;
    struct snp_buf out;
};

static void client_close(struct snp_client *client)
{
    snp_closep(&client->fd);
    client->fd = -1;
}

void snp_client_free(struct snp_client *client)
{
    if (client == NULL) {
        return;
    }
    client_close(client);
    snp_buf_done(&client->in);
    snp_buf_done(&client->out);
    free(client);
}

void snp_reply_done(struct snp_reply *reply)
{
    json_decref(reply->head);
    free(reply->raw);
    *reply = (struct snp_reply){0};
}

bool snp_client_interrupted(const struct snp_client *client)
{
    return client->n_signals > 0;
}

/* Signals and waiting ----------------------------------------------------------------- */

/* The first signal asks the daemon to stop the cell, the second gives up. */
static int signal_handle(struct snp_client *client, uint32_t id, struct snp_err *err)
{
    struct signalfd_siginfo info;
    snp_autojson json_t *head = NULL;
    ssize_t n = SNP_RETRY(read(client->signal_fd, &info, sizeof(info)));

    if (n <= 0) {
        return 0;
    }
    client->n_signals++;
    if (client->n_signals > 1) {
        return snp_fail(err, SNP_E_TIMEOUT, "interrupted twice; the cell was abandoned");
    }
    head = SNP_WRITE(snp_interrupt_request, .request = id);
    return snp_socket_queue(
        &client->out, &(struct snp_socket_request){.id = ++client->last_id, .head = head}, err);
}

/* Wait until something can be done, and do it. deadline_us: 0 = none. */
static int pump(struct snp_client *client,
                uint32_t id,
                uint64_t deadline_us,
                struct snp_err *err)
{
    struct pollfd p[2] = {
        {.fd = client->fd,        .events = POLLIN},
        {.fd = client->signal_fd, .events = POLLIN},
    };
    int wait_ms = -1;
    int n;
    int r = snp_socket_send(client->fd, &client->out, err);

    if (r < 0) {
        return r;
    }
    if (client->out.len > 0) {
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
        r = snp_socket_receive(client->fd, &client->in, err);
    }
    return r;
}

/* Calls ------------------------------------------------------------------------------- */

/* 1: the call is answered; 0: go on. */
static int frame_handle(const struct snp_call *call,
                        const struct snp_frame *frame,
                        struct snp_reply *ret,
                        struct snp_err *err)
{
    snp_autojson json_t *head = NULL;
    char *raw;
    int r = snp_json_parse(frame->head, frame->head_len, &head, err);

    if (r < 0) {
        return snp_err_wrap(err, "the daemon's answer");
    }
    switch (frame->type) {
    case SNP_RPC_EVENT:
        return call->event == NULL
                   ? 0
                   : call->event(call->ctx, head, frame->raw, frame->raw_len, err);
    case SNP_RPC_ERROR:
        return snp_json_to_err(head, err);
    case SNP_RPC_RESPONSE:
        raw = malloc(frame->raw_len + 1);
        if (raw == NULL) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        if (frame->raw_len > 0) {
            memcpy(raw, frame->raw, frame->raw_len);
        }
        raw[frame->raw_len] = '\0';
        *ret = (struct snp_reply){SNP_TAKE_PTR(head), raw, frame->raw_len};
        return 1;
    default:
        return snp_fail(err, SNP_E_PEER, "the daemon sent a frame of type %u", frame->type);
    }
}

/* Handle what has come; *ret_over says whether the call has ended, well or badly. */
static int frames_handle(struct snp_client *client,
                         uint32_t id,
                         const struct snp_call *call,
                         struct snp_reply *ret,
                         bool *ret_over,
                         struct snp_err *err)
{
    for (;;) {
        struct snp_frame frame;
        size_t size = 0;
        bool has = false;
        int r = snp_frame_peek(&client->in, SNP_FRAME_BODY_MAX, &frame, &size, &has, err);

        if (r < 0) {
            client_close(client);
            return r;
        }
        if (!has) {
            return 0;
        }
        r = 0;
        /* Answers to our own interrupt carry another id; what concerns all has none. */
        if (frame.id == id || frame.id == 0) {
            r = frame_handle(call, &frame, ret, err);
            *ret_over = r == 1 || (r < 0 && frame.type == SNP_RPC_ERROR);
            if (r < 0 && !*ret_over) {
                client_close(client); /* events of a call given up would still come */
            }
        }
        snp_buf_consume(&client->in, size);
        if (r != 0) {
            return r < 0 ? r : 0;
        }
    }
}

static int call_run(struct snp_client *client,
                    const struct snp_call *call,
                    uint64_t deadline_us,
                    struct snp_reply *ret,
                    struct snp_err *err)
{
    bool over = false;
    uint32_t id;
    int r;

    if (client->fd < 0) {
        return snp_fail(err, SNP_E_PEER, "the connection to the daemon is closed");
    }
    id = ++client->last_id;
    r = snp_socket_queue(&client->out,
                         &(struct snp_socket_request){id, call->head, call->raw, call->raw_len},
                         err);
    if (r < 0) {
        return r;
    }
    while (!over) {
        r = pump(client, id, deadline_us, err);
        if (r < 0) {
            client_close(client);
            return r;
        }
        r = frames_handle(client, id, call, ret, &over, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int snp_client_call(struct snp_client *client,
                    const struct snp_call *call,
                    struct snp_reply *ret,
                    struct snp_err *err)
{
    return call_run(client, call, 0, ret, err);
}

int snp_client_take_fd(struct snp_client *client)
{
    SNP_ASSERT(client->in.len == 0 && client->out.len == 0);
    return SNP_TAKE_FD(client->fd);
}

/* Connecting -------------------------------------------------------------------------- */

/* SNP_E_NOT_FOUND: nobody is there, which a new daemon would change. */
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

/* Connect and greet once. SNP_E_NOT_FOUND: try again after starting a daemon. */
static int greet(const char *path, int signal_fd, struct snp_client **ret, struct snp_err *err)
{
    snp_autoclient struct snp_client *client = calloc(1, sizeof(*client));
    snp_autojson json_t *head = SNP_WRITE(snp_hello_request, .version = SNP_RPC_VERSION);
    snp_autoreply struct snp_reply reply = {0};
    struct snp_call hello = {.head = head};
    int r;

    if (client == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    client->fd = -1; /* before anything fails: what is freed is closed */
    client->signal_fd = -1;
    if (head == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    snp_buf_init(&client->in, SNP_FRAME_HEADER_LEN + SNP_FRAME_BODY_MAX + SNP_SOCKET_READ);
    snp_buf_init(&client->out, (size_t)2 * (SNP_FRAME_HEADER_LEN + SNP_FRAME_BODY_MAX));
    r = socket_connect(path, &client->fd, err);
    if (r < 0) {
        return r;
    }
    r = call_run(client, &hello, snp_now_us() + (uint64_t)HELLO_MS * 1000, &reply, err);
    if (r == SNP_E_PEER && client->fd < 0) {
        /* It was about to end; the next one will answer. */
        return snp_fail(err, SNP_E_NOT_FOUND, "the daemon at %s is ending", path);
    }
    if (r == SNP_E_UNSUPPORTED) {
        return snp_err_wrap(err,
                            "daemon and client do not match; stop the daemon and try again");
    }
    if (r < 0) {
        return r;
    }
    client->signal_fd = signal_fd;
    *ret = SNP_TAKE_PTR(client);
    return 0;
}

static int start_and_greet(const char *path,
                           int signal_fd,
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
        r = greet(path, signal_fd, ret, err);
        if (r != SNP_E_NOT_FOUND) {
            return r;
        }
        if (snp_now_us() > deadline - (uint64_t)(CONNECT_MS - START_MS) * 1000) {
            break;
        }
        (void)poll(NULL, 0, RETRY_MS);
    }
    return snp_fail(err, SNP_E_PEER, "the daemon does not start; its last words: %s",
                    snp_daemon_last_words(words, sizeof(words)));
}

int snp_client_connect(const struct snp_client_options *options,
                       struct snp_client **ret,
                       struct snp_err *err)
{
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
    r = greet(path, options->signal_fd, ret, err);
    if (r == SNP_E_NOT_FOUND && options->has_start && options->socket_path == NULL) {
        return start_and_greet(path, options->signal_fd, ret, err);
    }
    return r;
}
