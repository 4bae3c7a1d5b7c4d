/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks.
 *
 * Invariants: a task is in the service's list from its start to its end; of those of one session
 * only the oldest runs. A task without a caller still ends like any other, so that the next one
 * does not use its session before the daemon reports the end of the cell.
 */
#include "mcp/server/task.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/text/text.h"
#include "base/wire/exec.h"
#include "mcp/caps.h"
#include "mcp/server/job.h"
#include "mcp/server/progress.h"
#include "mcp/server/remedy.h"
#include "mcp/server/session.h"

enum {
    WORK_MAX = 16 << 20,
    NOTES_MAX = 8 << 10,
    MESSAGE_TEXT = 1000,
    DEFAULT_MS = 30000, /* a cell's time limit without one from call or configuration */
};

/* The list ---------------------------------------------------------------------------------- */

/*
 * Whether a task of the same session reads files and records only, so that it can run during a job.
 */
static bool is_beside(const struct snp_task *task, const struct snp_task *other)
{
    return (task->tool->flags & SNP_TOOL_BESIDE) != 0 && other->job != NULL;
}

/* The number of running tasks of a connection, or (connection NULL) of a client. */
static size_t running_count(const struct snp_mcp_sandboxes *service,
                            const struct snp_connection *connection,
                            const void *client)
{
    size_t n = 0;

    for (const struct snp_task *one = service->tasks; one != NULL; one = one->later) {
        bool is_running = one->state == SNP_TASK_RUNNING && one->session[0] != '\0';

        n += is_running &&
                     (connection == NULL ? one->client == client : one->connection == connection)
                 ? 1
                 : 0;
    }
    return n;
}

/* The first connection with room, so that a single client needs only one; NULL: none. */
static struct snp_connection *connection_with_room(struct snp_mcp_sandboxes *service)
{
    for (size_t i = 0; i < SNP_MCP_CONNECTIONS; i++) {
        if (running_count(service, &service->connections[i], NULL) < SNP_MCP_RUNNING_MAX) {
            return &service->connections[i];
        }
    }
    return NULL;
}

/* Whether an earlier task of its session runs, or too many run. */
static bool is_blocked(const struct snp_task *task)
{
    if (task->session[0] == '\0') {
        return false;
    }
    for (const struct snp_task *other = task->service->tasks; other != task; other = other->later) {
        if (strcmp(other->session, task->session) == 0 && !is_beside(task, other)) {
            return true;
        }
    }
    return running_count(task->service, NULL, task->client) >= SNP_MCP_RUNNING_MAX ||
           connection_with_room(task->service) == NULL;
}

/* The job that this task would wait for; NULL: none, or it was told to stop. */
static const struct snp_job *job_ahead(const struct snp_task *task)
{
    for (const struct snp_task *other = task->service->tasks;
         other != task && task->session[0] != '\0'; other = other->later) {
        if (strcmp(other->session, task->session) == 0 && other->job != NULL &&
            !other->is_cancelled && !is_beside(task, other)) {
            return other->job;
        }
    }
    return NULL;
}

/* A job may outlast its caller's patience, so this is reported immediately, with the remedies. */
static void say_busy(struct snp_task *task, const struct snp_job *job)
{
    char name[64];

    snp_job_text(job, name, sizeof(name));
    snp_task_failf(task, SNP_E_LIMIT,
                   "session '%.64s' is busy with %s. Files can still be read. Wait with "
                   "SniparaSandbox.job_poll(job_id=\"%s\", wait=30), stop it with "
                   "SniparaSandbox.job_cancel(job_id=\"%s\"), or use another session_id",
                   task->session_id, name, job->id, job->id);
}

static void task_run(struct snp_task *task)
{
    task->connection = connection_with_room(task->service);
    if (task->connection == NULL) { /* it has no session */
        task->connection = task->service->connections;
    }
    task->state = SNP_TASK_RUNNING;
    task->started_us = snp_now_us();
    task->tool->run(task);
}

