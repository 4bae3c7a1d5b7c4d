/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts: few, each a procedure that uses the sandbox well. Completion knows names of sessions. */
#include "mcp/server/prompt.h"

#include <string.h>

#include "base/str.h"
#include "base/wire/session.h"
#include "mcp/server/session.h"
#include "mcp/server/task.h"

enum {
    ARGS_MAX = 2,
    TEXT_MAX = 64 << 10,
    VALUES_MAX = 100, /* limit of the protocol */
};

struct prompt {
    const char *name;
    const char *title;
    const char *description;
    struct {
        const char *name;
        const char *description;
        bool is_required;
    } args[ARGS_MAX];
    const char *text; /* "%" stands for the arguments, in order */
};

static const struct prompt prompts[] = {
    {"repair",
     "Repair failing code",
     "Find out why code or tests fail, and repair them in a sandbox",
     {{"command", "what fails, as a shell command", true},
      {"session_id", "session to work in", false}},
     "The command below fails. Run it with SniparaSandbox.execute_shell (session_id \"%\") and "
     "read the first error. Find its cause in the code; do not guess. Change as little as "
     "possible with SniparaSandbox.write_file, run it again, and repeat until it passes or three "
     "different repairs have failed. Then say what was wrong and show the change.\n\nCommand:\n%"},
    {"analyze_data",
     "Analyse data",
     "Answer a question about a data file in a sandbox",
     {{"file", "path of the file, below /workspace", true},
      {"question", "the question to answer", true}},
     "Answer the question about the data file with SniparaSandbox.execute_python in one "
     "session. First look "
     "at the file's size, columns, types and missing values; then compute the answer and check "
     "it another way. Give the answer with its figures, and say what the data cannot "
     "show.\n\nFile: %\nQuestion: %"},
};

static const struct prompt *prompt_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < SNP_ARRAY_LEN(prompts); i++) {
        if (strcmp(prompts[i].name, name) == 0) {
            return &prompts[i];
        }
    }
    return NULL;
}

static json_t *prompt_json(const struct prompt *prompt)
{
    json_t *args = json_array();

    for (size_t i = 0; i < ARGS_MAX && prompt->args[i].name != NULL; i++) {
        (void)json_array_append_new(args, json_pack("{s:s, s:s, s:b}", "name", prompt->args[i].name,
                                                    "description", prompt->args[i].description,
                                                    "required", prompt->args[i].is_required));
    }
    return json_pack("{s:s, s:s, s:s, s:o}", "name", prompt->name, "title", prompt->title,
                     "description", prompt->description, "arguments", args);
}

void snp_prompts_run_list(struct snp_mcp_call *call)
{
    json_t *list;

    if (snp_mcp_refuse_cursor(call)) {
        return;
    }
    list = json_array();
    for (size_t i = 0; i < SNP_ARRAY_LEN(prompts); i++) {
        (void)json_array_append_new(list, prompt_json(&prompts[i]));
    }
    snp_mcp_answer(call, json_pack("{s:o}", "prompts", list));
}

/* The text with arguments inserted. `repair` puts the session before the command. */
static int prompt_text(const struct prompt *prompt, const json_t *args, struct snp_buf *out)
{
    bool is_swapped = strcmp(prompt->name, "repair") == 0;
    size_t which = 0;
    int r = 0;

    for (const char *at = prompt->text; *at != '\0' && r == 0;) {
        size_t n = strcspn(at, "%");

        r = snp_buf_add(out, at, n);
        at += n;
        if (*at == '%') {
            size_t i = is_swapped ? ARGS_MAX - 1 - which : which;

            which++;
            at++;
            r = r < 0 ? r : snp_buf_adds(out, snp_json_str(args, prompt->args[i].name, "default"));
        }
    }
    return r;
}

