/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MCP servers say to our client. First byte: bit 0 a URL instead of a process, bits 1 and 2
 * the era. Then lines, each a message; "#N" before one: on the stream of request N; "!N": request N
 * fails, the session is gone. Every call ends at most once, with an object or an error; what is
 * sent is JSON-RPC with ids never used before; what is listed is fit to be called.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mcp/tooldef.h"
#include "base/str.h"
#include "fuzz/target.h"
#include "mcp/client/caps.h"
#include "mcp/client/priv.h"

static json_int_t last_id;
static unsigned n_done;
static bool is_closing;

static int on_send(struct snp_mcp_link *link,
                   const struct snp_mcp_link_message *message,
                   struct snp_err *err)
{
    const json_t *id = json_object_get(message->json, "id");
    size_t i;
    json_t *line;

    (void)err;
    SNP_ASSERT(!is_closing && link->client->state != SNP_MCP_CLIENT_CLOSING);
    SNP_ASSERT(snp_streq(snp_json_str(message->json, "jsonrpc", NULL), "2.0"));
    if (message->id != 0) {
        SNP_ASSERT(json_integer_value(id) == (json_int_t)message->id &&
                   json_integer_value(id) > last_id);
        last_id = json_integer_value(id);
    }
    json_array_foreach(message->headers, i, line)
    {
        SNP_ASSERT(strpbrk(json_string_value(line), "\r\n") == NULL);
    }
    return 0;
}

static void on_forget(struct snp_mcp_link *link, uint64_t id)
{
    (void)link;
    SNP_ASSERT(id != 0);
}

static void on_close(struct snp_mcp_link *link, bool at_once)
{
    (void)link;
    (void)at_once;
    SNP_ASSERT(!is_closing);
    is_closing = true;
}

static const struct snp_mcp_link_ops ops_of_process = {on_send, on_forget, NULL, on_close, false};
static const struct snp_mcp_link_ops ops_of_url = {on_send, on_forget, NULL, on_close, true};

static int on_asked(
    void *ctx, const char *method, const json_t *params, json_t **ret, struct snp_err *err)
{
    (void)ctx;
    SNP_ASSERT(snp_streq(method, "elicitation/create"));
    *ret = snp_mcp_elicit_defaults(params);
    return *ret == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static void on_progress(void *ctx, double progress, double total, const char *message)
{
    double *last = ctx;

    SNP_ASSERT(progress > *last && total >= 0 && strpbrk(message, "\x1b\n") == NULL);
    *last = progress;
}

static void on_done(void *ctx, const struct snp_mcp_client_end *end)
{
    (void)ctx;
    SNP_ASSERT((end->err == NULL) == json_is_object(end->result));
    n_done++;
}

static void on_listed(void *ctx,
                      const struct snp_mcp_client_end *end,
                      json_t *items,
                      const json_t *notes)
{
    size_t i;
    json_t *tool;

    (void)ctx;
    SNP_ASSERT((end->err == NULL) == (items != NULL && notes != NULL));
    json_array_foreach(items, i, tool)
    {
        SNP_ASSERT(snp_mcp_tooldef_name(tool) != NULL);
    }
}

static void calls_make(struct snp_mcp_client *client, double *progress)
{
    struct snp_mcp_client_call call = {
        .method = "tools/call",
        .params = json_pack("{s:s, s:{s:s, s:i}}", "name", "t", "arguments", "a", "x\ny", "n", 5),
        .progress = on_progress,
        .done = on_done,
        .ctx = progress,
    };
    struct snp_err err;

    (void)!snp_mcp_client_call(client, &call, NULL, &err);
    (void)!snp_mcp_client_list(client, "tools/list", 0, on_listed, NULL, &err);
}

static void line_feed(struct snp_mcp_client *client, const char *line, size_t n)
{
    bool has_number =
        n > 2 && (line[0] == '#' || line[0] == '!') && line[1] >= '0' && line[1] <= '9';
    uint64_t id = has_number ? (uint64_t)(line[1] - '0') : 0;
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_PEER, "gone");
    if (has_number && line[0] == '!') {
        const struct snp_mcp_link_failure failure = {id, 404, true, &err};

        snp_mcp_link_failed(client, &failure);
    } else {
        (void)snp_mcp_link_received(client, id, has_number ? line + 2 : line,
                                    has_number ? n - 2 : n);
    }
}

static void feed(struct snp_mcp_client *client, const char *text, size_t n)
{
    double progress = -1e308;

    calls_make(client, &progress);
    while (n > 0 && !is_closing) {
        const char *end = memchr(text, '\n', n);
        size_t len = end == NULL ? n : (size_t)(end - text);

        line_feed(client, text, len);
        len += end == NULL ? 0 : 1;
        text += len;
        n -= len;
    }
    SNP_ASSERT(n_done <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    struct snp_mcp_client *client = calloc(1, sizeof(*client));
    unsigned flags = n == 0 ? 0 : bytes[0];
    struct snp_mcp_link link = {(flags & 1U) != 0 ? &ops_of_url : &ops_of_process, client};
    uv_loop_t loop;
    struct snp_err err;

    SNP_ASSERT(client != NULL && uv_loop_init(&loop) == 0);
    last_id = 0;
    n_done = 0;
    is_closing = false;
    client->loop = &loop;
    client->link = &link;
    client->timeout_ms = SNP_MCP_CLIENT_TIMEOUT_MS;
    client->capabilities = json_pack("{s:{}}", "elicitation");
    client->options.asked = on_asked;
    client->options.url = (flags & 1U) != 0 ? strdup("http://localhost/") : NULL;
    client->options.mode = (enum snp_mcp_client_mode)((flags >> 1U) % 3);
    (void)uv_timer_init(&loop, &client->timer);
    client->timer.data = client;
    SNP_ASSERT(snp_mcp_client_greet(client, &err) == 0);
    feed(client, n == 0 ? "" : (const char *)bytes + 1, n == 0 ? 0 : n - 1);
    snp_mcp_client_close(client, NULL, NULL);
    SNP_ASSERT(is_closing);
    snp_mcp_link_closed(client);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    SNP_ASSERT(uv_loop_close(&loop) == 0);
    return 0;
}