static void task_release(struct snp_task *task)
{
    snp_cell_done(&task->cell);
    snp_buf_done(&task->notes);
    snp_buf_done(&task->work);
    free(task->fetch.handle);
    free(task->fetch.path);
    json_decref(task->again.head);
    snp_buf_done(&task->again.raw);
    json_decref(task->args);
    free(task);
}

static void task_free(struct snp_task *task)
{
    struct snp_mcp_sandboxes *service = task->service;
    struct snp_task **at = &service->tasks;

    while (*at != task) {
        at = &(*at)->later;
    }
    *at = task->later;
    task_release(task);
    for (struct snp_task *next = service->tasks; next != NULL; next = next->later) {
        if (next->state == SNP_TASK_WAITING && !is_blocked(next)) {
            task_run(next);
            return; /* its end, possibly immediate, starts the next one */
        }
    }
}

/* Calls ------------------------------------------------------------------------------------- */

/* structuredContent only on request: clients that get both show the data, not the text. */
static void answer(struct snp_mcp_call *call, json_t *result)
{
    const json_t *meta = json_object_get(call->params, "_meta");

    if (result != NULL && !snp_json_bool(meta, SNP_MCP_META_DATA, false)) {
        (void)json_object_del(result, "structuredContent");
    }
    snp_mcp_answer(call, result);
}

static void on_call_cancel(struct snp_mcp_call *call)
{
    snp_task_cancel(call->state);
}

static void call_bind(struct snp_task *task, struct snp_mcp_call *call)
{
    task->call = call;
    call->state = task;
    call->cancel = on_call_cancel;
    snp_progress_bind(call);
}

static void call_unbind(struct snp_task *task)
{
    if (task->call != NULL) {
        task->call->state = NULL;
        task->call->cancel = NULL;
        task->call->describe = NULL;
        task->call->accompany = NULL;
        task->call = NULL;
    }
}

void snp_task_start(struct snp_mcp_sandboxes *service,
                    struct snp_mcp_call *call,
                    const struct snp_tool *tool,
                    json_t *args)
{
    struct snp_task *task = calloc(1, sizeof(*task));
    struct snp_task **at = &service->tasks;
    const struct snp_job *ahead;

    if (task == NULL) {
        snp_mcp_refuse(call, SNP_JSONRPC_INTERNAL, NULL, "out of memory");
        return;
    }
    task->service = service;
    task->client = call->peer->client == NULL ? call->peer : call->peer->client;
    task->tool = tool;
    task->args = json_incref(args);
    task->started_us = snp_now_us();
    snp_buf_init(&task->notes, NOTES_MAX);
    snp_buf_init(&task->work, WORK_MAX);
    call_bind(task, call);
    task->session_id = snp_task_arg(task, "session_id", "default");
    if (task->session_id[0] == '\0') {
        task->session_id = "default";
    }
    if ((tool->flags & SNP_TOOL_IN_SESSION) != 0) {
        snp_mcp_session_name(service, task->session_id, task->session);
    }
    while (*at != NULL) {
        at = &(*at)->later;
    }
    *at = task;
    (void)!snp_tool_args_unknown(tool, args, &task->notes);
    ahead = job_ahead(task);
    if (ahead != NULL) {
        say_busy(task, ahead);
    } else if (!is_blocked(task)) {
        task_run(task);
    }
}

void snp_task_cancel(struct snp_task *task)
{
    struct snp_mcp_call *call = task->call;

    if (task->is_cancelled) {
        return;
    }
    task->is_cancelled = true;
    if (task->state == SNP_TASK_WAITING) {
        snp_task_sayf(task, true, "Error: Cancelled before it began");
        return;
    }
    if (task->open_id != 0) {
        snp_connection_interrupt(task->connection, task->open_id);
    }
    if (call != NULL && task->job == NULL) {
        call_unbind(task);
        snp_mcp_answer(call, NULL); /* no recipient */
    }
}

void snp_tasks_drop(struct snp_mcp_sandboxes *service)
{
    while (service->tasks != NULL) {
        struct snp_task *task = service->tasks;

        service->tasks = task->later;
        call_unbind(task);
        task_release(task);
    }
}

