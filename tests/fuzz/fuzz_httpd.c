/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What our part of the HTTP server reads. First byte 'H': a head ("VERB PATH[ VERSION]", then
 * "Name: value" lines, an empty line) and a message: who is let in must be told so, once more in
 * other words. 'N': a value of Mcp-Name. 'A': an address. 'S': a session's id, and an event's id of
 * a stream that is there.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/httpd/head.h"
#include "base/httpd/listen.h"
#include "base/mcp/era.h"
#include "base/str.h"
#include "fuzz/target.h"
#include "mcp/http/stream.h"

static const char token[] = "0123456789abcdef0123456789abcdef";
static const char *const names[] = {"localhost", "127.0.0.1", "[::1]", "other.example.com"};
static const struct snp_httpd_rules rules = {names, SNP_ARRAY_LEN(names), token};

/* Heads ---------------------------------------------------------------------------------------- */

/* A header whose value has this text, said without our parser. */
static bool says(const char *lines, const char *name, const char *text)
{
    size_t n = strlen(name);

    while (lines != NULL && *lines != '\0') {
        const char *end = strchrnul(lines, '\n');

        if (strncasecmp(lines, name, n) == 0 && lines[n] == ':' &&
            memmem(lines + n, (size_t)(end - lines - (ptrdiff_t)n), text, strlen(text)) != NULL) {
            return true;
        }
        lines = *end == '\0' ? NULL : end + 1;
    }
    return false;
}

/* A line that another server may read differently, said without our parser. */
static bool is_odd(const char *lines)
{
    while (lines != NULL && *lines != '\0' && *lines != '\n') {
        const char *end = strchrnul(lines, '\n');
        const char *colon = memchr(lines, ':', (size_t)(end - lines));

        if (colon != NULL &&
            (colon == lines || memchr(lines, ' ', (size_t)(colon - lines)) != NULL ||
             memchr(lines, '\t', (size_t)(colon - lines)) != NULL ||
             memchr(lines, '\r', (size_t)(end - lines)) != NULL)) {
            return true;
        }
        lines = *end == '\0' ? NULL : end + 1;
    }
    return false;
}

