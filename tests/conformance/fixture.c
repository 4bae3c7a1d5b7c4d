/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server that the public conformance suite wants to meet: our protocol core and transports with
 * the suite's tools, resources and prompts instead of ours. On standard input and output, or with
 * an argument (as of `mcp-serve --http`) over HTTP, without a token; a second one is how many
 * milliseconds a client may be slow. Not installed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/str.h"
#include "mcp/http/httpd.h"
#include "mcp/stdio.h"

#define PNG                                                         \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+" \
    "M9QDwADhgGAWjR9awAAAABJRU5Erk"                                 \
    "Jggg=="
#define WAV        "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
#define TEXT(text) "{\"content\":[{\"type\":\"text\",\"text\":\"" text "\"}]}"
#define NAME_SCHEMA                                                                       \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[" \
    "\"name\"]}"
#define ASK_NAME(message)                                                   \
    "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"" message \
    "\",\"requestedSchema\":" NAME_SCHEMA "}}"
#define ASK_MODEL(prompt)                                                                  \
    "{\"method\":\"sampling/createMessage\",\"params\":{\"messages\":[{\"role\":\"user\"," \
    "\"content\":{\"type\":\"text\",\"text\":\"" prompt "\"}}],\"maxTokens\":100}}"
#define ASK_ROOTS "{\"method\":\"roots/list\",\"params\":{}}"

enum {
    STEP_MS = 50,
    STEPS = 3,
    ROUNDS = 3,
    STATE_LEN = 96,
    KEY = 0x5bd1e995,
};

/* Tables ------------------------------------------------------------------------------------ */

struct item {
    const char *name;
    const char *schema; /* of arguments; NULL = none */
    const char *answer; /* of those that always answer the same; JSON */
    void (*run)(struct snp_mcp_call *call, const struct item *item);
    const char *ask;            /* legacy: what the client is asked */
    const char *rounds[ROUNDS]; /* modern: inputRequests, one round after the other */
    bool has_state;
};

static void run_steps(struct snp_mcp_call *call, const struct item *item);
static void run_ask(struct snp_mcp_call *call, const struct item *item);
static void run_rounds(struct snp_mcp_call *call, const struct item *item);
static void run_missing(struct snp_mcp_call *call, const struct item *item);

