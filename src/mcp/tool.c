/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of tools, and what follows from it: their list, the check of arguments, the call.
 * Every word here is read by a model at the start of each conversation, so there are few.
 */
#include "mcp/tool.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "mcp/caps.h"
#include "mcp/session.h"
#include "mcp/task.h"
#include "mcp/text.h"

enum {
    SAY_MAX = 640, /* bytes of a message */
};

/* Rows of arguments --------------------------------------------------------------------------- */

#define ARG_SESSION                                                                           \
    {                                                                                         \
        "session_id", SNP_ARG_STRING, false, "state kept under this name", 0, 0, {NULL}, NULL \
    }
#define ARG_TIMEOUT                                                                      \
    {                                                                                    \
        "timeout", SNP_ARG_INTEGER, false, "seconds", 1, SNP_MCP_TIMEOUT_S, {NULL}, NULL \
    }
#define ARG_PROFILE                                                                           \
    {                                                                                         \
        "profile", SNP_ARG_CHOICE, false,                                                     \
            "5 s/128 MB, 30 s/512 MB, 120 s/2 GB, 300 s/4 GB; memory holds for new sessions", \
            0, 0, {"quick", "default", "analysis", "extended"}, NULL                          \
    }
#define ARG_BACKGROUND                                                                      \
    {                                                                                       \
        "background", SNP_ARG_BOOLEAN, false, "return a job_id at once", 0, 0, {NULL}, NULL \
    }
#define ARG_RECOVER                                                      \
    {                                                                    \
        "recover", SNP_ARG_CHOICE, false,                                \
            "if the session lost cells: run them again, or go on", 0, 0, \
            {"replay", "checkpoint"}, NULL                               \
    }
#define ARG_REQUIRED(name, help)                             \
    {                                                        \
        name, SNP_ARG_STRING, true, help, 0, 0, {NULL}, NULL \
    }
#define ARG_END                                               \
    {                                                         \
        NULL, SNP_ARG_STRING, false, NULL, 0, 0, {NULL}, NULL \
    }

static const struct snp_arg python_args[] = {
    ARG_REQUIRED("code", NULL),
    ARG_TIMEOUT,
    ARG_PROFILE,
    ARG_SESSION,
    ARG_BACKGROUND,
    ARG_RECOVER,
    ARG_END,
};
static const struct snp_arg shell_args[] = {
    ARG_REQUIRED("command", NULL),
    ARG_TIMEOUT,
    ARG_PROFILE,
    ARG_SESSION,
    ARG_BACKGROUND,
    ARG_RECOVER,
    ARG_END,
};
static const struct snp_arg session_args[] = {ARG_SESSION, ARG_END};
static const struct snp_arg set_args[] = {
    ARG_REQUIRED("key", NULL),
    ARG_REQUIRED("value", "JSON, else taken as text"),
    ARG_SESSION,
    ARG_END,
};
static const struct snp_arg destroy_args[] = {ARG_REQUIRED("session_id", NULL), ARG_END};
static const struct snp_arg no_args[] = {ARG_END};
static const struct snp_arg read_args[] = {
    ARG_REQUIRED("path", NULL),
    {"offset", SNP_ARG_INTEGER, false, "first byte", 0, 1e15, {NULL}, NULL},
    {"limit",  SNP_ARG_INTEGER, false, "bytes",      1, 9000, {NULL}, NULL},
    ARG_SESSION,
    ARG_END,
};
static const struct snp_arg write_args[] = {
    ARG_REQUIRED("path", NULL),
    ARG_REQUIRED("content", NULL),
    {"encoding", SNP_ARG_CHOICE, false, NULL, 0, 0, {"utf-8", "base64"}, NULL},
    ARG_SESSION,
    ARG_END,
};
static const struct snp_arg list_args[] = {
    {"path", SNP_ARG_STRING, false, NULL, 0, 0, {NULL}, NULL},
    ARG_SESSION,
    ARG_END,
};
static const struct snp_arg path_args[] = {ARG_REQUIRED("path", NULL), ARG_SESSION, ARG_END};
static const struct snp_arg snapshot_args[] = {
    {"name", SNP_ARG_STRING, false, NULL, 0, 0, {NULL}, NULL},
    ARG_SESSION,
    ARG_END,
};
static const struct snp_arg rollback_args[] = {
    ARG_REQUIRED("snapshot", "its name"),
    ARG_SESSION,
    ARG_END,
};
static const struct snp_arg fork_args[] = {
    {"snapshot", SNP_ARG_STRING,  false, "from here; default: as it is", 0, 0,  {NULL}, NULL},
    {"count",    SNP_ARG_INTEGER, false, NULL,                           1, 16, {NULL}, NULL},
    {"name",     SNP_ARG_STRING,  false, "begin of the new session_ids", 0, 0,  {NULL}, NULL},
    ARG_SESSION,
    ARG_END,
};
static const struct snp_arg history_args[] = {
    {"before", SNP_ARG_INTEGER, false, "cell number", 1, 1e15, {NULL}, NULL},
    {"limit",  SNP_ARG_INTEGER, false, NULL,          1, 100,  {NULL}, NULL},
    ARG_SESSION,
    ARG_END,
};
static const struct snp_arg job_args[] = {ARG_REQUIRED("job_id", NULL), ARG_END};
static const struct snp_arg agent_args[] = {
    ARG_REQUIRED("task", NULL),
    {"max_iterations", SNP_ARG_INTEGER, false, NULL, 0, 0, {NULL}, "10"   },
    {"token_budget",   SNP_ARG_INTEGER, false, NULL, 0, 0, {NULL}, "50000"},
    {"cost_limit",     SNP_ARG_NUMBER,  false, NULL, 0, 0, {NULL}, "2.0"  },
    ARG_END,
};
static const struct snp_arg run_args[] = {ARG_REQUIRED("run_id", NULL), ARG_END};

