/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_FRONT_SETTLE_H
#define SNP_DAEMON_FRONT_SETTLE_H

/* Saving all sessions before an end that may still be called off. */

#include <stdbool.h>

struct snp_server;

/* is_saved: no session holds what is on no disk, as far as it can be saved and no cell runs in it. */
typedef void snp_settled(struct snp_server *server, bool is_saved);

/*
 * Save the sessions while the daemon serves on. done is called once, perhaps before this returns; not if the end
 * begins before. False: this is under way already, and done is not called.
 */
bool snp_server_settle(struct snp_server *server, snp_settled *done);

#endif
