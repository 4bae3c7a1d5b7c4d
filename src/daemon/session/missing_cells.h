/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_MISSING_CELLS_H
#define SNP_DAEMON_SESSION_MISSING_CELLS_H

/* What a session lacks that its cells left. */

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "daemon/session.h"

/* Cells up to this one need not be run again: they are in the checkpoint, or given up. */
uint64_t snp_session_floor(const struct snp_session *session);
/* The same of a session that has such a checkpoint, and these things accepted. */
uint64_t snp_session_floor_of(uint64_t checkpoint_cell,
                              uint64_t accepted_cell,
                              uint64_t accepted_from);
/* It holds less than its cells left; asleep it is incomplete, unknown or lost then. */
bool snp_session_is_lacking(const struct snp_session *session);
/* What it lacks (see missing.h), while it is so; borrowed; else NULL. */
json_t *snp_session_missing(const struct snp_session *session);

#endif
