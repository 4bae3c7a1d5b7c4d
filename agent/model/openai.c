/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chat completions of OpenAI and compatible servers.
 *
 * Compatible servers differ: some do not stream, omit a call's index or id, send its arguments in
 * one piece, or end without [DONE]. All of this is accepted; a reply without a stop reason was cut
 * off.
 */
#include <string.h>

#include "base/str.h"
#include "model/driver.h"

/* Writing --------------------------------------------------------------------------------- */

static json_t *write_call(const json_t *call)
{
    snp_autofree char *text = snp_json_text(json_object_get(call, "arguments"));

    return text == NULL ? NULL
                        : json_pack("{s:O, s:s, s:{s:O, s:s}}", "id", json_object_get(call, "id"),
                                    "type", "function", "function", "name",
                                    json_object_get(call, "name"), "arguments", text);
}

static json_t *write_message(const json_t *message)
{
    const char *role = snp_json_str(message, "role", "");
    json_t *calls = json_object_get(message, "tool_calls");
    json_t *content = json_object_get(message, "content");
    const json_t *reasoning =
        json_object_get(json_object_get(message, "opaque"), "reasoning_content");

    if (strcmp(role, "tool") == 0) {
        return json_pack("{s:s, s:O, s:O}", "role", "tool", "tool_call_id",
                         json_object_get(message, "tool_call_id"), "content", content);
    }
    snp_autojson json_t *made = json_pack("{s:s, s:O?}", "role", role, "content", content);
    if (made == NULL) {
        return NULL;
    }
    if (json_array_size(calls) > 0 &&
        json_object_set_new(made, "tool_calls", snp_model_list_of(calls, write_call)) < 0) {
        return NULL;
    }
    /* models that reason between calls need their reasoning sent back */
    if (reasoning != NULL && json_array_size(calls) > 0 &&
        json_object_set(made, "reasoning_content", (json_t *)(uintptr_t)reasoning) < 0) {
        return NULL;
    }
    return SNP_TAKE_PTR(made);
}

static json_t *write_tool(const json_t *tool)
{
    return json_pack("{s:s, s:o}", "type", "function", "function",
                     snp_model_tool("parameters", tool));
}

static json_t *write_choice(const char *choice)
{
    static const char *const words[] = {"auto", "none", "required"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(words); i++) {
        if (choice == NULL || strcmp(choice, words[i]) == 0) {
            return json_string(words[i]);
        }
    }
    return json_pack("{s:s, s:{s:s}}", "type", "function", "function", "name", choice);
}

/* Optional members. */
static int write_options(const struct snp_model_job *job, json_t *body)
{
    const struct snp_model_request *request = job->request;
    bool is_new_name = job->is_origin != ((job->quirks & SNP_MODEL_OTHER_MAX_TOKENS) != 0);
    int r = 0;

    if (json_array_size(request->tools) > 0) {
        r |= json_object_set_new(body, "tools", snp_model_list_of(request->tools, write_tool));
        r |= json_object_set_new(body, "tool_choice", write_choice(request->tool_choice));
    }
    if (r == 0 && job->temperature >= 0) {
        r = json_object_set_new(body, "temperature", json_real(job->temperature));
    }
    if (r == 0 && request->max_tokens > 0) {
        r = json_object_set_new(body, is_new_name ? "max_completion_tokens" : "max_tokens",
                                json_integer((json_int_t)request->max_tokens));
    }
    if (r == 0 && request->schema != NULL) {
        r = json_object_set_new(body, "response_format",
                                json_pack("{s:s, s:{s:s, s:O}}", "type", "json_schema",
                                          "json_schema", "name", "answer", "schema",
                                          request->schema));
    }
    if (r == 0 && (job->quirks & SNP_MODEL_NO_STREAM_OPTIONS) == 0) {
        r = json_object_set_new(body, "stream_options", json_pack("{s:b}", "include_usage", 1));
    }
    return r;
}

static int openai_write(const struct snp_model_job *job,
                        struct snp_model_wire *wire,
                        struct snp_err *err)
{
    int r = 0;

