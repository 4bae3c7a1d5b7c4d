/* SPDX-License-Identifier: Apache-2.0 */
/* The tools of a run. */
#include "run/tool/tool.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/provider.h"
#include "run/tool/embedded.h"
#include "schema/schema.h"

enum {
    CODE_MAX = 4 << 20,
    NAME_SHOWN = 80,
};

static const char sub_text[] =
    "Let a model solve a part of the task. It has the same tools and session but not this "
    "conversation, so include everything it needs. Its costs are part of this run's.";
static const char sub_parameters[] =
    "{\"query\": {\"type\": \"string\"}, \"max_tokens\": {\"type\": \"integer\", "
    "\"minimum\": 1, \"description\": \"of both directions\"}, \"system\": {\"type\": "
    "\"string\"}}";
static const char batch_text[] =
    "Ask a model several questions at once, separately and without tools. Its costs count in this "
    "run. Code in execute_code asks the same way with llm_query(prompt) and "
    "llm_query_batched(prompts), and so can have a long text read in parts while the text stays "
    "in its variable.";
static const char batch_parameters[] =
    "{\"queries\": {\"type\": \"array\", \"minItems\": 1, \"maxItems\": 100, \"items\": "
    "{\"type\": \"object\", \"properties\": {\"query\": {\"type\": \"string\"}, \"system\": "
    "{\"type\": \"string\"}}, \"required\": [\"query\"]}}, \"max_parallel\": {\"type\": "
    "\"integer\", \"default\": 3, \"minimum\": 1, \"maximum\": 8}, \"total_budget\": "
    "{\"type\": "
    "\"integer\", \"minimum\": 1, \"description\": \"tokens of both directions\"}}";

static const struct snp_run_tool tools[] = {
    {"execute_code", SNP_RUN_TOOL_CODE, "code",
     "Run Python in a sandbox. Variables and files stay for the next call. Print only what you "
     "need; the value of the last expression is returned too. No network. The project is at "
     "/workspace; what you write there stays in the sandbox.",
     "{\"code\": {\"type\": \"string\", \"description\": \"Python\"}}"},
    {"file_read", SNP_RUN_TOOL_FILE, "path", "Read lines of a text file of the project.",
     "{\"path\": {\"type\": \"string\"}, \"start_line\": {\"type\": \"integer\", \"default\": "
     "1}, \"end_line\": {\"type\": \"integer\"}, \"max_lines\": {\"type\": \"integer\", "
     "\"default\": 80, \"maximum\": 120}}"},
    {"file_search", SNP_RUN_TOOL_FILE, "pattern",
     "Search the project's files for a regular expression; prefer it to reading whole files.",
     "{\"pattern\": {\"type\": \"string\"}, \"path\": {\"type\": \"string\", \"default\": "
     "\".\"}, \"glob\": {\"type\": \"string\"}, \"max_results\": {\"type\": \"integer\", "
     "\"default\": 40, \"maximum\": 80}, \"context_lines\": {\"type\": \"integer\", "
     "\"default\": 0, \"maximum\": 3}, \"regex\": {\"type\": \"boolean\", \"default\": true}}"},
    {"list_files", SNP_RUN_TOOL_FILE, NULL, "List files of a folder of the project.",
     "{\"path\": {\"type\": \"string\", \"default\": \".\"}, \"pattern\": {\"type\": "
     "\"string\", \"default\": \"*\"}, \"recursive\": {\"type\": \"boolean\", \"default\": "
     "false}, \"max_results\": {\"type\": \"integer\", \"default\": 60, \"maximum\": 100}}"},
    {"apply_patch", SNP_RUN_TOOL_FILE, "patch",
     "Change files of the project in the sandbox by a unified diff, all of it or nothing. "
     "Paths "
     "are relative to the project.",
     "{\"patch\": {\"type\": \"string\"}}"},
    {"FINAL", SNP_RUN_TOOL_FINAL, "answer", "Give the final answer and end.",
     "{\"answer\": {\"type\": \"string\"}}"},
    {"FINAL_VAR", SNP_RUN_TOOL_FINAL_VAR, "variable_name",
     "Give the value of a variable of execute_code as the final answer, and end.",
     "{\"variable_name\": {\"type\": \"string\"}}"},
    {"snipara_sub_complete", SNP_RUN_TOOL_SUB, "query", sub_text, sub_parameters},
    {"snipara_batch_complete", SNP_RUN_TOOL_BATCH, "queries", batch_text, batch_parameters},
};

/* Former names that scripts and prompts may still use. */
static const struct {
    const char *alias;
    const char *name;
} aliases[] = {
    {"rlm_sub_complete", "snipara_sub_complete"},
    {"rlm_batch_complete", "snipara_batch_complete"},
};

const struct snp_run_tool *snp_run_tool_find(const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(aliases); i++) {
        name = strcmp(aliases[i].alias, name) == 0 ? aliases[i].name : name;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(tools); i++) {
        if (strcmp(tools[i].name, name) == 0) {
            return &tools[i];
        }
    }
    return NULL;
}

char *snp_run_tool_names(void)
{
    char *names = strdup("");

    for (size_t i = 0; i < SNP_ARRAY_LEN(tools) && names != NULL; i++) {
        char *longer = snp_format("%s%s%s", names, i == 0 ? "" : ", ", tools[i].name);

        free(names);
        names = longer;
    }
    return names;
}

