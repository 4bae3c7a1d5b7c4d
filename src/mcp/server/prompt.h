/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_PROMPT_H
#define SNP_MCP_SERVER_PROMPT_H

/* Prompts, and the completion of names. */

#include "mcp/peer.h"

void snp_prompts_run_list(struct snp_mcp_call *call);
void snp_prompts_run_get(struct snp_mcp_call *call);
void snp_completion_run(struct snp_mcp_call *call);

#endif
