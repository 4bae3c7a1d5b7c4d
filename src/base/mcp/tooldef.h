/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_MCP_TOOLDEF_H
#define SNP_BASE_MCP_TOOLDEF_H

/*
 * Tool definitions from servers: whether one is callable, a fingerprint that detects changes, and
 * the arguments sent as HTTP headers ("x-mcp-header").
 */

#include "base/err.h"
#include "base/json.h"

enum {
    SNP_MCP_FINGERPRINT_LEN = 64 /* hex digits of a SHA-256 */
};

/*
 * Check a definition. *ret_headers: an array of {"header": NAME, "path": [KEY...]}, a new
 * reference, maybe empty. SNP_E_INVALID or SNP_E_LIMIT with the reason, cleaned. with_headers:
 * invalid headers make it unfit; else they are ignored.
 */
int snp_mcp_tooldef_check(const json_t *tool,
                          bool with_headers,
                          json_t **ret_headers,
                          struct snp_err *err) SNP_NODISCARD;

/* The name if it can be called, else NULL. Borrowed. */
const char *snp_mcp_tooldef_name(const json_t *tool);

/* SHA-256 of the whole definition in canonical order: equal definitions have equal fingerprints. */
int snp_mcp_tooldef_fingerprint(const json_t *tool,
                                char out[SNP_MCP_FINGERPRINT_LEN + 1],
                                struct snp_err *err) SNP_NODISCARD;

/*
 * "Mcp-Param-NAME: value" for each of a tool's headers that has a value in arguments; an array, new
 * reference. SNP_E_INVALID: a value that a header cannot carry.
 */
int snp_mcp_tooldef_headers(const json_t *headers,
                            const json_t *arguments,
                            json_t **ret,
                            struct snp_err *err) SNP_NODISCARD;

/*
 * Text as the value of a header: unchanged, or base64 if it is not plain ASCII. Caller frees; NULL
 * = no memory.
 */
char *snp_mcp_header_value(const char *text, size_t n);

#endif
