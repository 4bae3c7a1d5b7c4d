/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of tools, their list, the check of arguments, the call. Models read every word here at
 * the start of each conversation, so the texts are short.
 */
#include "mcp/server/catalog.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/text/text.h"
#include "mcp/caps.h"
#include "mcp/server/sandboxes.h"
#include "mcp/server/session.h"
#include "mcp/server/task.h"

enum {
    SAY_MAX = 640, /* bytes of a message */
    DESCRIPTION_MAX = 4096,
    FACT_NAME = 16,
};

/* Rows of arguments --------------------------------------------------------------------------- */

/* clang-format off */
#define ARG_SESSION    {.name = "session_id", .max = SNP_MCP_SESSION_ID_MAX}
/* Only for tools that run code: models pay for each word of each tool. */
#define ARG_SESSION_TOLD \
    {.name = "session_id", .help = "state kept under this name; none: default", \
     .max = SNP_MCP_SESSION_ID_MAX}
#define ARG_TIMEOUT    ARG_WHOLE("timeout", "seconds", 1, SNP_MCP_TIMEOUT_S)
#define ARG_PROFILE \
    {.name = "profile", .type = SNP_ARG_CHOICE, \
     .help = "5 s/128 MB, 30 s/512 MB, 120 s/2 GB, 300 s/4 GB; memory: new sessions only", \
     .choices = {"quick", "default", "analysis", "extended"}}
#define ARG_BACKGROUND \
    {.name = "background", .type = SNP_ARG_BOOLEAN, .help = "return a job_id at once"}
#define ARG_RECOVER \
    {.name = "recover", .type = SNP_ARG_CHOICE, \
     .help = "if the session lost cells: run them again, or continue", \
     .choices = {"replay", "skip", "checkpoint"}}
#define ARG_REQUIRED(name_, help_) {.name = (name_), .is_required = true, .help = (help_)}
#define ARG_OPTIONAL(name_, help_) {.name = (name_), .help = (help_)}
#define ARG_WHOLE(name_, help_, min_, max_) \
    {.name = (name_), .type = SNP_ARG_INTEGER, .help = (help_), .min = (min_), .max = (max_)}
#define ARG_END        {.name = NULL}
#define ARGS_CELL ARG_TIMEOUT, ARG_PROFILE, ARG_SESSION_TOLD, ARG_BACKGROUND, ARG_RECOVER, ARG_END

static const struct snp_arg python_args[] = {ARG_REQUIRED("code", NULL), ARGS_CELL};
static const struct snp_arg shell_args[] = {ARG_REQUIRED("command", NULL), ARGS_CELL};
static const struct snp_arg session_args[] = {ARG_SESSION, ARG_END};
static const struct snp_arg set_args[] = {
    {.name = "key", .is_required = true, .max = SNP_MCP_SESSION_ID_MAX},
    {.name = "value", .is_required = true, .is_json = true, .help = "JSON, or else plain text"},
    ARG_SESSION, ARG_END,
};
static const struct snp_arg destroy_args[] = {
    {.name = "session_id", .is_required = true, .max = SNP_MCP_SESSION_ID_MAX}, ARG_END,
};
static const struct snp_arg no_args[] = {ARG_END};
static const struct snp_arg read_args[] = {
    ARG_REQUIRED("path", NULL), ARG_WHOLE("offset", "first byte", 0, SNP_ARG_WHOLE_MAX),
    ARG_WHOLE("limit", "bytes", 1, 9000), ARG_SESSION, ARG_END,
};
static const struct snp_arg write_args[] = {
    ARG_REQUIRED("path", NULL), ARG_REQUIRED("content", NULL),
    {.name = "encoding", .type = SNP_ARG_CHOICE, .choices = {"utf-8", "base64"}},
    ARG_SESSION, ARG_END,
};
static const struct snp_arg list_args[] = {ARG_OPTIONAL("path", NULL), ARG_SESSION, ARG_END};
static const struct snp_arg path_args[] = {ARG_REQUIRED("path", NULL), ARG_SESSION, ARG_END};
static const struct snp_arg snapshot_args[] = {ARG_OPTIONAL("name", NULL), ARG_SESSION, ARG_END};
static const struct snp_arg rollback_args[] = {
    ARG_REQUIRED("snapshot", "its name"), ARG_SESSION, ARG_END,
};
static const struct snp_arg fork_args[] = {
    ARG_OPTIONAL("snapshot", "start from it; default: current state"),
    ARG_WHOLE("count", NULL, 1, SNP_MCP_FORKS_MAX),
    ARG_OPTIONAL("name", "prefix of new session_ids"), ARG_SESSION, ARG_END,
};
static const struct snp_arg history_args[] = {
    ARG_WHOLE("before", "cell number", 1, SNP_ARG_WHOLE_MAX), ARG_WHOLE("limit", NULL, 1, 100),
    ARG_SESSION, ARG_END,
};
static const struct snp_arg job_args[] = {ARG_REQUIRED("job_id", NULL), ARG_END};
static const struct snp_arg poll_args[] = {
    ARG_REQUIRED("job_id", NULL),
    ARG_WHOLE("wait", "seconds to wait for output or its end", 0, SNP_MCP_WAIT_S), ARG_END,
};
static const struct snp_arg agent_args[] = {
    ARG_REQUIRED("task", NULL),
    {.name = "max_iterations", .type = SNP_ARG_INTEGER, .fallback = "10", .help = "at most 50"},
    {.name = "token_budget", .type = SNP_ARG_INTEGER,
     .help = "at most 10000000; default: as configured"},
    {.name = "cost_limit", .type = SNP_ARG_NUMBER,
     .help = "USD, at most 10; -1: none; default: as configured"},
    ARG_END,
};
static const struct snp_arg run_args[] = {ARG_REQUIRED("run_id", NULL), ARG_END};
static const struct snp_arg status_args[] = {
    ARG_REQUIRED("run_id", NULL),
    ARG_WHOLE("wait", "seconds to wait for its end", 0, SNP_MCP_WAIT_S), ARG_END,
};

