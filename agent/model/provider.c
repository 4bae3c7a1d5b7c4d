/* SPDX-License-Identifier: Apache-2.0 */

/* Shared code of providers: names, estimates, answers as JSON. */

#include "model/provider.h"

#include <string.h>

#include "base/str.h"

enum {
    CHARS_PER_TOKEN = 3, /* English has about 4, code and JSON fewer */
    MESSAGE_TOKENS = 4,  /* overhead of each message */
    TOOL_TOKENS = 12,
    REQUEST_TOKENS = 3,
};

const char *const snp_model_stop_names[SNP_MODEL_STOP_N] = {"end", "tools", "length", "filter"};

const char *const snp_model_failure_names[SNP_MODEL_FAILED_N] = {
    [SNP_MODEL_FAILED_REQUEST] = "request", [SNP_MODEL_FAILED_SETUP] = "setup",
    [SNP_MODEL_FAILED_AUTH] = "auth",       [SNP_MODEL_FAILED_MODEL] = "model",
    [SNP_MODEL_FAILED_QUOTA] = "quota",     [SNP_MODEL_FAILED_CONTEXT] = "context",
    [SNP_MODEL_FAILED_RATE] = "rate_limit", [SNP_MODEL_FAILED_SERVER] = "server",
    [SNP_MODEL_FAILED_NETWORK] = "network", [SNP_MODEL_FAILED_REPLY] = "reply",
    [SNP_MODEL_FAILED_TIMEOUT] = "timeout", [SNP_MODEL_FAILED_REPLAY] = "replay",
};

json_t *snp_model_usage_to_json(const struct snp_model_usage *usage, const char *estimated)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:b}", "input", (json_int_t)usage->input, "output",
                     (json_int_t)usage->output, "cache_read", (json_int_t)usage->cache_read,
                     "cache_write", (json_int_t)usage->cache_write, "reasoning",
                     (json_int_t)usage->reasoning, estimated, usage->is_estimated);
}

json_t *snp_model_answer_to_json(const struct snp_model_answer *answer)
{
    json_t *made =
        json_pack("{s:b, s:O*, s:s, s:o, s:o, s:s, s:s, s:s, s:I, s:I}", "is_ok", answer->is_ok,
                  "message", answer->message, "stop", snp_model_stop_names[answer->stop], "usage",
                  snp_model_usage_to_json(&answer->usage, "is_estimated"), "cost_usd",
                  answer->is_priced ? json_real(answer->cost_usd) : json_null(), "provider",
                  answer->provider, "model", answer->model, "reply_id", answer->reply_id, "tries",
                  (json_int_t)answer->tries, "duration_ms", (json_int_t)answer->duration_ms);

    if (made == NULL || answer->is_ok) {
        return made;
    }
    int r =
        json_object_set_new(made, "failure", json_string(snp_model_failure_names[answer->failure]));
    r = r < 0 ? r : json_object_set_new(made, "error", snp_json_from_err(&answer->err));
    r = r < 0 ? r : json_object_set_new(made, "http_status", json_integer(answer->http_status));
    if (r < 0) {
        json_decref(made);
        return NULL;
    }
    return made;
}

const char *snp_model_call_error(const json_t *call)
{
    return snp_json_str(json_object_get(call, "arguments"), "_error", NULL);
}

uint64_t snp_model_estimate(const char *text, size_t n)
{
    return (snp_utf8_count(text, n) + CHARS_PER_TOKEN - 1) / CHARS_PER_TOKEN;
}

static uint64_t estimate_value(const json_t *value)
{
    snp_autofree char *text = value == NULL ? NULL : snp_json_text(value);

    return text == NULL ? 0 : snp_model_estimate(text, strlen(text));
}

uint64_t snp_model_estimate_request(const struct snp_model_request *request)
{
    uint64_t n = REQUEST_TOKENS;
    size_t i = 0;
    json_t *item = NULL;

    json_array_foreach(request->messages, i, item)
    {
        const json_t *content = json_object_get(item, "content");
        n += MESSAGE_TOKENS + estimate_value(json_object_get(item, "tool_calls"));
        if (json_is_string(content)) {
            n += snp_model_estimate(json_string_value(content), json_string_length(content));
        }
    }
    json_array_foreach(request->tools, i, item)
    {
        n += TOOL_TOKENS + estimate_value(item);
    }
    return n + estimate_value(request->schema);
}
