/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_ARCHIVE_IMPORT_H
#define SNP_DAEMON_ARCHIVE_IMPORT_H

/*
 * `import.begin`, `import.data`, `import.end`: create a session from a file (archive.h). An import
 * belongs to the connection that began it, and ends with it.
 */

#include <stdint.h>

#include "base/err.h"

struct snp_peer;
struct snp_server;
struct snp_tx;

/* The client has disconnected: drop its unfinished import. */
void snp_import_peer_gone(struct snp_server *server, const struct snp_peer *peer);

/* Remove unfinished imports when the daemon starts. In a job. */
int snp_import_recover(struct snp_tx *tx, uint64_t now_us, struct snp_err *err) SNP_NODISCARD;

#endif
