/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_CELL_CELL_H
#define SNP_DAEMON_CELL_CELL_H

/* A running cell: its intent, its events, its result, its outcome. */

#include "base/err.h"

struct snp_exec;

/*
 * Run a cell in its session, which is IDLE and has an executor; it becomes RUNNING. On failure
 * nothing was sent, and the caller still owns the cell.
 */
int snp_cell_run(struct snp_exec *exec, struct snp_err *err) SNP_NODISCARD;

#endif
