/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_TEXT_H
#define SNP_MCP_TEXT_H

/* base/text.h under the names that the server's files have for it. */

#include "base/text.h"

#define snp_mcp_text_clean snp_text_clean
#define snp_mcp_text_cut   snp_text_cut
#define snp_mcp_text_add   snp_text_add
#define snp_mcp_text_line  snp_text_line
#define snp_mcp_text_json  snp_text_json
#define snp_mcp_json_bound snp_text_bound

#endif
