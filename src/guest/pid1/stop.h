/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_STOP_H
#define SNP_GUEST_PID1_STOP_H

/*
 * Standing still: processes of the code are stopped for as long as their files are copied. An
 * interpreter that waits for a cell and has one thread only writes nothing, and is let be.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Zero, and the caller sets what is his. */
struct snp_stop {
    pid_t interpreter; /* the caller's; -1 = none */
    bool is_counting;  /* the caller's: look only */
    pid_t *pid;        /* owned; those that were stopped by us */
    size_t n;
    size_t cap;
    unsigned n_active; /* who could write */
    unsigned n_moving; /* who did not stand still at the last look */
    unsigned rounds;
};

/* For each process of the code, in each round. */
void snp_stop_one(struct snp_stop *stop, pid_t pid);

/* Wait a moment for another round; false when there were enough. */
bool snp_stop_again(struct snp_stop *stop);

/* Let those that were stopped go on, and forget them. */
void snp_stop_done(struct snp_stop *stop);

#endif
