/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MCP servers as tools. A server's tools are listed once, when it opens, for the whole run: later
 * changes of a definition have no effect. Names get the prefix "mcp__SERVER__", so that none hides
 * a tool of ours or of another server.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/text/text.h"
#include "mcp/client/client.h"
#include "mcp/client/fingerprints.h"
#include "usertool/usertool_priv.h"

enum {
    OPEN_MS = 60 * 1000, /* for a server to open and to list its tools, each */
    TEXT_MAX = SNP_USERTOOL_REPLY_MAX + 1024,
    SPARE_MS = 1000, /* our own deadline comes first */
};

struct snp_usertool_server {
    struct snp_toolbox *box;
    struct snp_mcp_client *client; /* NULL: closing */
    char *name;
    json_t *wanted; /* names; NULL = all */
    json_t *pins;
    uint64_t timeout_ms;
};

/* One tool of a server. */
struct remote {
    struct snp_usertool_server *server;
    char *name; /* there */
};

/* A call, until its end or drop. */
struct remote_call {
    struct snp_usercall *call; /* NULL: cancelled */
    uint64_t id;
};

/* Results ------------------------------------------------------------------------------------- */

/* Add as much of its text as fits: above SNP_USERTOOL_REPLY_MAX it is marked as cut. */
static int block_add(struct snp_buf *text, const json_t *block)
{
    const json_t *words = json_object_get(block, "text");
    size_t n = json_string_length(words);
    const char *type = snp_json_str(block, "type", "?");
    int r = text->len == 0 ? 0 : snp_buf_adds(text, "\n");

    if (r < 0) {
        return r;
    }
    if (snp_streq(type, "text")) {
        n = n > TEXT_MAX - text->len ? TEXT_MAX - text->len : n;
        return snp_buf_add(text, json_is_string(words) ? json_string_value(words) : "", n);
    }
    return snp_buf_addf(text, "[%.40s, not shown]", type);
}

/* The text of a result; a result without text is shown as JSON. */
static void result_answer(struct snp_usercall *call, const json_t *result)
{
    const json_t *content = json_object_get(result, "content");
    const json_t *structured = json_object_get(result, "structuredContent");
    snp_autobuf struct snp_buf text = SNP_BUF(TEXT_MAX);
    bool is_error = snp_json_bool(result, "isError", false);
    size_t i;
    json_t *block;

    json_array_foreach((json_t *)(uintptr_t)content, i, block)
    {
        if (block_add(&text, block) < 0) {
            break; /* as much as there is room for */
        }
    }
    if (text.len == 0 && structured != NULL) {
        snp_autofree char *json = json_dumps(structured, JSON_COMPACT | JSON_ENCODE_ANY);

        snp_usercall_answer(call, is_error, json == NULL ? "" : json,
                            json == NULL ? 0 : strlen(json));
        return;
    }
    snp_usercall_answer(call, is_error, text.len == 0 ? "" : snp_buf_bytes(&text), text.len);
}

static void on_done(void *ctx, const struct snp_mcp_client_end *end)
{
    struct remote_call *remote = ctx;

    if (remote->call != NULL && end->err != NULL) {
        snp_usercall_answer(remote->call, true, end->err->msg, strlen(end->err->msg));
    } else if (remote->call != NULL) {
        result_answer(remote->call, end->result);
    }
    free(remote);
}

static void on_dropped(void *ctx)
{
    free(ctx);
}

/* Calls --------------------------------------------------------------------------------------- */

static int remote_begin(void *ctx,
                        struct snp_usercall *call,
                        const json_t *arguments,
                        struct snp_err *err)
{
    const struct remote *tool = ctx;
    struct remote_call *remote = calloc(1, sizeof(*remote));
    uint64_t timeout_ms =
        tool->server->timeout_ms == 0 ? SNP_USERTOOL_TIMEOUT_MS : tool->server->timeout_ms;
    json_t *params = json_pack("{s:s, s:O}", "name", tool->name, "arguments", arguments);
    int r;

    if (remote == NULL || params == NULL) {
        json_decref(params);
        free(remote);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    remote->call = call;
    r = snp_mcp_client_call(tool->server->client,
                            &(struct snp_mcp_client_call){.method = "tools/call",
                                                          .params = params,
                                                          .timeout_ms = timeout_ms + SPARE_MS,
                                                          .done = on_done,
                                                          .dropped = on_dropped,
                                                          .ctx = remote},
                            &remote->id, err);
    if (r < 0) {
        free(remote);
        return r;
    }
    snp_usercall_keep(call, remote);
    return 0;
}

static void remote_cancel(void *ctx, struct snp_usercall *call)
{
    const struct remote *tool = ctx;
    struct remote_call *remote = snp_usercall_kept(call);

    remote->call = NULL;
    snp_mcp_client_cancel(tool->server->client, remote->id);
}

static void remote_free(void *ctx)
{
    struct remote *tool = ctx;

    free(tool->name);
    free(tool);
}

/* Tools --------------------------------------------------------------------------------------- */

static bool is_wanted(const struct snp_usertool_server *server, const char *name)
{
    size_t i;
    json_t *each;

    json_array_foreach(server->wanted, i, each)
    {
        if (snp_streq(json_string_value(each), name)) {
            return true;
        }
    }
    return server->wanted == NULL;
}

/* "mcp__SERVER__TOOL" of what providers take. The caller frees; NULL when out of memory. */
static char *name_make(const struct snp_usertool_server *server, const char *name)
{
    char *made = snp_format("mcp__%s__%s", server->name, name);

    for (char *c = made; c != NULL && *c != '\0'; c++) {
        *c = *c == '.' || *c == '/' ? '_' : *c;
    }
    return made;
}

static int tool_add(struct snp_usertool_server *server,
                    const json_t *definition,
                    struct snp_err *err)
{
    const char *name = snp_json_str(definition, "name", "");
    snp_autofree char *shown = name_make(server, name);
    snp_autofree char *origin = snp_format("mcp %s", server->name);
    struct remote *tool = calloc(1, sizeof(*tool));
    int r = server->pins == NULL ? 0 : snp_mcp_fingerprints_check(server->pins, definition, err);

