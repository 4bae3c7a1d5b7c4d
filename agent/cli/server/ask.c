/* SPDX-License-Identifier: Apache-2.0 */
/* The implementation of the verbs of `mcp`. */
#include "cli/server/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/cli.h"
#include "base/cli/input.h"
#include "base/cli/need.h"
#include "base/mcp/tooldef.h"
#include "base/str.h"
#include "cli/server/run.h"
#include "cli/server/show.h"
#include "mcp/client/fingerprints.h"

enum {
    ARGUMENTS_MAX = 16 << 20,
};

/* A positional argument of the verb; NULL = not given. */
static const char *own_arg(const struct snp_opts *opts, size_t i)
{
    return i < snp_mcp_run_own_args(opts) ? snp_opts_arg(opts, i) : NULL;
}

static void notes_show(const struct snp_mcp_run *run, const json_t *notes)
{
    size_t i;
    json_t *note;

    json_array_foreach(notes, i, note)
    {
        snp_cli_warn(run->cli, "%s", json_string_value(note));
    }
}

/* info ------------------------------------------------------------------------------------ */

static void info_begin(struct snp_mcp_run *run)
{
    const struct snp_mcp_client_info *info = snp_mcp_client_info(run->client);

    if (run->cli->is_json) {
        snp_autojson json_t *json = snp_mcp_info_json(info);

        snp_mcp_run_end(run, snp_cli_print_json(json));
        return;
    }
    snp_mcp_show_info(info);
    snp_mcp_run_end(run, SNP_EXIT_OK);
}

int snp_mcp_ask_info(struct snp_cli *cli, const struct snp_opts *opts)
{
    struct snp_mcp_run run = {.cli = cli, .opts = opts};

    return snp_mcp_run(&run, 0, info_begin);
}

/* tools ----------------------------------------------------------------------------------- */

/* {"tools": [definitions with "sha256"], "left_out": [...], "pins": {...}?} */
static json_t *tools_json(const json_t *items, const json_t *notes, json_t *difference)
{
    snp_autojson json_t *tools = json_array();
    size_t i;
    json_t *item;

    json_array_foreach(items, i, item)
    {
        char print[SNP_MCP_FINGERPRINT_LEN + 1];
        struct snp_err err;
        json_t *tool = json_copy(item);

        if (snp_mcp_tooldef_fingerprint(item, print, &err) == 0) {
            (void)json_object_set_new(tool, "sha256", json_string(print));
        }
        (void)json_array_append_new(tools, tool);
    }
    return json_pack("{s:O, s:O, s:O*}", "tools", tools, "left_out", notes, "pins", difference);
}

/* "changed since it was pinned: a, b" for each kind; the exit status. */
static int difference_show(const struct snp_mcp_run *run, const json_t *difference)
{
    static const struct {
        const char *member;
        const char *text;
    } kinds[] = {
        {"changed", "differs from its fingerprint"},
        {"new", "is new"},
        {"gone", "is gone"},
    };
    int status = SNP_EXIT_OK;

    for (size_t k = 0; k < SNP_ARRAY_LEN(kinds); k++) {
        size_t i;
        json_t *name;

        json_array_foreach(json_object_get(difference, kinds[k].member), i, name)
        {
            snp_cli_warn(run->cli, "tool '%.128s' %s", json_string_value(name), kinds[k].text);
            status = SNP_EXIT_FAILED;
        }
    }
    return status;
}

/* Compare with the pins, or write them. *ret: the differences, NULL = not compared. */
static int pins_use(const struct snp_mcp_run *run,
                    const json_t *items,
                    json_t **ret,
                    struct snp_err *err)
{
    const char *path = snp_opts_str(run->opts, "pins");

    *ret = NULL;
    if (path == NULL) {
        return 0;
    }
    return run->pins == NULL ? snp_mcp_fingerprints_write(path, items, err)
                             : snp_mcp_fingerprints_compare(run->pins, items, ret, err);
}