/* clang-format off */
static const struct item tools[] = {
    {.name = "test_simple_text", .answer = TEXT("This is a simple text response for testing.")},
    {.name = "test_image_content",
     .answer = "{\"content\":[{\"type\":\"image\",\"data\":\"" PNG
               "\",\"mimeType\":\"image/png\"}]}"},
    {.name = "test_audio_content",
     .answer = "{\"content\":[{\"type\":\"audio\",\"data\":\"" WAV
               "\",\"mimeType\":\"audio/wav\"}]}"},
    {.name = "test_embedded_resource",
     .answer = "{\"content\":[{\"type\":\"resource\",\"resource\":{\"uri\":"
               "\"test://embedded-resource\",\"mimeType\":\"text/plain\",\"text\":\"This is an "
               "embedded resource content.\"}}]}"},
    {.name = "test_multiple_content_types",
     .answer = "{\"content\":[{\"type\":\"text\",\"text\":\"Multiple content types test:\"},"
               "{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"},"
               "{\"type\":\"resource\",\"resource\":{\"uri\":\"test://mixed-content-resource\","
               "\"mimeType\":\"application/json\",\"text\":\"{\\\"test\\\":\\\"data\\\","
               "\\\"value\\\":123}\"}}]}"},
    {.name = "test_error_handling",
     .answer = "{\"isError\":true,\"content\":[{\"type\":\"text\",\"text\":\"This tool "
               "intentionally returns an error for testing\"}]}"},
    {.name = "test_tool_with_logging", .run = run_steps},
    {.name = "test_tool_with_progress", .run = run_steps},
    {.name = "test_logging_tool", .answer = TEXT("done")},
    {.name = "test_reconnection", .answer = TEXT("done")},
    {.name = "json_schema_2020_12_tool",
     .schema =
         "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","
         "\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":"
         "{\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},\"properties\":{"
         "\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},"
         "\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},\"phone\":{"
         "\"type\":\"string\"},\"email\":{\"type\":\"string\"}},\"allOf\":[{\"anyOf\":[{"
         "\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],\"if\":{\"properties\":{"
         "\"contactMethod\":{\"const\":\"phone\"}},\"required\":[\"contactMethod\"]},\"then\":{"
         "\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},"
         "\"additionalProperties\":false}",
     .answer = TEXT("done")},
    {.name = "test_sampling",
     .schema = "{\"type\":\"object\",\"properties\":{\"prompt\":{\"type\":\"string\"}},"
               "\"required\":[\"prompt\"]}",
     .run = run_ask,
     .ask = ASK_MODEL("%")},
    {.name = "test_elicitation",
     .schema = "{\"type\":\"object\",\"properties\":{\"message\":{\"type\":\"string\"}},"
               "\"required\":[\"message\"]}",
     .run = run_ask,
     .ask = "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"%\","
            "\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"username\":{\"type\":"
            "\"string\",\"description\":\"User's response\"},\"email\":{\"type\":\"string\","
            "\"description\":\"User's email address\"}},\"required\":[\"username\",\"email\"]}}}"},
    {.name = "test_elicitation_sep1034_defaults",
     .run = run_ask,
     .ask = "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"Defaults\","
            "\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":"
            "\"string\",\"default\":\"John Doe\"},\"age\":{\"type\":\"integer\",\"default\":30},"
            "\"score\":{\"type\":\"number\",\"default\":95.5},\"status\":{\"type\":\"string\","
            "\"enum\":[\"active\",\"inactive\",\"pending\"],\"default\":\"active\"},"
            "\"verified\":{\"type\":\"boolean\",\"default\":true}},\"required\":[]}}}"},
    {.name = "test_elicitation_sep1330_enums",
     .run = run_ask,
     .ask =
         "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"Choices\","
         "\"requestedSchema\":{\"type\":\"object\",\"properties\":{"
         "\"untitledSingle\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\","
         "\"option3\"]},\"titledSingle\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"value1\","
         "\"title\":\"First Option\"},{\"const\":\"value2\",\"title\":\"Second Option\"},{"
         "\"const\":\"value3\",\"title\":\"Third Option\"}]},\"legacyEnum\":{\"type\":"
         "\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],\"enumNames\":[\"Option One\","
         "\"Option Two\",\"Option Three\"]},\"untitledMulti\":{\"type\":\"array\",\"items\":{"
         "\"type\":\"string\",\"enum\":[\"option1\",\"option2\",\"option3\"]}},\"titledMulti\":"
         "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"value1\",\"title\":\"First "
         "Choice\"},{\"const\":\"value2\",\"title\":\"Second Choice\"},{\"const\":\"value3\","
         "\"title\":\"Third Choice\"}]}}},\"required\":[]}}}"},
    {.name = "test_missing_capability", .run = run_missing},
    {.name = "test_streaming_elicitation",
     .run = run_rounds,
     .rounds = {"{\"user_name\":" ASK_NAME("What is your name?") "}"}},
    {.name = "test_input_required_result_elicitation",
     .run = run_rounds,
     .rounds = {"{\"user_name\":" ASK_NAME("What is your name?") "}"}},
    {.name = "test_input_required_result_sampling",
     .run = run_rounds,
     .rounds = {"{\"capital_question\":" ASK_MODEL("What is the capital of France?") "}"}},
    {.name = "test_input_required_result_list_roots",
     .run = run_rounds,
     .rounds = {"{\"client_roots\":" ASK_ROOTS "}"}},
    {.name = "test_input_required_result_request_state",
     .run = run_rounds,
     .rounds = {"{\"confirm\":" ASK_NAME("Please confirm") "}"},
     .has_state = true},
    {.name = "test_input_required_result_tampered_state",
     .run = run_rounds,
     .rounds = {"{\"confirm\":" ASK_NAME("Please confirm") "}"},
     .has_state = true},
    {.name = "test_input_required_result_multiple_inputs",
     .run = run_rounds,
     .rounds = {"{\"user_name\":" ASK_NAME("What is your name?") ",\"greeting\":" ASK_MODEL(
         "Generate a greeting") ",\"client_roots\":" ASK_ROOTS "}"},
     .has_state = true},
    {.name = "test_input_required_result_multi_round",
     .run = run_rounds,
     .rounds = {"{\"step1\":" ASK_NAME("Step 1: What is your name?") "}",
                "{\"step2\":" ASK_NAME("Step 2: What is your favorite color?") "}"},
     .has_state = true},
    {.name = "test_input_required_result_capabilities",
     .run = run_rounds,
     .rounds = {"{\"user_name\":" ASK_NAME("What is your name?") ",\"greeting\":" ASK_MODEL(
         "Generate a greeting") "}"}},
};

