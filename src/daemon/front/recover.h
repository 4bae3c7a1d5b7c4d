/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_FRONT_RECOVER_H
#define SNP_DAEMON_FRONT_RECOVER_H

/*
 * The sessions of the journal, when the daemon starts: they are all there again, asleep. What was
 * running is unknown from then on. Nothing is run.
 */

#include "base/err.h"

struct snp_server;

/*
 * Read them; then server->is_recovered, or the journal cannot be used, which is logged. done:
 * called once, from the loop; NULL = nobody waits. While one is under way another call
 * does nothing.
 */
void snp_recover(struct snp_server *server, void (*done)(struct snp_server *server));

#endif