void snp_task_detach(struct snp_task *task, json_t *result)
{
    struct snp_mcp_call *call = task->call;

    call_unbind(task);
    if (call != NULL) {
        answer(call, result);
    } else {
        json_decref(result);
    }
}

/* Ends -------------------------------------------------------------------------------------- */

void snp_task_end(struct snp_task *task, json_t *result)
{
    struct snp_mcp_call *call = task->call;
    struct snp_job *job = task->job;

    call_unbind(task);
    if (job != NULL) {
        snp_job_end(job, task->is_cancelled, result);
    } else if (call != NULL) {
        answer(call, result);
    } else {
        json_decref(result);
    }
    task_free(task);
}

void snp_task_refuse(struct snp_task *task, int code, json_t *data, const char *message)
{
    struct snp_mcp_call *call = task->call;

    call_unbind(task);
    if (call != NULL) {
        snp_mcp_refuse(call, code, data, "%s", message);
    } else {
        json_decref(data);
    }
    task_free(task);
}

void snp_task_say(struct snp_task *task, bool is_error, const struct snp_say *text)
{
    snp_autosay struct snp_say whole = SNP_SAY(text->buf.len + NOTES_MAX + 2);
    json_t *result = NULL;

    whole.r = text->r;
    snp_say_bytes(&whole, snp_buf_bytes(&text->buf), text->buf.len);
    if (task->notes.len > 0) {
        snp_say(&whole, "\n%s", snp_buf_cstr(&task->notes));
    }
    if (whole.r == 0) {
        result = json_pack("{s:[{s:s, s:o}]}", "content", "type", "text", "text",
                           snp_text_json(&whole.buf));
    }
    if (result != NULL && is_error) {
        (void)json_object_set_new(result, "isError", json_true());
    }
    snp_task_end(task, result);
}

void snp_task_sayf(struct snp_task *task, bool is_error, const char *fmt, ...)
{
    snp_autofree char *text = NULL;
    snp_autosay struct snp_say whole = SNP_SAY(SIZE_MAX / 4);
    va_list args;

    va_start(args, fmt);
    whole.r = vasprintf(&text, fmt, args) < 0 ? SNP_E_NOMEM : 0;
    va_end(args);
    if (whole.r == 0) {
        snp_say_bytes(&whole, text, strlen(text));
    }
    snp_task_say(task, is_error, &whole);
}

void snp_task_fail(struct snp_task *task, const struct snp_err *err)
{
    snp_autosay struct snp_say text = SNP_SAY((size_t)MESSAGE_TEXT * 8);
    struct snp_err ours = *err;

    if (task->tool->fail != NULL) {
        task->tool->fail(task, err);
        return;
    }
    if (task->session[0] != '\0' && snp_streq(err->object, task->session)) {
        snp_err_about(&ours, task->session_id);
    }
    snp_mcp_remedy_say(&text, &ours, MESSAGE_TEXT);
    if (text.r < 0) {
        snp_task_end(task, NULL);
    } else if ((task->tool->flags & SNP_TOOL_HAS_CELL) != 0) {
        snp_task_end(
            task,
            json_pack("{s:[{s:s, s:o}], s:{s:s, s:{s:s, s:s, s:o*}}, s:b}", "content", "type",
                      "text", "text", json_sprintf("Error: %s", snp_say_cstr(&text)),
                      "structuredContent", "status", "error", "error", "type",
                      snp_code_name(err->code), "message", snp_say_cstr(&text), "remedy",
                      err->remedy.kind == SNP_REMEDY_NONE ? NULL
                                                          : snp_json_from_remedy(&ours.remedy),
                      "isError", 1));
    } else {
        snp_task_sayf(task, true, "Error: %s", snp_say_cstr(&text));
    }
}

/* The daemon -------------------------------------------------------------------------------- */

