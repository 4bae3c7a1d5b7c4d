/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_AGENT_WAIT_H
#define SNP_MCP_AGENT_WAIT_H

/* Calls that wait until nobody works on a run any more. Its record's lock tells, whoever works on it. */

#include "mcp/task.h"

/* The end of it, or of the time: *task* is to be ended. path: of the record, borrowed. */
typedef void (*snp_agent_waited)(struct snp_task *task, const char *path, bool is_over);

/* path: consumed. SNP_E_NOMEM. */
int snp_agent_wait(struct snp_task *task,
                   char *path,
                   uint64_t wait_ms,
                   snp_agent_waited waited,
                   struct snp_err *err) SNP_NODISCARD;

/* The server ends: without a word to anybody. */
void snp_agent_waits_drop(struct snp_mcp_sandboxes *service);

#endif
