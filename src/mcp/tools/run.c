/* SPDX-License-Identifier: Apache-2.0 */
/* execute_python and execute_shell. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/wire/session.h"
#include "mcp/caps.h"
#include "mcp/server/job.h"
#include "mcp/server/session.h"
#include "mcp/server/task.h"

static void cell_begin(struct snp_task *task);

static bool is_command(const struct snp_task *task)
{
    return task->tool->run == snp_tool_execute_shell;
}

static const json_t *source(const struct snp_task *task)
{
    return json_object_get(task->args, is_command(task) ? "command" : "code");
}

static const struct snp_mcp_profile *profile_of(const struct snp_task *task)
{
    const char *name = snp_task_arg(task, "profile", NULL);

    return name == NULL ? NULL : snp_mcp_profile(name); /* one of ours, already checked */
}

/* Milliseconds; 0 = as configured. */
static uint64_t timeout_ms(const struct snp_task *task)
{
    const struct snp_mcp_profile *profile = profile_of(task);
    double seconds = json_number_value(json_object_get(task->args, "timeout"));

    if (seconds > SNP_MCP_TIMEOUT_S) {
        seconds = SNP_MCP_TIMEOUT_S;
    }
    return seconds > 0 ? (uint64_t)(seconds * 1000) : profile == NULL ? 0 : profile->timeout_ms;
}

/* The result of the cell, or the error -------------------------------------------------------- */

/* A line for the model, after the output. */
static void note(struct snp_task *task, const char *fmt, ...) SNP_PRINTF(2, 3);
static void note(struct snp_task *task, const char *fmt, ...)
{
    snp_autofree char *text = NULL;
    va_list args;

    va_start(args, fmt);
    if (vasprintf(&text, fmt, args) >= 0) {
        (void)!snp_buf_addf(&task->notes, "%s[note] %s", task->notes.len == 0 ? "" : "\n", text);
    }
    va_end(args);
}

/* Note settings of this server that the session does not use. */
static void note_not_applied(struct snp_task *task, const json_t *head)
{
    size_t i;
    json_t *row;

    json_array_foreach(json_object_get(head, "not_applied"), i, row)
    {
        note(task, "this session has %s %s; this server is configured for %s",
             snp_json_str(row, "setting", ""), snp_json_str(row, "session", ""),
             snp_json_str(row, "asked", ""));
    }
}

static void on_result(struct snp_task *task, json_t *head)
{
    const char *missing = task->service->options.missing_tier;
    const json_t *text = source(task);
    struct snp_cell_view view = {
        .head = head,
        .code = is_command(task) ? NULL : json_string_value(text),
        .code_len = json_string_length(text),
        .session_id = task->session_id,
    };

    if (missing != NULL) {
        note(task, "no %s tier here; code runs in %s", missing,
             snp_json_str(json_object_get(head, "manifest"), "tier", "?"));
    }
    note_not_applied(task, head);
    view.notes = task->notes.len == 0 ? "" : snp_buf_cstr(&task->notes);
    snp_task_end(task, snp_cell_result(&task->cell, &task->service->kept, &view));
}

/*
 * True: the session's member (tier, template) differs from this server's configuration; the task
 * has ended.
 */
static bool is_elsewhere(struct snp_task *task, const json_t *head, const char *member)
{
    const char *has = snp_json_str(head, member, "");
    const char *wanted = snp_json_str(task->service->options.exec, member, NULL);

    if (wanted == NULL || strcmp(wanted, has) == 0) {
        return false;
    }
    snp_task_failf(task, SNP_E_INVALID,
                   "session '%.64s' was opened with %s %.40s, but this server is configured "
                   "for %.40s; use another session_id, or SniparaSandbox.destroy_session first",
                   task->session_id, member, has, wanted);
    return true;
}

/* The session has another policy: keep it, unless it gives less than requested. */
static void on_show(struct snp_task *task, json_t *head)
{
    const struct snp_mcp_profile *profile = profile_of(task);
    const char *project = snp_json_str(head, "project", NULL);
    int64_t has = snp_json_int(json_object_get(head, "limits"), "memory_bytes", 0);
    char has_text[32];
    char asked_text[32];

    if (project != NULL && !snp_streq(project, task->service->options.project)) {
        snp_task_failf(task, SNP_E_INVALID,
                       "session '%.64s' belongs to the project %.200s; use another session_id",
                       task->session_id, project);
        return;
    }
    if (is_elsewhere(task, head, "tier") || is_elsewhere(task, head, "template")) {
        return;
    }
    (void)snp_format_bytes((uint64_t)has, has_text, sizeof(has_text));
    (void)snp_format_bytes(profile == NULL ? 0 : profile->memory_bytes, asked_text,
                           sizeof(asked_text));
    if (profile != NULL && has > 0 && (uint64_t)has < profile->memory_bytes) {
        snp_task_failf(task, SNP_E_LIMIT,
                       "session '%.64s' was opened with %s of memory, profile %s has %s; use "
                       "another session_id, or SniparaSandbox.destroy_session first",
                       task->session_id, has_text, profile->name, asked_text);
        return;
    }
    if (profile != NULL && (uint64_t)has != profile->memory_bytes) {
        note(task,
             "memory is %s, as set when this session was opened; profile %s changes only "
             "its time",
             has_text, profile->name);
    }
    if (project == NULL && task->service->options.project != NULL) {
        note(task, "this session was opened without a project folder; /workspace does not show %s",
             task->service->options.project);
    }
    task->was_retried = true;
    cell_begin(task);
}

