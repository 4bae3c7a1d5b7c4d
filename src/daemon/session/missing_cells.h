/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_MISSING_CELLS_H
#define SNP_DAEMON_SESSION_MISSING_CELLS_H

/* Effects of cells that a session lacks. */

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "daemon/session.h"

/* Cells up to this one need no replay: they are in the checkpoint, or given up. */
uint64_t snp_session_floor(const struct snp_session *session);
/* The same for a session with such a checkpoint and such accepted losses. */
uint64_t snp_session_floor_of(uint64_t checkpoint_cell,
                              uint64_t accepted_cell,
                              uint64_t accepted_from);
/* The session lacks effects of its cells; asleep it is then incomplete, unknown or lost. */
bool snp_session_is_lacking(const struct snp_session *session);
/* The missing parts (see missing.h), if any; borrowed; else NULL. */
json_t *snp_session_missing(const struct snp_session *session);

#endif
