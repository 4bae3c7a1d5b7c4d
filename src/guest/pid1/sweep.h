/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_SWEEP_H
#define SNP_GUEST_PID1_SWEEP_H

/* Ending all processes of the code. */

#include "guest/pid1/inside.h"

/* Wait until each copy being made is at rest or has failed. */
void snp_await_copies(struct snp_init *in);

/*
 * A copy that is forking a saver will soon be at rest; leave it alone until then, because the
 * saver's pid is still unknown. Savers run the session's code and are killed with the rest; they
 * get a moment to end while nothing else runs. A copy that does not come to rest is lost.
 */
void snp_settle(struct snp_init *in);

/*
 * Kill all processes except ourselves, our helper and its worker, and copies at rest. One call
 * stops all first: stopped processes keep their slots, so a fork bomb soon cannot fork, and uses no
 * CPU time. The sweep ends when the list of all processes has none to kill, twice (pid wrap-around
 * can hide one from a list, but not from the next), and no copy was continued, which would have
 * ended it. No process then remains that could continue one. On a timeout the answer is EAGAIN and
 * the host ends the sandbox.
 */
int snp_sweep(struct snp_init *in);

#endif
