/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_TASK_H
#define SNP_MCP_SERVER_TASK_H

/*
 * One execution of a tool: for a call that waits, or in the background as a job. Tasks of one
 * session run one after the other, in order of arrival; others run concurrently.
 */

#include "mcp/server/task_record.h"

/* Start a tool for a call; arguments are checked. The call is answered now or later. */
void snp_task_start(struct snp_mcp_sandboxes *service,
                    struct snp_mcp_call *call,
                    const struct snp_tool *tool,
                    json_t *args);
/* Cancel: interrupt the cell; the result is discarded. */
void snp_task_cancel(struct snp_task *task);
/* The service exits: free all tasks silently. */
void snp_tasks_drop(struct snp_mcp_sandboxes *service);

/* End with a complete result of tools/call (consumed; NULL = out of memory). Frees the task. */
void snp_task_end(struct snp_task *task, json_t *result);

/* End with a text (a failed one: out of memory), followed by the notes, if any. */
void snp_task_say(struct snp_task *task, bool is_error, const struct snp_say *text);
void snp_task_sayf(struct snp_task *task, bool is_error, const char *fmt, ...) SNP_PRINTF(3, 4);
/* End with a protocol error; data: consumed, may be NULL. */
void snp_task_refuse(struct snp_task *task, int code, json_t *data, const char *message);
/* End with an error in this kind of task's form: a tool with "Error: MESSAGE". */
void snp_task_fail(struct snp_task *task, const struct snp_err *err);
#define snp_task_failf(task, code, ...)                 \
    do {                                                \
        struct snp_err snp_err_;                        \
        (void)snp_fail(&snp_err_, (code), __VA_ARGS__); \
        snp_task_fail((task), &snp_err_);               \
    } while (0)

/* Answer the call now; the task continues as a job. result: consumed. */
void snp_task_detach(struct snp_task *task, json_t *result);

/*
 * Ask the daemon; head consumed, NULL = out of memory. Output events go to task->cell, if
 * initialised (snp_cell_init). failed: NULL = snp_task_fail. If the request cannot be sent the task
 * has ended on return.
 */
void snp_task_ask(struct snp_task *task, json_t *head, snp_task_next next, snp_task_failed failed);
/* The same with bytes behind the head. */
void snp_task_send(struct snp_task *task,
                   json_t *head,
                   const void *raw,
                   size_t raw_len,
                   snp_task_next next,
                   snp_task_failed failed);

/* One cell in the task's session. */
struct snp_cell_spec {
    const char *code; /* Python; NULL: a command */
    size_t code_len;
    const char *input; /* standard input; NULL = none */
    size_t input_len;
    json_t *argv;          /* of a command; consumed */
    uint64_t wall_ms;      /* 0 = the configuration's */
    uint64_t memory_bytes; /* requested explicitly; 0 = the session's */
};
/* Run it; next: task->cell holds the output, head the result. As snp_task_ask otherwise. */
void snp_task_run_cell(struct snp_task *task,
                       const struct snp_cell_spec *spec,
                       snp_task_next next,
                       snp_task_failed failed);

/* Borrowed; the fallback if the argument is absent or null. */
const char *snp_task_arg(const struct snp_task *task, const char *name, const char *fallback);

#endif
