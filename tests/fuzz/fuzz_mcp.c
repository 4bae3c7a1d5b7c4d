/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MCP server's input. First byte even: lines of a client, to a conversation whose methods
 * answer at once, later, or ask back; what is sent must be JSON-RPC, and each id answered at most
 * once. If it is 2 modulo 4 the conversation is of the version that has batches. Odd: text of a
 * program and a URI; what is shown must be clean and bounded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mcp/lines.h"
#include "base/str.h"
#include "base/text/text.h"
#include "fuzz/target.h"
#include "mcp/caps.h"
#include "mcp/peer.h"
#include "mcp/server/resource.h"

enum {
    LINE_BYTES = 4096,
    TEXT_CHARS = 200,
    GROWTH = 8,
};

static size_t n_requests;
static size_t n_answers;
static struct snp_mcp_call *later;

static void message_check(const json_t *message)
{
    SNP_ASSERT(snp_streq(snp_json_str(message, "jsonrpc", NULL), "2.0"));
    if (json_object_get(message, "method") == NULL) {
        SNP_ASSERT((json_object_get(message, "result") == NULL) !=
                   (json_object_get(message, "error") == NULL));
        n_answers++;
    }
}

static void on_send(struct snp_mcp_peer *peer, json_t *message)
{
    snp_autofree char *text = snp_json_text(message);
    size_t i;
    json_t *one;

    SNP_ASSERT(text != NULL && strchr(text, '\n') == NULL);
    if (!json_is_array(message)) {
        message_check(message);
        return;
    }
    SNP_ASSERT(peer->version[0] != '\0' && json_array_size(message) > 0);
    json_array_foreach(message, i, one)
    {
        SNP_ASSERT(json_object_get(one, "method") == NULL);
        message_check(one);
    }
}

static void run_now(struct snp_mcp_call *call)
{
    SNP_ASSERT(json_is_object(call->params));
    snp_mcp_progress(call, 1, 2, "half", NULL);
    snp_mcp_answer(call, json_object());
}

static void on_cancel(struct snp_mcp_call *call)
{
    SNP_ASSERT(call->peer == NULL && call == later);
    later = NULL;
    snp_mcp_answer(call, json_object());
}

static void run_later(struct snp_mcp_call *call)
{
    if (later != NULL) {
        snp_mcp_refuse(call, SNP_JSONRPC_INTERNAL, NULL, "one at a time");
        return;
    }
    later = call;
    call->cancel = on_cancel;
}

static void on_answered(struct snp_mcp_call *call, json_t *result, json_t *error)
{
    SNP_ASSERT((result == NULL) != (error == NULL));
    snp_mcp_answer(call, json_object());
}

static void run_ask(struct snp_mcp_call *call)
{
    struct snp_err err;

    if (snp_mcp_ask(call, "roots/list", json_object(), on_answered, &err) < 0) {
        snp_mcp_refuse(call, SNP_JSONRPC_INTERNAL, NULL, "%s", err.msg);
    }
}

static const struct snp_mcp_method methods[] = {
    {"now", SNP_IN_BOTH, true, run_now},
    {"later", SNP_IN_BOTH, false, run_later},
    {"ask", SNP_IN_LEGACY, false, run_ask},
};

static void conversation(const char *bytes, size_t n, bool has_batches)
{
    snp_autojson json_t *info = json_pack("{s:s}", "name", "fuzz");
    const struct snp_mcp_service service = {.info = info,
                                            .brief = info,
                                            .capabilities = info,
                                            .instructions = "",
                                            .methods = methods,
                                            .n_methods = SNP_ARRAY_LEN(methods)};
    uv_loop_t loop;
    struct snp_mcp_hub hub;
    struct snp_mcp_peer peer = {.send = on_send};
    struct snp_mcp_lines lines;
    const char *line = NULL;
    size_t len = 0;

    SNP_ASSERT(uv_loop_init(&loop) == 0);
    n_requests = 0;
    n_answers = 0;
    later = NULL;
    snp_mcp_hub_init(&hub, &loop, &service);
    snp_mcp_peer_init(&peer, &hub);
    (void)snprintf(peer.version, sizeof(peer.version), "%s",
                   has_batches ? SNP_MCP_VERSION_BATCHES : "");
    snp_mcp_lines_init(&lines, LINE_BYTES);
    for (size_t i = 0; i < n; i += 512) {
        int r = snp_mcp_lines_add(&lines, bytes + i, n - i < 512 ? n - i : 512);

        SNP_ASSERT(r >= 0);
        while (snp_mcp_lines_next(&lines, &line, &len)) {
            SNP_ASSERT(len <= LINE_BYTES && memchr(line, '\n', len) == NULL);
            n_requests++;
            snp_mcp_receive(&peer, line, len);
        }
    }
    SNP_ASSERT(n_answers <= n_requests * (has_batches ? SNP_MCP_BATCH_MAX : 1));
    snp_mcp_lines_done(&lines);
    snp_mcp_peer_done(&peer);
    snp_mcp_hub_done(&hub);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    SNP_ASSERT(uv_loop_close(&loop) == 0);
}

static void texts(const char *bytes, size_t n)
{
    snp_autobuf struct snp_buf shown = {0};
    snp_autofree char *uri_text = strndup(bytes, n);
    struct snp_mcp_uri uri;
    struct snp_err err;
    bool is_cut = false;

    snp_buf_init(&shown, n * GROWTH + 1024);
    SNP_ASSERT(snp_text_add(&shown, bytes, n, TEXT_CHARS, &is_cut) == 0);
    if (shown.len > 0) {
        const char *text = snp_buf_bytes(&shown);

        SNP_ASSERT(snp_utf8_valid(text, shown.len));
        SNP_ASSERT(memchr(text, 0x1b, shown.len) == NULL && memchr(text, '\r', shown.len) == NULL);
        SNP_ASSERT(snp_utf8_count(text, shown.len) <= TEXT_CHARS + (is_cut ? 64 : 0));
    }
    snp_buf_clear(&shown);
    SNP_ASSERT(snp_text_line(&shown, bytes, n, TEXT_CHARS) == 0);
    SNP_ASSERT(shown.len == 0 || memchr(snp_buf_bytes(&shown), '\n', shown.len) == NULL);
    if (uri_text != NULL && snp_mcp_uri_parse(uri_text, &uri, &err) == 0) {
        SNP_ASSERT(snp_has_prefix(uri_text, "snipara://") && uri.path[0] != '\0');
        SNP_ASSERT(uri.offset <= INT64_MAX && uri.length <= INT64_MAX);
        SNP_ASSERT(uri.session[0] == '\0' ||
                   (!snp_has_prefix(uri.path, "kept:") && !snp_has_prefix(uri.path, "output:")));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n > 0 && bytes[0] % 2 == 0) {
        conversation((const char *)bytes + 1, n - 1, bytes[0] % 4 == 2);
    } else if (n > 0) {
        texts((const char *)bytes + 1, n - 1);
    }
    return 0;
}
