/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_RESOURCE_H
#define SNP_MCP_SERVER_RESOURCE_H

/*
 * Resources: snipara://session/ID/files/PATH (a folder if PATH ends with '/' or is empty),
 * snipara://session/ID/cells/N/STREAM (output of a cell), snipara://output/HANDLE/STREAM and
 * snipara://kept/N; with ?offset=N&length=N a part.
 */

#include <stdint.h>

#include "base/policy/session_name.h"
#include "mcp/peer.h"

enum {
    SNP_URI_PATH_MAX = 4096
};

struct snp_mcp_uri {
    char session[1024];          /* a session_id, "" = none */
    char path[SNP_URI_PATH_MAX]; /* as for snp_fetch_start; of a cell, the stream's name */
    uint64_t cell;               /* its number; 0 = no cell */
    bool is_folder;
    uint64_t offset;
    uint64_t length; /* 0 = no limit */
};

/* Read a URI. SNP_E_INVALID: not one of ours. */
int snp_mcp_uri_parse(const char *text, struct snp_mcp_uri *ret, struct snp_err *err) SNP_NODISCARD;

void snp_resources_run_list(struct snp_mcp_call *call);
void snp_resources_run_templates(struct snp_mcp_call *call);
void snp_resources_run_read(struct snp_mcp_call *call);

#endif
