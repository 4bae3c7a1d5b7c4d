/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_REAP_H
#define SNP_GUEST_PID1_REAP_H

/* Handling of children that ended, stopped or continued; pending requests are answered. */

#include "guest/pid1/inside.h"

void snp_reap(struct snp_init *in);

/* Handle all events since the last call; call it before each request. */
void snp_look_round(struct snp_init *in);

#endif
