/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_FRONT_SERVE_H
#define SNP_DAEMON_FRONT_SERVE_H

/* The server: its loop, its clients, its automatic end. */

#include "base/err.h"

struct snp_server;
struct snp_server_options;

/*
 * Take over a listening socket (consumed) and set up the loop. On failure nothing is left. The
 * socket's file is removed when the server begins to end.
 */
int snp_server_init(struct snp_server *server,
                    int listen_fd,
                    const struct snp_server_options *options,
                    struct snp_err *err) SNP_NODISCARD;

/* Divide options.budget_bytes: set outputs_bytes, and return the journal's part; 0 = no limit. */
uint64_t snp_server_divide(struct snp_server *server);

/* Serve until idle, asked to end, or SIGTERM or SIGINT; then nothing is left. */
void snp_server_run(struct snp_server *server);

#endif
