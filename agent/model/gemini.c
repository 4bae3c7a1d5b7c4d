/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Google's Gemini API.
 *
 * A conversation consists of parts. Calls have no ids, so results are matched by the tool's name
 * and by order. Calls carry signatures of the reasoning, which must be sent back. Each event of the
 * stream is a complete reply, to be appended to the previous one.
 */
#include <string.h>

#include "base/str.h"
#include "model/driver.h"

/* Writing --------------------------------------------------------------------------------- */

static json_t *text_part(const char *text)
{
    return json_pack("{s:s}", "text", text);
}

static int write_model(const json_t *message, json_t *parts)
{
    const char *text = snp_model_content(message);
    size_t i = 0;
    json_t *call = NULL;

    if (text[0] != '\0' && json_array_append_new(parts, text_part(text)) < 0) {
        return -1;
    }
    json_array_foreach(json_object_get(message, "tool_calls"), i, call)
    {
        json_t *signature = json_object_get(call, "signature");
        json_t *part =
            json_pack("{s:{s:O, s:O}}", "functionCall", "name", json_object_get(call, "name"),
                      "args", json_object_get(call, "arguments"));
        if (part != NULL && signature != NULL &&
            json_object_set(part, "thoughtSignature", signature) < 0) {
            json_decref(part);
            return -1;
        }
        if (json_array_append_new(parts, part) < 0) {
            return -1;
        }
    }
    return 0;
}

static int write_result(const json_t *message, json_t *parts)
{
    bool is_error = snp_json_bool(message, "is_error", false);
    json_t *part = json_pack("{s:{s:s, s:{s:s}}}", "functionResponse", "name",
                             snp_json_str(message, "name", "tool"), "response",
                             is_error ? "error" : "output", snp_model_content(message));

    return json_array_append_new(parts, part);
}

static int write_parts(const json_t *message, const char *role, json_t *parts)
{
    if (strcmp(role, "assistant") == 0) {
        return write_model(message, parts);
    }
    if (strcmp(role, "tool") == 0) {
        return write_result(message, parts);
    }
    return json_array_append_new(parts, text_part(snp_model_content(message)));
}

/* System messages go to one list, the others to the other. */
static int write_contents(const json_t *messages, json_t *system, json_t *contents)
{
    size_t i = 0;
    json_t *message = NULL;

    json_array_foreach(messages, i, message)
    {
        const char *role = snp_json_str(message, "role", "");
        json_t *parts = system;

        if (strcmp(role, "system") != 0) {
            parts = snp_model_parts(contents, strcmp(role, "assistant") == 0 ? "model" : "user",
                                    "parts");
        }
        if (parts == NULL || write_parts(message, role, parts) < 0) {
            return -1;
        }
    }
    return 0;
}

