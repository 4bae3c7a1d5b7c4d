/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLIENT_START_H
#define SNP_CLIENT_START_H

/* Starting the daemon in the background. */

#include "base/err.h"

/*
 * Start snipara-sandboxd, no child of ours, own session, output to STATE/daemon.log, environment
 * cut to what it needs, and wait until it says that it is ready or ends (then another one may run
 * already), at most timeout_ms. 0 does not promise that it answers. SNP_E_NOT_FOUND: it is
 * not installed.
 */
int snp_daemon_start(int timeout_ms, struct snp_err *err) SNP_NODISCARD;

/*
 * Start the process of a run: `snipara-sandbox serve-run`, with our environment, and no child of
 * ours in the end. *ret_fd is our end of its socket, non-blocking; the caller's. SNP_E_NOT_FOUND:
 * it is not installed; SNP_E_UNSUPPORTED: the suite, which serves runs, is not.
 */
int snp_run_process_start(int *ret_fd, struct snp_err *err) SNP_NODISCARD;

/*
 * Put "; its last words: " and the error with which the daemon's log ends into out; "": it has
 * none, or an old one. Returns out.
 */
const char *snp_daemon_last_words(char *out, size_t out_len);

#endif