static const struct snp_arg query_args[] = {
    {.name = "query", .is_required = true, .max = 4000},
    ARG_WHOLE("max_tokens", NULL, 100, 5000),
    {.name = "search_mode", .type = SNP_ARG_CHOICE, .choices = {"hybrid", "keyword", "semantic"}},
    {.name = "file", .help = "the file you work on", .max = 4000}, ARG_END,
};
static const struct snp_arg search_args[] = {
    {.name = "pattern", .is_required = true, .max = 500}, ARG_WHOLE("max_results", NULL, 1, 200),
    ARG_END,
};
static const struct snp_arg lines_args[] = {
    {.name = "file", .is_required = true, .max = 4000},
    ARG_WHOLE("start_line", NULL, 1, SNP_ARG_WHOLE_MAX),
    ARG_WHOLE("end_line", NULL, 1, SNP_ARG_WHOLE_MAX), ARG_END,
};
static const struct snp_arg sections_args[] = {
    {.name = "filter", .max = 500}, ARG_WHOLE("limit", NULL, 1, 200),
    ARG_WHOLE("offset", NULL, 0, 1000000), ARG_END,
};
static const struct snp_arg shared_args[] = {
    ARG_WHOLE("max_tokens", NULL, 100, 5000),
    {.name = "include_content", .type = SNP_ARG_BOOLEAN, .help = "false: titles only"}, ARG_END,
};

/* The table ----------------------------------------------------------------------------------- */

enum {
    CELL = SNP_TOOL_IN_SESSION | SNP_TOOL_HAS_CELL,
    LOOK = SNP_TOOL_IN_SESSION | SNP_TOOL_READS | SNP_TOOL_BESIDE,
    END = SNP_TOOL_DESTROYS | SNP_TOOL_REPEATABLE,
};

#define AGENT_RUN \
    "Start an agent: another model that works on `task` in another sandbox, in the background. " \
    "It knows only what `task` says."
#define AGENT_STATUS "State of an agent run, and its answer."
#define AGENT_CANCEL "Stop an agent run."

