/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_GUEST_PID1_COMMAND_H
#define SNP_GUEST_PID1_COMMAND_H

/*
 * Programs requested by the host: commands, one at a time; detached processes beside them; and
 * interpreters.
 */

#include "guest/body.h"
#include "guest/pid1/inside.h"

/* Start the command of a COMMAND request with this id. 0 or errno. */
int snp_command_start(struct snp_init *in, uint32_t id, struct snp_body *c);

/*
 * Start the process of a RUN request, with the descriptors of the STREAM requests before it, which
 * it takes. 0 or errno; EBUSY: too many.
 */
int snp_detached_start(struct snp_init *in, struct snp_body *c, pid_t *ret);

/* The entry of this detached process, or a free one (pid 0); NULL = none. */
pid_t *snp_detached_slot(struct snp_init *in, pid_t pid);

/*
 * A detached process has ended: note its group, if it left processes in it. Their number stays in
 * use until the last is reaped, so it names no other group.
 */
void snp_left_add(struct snp_init *in, pid_t pid);
/* After reaping: forget groups without processes. */
void snp_left_look(struct snp_init *in);
bool snp_left_is(const struct snp_init *in, pid_t pid);

/*
 * Without templates: start the interpreter of a SPAWN request. None may exist. guest_fd: its
 * stream, borrowed. 0 or errno.
 */
int snp_interpreter_start(struct snp_init *in, struct snp_body *c, int guest_fd);

#endif
