/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON-RPC messages. Size is bounded by whoever collects the bytes, nesting and duplicate keys by
 * base/json.h; what is a request is decided here and nowhere else.
 */
#include "mcp/jsonrpc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/escape.h"
#include "base/str.h"
#include "mcp/caps.h"

void snp_jsonrpc_done(struct snp_jsonrpc *message)
{
    json_decref(message->root);
    *message = (struct snp_jsonrpc){0};
}

/* Surrogates ------------------------------------------------------------------------------ */

static int hex4(const char *text)
{
    int value = 0;

    for (int i = 0; i < 4; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* The unit escaped at text ("\uXXXX"), -1 if there is none. */
static int unit_at(const char *text, size_t n)
{
    return n >= 6 && text[0] == '\\' && text[1] == 'u' ? hex4(text + 2) : -1;
}

static bool is_high(int unit)
{
    return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low(int unit)
{
    return unit >= 0xdc00 && unit <= 0xdfff;
}

/* Replace escaped halves of surrogate pairs in place; whether there were any. */
static bool surrogates_repair(char *text, size_t n)
{
    bool found = false;

    for (size_t i = 0; i < n; i++) {
        int unit;

        if (text[i] != '\\') {
            continue;
        }
        unit = unit_at(text + i, n - i);
        if (is_high(unit) && is_low(unit_at(text + i + 6, n - i - 6))) {
            i += 11;
        } else if (is_high(unit) || is_low(unit)) {
            memset(text + i + 2, 'f', 3); /* U+FFFD */
            text[i + 5] = 'd';
            found = true;
            i += 5;
        } else {
            i++; /* whatever is escaped is not a backslash of its own */
        }
    }
    return found;
}

static int text_read(const char *text, size_t n, json_t **ret, struct snp_err *err)
{
    snp_autofree char *copy = NULL;
    int r = n == 0 ? snp_fail(err, SNP_E_INVALID, "the message is empty")
                   : snp_json_parse_any(text, n, ret, err);

    if (n == 0 || r != SNP_E_INVALID || memmem(text, n, "\\u", 2) == NULL) {
        return r;
    }
    copy = malloc(n);
    if (copy == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    memcpy(copy, text, n);
    return surrogates_repair(copy, n) ? snp_json_parse_any(copy, n, ret, err) : r;
}

/* Messages -------------------------------------------------------------------------------- */

static bool is_id(const json_t *id)
{
    return json_is_number(id) ||
           (json_is_string(id) && json_string_length(id) <= SNP_MCP_ID_MAX);
}

static int check(struct snp_jsonrpc *m, struct snp_err *err)
{
    json_t *method = json_object_get(m->root, "method");

    m->id = json_object_get(m->root, "id");
    m->params = json_object_get(m->root, "params");
    m->result = json_object_get(m->root, "result");
    m->error = json_object_get(m->root, "error");
    if (!snp_streq(snp_json_str(m->root, "jsonrpc", NULL), "2.0")) {
        return snp_fail(err, SNP_E_INVALID, "'jsonrpc' must be \"2.0\"");
    }
    if (method == NULL && (m->result != NULL || m->error != NULL)) {
        m->kind = SNP_JSONRPC_IS_RESPONSE;
        return m->id == NULL || (m->result != NULL) == (m->error != NULL)
                   ? snp_fail(err, SNP_E_INVALID,
                              "a response has an 'id' and either 'result' or 'error'")
                   : 0;
    }
    m->method = snp_json_str(m->root, "method", NULL);
    if (m->method == NULL || strlen(m->method) > SNP_MCP_METHOD_MAX) {
        return snp_fail(err, SNP_E_INVALID, "'method' must be a string of at most %d bytes",
                        SNP_MCP_METHOD_MAX);
    }
    if (m->id != NULL && !is_id(m->id)) {
        return snp_fail(err, SNP_E_INVALID,
                        "'id' must be a number or a string of at most %d bytes",
                        SNP_MCP_ID_MAX);
    }
    if (m->params != NULL && !json_is_object(m->params)) {
        return snp_fail(err, SNP_E_INVALID, "'params' must be an object");
    }
    m->kind = m->id == NULL ? SNP_JSONRPC_IS_NOTIFICATION : SNP_JSONRPC_IS_REQUEST;
    return 0;
}

/* A batch that cannot be read is a bad request rather than bad JSON. */
static int code_of(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r')) {
        i++;
    }
    return i < n && text[i] == '[' ? SNP_JSONRPC_REQUEST : SNP_JSONRPC_PARSE;
}

int snp_jsonrpc_read(
    const char *text, size_t n, json_t **ret, int *ret_code, struct snp_err *err)
{
    int r = text_read(text, n, ret, err);

    if (r < 0) {
        *ret_code = r == SNP_E_INVALID ? code_of(text, n) : SNP_JSONRPC_INTERNAL;
    }
    return r;
}

int snp_jsonrpc_take(
    json_t *root, struct snp_jsonrpc *ret, int *ret_code, json_t **ret_id, struct snp_err *err)
{
    snp_autojsonrpc struct snp_jsonrpc message = {.root = root};
    int r = json_is_object(root) ? check(&message, err)
                                 : snp_fail(err, SNP_E_INVALID, "a message is an object");

    if (r < 0) {
        *ret_code = SNP_JSONRPC_REQUEST;
        *ret_id = is_id(message.id) && message.kind != SNP_JSONRPC_IS_RESPONSE
                      ? json_incref(message.id)
                      : NULL;
        return r;
    }
    *ret = message;
    message = (struct snp_jsonrpc){0};
    return 0;
}

int snp_jsonrpc_parse(const char *text,
                      size_t n,
                      struct snp_jsonrpc *ret,
                      int *ret_code,
                      json_t **ret_id,
                      struct snp_err *err)
{
    json_t *root = NULL;
    int r = snp_jsonrpc_read(text, n, &root, ret_code, err);

    if (r < 0) {
        *ret_id = NULL;
        return r;
    }
    return snp_jsonrpc_take(root, ret, ret_code, ret_id, err);
}

json_t *snp_jsonrpc_result(json_t *id, json_t *result)
{
    return result == NULL
               ? NULL
               : json_pack("{s:s, s:O?, s:o}", "jsonrpc", "2.0", "id", id, "result", result);
}

json_t *snp_jsonrpc_error(json_t *id, int code, const char *message, json_t *data)
{
    snp_autobuf struct snp_buf text = {0};

    /* It may quote a client or a program, and will be in a log. */
    snp_buf_init(&text, 8 * strlen(message) + 1);
    if (snp_escape(&text, message, strlen(message)) < 0) {
        json_decref(data);
        return NULL;
    }
    return json_pack("{s:s, s:O?, s:{s:i, s:o, s:o*}}", "jsonrpc", "2.0", "id", id, "error",
                     "code", code, "message",
                     snp_json_bytes(text.len == 0 ? "" : snp_buf_bytes(&text), text.len),
                     "data", data);
}

json_t *snp_jsonrpc_notification(const char *method, json_t *params)
{
    return params == NULL ? NULL
                          : json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method,
                                      "params", params);
}

json_t *snp_jsonrpc_request(json_int_t id, const char *method, json_t *params)
{
    return params == NULL ? NULL
                          : json_pack("{s:s, s:I, s:s, s:o}", "jsonrpc", "2.0", "id", id,
                                      "method", method, "params", params);
}