/* In the order of tools/list. */
static const struct snp_tool tools[] = {
    {"execute_python", "core", "Run Python",
     "Run {python} in a sandbox without network, so pip cannot install. Installed: "
     "{packages}. Variables, imports and files in /workspace stay in the session. Shows what "
     "is printed, the last expression's value, and `result` if set.{figures} Stops after "
     "{limit}; `timeout` changes that. {project}",
     python_args, CELL | SNP_TOOL_FIRST, snp_tool_execute_python, NULL},
    {"execute_shell", "core", "Run a shell command",
     "Run `command` with bash (or sh) in /workspace of the session.",
     shell_args, CELL | SNP_TOOL_FIRST, snp_tool_execute_shell, NULL},
    {"get_repl_context", "context", "Show variables", "Show the session's variables.",
     session_args, SNP_TOOL_IN_SESSION | SNP_TOOL_READS, snp_tool_get_context, NULL},
    {"set_repl_context", "context", "Set a variable",
     "Set a variable of the session; code reads it as KEY or context['KEY'].",
     set_args, SNP_TOOL_IN_SESSION | SNP_TOOL_REPEATABLE, snp_tool_set_context, NULL},
    {"clear_repl_context", "context", "Clear variables",
     "Remove all variables of the session; files stay.",
     session_args, SNP_TOOL_IN_SESSION | END, snp_tool_clear_context, NULL},
    {"list_sessions", "core", "List sessions", "List open sessions.",
     no_args, SNP_TOOL_READS, snp_tool_list_sessions, NULL},
    {"destroy_session", "core", "End a session", "End a session with its variables and files.",
     destroy_args, SNP_TOOL_IN_SESSION | END, snp_tool_destroy_session, NULL},
    {"read_file", "files", "Read a file",
     "Read text of a file in the session, or the path that a result names for its full output.",
     read_args, LOOK, snp_tool_read_file, NULL},
    {"write_file", "files", "Write a file", "Write a whole file in the session.",
     write_args, SNP_TOOL_IN_SESSION | END, snp_tool_write_file, NULL},
    {"list_files", "files", "List files", "List a folder of the session.",
     list_args, LOOK, snp_tool_list_files, NULL},
    {"view_image", "files", "View an image",
     "Show an image: a file of the session, or a display's path from a result.",
     path_args, LOOK, snp_tool_view_image, NULL},
    {"snapshot_session", "state", "Take a snapshot", "Save variables and files as they are now.",
     snapshot_args, SNP_TOOL_IN_SESSION, snp_tool_snapshot, NULL},
    {"rollback_session", "state", "Roll back", "Roll the session back to a snapshot.",
     rollback_args, SNP_TOOL_IN_SESSION | SNP_TOOL_DESTROYS, snp_tool_rollback, NULL},
    {"fork_session", "state", "Fork", "Make sessions from this one or a snapshot.",
     fork_args, SNP_TOOL_IN_SESSION, snp_tool_fork, NULL},
    {"session_history", "state", "History", "Cells that ran in the session.",
     history_args, LOOK, snp_tool_history, NULL},
    {"job_poll", "jobs", "Ask about a job",
     "New output of a background job; its result once it has ended.",
     poll_args, SNP_TOOL_READS | SNP_TOOL_HAS_CELL, snp_tool_job_poll, NULL},
    {"job_cancel", "jobs", "Cancel a job", "Stop a background job.",
     job_args, END, snp_tool_job_cancel, NULL},
    {"snipara_context_query", "index", "Ask the project's index",
     "Find definitions in the project that answer a question: names, paths or words.",
     query_args, SNP_TOOL_READS, snp_tool_lookup, NULL},
    {"snipara_search", "index", "Search the project",
     "Find lines of the project by a regular expression.",
     search_args, SNP_TOOL_READS, snp_tool_lookup, NULL},
    {"snipara_read", "index", "Read lines of the project",
     "Read numbered lines of a file of the project, at most 200.",
     lines_args, SNP_TOOL_READS, snp_tool_lookup, NULL},
    {"snipara_sections", "index", "List definitions",
     "List the project's definitions and sections.",
     sections_args, SNP_TOOL_READS, snp_tool_lookup, NULL},
    {"snipara_shared_context", "index", "Show team standards",
     "Rules of the team for code in this project.",
     shared_args, SNP_TOOL_READS, snp_tool_lookup, NULL},
    {"snipara_agent_run", "agent", "Start an agent", AGENT_RUN,
     agent_args, 0, snp_tool_agent_run, NULL},
    {"snipara_agent_status", "agent", "Ask about an agent", AGENT_STATUS,
     status_args, SNP_TOOL_READS, snp_tool_agent_status, NULL},
    {"snipara_agent_cancel", "agent", "Cancel an agent", AGENT_CANCEL,
     run_args, END, snp_tool_agent_cancel, NULL},
    {"rlm_agent_run", "aliases", "Start an agent", AGENT_RUN,
     agent_args, 0, snp_tool_agent_run, NULL},
    {"rlm_agent_status", "aliases", "Ask about an agent", AGENT_STATUS,
     status_args, SNP_TOOL_READS, snp_tool_agent_status, NULL},
    {"rlm_agent_cancel", "aliases", "Cancel an agent", AGENT_CANCEL,
     run_args, END, snp_tool_agent_cancel, NULL},
};
/* clang-format on */

