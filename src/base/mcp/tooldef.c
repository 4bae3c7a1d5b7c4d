/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tool definitions. Nothing in them is followed: no "$ref", no URL. The JSON parser bounds the
 * depth of walks.
 */
#include "base/mcp/tooldef.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/mcp/caps.h"
#include "base/str.h"
#include "base/text/say.h"

static const int64_t integer_max = 9007199254740991; /* exact in JavaScript */

/* Report why a tool is unfit, quoting a word of the server. */
static int unfit(struct snp_err *err, const char *why, const char *word)
{
    snp_autosay struct snp_say shown = SNP_SAY(SNP_MCP_CLIENT_NOTE_MAX);

    snp_say_line(&shown, word, 60);
    return snp_fail(err, SNP_E_INVALID, "%s '%s'", why, snp_say_cstr(&shown));
}

/* Headers --------------------------------------------------------------------------------- */

struct header_walk {
    json_t *headers; /* rules found */
    json_t *path;    /* keys of the current property */
    struct snp_err *err;
};

static bool is_token(const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (!isascii((unsigned char)*c) ||
            (isalnum((unsigned char)*c) == 0 && strchr("!#$%&'*+-.^_`|~", *c) == NULL)) {
            return false;
        }
    }
    return *text != '\0';
}

static bool is_known(const json_t *headers, const char *name)
{
    size_t i;
    json_t *rule;

    json_array_foreach(headers, i, rule)
    {
        if (strcasecmp(snp_json_str(rule, "header", ""), name) == 0) {
            return true;
        }
    }
    return false;
}

/* Take an annotation at walk->path, if allowed there. */
static int annotation_take(struct header_walk *walk, const json_t *schema, const json_t *annotation)
{
    const char *name = json_string_value(annotation);
    const char *type = snp_json_str(schema, "type", "");

    if (name == NULL || strlen(name) != json_string_length(annotation) ||
        strlen(name) > SNP_MCP_CLIENT_NAME_MAX || !is_token(name)) {
        return unfit(walk->err,
                     "x-mcp-header is not a valid header name:", name == NULL ? "" : name);
    }
    if (!snp_streq(type, "string") && !snp_streq(type, "integer") && !snp_streq(type, "boolean")) {
        return unfit(walk->err, "x-mcp-header is on a parameter of type", type);
    }
    if (is_known(walk->headers, name)) {
        return unfit(walk->err, "x-mcp-header names twice", name);
    }
    if (json_array_size(walk->headers) >= SNP_MCP_CLIENT_HEADERS_MAX / 2) {
        return unfit(walk->err, "too many headers, beginning with", name);
    }
    return json_array_append_new(walk->headers, json_pack("{s:s, s:o}", "header", name, "path",
                                                          json_copy(walk->path))) < 0
               ? snp_fail(walk->err, SNP_E_NOMEM, "out of memory")
               : 0;
}

/* Whether a member of a schema holds values, not schemas. */
static bool is_data(const char *key)
{
    return snp_streq(key, "default") || snp_streq(key, "const") || snp_streq(key, "enum") ||
           snp_streq(key, "examples");
}

static int walk_schema(struct header_walk *walk, const json_t *schema, bool is_reachable);

static int walk_properties(struct header_walk *walk, const json_t *properties, bool is_reachable)
{
    const char *key;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)properties, key, value)
    {
        if (json_array_append_new(walk->path, json_string(key)) < 0) {
            return snp_fail(walk->err, SNP_E_INVALID, "a parameter's name is not UTF-8");
        }
        r = walk_schema(walk, value, is_reachable);
        (void)json_array_remove(walk->path, json_array_size(walk->path) - 1);
        if (r < 0) {
            break;
        }
    }
    return r;
}

/* is_reachable: only "properties" lie between the root and here. */
static int walk_schema(struct header_walk *walk, const json_t *schema, bool is_reachable)
{
    const json_t *annotation = json_object_get(schema, "x-mcp-header");
    const char *key;
    json_t *value;
    size_t i;
    int r = 0;

    if (annotation != NULL) {
        r = is_reachable ? annotation_take(walk, schema, annotation)
                         : unfit(walk->err, "x-mcp-header is not on an argument:",
                                 snp_json_str(schema, "x-mcp-header", ""));
    }
    json_array_foreach(schema, i, value)
    {
        r = r < 0 ? r : walk_schema(walk, value, false);
    }
    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        if (r < 0 || is_data(key)) {
            continue;
        }
        r = snp_streq(key, "properties") && json_is_object(value)
                ? walk_properties(walk, value, is_reachable)
                : walk_schema(walk, value, false);
    }
    return r;
}

static int headers_find(const json_t *schema, json_t **ret, struct snp_err *err)
{
    snp_autojson json_t *headers = json_array();
    snp_autojson json_t *path = json_array();
    struct header_walk walk = {headers, path, err};
    int r = headers == NULL || path == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                                            : walk_schema(&walk, schema, true);

    if (r == 0) {
        *ret = SNP_TAKE_PTR(headers);
    }
    return r;
}

