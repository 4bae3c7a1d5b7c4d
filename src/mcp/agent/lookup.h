/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_AGENT_LOOKUP_H
#define SNP_MCP_AGENT_LOOKUP_H

/*
 * Calls that a command of ours answers from the index of the project or the record of a run. It is
 * a separate process, so this one links neither; it ends with its call, after a time limit, and
 * with the server.
 */

#include "mcp/server/task.h"

struct snp_lookup_spec {
    const char *const *words; /* of the command, without the program; NULL-terminated */
    const char *cwd;          /* NULL = ours */
    const char *input;        /* its standard input, smaller than a pipe's capacity; NULL = none */
    const char *late;         /* the error if the time is over */
    /* Its output; ok: its exit status was 0. Must end the task. */
    void (*answer)(struct snp_task *task, const char *text, size_t n, bool ok);
    bool prints_errors; /* the output of a failed command is an answer, too */
};

/*
 * Start the command; the task ends with its output, or with an error: the last line of its standard
 * error.
 */
void snp_lookup_start(struct snp_task *task, const struct snp_lookup_spec *spec);

/* The server exits: kill running processes; tasks are not notified. */
void snp_lookups_drop(struct snp_mcp_sandboxes *service);

#endif
