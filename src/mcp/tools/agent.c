/* SPDX-License-Identifier: Apache-2.0 */
/* The agent tools: start a run, query it, end it. */
#include "mcp/agent/agent.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/text/text.h"
#include "mcp/agent/record.h"
#include "mcp/caps.h"
#include "mcp/server/remedy.h"
#include "mcp/server/session.h"
#include "mcp/server/task.h"
#include "mcp/server/wait.h"
#include "run/agent_limits.h"

enum {
    TASK_SHOWN = 200, /* characters */
    ERROR_SHOWN = 1000,
    ID_SHOWN = 60,
    TEXT_INDENT = 2,
    REAL_DIGITS = 10,
};

/* Answers ----------------------------------------------------------------------------------- */

static void say_error(struct snp_task *task, const char *before, const char *error)
{
    snp_autosay struct snp_say text = SNP_SAY((size_t)ERROR_SHOWN * 8);

    snp_say(&text, "%s", before);
    snp_say_line(&text, error, ERROR_SHOWN);
    snp_task_say(task, true, &text);
}

static void say_not_found(struct snp_task *task)
{
    snp_autosay struct snp_say text = SNP_SAY((size_t)ID_SHOWN * 8);

    snp_say(&text, "Error: Run '");
    snp_say_line(&text, snp_task_arg(task, "run_id", ""), ID_SHOWN);
    snp_say(&text, "' not found");
    snp_task_say(task, true, &text);
}

/* A JSON object as text; consumed, NULL = out of memory. */
static void say_object(struct snp_task *task, json_t *object, size_t indent)
{
    snp_autofree char *text =
        json_dumps(object, JSON_INDENT(indent) | JSON_REAL_PRECISION(REAL_DIGITS));

    snp_task_end(task, text == NULL ? NULL
                                    : json_pack("{s:[{s:s, s:s}]}", "content", "type", "text",
                                                "text", text));
    json_decref(object);
}

static void say_state(struct snp_task *task, const char *path)
{
    json_t *shown = NULL;
    struct snp_err err;

    if (snp_agent_record_show(path, &shown, &err) < 0) {
        say_error(task, "Error: ", err.msg);
    } else {
        say_object(task, shown, TEXT_INDENT);
    }
}

/* The start --------------------------------------------------------------------------------- */

/* Take the limits, capped at their maximum. False: one is invalid, and the task has ended. */
static bool limits_take(struct snp_task *task, struct snp_agent_spec *spec)
{
    const json_t *cost = json_object_get(task->args, "cost_limit");
    char text[ID_SHOWN];

    spec->iterations = snp_json_int(task->args, "max_iterations", SNP_AGENT_ITERATIONS);
    spec->tokens = snp_json_int(task->args, "token_budget", 0);
    spec->has_cost = json_is_number(cost);
    spec->cost_usd = json_number_value(cost);
    if (spec->iterations > SNP_AGENT_ITERATIONS_MAX) {
        spec->iterations = SNP_AGENT_ITERATIONS_MAX;
    }
    if (spec->cost_usd > SNP_AGENT_COST_USD_MAX) {
        spec->cost_usd = SNP_AGENT_COST_USD_MAX;
    }
    if (spec->tokens > SNP_AGENT_TOKENS_MAX) {
        (void)snprintf(text, sizeof(text), "token_budget is at most %d", SNP_AGENT_TOKENS_MAX);
        say_error(task, "Error starting agent: ", text);
        return false;
    }
    if (spec->iterations < 1 ||
        (spec->tokens < 1 && json_object_get(task->args, "token_budget") != NULL)) {
        say_error(task, "Error starting agent: ", "max_iterations and token_budget are at least 1");
        return false;
    }
    return true;
}

/* Report a failed start, in terms of tools. */
static void say_failed(struct snp_task *task, const struct snp_err *err)
{
    snp_autosay struct snp_say text = SNP_SAY((size_t)ERROR_SHOWN * 8);

    snp_say(&text, "Error starting agent: ");
    snp_mcp_remedy_say(&text, err, ERROR_SHOWN);
    if (err->code != SNP_E_LIMIT) {
        snp_say(&text, "; or work on the task yourself with SniparaSandbox.execute_python");
    }
    snp_task_say(task, true, &text);
}

static json_t *started_json(const struct snp_task *task, const json_t *head)
{
    const json_t *budget = json_object_get(head, "budget");
    double cost = json_number_value(json_object_get(budget, "cost_limit"));

    return json_pack("{s:O, s:s, s:o, s:{s:O, s:O, s:o}, s:O}", "run_id",
                     json_object_get(head, "run_id"), "status", "running", "task",
                     snp_agent_line(snp_task_arg(task, "task", ""), TASK_SHOWN), "config",
                     "max_iterations", json_object_get(budget, "max_iterations"), "token_budget",
                     json_object_get(budget, "token_budget"), "cost_limit",
                     cost < 0 ? json_null() : json_real(cost), "trajectory_id",
                     json_object_get(head, "trajectory_id"));
}

static void on_started(void *ctx, const json_t *head, const struct snp_err *err)
{
    struct snp_task *task = ctx;

    if (err != NULL) {
        say_failed(task, err);
        return;
    }
    if (task->call == NULL) { /* cancelled: the run's id was not reported, so it ends */
        snp_agent_signal(task->service, snp_json_str(head, "trajectory_id", ""), SIGTERM);
    }
    say_object(task, started_json(task, head), 0);
}