static const struct item prompts[] = {
    {.name = "test_simple_prompt",
     .answer = "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":"
               "\"This is a simple prompt for testing.\"}}]}"},
    {.name = "test_prompt_with_arguments",
     .schema = "[{\"name\":\"arg1\",\"required\":true},{\"name\":\"arg2\",\"required\":true}]",
     .answer = "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":"
               "\"Prompt with arguments: arg1='%arg1', arg2='%arg2'\"}}]}"},
    {.name = "test_prompt_with_embedded_resource",
     .schema = "[{\"name\":\"resourceUri\",\"required\":true}]",
     .answer = "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"resource\","
               "\"resource\":{\"uri\":\"%resourceUri\",\"mimeType\":\"text/plain\",\"text\":"
               "\"Embedded resource content for testing.\"}}},{\"role\":\"user\",\"content\":{"
               "\"type\":\"text\",\"text\":\"Please process the embedded resource above.\"}}]}"},
    {.name = "test_prompt_with_image",
     .answer = "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"image\",\"data\":"
               "\"" PNG "\",\"mimeType\":\"image/png\"}},{\"role\":\"user\",\"content\":{"
               "\"type\":\"text\",\"text\":\"Please analyze the image above.\"}}]}"},
    {.name = "test_input_required_result_prompt",
     .run = run_rounds,
     .rounds = {"{\"user_context\":" ASK_NAME("What context should the prompt use?") "}"}},
};

static const struct {
    const char *uri;
    const char *mime;
    const char *member;
    const char *content;
} resources[] = {
    {"test://static-text",      "text/plain", "text",
     "This is the content of the static text resource."                             },
    {"test://static-binary",    "image/png",  "blob", PNG                           },
    {"test://watched-resource", "text/plain", "text", "This is the watched resource."},
};

/* clang-format on */

static const struct item *item_find(const struct item *items, size_t n, const char *name)
{
    for (size_t i = 0; name != NULL && i < n; i++) {
        if (strcmp(items[i].name, name) == 0) {
            return &items[i];
        }
    }
    return NULL;
}

static json_t *json_of(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

    SNP_ASSERT(value != NULL);
    return value;
}

static json_t *text_result(const char *text)
{
    return json_pack("{s:[{s:s, s:s}]}", "content", "type", "text", "text", text);
}

/* Steps: logs or progress, one after the other ----------------------------------------------- */

struct steps {
    uv_timer_t timer;
    struct snp_mcp_call *call; /* NULL: cancelled */
    bool is_progress;
    int done;
};

static void on_steps_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_step(uv_timer_t *timer)
{
    static const char *const logs[STEPS] = {"Tool execution started", "Tool processing data",
                                            "Tool execution completed"};
    struct steps *steps = timer->data;

    if (steps->done < STEPS && steps->is_progress) {
        snp_mcp_progress(steps->call, steps->done * 50.0 + (steps->done == 0 ? 0.5 : 0), 100, NULL,
                         NULL);
    } else if (steps->done < STEPS && steps->call->era == SNP_ERA_LEGACY) {
        snp_mcp_notify(steps->call, "notifications/message",
                       json_pack("{s:s, s:s}", "level", "info", "data", logs[steps->done]));
    }
    steps->done++;
    if (steps->done > STEPS) {
        uv_close((uv_handle_t *)timer, on_steps_closed);
        snp_mcp_answer(steps->call, text_result("done"));
    }
}

