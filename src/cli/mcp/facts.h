/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_MCP_FACTS_H
#define SNP_CLI_MCP_FACTS_H

#include "base/config/config.h"
#include "base/json.h"

/*
 * Facts about the sandboxes for the descriptions of tools (mcp/server/tool.h): the interpreter of
 * new sessions, their time limit, and whether they see a project (NULL = none). A new reference,
 * NULL when out of memory.
 */
json_t *snp_mcp_facts(const struct snp_config *config, const json_t *exec, const char *project);

#endif