static json_t *write_choice(const char *choice)
{
    static const struct {
        const char *word;
        const char *mode;
    } modes[] = {
        {"auto", "AUTO"},
        {"none", "NONE"},
        {"required", "ANY"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(modes); i++) {
        if (choice == NULL || strcmp(choice, modes[i].word) == 0) {
            return json_pack("{s:{s:s}}", "functionCallingConfig", "mode", modes[i].mode);
        }
    }
    return json_pack("{s:{s:s, s:[s]}}", "functionCallingConfig", "mode", "ANY",
                     "allowedFunctionNames", choice);
}

static json_t *write_generation(const struct snp_model_job *job)
{
    const struct snp_model_request *request = job->request;
    snp_autojson json_t *made = json_object();
    int r = made == NULL ? -1 : 0;

    if (r == 0 && job->temperature >= 0) {
        r = json_object_set_new(made, "temperature", json_real(job->temperature));
    }
    if (r == 0 && request->max_tokens > 0) {
        r = json_object_set_new(made, "maxOutputTokens",
                                json_integer((json_int_t)request->max_tokens));
    }
    if (r == 0 && request->schema != NULL) {
        r |= json_object_set_new(made, "responseMimeType", json_string("application/json"));
        r |= json_object_set(made, "responseJsonSchema", (json_t *)(uintptr_t)request->schema);
    }
    return r < 0 ? NULL : SNP_TAKE_PTR(made);
}

static json_t *write_tool(const json_t *tool)
{
    return snp_model_tool("parametersJsonSchema", tool);
}

static int write_body(const struct snp_model_job *job, json_t *body)
{
    const struct snp_model_request *request = job->request;
    snp_autojson json_t *system = json_array();
    snp_autojson json_t *contents = json_array();
    int r = write_contents(request->messages, system, contents);

    r = r < 0 ? r : json_object_set(body, "contents", contents);
    if (r == 0 && json_array_size(system) > 0) {
        r = json_object_set_new(body, "systemInstruction", json_pack("{s:O}", "parts", system));
    }
    if (r == 0 && json_array_size(request->tools) > 0) {
        r |= json_object_set_new(body, "tools",
                                 json_pack("[{s:o}]", "functionDeclarations",
                                           snp_model_list_of(request->tools, write_tool)));
        r |= json_object_set_new(body, "toolConfig", write_choice(request->tool_choice));
    }
    return r < 0 ? r : json_object_set_new(body, "generationConfig", write_generation(job));
}

static int gemini_write(const struct snp_model_job *job,
                        struct snp_model_wire *wire,
                        struct snp_err *err)
{
    int r = snp_buf_addf(&wire->url, "%s/v1beta/models/%s:streamGenerateContent?alt=sse",
                         job->base_url, job->model);

    r = r < 0 ? r : snp_model_wire_key(job, wire);
    wire->body = json_object();
    if (r < 0 || wire->body == NULL || write_body(job, wire->body) < 0) {
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
    reply->usage.input = snp_model_count(usage, "promptTokenCount");
    reply->usage.cache_read = snp_model_count(usage, "cachedContentTokenCount");
    reply->usage.reasoning = snp_model_count(usage, "thoughtsTokenCount");
    reply->usage.output = snp_model_count(usage, "candidatesTokenCount") + reply->usage.reasoning;
}

static const struct snp_model_stop_word stops[] = {
    {"MAX_TOKENS", SNP_MODEL_STOP_LENGTH},         {"SAFETY", SNP_MODEL_STOP_FILTER},
    {"RECITATION", SNP_MODEL_STOP_FILTER},         {"BLOCKLIST", SNP_MODEL_STOP_FILTER},
    {"PROHIBITED_CONTENT", SNP_MODEL_STOP_FILTER}, {"SPII", SNP_MODEL_STOP_FILTER},
    {"LANGUAGE", SNP_MODEL_STOP_FILTER},           {NULL, SNP_MODEL_STOP_END},
};

static int read_call(struct snp_model_reply *reply, const json_t *part, struct snp_err *err)
{
    const json_t *given = json_object_get(part, "functionCall");
    json_t *signature = json_object_get(part, "thoughtSignature");
    struct snp_model_tool_call *call = NULL;
    int r = snp_model_reply_call(reply, (int64_t)reply->n_calls, snp_json_str(given, "id", NULL),
                                 snp_json_str(given, "name", ""), &call, err);

    if (r < 0) {
        return r;
    }
    call->signature = signature != NULL ? json_incref(signature) : NULL;
    return snp_model_reply_arguments(call, json_object_get(given, "args"), err);
}

static int read_parts(struct snp_model_reply *reply, const json_t *parts, struct snp_err *err)
{
    size_t i = 0;
    json_t *part = NULL;
    int r = 0;

    json_array_foreach(parts, i, part)
    {
        if (json_object_get(part, "functionCall") != NULL) {
            r = read_call(reply, part, err);
        } else if (snp_json_bool(part, "thought", false)) {
            r = snp_model_reply_reasoning(reply, json_object_get(part, "text"), err);
        } else {
            r = snp_model_reply_text(reply, json_object_get(part, "text"), err);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int gemini_event(struct snp_model_reply *reply, const json_t *data, struct snp_err *err)
{
    const json_t *candidate = json_array_get(json_object_get(data, "candidates"), 0);
    const json_t *blocked = json_object_get(json_object_get(data, "promptFeedback"), "blockReason");

    if (snp_model_reply_error(reply, json_object_get(data, "error"))) {
        return 0;
    }
    snp_model_reply_name(reply->model, json_object_get(data, "modelVersion"));
    snp_model_reply_name(reply->id, json_object_get(data, "responseId"));
    read_usage(reply, json_object_get(data, "usageMetadata"));
    if (blocked != NULL) {
        reply->has_stop = true;
        reply->stop = SNP_MODEL_STOP_FILTER;
    }
    int r = read_parts(reply, json_object_get(json_object_get(candidate, "content"), "parts"), err);
    snp_model_reply_stop(reply, json_object_get(candidate, "finishReason"), stops);
    if (r == 0 &&
        snp_streq(snp_json_str(candidate, "finishReason", ""), "MALFORMED_FUNCTION_CALL")) {
        return snp_fail(err, SNP_E_PEER,
                        "the model made a tool call that its provider could not read");
    }
    return r;
}

static int gemini_whole(struct snp_model_reply *reply, const json_t *body, struct snp_err *err)
{
    if (json_object_get(body, "candidates") == NULL && json_object_get(body, "error") == NULL &&
        json_object_get(body, "promptFeedback") == NULL) {
        return snp_fail(err, SNP_E_PEER, "the reply has no candidates");
    }
    reply->is_ended = true;
    return gemini_event(reply, body, err);
}

const struct snp_model_driver snp_model_gemini = {
    .name = "gemini",
    .write = gemini_write,
    .event = gemini_event,
    .whole = gemini_whole,
};
