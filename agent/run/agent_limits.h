/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_RUN_AGENT_LIMITS_H
#define SNP_RUN_AGENT_LIMITS_H

/* Default and maximum limits of agents. */

enum {
    SNP_AGENT_ITERATIONS = 10,
    SNP_AGENT_ITERATIONS_MAX = 50,
    SNP_AGENT_DEPTH = 3,
    SNP_AGENT_DEPTH_MAX = 5,
    SNP_AGENT_TOKENS = 400000,
    SNP_AGENT_TOOLS = 50,
    SNP_AGENT_TOOLS_MAX = 1000,
};

#define SNP_AGENT_COST_USD     2.0
#define SNP_AGENT_COST_USD_MAX 10.0

#endif