static void on_steps_cancel(struct snp_mcp_call *call)
{
    struct steps *steps = call->state;

    uv_close((uv_handle_t *)&steps->timer, on_steps_closed);
    snp_mcp_answer(call, json_object());
}

static void run_steps(struct snp_mcp_call *call, const struct item *item)
{
    struct steps *steps = calloc(1, sizeof(*steps));

    SNP_ASSERT(steps != NULL);
    steps->call = call;
    steps->is_progress = strcmp(item->name, "test_tool_with_progress") == 0;
    call->state = steps;
    call->cancel = on_steps_cancel;
    (void)uv_timer_init(call->hub->loop, &steps->timer);
    steps->timer.data = steps;
    (void)uv_timer_start(&steps->timer, on_step, 0, STEP_MS);
}

/* Asking the client, legacy ------------------------------------------------------------------- */

static void on_answered(struct snp_mcp_call *call, json_t *result, json_t *error)
{
    const char *name = snp_json_str(call->params, "name", "");
    snp_autofree char *content = json_dumps(json_object_get(result, "content"), JSON_ENCODE_ANY);
    snp_autofree char *text = NULL;

    if (error != NULL) {
        snp_mcp_refuse(call, SNP_JSONRPC_INTERNAL, NULL, "the client refused");
        return;
    }
    if (strcmp(name, "test_sampling") == 0) {
        text = snp_format("LLM response: %s",
                          snp_json_str(json_object_get(result, "content"), "text", ""));
    } else {
        text = snp_format("%s action=%s, content=%s",
                          strcmp(name, "test_elicitation") == 0 ? "User response:"
                                                                : "Elicitation completed:",
                          snp_json_str(result, "action", ""), content == NULL ? "{}" : content);
    }
    snp_mcp_answer(call, text == NULL ? NULL : text_result(text));
}

/* Replace "%" or "%NAME" in strings by arguments. New reference. */
static json_t *filled(const json_t *value, const json_t *args)
{
    const char *text = json_string_value(value);
    json_t *copy;
    const char *key;
    json_t *member;
    size_t i;

    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach((json_t *)(uintptr_t)value, i, member)
        {
            (void)json_array_append_new(copy, filled(member, args));
        }
        return copy;
    }
    if (json_is_object(value)) {
        copy = json_object();
        json_object_foreach((json_t *)(uintptr_t)value, key, member)
        {
            (void)json_object_set_new(copy, key, filled(member, args));
        }
        return copy;
    }
    if (text == NULL || strchr(text, '%') == NULL) {
        return json_deep_copy(value);
    }
    if (strcmp(text, "%") == 0) {
        return json_string(snp_json_str(args, "prompt", snp_json_str(args, "message", "nothing")));
    }
    if (strcmp(text, "%resourceUri") == 0) {
        return json_string(snp_json_str(args, "resourceUri", ""));
    }
    return json_sprintf("Prompt with arguments: arg1='%s', arg2='%s'",
                        snp_json_str(args, "arg1", ""), snp_json_str(args, "arg2", ""));
}

static void run_ask(struct snp_mcp_call *call, const struct item *item)
{
    snp_autojson json_t *raw = json_of(item->ask);
    snp_autojson json_t *ask = filled(raw, json_object_get(call->params, "arguments"));
    struct snp_err err;

    if (call->era == SNP_ERA_MODERN) {
        snp_mcp_refuse(call, SNP_JSONRPC_METHOD, NULL, "nobody is asked in this version");
        return;
    }
    if (snp_mcp_ask(call, snp_json_str(ask, "method", ""),
                    json_incref(json_object_get(ask, "params")), on_answered, &err) < 0) {
        snp_mcp_refuse(call, SNP_JSONRPC_INTERNAL, NULL, "%s", err.msg);
    }
}

