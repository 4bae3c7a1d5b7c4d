/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_WAIT_H
#define SNP_MCP_SERVER_WAIT_H

/* Calls that wait for something to happen: a look, again and again, until then or for so long. */

#include "mcp/server/task.h"

struct snp_wait_spec {
    uint64_t ms;
    /* Whether it has happened; borrowed: what. */
    bool (*is_over)(const struct snp_task *task, const char *what);
    /* It has (true), or the time is over: *task* is to be ended. */
    void (*done)(struct snp_task *task, const char *what, bool is_over);
    char *what; /* consumed */
};

/* SNP_E_NOMEM. A task whose call is cancelled ends without a word. */
int snp_wait(struct snp_task *task,
             const struct snp_wait_spec *spec,
             struct snp_err *err) SNP_NODISCARD;

/* The server ends: without a word to anybody. */
void snp_waits_drop(struct snp_mcp_sandboxes *service);

#endif
