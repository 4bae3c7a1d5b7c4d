/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLIENT_CLIENT_H
#define SNP_CLIENT_CLIENT_H

/*
 * A blocking client of the daemon: connect (starting the daemon if none runs), call, receive events
 * until the answer. One request at a time; not thread-safe.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/wire/call.h"

struct snp_client;

struct snp_client_options {
    const char *socket_path; /* NULL = in the runtime folder */
    bool has_start;          /* start the daemon if none answers */
    /*
     * A signalfd (or any descriptor with records of 128 bytes): the first record interrupts the
     * running cell and the second ends the call; -1 = none. Borrowed.
     */
    int signal_fd;
    bool any_state; /* also a daemon with another state folder than this process names */
};

/* *ret is the caller's: snp_client_free(). Blocks as snp_connection_wait(). */
int snp_client_connect(const struct snp_client_options *options,
                       struct snp_client **ret,
                       struct snp_err *err) SNP_NODISCARD;
void snp_client_free(struct snp_client *client);
SNP_DEFINE_CLEANUP(struct snp_client *, snp_client_free)
#define snp_autoclient snp_cleanup(snp_client_freep)

/*
 * Call and wait for the answer. The daemon's ERROR is returned as its code and message. A request
 * that the daemon certainly did not read is sent to the next one, once. SNP_E_PEER also: the daemon
 * has ended, and the client can no longer be used. SNP_E_TIMEOUT: interrupted twice, the same
 * applies.
 */
int snp_client_call(struct snp_client *client,
                    const struct snp_call *call,
                    struct snp_reply *ret,
                    struct snp_err *err) SNP_NODISCARD;

/* The first signal received through signal_fd since the client connected; 0 = none. */
int snp_client_interrupted(const struct snp_client *client);

#endif
