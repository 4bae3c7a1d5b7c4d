/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_TOOL_H
#define SNP_MCP_SERVER_TOOL_H

/* Tools as rows: arguments, descriptions, functions. */

#include <stdbool.h>

#include "base/buf.h"
#include "base/json.h"

struct snp_task;

enum snp_arg_type {
    SNP_ARG_STRING = 0,
    SNP_ARG_INTEGER,
    SNP_ARG_NUMBER,
    SNP_ARG_BOOLEAN,
    SNP_ARG_CHOICE,
};

enum {
    SNP_ARG_CHOICES = 5
};

#define SNP_ARG_WHOLE_MAX 1e15 /* every integer below it is exact as a double */

struct snp_arg {
    const char *name; /* NULL ends a table */
    enum snp_arg_type type;
    bool is_required;
    const char *help;                     /* NULL = the name is enough */
    double min;                           /* of numbers; both 0 = any */
    double max;                           /* of texts: bytes; 0 = any */
    const char *choices[SNP_ARG_CHOICES]; /* NULL-terminated unless full */
    const char *fallback;                 /* JSON, for the schema; NULL = none */
    bool is_json;                         /* of texts: other values are converted to JSON text */
};

/* Properties of a tool for clients; hints only. */
enum {
    SNP_TOOL_READS = 1,      /* changes nothing */
    SNP_TOOL_DESTROYS = 2,   /* may remove data irrecoverably */
    SNP_TOOL_REPEATABLE = 4, /* idempotent */
    SNP_TOOL_IN_SESSION = 8, /* has a session_id; calls with the same one run in order */
    SNP_TOOL_HAS_CELL = 16,  /* answers with a cell's result: also as data, on request */
    SNP_TOOL_BESIDE = 32,    /* runs no cell, so it need not wait for a job of its session */
    SNP_TOOL_FIRST = 64,     /* shown immediately by clients that load tools on demand */
};

struct snp_tool {
    const char *name;
    const char *toolset; /* NULL: an alias, listed only if named */
    const char *title;
    const char *description; /* {NAME} is replaced with the fact of that name */
    const struct snp_arg *args;
    unsigned flags;
    /* Ends, now or later, with one of the functions like snp_task_end (mcp/server/task.h). */
    void (*run)(struct snp_task *task);
    /* Its failures, if not in the form of tools; NULL = as tools. */
    void (*fail)(struct snp_task *task, const struct snp_err *err);
};

/*
 * Check arguments (an object) against the rows; numbers and booleans given as text are converted.
 * SNP_E_INVALID names the argument and the accepted values.
 */
int snp_tool_args_check(const struct snp_tool *tool,
                        json_t *args,
                        struct snp_err *err) SNP_NODISCARD;
/* Append a line on unknown arguments, which are ignored; nothing without such arguments. */
int snp_tool_args_unknown(const struct snp_tool *tool,
                          json_t *args,
                          struct snp_buf *out) SNP_NODISCARD;

/* The functions of tools; each in the file of its group. */
void snp_tool_execute_python(struct snp_task *task);
void snp_tool_execute_shell(struct snp_task *task);
void snp_tool_get_context(struct snp_task *task);
void snp_tool_set_context(struct snp_task *task);
void snp_tool_clear_context(struct snp_task *task);
void snp_tool_list_sessions(struct snp_task *task);
void snp_tool_destroy_session(struct snp_task *task);
void snp_tool_read_file(struct snp_task *task);
void snp_tool_write_file(struct snp_task *task);
void snp_tool_list_files(struct snp_task *task);
void snp_tool_view_image(struct snp_task *task);
void snp_tool_snapshot(struct snp_task *task);
void snp_tool_rollback(struct snp_task *task);
void snp_tool_fork(struct snp_task *task);
void snp_tool_history(struct snp_task *task);
/* Whether it is the first line of a cell that one of our context tools ran. */
bool snp_tool_is_context_cell(const char *first_line);
void snp_tool_job_poll(struct snp_task *task);
void snp_tool_job_cancel(struct snp_task *task);
void snp_tool_agent_run(struct snp_task *task);
void snp_tool_agent_status(struct snp_task *task);
void snp_tool_agent_cancel(struct snp_task *task);
/* All tools that query the index of the project. */
void snp_tool_lookup(struct snp_task *task);
/* snipara://standards: the team's standards, as contents of a resource. */
void snp_resource_standards(struct snp_task *task);

#endif
