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
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "base/fd.h"
#include "client/connection.h"

struct snp_client {
    struct snp_connection connection; /* fd -1: no longer usable */
    int signal_fd;                    /* borrowed */
    int signal_no;                    /* the first; 0 = none */
};

void snp_client_free(struct snp_client *client)
{
    if (client == NULL) {
        return;
    }
    snp_connection_done(&client->connection);
    snp_closep(&client->connection.epoll_fd);
    free(client);
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
    if (client->signal_no != 0) {
        return snp_fail(err, SNP_E_TIMEOUT, "interrupted twice; the cell was abandoned");
    }
    client->signal_no = (int)info.ssi_signo;
    snp_connection_interrupt(&client->connection, id);
    return 0;
}

/* Wait for the socket or a signal, and handle it. */
static int pump(struct snp_client *client, uint32_t id, struct snp_err *err)
{
    struct snp_connection *connection = &client->connection;
    struct pollfd p[2] = {
        {.fd = connection->epoll_fd, .events = POLLIN},
        {.fd = client->signal_fd, .events = POLLIN},
    };
    struct snp_err lost;
    int n = poll(p, 2, -1);

    if (n < 0 && errno != EINTR) {
        return snp_fail_sys(err, errno, "poll");
    }
    if (n > 0 && p[1].revents != 0) {
        SNP_TRY(signal_handle(client, id, err));
    }
    if (n > 0 && p[0].revents != 0 && snp_connection_step(connection, &lost) < 0) {
        snp_connection_lost(connection, &lost);
    }
    return 0;
}

/* Calls ------------------------------------------------------------------------------- */

struct waiting {
    const struct snp_call *call;
    struct snp_reply *ret;
    struct snp_err *err;
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

int snp_client_call(struct snp_client *client,
                    const struct snp_call *call,
                    struct snp_reply *ret,
                    struct snp_err *err)
{
    struct snp_calls *calls = &client->connection.calls;
    struct waiting w = {.call = call, .ret = ret, .err = err};
    const struct snp_async_call begun = {.head = call->head,
                                         .raw = call->raw,
                                         .raw_len = call->raw_len,
                                         .event = on_event,
                                         .done = on_done,
                                         .ctx = &w};
    uint32_t id = 0;
    int r = 0;

    if (calls->fd < 0) {
        return snp_fail(err, SNP_E_PEER, "the connection to the daemon is closed");
    }
    (void)json_incref(call->head);
    SNP_TRY(snp_connection_call(&client->connection, &begun, &id, err));
    while (!w.is_over && w.r == 0 && r == 0) {
        r = pump(client, id, err);
    }
    if (!w.is_over) { /* later frames of the call must find no recipient */
        snp_calls_done(calls);
    }
    return w.r < 0 ? w.r : r;
}

int snp_client_connect(const struct snp_client_options *options,
                       struct snp_client **ret,
                       struct snp_err *err)
{
    snp_autoclient struct snp_client *client = calloc(1, sizeof(*client));
    struct snp_connection *connection = client == NULL ? NULL : &client->connection;

    SNP_TRY_MEMORY(client != NULL, err);
    snp_connection_init(connection, epoll_create1(EPOLL_CLOEXEC));
    client->signal_fd = options->signal_fd;
    connection->no_start = !options->has_start;
    connection->any_state = options->any_state;
    if (options->socket_path != NULL) {
        connection->socket = strdup(options->socket_path);
        SNP_TRY_MEMORY(connection->socket != NULL, err);
    }
    SNP_TRY(snp_connection_wait(connection, err));
    *ret = SNP_TAKE_PTR(client);
    return 0;
}
