/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a reply.
 *
 * Text is passed to the listener as it arrives. Tool calls are assembled from pieces by their
 * index. Their arguments are parsed at the end; invalid ones become an object with the error, for
 * the model.
 */
#include "model/reply.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

void snp_model_reply_init(struct snp_model_reply *reply)
{
    *reply = (struct snp_model_reply){0};
    snp_buf_init(&reply->text, SNP_MODEL_TEXT_MAX);
    snp_buf_init(&reply->reasoning, SNP_MODEL_TEXT_MAX);
}

void snp_model_reply_done(struct snp_model_reply *reply)
{
    snp_buf_done(&reply->text);
    snp_buf_done(&reply->reasoning);
    for (size_t i = 0; i < reply->n_calls; i++) {
        snp_buf_done(&reply->calls[i].arguments);
        json_decref(reply->calls[i].signature);
    }
    free(reply->calls);
    json_decref(reply->opaque);
    json_decref(reply->error);
    *reply = (struct snp_model_reply){0};
}

static void tell(struct snp_model_reply *reply,
                 enum snp_model_event_type type,
                 const char *text,
                 size_t n)
{
    if (reply->on_event != NULL) {
        struct snp_model_event event = {.type = type, .text = text, .len = n};
        reply->on_event(reply->ctx, &event);
    }
}

static int add(struct snp_buf *buf, const char *text, size_t n, struct snp_err *err)
{
    int r = snp_buf_add(buf, text, n);

    if (r == SNP_E_LIMIT) {
        return snp_fail(err, SNP_E_LIMIT, "the reply is longer than %zu bytes", buf->max);
    }
    return r < 0 ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static int add_told(struct snp_model_reply *reply,
                    struct snp_buf *buf,
                    const json_t *text,
                    enum snp_model_event_type type,
                    struct snp_err *err)
{
    size_t n = json_string_length(text);

    if (n == 0) { /* or not a string at all */
        return 0;
    }
    int r = add(buf, json_string_value(text), n, err);
    if (r == 0) {
        tell(reply, type, json_string_value(text), n);
    }
    return r;
}

int snp_model_reply_text(struct snp_model_reply *reply, const json_t *text, struct snp_err *err)
{
    return add_told(reply, &reply->text, text, SNP_MODEL_EVENT_TEXT, err);
}

int snp_model_reply_reasoning(struct snp_model_reply *reply,
                              const json_t *text,
                              struct snp_err *err)
{
    return add_told(reply, &reply->reasoning, text, SNP_MODEL_EVENT_REASONING, err);
}

static struct snp_model_tool_call *call_add(struct snp_model_reply *reply,
                                            int64_t index,
                                            struct snp_err *err)
{
    if (reply->n_calls == SNP_MODEL_CALLS_MAX) {
        (void)snp_fail(err, SNP_E_LIMIT, "the reply has more than %d tool calls",
                       SNP_MODEL_CALLS_MAX);
        return NULL;
    }
    struct snp_model_tool_call *grown =
        reallocarray(reply->calls, reply->n_calls + 1, sizeof(*grown));
    if (grown == NULL) {
        (void)snp_fail(err, SNP_E_NOMEM, "out of memory");
        return NULL;
    }
    reply->calls = grown;
    struct snp_model_tool_call *call = &grown[reply->n_calls++];
    *call = (struct snp_model_tool_call){.index = index};
    snp_buf_init(&call->arguments, SNP_MODEL_TEXT_MAX);
    return call;
}

static int take(char into[SNP_MODEL_ID_MAX], const char *text, struct snp_err *err)
{
    if (text == NULL || into[0] != '\0') {
        return 0;
    }
    size_t n = strlen(text);
    if (n >= SNP_MODEL_ID_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the name or id of a tool call is longer than %d bytes",
                        SNP_MODEL_ID_MAX - 1);
    }
    memcpy(into, text, n + 1);
    return 0;
}

int snp_model_reply_call(struct snp_model_reply *reply,
                         int64_t index,
                         const char *id,
                         const char *name,
                         struct snp_model_tool_call **ret,
                         struct snp_err *err)
{
    struct snp_model_tool_call *call = NULL;

    for (size_t i = 0; i < reply->n_calls; i++) {
        call = reply->calls[i].index == index ? &reply->calls[i] : call;
    }
    if (call == NULL) {
        call = call_add(reply, index, err);
        if (call == NULL) {
            return (int)err->code;
        }
    }
    bool is_named = call->name[0] != '\0';
    int r = take(call->id, id, err);
    r = r < 0 ? r : take(call->name, name, err);
    if (r == 0 && !is_named && call->name[0] != '\0') {
        tell(reply, SNP_MODEL_EVENT_CALL, call->name, strlen(call->name));
    }
    *ret = call;
    return r;
}

int snp_model_reply_arguments(struct snp_model_tool_call *call,
                              const json_t *arguments,
                              struct snp_err *err)
{
    if (json_is_object(arguments)) { /* some servers send it in one piece, and not as text */
        snp_autofree char *text = snp_json_text(arguments);

        snp_buf_clear(&call->arguments);
        return text == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                            : add(&call->arguments, text, strlen(text), err);
    }
    size_t n = json_string_length(arguments);
    return n == 0 ? 0 : add(&call->arguments, json_string_value(arguments), n, err);
}

