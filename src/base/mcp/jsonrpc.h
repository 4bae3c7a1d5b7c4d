/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_MCP_JSONRPC_H
#define SNP_BASE_MCP_JSONRPC_H

/* JSON-RPC 2.0 messages as MCP restricts them: ids are strings or numbers. */

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"

enum snp_jsonrpc_code {
    SNP_JSONRPC_PARSE = -32700,
    SNP_JSONRPC_REQUEST = -32600, /* JSON, but not a request */
    SNP_JSONRPC_METHOD = -32601,
    SNP_JSONRPC_PARAMS = -32602,
    SNP_JSONRPC_INTERNAL = -32603,
    SNP_JSONRPC_HEADER = -32020,     /* modern: headers do not match the body */
    SNP_JSONRPC_CAPABILITY = -32021, /* modern: the client did not declare the required
                                      * capability */
    SNP_JSONRPC_VERSION = -32022,    /* modern: no such protocol version */
    SNP_JSONRPC_NO_RESOURCE = -32002 /* legacy only */
};

enum snp_jsonrpc_kind {
    SNP_JSONRPC_IS_REQUEST = 0,
    SNP_JSONRPC_IS_NOTIFICATION,
    SNP_JSONRPC_IS_RESPONSE,
};

struct snp_jsonrpc {
    enum snp_jsonrpc_kind kind;
    json_t *root; /* owned; the rest is borrowed from it */
    json_t *id;   /* NULL for a notification; may be null in a response */
    const char *method;
    json_t *params; /* an object, or NULL */
    json_t *result; /* of a response */
    json_t *error;
};

/*
 * Read n bytes: an object, or an array of them (a batch); new reference. SNP_E_INVALID: neither;
 * *ret_code is for the answer. An escaped half of a surrogate pair reads as U+FFFD: some clients
 * cut text inside a character. A number out of range, except an id, reads as 1e300, which no
 * argument accepts.
 */
int snp_jsonrpc_read(const char *text, size_t n, json_t **ret, int *ret_code, struct snp_err *err)
    SNP_NODISCARD;

/*
 * Parse received bytes (consumed, also on failure) as one message. SNP_E_INVALID: not a message;
 * *ret_code (SNP_JSONRPC_REQUEST) and, if known, *ret_id (new reference, else NULL) are for the
 * answer.
 */
int snp_jsonrpc_take(json_t *root,
                     struct snp_jsonrpc *ret,
                     int *ret_code,
                     json_t **ret_id,
                     struct snp_err *err) SNP_NODISCARD;

/* Both, except the repair of numbers. SNP_JSONRPC_PARSE is a third code. */
int snp_jsonrpc_parse(const char *text,
                      size_t n,
                      struct snp_jsonrpc *ret,
                      int *ret_code,
                      json_t **ret_id,
                      struct snp_err *err) SNP_NODISCARD;
void snp_jsonrpc_done(struct snp_jsonrpc *message);
#define snp_autojsonrpc snp_cleanup(snp_jsonrpc_done)

/*
 * Messages of ours, new references; NULL when out of memory. id: borrowed, NULL = null; result,
 * params: consumed, NULL = out of memory; data: consumed, NULL = none.
 */
json_t *snp_jsonrpc_result(json_t *id, json_t *result);
json_t *snp_jsonrpc_error(json_t *id, int code, const char *message, json_t *data);
json_t *snp_jsonrpc_notification(const char *method, json_t *params);
json_t *snp_jsonrpc_request(json_int_t id, const char *method, json_t *params);

#endif
