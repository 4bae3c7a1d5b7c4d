/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_FRONT_SETTLE_H
#define SNP_DAEMON_FRONT_SETTLE_H

/* Save all sessions before an end, which is cancelled if a save fails. */

#include <stdbool.h>

struct snp_server;

/* is_saved: all sessions that can be saved and run no cell are on disk. */
typedef void snp_settled(struct snp_server *server, bool is_saved);

/*
 * Save the sessions while the daemon continues to serve. done is called once, perhaps before this
 * returns; not if the daemon begins to end first. False: a save of all sessions is already pending,
 * and done is not called.
 */
bool snp_server_settle(struct snp_server *server, snp_settled *done);

#endif