void snp_model_reply_name(char into[SNP_MODEL_ID_MAX], const json_t *text)
{
    size_t n = json_string_length(text);
    const char *value = json_string_value(text);

    if (n == 0 || memchr(value, '\0', n) != NULL) {
        return;
    }
    n = n < SNP_MODEL_ID_MAX ? n : SNP_MODEL_ID_MAX - 1;
    while (!snp_utf8_valid(value, n)) { /* cut in the middle of a character */
        n--;
    }
    memcpy(into, value, n);
    into[n] = '\0';
}

void snp_model_reply_stop(struct snp_model_reply *reply,
                          const json_t *reason,
                          const struct snp_model_stop_word *words)
{
    if (json_string_length(reason) > 0) {
        reply->has_stop = true;
        for (; words->word != NULL; words++) {
            reply->stop =
                strcmp(json_string_value(reason), words->word) == 0 ? words->stop : reply->stop;
        }
    }
}

bool snp_model_reply_error(struct snp_model_reply *reply, json_t *error)
{
    if (error == NULL || json_is_null(error)) {
        return false;
    }
    json_decref(reply->error);
    reply->error = json_incref(error);
    return true;
}

uint64_t snp_model_count(const json_t *object, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(object, key));

    return n > 0 && (uint64_t)n <= snp_model_tokens_max ? (uint64_t)n : 0;
}

/* The arguments as an object; invalid ones become an object with the reason. */
static json_t *arguments_read(struct snp_model_tool_call *call)
{
    const char *text = snp_buf_bytes(&call->arguments);
    size_t n = call->arguments.len;
    struct snp_err err;
    json_t *made = NULL;

    if (n == 0 || (n == strlen("null") && memcmp(text, "null", n) == 0)) {
        return json_object();
    }
    if (snp_json_parse(text, n, &made, &err) == 0) {
        return made;
    }
    size_t shown = n < SNP_MODEL_RAW_SHOWN ? n : SNP_MODEL_RAW_SHOWN;
    snp_autofree char *why =
        snp_format("the arguments of %s are not a JSON object: %s", call->name, err.msg);
    return why == NULL
               ? NULL
               : json_pack("{s:s, s:o}", "_error", why, "_raw", snp_json_bytes(text, shown));
}

static json_t *call_message(struct snp_model_tool_call *call, size_t n_before, size_t i)
{
    snp_autofree char *made_id =
        call->id[0] != '\0' ? strdup(call->id) : snp_format("call_%zu_%zu", n_before, i);
    json_t *made = NULL;

    if (made_id != NULL) {
        made = json_pack("{s:s, s:s, s:o}", "id", made_id, "name", call->name, "arguments",
                         arguments_read(call));
    }
    if (made != NULL && call->signature != NULL &&
        json_object_set(made, "signature", call->signature) < 0) {
        json_decref(made);
        return NULL;
    }
    return made;
}

/* Replace ranges of thinking by their text. Without keeps_blocks, drop all blocks. */
static int keep_blocks(struct snp_model_reply *reply)
{
    const json_t *blocks = json_object_get(reply->opaque, "anthropic");
    const char *text = snp_buf_bytes(&reply->reasoning);
    size_t i = 0;
    json_t *block = NULL;

    if (blocks != NULL && !reply->keeps_blocks) {
        json_decref(reply->opaque);
        reply->opaque = NULL;
        return 0;
    }
    json_array_foreach(blocks, i, block)
    {
        size_t from = (size_t)snp_json_int(block, "from", 0);
        size_t to = (size_t)snp_json_int(block, "to", 0);
        bool is_thought = strcmp(snp_json_str(block, "type", ""), "thinking") == 0;

        if (!is_thought || json_object_get(block, "from") == NULL) {
            continue;
        }
        json_t *thought = from < to && to <= reply->reasoning.len
                              ? snp_json_bytes(text + from, to - from)
                              : json_string("");
        if (json_object_set_new(block, "thinking", thought) < 0 ||
            json_object_del(block, "from") < 0 || json_object_del(block, "to") < 0) {
            return -1;
        }
    }
    return 0;
}

/* Store the reasoning before a call in "opaque". */
static int keep_reasoning(struct snp_model_reply *reply)
{
    if (!reply->keeps_reasoning || reply->reasoning.len == 0 || reply->n_calls == 0) {
        return 0;
    }
    if (reply->opaque == NULL) {
        reply->opaque = json_object();
    }
    return json_object_set_new(
        reply->opaque, "reasoning_content",
        snp_json_bytes(snp_buf_bytes(&reply->reasoning), reply->reasoning.len));
}

json_t *snp_model_reply_message(struct snp_model_reply *reply, size_t n_before)
{
    json_t *content = reply->text.len == 0
                          ? json_null()
                          : snp_json_bytes(snp_buf_bytes(&reply->text), reply->text.len);
    snp_autojson json_t *message = json_pack("{s:s, s:o}", "role", "assistant", "content", content);
    snp_autojson json_t *calls = json_array();

    if (message == NULL || calls == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < reply->n_calls; i++) {
        if (json_array_append_new(calls, call_message(&reply->calls[i], n_before, i)) < 0) {
            return NULL;
        }
    }
    if (reply->n_calls > 0 && json_object_set(message, "tool_calls", calls) < 0) {
        return NULL;
    }
    if (keep_blocks(reply) < 0 || keep_reasoning(reply) < 0) {
        return NULL;
    }
    if (reply->opaque != NULL && json_object_set(message, "opaque", reply->opaque) < 0) {
        return NULL;
    }
    return SNP_TAKE_PTR(message);
}
