/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_OS_SCOPE_H
#define SNP_OS_SCOPE_H

/*
 * A control group from the user's systemd. On most hosts an ordinary user cannot divide the group
 * of its processes; the user's service manager makes a delegated group ("scope") on request over
 * the session bus.
 */

#include <sys/types.h>

#include "base/err.h"

/*
 * Have this process moved into a new scope. Blocks for a few seconds at most. SNP_E_UNSUPPORTED: no
 * session bus or no service manager; SNP_E_DENIED: refused; SNP_E_TIMEOUT: no answer, or we were
 * not moved.
 */
int snp_scope_enter(uid_t uid, struct snp_err *err) SNP_NODISCARD;

#endif
