/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_FRONT_RECOVER_H
#define SNP_DAEMON_FRONT_RECOVER_H

/*
 * Load the sessions from the journal when the daemon starts: all of them are there, asleep. Cells
 * that were running are unknown from then on. No code runs.
 */

#include "base/err.h"

struct snp_server;

/*
 * Load the sessions; then server->is_recovered, or the journal cannot be used, which is logged.
 * done: called once, from the loop; NULL = none. During a recovery another call does nothing.
 */
void snp_recover(struct snp_server *server, void (*done)(struct snp_server *server));

#endif