static bool says_a_host(const char *lines)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        if (strcasestr(lines, names[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static void head_read(char *lines, struct snp_httpd_head *head)
{
    while (lines != NULL && *lines != '\0' && *lines != '\n') {
        char *end = strchr(lines, '\n');
        size_t n = end == NULL ? strlen(lines) : (size_t)(end - lines);
        char *colon = memchr(lines, ':', n);

        if (colon != NULL) {
            snp_httpd_head_add(head, lines, (size_t)(colon - lines), colon + 1,
                               n - (size_t)(colon - lines) - 1);
        }
        lines = end == NULL ? NULL : end + 1;
    }
}

static void check_let_in(const struct snp_httpd_head *head, const char *lines)
{
    SNP_ASSERT(says(lines, "Authorization", token));
    SNP_ASSERT(says_a_host(lines) && head->doubled == NULL && !is_odd(lines));
    SNP_ASSERT(head->field[SNP_HTTPD_ORIGIN].bytes == NULL || strcasestr(lines, "http") != NULL);
    SNP_ASSERT((head->field[SNP_HTTPD_CONTENT_LENGTH].bytes == NULL && !head->is_old) ||
               head->field[SNP_HTTPD_TRANSFER_ENCODING].bytes == NULL);
}

static void check_match(const struct snp_httpd_head *head, const char *text)
{
    snp_autojsonrpc struct snp_jsonrpc message = {0};
    snp_autojson json_t *id = NULL;
    snp_autojson json_t *data = NULL;
    enum snp_era era = SNP_ERA_LEGACY;
    struct snp_err err = {0};
    int code = 0;
    int r;

    if (snp_jsonrpc_parse(text, strlen(text), &message, &code, &id, &err) < 0) {
        return;
    }
    r = snp_httpd_match(head, &message, &err);
    SNP_ASSERT(r == 0 || (r < 0 && err.msg[0] != '\0'));
    if (r == 0 && message.kind == SNP_JSONRPC_IS_REQUEST &&
        snp_era_read(&message, &era, &code, &data, &err) == 0 && era == SNP_ERA_MODERN) {
        SNP_ASSERT(snp_httpd_is_modern(head, &message));
        SNP_ASSERT(snp_httpd_text_is(head->field[SNP_HTTPD_VERSION], SNP_MCP_VERSION_MODERN));
        SNP_ASSERT(snp_httpd_text_is(head->field[SNP_HTTPD_METHOD], message.method));
    }
}

static void check_head(char *text)
{
    struct snp_httpd_head head = {0};
    struct snp_err err = {0};
    char *body = strstr(text, "\n\n");
    char *lines = strchr(text, '\n');
    char *path = strchr(text, ' ');
    char *version;
    unsigned status;

    if (lines == NULL || path == NULL || path > lines) {
        return;
    }
    *path++ = '\0';
    *lines++ = '\0';
    version = strchr(path, ' ');
    if (version != NULL) {
        *version++ = '\0';
        head.is_old = strcmp(version, "HTTP/1.1") != 0;
    }
    if (body != NULL && body >= lines) {
        body[1] = '\0';
    }
    head_read(lines, &head);
    status = snp_httpd_judge(&head, &rules, text, path, &err);
    SNP_ASSERT(status == 0 || (status >= 400 && status < 500 && err.msg[0] != '\0'));
    SNP_ASSERT(strstr(err.msg, token) == NULL);
    if (status == 0) {
        check_let_in(&head, lines);
    }
    if (body != NULL && body >= lines) {
        check_match(&head, body + 2);
    }
}

/* Smaller ones --------------------------------------------------------------------------------- */

static void check_name(const char *bytes, size_t n)
{
    snp_autobuf struct snp_buf out = {0};

    snp_buf_init(&out, n + 4);
    if (snp_httpd_name_decode((struct snp_httpd_text){bytes, n}, &out) < 0) {
        return;
    }
    SNP_ASSERT(out.len <= n);
    for (size_t i = 0; i < n; i++) {
        SNP_ASSERT((bytes[i] >= ' ' && bytes[i] <= '~') || bytes[i] == '\t');
    }
}

static void check_address(const char *text)
{
    struct snp_httpd_address address;
    struct snp_err err;

    if (snp_httpd_address_parse(text, &address, &err) < 0) {
        return;
    }
    SNP_ASSERT(address.is_unix == snp_has_prefix(text, "unix:/"));
    SNP_ASSERT(address.is_loopback == (address.is_unix || strncmp(address.host, "127.", 4) == 0 ||
                                       strcmp(address.host, "[::1]") == 0));
    SNP_ASSERT(address.host[0] != '\0' && address.len > 0);
}

static void on_wake(struct snp_httpd_stream *stream)
{
    (void)stream;
}

static void run_note(struct snp_mcp_call *call)
{
    snp_mcp_progress(call, 1, 2, "half\n\nid: 1\n", NULL);
    snp_mcp_answer(call, json_object());
}

static void stream_try(struct snp_mcp_hub *hub, struct snp_httpd_session *session, char *text)
{
    static const char request[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"note\",\"params\":{"
                                  "\"_meta\":{\"progressToken\":\"\\n\\nid: 2\"}}}";
    struct snp_httpd_streams streams = {.wake = on_wake};
    const struct snp_httpd_stream_spec spec = {
        .session = session, .takes = SNP_HTTPD_TAKES_BOTH, .is_primed = true, .reader = text};
    struct snp_httpd_stream *stream;
    char id[48];
    size_t at = 0;
    size_t n_events = 0;

    snp_httpd_streams_init(&streams, hub);
    stream = snp_httpd_stream_new(&streams, &spec);
    SNP_ASSERT(stream != NULL);
    snp_mcp_receive(&stream->peer, request, sizeof(request) - 1);
    SNP_ASSERT(stream->is_open && stream->is_final && stream->n_events == 3);
    for (unsigned i = 1; i <= 3; i++) {
        int n = snprintf(id, sizeof(id), "%s-%u", stream->id, i);
        size_t before = at;

        SNP_ASSERT(snp_httpd_stream_find(&streams, session, id, (size_t)n, &at) == stream);
        SNP_ASSERT(at > before && at <= stream->log.len);
        n_events++;
    }
    SNP_ASSERT(n_events == 3 && at == stream->log.len);
    /* what is made up finds nothing, or a place between two events */
    (void)snprintf(id, sizeof(id), "%s-%.10s", stream->id, text);
    if (snp_httpd_stream_find(&streams, session, id, strlen(id), &at) != NULL) {
        SNP_ASSERT(memcmp(snp_buf_bytes(&stream->log) + at - 2, "\n\n", 2) == 0);
    }
    (void)snp_httpd_stream_find(&streams, session, text, strlen(text), &at);
    snp_httpd_stream_leave(stream, true);
    snp_httpd_streams_done(&streams);
}

static void check_session(char *text)
{
    static const struct snp_mcp_method methods[] = {{"note", SNP_IN_LEGACY, false, run_note}};
    const struct snp_mcp_service service = {.methods = methods, .n_methods = 1};
    struct snp_httpd_sessions sessions;
    struct snp_httpd_session *made;
    struct snp_mcp_hub hub;
    uv_loop_t loop;

    SNP_ASSERT(uv_loop_init(&loop) == 0);
    snp_mcp_hub_init(&hub, &loop, &service);
    snp_httpd_sessions_init(&sessions, token);
    made = snp_httpd_session_new(&sessions);
    SNP_ASSERT(made != NULL);
    SNP_ASSERT(snp_httpd_session_find(&sessions, made->id, SNP_HTTPD_SESSION_LEN) == made);
    SNP_ASSERT(strcmp(text, made->id) == 0 ||
               snp_httpd_session_find(&sessions, text, strlen(text)) == NULL);
    stream_try(&hub, made, text);
    SNP_ASSERT(made->n_users == 0);
    made->is_ended = true;
    SNP_ASSERT(snp_httpd_session_find(&sessions, made->id, SNP_HTTPD_SESSION_LEN) == NULL);
    snp_httpd_sessions_done(&sessions);
    snp_mcp_hub_done(&hub);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    SNP_ASSERT(uv_loop_close(&loop) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *rest = (const char *)bytes + 1;
    snp_autofree char *text = n == 0 ? NULL : strndup(rest, n - 1);

    if (text == NULL) {
        return 0;
    }
    switch (bytes[0]) {
    case 'H':
        check_head(text);
        break;
    case 'N':
        check_name(rest, n - 1);
        break;
    case 'A':
        check_address(text);
        break;
    case 'S':
        check_session(text);
        break;
    default:
        break;
    }
    return 0;
}
