/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_OPEN_H
#define SNP_DAEMON_CELL_OPEN_H

/* Choose the session of a cell: an existing one that fits, or a new one. */

#include <stdint.h>

#include "base/err.h"
#include "daemon/session.h"
#include "daemon/spec.h"

struct snp_request;

/*
 * *ret is borrowed from the table; for a new session the tier has been asked for an executor.
 * *ret_wall_ms: the wall clock of this cell.
 */
int snp_session_for(const struct snp_request *request,
                    struct snp_exec_spec *spec,
                    struct snp_session **ret,
                    uint64_t *ret_wall_ms,
                    struct snp_err *err) SNP_NODISCARD;

#endif
