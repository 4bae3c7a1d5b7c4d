/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_WAIT_H
#define SNP_MCP_SERVER_WAIT_H

/* Calls that wait for an event by polling, up to a time limit. */

#include "mcp/server/task.h"

struct snp_wait_spec {
    uint64_t ms;
    /* Whether the event happened; borrowed: what. */
    bool (*is_over)(const struct snp_task *task, const char *what);
    /* The event happened (true), or the time is over: must end *task*. */
    void (*done)(struct snp_task *task, const char *what, bool is_over);
    char *what; /* consumed */
};

/* SNP_E_NOMEM. A task whose call is cancelled ends silently. */
int snp_wait(struct snp_task *task,
             const struct snp_wait_spec *spec,
             struct snp_err *err) SNP_NODISCARD;

/* The server exits: drop all silently. */
void snp_waits_drop(struct snp_mcp_sandboxes *service);

#endif
