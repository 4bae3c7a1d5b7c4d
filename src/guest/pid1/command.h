/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_COMMAND_H
#define SNP_GUEST_PID1_COMMAND_H

/*
 * Programs that the host names: commands beside the interpreter, one at a time, and interpreters.
 */

#include "guest/body.h"
#include "guest/pid1/inside.h"

/* Start what a COMMAND with this id asks for. 0 or errno. */
int snp_command_start(struct snp_init *in, uint32_t id, struct snp_body *c);

/*
 * Where no template forks one in: start the interpreter that a SPAWN asks for. There is none
 * now. guest_fd: its stream, borrowed. 0 or errno.
 */
int snp_interpreter_start(struct snp_init *in, struct snp_body *c, int guest_fd);

#endif
