/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries of the project's index, as tools and as a resource. Each call is a process, `context
 * call`, so that this one links no database; it ends with its call, after a time limit, and with
 * the server.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/text/text.h"
#include "mcp/caps.h"
#include "mcp/process.h"
#include "mcp/server/progress.h"
#include "mcp/server/session.h"
#include "mcp/server/task.h"

enum {
    TIMEOUT_S = 120, /* the first call in a large project builds the index */
    OUTPUT_MAX = 256 << 10,
    READ_BYTES = 16 << 10,
    TEXT_SHOWN = 24000, /* characters */
    LOOKUPS_MAX = 16,   /* processes at once */
};

struct snp_lookup {
    struct snp_mcp_sandboxes *service;
    struct snp_task *task; /* NULL: answered, or cancelled */
    struct snp_process process;
    uv_timer_t look;
    bool is_look_closed;
    bool is_json;
    char *uri; /* owned; NULL: a tool call */
    uint64_t until_us;
    struct snp_buf out;
    struct snp_lookup *next;
};

/* Its end ----------------------------------------------------------------------------------- */

static void lookup_free_if_closed(struct snp_lookup *lookup)
{
    if (lookup->is_look_closed && lookup->process.n_handles == 0) {
        snp_buf_done(&lookup->out);
        free(lookup->uri);
        free(lookup);
    }
}

static void on_look_closed(uv_handle_t *handle)
{
    struct snp_lookup *lookup = handle->data;

    lookup->is_look_closed = true;
    lookup_free_if_closed(lookup);
}

static void on_process_closed(void *owner)
{
    lookup_free_if_closed(owner);
}

/* Remove from the list, and free with the last handle. Its process is reaped, or never started. */
static void lookup_close(struct snp_lookup *lookup)
{
    struct snp_lookup **at = &lookup->service->lookups;

    while (*at != lookup) {
        at = &(*at)->next;
    }
    *at = lookup->next;
    snp_process_close(&lookup->process);
    uv_close((uv_handle_t *)&lookup->look, on_look_closed);
}

static struct snp_task *task_take(struct snp_lookup *lookup)
{
    struct snp_task *task = lookup->task;

    lookup->task = NULL;
    return task;
}

/* Data, on request (mcp/server/task.c); the text is its JSON. */
static void say_data(struct snp_task *task, const char *bytes, size_t n)
{
    json_t *data = NULL;
    struct snp_err err;
    snp_autofree char *text = NULL;

    if (snp_json_parse(bytes, n, &data, &err) < 0) {
        snp_task_failf(task, SNP_E_PEER, "the index's answer cannot be read: %s", err.msg);
        return;
    }
    text = snp_json_text(data);
    snp_task_end(task, json_pack("{s:[{s:s, s:s}], s:o}", "content", "type", "text", "text",
                                 text == NULL ? "" : text, "structuredContent", data));
}

static void say_answer(struct snp_lookup *lookup, struct snp_task *task)
{
    const char *bytes = lookup->out.len == 0 ? "" : snp_buf_bytes(&lookup->out);
    snp_autosay struct snp_say text = SNP_SAY((size_t)TEXT_SHOWN * 8);

    if (lookup->is_json) {
        say_data(task, bytes, lookup->out.len);
        return;
    }
    snp_say(&text, "[note] %s\n", SNP_TEXT_OF_PROJECT);
    snp_say_text(&text, bytes, lookup->out.len, TEXT_SHOWN);
    if (lookup->uri == NULL) {
        snp_task_say(task, false, &text);
        return;
    }
    snp_task_end(task, json_pack("{s:[{s:s, s:s, s:s}], s:i, s:s}", "contents", "uri", lookup->uri,
                                 "mimeType", "text/plain", "text", snp_say_cstr(&text), "ttlMs", 0,
                                 "cacheScope", "private"));
}

/*
 * Report the last line of its standard error, without the prefix of a command that the user did not
 * type.
 */
static void say_failure(const struct snp_process *process, struct snp_task *task)
{
    snp_autofree char *said = strndup(process->said, process->n_said);
    char *line = said == NULL ? NULL : strstr(said, "snipara-sandbox ");
    char *message = line == NULL ? NULL : strstr(line, ": ");

    if (message == NULL) {
        snp_task_failf(task, SNP_E_PEER, "the index's process ended with status %d",
                       process->status);
        return;
    }
    message[strcspn(message, "\n")] = '\0';
    snp_task_failf(task, SNP_E_INVALID, "%s", message + 2);
}

static void answer(struct snp_lookup *lookup)
{
    struct snp_task *task = task_take(lookup);
    const struct snp_process *process = &lookup->process;

    if (task == NULL) {
        return;
    }
    if (task->call == NULL) { /* cancelled: no recipient */
        snp_task_end(task, NULL);
    } else if (WIFEXITED(process->status) && WEXITSTATUS(process->status) == 0) {
        say_answer(lookup, task);
    } else {
        say_failure(process, task);
    }
}

/* Its output -------------------------------------------------------------------------------- */

static void give_up(struct snp_lookup *lookup, const char *why)
{
    struct snp_task *task = task_take(lookup);

    snp_process_kill(&lookup->process, SIGKILL);
    if (task != NULL) {
        snp_task_failf(task, SNP_E_LIMIT, "%s", why);
    }
}

static void output_read(struct snp_lookup *lookup, int which)
{
    char bytes[READ_BYTES];
    size_t n = snp_process_read(&lookup->process, which, bytes, sizeof(bytes));

    while (n > 0) {
        if (which == SNP_PROCESS_OUT && snp_buf_add(&lookup->out, bytes, n) < 0) {
            give_up(lookup, "the index's answer is longer than 256 KiB: ask for less");
            return;
        }
        n = snp_process_read(&lookup->process, which, bytes, sizeof(bytes));
    }
}

static void on_ready(void *owner, int which)
{
    struct snp_lookup *lookup = owner;

    if (which != SNP_PROCESS_ENDED) {
        output_read(lookup, which);
        return;
    }
    if (snp_process_reap(&lookup->process)) {
        output_read(lookup, SNP_PROCESS_OUT); /* its last output can be read now */
        output_read(lookup, SNP_PROCESS_ERRORS);
        answer(lookup);
        lookup_close(lookup);
    }
}

static void on_look(uv_timer_t *timer)
{
    struct snp_lookup *lookup = timer->data;
    struct snp_task *task = lookup->task;

    if (task == NULL) {
        return; /* killed: its end is reported next */
    }
    if (task->call == NULL) { /* cancelled */
        lookup->task = NULL;
        snp_process_kill(&lookup->process, SIGKILL);
        snp_task_end(task, NULL);
    } else if (snp_now_us() >= lookup->until_us) {
        give_up(lookup, "no answer from the index within 120 s: run `snipara-sandbox context "
                        "index` in the project once, then ask again");
    }
}

