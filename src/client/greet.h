/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLIENT_GREET_H
#define SNP_CLIENT_GREET_H

/* An attempt to reach the daemon: connect, start it if none runs, greet it. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct snp_client_options {
    const char *socket_path; /* NULL = in the runtime folder */
    bool has_start;          /* start the daemon if none answers */
    /*
     * Of a blocking client: a signalfd (or any descriptor with records of 128 bytes): the first
     * record interrupts the running cell and the second ends the call; -1 = none. Borrowed.
     */
    int signal_fd;
    bool any_state; /* also a daemon with another state folder than this process names */
};

struct snp_greeting;

/*
 * Begin, without blocking. *ret is the caller's: snp_greeting_free(). SNP_E_NOT_FOUND: no daemon,
 * and has_start is false; SNP_E_PEER: it could not start (the message has the error from its log);
 * SNP_E_DENIED: the runtime folder cannot be trusted.
 */
int snp_greeting_begin(const struct snp_client_options *options,
                       struct snp_greeting **ret,
                       struct snp_err *err) SNP_NODISCARD;
void snp_greeting_free(struct snp_greeting *greeting);
SNP_DEFINE_CLEANUP(struct snp_greeting *, snp_greeting_free)

/*
 * Continue, without blocking: when snp_greeting_fd() is readable (it differs after each step;
 * -1 = only the time matters), and at snp_greeting_until() (snp_now_us()). 0: not yet; 1: greeted.
 * Fails as snp_greeting_begin(); SNP_E_UNSUPPORTED: the daemon speaks another version.
 */
int snp_greeting_step(struct snp_greeting *greeting, struct snp_err *err) SNP_NODISCARD;
int snp_greeting_fd(const struct snp_greeting *greeting);
uint64_t snp_greeting_until(const struct snp_greeting *greeting);

/* Take the connection after the greeting; non-blocking; the caller closes it. */
int snp_greeting_take_fd(struct snp_greeting *greeting);

/* All of it; blocks for 40 s at most. *ret_fd: of snp_greeting_take_fd(). */
int snp_greet(const struct snp_client_options *options,
              int *ret_fd,
              struct snp_err *err) SNP_NODISCARD;

#endif
