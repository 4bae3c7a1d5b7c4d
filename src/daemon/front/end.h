/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_FRONT_END_H
#define SNP_DAEMON_FRONT_END_H

/* The end of the daemon: sessions are saved, tiers end, the journal closes, then clients go. */

#include <stdbool.h>

struct snp_request;
struct snp_server;

/*
 * Begin the end: nothing new is accepted, sessions close. request: answered when they have;
 * NULL = nobody waits.
 */
void snp_server_end(struct snp_server *server, struct snp_request *request);

/* Save all sessions, then end; if a save fails, the request is refused and the daemon continues. */
void snp_server_stop(struct snp_server *server, struct snp_request *request);

/* A tier's process and memory are gone; goes on ending if that was awaited. */
void snp_server_tier_gone(struct snp_server *server);

/* A checkpoint has ended; goes on ending if that was awaited. */
void snp_server_saved(struct snp_server *server);

/* Do clients still find us? */
bool snp_server_is_reachable(const struct snp_server *server);

#endif
