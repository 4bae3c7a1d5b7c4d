/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_CLIENT_FINGERPRINTS_H
#define SNP_MCP_CLIENT_FINGERPRINTS_H

/*
 * A file of fingerprints of tools, {"TOOL": "sha256"}. They reveal a server that changes a tool's
 * definition after the user approved it.
 */

#include "base/err.h"
#include "base/json.h"

/* Read them; *ret is a new reference, NULL if there is no such file. */
int snp_mcp_fingerprints_read(const char *path, json_t **ret, struct snp_err *err) SNP_NODISCARD;
/* Write those of these tools. */
int snp_mcp_fingerprints_write(const char *path,
                               const json_t *tools,
                               struct snp_err *err) SNP_NODISCARD;

/*
 * Compare: {"changed": [NAME...], "new": [...], "gone": [...]}, a new reference. The fingerprints
 * of tools are computed again.
 */
int snp_mcp_fingerprints_compare(const json_t *prints,
                                 const json_t *tools,
                                 json_t **ret,
                                 struct snp_err *err) SNP_NODISCARD;

/* SNP_E_DENIED: this tool is not pinned, or its definition differs. */
int snp_mcp_fingerprints_check(const json_t *prints,
                               const json_t *tool,
                               struct snp_err *err) SNP_NODISCARD;

#endif
