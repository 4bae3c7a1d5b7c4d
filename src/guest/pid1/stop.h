/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_STOP_H
#define SNP_GUEST_PID1_STOP_H

/*
 * Stopping: processes of the code are stopped while their files are copied. An idle interpreter
 * with a single thread writes nothing, and is not stopped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Zeroed; the caller sets its members. */
struct snp_stop {
    pid_t interpreter; /* the caller's; -1 = none */
    bool is_counting;  /* the caller's: only count */
    pid_t *pid;        /* owned; processes that we stopped */
    size_t n;
    size_t cap;
    unsigned n_active; /* processes that could write */
    unsigned n_moving; /* processes not yet stopped in this round */
    unsigned rounds;
};

/* Call for each process of the code, in each round. */
void snp_stop_one(struct snp_stop *stop, pid_t pid);

/* Wait briefly for another round; false after the last. */
bool snp_stop_again(struct snp_stop *stop);

/* Continue the stopped processes, and forget them. */
void snp_stop_done(struct snp_stop *stop);

#endif