static void on_tools(void *ctx,
                     const struct snp_mcp_client_end *end,
                     json_t *items,
                     const json_t *notes)
{
    struct snp_mcp_run *run = ctx;
    snp_autojson json_t *difference = NULL;
    struct snp_err err;
    int status = SNP_EXIT_OK;

    if (end->err != NULL) {
        snp_mcp_run_fail(run, end->err);
        return;
    }
    if (pins_use(run, items, &difference, &err) < 0) {
        snp_mcp_run_fail(run, &err);
        return;
    }
    if (run->cli->is_json) {
        snp_autojson json_t *json = tools_json(items, notes, difference);

        status = snp_cli_print_json(json);
    } else {
        snp_mcp_show_tools(items);
        notes_show(run, notes);
    }
    snp_mcp_run_end(run,
                    difference_show(run, difference) == SNP_EXIT_OK ? status : SNP_EXIT_FAILED);
}

static void tools_begin(struct snp_mcp_run *run)
{
    snp_mcp_run_list(run, "tools/list", on_tools);
}

/* Read the pins; called before a server is started. */
static int pins_take(struct snp_mcp_run *run, bool must_be, struct snp_err *err)
{
    const char *path = snp_opts_str(run->opts, "pins");
    int r = path == NULL ? 0 : snp_mcp_fingerprints_read(path, &run->pins, err);

    return r == 0 && path != NULL && must_be && run->pins == NULL
               ? snp_fail(err, SNP_E_NOT_FOUND,
                          "--pins: no such file: %.200s; `mcp tools --pins` writes it", path)
               : r;
}

