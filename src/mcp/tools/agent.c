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
#include "mcp/agent/lookup.h"
#include "mcp/caps.h"
#include "mcp/server/remedy.h"
#include "mcp/server/session.h"

enum {
    TASK_SHOWN = 200, /* characters */
    TASK_BYTES = 8 * TASK_SHOWN,
    ERROR_SHOWN = 1000,
    ID_SHOWN = 60,
    NUMBER_MAX = 24,
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
static void say_object(struct snp_task *task, json_t *object)
{
    snp_autofree char *text = json_dumps(object, JSON_REAL_PRECISION(REAL_DIGITS));

    snp_task_end(task, text == NULL ? NULL
                                    : json_pack("{s:[{s:s, s:s}]}", "content", "type", "text",
                                                "text", text));
    json_decref(object);
}

/* The start --------------------------------------------------------------------------------- */

/* Take the limits; the agent caps them. False: one is invalid, and the task has ended. */
static bool limits_take(struct snp_task *task, struct snp_agent_spec *spec)
{
    const json_t *cost = json_object_get(task->args, "cost_limit");
    char text[ID_SHOWN];

    spec->iterations = snp_json_int(task->args, "max_iterations", 0);
    spec->tokens = snp_json_int(task->args, "token_budget", 0);
    spec->has_cost = json_is_number(cost);
    spec->cost_usd = json_number_value(cost);
    if (spec->tokens > SNP_MCP_AGENT_TOKENS) {
        (void)snprintf(text, sizeof(text), "token_budget is at most %d", SNP_MCP_AGENT_TOKENS);
        say_error(task, "Error starting agent: ", text);
        return false;
    }
    if ((spec->iterations < 1 && json_object_get(task->args, "max_iterations") != NULL) ||
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

/* The task on one line. New reference, NULL when out of memory. */
static json_t *task_line(const struct snp_task *task)
{
    snp_autobuf struct snp_buf line = SNP_BUF(TASK_BYTES);
    const char *text = snp_task_arg(task, "task", "");

    return snp_text_line(&line, text, strlen(text), TASK_SHOWN) < 0 ? NULL : snp_text_json(&line);
}

static json_t *started_json(const struct snp_task *task, const json_t *head)
{
    const json_t *budget = json_object_get(head, "budget");
    double cost = json_number_value(json_object_get(budget, "cost_limit"));

    return json_pack("{s:O, s:s, s:o, s:{s:O, s:O, s:o}, s:O}", "run_id",
                     json_object_get(head, "run_id"), "status", "running", "task", task_line(task),
                     "config", "max_iterations", json_object_get(budget, "max_iterations"),
                     "token_budget", json_object_get(budget, "token_budget"), "cost_limit",
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
    say_object(task, started_json(task, head));
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

/* The id of the requested run. NULL: none can have it, and the task has ended. */
static const char *id_of(struct snp_task *task)
{
    const struct snp_mcp_options *options = &task->service->options;
    const char *id = snp_task_arg(task, "run_id", "");
    size_t n = strlen(id);

    if (n == 0) {
        say_error(task, "Error: ", "No run_id provided");
        return NULL;
    }
    if (n < SNP_AGENT_ID_MIN || n > SNP_AGENT_ID_LEN || strspn(id, "0123456789abcdef-") != n ||
        options->log_dir == NULL || options->agent_argv == NULL) {
        say_not_found(task);
        return NULL;
    }
    return id;
}

/* Clean and bounded (agent/cli/run/runs_call.c). */
static void on_answer(struct snp_task *task, const char *bytes, size_t n, bool ok)
{
    snp_autosay struct snp_say text = SNP_SAY(n + 1);

    snp_say(&text, "%.*s", (int)n, bytes);
    snp_task_say(task, !ok, &text);
}

/* `runs call DIR RUN`, followed by words. */
static void ask(struct snp_task *task, const char *id, const char *option, const char *value)
{
    const char *dir = task->service->options.log_dir;
    const char *const words[] = {"runs", "call", dir, id, option, value, NULL};
    const struct snp_lookup_spec spec = {.words = words,
                                         .late = "no answer from the run's record within 120 s",
                                         .answer = on_answer,
                                         .prints_errors = true};

    snp_lookup_start(task, &spec);
}

/* "running for 4 s; iteration 2: asking the model" */
static void on_describe(struct snp_mcp_call *call, struct snp_buf *out)
{
    const struct snp_task *task = call->state;
    const char *doing = snp_agent_doing(task->service, snp_task_arg(task, "run_id", ""));

    (void)!snp_buf_addf(out, "running for %llu s%s%s",
                        (unsigned long long)((snp_now_us() - task->started_us) / 1000000),
                        doing == NULL ? "" : "; ", doing == NULL ? "" : doing);
}

void snp_tool_agent_status(struct snp_task *task)
{
    const char *id = id_of(task);
    int64_t wait_s;
    char seconds[NUMBER_MAX];

    if (id == NULL) { /* the task is freed */
        return;
    }
    wait_s = snp_json_int(task->args, "wait", 0);
    if (wait_s <= 0) {
        ask(task, id, NULL, NULL);
        return;
    }
    if (task->call != NULL) {
        task->call->describe = on_describe;
    }
    (void)snprintf(seconds, sizeof(seconds), "%lld",
                   (long long)(wait_s < SNP_MCP_WAIT_S ? wait_s : SNP_MCP_WAIT_S));
    ask(task, id, "--wait", seconds);
}

void snp_tool_agent_cancel(struct snp_task *task)
{
    const char *id = id_of(task);

    if (id != NULL) {
        ask(task, id, "--cancel", snp_agent_is_ours(task->service, id) ? "--kill" : NULL);
    }
}
