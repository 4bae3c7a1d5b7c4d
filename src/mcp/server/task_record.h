/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_TASK_RECORD_H
#define SNP_MCP_SERVER_TASK_RECORD_H

/* The record of a task. */

#include "base/policy/session_name.h"
#include "mcp/server/cell.h"
#include "mcp/server/sandboxes.h"
#include "mcp/server/tool.h"

struct snp_task;

/* Continuations after an answer of the daemon, and after a failure. All borrowed until return. */
typedef void (*snp_task_next)(struct snp_task *task, json_t *head);
typedef void (*snp_task_failed)(struct snp_task *task, const struct snp_err *err);

/* Embedded in a task; the fetched bytes are in task->work. */
struct snp_fetch {
    char *handle;    /* owned: of kept output; NULL = a file is read */
    char *path;      /* owned: of the file; with a handle the stream */
    uint64_t from;   /* first byte requested */
    uint64_t want;   /* bytes requested */
    uint64_t size;   /* of the whole */
    bool is_end;     /* includes the last byte */
    bool was_opened; /* the session was opened for this */
    void (*done)(struct snp_task *task);
    snp_task_failed failed;
};

enum snp_task_state {
    SNP_TASK_WAITING = 0, /* for an earlier one of its session */
    SNP_TASK_RUNNING,
};

/* A request that may be repeated once (mcp/server/fetch.h). */
struct snp_again {
    json_t *head; /* owned */
    struct snp_buf raw;
    snp_task_next next;
};

struct snp_task {
    struct snp_mcp_sandboxes *service;
    struct snp_mcp_call *call; /* NULL: no caller (a job, or cancelled) */
    struct snp_job *job;       /* NULL: not in the background */
    const struct snp_tool *tool;
    json_t *args;                           /* owned: an object */
    char session[SNP_SESSION_NAME_MAX + 1]; /* the session's name at the daemon; "" = none */
    const char *session_id;                 /* the caller's; borrowed from args or static */
    enum snp_task_state state;
    bool is_cancelled;
    const void *client;                /* only compared: the calling client */
    struct snp_connection *connection; /* borrowed: to the daemon, while it runs */
    uint32_t open_id;                  /* request to the daemon; 0 = none */
    struct snp_mcp_cell cell;          /* the cell that runs or ran last, or a recorded one */
    bool is_cell;                      /* it runs cells, whose displays are kept */
    /* bytes of its output sent as progress (mcp/server/progress.h) */
    size_t told[SNP_CELL_STREAMS];
    struct snp_buf notes; /* lines to be added to the result */
    uint64_t started_us;
    /* For tools with several steps. */
    snp_task_next next;
    snp_task_failed failed;
    const char *raw; /* of the answer, while `next` runs; borrowed */
    size_t raw_len;
    struct snp_buf work;
    struct snp_fetch fetch;
    struct snp_again again;
    bool was_retried;       /* the session keeps its policy */
    struct snp_err refusal; /* why the first try failed */

    struct snp_task *later; /* in the service's list */
};

#endif
