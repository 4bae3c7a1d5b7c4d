/* SPDX-License-Identifier: Apache-2.0 */
/* Protocol versions, and the metadata of modern messages. */
#include "base/mcp/era.h"

#include <string.h>

#include "base/mcp/caps.h"
#include "base/str.h"

/* Newest first. */
static const char *const legacy[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05",
                                     "2024-10-07"};

const char *snp_era_negotiate(const char *asked)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(legacy); i++) {
        if (snp_streq(asked, legacy[i])) {
            return legacy[i];
        }
    }
    return legacy[0];
}

json_t *snp_era_supported(void)
{
    return json_pack("[s]", SNP_MCP_VERSION_MODERN);
}

int snp_era_read(const struct snp_jsonrpc *message,
                 enum snp_era *ret,
                 int *ret_code,
                 json_t **ret_data,
                 struct snp_err *err)
{
    const json_t *meta = json_object_get(message->params, "_meta");
    const json_t *version = json_object_get(meta, SNP_MCP_META_VERSION);

    *ret_code = SNP_JSONRPC_PARAMS;
    *ret_data = NULL;
    if (version == NULL && !snp_streq(message->method, "server/discover")) {
        *ret = SNP_ERA_LEGACY;
        return 0;
    }
    if (!json_is_string(version)) {
        return snp_fail(err, SNP_E_INVALID, "params._meta needs the string '%s'",
                        SNP_MCP_META_VERSION);
    }
    if (!snp_streq(snp_json_str(meta, SNP_MCP_META_VERSION, ""), SNP_MCP_VERSION_MODERN)) {
        *ret_code = SNP_JSONRPC_VERSION;
        *ret_data = json_pack("{s:o, s:O}", "supported", snp_era_supported(), "requested",
                              (json_t *)(uintptr_t)version);
        return snp_fail(err, SNP_E_INVALID, "Unsupported protocol version");
    }
    if (message->kind == SNP_JSONRPC_IS_REQUEST &&
        !json_is_object(json_object_get(meta, SNP_MCP_META_CAPABILITIES))) {
        return snp_fail(err, SNP_E_INVALID, "params._meta needs the object '%s'",
                        SNP_MCP_META_CAPABILITIES);
    }
    *ret = SNP_ERA_MODERN;
    return 0;
}

int snp_era_finish(json_t *result, json_t *server_info, bool is_listing)
{
    json_t *meta = json_object_get(result, "_meta");

    if (json_object_get(result, "resultType") == NULL &&
        json_object_set_new(result, "resultType", json_string("complete")) < 0) {
        return -1;
    }
    if (meta == NULL) {
        if (json_object_set_new(result, "_meta", json_object()) < 0) {
            return -1;
        }
        meta = json_object_get(result, "_meta");
    }
    if (json_object_set(meta, SNP_MCP_META_SERVER, server_info) < 0) {
        return -1;
    }
    if (is_listing && json_object_get(result, "ttlMs") == NULL &&
        (json_object_set_new(result, "ttlMs", json_integer(SNP_MCP_TTL_MS)) < 0 ||
         json_object_set_new(result, "cacheScope", json_string("private")) < 0)) {
        return -1;
    }
    return 0;
}
