/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An epoll descriptor represents the socket, and before it the attempt to connect: a program
 * watches the same descriptor all the time, and need not watch for writing.
 */
#include "client/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "client/greet.h"

static int watch(const struct snp_connection *connection, int fd, struct snp_err *err)
{
    struct epoll_event event = {.events = EPOLLIN};

    return fd < 0 || epoll_ctl(connection->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0
               ? 0
               : snp_fail_sys(err, errno, "epoll");
}

static void unwatch(const struct snp_connection *connection, int fd)
{
    if (fd >= 0) {
        (void)epoll_ctl(connection->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    }
}

void snp_connection_init(struct snp_connection *connection, int epoll_fd)
{
    *connection = (struct snp_connection){.epoll_fd = epoll_fd, .timer_fd = -1};
    snp_calls_init(&connection->calls);
}

void snp_connection_done(struct snp_connection *connection)
{
    snp_greeting_free(SNP_TAKE_PTR(connection->greeting));
    snp_closep(&connection->timer_fd);
    snp_calls_done(&connection->calls);
    free(SNP_TAKE_PTR(connection->socket));
}

int snp_connection_take(struct snp_connection *connection, int fd, struct snp_err *err)
{
    snp_autoclose int owned = fd;

    SNP_TRY(watch(connection, fd, err));
    connection->events = EPOLLIN;
    connection->calls.fd = SNP_TAKE_FD(owned);
    return 0;
}

/* r: of a step that is not 0. */
static int greeting_end(struct snp_connection *connection, int r, struct snp_err *err)
{
    if (r > 0) {
        r = snp_connection_take(connection, snp_greeting_take_fd(connection->greeting), err);
    }
    unwatch(connection, connection->timer_fd);
    snp_closep(&connection->timer_fd);
    snp_greeting_free(SNP_TAKE_PTR(connection->greeting));
    return r;
}

/* Wait for the next step of the attempt. */
static int greeting_watch(const struct snp_connection *connection, struct snp_err *err)
{
    uint64_t until_us = snp_greeting_until(connection->greeting);
    const struct itimerspec at = {.it_value = {.tv_sec = (time_t)(until_us / 1000000),
                                               .tv_nsec = (long)(until_us % 1000000) * 1000}};

    (void)timerfd_settime(connection->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
    return watch(connection, snp_greeting_fd(connection->greeting), err);
}

static int greeting_begin(struct snp_connection *connection, struct snp_err *err)
{
    return snp_greeting_begin(connection->socket, connection->no_start, connection->any_state,
                              &connection->greeting, err);
}

int snp_connection_open(struct snp_connection *connection, struct snp_err *err)
{
    int r;

    if (connection->calls.fd >= 0 || connection->greeting != NULL) {
        return 0;
    }
    SNP_TRY(greeting_begin(connection, err));
    connection->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    r = connection->timer_fd < 0 ? snp_fail_sys(err, errno, "timerfd")
                                 : watch(connection, connection->timer_fd, err);
    r = r < 0 ? r : greeting_watch(connection, err);
    return r < 0 ? greeting_end(connection, r, err) : 0;
}

void snp_connection_push(struct snp_connection *connection)
{
    const struct snp_calls *calls = &connection->calls;
    struct snp_err err;
    struct epoll_event event;

    if (calls->fd < 0) {
        return;
    }
    (void)!snp_calls_send(&connection->calls, &err);
    event.events = EPOLLIN | (calls->out.len > 0 ? EPOLLOUT : 0);
    if (event.events != connection->events) {
        connection->events = event.events;
        (void)epoll_ctl(connection->epoll_fd, EPOLL_CTL_MOD, calls->fd, &event);
    }
}

int snp_connection_call(struct snp_connection *connection,
                        const struct snp_async_call *call,
                        uint32_t *ret_id,
                        struct snp_err *err)
{
    if (snp_connection_open(connection, err) < 0) {
        json_decref(call->head);
        return err->code;
    }
    SNP_TRY(snp_calls_begin(&connection->calls, call, ret_id, err));
    snp_connection_push(connection);
    return 0;
}

void snp_connection_interrupt(struct snp_connection *connection, uint32_t id)
{
    snp_calls_interrupt(&connection->calls, id);
    snp_connection_push(connection);
}

static int greeting_step(struct snp_connection *connection, struct snp_err *err)
{
    int r;

    unwatch(connection, snp_greeting_fd(connection->greeting)); /* the step may close it */
    r = snp_greeting_step(connection->greeting, err);
    r = r == 0 ? greeting_watch(connection, err) : r;
    return r == 0 ? 0 : greeting_end(connection, r, err);
}

int snp_connection_wait(struct snp_connection *connection, struct snp_err *err)
{
    int r = greeting_begin(connection, err);

    while (r == 0) { /* without epoll and its timer */
        struct pollfd p = {.fd = snp_greeting_fd(connection->greeting), .events = POLLIN};
        uint64_t until_us = snp_greeting_until(connection->greeting);
        uint64_t now = snp_now_us();

        (void)poll(&p, 1, until_us > now ? (int)((until_us - now + 999) / 1000) : 0);
        r = snp_greeting_step(connection->greeting, err);
    }
    return greeting_end(connection, r, err);
}

int snp_connection_step(struct snp_connection *connection, struct snp_err *err)
{
    int r = connection->greeting == NULL ? 0 : greeting_step(connection, err);

    if (r < 0 || connection->calls.fd < 0) {
        return r;
    }
    r = snp_calls_send(&connection->calls, err);
    r = r < 0 ? r : snp_calls_receive(&connection->calls, err);
    if (r < 0) {
        unwatch(connection, connection->calls.fd);
    } else {
        snp_connection_push(connection);
    }
    return r;
}

void snp_connection_lost(struct snp_connection *connection, const struct snp_err *err)
{
    struct snp_err again;
    int r;

    if (!connection->calls.is_unread) {
        snp_calls_drop(&connection->calls, err);
    } else if (snp_calls_again(&connection->calls, err)) {
        r = snp_connection_open(connection, &again);
        if (r < 0) { /* no next daemon: report the first error */
            snp_calls_drop(&connection->calls, r == SNP_E_NOT_FOUND ? err : &again);
        }
    }
}
