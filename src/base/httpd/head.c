/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of HTTP requests. Any doubt refuses. Access is checked before anything else, and a refused
 * stranger learns only which check failed.
 */
#include "base/httpd/head.h"

#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/httpd/token.h"
#include "base/mcp/caps.h"
#include "base/mcp/era.h"
#include "base/str.h"

enum {
    PORT_DIGITS = 5,
};

static const char *const field_names[SNP_HTTPD_FIELDS] = {
    [SNP_HTTPD_HOST] = "Host",
    [SNP_HTTPD_ORIGIN] = "Origin",
    [SNP_HTTPD_AUTHORIZATION] = "Authorization",
    [SNP_HTTPD_CONTENT_TYPE] = "Content-Type",
    [SNP_HTTPD_CONTENT_LENGTH] = "Content-Length",
    [SNP_HTTPD_TRANSFER_ENCODING] = "Transfer-Encoding",
    [SNP_HTTPD_SESSION] = "Mcp-Session-Id",
    [SNP_HTTPD_LAST_EVENT] = "Last-Event-ID",
    [SNP_HTTPD_VERSION] = "MCP-Protocol-Version",
    [SNP_HTTPD_METHOD] = "Mcp-Method",
    [SNP_HTTPD_NAME] = "Mcp-Name",
};

/* Texts ------------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct snp_httpd_text trimmed(const char *bytes, size_t n)
{
    while (n > 0 && is_blank(bytes[0])) {
        bytes++;
        n--;
    }
    while (n > 0 && is_blank(bytes[n - 1])) {
        n--;
    }
    return (struct snp_httpd_text){bytes, n};
}

bool snp_httpd_text_is(struct snp_httpd_text text, const char *other)
{
    return text.bytes != NULL && other != NULL && text.n == strlen(other) &&
           memcmp(text.bytes, other, text.n) == 0;
}

/* Names of types, schemes and hosts: case is ignored. */
static bool is_word(struct snp_httpd_text text, const char *word)
{
    return text.bytes != NULL && text.n == strlen(word) &&
           strncasecmp(text.bytes, word, text.n) == 0;
}

static bool is_digits(struct snp_httpd_text text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9') {
            return false;
        }
    }
    return text.n > 0;
}

/* Cut text at the first c: the part before it; text keeps the rest, or none. */
static struct snp_httpd_text cut(struct snp_httpd_text *text, char c)
{
    const char *at = text->n == 0 ? NULL : memchr(text->bytes, c, text->n);
    struct snp_httpd_text first = *text;

    if (at == NULL) {
        *text = (struct snp_httpd_text){NULL, 0};
        return first;
    }
    first.n = (size_t)(at - first.bytes);
    *text = (struct snp_httpd_text){at + 1, text->n - first.n - 1};
    return first;
}

/* Versions are dates, and compare as text. */
static bool is_new_version(struct snp_httpd_text version)
{
    size_t n = strlen(SNP_MCP_VERSION_MODERN);

    return version.n == n && memcmp(version.bytes, SNP_MCP_VERSION_MODERN, n) >= 0;
}

/* Collecting ---------------------------------------------------------------------------------- */

/* "q=0", "q=0.000". */
static bool is_zero_weight(struct snp_httpd_text text)
{
    if (text.n < 3 || strncasecmp(text.bytes, "q=0", 3) != 0) {
        return false;
    }
    for (size_t i = 3; i < text.n; i++) {
        if (text.bytes[i] != '0' && text.bytes[i] != '.') {
            return false;
        }
    }
    return true;
}

/* "application/json, text/event-stream;q=0.9, ...". Types with q=0 are not accepted. */
static unsigned takes_read(struct snp_httpd_text list)
{
    static const struct {
        const char *type;
        unsigned takes;
    } types[] = {
        {"application/json", SNP_HTTPD_TAKES_JSON},
        {"application/*", SNP_HTTPD_TAKES_JSON},
        {"text/event-stream", SNP_HTTPD_TAKES_EVENTS},
        {"text/*", SNP_HTTPD_TAKES_EVENTS},
        {"*/*", SNP_HTTPD_TAKES_BOTH},
    };
    unsigned takes = 0;

    while (list.bytes != NULL) {
        struct snp_httpd_text item = cut(&list, ',');
        struct snp_httpd_text type = cut(&item, ';');
        struct snp_httpd_text rest = trimmed(item.bytes, item.n);
        bool is_refused = is_zero_weight(rest);

        type = trimmed(type.bytes, type.n);
        for (size_t i = 0; !is_refused && i < SNP_ARRAY_LEN(types); i++) {
            takes |= is_word(type, types[i].type) ? types[i].takes : 0;
        }
    }
    return takes;
}

