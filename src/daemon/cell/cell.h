/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_CELL_H
#define SNP_DAEMON_CELL_CELL_H

/* A cell that runs: its intent, its events, its result, its outcome. */

#include "base/err.h"

struct snp_exec;

/*
 * Run a cell in its session, which is IDLE and has an executor, and is RUNNING then. On
 * failure nothing was sent, and the cell is still the caller's.
 */
int snp_cell_run(struct snp_exec *exec, struct snp_err *err) SNP_NODISCARD;

#endif