void snp_tool_agent_run(struct snp_task *task)
{
    struct snp_agent_spec spec = {.task = snp_task_arg(task, "task", "")};
    struct snp_err err;

    if (spec.task[strspn(spec.task, " \t\r\n")] == '\0') {
        bool has_nul = json_string_length(json_object_get(task->args, "task")) > strlen(spec.task);

        say_error(task, "Error: ",
                  has_nul ? "the task must not contain a NUL character" : "No task provided");
        return;
    }
    if (limits_take(task, &spec) &&
        snp_agent_start(task->service, &spec, on_started, task, &err) < 0) {
        say_failed(task, &err);
    }
}

/* Questions --------------------------------------------------------------------------------- */

/* The record of the requested run; the caller frees. False: none, and the task has ended. */
static bool record_of(struct snp_task *task, char **ret_path)
{
    const char *id = snp_task_arg(task, "run_id", "");
    const char *dir = task->service->options.log_dir;
    struct snp_err err;
    int r;

    if (id[0] == '\0') {
        say_error(task, "Error: ", "No run_id provided");
        return false;
    }
    r = dir == NULL ? SNP_E_NOT_FOUND : snp_agent_record_find(dir, id, ret_path, &err);
    if (r == SNP_E_NOT_FOUND) {
        say_not_found(task);
    } else if (r < 0) {
        say_error(task, "Error: ", err.msg);
    }
    return r == 0;
}

/* The id of the trajectory in a path. */
static void id_of(const char *path, char out[SNP_AGENT_ID_LEN + 1])
{
    const char *name = strrchr(path, '/');

    (void)snprintf(out, SNP_AGENT_ID_LEN + 1, "%s", name == NULL ? path : name + 1);
}

/* "running for 4 s; iteration 2: asking the model" */
static void on_describe(struct snp_mcp_call *call, struct snp_buf *out)
{
    struct snp_task *task = call->state;
    const char *doing = snp_agent_doing(task->service, snp_buf_cstr(&task->work));

    (void)!snp_buf_addf(out, "running for %llu s%s%s",
                        (unsigned long long)((snp_now_us() - task->started_us) / 1000000),
                        doing == NULL ? "" : "; ", doing == NULL ? "" : doing);
}

static bool is_over(const struct snp_task *task, const char *path)
{
    (void)task;
    return !snp_agent_record_is_open(path);
}

static void on_waited(struct snp_task *task, const char *path, bool has_ended)
{
    (void)has_ended;
    say_state(task, path);
}

void snp_tool_agent_status(struct snp_task *task)
{
    snp_autofree char *path = NULL;
    int64_t wait_s = snp_json_int(task->args, "wait", 0);
    struct snp_wait_spec spec = {.is_over = is_over, .done = on_waited};
    char id[SNP_AGENT_ID_LEN + 1];
    struct snp_err err;

    if (!record_of(task, &path)) {
        return;
    }
    if (wait_s <= 0 || !snp_agent_record_is_open(path)) {
        say_state(task, path);
        return;
    }
    id_of(path, id);
    (void)!snp_buf_adds(&task->work, id);
    if (task->call != NULL) {
        task->call->describe = on_describe;
    }
    spec.ms = 1000 * (uint64_t)(wait_s < SNP_MCP_WAIT_S ? wait_s : SNP_MCP_WAIT_S);
    spec.what = SNP_TAKE_PTR(path);
    if (snp_wait(task, &spec, &err) < 0) {
        say_error(task, "Error: ", err.msg);
    }
}

/* Cancelling -------------------------------------------------------------------------------- */

static void on_stopped(struct snp_task *task, const char *path, bool has_ended)
{
    snp_autojson json_t *shown = NULL;
    const char *id = snp_task_arg(task, "run_id", "");
    const char *status;
    struct snp_err err;

    if (!has_ended) {
        char whole_id[SNP_AGENT_ID_LEN + 1];

        id_of(path, whole_id);
        say_error(task, "Error: ",
                  snp_agent_signal(task->service, whole_id, SIGKILL)
                      ? "the agent did not stop and was killed: its status is interrupted"
                      : "the agent is still running; another server started it, so this one "
                        "does not kill it");
        return;
    }
    if (snp_agent_record_show(path, &shown, &err) < 0) {
        say_error(task, "Error: ", err.msg);
        return;
    }
    status = snp_json_str(shown, "status", "");
    if (strcmp(status, "cancelled") == 0) {
        snp_task_sayf(task, false, "Agent run '%s' cancelled", id);
    } else {
        snp_task_sayf(task, false, "Agent run '%s' had already ended: %s", id, status);
    }
}

void snp_tool_agent_cancel(struct snp_task *task)
{
    struct snp_wait_spec spec = {
        .ms = SNP_MCP_AGENT_CANCEL_MS, .is_over = is_over, .done = on_stopped};
    snp_autofree char *path = NULL;
    struct snp_err err;
    int r = 0;

    if (!record_of(task, &path)) {
        return;
    }
    if (snp_agent_record_is_open(path)) {
        r = snp_agent_record_stop(path, &err);
    }
    if (r == 0 || r == SNP_E_NOT_FOUND) { /* it may have ended already */
        spec.what = SNP_TAKE_PTR(path);
        r = snp_wait(task, &spec, &err);
    }
    if (r < 0) {
        say_error(task, "Error: ", err.msg);
    }
}
