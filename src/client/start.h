/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLIENT_START_H
#define SNP_CLIENT_START_H

/* Starting the daemon in the background. */

#include "base/err.h"

/*
 * Start snipara-sandboxd: not our child, own session, output to STATE/daemon.log, reduced
 * environment. Wait until it is ready or ends (then another one may run already), at most
 * timeout_ms. 0 does not promise that it answers. SNP_E_NOT_FOUND: not installed.
 */
int snp_daemon_start(int timeout_ms, struct snp_err *err) SNP_NODISCARD;

/*
 * Start the process of a run: `snipara-sandbox serve-run`, with our environment, and not our child.
 * *ret_fd is our end of its socket, non-blocking; the caller's. SNP_E_NOT_FOUND: not installed;
 * SNP_E_UNSUPPORTED: the suite, which serves runs, is not installed.
 */
int snp_run_process_start(int *ret_fd, struct snp_err *err) SNP_NODISCARD;

/*
 * Write "; its last words: " and the last error in the daemon's log to out; "": none, or an old
 * one. Returns out.
 */
const char *snp_daemon_last_words(char *out, size_t out_len);

#endif