    if (tool != NULL) {
        tool->server = server;
        tool->name = strdup(name);
    }
    if (shown == NULL || origin == NULL || tool == NULL || tool->name == NULL) {
        r = snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = r < 0 ? r
              : snp_usertools_add(snp_toolbox_tools(server->box),
                                  &(struct snp_usertool){
                                      .name = shown,
                                      .description = snp_json_str(definition, "description", ""),
                                      .schema = json_object_get(definition, "inputSchema"),
                                      .manner = SNP_SCHEMA_LENIENT,
                                      .origin = origin,
                                      .timeout_ms = server->timeout_ms,
                                      .begin = remote_begin,
                                      .cancel = remote_cancel,
                                      .free = remote_free,
                                      .ctx = tool,
                                  },
                                  err);
    if (r < 0 && tool != NULL) {
        remote_free(tool);
    }
    return r;
}

static void on_listed(void *ctx,
                      const struct snp_mcp_client_end *end,
                      json_t *items,
                      const json_t *notes)
{
    struct snp_usertool_server *server = ctx;
    struct snp_err err;
    size_t i;
    json_t *each;

    if (end->err != NULL) {
        (void)snp_fail(&err, end->err->code,
                       "MCP server %s: %.400s; test it with `mcp tools`, or remove it from the "
                       "configuration",
                       server->name, end->err->msg);
        snp_toolbox_server_opened(server->box, &err);
        return;
    }
    json_array_foreach((json_t *)(uintptr_t)notes, i, each)
    {
        snp_toolbox_note(server->box, server->name, json_string_value(each));
    }
    json_array_foreach(items, i, each)
    {
        if (is_wanted(server, snp_json_str(each, "name", "")) && tool_add(server, each, &err) < 0) {
            snp_toolbox_note(server->box, server->name, err.msg);
        }
    }
    json_array_foreach(server->wanted, i, each)
    {
        snp_autofree char *name = name_make(server, json_string_value(each));

        if (name != NULL && !snp_usertools_has(snp_toolbox_tools(server->box), name)) {
            (void)snp_fail(&err, SNP_E_NOT_FOUND, "MCP server %s has no usable tool '%.80s'",
                           server->name, json_string_value(each));
            snp_toolbox_server_opened(server->box, &err);
            return;
        }
    }
    snp_toolbox_server_opened(server->box, NULL);
}

/* Life ---------------------------------------------------------------------------------------- */

static void on_closed(void *ctx)
{
    struct snp_usertool_server *server = ctx;
    struct snp_toolbox *box = server->box;

    free(server->name);
    json_decref(server->wanted);
    json_decref(server->pins);
    free(server);
    snp_toolbox_release(box);
}

void snp_toolbox_server_close(struct snp_usertool_server *server)
{
    snp_mcp_client_close(server->client, on_closed, server);
}

static void spec_done(struct snp_toolbox_server *spec)
{
    snp_toolbox_texts_done(&spec->argv);
    snp_toolbox_texts_done(&spec->env);
    snp_toolbox_texts_done(&spec->headers);
    free(spec->cwd);
    free(spec->url);
    json_decref(spec->pins);
}

int snp_toolbox_server_add(struct snp_toolbox *box,
                           struct snp_toolbox_server *spec,
                           struct snp_usertool_server **ret,
                           struct snp_err *err)
{
    const struct snp_mcp_client_options options = {
        .argv = (const char *const *)spec->argv.items,
        .env = (const char *const *)spec->env.items,
        .cwd = spec->cwd,
        .url = spec->url,
        .headers = (const char *const *)spec->headers.items,
        .timeout_ms = OPEN_MS,
    };
    struct snp_usertool_server *server = calloc(1, sizeof(*server));
    int r = 0;

    if (server != NULL) {
        server->box = box;
        server->name = strdup(spec->name);
        server->wanted = json_deep_copy(spec->wanted);
        server->pins = SNP_TAKE_PTR(spec->pins);
        server->timeout_ms = spec->timeout_ms;
    }
    if (server == NULL || server->name == NULL) {
        r = snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = r < 0 ? r : snp_mcp_client_new(snp_toolbox_loop(box), &options, &server->client, err);
    spec_done(spec);
    if (r < 0) {
        if (server != NULL) {
            free(server->name);
            json_decref(server->wanted);
            json_decref(server->pins);
        }
        free(server);
        return r;
    }
    snp_toolbox_hold(box);
    *ret = server;
    r = snp_mcp_client_list(server->client, "tools/list", OPEN_MS, on_listed, server, err);
    return r;
}