/* Asking by results, modern -------------------------------------------------------------------- */

static const json_t *capabilities_of(const struct snp_mcp_call *call)
{
    return json_object_get(json_object_get(call->params, "_meta"), SNP_MCP_META_CAPABILITIES);
}

static void run_missing(struct snp_mcp_call *call, const struct item *item)
{
    (void)item;
    if (json_object_get(capabilities_of(call), "sampling") == NULL) {
        snp_mcp_refuse(call, SNP_JSONRPC_CAPABILITY,
                       json_pack("{s:{s:{}}}", "requiredCapabilities", "sampling"),
                       "the client did not declare sampling");
        return;
    }
    snp_mcp_answer(call, text_result("done"));
}

/* "NAME:ROUND:SUM", with a sum that only we can make (a toy: nothing here is worth more). */
static void state_write(const struct item *item, int round, char out[STATE_LEN])
{
    uint64_t sum = KEY ^ (uint64_t)getpid() << 20U;
    int n = snprintf(out, STATE_LEN, "%.60s:%d:", item->name, round);

    for (int i = 0; i < n; i++) {
        sum = (sum ^ (unsigned char)out[i]) * 0x100000001b3ULL;
    }
    (void)snprintf(out + n, STATE_LEN - (size_t)n, "%016llx", (unsigned long long)sum);
}

/* The round a state belongs to: 0 without one, -1 if it is not ours. */
static int state_round(const struct item *item, const json_t *state)
{
    for (int round = 0; round < ROUNDS; round++) {
        char text[STATE_LEN];

        state_write(item, round, text);
        if (snp_streq(json_string_value(state), text)) {
            return round;
        }
    }
    return state == NULL ? 0 : -1;
}

/* Whether every question has an answer of its form. */
static bool is_answered(json_t *questions, const json_t *answers)
{
    const char *key;
    json_t *question;

    json_object_foreach(questions, key, question)
    {
        const json_t *answer = json_object_get(answers, key);
        const char *method = snp_json_str(question, "method", "");
        const char *member = strcmp(method, "roots/list") == 0           ? "roots"
                             : strcmp(method, "elicitation/create") == 0 ? "action"
                                                                         : "content";

        if (json_object_get(answer, member) == NULL) {
            return false;
        }
    }
    return true;
}

/* Only what the client has declared may be asked. */
static void questions_filter(const struct snp_mcp_call *call, json_t *questions)
{
    const char *key;
    json_t *question;
    void *next;

    json_object_foreach_safe(questions, next, key, question)
    {
        const char *method = snp_json_str(question, "method", "");
        const char *needed = strcmp(method, "roots/list") == 0           ? "roots"
                             : strcmp(method, "elicitation/create") == 0 ? "elicitation"
                                                                         : "sampling";

        if (json_object_get(capabilities_of(call), needed) == NULL) {
            (void)json_object_del(questions, key);
        }
    }
}

static void rounds_finish(struct snp_mcp_call *call, const json_t *answers)
{
    snp_autofree char *dump = json_dumps(answers, JSON_COMPACT);
    const char *key;
    json_t *answer;
    const char *name = "nobody";
    snp_autofree char *text = NULL;

    json_object_foreach((json_t *)(uintptr_t)answers, key, answer)
    {
        name = snp_json_str(json_object_get(answer, "content"), "name", name);
    }
    text = snp_format("Hello, %s! state-ok %s", name, dump == NULL ? "" : dump);
    if (text == NULL) {
        snp_mcp_answer(call, NULL);
    } else if (strcmp(call->method->name, "prompts/get") == 0) {
        snp_mcp_answer(call, json_pack("{s:[{s:s, s:{s:s, s:s}}]}", "messages", "role", "user",
                                       "content", "type", "text", "text", text));
    } else {
        snp_mcp_answer(call, text_result(text));
    }
}