/* Characters of a name, by RFC 9110. */
static bool is_token(struct snp_httpd_text name)
{
    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.bytes[i];

        if (c <= ' ' || c >= 0x7f || strchr("\"(),/:;<=>?@[\\]{}", c) != NULL) {
            return false;
        }
    }
    return name.n > 0;
}

static bool has_control(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];

        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return true;
        }
    }
    return false;
}

void snp_httpd_head_add(struct snp_httpd_head *head,
                        const char *name,
                        size_t name_len,
                        const char *value,
                        size_t value_len)
{
    const struct snp_httpd_text given = {name, name_len};

    value_len = value == NULL ? 0 : value_len;
    head->is_malformed = head->is_malformed || !is_token(given) || has_control(value, value_len);
    if (is_word(given, "Accept")) {
        head->takes |= takes_read((struct snp_httpd_text){value, value_len});
        return;
    }
    for (size_t i = 0; i < SNP_HTTPD_FIELDS; i++) {
        if (!is_word(given, field_names[i])) {
            continue;
        }
        if (head->field[i].bytes != NULL) {
            head->doubled = field_names[i];
        }
        head->field[i] = trimmed(value == NULL ? "" : value, value_len);
    }
}

/* Requester ----------------------------------------------------------------------------------- */

bool snp_httpd_host_allowed(struct snp_httpd_text host, const struct snp_httpd_rules *rules)
{
    const char *end =
        host.n > 0 && host.bytes[0] == '[' ? memchr(host.bytes, ']', host.n) : host.bytes;
    const char *colon;

    if (host.n == 0 || end == NULL) {
        return false;
    }
    colon = memchr(end, ':', host.n - (size_t)(end - host.bytes));
    if (colon != NULL) {
        struct snp_httpd_text port = {colon + 1, host.n - (size_t)(colon - host.bytes) - 1};

        if (!is_digits(port) || port.n > PORT_DIGITS) {
            return false;
        }
        host.n = (size_t)(colon - host.bytes);
    }
    for (size_t i = 0; i < rules->n_names; i++) {
        if (is_word(host, rules->names[i])) {
            return true;
        }
    }
    return false;
}

/* "http://HOST[:PORT]"; "null" never matches. */
static bool is_origin_allowed(struct snp_httpd_text origin, const struct snp_httpd_rules *rules)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(schemes); i++) {
        size_t n = strlen(schemes[i]);

        if (origin.n > n && strncasecmp(origin.bytes, schemes[i], n) == 0) {
            return snp_httpd_host_allowed((struct snp_httpd_text){origin.bytes + n, origin.n - n},
                                          rules);
        }
    }
    return false;
}

static bool is_token_right(struct snp_httpd_text given, const char *token)
{
    struct snp_httpd_text rest = given;
    struct snp_httpd_text scheme = cut(&rest, ' ');

    if (!is_word(scheme, "Bearer") || rest.bytes == NULL) {
        return false;
    }
    rest = trimmed(rest.bytes, rest.n);
    return snp_httpd_token_equal(token, rest.bytes, rest.n);
}

/* The judge ----------------------------------------------------------------------------------- */

#define refuse(status, ...) ((void)snp_fail(err, SNP_E_DENIED, __VA_ARGS__), (unsigned)(status))

unsigned snp_httpd_framing_judge(const struct snp_httpd_head *head, struct snp_err *err)
{
    struct snp_httpd_text length = head->field[SNP_HTTPD_CONTENT_LENGTH];
    struct snp_httpd_text coding = head->field[SNP_HTTPD_TRANSFER_ENCODING];

    if (head->is_malformed) {
        return refuse(400, "the head is malformed: each line is NAME: VALUE and ends with CR LF");
    }
    if (head->doubled != NULL) {
        return refuse(400, "the header %s was sent twice", head->doubled);
    }
    if (length.bytes != NULL && coding.bytes != NULL) {
        return refuse(400, "Content-Length and Transfer-Encoding exclude each other");
    }
    if (length.bytes != NULL && !is_digits(length)) {
        return refuse(400, "Content-Length must be a number");
    }
    if (coding.bytes != NULL && !is_word(coding, "chunked")) {
        return refuse(400, "Transfer-Encoding can only be 'chunked'");
    }
    if (coding.bytes != NULL && head->is_old) {
        return refuse(400, "Transfer-Encoding needs HTTP/1.1");
    }
    return 0;
}