int snp_mcp_ask_tools(struct snp_cli *cli, const struct snp_opts *opts)
{
    struct snp_mcp_run run = {.cli = cli, .opts = opts};
    struct snp_err err;
    int status;

    if (pins_take(&run, false, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    status = snp_mcp_run(&run, 0, tools_begin);
    json_decref(run.pins);
    return status;
}

/* call ------------------------------------------------------------------------------------ */

static void on_result(void *ctx, const struct snp_mcp_client_end *end)
{
    struct snp_mcp_run *run = ctx;
    const json_t *content = json_object_get(end->result, "content");
    const json_t *structured = json_object_get(end->result, "structuredContent");
    bool has_failed = snp_json_bool(end->result, "isError", false);
    int status = 0;

    if (end->err != NULL) {
        snp_mcp_run_fail(run, end->err);
        return;
    }
    if (run->cli->is_json) {
        status = snp_cli_print_json(end->result);
    } else if (json_array_size(content) > 0 || structured == NULL) {
        snp_mcp_show_content(content);
    } else {
        status = snp_cli_print_json(structured);
    }
    snp_mcp_run_end(run, has_failed ? SNP_EXIT_FAILED : status);
}

/* Add NAME=VALUE to arguments; schema: of the tool, NULL = all values are texts. */
static int argument_add(json_t *arguments,
                        const char *text,
                        const json_t *schema,
                        struct snp_err *err)
{
    const char *value = strchr(text, '=');
    snp_autofree char *name =
        value == NULL ? NULL : snp_need(strndup(text, (size_t)(value - text)));
    const json_t *property;
    json_t *made;

    if (value == NULL || value == text) {
        return snp_fail(err, SNP_E_INVALID, "--arg needs NAME=VALUE, not '%.100s'", text);
    }
    value++;
    property = json_object_get(json_object_get(schema, "properties"), name);
    if (property != NULL && !snp_streq(snp_json_str(property, "type", "string"), "string")) {
        made = json_loads(value, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
        if (made == NULL) {
            return snp_fail(err, SNP_E_INVALID, "--arg %.60s: the tool expects %.20s, not '%.60s'",
                            name, snp_json_str(property, "type", ""), value);
        }
    } else {
        made = snp_json_bytes(value, strlen(value));
    }
    return json_object_set_new(arguments, name, made) < 0
               ? snp_fail(err, SNP_E_INVALID, "--arg: the name must be UTF-8")
               : 0;
}

static int arguments_add(const struct snp_mcp_run *run, const json_t *schema, struct snp_err *err)
{
    const char *const *items = NULL;
    size_t n = snp_opts_list(run->opts, "arg", &items);
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        r = argument_add(run->arguments, items[i], schema, err);
    }
    return r;
}

static const json_t *tool_find(const json_t *items, const char *name)
{
    size_t i;
    json_t *tool;

    json_array_foreach(items, i, tool)
    {
        if (snp_streq(snp_json_str(tool, "name", ""), name)) {
            return tool;
        }
    }
    return NULL;
}

/* "there is no tool 'x'; did you mean y?" */
static void tool_missing(struct snp_mcp_run *run, const json_t *items, const json_t *notes)
{
    const char *name = own_arg(run->opts, 0);
    size_t n = json_array_size(items);
    snp_autofree const char **names = snp_need(calloc(n + 1, sizeof(*names)));
    struct snp_err err;

    for (size_t i = 0; i < n; i++) {
        names[i] = snp_json_str(json_array_get(items, i), "name", "");
    }
    notes_show(run, notes);
    (void)snp_fail_near(&err, SNP_E_NOT_FOUND, snp_suggest(name, names, n),
                        "the server has no tool '%.100s'", name);
    snp_mcp_run_fail(run, &err);
}

static void on_tools_to_call(void *ctx,
                             const struct snp_mcp_client_end *end,
                             json_t *items,
                             const json_t *notes)
{
    struct snp_mcp_run *run = ctx;
    const char *name = own_arg(run->opts, 0);
    const json_t *tool = tool_find(items, name);
    struct snp_err err;
    int r;

    if (end->err != NULL) {
        snp_mcp_run_fail(run, end->err);
        return;
    }
    if (tool == NULL) {
        tool_missing(run, items, notes);
        return;
    }
    r = run->pins == NULL ? 0 : snp_mcp_fingerprints_check(run->pins, tool, &err);
    r = r < 0 ? r : arguments_add(run, json_object_get(tool, "inputSchema"), &err);
    if (r < 0) {
        snp_mcp_run_fail(run, &err);
        return;
    }
    snp_mcp_run_call(run, "tools/call",
                     json_pack("{s:s, s:O}", "name", name, "arguments", run->arguments), on_result);
}

static void call_begin(struct snp_mcp_run *run)
{
    snp_mcp_run_list(run, "tools/list", on_tools_to_call);
}

/* ARGUMENTS, from the command line or standard input. */
static int arguments_take(struct snp_mcp_run *run, const char *text, struct snp_err *err)
{
    snp_autofree char *input = NULL;
    size_t n = text == NULL ? 0 : strlen(text);
    int r = 0;

    if (snp_streq(text, "-")) {
        r = snp_read_input("-", ARGUMENTS_MAX, &input, &n, err);
        text = input;
    }
    r = r < 0 ? r : snp_json_parse(text == NULL ? "" : text, n, &run->arguments, err);
    return r < 0 ? snp_err_wrap(err, "ARGUMENTS") : 0;
}

int snp_mcp_ask_call(struct snp_cli *cli, const struct snp_opts *opts)
{
    struct snp_mcp_run run = {.cli = cli, .opts = opts};
    struct snp_err err;
    int status;
    int r;

    if (own_arg(opts, 0) == NULL) {
        return snp_cli_usage(cli, "missing argument TOOL");
    }
    r = arguments_take(&run, own_arg(opts, 1), &err);
    r = r < 0 ? r : pins_take(&run, true, &err);
    status = r == SNP_E_INVALID ? snp_cli_usage(cli, "%s", err.msg)
             : r < 0            ? snp_cli_fail(cli, &err)
                                : snp_mcp_run(&run, 2, call_begin);
    json_decref(run.pins);
    json_decref(run.arguments);
    return status;
}

/* resources, read ------------------------------------------------------------------------- */

static void resources_show(struct snp_mcp_run *run, const json_t *templates)
{
    snp_autojson json_t *json =
        json_pack("{s:O, s:O}", "resources", run->arguments, "templates", templates);

    int status = SNP_EXIT_OK;

    if (run->cli->is_json) {
        status = snp_cli_print_json(json);
    } else {
        snp_mcp_show_resources(run->arguments, templates);
    }
    snp_mcp_run_end(run, status);
}

static void on_templates(void *ctx,
                         const struct snp_mcp_client_end *end,
                         json_t *items,
                         const json_t *notes)
{
    snp_autojson json_t *none = json_array();

    (void)notes;
    /* Many servers with resources do not support templates. */
    resources_show(ctx, end->err == NULL || end->error == NULL ? items : none);
}

static void on_resources(void *ctx,
                         const struct snp_mcp_client_end *end,
                         json_t *items,
                         const json_t *notes)
{
    struct snp_mcp_run *run = ctx;

    (void)notes;
    if (end->err != NULL) {
        snp_mcp_run_fail(run, end->err);
        return;
    }
    run->arguments = json_incref(items);
    snp_mcp_run_list(run, "resources/templates/list", on_templates);
}

static void resources_begin(struct snp_mcp_run *run)
{
    snp_mcp_run_list(run, "resources/list", on_resources);
}

int snp_mcp_ask_resources(struct snp_cli *cli, const struct snp_opts *opts)
{
    struct snp_mcp_run run = {.cli = cli, .opts = opts};
    int status = snp_mcp_run(&run, 0, resources_begin);

    json_decref(run.arguments);
    return status;
}

static void on_read(void *ctx, const struct snp_mcp_client_end *end)
{
    struct snp_mcp_run *run = ctx;
    struct snp_err err;

    if (end->err != NULL) {
        snp_mcp_run_fail(run, end->err);
    } else if (run->cli->is_json) {
        snp_mcp_run_end(run, snp_cli_print_json(end->result));
    } else if (snp_mcp_show_contents(json_object_get(end->result, "contents")) < 0) {
        (void)snp_fail(&err, SNP_E_DENIED,
                       "the resource is binary: send it to a file or use --json");
        snp_mcp_run_fail(run, &err);
    } else {
        snp_mcp_run_end(run, SNP_EXIT_OK);
    }
}

static void read_begin(struct snp_mcp_run *run)
{
    const char *uri = own_arg(run->opts, 0);

    snp_mcp_run_call(run, "resources/read",
                     json_pack("{s:o}", "uri", snp_json_bytes(uri, strlen(uri))), on_read);
}

int snp_mcp_ask_read(struct snp_cli *cli, const struct snp_opts *opts)
{
    struct snp_mcp_run run = {.cli = cli, .opts = opts};

    return own_arg(opts, 0) == NULL ? snp_cli_usage(cli, "missing argument URI")
                                    : snp_mcp_run(&run, 1, read_begin);
}

/* prompts, prompt ------------------------------------------------------------------------- */

static void on_prompts(void *ctx,
                       const struct snp_mcp_client_end *end,
                       json_t *items,
                       const json_t *notes)
{
    struct snp_mcp_run *run = ctx;
    snp_autojson json_t *json = NULL;
    int status = SNP_EXIT_OK;

    (void)notes;
    if (end->err != NULL) {
        snp_mcp_run_fail(run, end->err);
        return;
    }
    if (run->cli->is_json) {
        json = json_pack("{s:O}", "prompts", items);
        status = snp_cli_print_json(json);
    } else {
        snp_mcp_show_prompts(items);
    }
    snp_mcp_run_end(run, status);
}

static void prompts_begin(struct snp_mcp_run *run)
{
    snp_mcp_run_list(run, "prompts/list", on_prompts);
}

int snp_mcp_ask_prompts(struct snp_cli *cli, const struct snp_opts *opts)
{
    struct snp_mcp_run run = {.cli = cli, .opts = opts};

    return snp_mcp_run(&run, 0, prompts_begin);
}

static void on_prompt(void *ctx, const struct snp_mcp_client_end *end)
{
    struct snp_mcp_run *run = ctx;

    if (end->err != NULL) {
        snp_mcp_run_fail(run, end->err);
    } else if (run->cli->is_json) {
        snp_mcp_run_end(run, snp_cli_print_json(end->result));
    } else {
        snp_mcp_show_messages(json_object_get(end->result, "messages"));
        snp_mcp_run_end(run, SNP_EXIT_OK);
    }
}

static void prompt_begin(struct snp_mcp_run *run)
{
    const char *name = own_arg(run->opts, 0);

    snp_mcp_run_call(run, "prompts/get",
                     json_pack("{s:o, s:O}", "name", snp_json_bytes(name, strlen(name)),
                               "arguments", run->arguments),
                     on_prompt);
}

int snp_mcp_ask_prompt(struct snp_cli *cli, const struct snp_opts *opts)
{
    struct snp_mcp_run run = {.cli = cli, .opts = opts};
    struct snp_err err;
    int status;

    if (own_arg(opts, 0) == NULL) {
        return snp_cli_usage(cli, "missing argument PROMPT");
    }
    run.arguments = json_object();
    status = arguments_add(&run, NULL, &err) < 0 ? snp_cli_usage(cli, "%s", err.msg)
                                                 : snp_mcp_run(&run, 1, prompt_begin);
    json_decref(run.arguments);
    return status;
}
