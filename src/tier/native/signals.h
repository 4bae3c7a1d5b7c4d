/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_NATIVE_SIGNALS_H
#define SNP_TIER_NATIVE_SIGNALS_H

/*
 * Signals of the code, which asks the supervisor for each: they reach all of its own
 * processes, but not the copies its session may have to go back to.
 */

#include <stdbool.h>

struct seccomp_notif;
struct seccomp_notif_resp;

/* For snp_notify.emulate; data is the session. */
bool snp_signals_emulate(void *data,
                         int listener_fd,
                         const struct seccomp_notif *req,
                         struct seccomp_notif_resp *resp);

#endif
