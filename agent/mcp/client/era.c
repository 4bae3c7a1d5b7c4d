/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a client: detect the server's era, as the specifications of the versions require.
 *
 * server/discover is sent first. Its result, or an error that only modern servers return, selects
 * the modern era. Any other reaction to an unknown request (an error of any code, an HTTP 4xx,
 * silence or the exit of a process) means a legacy server, and `initialize` follows. Refusals of
 * the client itself (401, 403), broken servers (5xx) and failed connections prove nothing: they are
 * reported.
 */
#include <string.h>

#include "base/str.h"
#include "base/text/say.h"
#include "mcp/client/caps.h"
#include "mcp/client/priv.h"

enum {
    VERSIONS_SHOWN = 200,
};

void snp_mcp_client_ready(struct snp_mcp_client *client)
{
    client->state = SNP_MCP_CLIENT_OPEN;
    if (!client->has_opened) {
        client->has_opened = true;
        if (client->options.opened != NULL) {
            client->options.opened(client->options.ctx, NULL);
        }
    }
    if (client->state == SNP_MCP_CLIENT_OPEN) {
        snp_mcp_client_flush(client);
    }
}

/* Store a server's description of itself; result: of server/discover or initialize. */
static void greeting_take(struct snp_mcp_client *client, json_t *result, const json_t *server)
{
    const json_t *capabilities = json_object_get(result, "capabilities");

    json_decref(client->greeting);
    client->greeting = json_incref(result);
    if (!json_is_object(capabilities)) {
        (void)json_object_set_new(result, "capabilities", json_object());
        capabilities = json_object_get(result, "capabilities");
    }
    client->info.server = json_is_object(server) ? server : NULL;
    client->info.capabilities = capabilities;
    client->info.instructions = snp_json_str(result, "instructions", "");
}

/* Legacy ---------------------------------------------------------------------------------- */

static void on_initialized(void *ctx, const struct snp_mcp_client_end *end)
{
    struct snp_mcp_client *client = ctx;
    const char *version = snp_json_str(end->result, "protocolVersion", "");
    struct snp_err err;

    if (end->err != NULL) {
        snp_mcp_client_break(client, end->err);
        return;
    }
    if (!snp_streq(snp_era_negotiate(version), version)) {
        snp_autosay struct snp_say shown = SNP_SAY(VERSIONS_SHOWN);

        snp_say_line(&shown, version, 20);
        (void)snp_fail(&err, SNP_E_UNSUPPORTED,
                       "the server wants protocol version '%s', which this client does not support",
                       snp_say_cstr(&shown));
        snp_mcp_client_break(client, &err);
        return;
    }
    client->info.version = snp_era_negotiate(version);
    greeting_take(client, end->result, json_object_get(end->result, "serverInfo"));
    snp_mcp_client_notify(client, "notifications/initialized", json_object());
    if (client->link->ops->listen != NULL && json_object_size(client->capabilities) > 0) {
        client->link->ops->listen(client->link); /* questions may come that way */
    } else {
        snp_mcp_client_ready(client);
    }
}

int snp_mcp_client_initialize(struct snp_mcp_client *client, struct snp_err *err)
{
    const struct snp_mcp_client_call call = {
        .method = "initialize",
        .params = json_pack("{s:s, s:O, s:{s:s, s:s}}", "protocolVersion", snp_era_negotiate(NULL),
                            "capabilities", client->capabilities, "clientInfo", "name",
                            "snipara-sandbox", "version", SNP_VERSION),
        .timeout_ms = client->timeout_ms,
        .done = on_initialized,
        .ctx = client,
    };

    client->info.era = SNP_ERA_LEGACY;
    client->info.version = NULL;
    client->state = SNP_MCP_CLIENT_INITIALIZING;
    return call.params == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                               : snp_mcp_client_own(client, &call, err);
}

/* Modern ---------------------------------------------------------------------------------- */

static int discover(struct snp_mcp_client *client, struct snp_err *err);

/*
 * Whether the list has the version of this client, or (is_newer) one of the modern era: versions
 * are dates, and sort as texts.
 */
static bool has_version(const json_t *versions, bool is_newer)
{
    size_t i;
    json_t *version;

    json_array_foreach(versions, i, version)
    {
        int order = json_is_string(version)
                        ? strcmp(json_string_value(version), SNP_MCP_VERSION_MODERN)
                        : -1;

        if (order == 0 || (is_newer && order > 0)) {
            return true;
        }
    }
    return false;
}

/* The server seems to be legacy. why: its reaction. */
static void fall_back(struct snp_mcp_client *client, const struct snp_err *why)
{
    struct snp_err err;

    if (client->options.mode == SNP_MCP_CLIENT_MODERN) {
        (void)snp_fail(&err, SNP_E_UNSUPPORTED,
                       "the server does not speak protocol version " SNP_MCP_VERSION_MODERN
                       "%s%.300s",
                       why == NULL ? "" : ": ", why == NULL ? "" : why->msg);
        snp_mcp_client_break(client, &err);
        return;
    }
    if (snp_mcp_client_initialize(client, &err) < 0) {
        snp_mcp_client_break(client, &err);
    }
}

