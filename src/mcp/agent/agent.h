/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_MCP_AGENT_AGENT_H
#define SNP_MCP_AGENT_AGENT_H

/*
 * Runs of agents: each is a separate `snipara-sandbox agent`, started with this server's settings
 * and keys, with its task on standard input. Its work is read from its record by `runs call`; only
 * data that lives as long as the process is here.
 */

#include "mcp/server/sandboxes.h"

enum {
    SNP_AGENT_DOING_MAX = 80,
    SNP_AGENT_ID_LEN = 36, /* of a trajectory */
    SNP_AGENT_ID_MIN = 8,  /* of the beginning that names one */
};

struct snp_agent_spec {
    const char *task;   /* UTF-8 */
    int64_t iterations; /* 0 = the agent's default */
    int64_t tokens;     /* 0 = as configured */
    bool has_cost;      /* false = as configured */
    double cost_usd;    /* below 0 = no limit */
};

/* The record of an agent has begun, or err: it could not start. head: borrowed. */
typedef void (*snp_agent_started)(void *ctx, const json_t *head, const struct snp_err *err);

struct snp_agent;

/*
 * Start one. started: called once, from the loop, never after snp_agents_drop. SNP_E_LIMIT: too
 * many running; SNP_E_UNSUPPORTED: this server starts none.
 */
int snp_agent_start(struct snp_mcp_sandboxes *service,
                    const struct snp_agent_spec *spec,
                    snp_agent_started started,
                    void *ctx,
                    struct snp_err *err) SNP_NODISCARD;

/* id, here and below: of its trajectory, or the first 8 characters or more. */
bool snp_agent_is_ours(const struct snp_mcp_sandboxes *service, const char *id);

/* Current activity of one of our agents, a clean line; NULL: not ours, or ended. Borrowed. */
const char *snp_agent_doing(const struct snp_mcp_sandboxes *service, const char *id);

/* Send a signal to one of ours. False: not ours, or ended. */
bool snp_agent_signal(const struct snp_mcp_sandboxes *service, const char *id, int number);

/* The server exits: detach all; they end as interrupted. */
void snp_agents_leave(struct snp_mcp_sandboxes *service);
/* Whether all processes have ended. */
bool snp_agents_are_gone(const struct snp_mcp_sandboxes *service);
/* Kill the remaining ones. */
void snp_agents_drop(struct snp_mcp_sandboxes *service);

#endif