static void on_not_shown(struct snp_task *task, const struct snp_err *err)
{
    (void)err;
    snp_task_fail(task, &task->refusal);
}

static void on_no_result(struct snp_task *task, const struct snp_err *err)
{
    if (err->code == SNP_E_INVALID && !task->was_retried && !task->is_cancelled) {
        /*
         * Is the error about the session, or the request? If there is no such session, the latter.
         */
        task->refusal = *err;
        snp_task_ask(task, SNP_WRITE(snp_sessions_show_request, .session = task->session), on_show,
                     on_not_shown);
    } else {
        snp_task_fail(task, err);
    }
}

/*
 * Models write for bash. A sandbox has this machine's programs; those of a separate root file
 * system are unknown here, but include sh.
 */
static const char *shell_of(const struct snp_task *task)
{
    bool has_own = json_is_string(json_object_get(task->service->options.exec, "rootfs"));

    return !has_own && access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
}

static void cell_begin(struct snp_task *task)
{
    const struct snp_mcp_profile *profile = profile_of(task);
    const json_t *text = source(task);
    struct snp_cell_spec spec = {
        .wall_ms = timeout_ms(task),
        .memory_bytes = profile == NULL || task->was_retried ? 0 : profile->memory_bytes,
    };

    if (is_command(task)) {
        spec.argv = json_pack("[s, s, O]", shell_of(task), "-c", text);
        if (spec.argv == NULL) {
            snp_task_end(task, NULL);
            return;
        }
    } else {
        spec.code = json_string_value(text);
        spec.code_len = json_string_length(text);
    }
    snp_task_run_cell(task, &spec, on_result, on_no_result);
}

/* Calls -------------------------------------------------------------------------------------- */

static bool is_blank(const json_t *text)
{
    return json_string_value(text) == NULL ||
           strspn(json_string_value(text), " \t\r\n") == json_string_length(text);
}

/* Answer with the job's name now. */
static bool background_begin(struct snp_task *task)
{
    struct snp_job *job = snp_job_new(task->service, task);

    if (job == NULL) {
        snp_task_failf(task, SNP_E_LIMIT,
                       "%d jobs run in the background; wait for one, or cancel it",
                       SNP_MCP_JOBS_RUNNING_MAX);
        return false;
    }
    task->job = job;
    snp_task_detach(
        task, json_pack("{s:[{s:s, s:o}], s:{s:s, s:s, s:s}}", "content", "type", "text", "text",
                        json_sprintf("[job] %s is running; SniparaSandbox.job_poll(job_id=\"%s\", "
                                     "wait=30) waits for its "
                                     "output and end",
                                     job->id, job->id),
                        "structuredContent", "status", "running", "job_id", job->id, "session",
                        task->session_id));
    return true;
}

static void execute(struct snp_task *task, const char *nothing)
{
    const json_t *seconds = json_object_get(task->args, "timeout");

    if (is_blank(source(task))) {
        snp_task_failf(task, SNP_E_INVALID, "%s", nothing);
        return;
    }
    if (json_string_length(source(task)) > SNP_MCP_CODE_MAX) {
        snp_task_failf(
            task, SNP_E_LIMIT,
            "%s is larger than %d MiB; SniparaSandbox.write_file takes data, a part at a time",
            is_command(task) ? "the command" : "the code", SNP_MCP_CODE_MAX >> 20);
        return;
    }
    if (is_command(task) &&
        strlen(json_string_value(source(task))) != json_string_length(source(task))) {
        snp_task_failf(task, SNP_E_INVALID, "a command must not contain a NUL byte");
        return;
    }
    if (json_number_value(seconds) > SNP_MCP_TIMEOUT_S) {
        note(task, "timeout is at most %d s; using that", SNP_MCP_TIMEOUT_S);
    }
    if (!snp_json_bool(task->args, "background", false) || background_begin(task)) {
        cell_begin(task);
    }
}

void snp_tool_execute_python(struct snp_task *task)
{
    execute(task, "No code provided");
}

void snp_tool_execute_shell(struct snp_task *task)
{
    execute(task, "No command provided");
}