static json_t *tool_json(const struct snp_run_tool *tool)
{
    json_t *properties = NULL;
    struct snp_err err;
    json_t *required = tool->argument == NULL ? json_array() : json_pack("[s]", tool->argument);
    int r = snp_json_parse(tool->parameters, strlen(tool->parameters), &properties, &err);

    SNP_ASSERT(r == 0 || r == SNP_E_NOMEM); /* the table is ours */
    return json_pack("{s:s, s:s, s:{s:s, s:o, s:o, s:b}}", "name", tool->name, "description",
                     tool->description, "parameters", "type", "object", "properties", properties,
                     "required", required, "additionalProperties", 0);
}

static bool is_sub(const struct snp_run_tool *tool)
{
    return tool->kind == SNP_RUN_TOOL_SUB || tool->kind == SNP_RUN_TOOL_BATCH;
}

json_t *snp_run_tools(bool has_subs)
{
    json_t *list = json_array();

    for (size_t i = 0; i < SNP_ARRAY_LEN(tools); i++) {
        if (is_sub(&tools[i]) && !has_subs) {
            continue;
        }
        if (json_array_append_new(list, tool_json(&tools[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* Cells ------------------------------------------------------------------------------------- */

/* Whether text is an ASCII identifier: only those are pasted into code. */
static bool is_name(const char *text)
{
    if (!isalpha((unsigned char)text[0]) && text[0] != '_') {
        return false;
    }
    for (const char *at = text; *at != '\0'; at++) {
        if (!isalnum((unsigned char)*at) && *at != '_') {
            return false;
        }
    }
    return true;
}

/* Leaves no variable in the session. */
static char *variable_code(const char *name)
{
    return snp_format("if '%s' not in globals():\n"
                      "    raise NameError(\"there is no variable '%s'; there are: \" + "
                      "', '.join(sorted(k for k in globals() if not k.startswith('_')))[:500])\n"
                      "__import__('sys').stdout.write(str(%s))\n",
                      name, name, name);
}

/* Check the arguments against the schema given to the model. */
static int schema_check(const struct snp_run_tool *tool,
                        const json_t *arguments,
                        struct snp_err *err)
{
    snp_autojson json_t *json = tool_json(tool);
    snp_autoschema struct snp_schema *schema = NULL;

    if (json == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (snp_schema_new(json_object_get(json, "parameters"), SNP_SCHEMA_STRICT, &schema, err) < 0) {
        SNP_ASSERT(err->code == SNP_E_NOMEM); /* the table is ours */
        return err->code;
    }
    return snp_schema_check(schema, arguments, err) == 0 ? 0 : SNP_E_INVALID;
}

static int argument_take(const struct snp_run_tool *tool,
                         const json_t *call,
                         const char **ret,
                         struct snp_err *err)
{
    const json_t *arguments = json_object_get(call, "arguments");
    const char *wrong = snp_model_call_error(call);
    const json_t *value =
        tool->argument == NULL ? NULL : json_object_get(arguments, tool->argument);

    if (wrong != NULL) {
        return snp_fail(err, SNP_E_INVALID, "%s", wrong);
    }
    *ret = json_string_value(value);
    if (tool->argument != NULL && *ret == NULL) {
        return snp_fail(err, SNP_E_INVALID, "%s needs the argument %s, a string", tool->name,
                        tool->argument);
    }
    if (*ret != NULL && strlen(*ret) != json_string_length(value)) {
        return snp_fail(err, SNP_E_INVALID, "%s must not contain a NUL character", tool->argument);
    }
    if (*ret != NULL && strlen(*ret) > CODE_MAX) {
        return snp_fail(err, SNP_E_INVALID, "%s can have at most %d MiB", tool->argument,
                        CODE_MAX >> 20);
    }
    return schema_check(tool, arguments, err);
}

int snp_run_tool_cell(const struct snp_run_tool *tool,
                      const json_t *call,
                      struct snp_box_cell *ret,
                      char **ret_code,
                      char **ret_input,
                      struct snp_err *err)
{
    const char *argument = NULL;
    int r = argument_take(tool, call, &argument, err);

    *ret = (struct snp_box_cell){0};
    if (r < 0) {
        return r;
    }
    if (tool->kind == SNP_RUN_TOOL_FILE) {
        *ret_input = snp_json_text(json_object_get(call, "arguments"));
        ret->input = *ret_input;
        ret->argv = json_pack("[s, s, s, s, s]", "python3", "-I", "-c", snp_tools_py, tool->name);
        return *ret_input == NULL || ret->argv == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                                                       : 0;
    }
    SNP_ASSERT(argument != NULL); /* all other tools have one */
    if (tool->kind == SNP_RUN_TOOL_FINAL_VAR && !is_name(argument)) {
        return snp_fail(err, SNP_E_INVALID, "'%.*s' is not the name of a variable", NAME_SHOWN,
                        argument);
    }
    if (tool->kind == SNP_RUN_TOOL_CODE && strspn(argument, " \t\r\n") == strlen(argument)) {
        return snp_fail(err, SNP_E_INVALID, "No code provided");
    }
    *ret_code = tool->kind == SNP_RUN_TOOL_FINAL_VAR ? variable_code(argument) : strdup(argument);
    ret->code = *ret_code;
    return *ret_code == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}
