/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_MCP_ERA_H
#define SNP_BASE_MCP_ERA_H

/*
 * The two eras of MCP. Legacy: a handshake (`initialize`), then messages. Modern (2026-07-28): no
 * handshake, every request states its version. Decided per message.
 */

#include <stdbool.h>

#include "base/mcp/jsonrpc.h"

enum snp_era {
    SNP_ERA_LEGACY = 0,
    SNP_ERA_MODERN,
};

/* For tables: the eras a method belongs to. */
enum {
    SNP_IN_LEGACY = 1 << SNP_ERA_LEGACY,
    SNP_IN_MODERN = 1 << SNP_ERA_MODERN,
    SNP_IN_BOTH = SNP_IN_LEGACY | SNP_IN_MODERN,
};

#define SNP_MCP_META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define SNP_MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define SNP_MCP_META_SERVER       "io.modelcontextprotocol/serverInfo"
#define SNP_MCP_VERSION_MODERN    "2026-07-28"
#define SNP_MCP_VERSION_BATCHES   "2025-03-26" /* the only one with batches */
#define SNP_MCP_VERSION_PRIMED    "2025-11-25" /* streams begin with an empty event */

/*
 * The legacy version to answer `initialize` with: the requested one if supported, else our newest.
 * Static.
 */
const char *snp_era_negotiate(const char *asked);

/*
 * Which era a request or notification belongs to. SNP_E_INVALID: a modern one with missing metadata
 * or an unsupported version; *ret_code and *ret_data (new reference or NULL) are for the answer.
 */
int snp_era_read(const struct snp_jsonrpc *message,
                 enum snp_era *ret,
                 int *ret_code,
                 json_t **ret_data,
                 struct snp_err *err) SNP_NODISCARD;

/*
 * Add the members of every modern result: resultType (if missing), server info, and for listings
 * their cache time. result: an object, changed. -1: out of memory.
 */
int snp_era_finish(json_t *result, json_t *server_info, bool is_listing) SNP_NODISCARD;

/* ["2026-07-28"]. New reference. */
json_t *snp_era_supported(void);

#endif
