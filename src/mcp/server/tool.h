/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_TOOL_H
#define SNP_MCP_SERVER_TOOL_H

/* Tools as rows: what they are called with, what is said of them, what runs. */

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
    const char *help;                     /* NULL = the name says it */
    double min;                           /* of numbers; both 0 = any */
    double max;                           /* of texts: bytes; 0 = any */
    const char *choices[SNP_ARG_CHOICES]; /* NULL-terminated unless full */
    const char *fallback;                 /* JSON, as the schema says it; NULL = none */
    bool is_json;                         /* of texts: any other value is taken as its JSON */
};

/* What a client may expect of a tool; hints only. */
enum {
    SNP_TOOL_READS = 1,      /* changes nothing */
    SNP_TOOL_DESTROYS = 2,   /* may remove what is not made again */
    SNP_TOOL_REPEATABLE = 4, /* twice is as once */
    SNP_TOOL_IN_SESSION = 8, /* has a session_id; calls with the same one run in order */
    SNP_TOOL_HAS_CELL = 16,  /* answers with a cell's result: data, too, for who asks */
    SNP_TOOL_BESIDE = 32,    /* runs no cell, so it need not wait for a job of its session */
    SNP_TOOL_FIRST = 64,     /* clients that show tools only when asked for show this one at once */
};

struct snp_tool {
    const char *name;
    const char *toolset; /* NULL: an alias, never listed unless named */
    const char *title;
    const char *description; /* {NAME} stands for a fact of that name */
    const struct snp_arg *args;
    unsigned flags;
    /* Ends, now or later, with one of snp_task_end's relatives (mcp/server/task.h). */
    void (*run)(struct snp_task *task);
    /* How it fails instead of as tools do; NULL = as they do. */
    void (*fail)(struct snp_task *task, const struct snp_err *err);
};

/*
 * Check arguments (an object) against the rows; numbers and booleans given as text become what they
 * mean. SNP_E_INVALID names the argument and what it must be.
 */
int snp_tool_args_check(const struct snp_tool *tool,
                        json_t *args,
                        struct snp_err *err) SNP_NODISCARD;
/*
 * A line on arguments that the tool does not have and that were passed over; nothing if there
 * is none.
 */
int snp_tool_args_unknown(const struct snp_tool *tool,
                          json_t *args,
                          struct snp_buf *out) SNP_NODISCARD;

/* The tools themselves; each in the file of its group. */
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
/* Is that the first line of a cell that one of our context tools ran? */
bool snp_tool_is_context_cell(const char *first_line);
void snp_tool_job_poll(struct snp_task *task);
void snp_tool_job_cancel(struct snp_task *task);
void snp_tool_agent_run(struct snp_task *task);
void snp_tool_agent_status(struct snp_task *task);
void snp_tool_agent_cancel(struct snp_task *task);
/* All that ask the index of the project. */
void snp_tool_lookup(struct snp_task *task);
/* snipara://standards: the team's standards, as contents of a resource. */
void snp_resource_standards(struct snp_task *task);
struct snp_mcp_sandboxes;
/* Kill what runs; tasks are not told. */
void snp_lookups_drop(struct snp_mcp_sandboxes *service);

#endif