static void run_rounds(struct snp_mcp_call *call, const struct item *item)
{
    const json_t *answers = json_object_get(call->params, "inputResponses");
    int round = state_round(item, json_object_get(call->params, "requestState"));
    snp_autojson json_t *questions = NULL;
    char state[STATE_LEN];

    if (round < 0) {
        snp_mcp_refuse(call, SNP_JSONRPC_PARAMS, NULL, "the request state is not ours");
        return;
    }
    questions = json_of(item->rounds[round]);
    if (json_is_object(answers) && is_answered(questions, answers)) {
        round++;
        if (round == ROUNDS || item->rounds[round] == NULL) {
            rounds_finish(call, answers);
            return;
        }
        json_decref(questions);
        questions = json_of(item->rounds[round]);
    }
    if (strcmp(item->name, "test_input_required_result_capabilities") == 0) {
        questions_filter(call, questions);
    }
    state_write(item, round, state);
    snp_mcp_answer(call,
                   json_pack("{s:s, s:O, s:s*}", "resultType", "input_required", "inputRequests",
                             questions, "requestState", item->has_state ? state : NULL));
}

/* Methods -------------------------------------------------------------------------------------- */

static void item_run(struct snp_mcp_call *call, const struct item *item)
{
    if (item == NULL) {
        snp_mcp_refuse(call, SNP_JSONRPC_PARAMS, NULL, "there is no %s",
                       snp_json_str(call->params, "name", "such thing"));
    } else if (item->answer != NULL) {
        snp_autojson json_t *answer = json_of(item->answer);

        snp_mcp_answer(call, filled(answer, json_object_get(call->params, "arguments")));
    } else {
        item->run(call, item);
    }
}

static void run_tools_list(struct snp_mcp_call *call)
{
    json_t *list = json_array();

    for (size_t i = 0; i < SNP_ARRAY_LEN(tools); i++) {
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:o}", "name", tools[i].name, "description",
                            "A tool of the conformance suite", "inputSchema",
                            json_of(tools[i].schema == NULL ? "{\"type\":\"object\"}"
                                                            : tools[i].schema)));
    }
    snp_mcp_answer(call, json_pack("{s:o}", "tools", list));
}

static void run_tools_call(struct snp_mcp_call *call)
{
    item_run(call,
             item_find(tools, SNP_ARRAY_LEN(tools), snp_json_str(call->params, "name", NULL)));
}

static void run_prompts_list(struct snp_mcp_call *call)
{
    json_t *list = json_array();

    for (size_t i = 0; i < SNP_ARRAY_LEN(prompts); i++) {
        (void)json_array_append_new(
            list, json_pack("{s:s, s:s, s:o*}", "name", prompts[i].name, "description",
                            "A prompt of the conformance suite", "arguments",
                            prompts[i].schema == NULL ? NULL : json_of(prompts[i].schema)));
    }
    snp_mcp_answer(call, json_pack("{s:o}", "prompts", list));
}

static void run_prompts_get(struct snp_mcp_call *call)
{
    item_run(call,
             item_find(prompts, SNP_ARRAY_LEN(prompts), snp_json_str(call->params, "name", NULL)));
}

static void run_resources_list(struct snp_mcp_call *call)
{
    json_t *list = json_array();

    for (size_t i = 0; i < SNP_ARRAY_LEN(resources); i++) {
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:s, s:s}", "uri", resources[i].uri, "name",
                                              resources[i].uri, "mimeType", resources[i].mime));
    }
    snp_mcp_answer(call, json_pack("{s:o}", "resources", list));
}

static void run_templates_list(struct snp_mcp_call *call)
{
    snp_mcp_answer(call, json_pack("{s:[{s:s, s:s}]}", "resourceTemplates", "uriTemplate",
                                   "test://template/{id}/data", "name", "template"));
}