char *snp_mcp_header_value(const char *text, size_t n)
{
    static const char begin[] = "=?base64?";
    bool is_plain = n == 0 || (text[0] != ' ' && text[n - 1] != ' ');
    snp_autofree char *encoded = NULL;

    for (size_t i = 0; i < n && is_plain; i++) {
        is_plain = text[i] >= 0x20 && text[i] <= 0x7e;
    }
    if (is_plain && n >= sizeof(begin) && strncmp(text, begin, sizeof(begin) - 1) == 0 &&
        text[n - 2] == '?' && text[n - 1] == '=') {
        is_plain = false;
    }
    if (is_plain) {
        return strndup(text, n);
    }
    encoded = snp_base64(text, n);
    return encoded == NULL ? NULL : snp_format("%s%s?=", begin, encoded);
}

/* The value at a path of keys in the arguments; NULL = none. */
static const json_t *value_at(const json_t *arguments, const json_t *path)
{
    size_t i;
    json_t *key;

    json_array_foreach(path, i, key)
    {
        arguments = json_object_get(arguments, json_string_value(key));
    }
    return json_is_null(arguments) ? NULL : arguments;
}

/* The value as a header's text; NULL: see err. */
static char *value_text(const char *header, const json_t *value, struct snp_err *err)
{
    char *text = NULL;

    if (json_is_string(value)) {
        text = snp_mcp_header_value(json_string_value(value), json_string_length(value));
    } else if (json_is_boolean(value)) {
        text = strdup(json_is_true(value) ? "true" : "false");
    } else if (json_is_integer(value) && json_integer_value(value) <= integer_max &&
               json_integer_value(value) >= -integer_max) {
        text = snp_format("%lld", (long long)json_integer_value(value));
    } else {
        (void)snp_fail(err, SNP_E_INVALID,
                       "the argument for the header Mcp-Param-%s must be a text, true, false, or "
                       "an integer below 2^53",
                       header);
        return NULL;
    }
    if (text == NULL) {
        (void)snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return text;
}

int snp_mcp_tooldef_headers(const json_t *headers,
                            const json_t *arguments,
                            json_t **ret,
                            struct snp_err *err)
{
    snp_autojson json_t *made = json_array();
    size_t i;
    json_t *rule;

    json_array_foreach(headers, i, rule)
    {
        const char *header = snp_json_str(rule, "header", "");
        const json_t *value = value_at(arguments, json_object_get(rule, "path"));
        snp_autofree char *text = NULL;
        snp_autofree char *line = NULL;

        if (value == NULL) {
            continue;
        }
        text = value_text(header, value, err);
        if (text == NULL) {
            return err->code;
        }
        line = snp_format("Mcp-Param-%s: %s", header, text);
        if (line == NULL || json_array_append_new(made, json_string(line)) < 0) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    if (made == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *ret = SNP_TAKE_PTR(made);
    return 0;
}

/* Definitions ----------------------------------------------------------------------------- */

const char *snp_mcp_tooldef_name(const json_t *tool)
{
    const char *name = snp_json_str(tool, "name", "");

    if (*name == '\0' || strlen(name) > SNP_MCP_CLIENT_NAME_MAX) {
        return NULL;
    }
    for (const char *c = name; *c != '\0'; c++) {
        if (!isascii((unsigned char)*c) ||
            (isalnum((unsigned char)*c) == 0 && strchr("_./-", *c) == NULL)) {
            return NULL;
        }
    }
    return name;
}

int snp_mcp_tooldef_check(const json_t *tool,
                          bool with_headers,
                          json_t **ret_headers,
                          struct snp_err *err)
{
    const json_t *schema = json_object_get(tool, "inputSchema");
    const json_t *description = json_object_get(tool, "description");

    if (snp_mcp_tooldef_name(tool) == NULL) {
        return unfit(err, "the name must be 1 to 128 of A-Z a-z 0-9 _ . / -, not",
                     snp_json_str(tool, "name", ""));
    }
    if (json_dumpb(tool, NULL, 0, JSON_COMPACT) > SNP_MCP_CLIENT_DEFINITION_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the definition is larger than %d KiB",
                        SNP_MCP_CLIENT_DEFINITION_MAX >> 10);
    }
    if (!json_is_object(schema) || !snp_streq(snp_json_str(schema, "type", "object"), "object")) {
        return snp_fail(err, SNP_E_INVALID, "the inputSchema is not that of an object");
    }
    if (description != NULL && !json_is_string(description)) {
        return snp_fail(err, SNP_E_INVALID, "the description is not a text");
    }
    if (with_headers) {
        return headers_find(schema, ret_headers, err);
    }
    *ret_headers = json_array();
    return *ret_headers == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

int snp_mcp_tooldef_fingerprint(const json_t *tool,
                                char out[SNP_MCP_FINGERPRINT_LEN + 1],
                                struct snp_err *err)
{
    snp_autofree char *text = json_dumps(tool, JSON_COMPACT | JSON_SORT_KEYS);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (text == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (EVP_Digest(text, strlen(text), digest, &n, EVP_sha256(), NULL) != 1 ||
        n * 2 != SNP_MCP_FINGERPRINT_LEN) {
        return snp_fail(err, SNP_E_INTERNAL, "SHA-256 failed");
    }
    snp_hex(digest, n, out);
    return 0;
}