static unsigned asker_judge(const struct snp_httpd_head *head,
                            const struct snp_httpd_rules *rules,
                            struct snp_err *err)
{
    struct snp_httpd_text origin = head->field[SNP_HTTPD_ORIGIN];

    if (!snp_httpd_host_allowed(head->field[SNP_HTTPD_HOST], rules)) {
        return refuse(403, "this Host is not served here; --allow-host NAME adds one");
    }
    if (origin.bytes != NULL && !is_origin_allowed(origin, rules)) {
        return refuse(403, "this Origin is not served here; --allow-host NAME adds one");
    }
    return 0;
}

static unsigned post_judge(const struct snp_httpd_head *head, struct snp_err *err)
{
    struct snp_httpd_text length = head->field[SNP_HTTPD_CONTENT_LENGTH];
    struct snp_httpd_text type = head->field[SNP_HTTPD_CONTENT_TYPE];
    char digits[24] = "";
    uint64_t n = 0;

    type = cut(&type, ';');
    type = trimmed(type.bytes, type.n);
    if (!is_word(type, "application/json")) {
        return refuse(415, "Content-Type must be application/json");
    }
    if (head->takes == 0) {
        return refuse(406, "Accept must list application/json and text/event-stream");
    }
    if (length.n > 0 && length.n < sizeof(digits)) {
        memcpy(digits, length.bytes, length.n);
    }
    if (length.n > 0 && (snp_parse_u64(digits, &n) < 0 || n > SNP_MCP_MESSAGE_MAX)) {
        return refuse(413, "a message can have at most %d MiB", SNP_MCP_MESSAGE_MAX >> 20);
    }
    return 0;
}

unsigned snp_httpd_judge(const struct snp_httpd_head *head,
                         const struct snp_httpd_rules *rules,
                         const char *verb,
                         const char *path,
                         struct snp_err *err)
{
    bool is_post = strcmp(verb, "POST") == 0;
    bool is_get = strcmp(verb, "GET") == 0;
    unsigned status = snp_httpd_framing_judge(head, err);

    status = status != 0 ? status : asker_judge(head, rules, err);
    if (status != 0) {
        return status;
    }
    if (strcmp(path, "/mcp") != 0) {
        return refuse(404, "not found: this server has only /mcp");
    }
    if (!is_post && !is_get && strcmp(verb, "DELETE") != 0) {
        return refuse(405, "messages are sent with POST");
    }
    if (rules->token != NULL &&
        !is_token_right(head->field[SNP_HTTPD_AUTHORIZATION], rules->token)) {
        return refuse(401, "the bearer token is missing or wrong");
    }
    if (is_post) {
        return post_judge(head, err);
    }
    if (is_new_version(head->field[SNP_HTTPD_VERSION])) {
        return refuse(405, "messages are sent with POST"); /* there are no sessions or streams to
                                                       * resume */
    }
    if (is_get && head->field[SNP_HTTPD_LAST_EVENT].bytes == NULL) {
        return refuse(405, "GET only resumes a stream, with Last-Event-ID");
    }
    if (is_get && (head->takes & SNP_HTTPD_TAKES_EVENTS) == 0) {
        return refuse(406, "Accept must list text/event-stream");
    }
    if (head->field[SNP_HTTPD_SESSION].bytes == NULL) {
        return refuse(400, "the header Mcp-Session-Id is missing");
    }
    return 0;
}

/* Headers that repeat the message -------------------------------------------------------------- */

/* Visible ASCII, blanks and tabs. */
static bool is_plain(struct snp_httpd_text text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.bytes[i];

        if ((c < ' ' && c != '\t') || c > '~') {
            return false;
        }
    }
    return true;
}

int snp_httpd_name_decode(struct snp_httpd_text value, struct snp_buf *out)
{
    static const char begin[] = "=?base64?";
    static const char end[] = "?=";
    size_t n_marks = sizeof(begin) - 1 + sizeof(end) - 1;

    if (!is_plain(value)) {
        return SNP_E_INVALID;
    }
    if (value.n < n_marks || memcmp(value.bytes, begin, sizeof(begin) - 1) != 0 ||
        memcmp(value.bytes + value.n - (sizeof(end) - 1), end, sizeof(end) - 1) != 0) {
        return snp_buf_add(out, value.bytes, value.n);
    }
    return snp_base64_take(value.bytes + sizeof(begin) - 1, value.n - n_marks, out);
}

