/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLIENT_CONNECTION_H
#define SNP_CLIENT_CONNECTION_H

/*
 * Calls over one connection to the daemon: it connects with the first call (and starts the daemon
 * if none runs), and again after a daemon has ended. Only snp_connection_wait() blocks.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "client/calls.h"

struct snp_connection {
    struct snp_calls calls;
    int epoll_fd; /* borrowed: readable when a step has work, also after a restart of the daemon */
    uint32_t events; /* watched now */
    char *socket;    /* owned; NULL = the socket of the user's daemon */
    bool no_start;
    bool any_state; /* also a daemon with another state folder than this process names */
    struct snp_greeting *greeting; /* owned; NULL = connected, or no call yet */
    int timer_fd;                  /* owned, with the greeting */
};

/* Unconnected. */
void snp_connection_init(struct snp_connection *connection, int epoll_fd);

/* Close, and drop all calls without callbacks. */
void snp_connection_done(struct snp_connection *connection);

/* Take over a connected socket. fd: consumed, also on failure. */
int snp_connection_take(struct snp_connection *connection,
                        int fd,
                        struct snp_err *err) SNP_NODISCARD;

/* Begin to connect, if needed; until that is done calls are queued. */
int snp_connection_open(struct snp_connection *connection, struct snp_err *err) SNP_NODISCARD;

/* Open, begin a call as snp_calls_begin() does, and push. */
int snp_connection_call(struct snp_connection *connection,
                        const struct snp_async_call *call,
                        uint32_t *ret_id,
                        struct snp_err *err) SNP_NODISCARD;

/* Connect, and wait for it: about 1 ms if a daemon runs, else 40 s at most. */
int snp_connection_wait(struct snp_connection *connection, struct snp_err *err) SNP_NODISCARD;

/* The same for snp_calls_interrupt(). */
void snp_connection_interrupt(struct snp_connection *connection, uint32_t id);

/* Send as much as possible. The next step reports a broken socket. */
void snp_connection_push(struct snp_connection *connection);

/*
 * Continue to connect, send, receive. It fails when the connection has ended or cannot be made:
 * snp_connection_lost(), or snp_calls_drop() if there is no next daemon.
 */
int snp_connection_step(struct snp_connection *connection, struct snp_err *err) SNP_NODISCARD;

/*
 * End the open calls because of err, except one that the daemon did not read, which the next daemon
 * gets.
 */
void snp_connection_lost(struct snp_connection *connection, const struct snp_err *err);

#endif
