/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SERVER_SHOW_H
#define SNP_CLI_SERVER_SHOW_H

/* Show output of MCP servers to people. All of it is untrusted. */

#include "base/json.h"
#include "mcp/client/client.h"

/* The server's name, capabilities and instructions. */
void snp_mcp_show_info(const struct snp_mcp_client_info *info);
json_t *snp_mcp_info_json(const struct snp_mcp_client_info *info); /* new reference */

/* Lists, as tables. */
void snp_mcp_show_tools(const json_t *tools);
void snp_mcp_show_resources(const json_t *resources, const json_t *templates);
void snp_mcp_show_prompts(const json_t *prompts);

/* Blocks of content: texts whole, other blocks described. */
void snp_mcp_show_content(const json_t *content);
/* "ROLE: " and a block each. */
void snp_mcp_show_messages(const json_t *messages);
/*
 * Contents of a resource; binary ones as bytes. -1: binary contents are not written to a terminal.
 */
int snp_mcp_show_contents(const json_t *contents) SNP_NODISCARD;

#endif
