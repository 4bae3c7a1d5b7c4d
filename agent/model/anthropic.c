/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anthropic's Messages API.
 *
 * Content is a list of blocks, system texts are separate from the conversation, and results of
 * tools are blocks of the user. Roles alternate, so adjacent messages of one role are merged.
 * Thinking blocks are signed, and all blocks must be sent back in order; "opaque" stores them.
 */
#include <string.h>

#include "base/str.h"
#include "model/driver.h"

enum {
    MAX_TOKENS = 16384, /* required by this protocol */
};

static const char version[] = "2023-06-01";

/* Writing --------------------------------------------------------------------------------- */

static json_t *text_block(const char *text)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", text);
}

/* All system messages, and the instructions for a schema. NULL in *ret: there are none. */
static int write_system(const struct snp_model_request *request, json_t **ret)
{
    snp_autojson json_t *blocks = json_array();
    size_t i = 0;
    json_t *message = NULL;

    json_array_foreach(request->messages, i, message)
    {
        bool is_system = strcmp(snp_json_str(message, "role", ""), "system") == 0;
        const char *text = snp_model_content(message);
        if (is_system && text[0] != '\0' && json_array_append_new(blocks, text_block(text)) < 0) {
            return -1;
        }
    }
    if (request->schema != NULL) {
        snp_autofree char *text = snp_json_text(request->schema);
        snp_autofree char *schema =
            text == NULL ? NULL
                         : snp_format("Answer with one JSON value and nothing around it. It must "
                                      "follow this JSON Schema: %s",
                                      text);
        if (schema == NULL || json_array_append_new(blocks, text_block(schema)) < 0) {
            return -1;
        }
    }
    *ret = json_array_size(blocks) > 0 ? SNP_TAKE_PTR(blocks) : NULL;
    return 0;
}

static json_t *call_block(const json_t *call)
{
    return json_pack("{s:s, s:O, s:O, s:O}", "type", "tool_use", "id", json_object_get(call, "id"),
                     "name", json_object_get(call, "name"), "input",
                     json_object_get(call, "arguments"));
}

/*
 * A block as it was received: thinking is stored whole, texts and calls as ranges of the message.
 */
static json_t *block_again(const json_t *block, const json_t *message)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    const char *type = snp_json_str(block, "type", "");
    const char *text = snp_model_content(message);
    size_t from = (size_t)snp_json_int(block, "from", 0);
    size_t to = (size_t)snp_json_int(block, "to", 0);

    if (strcmp(type, "tool_use") == 0) {
        const json_t *call = json_array_get(calls, (size_t)snp_json_int(block, "call", 0));
        return call == NULL ? NULL : call_block(call);
    }
    if (strcmp(type, "text") == 0) {
        return from < to && to <= strlen(text)
                   ? json_pack("{s:s, s:s%}", "type", "text", "text", text + from, to - from)
                   : NULL;
    }
    return json_deep_copy(block);
}

static int write_assistant(const json_t *message, json_t *blocks)
{
    const json_t *kept = json_object_get(json_object_get(message, "opaque"), "anthropic");
    const char *text = snp_model_content(message);
    size_t i = 0;
    json_t *item = NULL;

    json_array_foreach(kept, i, item)
    {
        json_t *block = block_again(item, message);
        if (block != NULL && json_array_append_new(blocks, block) < 0) {
            return -1;
        }
    }
    if (kept != NULL) {
        return 0;
    }
    if (text[0] != '\0' && json_array_append_new(blocks, text_block(text)) < 0) {
        return -1;
    }
    json_array_foreach(json_object_get(message, "tool_calls"), i, item)
    {
        if (json_array_append_new(blocks, call_block(item)) < 0) {
            return -1;
        }
    }
    return 0;
}

static int write_result(const json_t *message, json_t *blocks)
{
    json_t *block =
        json_pack("{s:s, s:O, s:s}", "type", "tool_result", "tool_use_id",
                  json_object_get(message, "tool_call_id"), "content", snp_model_content(message));

    if (block != NULL && snp_json_bool(message, "is_error", false) &&
        json_object_set_new(block, "is_error", json_true()) < 0) {
        json_decref(block);
        return -1;
    }
    return json_array_append_new(blocks, block);
}

