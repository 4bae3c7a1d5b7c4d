/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_REAP_H
#define SNP_GUEST_PID1_REAP_H

/* Children that have ended, stopped or gone on. Who waits for one is told. */

#include "guest/pid1/inside.h"

void snp_reap(struct snp_init *in);

/* Whoever has spoken, moved or died since the last look; before anything is asked of us. */
void snp_look_round(struct snp_init *in);

#endif
