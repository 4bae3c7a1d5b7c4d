/* SPDX-License-Identifier: Apache-2.0 */
/* The agent tools. Runs of models are not driven from here yet: they say so, and what to do instead. */
#include "base/str.h"
#include "mcp/task.h"

void snp_tool_agent_run(struct snp_task *task)
{
    if (snp_task_arg(task, "task", "")[0] == '\0') {
        snp_task_sayf(task, true, "Error: No task provided");
        return;
    }
    snp_task_sayf(task, true,
                  "Error starting agent: no model is configured for this server, which starts "
                  "no agents yet; `snipara-sandbox agent TASK` on a command line does, or work "
                  "on the task yourself with execute_python and execute_shell");
}

/* No run can have been started, so none is found. */
static void say_not_found(struct snp_task *task)
{
    const char *id = snp_task_arg(task, "run_id", "");

    if (id[0] == '\0') {
        snp_task_sayf(task, true, "Error: No run_id provided");
    } else {
        snp_task_sayf(task, true, "Error: Run '%.200s' not found", id);
    }
}

void snp_tool_agent_status(struct snp_task *task)
{
    say_not_found(task);
}

void snp_tool_agent_cancel(struct snp_task *task)
{
    say_not_found(task);
}