static int write_blocks(const json_t *message, const char *role, json_t *blocks)
{
    if (strcmp(role, "assistant") == 0) {
        return write_assistant(message, blocks);
    }
    if (strcmp(role, "tool") == 0) {
        return write_result(message, blocks);
    }
    const char *text = snp_model_content(message);
    return text[0] == '\0' ? 0 : json_array_append_new(blocks, text_block(text));
}

static json_t *write_messages(const json_t *messages)
{
    snp_autojson json_t *made = json_array();
    size_t i = 0;
    json_t *message = NULL;

    json_array_foreach(messages, i, message)
    {
        const char *role = snp_json_str(message, "role", "");
        if (strcmp(role, "system") == 0) {
            continue;
        }
        json_t *blocks =
            snp_model_parts(made, strcmp(role, "assistant") == 0 ? "assistant" : "user", "content");
        if (blocks == NULL || write_blocks(message, role, blocks) < 0) {
            return NULL;
        }
    }
    return SNP_TAKE_PTR(made);
}

/*
 * Mark the end of the conversation, so that the next turn finds everything before it in the cache.
 */
static int mark_cache(const json_t *messages)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const json_t *blocks = json_object_get(last, "content");
    json_t *block = json_array_get(blocks, json_array_size(blocks) - 1);

    return block == NULL ? 0
                         : json_object_set_new(block, "cache_control",
                                               json_pack("{s:s}", "type", "ephemeral"));
}

static json_t *write_choice(const char *choice)
{
    if (choice == NULL || strcmp(choice, "auto") == 0 || strcmp(choice, "none") == 0) {
        return json_pack("{s:s}", "type", choice == NULL ? "auto" : choice);
    }
    if (strcmp(choice, "required") == 0) {
        return json_pack("{s:s}", "type", "any");
    }
    return json_pack("{s:s, s:s}", "type", "tool", "name", choice);
}

static json_t *write_tool(const json_t *tool)
{
    return snp_model_tool("input_schema", tool);
}

static int write_options(const struct snp_model_job *job, json_t *body)
{
    const struct snp_model_request *request = job->request;
    json_t *system = NULL;
    int r = write_system(request, &system);

    if (r == 0 && system != NULL) {
        r = json_object_set_new(body, "system", system);
    }
    if (r == 0 && job->temperature >= 0) {
        r = json_object_set_new(body, "temperature", json_real(job->temperature));
    }
    if (r == 0 && json_array_size(request->tools) > 0) {
        r |= json_object_set_new(body, "tools", snp_model_list_of(request->tools, write_tool));
        r |= json_object_set_new(body, "tool_choice", write_choice(request->tool_choice));
        if (r == 0 && (job->quirks & SNP_MODEL_NO_CACHE_CONTROL) == 0) {
            r = mark_cache(json_object_get(body, "messages"));
        }
    }
    return r;
}

static int anthropic_write(const struct snp_model_job *job,
                           struct snp_model_wire *wire,
                           struct snp_err *err)
{
    uint64_t max = job->request->max_tokens > 0 ? job->request->max_tokens : MAX_TOKENS;
    int r = snp_buf_addf(&wire->url, "%s/v1/messages", job->base_url);