/* Sets that "all" leaves out; they can still be called. */
static const char *const unlisted[] = {"agent", "aliases"};

const struct snp_tool *snp_tool_find(const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(tools); i++) {
        if (strcmp(tools[i].name, name) == 0) {
            return &tools[i];
        }
    }
    return NULL;
}

/* The list ------------------------------------------------------------------------------------- */

static json_t *arg_schema(const struct snp_arg *arg)
{
    static const char *const types[] = {"string", "integer", "number", "boolean", "string"};
    json_t *schema = json_pack("{s:s}", "type", types[arg->type]);

    if (arg->help != NULL) {
        (void)json_object_set_new(schema, "description", json_string(arg->help));
    }
    if (arg->type != SNP_ARG_STRING && arg->min < arg->max) {
        (void)json_object_set_new(schema, "minimum", json_integer((json_int_t)arg->min));
        if (arg->max < SNP_ARG_WHOLE_MAX) {
            (void)json_object_set_new(schema, "maximum", json_integer((json_int_t)arg->max));
        }
    }
    if (arg->type == SNP_ARG_CHOICE) {
        json_t *choices = json_array();

        for (size_t i = 0; i < SNP_ARG_CHOICES && arg->choices[i] != NULL; i++) {
            (void)json_array_append_new(choices, json_string(arg->choices[i]));
        }
        (void)json_object_set_new(schema, "enum", choices);
    }
    if (arg->fallback != NULL) {
        (void)json_object_set_new(schema, "default",
                                  json_loads(arg->fallback, JSON_DECODE_ANY, NULL));
    }
    return schema;
}

static json_t *input_schema(const struct snp_tool *tool)
{
    json_t *properties = json_object();
    json_t *required = json_array();

    for (const struct snp_arg *arg = tool->args; arg->name != NULL; arg++) {
        (void)json_object_set_new(properties, arg->name, arg_schema(arg));
        if (arg->is_required) {
            (void)json_array_append_new(required, json_string(arg->name));
        }
    }
    if (json_array_size(required) == 0) {
        json_decref(required);
        required = NULL;
    }
    return json_pack("{s:s, s:o, s:o*}", "type", "object", "properties", properties, "required",
                     required);
}

/* Only differences from the defaults of the specification are listed. */
static json_t *annotations(const struct snp_tool *tool)
{
    json_t *hints = json_pack("{s:s, s:b}", "title", tool->title, "openWorldHint", 0);

    if ((tool->flags & SNP_TOOL_READS) != 0) {
        (void)json_object_set_new(hints, "readOnlyHint", json_true());
        return hints;
    }
    if ((tool->flags & SNP_TOOL_DESTROYS) == 0) {
        (void)json_object_set_new(hints, "destructiveHint", json_false());
    }
    if ((tool->flags & SNP_TOOL_REPEATABLE) != 0) {
        (void)json_object_set_new(hints, "idempotentHint", json_true());
    }
    return hints;
}

/* The description with names of facts replaced; new reference. */
static json_t *description(const struct snp_tool *tool, const json_t *facts)
{
    snp_autobuf struct snp_buf text = SNP_BUF(DESCRIPTION_MAX);
    const char *at = tool->description;
    int r = 0;

    while (*at != '\0' && r == 0) {
        size_t n = strcspn(at, "{");
        char name[FACT_NAME] = "";

        r = snp_buf_add(&text, at, n);
        at += n;
        if (*at == '{') {
            (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 1, "}"), at + 1);
            r = r < 0 ? r : snp_buf_adds(&text, snp_json_str(facts, name, ""));
            at += strlen(name) + 2;
        }
    }
    return r < 0 ? NULL : snp_text_json(&text);
}

