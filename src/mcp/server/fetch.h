/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_FETCH_H
#define SNP_MCP_SERVER_FETCH_H

/*
 * Bytes from where results say they are: a file of a session, the full output of a cell
 * ("output:HANDLE:stdout"), or what is kept here ("kept:7").
 */

#include "mcp/server/task.h"

/*
 * Fetch up to `want` bytes (at most SNP_MCP_IMAGE_MAX) from `from` on. path: as a result named it,
 * or of a file in the task's session, which is opened if it is not there. failed: of kept output;
 * NULL = snp_task_fail, as all else fails.
 */
void snp_fetch_start(struct snp_task *task,
                     const char *path,
                     uint64_t from,
                     uint64_t want,
                     void (*done)(struct snp_task *task),
                     snp_task_failed failed);

/*
 * Ask the daemon about the task's session, opening that if it is not there; as snp_task_ask
 * otherwise. head: consumed.
 */
void snp_session_ask(
    struct snp_task *task, json_t *head, const void *raw, size_t raw_len, snp_task_next next);

#endif
