/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests by servers: as JSON-RPC requests (legacy), or as a result that wants more input
 * (modern). Only declared capabilities may be used, within limits.
 */
#include <string.h>

#include "base/mcp/caps.h"
#include "base/str.h"
#include "base/text/say.h"
#include "mcp/client/caps.h"
#include "mcp/client/priv.h"

static const struct {
    const char *method;
    const char *capability;
} askable[] = {
    {"elicitation/create", "elicitation"},
    {"sampling/createMessage", "sampling"},
    {"roots/list", "roots"},
};

int snp_mcp_client_ask(struct snp_mcp_client *client,
                       const char *method,
                       const json_t *params,
                       json_t **ret,
                       struct snp_err *err)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(askable); i++) {
        if (snp_streq(askable[i].method, method) && client->options.asked != NULL &&
            json_object_get(client->capabilities, askable[i].capability) != NULL) {
            return client->options.asked(client->options.ctx, method, params, ret, err);
        }
    }
    return snp_fail(err, SNP_E_UNSUPPORTED, "this client does not support that request");
}

/* One input that is wanted, into responses. */
static int input_add(struct snp_mcp_client *client,
                     const char *key,
                     const json_t *request,
                     json_t *responses,
                     struct snp_err *err)
{
    const char *method = snp_json_str(request, "method", "");
    json_t *answer = NULL;
    int r = snp_mcp_client_ask(client, method, json_object_get(request, "params"), &answer, err);

    if (r == SNP_E_UNSUPPORTED) {
        snp_autosay struct snp_say shown = SNP_SAY(SNP_MCP_CLIENT_NOTE_MAX);

        snp_say_line(&shown, method, 50);
        return snp_fail(err, SNP_E_PEER,
                        "the server asks for '%s', which this client does not allow",
                        snp_say_cstr(&shown));
    }
    return r < 0 ? r
           : json_object_set_new(responses, key, answer) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static int inputs_make(struct snp_mcp_client *client,
                       const json_t *requests,
                       json_t **ret,
                       struct snp_err *err)
{
    snp_autojson json_t *responses = json_object();
    const char *key;
    json_t *request;
    int r = 0;

    if (!json_is_object(requests) || json_object_size(requests) > SNP_MCP_CLIENT_INPUTS_MAX) {
        return snp_fail(err, SNP_E_PEER,
                        "the server's inputRequests must be an object of at most %d members",
                        SNP_MCP_CLIENT_INPUTS_MAX);
    }
    json_object_foreach((json_t *)(uintptr_t)requests, key, request)
    {
        r = r < 0 ? r : input_add(client, key, request, responses, err);
    }
    if (r == 0) {
        *ret = SNP_TAKE_PTR(responses);
    }
    return r;
}

static bool may_want_input(const char *method)
{
    return snp_streq(method, "tools/call") || snp_streq(method, "resources/read") ||
           snp_streq(method, "prompts/get");
}

int snp_mcp_client_round(struct snp_mcp_client *client,
                         const struct snp_mcp_pending *pending,
                         const json_t *result,
                         json_t **ret,
                         struct snp_err *err)
{
    const json_t *requests = json_object_get(result, "inputRequests");
    json_t *state = json_object_get(result, "requestState");
    snp_autojson json_t *params = json_copy(pending->params);
    json_t *responses = NULL;
    int r = 0;

    if (!may_want_input(pending->method) || (requests == NULL && state == NULL)) {
        return snp_fail(err, SNP_E_PEER, "the server asks for input in a call that takes none");
    }
    if (pending->rounds >= SNP_MCP_CLIENT_ROUNDS_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the server asked for input %d times in one call",
                        SNP_MCP_CLIENT_ROUNDS_MAX);
    }
    if (state != NULL &&
        (!json_is_string(state) || json_string_length(state) > SNP_MCP_CLIENT_STATE_MAX)) {
        return snp_fail(err, SNP_E_PEER,
                        "the server's requestState must be a text of at most %d KiB",
                        SNP_MCP_CLIENT_STATE_MAX >> 10);
    }
    if (params == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (requests != NULL) {
        r = inputs_make(client, requests, &responses, err);
        r = r == 0 && json_object_set_new(params, "inputResponses", responses) < 0
                ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                : r;
    }
    if (r == 0 && state != NULL && json_object_set(params, "requestState", state) < 0) {
        r = snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (r == 0) {
        *ret = SNP_TAKE_PTR(params);
    }
    return r;
}

json_t *snp_mcp_elicit_defaults(const json_t *params)
{
    const json_t *schema = json_object_get(params, "requestedSchema");
    const json_t *required = json_object_get(schema, "required");
    snp_autojson json_t *content = json_object();
    bool is_form = snp_streq(snp_json_str(params, "mode", "form"), "form");
    const char *key;
    json_t *value;
    size_t i;

    json_object_foreach(json_object_get(schema, "properties"), key, value)
    {
        json_t *fallback = json_object_get(value, "default");

        if (fallback != NULL && json_object_set(content, key, fallback) < 0) {
            return NULL;
        }
    }
    json_array_foreach(required, i, value)
    {
        is_form = is_form && json_is_string(value) &&
                  json_object_get(content, json_string_value(value)) != NULL;
    }
    return is_form ? json_pack("{s:s, s:O}", "action", "accept", "content", content)
                   : json_pack("{s:s}", "action", "decline");
}