/* The table ----------------------------------------------------------------------------------- */

enum {
    CELL = SNP_TOOL_IN_SESSION | SNP_TOOL_HAS_CELL,
    LOOK = SNP_TOOL_IN_SESSION | SNP_TOOL_READS,
};

/* In the order of tools/list. */
static const struct snp_tool tools[] = {
    {"execute_python",       "core",    "Run Python",
     "Run Python in a sandbox without network. Variables, imports and files in /workspace stay "
     "in the session. Shows what is printed, the last expression's value, and `result` if set. "
     "The project is at /workspace; changes stay in the sandbox.",                                                python_args,  CELL,                                                          snp_tool_execute_python},
    {"execute_shell",        "core",    "Run a shell command",
     "Run `command` with /bin/sh in /workspace of the session.",                                                  shell_args,   CELL,
     snp_tool_execute_shell                                                                                                                                                                                           },
    {"get_repl_context",     "context", "Show variables",      "Show the session's variables.",
     session_args,                                                                                                              LOOK,                                                          snp_tool_get_context   },
    {"set_repl_context",     "context", "Set a variable",
     "Set a variable of the session; code reads it as KEY or context['KEY'].",                                    set_args,
     SNP_TOOL_IN_SESSION | SNP_TOOL_REPEATABLE,                                                                                                                                                snp_tool_set_context   },
    {"clear_repl_context",   "context", "Clear variables",
     "Remove all variables of the session; files stay.",                                                          session_args,
     SNP_TOOL_IN_SESSION | SNP_TOOL_DESTROYS | SNP_TOOL_REPEATABLE,                                                                                                                            snp_tool_clear_context },
    {"list_sessions",        "core",    "List sessions",       "List open sessions.",                             no_args,      SNP_TOOL_READS,
     snp_tool_list_sessions                                                                                                                                                                                           },
    {"destroy_session",      "core",    "End a session",       "End a session with its variables and files.",
     destroy_args,                                                                                                              SNP_TOOL_IN_SESSION | SNP_TOOL_DESTROYS | SNP_TOOL_REPEATABLE,
     snp_tool_destroy_session                                                                                                                                                                                         },
    {"read_file",            "files",   "Read a file",
     "Read text of a file in the session, or the path that a result names for its full output.",                  read_args,    LOOK,                                                          snp_tool_read_file     },
    {"write_file",           "files",   "Write a file",        "Write a whole file in the session.",              write_args,
     SNP_TOOL_IN_SESSION | SNP_TOOL_DESTROYS | SNP_TOOL_REPEATABLE,                                                                                                                            snp_tool_write_file    },
    {"list_files",           "files",   "List files",          "List a folder of the session.",                   list_args,    LOOK,
     snp_tool_list_files                                                                                                                                                                                              },
    {"view_image",           "files",   "View an image",
     "Show an image: a file of the session, or a display's path from a result.",                                  path_args,
     LOOK,                                                                                                                                                                                     snp_tool_view_image    },
    {"snapshot_session",     "state",   "Keep the state",      "Keep variables and files as they are now.",
     snapshot_args,                                                                                                             SNP_TOOL_IN_SESSION,                                           snp_tool_snapshot      },
    {"rollback_session",     "state",   "Go back",             "Take the session back to a snapshot.",
     rollback_args,                                                                                                             SNP_TOOL_IN_SESSION | SNP_TOOL_DESTROYS,                       snp_tool_rollback      },
    {"fork_session",         "state",   "Fork",                "New sessions that begin as this one is, or was.",
     fork_args,                                                                                                                 SNP_TOOL_IN_SESSION,                                           snp_tool_fork          },
    {"session_history",      "state",   "History",             "Cells that ran in the session.",                  history_args,
     LOOK,                                                                                                                                                                                     snp_tool_history       },
    {"job_poll",             "jobs",    "Ask about a job",     "State or result of a background job.",            job_args,
     SNP_TOOL_READS | SNP_TOOL_HAS_CELL,                                                                                                                                                       snp_tool_job_poll      },
    {"job_cancel",           "jobs",    "Cancel a job",        "Stop a background job.",                          job_args,
     SNP_TOOL_DESTROYS | SNP_TOOL_REPEATABLE,                                                                                                                                                  snp_tool_job_cancel    },
    {"snipara_agent_run",    "agent",   "Start an agent",      "Start an agent on a task.",                       agent_args,   0,
     snp_tool_agent_run                                                                                                                                                                                               },
    {"snipara_agent_status", "agent",   "Ask about an agent",  "State of an agent run.",                          run_args,
     SNP_TOOL_READS,                                                                                                                                                                           snp_tool_agent_status  },
    {"snipara_agent_cancel", "agent",   "Cancel an agent",     "Stop an agent run.",                              run_args,
     SNP_TOOL_DESTROYS | SNP_TOOL_REPEATABLE,                                                                                                                                                  snp_tool_agent_cancel  },
    {"rlm_agent_run",        "aliases", "Start an agent",      "Start an agent on a task.",                       agent_args,   0,
     snp_tool_agent_run                                                                                                                                                                                               },
    {"rlm_agent_status",     "aliases", "Ask about an agent",  "State of an agent run.",                          run_args,
     SNP_TOOL_READS,                                                                                                                                                                           snp_tool_agent_status  },
    {"rlm_agent_cancel",     "aliases", "Cancel an agent",     "Stop an agent run.",                              run_args,
     SNP_TOOL_DESTROYS | SNP_TOOL_REPEATABLE,                                                                                                                                                  snp_tool_agent_cancel  },
};

