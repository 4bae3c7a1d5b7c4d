/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_OS_SCOPE_H
#define SNP_OS_SCOPE_H

/*
 * A control group from the user's systemd. On most hosts an ordinary user's processes
 * are in a group that is not theirs to divide; the service manager of the user makes
 * one that is ("scope", delegated) when it is asked over the session bus.
 */

#include <sys/types.h>

#include "base/err.h"

/*
 * Have this process moved into a scope of its own. Blocks, for some seconds at most.
 * SNP_E_UNSUPPORTED: there is no session bus or nobody to ask; SNP_E_DENIED: asked, and
 * refused; SNP_E_TIMEOUT: no answer, or we were not moved.
 */
int snp_scope_enter(uid_t uid, struct snp_err *err) SNP_NODISCARD;

#endif
