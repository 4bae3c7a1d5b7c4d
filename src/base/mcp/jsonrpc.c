/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON-RPC messages. The caller bounds their size, base/json.h nesting and duplicate keys; only
 * this file decides whether a message is a request.
 */
#include "base/mcp/jsonrpc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mcp/caps.h"
#include "base/str.h"
#include "base/text/escape.h"

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

/* Replace escaped halves of surrogate pairs in place; true if there were any. */
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
            i++; /* an escaped backslash begins no escape */
        }
    }
    return found;
}

/* Numbers ---------------------------------------------------------------------------------- */

static const char far[] = "1e300"; /* out of range of every argument, but readable */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits at text, at most n. */
static size_t digits(const char *text, size_t n)
{
    size_t count = 0;

    while (count < n && is_digit(text[count])) {
        count++;
    }
    return count;
}

/* Whether the parser refuses the number of len characters, without sign. If in doubt, true. */
static bool is_far(const char *text, size_t len)
{
    static const char most[] = "9223372036854775807";
    size_t whole = digits(text, len);
    size_t exponent = 0;

    if (whole == len) {
        return len >= sizeof(most) || (len == sizeof(most) - 1 && memcmp(text, most, len) > 0);
    }
    for (size_t i = whole; i < len; i++) {
        if ((text[i] == 'e' || text[i] == 'E') && i + 1 < len && text[i + 1] != '-') {
            i += text[i + 1] == '+' ? 1 : 0;
            exponent = digits(text + i + 1, len - i - 1);
        }
    }
    return whole > 300 || exponent > 2;
}

/* Characters of a number after its first digit. */
static bool is_of_number(char c)
{
    return is_digit(c) || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-';
}

/*
 * Replace numbers out of range in place with one that no argument accepts: so their call gets an
 * error with its id; without an id it would wait forever. True if there were any.
 */
static bool numbers_repair(char *text, size_t n)
{
    bool in_string = false;
    bool found = false;

    for (size_t i = 0; i < n; i++) {
        size_t len = 0;

        if (text[i] == '"') {
            in_string = !in_string;
        } else if (in_string) {
            i += text[i] == '\\' ? 1 : 0; /* an escaped character ends no string */
        } else if (is_digit(text[i])) {
            while (i + len < n && is_of_number(text[i + len])) {
                len++;
            }
            if (len >= sizeof(far) - 1 && is_far(text + i, len)) {
                memset(text + i, ' ', len);
                memcpy(text + i, far, sizeof(far) - 1);
                found = true;
            }
            i += len - 1;
        }
    }
    return found;
}

/* Whether an id was repaired: such an id is invalid. */
static bool has_far_id(const json_t *root)
{
    double id = json_number_value(json_object_get(root, "id"));

    return id > 1e299 || id < -1e299;
}

/* is_request: the sender waits for an answer. */
static int text_read(const char *text, size_t n, bool is_request, json_t **ret, struct snp_err *err)
{
    snp_autojson json_t *root = NULL;
    snp_autofree char *copy = NULL;
    struct snp_err ignored;
    bool found;
    int r = n == 0 ? snp_fail(err, SNP_E_INVALID, "the message is empty")
                   : snp_json_parse_any(text, n, ret, err);

    if (n == 0 || r != SNP_E_INVALID) {
        return r;
    }
    copy = malloc(n);
    if (copy == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    memcpy(copy, text, n);
    found = surrogates_repair(copy, n);
    found = (is_request && numbers_repair(copy, n)) || found;
    if (!found || snp_json_parse_any(copy, n, &root, &ignored) < 0 || has_far_id(root)) {
        return r;
    }
    *ret = SNP_TAKE_PTR(root);
    return 0;
}

/* Messages -------------------------------------------------------------------------------- */

static bool is_id(const json_t *id)
{
    return json_is_number(id) || (json_is_string(id) && json_string_length(id) <= SNP_MCP_ID_MAX);
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
        return snp_fail(err, SNP_E_INVALID, "'id' must be a number or a string of at most %d bytes",
                        SNP_MCP_ID_MAX);
    }
    if (m->params != NULL && !json_is_object(m->params)) {
        return snp_fail(err, SNP_E_INVALID, "'params' must be an object");
    }
    m->kind = m->id == NULL ? SNP_JSONRPC_IS_NOTIFICATION : SNP_JSONRPC_IS_REQUEST;
    return 0;
}

/* A malformed batch is a bad request, not bad JSON. */
static int code_of(const char *text, size_t n)
{
    size_t i = 0;

    while (i < n && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r')) {
        i++;
    }
    return i < n && text[i] == '[' ? SNP_JSONRPC_REQUEST : SNP_JSONRPC_PARSE;
}

static int read_any(
    const char *text, size_t n, bool is_request, json_t **ret, int *ret_code, struct snp_err *err)
{
    int r = text_read(text, n, is_request, ret, err);

    if (r < 0) {
        *ret_code = r == SNP_E_INVALID ? code_of(text, n) : SNP_JSONRPC_INTERNAL;
    }
    return r;
}

int snp_jsonrpc_read(const char *text, size_t n, json_t **ret, int *ret_code, struct snp_err *err)
{
    return read_any(text, n, true, ret, ret_code, err);
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
    int r = read_any(text, n, false, &root, ret_code, err);

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

    /* It may quote a client or a program, and will be logged. */
    snp_buf_init(&text, 8 * strlen(message) + 1);
    if (snp_escape(&text, message, strlen(message)) < 0) {
        json_decref(data);
        return NULL;
    }
    return json_pack("{s:s, s:O?, s:{s:i, s:o, s:o*}}", "jsonrpc", "2.0", "id", id, "error", "code",
                     code, "message",
                     snp_json_bytes(text.len == 0 ? "" : snp_buf_bytes(&text), text.len), "data",
                     data);
}

json_t *snp_jsonrpc_notification(const char *method, json_t *params)
{
    return params == NULL
               ? NULL
               : json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params", params);
}

json_t *snp_jsonrpc_request(json_int_t id, const char *method, json_t *params)
{
    return params == NULL ? NULL
                          : json_pack("{s:s, s:I, s:s, s:o}", "jsonrpc", "2.0", "id", id, "method",
                                      method, "params", params);
}