/* Sets that "all" leaves out: they can be called all the same. */
static const char *const unlisted[] = {"agent", "aliases"};

/* What a cell's structuredContent may hold; loose, because a client refuses what does not fit. */
static const char cell_schema[] =
    "{\"type\":\"object\",\"properties\":{\"status\":{\"type\":\"string\"},"
    "\"stdout\":{\"type\":\"string\"},\"stderr\":{\"type\":\"string\"},"
    "\"value\":{\"type\":\"string\"},\"exit_code\":{\"type\":\"integer\"},"
    "\"error\":{\"type\":\"object\"}},\"required\":[\"status\"]}";

const struct snp_tool *snp_tool_find(const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(tools); i++) {
        if (strcmp(tools[i].name, name) == 0) {
            return &tools[i];
        }
    }
    return NULL;
}

/* The list -------------------------------------------------------------------------------------- */

static json_t *arg_schema(const struct snp_arg *arg)
{
    static const char *const types[] = {"string", "integer", "number", "boolean", "string"};
    json_t *schema = json_pack("{s:s}", "type", types[arg->type]);

    if (arg->help != NULL) {
        (void)json_object_set_new(schema, "description", json_string(arg->help));
    }
    if (arg->min < arg->max) {
        (void)json_object_set_new(schema, "minimum", json_integer((json_int_t)arg->min));
        if (arg->max < 1e12) {
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

/* Only what differs from the defaults of the specification is said. */
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

static json_t *tool_json(const struct snp_tool *tool)
{
    return json_pack("{s:s, s:s, s:o, s:o*, s:o}", "name", tool->name, "description",
                     tool->description, "inputSchema", input_schema(tool), "outputSchema",
                     (tool->flags & SNP_TOOL_HAS_CELL) != 0
                         ? json_loads(cell_schema, JSON_REJECT_DUPLICATES, NULL)
                         : NULL,
                     "annotations", annotations(tool));
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
    return snp_fail(err, SNP_E_INVALID,
                    "there are no tools '%.*s': give all, core, context, files, state, jobs, "
                    "agent, aliases, or names of tools, separated by commas",
                    (int)(n < 64 ? n : 64), word);
}

int snp_tools_list(const char *wanted, json_t **ret, struct snp_err *err)
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
        if (is_wanted && json_array_append_new(list, tool_json(&tools[i])) < 0) {
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

    if (json_object_get(call->params, "cursor") != NULL) {
        snp_mcp_refuse(call, SNP_JSONRPC_PARAMS, NULL, "Invalid cursor: the list has one page");
        return;
    }
    snp_mcp_answer(call, json_copy(service->tools));
}

/* Arguments ------------------------------------------------------------------------------------- */

static const struct snp_arg *arg_find(const struct snp_tool *tool, const char *name)
{
    for (const struct snp_arg *arg = tool->args; arg->name != NULL; arg++) {
        if (strcmp(arg->name, name) == 0) {
            return arg;
        }
    }
    return NULL;
}

static int choice_check(const struct snp_arg *arg, const char *text, struct snp_err *err)
{
    char list[128] = "";
    size_t used = 0;

    for (size_t i = 0; i < SNP_ARG_CHOICES && arg->choices[i] != NULL; i++) {
        if (snp_streq(text, arg->choices[i])) {
            return 0;
        }
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i == 0 ? "" : ", ",
                                 arg->choices[i]);
    }
    return snp_fail(err, SNP_E_INVALID, "'%s' must be one of %s, not '%.40s'", arg->name, list,
                    text);
}

static int number_check(const struct snp_arg *arg, const json_t *value, struct snp_err *err)
{
    double number = json_number_value(value);
    bool is_whole = json_is_integer(value) || number == (double)(json_int_t)number;

    if (!json_is_number(value) || (arg->type == SNP_ARG_INTEGER && !is_whole)) {
        return snp_fail(err, SNP_E_INVALID, "'%s' must be %s", arg->name,
                        arg->type == SNP_ARG_INTEGER ? "an integer" : "a number");
    }
    if (arg->min < arg->max && number < arg->min) {
        return snp_fail(err, SNP_E_INVALID, "'%s' must be at least %g, not %g", arg->name,
                        arg->min, number);
    }
    return 0;
}

static int arg_check(const struct snp_arg *arg, const json_t *value, struct snp_err *err)
{
    switch (arg->type) {
    case SNP_ARG_STRING:
        return json_is_string(value)
                   ? 0
                   : snp_fail(err, SNP_E_INVALID, "'%s' must be a string", arg->name);
    case SNP_ARG_CHOICE:
        return json_is_string(value)
                   ? choice_check(arg, json_string_value(value), err)
                   : snp_fail(err, SNP_E_INVALID, "'%s' must be a string", arg->name);
    case SNP_ARG_BOOLEAN:
        return json_is_boolean(value)
                   ? 0
                   : snp_fail(err, SNP_E_INVALID, "'%s' must be true or false", arg->name);
    case SNP_ARG_INTEGER:
    case SNP_ARG_NUMBER:
        return number_check(arg, value, err);
    }
    return 0;
}

int snp_tool_args_check(const struct snp_tool *tool, json_t *args, struct snp_err *err)
{
    for (const struct snp_arg *arg = tool->args; arg->name != NULL; arg++) {
        const json_t *value = json_object_get(args, arg->name);
        int r = 0;

        if (value == NULL || json_is_null(value)) {
            /* What is missing each tool says in its own words (they are old). */
            continue;
        }
        r = arg_check(arg, value, err);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

int snp_tool_args_unknown(const struct snp_tool *tool, json_t *args, struct snp_buf *out)
{
    const char *names[16];
    size_t n_names = 0;
    const char *key;
    json_t *value;
    int r = 0;

    for (const struct snp_arg *arg = tool->args; arg->name != NULL && n_names < 16; arg++) {
        names[n_names++] = arg->name;
    }
    json_object_foreach(args, key, value)
    {
        const char *meant;

        if (arg_find(tool, key) != NULL || r < 0 || out->len > 512) {
            continue;
        }
        meant = snp_suggest(key, names, n_names);
        r = snp_buf_adds(out, out->len == 0 ? "[note] argument " : "\n[note] argument ");
        r = r < 0 ? r : snp_mcp_text_line(out, key, strlen(key), 40);
        r = r < 0 ? r
                  : snp_buf_addf(out, " is not known and was passed over%s%s",
                                 meant == NULL ? "" : "; did you mean ",
                                 meant == NULL ? "" : meant);
    }
    return r;
}

/* Calls ----------------------------------------------------------------------------------------- */

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
