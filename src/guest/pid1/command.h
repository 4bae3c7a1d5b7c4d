/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_COMMAND_H
#define SNP_GUEST_PID1_COMMAND_H

/* A command of the host's beside the interpreter, one at a time. */

#include "guest/body.h"
#include "guest/pid1/inside.h"

/* Start what a COMMAND with this id asks for. 0 or errno. */
int snp_command_start(struct snp_init *in, uint32_t id, struct snp_body *c);

#endif
