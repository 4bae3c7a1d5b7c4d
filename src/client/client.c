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

#include "base/fd.h"
#include "client/calls.h"

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

/* Wait for the socket or a signal, and handle it. */
static int pump(struct snp_client *client, uint32_t id, struct snp_err *err)
{
    struct pollfd p[2] = {
        {.fd = client->calls.fd, .events = POLLIN},
        {.fd = client->signal_fd, .events = POLLIN},
    };
    int n;
    int r = snp_calls_send(&client->calls, err);

    if (r < 0) {
        return r;
    }
    if (client->calls.out.len > 0) {
        p[0].events |= POLLOUT;
    }
    n = poll(p, 2, -1);
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

static int call_wait(struct snp_client *client, const struct waiting *w)
{
    int r = 0;

    while (!w->is_over && w->r == 0 && r == 0) {
        r = pump(client, w->id, w->err);
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

    return snp_greet(&options, &client->calls.fd, err);
}

int snp_client_call(struct snp_client *client,
                    const struct snp_call *call,
                    struct snp_reply *ret,
                    struct snp_err *err)
{
    struct waiting w = {.call = call, .ret = ret, .err = err};
    int r = call_begin(client, &w);

    SNP_TRY(r);
    r = call_wait(client, &w);
    if (r == SNP_E_PEER && client->has_start && client->calls.is_unread &&
        snp_calls_again(&client->calls, err) && !w.is_over) {
        r = reconnect(client, err);
        r = r < 0 ? r : call_wait(client, &w);
    }
    return call_end(client, &w, r);
}

int snp_client_connect(const struct snp_client_options *options,
                       struct snp_client **ret,
                       struct snp_err *err)
{
    snp_autoclient struct snp_client *client = calloc(1, sizeof(*client));

    SNP_TRY_MEMORY(client != NULL, err);
    snp_calls_init(&client->calls); /* before any failure: snp_client_free closes it */
    client->signal_fd = options->signal_fd;
    client->has_start = options->has_start && options->socket_path == NULL;
    SNP_TRY(snp_greet(options, &client->calls.fd, err));
    *ret = SNP_TAKE_PTR(client);
    return 0;
}
