/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_FRONT_HOOKS_H
#define SNP_DAEMON_FRONT_HOOKS_H

/* Handlers for the events of lower parts (server.h). */

#include "daemon/server.h"

extern const struct snp_hooks snp_daemon_hooks;

#endif