static const json_t *version_of(const struct snp_jsonrpc *message)
{
    return json_object_get(json_object_get(message->params, "_meta"), SNP_MCP_META_VERSION);
}

bool snp_httpd_is_modern(const struct snp_httpd_head *head, const struct snp_jsonrpc *message)
{
    return version_of(message) != NULL || is_new_version(head->field[SNP_HTTPD_VERSION]) ||
           snp_streq(message->method, "server/discover");
}

#define mismatch(code, ...) ((void)snp_fail(err, SNP_E_INVALID, __VA_ARGS__), (code))

/* The string that Mcp-Name repeats; NULL: none does. */
static const json_t *name_of(const struct snp_jsonrpc *message)
{
    static const struct {
        const char *method;
        const char *member;
    } named[] = {
        {"tools/call", "name"},
        {"prompts/get", "name"},
        {"resources/read", "uri"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(named); i++) {
        if (snp_streq(message->method, named[i].method)) {
            return json_object_get(message->params, named[i].member);
        }
    }
    return NULL;
}

static int name_match(struct snp_httpd_text given, const json_t *name, struct snp_err *err)
{
    snp_autobuf struct snp_buf meant = {0};

    if (!json_is_string(name)) {
        return 0; /* not required, or the method reports the error */
    }
    snp_buf_init(&meant, given.n + 4);
    if (given.bytes == NULL) {
        return mismatch(SNP_JSONRPC_HEADER, "Header mismatch: Mcp-Name is missing");
    }
    if (snp_httpd_name_decode(given, &meant) < 0 || meant.len != json_string_length(name) ||
        (meant.len > 0 && memcmp(snp_buf_bytes(&meant), json_string_value(name), meant.len) != 0)) {
        return mismatch(SNP_JSONRPC_HEADER, "Header mismatch: Mcp-Name differs from params");
    }
    return 0;
}

static int modern_match(const struct snp_httpd_head *head,
                        const struct snp_jsonrpc *message,
                        struct snp_err *err)
{
    const json_t *version = version_of(message);
    struct snp_httpd_text given = head->field[SNP_HTTPD_VERSION];

    if (message->kind == SNP_JSONRPC_IS_NOTIFICATION && (given.bytes == NULL || version == NULL)) {
        return 0; /* their headers are not specified */
    }
    if (given.bytes == NULL) {
        return mismatch(SNP_JSONRPC_HEADER, "Header mismatch: MCP-Protocol-Version is missing");
    }
    if (version == NULL) {
        return mismatch(SNP_JSONRPC_PARAMS, "params._meta needs the string '%s'",
                        SNP_MCP_META_VERSION);
    }
    if (json_is_string(version) && !snp_httpd_text_is(given, json_string_value(version))) {
        return mismatch(SNP_JSONRPC_HEADER,
                        "Header mismatch: MCP-Protocol-Version differs from params._meta");
    }
    if (message->kind != SNP_JSONRPC_IS_REQUEST ||
        !snp_streq(json_string_value(version), SNP_MCP_VERSION_MODERN)) {
        return 0; /* for other versions only the refusal is defined */
    }
    if (!snp_httpd_text_is(head->field[SNP_HTTPD_METHOD], message->method)) {
        return mismatch(SNP_JSONRPC_HEADER, "Header mismatch: Mcp-Method is %s",
                        head->field[SNP_HTTPD_METHOD].bytes == NULL ? "missing" : "not the method");
    }
    return name_match(head->field[SNP_HTTPD_NAME], name_of(message), err);
}

int snp_httpd_match(const struct snp_httpd_head *head,
                    const struct snp_jsonrpc *message,
                    struct snp_err *err)
{
    struct snp_httpd_text given = head->field[SNP_HTTPD_VERSION];
    char version[16] = "";

    if (message->kind == SNP_JSONRPC_IS_RESPONSE && is_new_version(given)) {
        return mismatch(SNP_JSONRPC_REQUEST,
                        "in this version the server asks nothing, so it takes no responses");
    }
    if (snp_httpd_is_modern(head, message)) {
        return modern_match(head, message, err);
    }
    if (given.bytes == NULL) {
        return 0; /* versions before 2025-06-18 do not know it */
    }
    if (given.n < sizeof(version)) {
        memcpy(version, given.bytes, given.n);
    }
    if (!snp_streq(snp_era_negotiate(version), version)) {
        return mismatch(SNP_JSONRPC_REQUEST,
                        "Bad Request: Unsupported protocol version in MCP-Protocol-Version");
    }
    return 0;
}
