/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_SERVER_SANDBOXES_H
#define SNP_MCP_SERVER_SANDBOXES_H

/* The record of our MCP server: its options, and the state shared by its parts. */

#include "client/connection.h"
#include "mcp/caps.h"
#include "mcp/kept.h"
#include "mcp/peer.h"

struct snp_task;
struct snp_job;
struct snp_agent;
struct snp_wait;

struct snp_mcp_options {
    json_t *exec; /* owned: members of every `exec` (docs/wire.md) except those of the
                          * cell */
    /* Renew `defaults` in exec before a cell; files of the project may have changed. */
    int (*renew)(void *ctx, json_t *defaults, struct snp_err *err);
    void *renew_ctx;
    const char *project;      /* borrowed; NULL = none */
    const char *missing_tier; /* borrowed: configured, but replaced by another here; NULL = none */
    const char *trust;        /* borrowed: the trust level to show */
    const json_t *facts;      /* borrowed: for the descriptions of tools; NULL = none */
    const char *tools;        /* borrowed: "all", "core", or a list of toolsets and tools */
    const char *log_dir;      /* borrowed: of the records of runs */
    /*
     * Borrowed, NULL-terminated: the command that runs an agent, without the arguments of a call
     * (mcp/agent/agent.h), and its environment. NULL: none can be run.
     */
    const char *const *agent_argv;
    const char *const *agent_env;
};

struct snp_mcp_sandboxes {
    struct snp_mcp_options options;
    uv_loop_t *loop;                                        /* borrowed */
    struct snp_connection connections[SNP_MCP_CONNECTIONS]; /* to the daemon */
    uv_poll_t poll; /* watches all of them, by their epoll descriptor */
    struct snp_mcp_hub hub;
    struct snp_mcp_service offered;
    json_t *tools;          /* owned: the answer to tools/list */
    struct snp_task *tasks; /* running and waiting, oldest first */
    struct snp_job *jobs;   /* oldest first */
    size_t n_jobs;
    uint64_t last_job; /* its number */
    json_t *ids;       /* owned: {name of a session: session_id it stands for} */
    json_t *keys;      /* owned: {name of a session: {key set by set_repl_context: true}} */
    struct snp_mcp_kept kept;
    struct snp_agent *agents; /* with live processes */
    size_t n_agents;
    struct snp_lookup *lookups; /* processes that answer from the index */
    struct snp_wait *waits;     /* calls that wait for an agent or a job */
};

#endif
