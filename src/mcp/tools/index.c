/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of the project's index, as tools and as a resource: `context call`. */
#include <stdlib.h>

#include "base/str.h"
#include "base/text/text.h"
#include "mcp/agent/lookup.h"
#include "mcp/server/progress.h"
#include "mcp/server/session.h"

enum {
    TEXT_SHOWN = 24000, /* characters */
};

/* Answers ----------------------------------------------------------------------------------- */

/* Data, on request (mcp/server/task.c); the text is its JSON. */
static void say_data(struct snp_task *task, const char *bytes, size_t n, bool ok)
{
    json_t *data = NULL;
    struct snp_err err;
    snp_autofree char *text = NULL;

    (void)ok;
    if (snp_json_parse(bytes, n, &data, &err) < 0) {
        snp_task_failf(task, SNP_E_PEER, "the index's answer cannot be read: %s", err.msg);
        return;
    }
    text = snp_json_text(data);
    snp_task_end(task, json_pack("{s:[{s:s, s:s}], s:o}", "content", "type", "text", "text",
                                 text == NULL ? "" : text, "structuredContent", data));
}

static void labelled(struct snp_say *out, const char *bytes, size_t n)
{
    snp_say(out, "[note] %s\n", SNP_TEXT_OF_PROJECT);
    snp_say_text(out, bytes, n, TEXT_SHOWN);
}

static void say_text(struct snp_task *task, const char *bytes, size_t n, bool ok)
{
    snp_autosay struct snp_say text = SNP_SAY((size_t)TEXT_SHOWN * 8);

    (void)ok;
    labelled(&text, bytes, n);
    snp_task_say(task, false, &text);
}

static void say_resource(struct snp_task *task, const char *bytes, size_t n, bool ok)
{
    snp_autosay struct snp_say text = SNP_SAY((size_t)TEXT_SHOWN * 8);

    (void)ok;
    labelled(&text, bytes, n);
    snp_task_end(task, json_pack("{s:[{s:s, s:s, s:s}], s:i, s:s}", "contents", "uri",
                                 snp_task_arg(task, "uri", ""), "mimeType", "text/plain", "text",
                                 snp_say_cstr(&text), "ttlMs", 0, "cacheScope", "private"));
}

/* Questions --------------------------------------------------------------------------------- */

/* The name of a missing required argument of the tool; NULL: none is missing. */
static const char *missing_of(const struct snp_task *task)
{
    for (const struct snp_arg *arg = task->tool->args; arg->name != NULL; arg++) {
        if (arg->is_required && snp_task_arg(task, arg->name, "")[0] == '\0') {
            return arg->name;
        }
    }
    return NULL;
}

/* The tool's arguments, as text: unknown ones are not passed on. */
static char *input_of(const struct snp_task *task)
{
    snp_autojson json_t *args = json_object();

    for (const struct snp_arg *arg = task->tool->args; arg->name != NULL; arg++) {
        json_t *value = json_object_get(task->args, arg->name);

        if (value != NULL && !json_is_null(value)) {
            (void)json_object_set(args, arg->name, value);
        }
    }
    return json_dumps(args, JSON_COMPACT);
}

/* tool: what `context call` is asked for. */
static void ask(struct snp_task *task,
                const char *tool,
                bool is_json,
                void (*answer)(struct snp_task *task, const char *text, size_t n, bool ok))
{
    const char *project = task->service->options.project;
    const char *missing = missing_of(task);
    snp_autofree char *input = input_of(task);

    if (missing != NULL) {
        snp_task_failf(task, SNP_E_INVALID, "'%s' is missing", missing);
    } else if (project == NULL || task->service->options.agent_argv == NULL) {
        snp_task_failf(task, SNP_E_UNSUPPORTED,
                       "this server has no project to look in: start it in the project's folder, "
                       "or with `mcp-serve --project DIR`");
    } else if (input == NULL) {
        snp_task_failf(task, SNP_E_NOMEM, "out of memory");
    } else {
        const char *const words[] = {
            "context", "call", "--dir", project, tool, is_json ? "--json" : NULL, NULL};
        const struct snp_lookup_spec spec = {
            .words = words,
            .cwd = project,
            .input = input, /* the rows' limits keep it smaller than a pipe's capacity */
            .late = "no answer from the index within 120 s: run `snipara-sandbox context index` "
                    "in the project once, then ask again",
            .answer = answer};

        snp_lookup_start(task, &spec);
    }
}

void snp_tool_lookup(struct snp_task *task)
{
    const json_t *meta = json_object_get(task->call->params, "_meta");
    bool is_json = snp_json_bool(meta, SNP_MCP_META_DATA, false);

    ask(task, task->tool->name, is_json, is_json ? say_data : say_text);
}

void snp_resource_standards(struct snp_task *task)
{
    ask(task, "shared_context", false, say_resource);
}
