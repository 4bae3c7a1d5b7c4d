/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_MEMORY_H
#define SNP_GUEST_PID1_MEMORY_H

/* What the code uses of memory and threads, sampled where no control group counts it. */

#include "guest/pid1/inside.h"

/* One sample; the supervisor is told when it has changed. */
void snp_memory_watch(struct snp_init *in);

#endif