static void on_done(
    void *ctx, const struct snp_err *err, json_t *head, const char *raw, size_t raw_len)
{
    struct snp_task *task = ctx;
    struct snp_err lost;

    task->open_id = 0;
    task->raw = raw;
    task->raw_len = raw_len;
    if (err != NULL) {
        lost = *err;
        if (err->code == SNP_E_PEER && task->session[0] != '\0') {
            snp_err_lost(&lost);
        }
        (task->failed == NULL ? snp_task_fail : task->failed)(task, &lost);
    } else {
        task->next(task, head);
    }
}

static void on_event(void *ctx, const json_t *head, const char *raw, size_t raw_len)
{
    struct snp_task *task = ctx;
    struct snp_mcp_kept *kept = task->is_cell ? &task->service->kept : NULL;

    snp_cell_event(&task->cell, kept, head, raw, raw_len);
}

void snp_task_send(struct snp_task *task,
                   json_t *head,
                   const void *raw,
                   size_t raw_len,
                   snp_task_next next,
                   snp_task_failed failed)
{
    const struct snp_async_call call = {
        .head = head,
        .raw = raw,
        .raw_len = raw_len,
        .event = on_event,
        .done = on_done,
        .ctx = task,
    };
    struct snp_err err;

    task->next = next;
    task->failed = failed;
    if (snp_connection_call(task->connection, &call, &task->open_id, &err) < 0) {
        snp_task_fail(task, &err);
    }
}

void snp_task_ask(struct snp_task *task, json_t *head, snp_task_next next, snp_task_failed failed)
{
    snp_task_send(task, head, NULL, 0, next, failed);
}

void snp_task_run_cell(struct snp_task *task,
                       const struct snp_cell_spec *spec,
                       snp_task_next next,
                       snp_task_failed failed)
{
    snp_autobuf struct snp_buf raw = {0};
    const struct snp_mcp_options *options = &task->service->options;
    struct snp_exec_request request;
    snp_autojson json_t *argv = spec->argv;
    snp_autojson json_t *limits = json_object();
    struct snp_err err;
    int r = 0;

    if (options->renew(options->renew_ctx, json_object_get(options->exec, "defaults"), &err) < 0) {
        snp_task_fail(task, &err);
        return;
    }
    snp_buf_init(&raw, spec->code_len + spec->input_len + 1);
    snp_cell_done(&task->cell);
    snp_cell_init(&task->cell);
    memset(task->told, 0, sizeof(task->told));
    task->is_cell = true;
    /* Always sent: else the limit of the call that opened the session would apply. */
    snp_record_read(options->exec, &snp_exec_request_form, &request);
    r |= json_object_set_new(
        limits, "timeout_ms",
        json_integer(spec->wall_ms > 0 ? (json_int_t)spec->wall_ms
                                       : snp_json_int(request.defaults, "timeout_ms", DEFAULT_MS)));
    if (spec->memory_bytes > 0) {
        r |= json_object_set_new(limits, "memory_bytes",
                                 json_integer((json_int_t)spec->memory_bytes));
    }
    request.limits = limits;
    request.session = task->session;
    request.kind = spec->code == NULL ? "command" : "python";
    request.code_len = spec->code_len;
    request.stdin = spec->input != NULL;
    request.attached = true; /* we may be killed */
    request.stream = task->job != NULL || (task->call != NULL && task->call->token != NULL);
    request.recover = snp_task_arg(task, "recover", NULL);
    request.argv = argv;
    if (spec->code_len > 0) {
        r |= snp_buf_add(&raw, spec->code, spec->code_len);
    }
    if (spec->input_len > 0) {
        r |= snp_buf_add(&raw, spec->input, spec->input_len);
    }
    if (task->was_retried) { /* the session exists and keeps its policy */
        request.project = request.template = request.tier = request.rootfs = NULL;
        request.env = NULL;
    }
    snp_task_send(task, r == 0 ? snp_record_write(&snp_exec_request_form, &request) : NULL,
                  raw.len == 0 ? "" : snp_buf_bytes(&raw), raw.len, next, failed);
}

const char *snp_task_arg(const struct snp_task *task, const char *name, const char *fallback)
{
    return snp_json_str(task->args, name, fallback);
}
