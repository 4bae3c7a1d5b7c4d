/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLIENT_START_H
#define SNP_CLIENT_START_H

/* Starting the daemon in the background. */

#include <sys/types.h>

#include "base/err.h"

/* A starting daemon; the caller's: snp_daemon_start_done(). */
struct snp_daemon_start {
    int fd; /* readable when it is ready, or has ended; -1 = none */
    pid_t pid;
};

/*
 * Start snipara-sandboxd, without waiting: not our child, own session, output to STATE/daemon.log,
 * reduced environment. SNP_E_NOT_FOUND: not installed.
 */
int snp_daemon_start(struct snp_daemon_start *ret, struct snp_err *err) SNP_NODISCARD;

/*
 * 1: it is ready, which does not promise that it answers (another one may run already); 0: not yet.
 * SNP_E_PEER: it has ended.
 */
int snp_daemon_started(struct snp_daemon_start *start, struct snp_err *err) SNP_NODISCARD;
void snp_daemon_start_done(struct snp_daemon_start *start);

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
