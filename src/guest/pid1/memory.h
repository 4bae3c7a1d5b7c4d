/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_MEMORY_H
#define SNP_GUEST_PID1_MEMORY_H

/* Memory and threads of the code, sampled where no cgroup counts them. */

#include "guest/pid1/inside.h"

/* Take a sample; reports changes to the supervisor. */
void snp_memory_watch(struct snp_init *in);

#endif
