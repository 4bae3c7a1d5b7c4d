/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLIENT_GREET_H
#define SNP_CLIENT_GREET_H

/* An attempt to reach the daemon: connect, start it if none runs, greet it. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct snp_greeting;

/*
 * Begin, without blocking. socket: NULL = in the runtime folder, where a daemon is started if none
 * answers. any_state: also a daemon with another state folder than this process names. *ret is the
 * caller's: snp_greeting_free(). SNP_E_NOT_FOUND: no daemon, and none may be started; SNP_E_PEER:
 * it could not start (the message has the error from its log); SNP_E_DENIED: the runtime folder
 * cannot be trusted.
 */
int snp_greeting_begin(const char *socket,
                       bool no_start,
                       bool any_state,
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

#endif
