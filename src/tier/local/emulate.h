/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_LOCAL_EMULATE_H
#define SNP_TIER_LOCAL_EMULATE_H

/* Calls that the supervisor makes for the code, after it has looked at whom or what they mean. */

#include <seccomp.h>
#include <stdbool.h>

struct snp_sandbox;

/*
 * For snp_notify: data is the session. False: not one of these, it is refused. Else resp is
 * filled: the call was made or refused with the errno it would have, or goes on as it is
 * when it can mean nobody but its caller.
 */
bool snp_local_emulate(void *data,
                       int listener_fd,
                       const struct seccomp_notif *req,
                       struct seccomp_notif_resp *resp);

#endif
