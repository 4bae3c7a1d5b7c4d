/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_PROGRESS_H
#define SNP_MCP_SERVER_PROGRESS_H

/*
 * Progress of a running task: its time, and its last output. A client that sends
 * {"com.snipara/output": true} in the _meta of its request gets, in the _meta of each notification
 * of progress, the output since the previous one.
 */

#include "mcp/peer.h"

#define SNP_MCP_META_OUTPUT "com.snipara/output"
/*
 * The corresponding key by which a call requests structuredContent, which some clients show instead
 * of the text.
 */
#define SNP_MCP_META_DATA "com.snipara/data"

/* call->state is the task. Sends nothing unless the client gave a token. */
void snp_progress_bind(struct snp_mcp_call *call);

#endif