    if (job->api_version != NULL) { /* Azure: the model is a deployment */
        r = snp_buf_addf(&wire->url, "%s/openai/deployments/%s/chat/completions?api-version=%s",
                         job->base_url, job->model, job->api_version);
    } else {
        r = snp_buf_addf(&wire->url, "%s/chat/completions", job->base_url);
    }
    r = r < 0 ? r : snp_model_wire_key(job, wire);
    wire->body = json_pack("{s:s, s:o, s:b}", "model", job->model, "messages",
                           snp_model_list_of(job->request->messages, write_message), "stream", 1);
    if (r < 0 || wire->body == NULL || write_options(job, wire->body) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

/* Reading --------------------------------------------------------------------------------- */

static void read_usage(struct snp_model_reply *reply, const json_t *usage)
{
    if (!json_is_object(usage)) {
        return;
    }
    reply->has_usage = true;
    reply->usage.input = snp_model_count(usage, "prompt_tokens");
    reply->usage.output = snp_model_count(usage, "completion_tokens");
    reply->usage.cache_read =
        snp_model_count(json_object_get(usage, "prompt_tokens_details"), "cached_tokens");
    reply->usage.reasoning =
        snp_model_count(json_object_get(usage, "completion_tokens_details"), "reasoning_tokens");
}

static const struct snp_model_stop_word stops[] = {
    {"length", SNP_MODEL_STOP_LENGTH},    {"content_filter", SNP_MODEL_STOP_FILTER},
    {"tool_calls", SNP_MODEL_STOP_TOOLS}, {"function_call", SNP_MODEL_STOP_TOOLS},
    {NULL, SNP_MODEL_STOP_END},
};

/* The call of a piece: by its index, else the last call, unless the piece has a new id. */
static int64_t index_of(const struct snp_model_reply *reply, const json_t *piece)
{
    const json_t *index = json_object_get(piece, "index");

    if (json_is_integer(index)) {
        return json_integer_value(index);
    }
    if (reply->n_calls == 0) {
        return 0;
    }
    const struct snp_model_tool_call *last = &reply->calls[reply->n_calls - 1];
    const char *id = snp_json_str(piece, "id", "");
    bool is_new = id[0] != '\0' && strcmp(id, last->id) != 0;
    return is_new ? last->index + 1 : last->index;
}

static int read_calls(struct snp_model_reply *reply, const json_t *calls, struct snp_err *err)
{
    size_t i = 0;
    json_t *piece = NULL;
    int r = 0;

    json_array_foreach(calls, i, piece)
    {
        const json_t *function = json_object_get(piece, "function");
        struct snp_model_tool_call *call = NULL;

        r = snp_model_reply_call(reply, index_of(reply, piece), snp_json_str(piece, "id", NULL),
                                 snp_json_str(function, "name", NULL), &call, err);
        if (r == 0) {
            r = snp_model_reply_arguments(call, json_object_get(function, "arguments"), err);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* A message, or a piece of one: both have the same members. */
static int read_message(struct snp_model_reply *reply, const json_t *message, struct snp_err *err)
{
    const json_t *reasoning = json_object_get(message, "reasoning_content");

    reply->keeps_reasoning = reply->keeps_reasoning || json_is_string(reasoning);
    reasoning = reasoning != NULL ? reasoning : json_object_get(message, "reasoning");
    int r = snp_model_reply_reasoning(reply, reasoning, err);
    r = r < 0 ? r : snp_model_reply_text(reply, json_object_get(message, "content"), err);
    if (r == 0 && json_string_length(json_object_get(message, "refusal")) > 0) {
        reply->stop = SNP_MODEL_STOP_FILTER;
        r = snp_model_reply_text(reply, json_object_get(message, "refusal"), err);
    }
    return r < 0 ? r : read_calls(reply, json_object_get(message, "tool_calls"), err);
}

static int read_reply(struct snp_model_reply *reply,
                      const json_t *data,
                      const char *member,
                      struct snp_err *err)
{
    const json_t *choice = json_array_get(json_object_get(data, "choices"), 0);

    if (snp_model_reply_error(reply, json_object_get(data, "error"))) {
        return 0;
    }
    snp_model_reply_name(reply->model, json_object_get(data, "model"));
    snp_model_reply_name(reply->id, json_object_get(data, "id"));
    read_usage(reply, json_object_get(data, "usage"));
    int r = read_message(reply, json_object_get(choice, member), err);
    snp_model_reply_stop(reply, json_object_get(choice, "finish_reason"), stops);
    return r;
}

static int openai_event(struct snp_model_reply *reply, const json_t *data, struct snp_err *err)
{
    return read_reply(reply, data, "delta", err);
}

static int openai_whole(struct snp_model_reply *reply, const json_t *body, struct snp_err *err)
{
    if (json_object_get(body, "error") == NULL &&
        !json_is_array(json_object_get(body, "choices"))) {
        return snp_fail(err, SNP_E_PEER, "the reply has no choices");
    }
    reply->is_ended = true;
    return read_reply(reply, body, "message", err);
}

const struct snp_model_driver snp_model_openai = {
    .name = "openai",
    .write = openai_write,
    .event = openai_event,
    .whole = openai_whole,
};