    r = r < 0 ? r : snp_model_wire_key(job, wire);
    r = r < 0 ? r : snp_model_wire_header(wire, "anthropic-version", version);
    wire->body =
        json_pack("{s:s, s:I, s:o, s:b}", "model", job->model, "max_tokens", (json_int_t)max,
                  "messages", write_messages(job->request->messages), "stream", 1);
    if (r < 0 || wire->body == NULL || write_options(job, wire->body) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

/* Reading --------------------------------------------------------------------------------- */

/* Counts come at the start and, more exactly, at the end; a missing one keeps its value. */
static void read_usage(struct snp_model_reply *reply, const json_t *usage)
{
    struct snp_model_usage *into = &reply->usage;

    if (!json_is_object(usage)) {
        return;
    }
    reply->has_usage = true;
    if (json_is_integer(json_object_get(usage, "input_tokens"))) {
        into->cache_read = snp_model_count(usage, "cache_read_input_tokens");
        into->cache_write = snp_model_count(usage, "cache_creation_input_tokens");
        into->input = snp_model_count(usage, "input_tokens") + into->cache_read + into->cache_write;
    }
    if (json_is_integer(json_object_get(usage, "output_tokens"))) {
        into->output = snp_model_count(usage, "output_tokens");
    }
}

static const struct snp_model_stop_word stops[] = {
    {"max_tokens", SNP_MODEL_STOP_LENGTH}, {"model_context_window_exceeded", SNP_MODEL_STOP_LENGTH},
    {"pause_turn", SNP_MODEL_STOP_LENGTH}, {"refusal", SNP_MODEL_STOP_FILTER},
    {"tool_use", SNP_MODEL_STOP_TOOLS},    {NULL, SNP_MODEL_STOP_END},
};

/* The list of blocks in the order received, made at the first. Borrowed. */
static json_t *kept_blocks(struct snp_model_reply *reply)
{
    if (reply->opaque == NULL) {
        reply->opaque = json_pack("{s:[]}", "anthropic");
    }
    return json_object_get(reply->opaque, "anthropic");
}

static int keep(struct snp_model_reply *reply, json_t *block, struct snp_err *err)
{
    return json_array_append_new(kept_blocks(reply), block) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

/* Extend the last block to this end of the text or thinking. */
static int keep_reach(struct snp_model_reply *reply, size_t to, struct snp_err *err)
{
    json_t *blocks = kept_blocks(reply);
    json_t *last = json_array_get(blocks, json_array_size(blocks) - 1);

    if (json_object_get(last, "from") == NULL) {
        return 0;
    }
    return json_object_set_new(last, "to", json_integer((json_int_t)to)) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static json_t *place(const char *type, size_t from)
{
    return json_pack("{s:s, s:I, s:I}", "type", type, "from", (json_int_t)from, "to",
                     (json_int_t)from);
}

static int read_text(struct snp_model_reply *reply, const json_t *text, struct snp_err *err)
{
    int r = snp_model_reply_text(reply, text, err);

    return r < 0 ? r : keep_reach(reply, reply->text.len, err);
}

static int read_thought(struct snp_model_reply *reply, const json_t *text, struct snp_err *err)
{
    int r = snp_model_reply_reasoning(reply, text, err);

    return r < 0 ? r : keep_reach(reply, reply->reasoning.len, err);
}

static int read_signature(struct snp_model_reply *reply, json_t *signature, struct snp_err *err)
{
    json_t *blocks = kept_blocks(reply);
    json_t *last = json_array_get(blocks, json_array_size(blocks) - 1);

    reply->keeps_blocks = true;
    return last != NULL && json_is_string(signature) &&
                   json_object_set(last, "signature", signature) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static int read_call(struct snp_model_reply *reply,
                     int64_t index,
                     const json_t *block,
                     struct snp_err *err)
{
    const json_t *input = json_object_get(block, "input");
    struct snp_model_tool_call *call = NULL;
    int r = snp_model_reply_call(reply, index, snp_json_str(block, "id", NULL),
                                 snp_json_str(block, "name", NULL), &call, err);

    r = r < 0 ? r
              : keep(reply,
                     json_pack("{s:s, s:I}", "type", "tool_use", "call",
                               (json_int_t)(call - reply->calls)),
                     err);
    /* in a stream it is {} first and arrives in pieces */
    return r < 0 || json_object_size(input) == 0 ? r : snp_model_reply_arguments(call, input, err);
}

static int read_block(struct snp_model_reply *reply,
                      int64_t index,
                      const json_t *block,
                      struct snp_err *err)
{
    const char *type = snp_json_str(block, "type", "");

    if (strcmp(type, "text") == 0) {
        int r = keep(reply, place("text", reply->text.len), err);
        return r < 0 ? r : read_text(reply, json_object_get(block, "text"), err);
    }
    if (strcmp(type, "tool_use") == 0) {
        return read_call(reply, index, block, err);
    }
    if (strcmp(type, "thinking") == 0) {
        int r = keep(reply, place("thinking", reply->reasoning.len), err);
        r = r < 0 ? r : read_thought(reply, json_object_get(block, "thinking"), err);
        return r < 0 ? r : read_signature(reply, json_object_get(block, "signature"), err);
    }
    if (strcmp(type, "redacted_thinking") == 0) {
        reply->keeps_blocks = true;
        return keep(reply, json_deep_copy(block), err);
    }
    return 0;
}

static int read_delta(struct snp_model_reply *reply,
                      int64_t index,
                      const json_t *delta,
                      struct snp_err *err)
{
    const char *type = snp_json_str(delta, "type", "");
    struct snp_model_tool_call *call = NULL;

    if (strcmp(type, "text_delta") == 0) {
        return read_text(reply, json_object_get(delta, "text"), err);
    }
    if (strcmp(type, "input_json_delta") == 0) {
        int r = snp_model_reply_call(reply, index, NULL, NULL, &call, err);
        return r < 0 ? r
                     : snp_model_reply_arguments(call, json_object_get(delta, "partial_json"), err);
    }
    if (strcmp(type, "thinking_delta") == 0) {
        return read_thought(reply, json_object_get(delta, "thinking"), err);
    }
    if (strcmp(type, "signature_delta") == 0) {
        return read_signature(reply, json_object_get(delta, "signature"), err);
    }
    return 0;
}

static void read_head(struct snp_model_reply *reply, const json_t *message)
{
    snp_model_reply_name(reply->model, json_object_get(message, "model"));
    snp_model_reply_name(reply->id, json_object_get(message, "id"));
    read_usage(reply, json_object_get(message, "usage"));
}

static void read_error(struct snp_model_reply *reply, const json_t *data)
{
    snp_autojson json_t *none = json_object();
    json_t *error = json_object_get(data, "error");

    (void)snp_model_reply_error(reply, error != NULL ? error : none);
}

static int anthropic_event(struct snp_model_reply *reply, const json_t *data, struct snp_err *err)
{
    const char *type = snp_json_str(data, "type", "");
    int64_t index = snp_json_int(data, "index", 0);

    if (strcmp(type, "content_block_start") == 0) {
        return read_block(reply, index, json_object_get(data, "content_block"), err);
    }
    if (strcmp(type, "content_block_delta") == 0) {
        return read_delta(reply, index, json_object_get(data, "delta"), err);
    }
    if (strcmp(type, "message_start") == 0) {
        read_head(reply, json_object_get(data, "message"));
    } else if (strcmp(type, "message_delta") == 0) {
        read_usage(reply, json_object_get(data, "usage"));
        snp_model_reply_stop(reply, json_object_get(json_object_get(data, "delta"), "stop_reason"),
                             stops);
    } else if (strcmp(type, "message_stop") == 0) {
        reply->is_ended = true;
    } else if (strcmp(type, "error") == 0) {
        read_error(reply, data);
    }
    return 0; /* pings, ends of blocks, and unknown events */
}

static int anthropic_whole(struct snp_model_reply *reply, const json_t *body, struct snp_err *err)
{
    const json_t *content = json_object_get(body, "content");
    size_t i = 0;
    json_t *block = NULL;

    if (strcmp(snp_json_str(body, "type", ""), "error") == 0) {
        read_error(reply, body);
        return 0;
    }
    if (!json_is_array(content)) {
        return snp_fail(err, SNP_E_PEER, "the reply has no content");
    }
    json_array_foreach(content, i, block)
    {
        int r = read_block(reply, (int64_t)i, block, err);
        if (r < 0) {
            return r;
        }
    }
    read_head(reply, body);
    snp_model_reply_stop(reply, json_object_get(body, "stop_reason"), stops);
    reply->is_ended = true;
    return 0;
}

const struct snp_model_driver snp_model_anthropic = {
    .name = "anthropic",
    .write = anthropic_write,
    .event = anthropic_event,
    .whole = anthropic_whole,
};