static void run_resources_read(struct snp_mcp_call *call)
{
    const char *uri = snp_json_str(call->params, "uri", "");
    static const char begin[] = "test://template/";

    for (size_t i = 0; i < SNP_ARRAY_LEN(resources); i++) {
        if (strcmp(resources[i].uri, uri) == 0) {
            snp_mcp_answer(call,
                           json_pack("{s:[{s:s, s:s, s:s}]}", "contents", "uri", uri, "mimeType",
                                     resources[i].mime, resources[i].member, resources[i].content));
            return;
        }
    }
    if (snp_has_prefix(uri, begin) && snp_has_suffix(uri, "/data")) {
        const char *id = uri + strlen(begin);

        snp_mcp_answer(
            call, json_pack("{s:[{s:s, s:s, s:o}]}", "contents", "uri", uri, "mimeType",
                            "application/json", "text",
                            json_sprintf("{\"id\":\"%.*s\",\"templateTest\":true,\"data\":"
                                         "\"Data for ID: %.*s\"}",
                                         (int)strcspn(id, "/"), id, (int)strcspn(id, "/"), id)));
        return;
    }
    snp_mcp_refuse(call, call->era == SNP_ERA_MODERN ? SNP_JSONRPC_PARAMS : SNP_JSONRPC_NO_RESOURCE,
                   json_pack("{s:s}", "uri", uri), "Resource not found");
}

static void run_complete(struct snp_mcp_call *call)
{
    snp_mcp_answer(call, json_pack("{s:{s:[]}}", "completion", "values"));
}

static void run_nothing(struct snp_mcp_call *call)
{
    snp_mcp_answer(call, json_object());
}

static const struct snp_mcp_method methods[] = {
    {"tools/list", SNP_IN_BOTH, true, run_tools_list},
    {"tools/call", SNP_IN_BOTH, false, run_tools_call},
    {"prompts/list", SNP_IN_BOTH, true, run_prompts_list},
    {"prompts/get", SNP_IN_BOTH, false, run_prompts_get},
    {"resources/list", SNP_IN_BOTH, true, run_resources_list},
    {"resources/templates/list", SNP_IN_BOTH, true, run_templates_list},
    {"resources/read", SNP_IN_BOTH, true, run_resources_read},
    {"completion/complete", SNP_IN_BOTH, false, run_complete},
    {"logging/setLevel", SNP_IN_LEGACY, false, run_nothing},
    {"resources/subscribe", SNP_IN_LEGACY, false, run_nothing},
    {"resources/unsubscribe", SNP_IN_LEGACY, false, run_nothing},
};

static void on_listening(void *ctx, const char *url)
{
    (void)ctx;
    (void)puts(url);
    (void)fflush(stdout);
}

static int serve(struct snp_mcp_hub *hub, char **args, struct snp_err *err)
{
    const struct snp_mcp_stdio_options stdio = {.in_fd = STDIN_FILENO, .out_fd = STDOUT_FILENO};
    struct snp_httpd_options http = {.listening = on_listening};

    if (args[0] == NULL) {
        return snp_mcp_stdio_run(hub, &stdio, err);
    }
    if (args[1] != NULL && snp_parse_u64(args[1], &http.patience_ms) < 0) {
        return SNP_E_INVALID;
    }
    return snp_httpd_address_parse(args[0], &http.address, err) < 0
               ? SNP_E_INVALID
               : snp_httpd_run(hub, &http, err);
}

int main(int argc, char **argv)
{
    snp_autojson json_t *info =
        json_pack("{s:s, s:s}", "name", "conformance-fixture", "version", SNP_VERSION);
    snp_autojson json_t *capabilities =
        json_of("{\"tools\":{},\"resources\":{},\"prompts\":{},\"completions\":{},"
                "\"logging\":{}}");
    const struct snp_mcp_service service = {.info = info,
                                            .brief = info,
                                            .capabilities = capabilities,
                                            .methods = methods,
                                            .n_methods = SNP_ARRAY_LEN(methods)};
    uv_loop_t loop;
    struct snp_mcp_hub hub;
    struct snp_err err;
    int r;

    if (uv_loop_init(&loop) < 0) {
        return 1;
    }
    snp_mcp_hub_init(&hub, &loop, &service);
    r = serve(&hub, argv + (argc > 0 ? 1 : 0), &err);
    snp_mcp_hub_done(&hub);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    (void)uv_loop_close(&loop);
    return r < 0 ? 1 : 0;
}
