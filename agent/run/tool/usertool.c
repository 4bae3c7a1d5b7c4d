/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User tools, and their calls. A call is open (owned by the tool), then answered; its timer reports
 * the end, so never from within begin. The timer is also its deadline.
 */
#include "run/tool/usertool.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/text/text.h"
#include "run/tool/tool.h"

enum {
    WHY_MAX = 600,
    ORIGIN_MAX = 128,
    MS = 1000,
};

struct registered_tool {
    struct snp_usertool given; /* texts below */
    struct snp_schema *schema; /* owned */
    char name[SNP_USERTOOL_NAME_MAX + 1];
    char origin[ORIGIN_MAX];
};

struct snp_usertools {
    uv_loop_t *loop;
    struct registered_tool *items[SNP_USERTOOL_TOOLS_MAX]; /* owned */
    size_t n;
    json_t *list; /* owned */
};

struct snp_usercall {
    const struct registered_tool *tool;
    uv_timer_t timer;
    bool is_answered;
    bool is_error;
    bool is_cut;
    struct snp_buf answer;
    void (*done)(void *ctx, const struct snp_usercall_end *end);
    void *ctx;
    void *kept;
};

/* Sets ---------------------------------------------------------------------------------------- */

int snp_usertools_new(uv_loop_t *loop, struct snp_usertools **ret, struct snp_err *err)
{
    struct snp_usertools *tools = calloc(1, sizeof(*tools));

    if (tools != NULL) {
        tools->loop = loop;
        tools->list = json_array();
    }
    if (tools == NULL || tools->list == NULL) {
        free(tools);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *ret = tools;
    return 0;
}

static void tool_free(struct registered_tool *tool)
{
    snp_schema_free(tool->schema);
    free(tool);
}

void snp_usertools_free(struct snp_usertools *tools)
{
    if (tools == NULL) {
        return;
    }
    for (size_t i = 0; i < tools->n; i++) {
        if (tools->items[i]->given.free != NULL) {
            tools->items[i]->given.free(tools->items[i]->given.ctx);
        }
        tool_free(tools->items[i]);
    }
    json_decref(tools->list);
    free(tools);
}

static const char ours[] = "snipara_";
static const char old[] = "rlm_"; /* former names of the same tools in scripts and prompts */

static const struct registered_tool *tool_find(const struct snp_usertools *tools, const char *name)
{
    for (size_t i = 0; tools != NULL && i < tools->n; i++) {
        if (strcmp(tools->items[i]->name, name) == 0) {
            return tools->items[i];
        }
    }
    for (size_t i = 0; tools != NULL && i < tools->n && snp_has_prefix(name, old); i++) {
        const struct registered_tool *tool = tools->items[i];

        if (tool->given.is_ours && snp_streq(tool->name + strlen(ours), name + strlen(old))) {
            return tool;
        }
    }
    return NULL;
}

static int name_check(const struct snp_usertools *tools,
                      const struct snp_usertool *given,
                      struct snp_err *err)
{
    const char *name = given->name;
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");

    if (n == 0 || name[n] != '\0' || n > SNP_USERTOOL_NAME_MAX ||
        (!isalpha((unsigned char)name[0]) && name[0] != '_')) {
        return snp_fail(err, SNP_E_INVALID,
                        "'%.80s' is not a valid name of a tool: use 1 to %d of A-Z a-z 0-9 _ "
                        "-, a letter first",
                        name, SNP_USERTOOL_NAME_MAX);
    }
    if (snp_run_tool_find(name) != NULL || snp_has_prefix(name, ours) != given->is_ours) {
        return snp_fail(err, SNP_E_INVALID,
                        "a tool cannot be named %s: the name is taken by a built-in tool", name);
    }
    return tool_find(tools, name) == NULL
               ? 0
               : snp_fail(err, SNP_E_INVALID, "two tools are named %s", name);
}

/* Add its entry for the model. */
static int entry_add(struct snp_usertools *tools,
                     const struct snp_usertool *given,
                     struct snp_err *err)
{
    snp_autobuf struct snp_buf text = SNP_BUF((size_t)SNP_USERTOOL_TEXT_MAX * 8);
    const char *description = given->description == NULL ? "" : given->description;
    json_t *entry;
    int r;

    r = strlen(description) > SNP_USERTOOL_TEXT_MAX
            ? snp_fail(err, SNP_E_LIMIT, "the description has more than %d KiB",
                       SNP_USERTOOL_TEXT_MAX >> 10)
            : snp_text_clean(&text, description, strlen(description));
    if (r == SNP_E_NOMEM) {
        return snp_fail(err, r, "out of memory");
    }
    if (r < 0) {
        return r;
    }
    entry =
        json_pack("{s:s, s:o, s:o, s:s}", "name", given->name, "description", snp_text_json(&text),
                  "parameters", json_deep_copy(given->schema), "origin", given->origin);
    if (entry == NULL || json_array_append_new(tools->list, entry) < 0) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (json_dumpb(tools->list, NULL, 0, JSON_COMPACT) > SNP_USERTOOL_DEFINITIONS_MAX) {
        (void)json_array_remove(tools->list, json_array_size(tools->list) - 1);
        return snp_fail(err, SNP_E_LIMIT,
                        "the definitions of all tools together have more than %d KiB",
                        SNP_USERTOOL_DEFINITIONS_MAX >> 10);
    }
    return 0;
}

int snp_usertools_add(struct snp_usertools *tools,
                      const struct snp_usertool *given,
                      struct snp_err *err)
{
    struct registered_tool *tool;
    int r = name_check(tools, given, err);

    if (r < 0) {
        return r;
    }
    if (tools->n >= SNP_USERTOOL_TOOLS_MAX) {
        return snp_fail(err, SNP_E_LIMIT,
                        "more than %d tools; name those that you need of an MCP server with "
                        "`tools = [\"NAME\", ...]`",
                        SNP_USERTOOL_TOOLS_MAX);
    }
    if (given->timeout_ms > SNP_USERTOOL_TIMEOUT_MAX_MS) {
        return snp_fail(err, SNP_E_INVALID, "%s: a call takes at most %d s", given->name,
                        SNP_USERTOOL_TIMEOUT_MAX_MS / MS);
    }
    if (!json_is_object(given->schema)) {
        return snp_fail(err, SNP_E_INVALID, "%s: the schema is not an object", given->name);
    }
    tool = calloc(1, sizeof(*tool));
    if (tool == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    tool->given = *given;
    (void)snprintf(tool->name, sizeof(tool->name), "%s", given->name);
    (void)snprintf(tool->origin, sizeof(tool->origin), "%s", given->origin);
    tool->given.name = tool->name;
    tool->given.description = NULL;
    tool->given.origin = tool->origin;
    tool->given.timeout_ms = given->timeout_ms == 0 ? SNP_USERTOOL_TIMEOUT_MS : given->timeout_ms;
    r = snp_schema_new(given->schema, given->manner, &tool->schema, err);
    r = r < 0 ? r : entry_add(tools, given, err);
    if (r < 0) {
        tool_free(tool);
        return snp_err_wrap(err, "%s", given->name);
    }
    tool->given.schema = NULL;
    tools->items[tools->n++] = tool;
    return 0;
}

size_t snp_usertools_n(const struct snp_usertools *tools)
{
    return tools == NULL ? 0 : tools->n;
}

bool snp_usertools_has(const struct snp_usertools *tools, const char *name)
{
    return tool_find(tools, name) != NULL;
}

const json_t *snp_usertools_list(const struct snp_usertools *tools)
{
    return tools->list;
}

int snp_usertools_check(const struct snp_usertools *tools,
                        const char *name,
                        const json_t *arguments,
                        struct snp_err *err)
{
    const struct registered_tool *tool = tool_find(tools, name);

    SNP_ASSERT(tool != NULL);
    if (!json_is_object(arguments)) {
        return snp_fail(err, SNP_E_INVALID, "the arguments are not an object");
    }
    if (json_dumpb(arguments, NULL, 0, JSON_COMPACT) > SNP_USERTOOL_ARGUMENTS_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the arguments can have at most %d MiB",
                        SNP_USERTOOL_ARGUMENTS_MAX >> 20);
    }
    return snp_schema_check(tool->schema, arguments, err);
}

/* Calls --------------------------------------------------------------------------------------- */

void snp_usercall_keep(struct snp_usercall *call, void *data)
{
    call->kept = data;
}

void *snp_usercall_kept(const struct snp_usercall *call)
{
    return call->kept;
}

static void on_closed(uv_handle_t *handle)
{
    struct snp_usercall *call = handle->data;

    snp_buf_done(&call->answer);
    free(call);
}

static void call_free(struct snp_usercall *call)
{
    uv_close((uv_handle_t *)&call->timer, on_closed);
}

static void on_end(uv_timer_t *timer)
{
    struct snp_usercall *call = timer->data;
    const struct snp_usercall_end end = {
        .is_error = call->is_error,
        .is_cut = call->is_cut,
        .most = call->tool->given.is_ours ? SNP_USERTOOL_OURS_MOST : 0,
        .bytes = call->answer.len == 0 ? "" : snp_buf_bytes(&call->answer),
        .n = call->answer.len,
    };

    call->done(call->ctx, &end);
    call_free(call);
}

void snp_usercall_answer(struct snp_usercall *call, bool is_error, const char *bytes, size_t n)
{
    size_t most = n > SNP_USERTOOL_REPLY_MAX ? SNP_USERTOOL_REPLY_MAX : n;

    SNP_ASSERT(!call->is_answered);
    call->is_answered = true;
    call->is_error = is_error;
    call->is_cut = n > most;
    if (snp_buf_add(&call->answer, bytes, most) < 0) {
        call->is_error = true;
    }
    (void)uv_timer_start(&call->timer, on_end, 0, 0);
}

static void on_deadline(uv_timer_t *timer)
{
    struct snp_usercall *call = timer->data;
    const struct snp_usertool *tool = &call->tool->given;
    char why[WHY_MAX];

    (void)snprintf(why, sizeof(why),
                   "The tool did not end within %llu s (its time limit), so it was "
                   "stopped. " SNP_USERTOOL_MAYBE,
                   (unsigned long long)((tool->timeout_ms + MS - 1) / MS));
    snp_usercall_stop(call, why);
}

int snp_usercall_begin(struct snp_usertools *tools,
                       const char *name,
                       const json_t *arguments,
                       void (*done)(void *ctx, const struct snp_usercall_end *end),
                       void *ctx,
                       struct snp_usercall **ret_call)
{
    const struct registered_tool *tool = tool_find(tools, name);
    struct snp_usercall *call = calloc(1, sizeof(*call));
    struct snp_err err;

    SNP_ASSERT(tool != NULL);
    if (call == NULL) {
        return SNP_E_NOMEM;
    }
    call->tool = tool;
    call->done = done;
    call->ctx = ctx;
    snp_buf_init(&call->answer, SNP_USERTOOL_REPLY_MAX);
    SNP_ASSERT(uv_timer_init(tools->loop, &call->timer) == 0);
    call->timer.data = call;
    uv_update_time(tools->loop);
    (void)uv_timer_start(&call->timer, on_deadline, tool->given.timeout_ms, 0);
    *ret_call = call;
    if (tool->given.begin(tool->given.ctx, call, arguments, &err) < 0) {
        snp_usercall_answer(call, true, err.msg, strlen(err.msg));
    }
    return 0;
}

void snp_usercall_stop(struct snp_usercall *call, const char *why)
{
    if (!call->is_answered) {
        call->tool->given.cancel(call->tool->given.ctx, call);
        snp_usercall_answer(call, true, why, strlen(why));
    }
}

void snp_usercall_drop(struct snp_usercall *call)
{
    if (call == NULL) {
        return;
    }
    if (!call->is_answered) {
        call->tool->given.cancel(call->tool->given.ctx, call);
    }
    (void)uv_timer_stop(&call->timer);
    call_free(call);
}
