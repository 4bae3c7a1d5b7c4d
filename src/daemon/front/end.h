/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_FRONT_END_H
#define SNP_DAEMON_FRONT_END_H

/* The end of the daemon: sessions are saved, tiers end, the journal closes, then clients go. */

#include <stdbool.h>

struct snp_request;
struct snp_server;

/*
 * Begin the end: no new work is accepted, sessions close. request: answered when they have; NULL =
 * none.
 */
void snp_server_end(struct snp_server *server, struct snp_request *request);

/* Save all sessions, then end; if a save fails, the request is refused and the daemon continues. */
void snp_server_stop(struct snp_server *server, struct snp_request *request);

/* A tier's process and memory are gone; continues an end that waited for it. */
void snp_server_tier_gone(struct snp_server *server);

/* A checkpoint has ended; continues an end that waited for it. */
void snp_server_saved(struct snp_server *server);

/* Clients can still reach the daemon. */
bool snp_server_is_reachable(const struct snp_server *server);

#endif
