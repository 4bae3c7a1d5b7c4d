/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_PROGRESS_H
#define SNP_MCP_SERVER_PROGRESS_H

/*
 * What is told of a task while it runs: for how long, and what it printed last. A client that
 * puts {"com.snipara/output": true} into the _meta of its request gets, in the _meta of each
 * notification of progress, what was printed since the one before.
 */

#include "mcp/peer.h"

#define SNP_MCP_META_OUTPUT "com.snipara/output"
/*
 * The same way: a call that says so gets structuredContent, which some clients show instead of
 * the text.
 */
#define SNP_MCP_META_DATA "com.snipara/data"

/* call->state is the task. Nothing is sent unless the client gave a token. */
void snp_progress_bind(struct snp_mcp_call *call);

#endif