static void versions_refused(struct snp_mcp_client *client, const json_t *supported)
{
    snp_autosay struct snp_say shown = SNP_SAY((size_t)8 * VERSIONS_SHOWN);
    struct snp_err err;
    size_t i;
    json_t *version;

    json_array_foreach(supported, i, version)
    {
        if (shown.buf.len < VERSIONS_SHOWN) {
            snp_say(&shown, i > 0 ? ", " : "");
            snp_say_string(&shown, version, 20);
        }
    }
    (void)snp_fail(&err, SNP_E_UNSUPPORTED,
                   "no common protocol version: the server speaks %s, this client " //
                   SNP_MCP_VERSION_MODERN " and 2025-11-25 or older",
                   snp_say_cstr(&shown));
    snp_mcp_client_break(client, &err);
}

static void discovered(struct snp_mcp_client *client, json_t *result)
{
    const json_t *versions = json_object_get(result, "supportedVersions");
    const json_t *server = json_object_get(json_object_get(result, "_meta"), SNP_MCP_META_SERVER);

    if (has_version(versions, false)) {
        greeting_take(client, result,
                      server != NULL ? server : json_object_get(result, "serverInfo"));
        snp_mcp_client_ready(client);
    } else if (has_version(versions, true)) {
        versions_refused(client, versions);
    } else { /* there may be no versions at all: it answers everything somehow */
        fall_back(client, NULL);
    }
}

/* A JSON-RPC error to server/discover. */
static void discover_refused(struct snp_mcp_client *client,
                             const json_t *error,
                             const struct snp_err *why)
{
    const json_t *supported = json_object_get(json_object_get(error, "data"), "supported");
    int64_t code = snp_json_int(error, "code", 0);
    struct snp_err err = *why;

    bool is_about_versions = code == SNP_JSONRPC_VERSION;

    if (code == SNP_JSONRPC_HEADER || code == SNP_JSONRPC_CAPABILITY) {
        snp_mcp_client_break(client, why); /* modern, but it refuses us */
    } else if (is_about_versions && has_version(supported, false) && !client->was_probed_twice) {
        client->was_probed_twice = true;
        if (discover(client, &err) < 0) {
            snp_mcp_client_break(client, &err);
        }
    } else if (is_about_versions && has_version(supported, true)) {
        versions_refused(client, supported);
    } else {
        fall_back(client, why);
    }
}

/* Whether a failure without a JSON-RPC answer indicates a legacy server. */
static bool is_evidence(const struct snp_mcp_client *client, const struct snp_err *err)
{
    int status = client->last_http_status;

    if (client->options.url == NULL) {
        return err->code == SNP_E_TIMEOUT;
    }
    return status >= 400 && status < 500 && status != 401 && status != 403 && status != 408 &&
           status != 429;
}

static void on_discovered(void *ctx, const struct snp_mcp_client_end *end)
{
    struct snp_mcp_client *client = ctx;

    if (end->err == NULL) {
        discovered(client, end->result);
    } else if (end->error != NULL) {
        discover_refused(client, end->error, end->err);
    } else if (is_evidence(client, end->err)) {
        fall_back(client, end->err);
    } else {
        snp_mcp_client_break(client, end->err);
    }
}

static int discover(struct snp_mcp_client *client, struct snp_err *err)
{
    bool has_patience = client->options.url != NULL ||
                        client->options.mode == SNP_MCP_CLIENT_MODERN ||
                        client->timeout_ms < SNP_MCP_CLIENT_PROBE_MS;
    const struct snp_mcp_client_call call = {
        .method = "server/discover",
        .timeout_ms = has_patience ? client->timeout_ms : SNP_MCP_CLIENT_PROBE_MS,
        .done = on_discovered,
        .ctx = client,
    };

    client->info.era = SNP_ERA_MODERN;
    client->info.version = SNP_MCP_VERSION_MODERN;
    client->state = SNP_MCP_CLIENT_PROBING;
    client->last_http_status = 0;
    return snp_mcp_client_own(client, &call, err);
}

int snp_mcp_client_greet(struct snp_mcp_client *client, struct snp_err *err)
{
    return client->options.mode == SNP_MCP_CLIENT_LEGACY ? snp_mcp_client_initialize(client, err)
                                                         : discover(client, err);
}

bool snp_mcp_client_survives(struct snp_mcp_client *client)
{
    bool is_first = !client->was_restarted;

    client->was_restarted = true;
    return is_first && client->options.url == NULL && client->options.mode == SNP_MCP_CLIENT_AUTO;
}