void snp_prompts_run_get(struct snp_mcp_call *call)
{
    const char *name = snp_json_str(call->params, "name", NULL);
    const json_t *args = json_object_get(call->params, "arguments");
    const struct prompt *prompt = prompt_find(name);
    snp_autobuf struct snp_buf text = SNP_BUF(TEXT_MAX);

    if (prompt == NULL) {
        snp_mcp_refuse(call, SNP_JSONRPC_PARAMS, NULL, "no prompt named '%.100s'",
                       name == NULL ? "" : name);
        return;
    }
    for (size_t i = 0; i < ARGS_MAX && prompt->args[i].name != NULL; i++) {
        if (prompt->args[i].is_required &&
            snp_json_str(args, prompt->args[i].name, "")[0] == '\0') {
            snp_mcp_refuse(call, SNP_JSONRPC_PARAMS, NULL, "prompt %s needs the argument '%s'",
                           prompt->name, prompt->args[i].name);
            return;
        }
    }
    if (prompt_text(prompt, args, &text) < 0) {
        snp_mcp_refuse(call, SNP_JSONRPC_PARAMS, NULL, "the arguments can have at most %d KiB",
                       TEXT_MAX >> 10);
        return;
    }
    snp_mcp_answer(call,
                   json_pack("{s:s, s:[{s:s, s:{s:s, s:o}}]}", "description", prompt->description,
                             "messages", "role", "user", "content", "type", "text", "text",
                             snp_json_bytes(snp_buf_bytes(&text), text.len)));
}

/* Completion ---------------------------------------------------------------------------------- */

/* values: consumed. */
static json_t *completion(json_t *values, size_t total)
{
    return json_pack("{s:{s:o, s:I, s:b}}", "completion", "values", values, "total",
                     (json_int_t)total, "hasMore", total > VALUES_MAX);
}

static void on_sessions(struct snp_task *task, json_t *head)
{
    const char *begun = snp_task_arg(task, "value", "");
    json_t *values = json_array();
    size_t total = 0;
    size_t i;
    json_t *session;

    json_array_foreach(json_object_get(head, "sessions"), i, session)
    {
        const char *name = snp_json_str(session, "name", "");
        const char *id = snp_mcp_session_id(task->service, name);

        if (name[0] != '\0' && snp_has_prefix(id, begun) && total++ < VALUES_MAX) {
            (void)json_array_append_new(values, snp_json_bytes(id, strlen(id)));
        }
    }
    snp_task_end(task, completion(values, total));
}

static void completion_begin(struct snp_task *task)
{
    snp_task_ask(task, snp_record_write(&snp_sessions_list_request_form, NULL), on_sessions, NULL);
}

/* No completions. */
static void completion_fail(struct snp_task *task, const struct snp_err *err)
{
    (void)err;
    snp_task_end(task, completion(json_array(), 0));
}

static const struct snp_arg value_args[] = {
    {.name = "value", .is_required = true},
    {.name = NULL},
};
/* Not a tool, but run like one. */
static const struct snp_tool completion_work = {.name = "completion/complete",
                                                .args = value_args,
                                                .run = completion_begin,
                                                .fail = completion_fail};

/* {"type": "ref/prompt", "name": ...} or {"type": "ref/resource", "uri": ...} */
static bool is_reference(const json_t *ref)
{
    const char *type = snp_json_str(ref, "type", "");

    if (strcmp(type, "ref/prompt") == 0) {
        return prompt_find(snp_json_str(ref, "name", NULL)) != NULL;
    }
    return strcmp(type, "ref/resource") == 0 &&
           snp_has_prefix(snp_json_str(ref, "uri", ""), "snipara://");
}

void snp_completion_run(struct snp_mcp_call *call)
{
    const json_t *argument = json_object_get(call->params, "argument");
    const char *name = snp_json_str(argument, "name", NULL);
    const char *value = snp_json_str(argument, "value", NULL);
    snp_autojson json_t *args = NULL;

    if (name == NULL || value == NULL || !is_reference(json_object_get(call->params, "ref"))) {
        snp_mcp_refuse(call, SNP_JSONRPC_PARAMS, NULL,
                       "completion/complete needs 'ref', a prompt or resource template of this "
                       "server, and 'argument' {name, value}");
        return;
    }
    if (strcmp(name, "session_id") != 0) {
        snp_mcp_answer(call, completion(json_array(), 0));
        return;
    }
    args = json_pack("{s:s}", "value", value);
    if (args == NULL) {
        snp_mcp_refuse(call, SNP_JSONRPC_INTERNAL, NULL, "out of memory");
        return;
    }
    snp_task_start(call->hub->service->ctx, call, &completion_work, args);
}
