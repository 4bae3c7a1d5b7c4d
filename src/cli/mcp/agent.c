/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How mcp-serve starts agents. Options of its command line become variables of the agent's
 * environment, which take precedence over .env and the configuration file there as options do here.
 * The agent reads those files, and the keys, itself.
 */
#include "cli/mcp/agent.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli/need.h"
#include "base/rundir.h"
#include "base/str.h"

/* Whether a variable of this name is set already. */
static bool is_set(const struct snp_mcp_agent *agent, const char *variable)
{
    size_t n = strcspn(variable, "=") + 1;

    for (size_t i = 0; i < agent->n_set; i++) {
        if (agent->set[i] != NULL && strncmp(agent->set[i], variable, n) == 0) {
            return true;
        }
    }
    return false;
}

static void environment_make(struct snp_mcp_agent *agent)
{
    size_t n = 0;
    size_t n_all = 0;

    while (environ[n] != NULL) {
        n++;
    }
    agent->env = snp_need(calloc(n + agent->n_set + 1, sizeof(*agent->env)));
    for (size_t i = 0; i < n; i++) {
        if (!is_set(agent, environ[i])) {
            agent->env[n_all++] = environ[i];
        }
    }
    for (size_t i = 0; i < agent->n_set; i++) {
        agent->env[n_all++] = agent->set[i];
    }
}

/* Options that stand for a key of the configuration. */
static void options_take(struct snp_mcp_agent *agent, const struct snp_opts *opts)
{
    const struct snp_opt_spec *spec = &snp_verb_mcp_serve.spec;

    agent->set = snp_need(calloc(spec->n_options + 1, sizeof(*agent->set)));
    for (size_t i = 0; i < spec->n_options; i++) {
        const struct snp_opt *opt = &spec->options[i];
        const char *text = snp_opts_text_at(opts, i);

        if (opt->key != SNP_KEY_NONE && text != NULL) {
            char *variable = snp_need_format(
                "%s=%s", snp_config_info((enum snp_config_key)opt->key)->env[0], text);

            agent->set[agent->n_set++] = variable;
        }
    }
}

static void args_make(struct snp_mcp_agent *agent,
                      const struct snp_opts *opts,
                      const char *project,
                      const struct snp_config *config)
{
    const char *file = snp_opts_str(opts, "config");
    size_t n = 0;

    agent->argv[n++] = agent->program;
    agent->argv[n++] = "agent";
    agent->argv[n++] = "--timeout";
    agent->argv[n++] = agent->timeout;
    if (snp_config_is_chosen(config, SNP_KEY_LOG_DIR)) { /* otherwise it must not look chosen
                                                          * there */
        agent->argv[n++] = "--log-dir";
        agent->argv[n++] = snp_config_str(config, SNP_KEY_LOG_DIR);
    }
    if (project == NULL) {
        agent->argv[n++] = "--no-project";
    } else {
        agent->argv[n++] = "--project";
        agent->argv[n++] = project;
    }
    if (file != NULL) {
        agent->argv[n++] = "--config";
        agent->argv[n++] = file;
    }
    if (snp_opts_flag(opts, "allow-degraded", false)) {
        agent->argv[n++] = "--allow-degraded";
    }
    agent->argv[n] = NULL;
}

int snp_mcp_agent_make(struct snp_mcp_agent *agent,
                       const struct snp_opts *opts,
                       const struct snp_config *config,
                       const char *project,
                       struct snp_err *err)
{
    int64_t wall_s = snp_config_int(config, SNP_KEY_TIMEOUT_SECONDS);
    int r = snp_own_program("snipara-sandbox", &agent->program, err);

    if (r == SNP_E_NOT_FOUND) {
        return 0;
    }
    if (r < 0) {
        return r;
    }
    options_take(agent, opts);
    environment_make(agent);
    agent->timeout = snp_need_format(
        "%lld", (long long)(wall_s > SNP_MCP_AGENT_WALL_S ? SNP_MCP_AGENT_WALL_S : wall_s));
    args_make(agent, opts, project, config);
    return 0;
}

void snp_mcp_agent_done(struct snp_mcp_agent *agent)
{
    for (size_t i = 0; i < agent->n_set; i++) {
        free(agent->set[i]);
    }
    free((void *)agent->set);
    free((void *)agent->env);
    free(agent->program);
    free(agent->timeout);
}
