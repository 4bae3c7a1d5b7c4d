/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_FETCH_H
#define SNP_MCP_SERVER_FETCH_H

/*
 * Bytes by their path in results: a file of a session, the full output of a cell
 * ("output:HANDLE:stdout"), or a kept item ("kept:7").
 */

#include "mcp/server/task.h"

/*
 * Fetch up to `want` bytes (at most SNP_MCP_IMAGE_MAX) at `from`. path: from a result, or a file in
 * the task's session, which is opened if missing. failed: for kept output; NULL = snp_task_fail, as
 * for all other failures.
 */
void snp_fetch_start(struct snp_task *task,
                     const char *path,
                     uint64_t from,
                     uint64_t want,
                     void (*done)(struct snp_task *task),
                     snp_task_failed failed);

/*
 * Ask the daemon about the task's session, opening it if missing; otherwise as snp_task_ask. head:
 * consumed.
 */
void snp_session_ask(
    struct snp_task *task, json_t *head, const void *raw, size_t raw_len, snp_task_next next);

#endif
