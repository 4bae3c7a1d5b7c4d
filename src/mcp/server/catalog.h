/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_CATALOG_H
#define SNP_MCP_SERVER_CATALOG_H

/* The tools: found by name, listed and called. */

#include "mcp/peer.h"
#include "mcp/server/tool.h"

/* The tool of a name; NULL if none. */
const struct snp_tool *snp_tool_find(const char *name);

/*
 * {"tools": [...]} of those that `wanted` names: "all", "core", or toolsets and tools separated by
 * commas. facts: {NAME: text} for descriptions; NULL: left out. New reference. SNP_E_INVALID names
 * the unknown word, and the known ones.
 */
int snp_tools_list(const char *wanted, const json_t *facts, json_t **ret, struct snp_err *err)
    SNP_NODISCARD;

/* tools/list and tools/call. */
void snp_tools_run_list(struct snp_mcp_call *call);
void snp_tools_run_call(struct snp_mcp_call *call);

#endif