/* The start --------------------------------------------------------------------------------- */

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

static int start(struct snp_lookup *lookup, const char *input, struct snp_err *err)
{
    const struct snp_mcp_options *options = &lookup->service->options;
    const char *const argv[] = {options->agent_argv[0],
                                "context",
                                "call",
                                "--dir",
                                options->project,
                                lookup->uri == NULL ? lookup->task->tool->name : "shared_context",
                                lookup->is_json ? "--json" : NULL,
                                NULL};
    const struct snp_child child = {.argv = argv, .cwd = options->project};
    int r =
        snp_process_start(&lookup->process, lookup->service->loop, &child, "index's process", err);

    /* The rows' limits keep the input smaller than a pipe's capacity. */
    if (r == 0 && SNP_RETRY(write(lookup->process.ends[SNP_PROCESS_IN].fd, input, strlen(input))) !=
                      (ssize_t)strlen(input)) {
        snp_process_kill(&lookup->process, SIGKILL); /* its end is reported as an error */
    }
    if (r == 0) {
        snp_process_end_close(&lookup->process, SNP_PROCESS_IN);
    }
    return r;
}

static bool is_full(const struct snp_mcp_sandboxes *service)
{
    size_t n = 0;

    for (const struct snp_lookup *at = service->lookups; at != NULL; at = at->next) {
        n++;
    }
    return n >= LOOKUPS_MAX;
}

/* uri: of a resource to read, instead of a tool call; NULL: none */
static void lookup_begin(struct snp_task *task, const char *uri)
{
    struct snp_mcp_sandboxes *service = task->service;
    const json_t *meta = json_object_get(task->call->params, "_meta");
    const char *missing = missing_of(task);
    snp_autofree char *input = input_of(task);
    struct snp_lookup *lookup;
    struct snp_err err;

    if (missing != NULL) {
        snp_task_failf(task, SNP_E_INVALID, "'%s' is missing", missing);
        return;
    }
    if (service->options.project == NULL || service->options.agent_argv == NULL) {
        snp_task_failf(task, SNP_E_UNSUPPORTED,
                       "this server has no project to look in: start it in the project's folder, "
                       "or with `mcp-serve --project DIR`");
        return;
    }
    if (is_full(service)) {
        snp_task_failf(task, SNP_E_LIMIT,
                       "%d questions to the index are being answered, the most at once: ask "
                       "again when one has ended",
                       LOOKUPS_MAX);
        return;
    }
    lookup = calloc(1, sizeof(*lookup));
    if (lookup == NULL || input == NULL) {
        free(lookup);
        snp_task_failf(task, SNP_E_NOMEM, "out of memory");
        return;
    }
    lookup->service = service;
    lookup->task = task;
    lookup->is_json = uri == NULL && snp_json_bool(meta, SNP_MCP_META_DATA, false);
    lookup->uri = uri == NULL ? NULL : strdup(uri);
    lookup->until_us = snp_now_us() + (uint64_t)TIMEOUT_S * 1000000;
    lookup->process.owner = lookup;
    lookup->process.ready = on_ready;
    lookup->process.closed = on_process_closed;
    snp_buf_init(&lookup->out, OUTPUT_MAX);
    lookup->next = service->lookups;
    service->lookups = lookup;
    (void)uv_timer_init(service->loop, &lookup->look);
    lookup->look.data = lookup;
    if (start(lookup, input, &err) < 0) {
        lookup->task = NULL;
        lookup_close(lookup);
        snp_task_fail(task, &err);
        return;
    }
    (void)uv_timer_start(&lookup->look, on_look, SNP_MCP_WAIT_LOOK_MS, SNP_MCP_WAIT_LOOK_MS);
}

void snp_tool_lookup(struct snp_task *task)
{
    lookup_begin(task, NULL);
}

void snp_resource_standards(struct snp_task *task)
{
    lookup_begin(task, snp_task_arg(task, "uri", ""));
}

void snp_lookups_drop(struct snp_mcp_sandboxes *service)
{
    while (service->lookups != NULL) {
        struct snp_lookup *lookup = service->lookups;

        lookup->task = NULL; /* freed with all tasks */
        snp_process_kill(&lookup->process, SIGKILL);
        (void)snp_process_reap(&lookup->process); /* if not exited yet, its new parent reaps it */
        lookup_close(lookup);
    }
}
