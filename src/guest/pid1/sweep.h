/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_SWEEP_H
#define SNP_GUEST_PID1_SWEEP_H

/* Ending all that the code has left running. */

#include "guest/pid1/inside.h"

/* Wait until each copy that is being made is at rest, or is given up. */
void snp_await_copies(struct snp_init *in);

/*
 * A copy that forks what saves its state will be at rest in a moment, and must be left alone until
 * then: we do not know yet whom it forks. What saves is the session's code and goes with all else;
 * it gets a moment to end, in which nothing else runs. A copy that does not come to rest is lost.
 */
void snp_settle(struct snp_init *in);

/*
 * Kill all but ourselves, our helper and its worker, and copies that are at rest. All are stopped
 * by one call of the kernel's first: a stopped process keeps its place, so code that forks as fast
 * as it can has soon none left to fork into, and takes no time from us. It is over when a list of
 * all processes has none to kill, twice (numbers that begin anew could hide one from a list, not
 * from the next), and no copy was let go on meanwhile, which would have ended it. Then nothing is
 * left that could let one go on. If that does not come about in time the answer is EAGAIN and the
 * host ends us.
 */
int snp_sweep(struct snp_init *in);

#endif