static json_t *tool_json(const struct snp_tool *tool, const json_t *facts)
{
    json_t *first =
        (tool->flags & SNP_TOOL_FIRST) == 0 ? NULL : json_pack("{s:b}", "anthropic/alwaysLoad", 1);

    return json_pack("{s:s, s:o, s:o, s:o, s:o*}", "name", tool->name, "description",
                     description(tool, facts), "inputSchema", input_schema(tool), "annotations",
                     annotations(tool), "_meta", first);
}

static bool is_unlisted(const char *toolset)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(unlisted); i++) {
        if (strcmp(unlisted[i], toolset) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether one word of a list, n bytes, names the tool. */
static bool word_names(const char *word, size_t n, const struct snp_tool *tool)
{
    if (n == 3 && strncmp(word, "all", n) == 0) {
        return !is_unlisted(tool->toolset);
    }
    return (strlen(tool->name) == n && strncmp(word, tool->name, n) == 0) ||
           (strlen(tool->toolset) == n && strncmp(word, tool->toolset, n) == 0);
}

static int word_check(const char *word, size_t n, struct snp_err *err)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(tools); i++) {
        if (word_names(word, n, &tools[i])) {
            return 0;
        }
    }
    return snp_fail(
        err, SNP_E_INVALID,
        "no tools named '%.*s': use all, core, context, files, state, jobs, index, agent, "
        "aliases, or names of tools, separated by commas",
        (int)(n < 64 ? n : 64), word);
}

int snp_tools_list(const char *wanted, const json_t *facts, json_t **ret, struct snp_err *err)
{
    json_t *list = json_array();

    for (const char *word = wanted; *word != '\0'; word += *word == ',' ? 1 : 0) {
        size_t n = strcspn(word, ",");
        int r = word_check(word, n, err);

        if (r < 0) {
            json_decref(list);
            return r;
        }
        word += n;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(tools); i++) {
        bool is_wanted = false;

        for (const char *word = wanted; *word != '\0'; word += *word == ',' ? 1 : 0) {
            size_t n = strcspn(word, ",");

            is_wanted = is_wanted || word_names(word, n, &tools[i]);
            word += n;
        }
        if (is_wanted && json_array_append_new(list, tool_json(&tools[i], facts)) < 0) {
            json_decref(list);
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
    }
    *ret = json_pack("{s:o}", "tools", list);
    return *ret == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

void snp_tools_run_list(struct snp_mcp_call *call)
{
    const struct snp_mcp_sandboxes *service = call->hub->service->ctx;

    if (!snp_mcp_refuse_cursor(call)) {
        snp_mcp_answer(call, json_copy(service->tools));
    }
}

/* Calls ---------------------------------------------------------------------------------------- */

static void say_error(struct snp_mcp_call *call, const char *before, const char *text)
{
    char whole[SAY_MAX];

    (void)snprintf(whole, sizeof(whole), "%s%s", before, text);
    snp_mcp_answer(call, json_pack("{s:[{s:s, s:o}], s:b}", "content", "type", "text", "text",
                                   snp_json_bytes(whole, strlen(whole)), "isError", 1));
}

void snp_tools_run_call(struct snp_mcp_call *call)
{
    struct snp_mcp_sandboxes *service = call->hub->service->ctx;
    const char *name = snp_json_str(call->params, "name", NULL);
    json_t *args = json_object_get(call->params, "arguments");
    snp_autojson json_t *none = json_object();
    const struct snp_tool *tool;
    struct snp_err err;

    if (name == NULL || (args != NULL && !json_is_object(args) && !json_is_null(args))) {
        snp_mcp_refuse(call, SNP_JSONRPC_PARAMS, NULL,
                       "tools/call needs the string 'name' and, if any, the object "
                       "'arguments'");
        return;
    }
    args = json_is_object(args) ? args : none;
    tool = snp_tool_find(name);
    if (tool == NULL && call->era == SNP_ERA_MODERN) {
        snp_mcp_refuse(call, SNP_JSONRPC_PARAMS, NULL, "Unknown tool: %.100s", name);
        return;
    }
    if (tool == NULL) {
        say_error(call, "Unknown tool: ", name);
        return;
    }
    if (snp_tool_args_check(tool, args, &err) < 0) {
        say_error(call, "Input validation error: ", err.msg);
        return;
    }
    snp_task_start(service, call, tool, args);
}
