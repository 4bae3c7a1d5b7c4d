/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mcp-serve`: the MCP server on standard input and output. Standard output carries protocol
 * messages only; other output goes to standard error. For --http it becomes another program
 * (cli/mcp/serve.h).
 */
#include "cli/mcp/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli/project_dir.h"
#include "base/cli/spawn.h"
#include "base/session/policy.h"
#include "base/session/tier.h"
#include "base/str.h"
#include "base/wire/exec.h"
#include "cli/mcp/agent.h"
#include "cli/mcp/clients.h"
#include "cli/mcp/facts.h"
#include "mcp/stdio.h"

static const struct snp_opt options[] = {
    SNP_MCP_OPT_SERVED,
    {"http", 0, SNP_OPT_STRING, "[HOST:]PORT",
     "serve over HTTP instead, for any number of clients: on 127.0.0.1 unless a HOST is given; "
     "unix:/PATH for a socket",
     0},
    {"token-file", 0, SNP_OPT_STRING, "FILE",
     "with --http: file with the bearer token of clients; made if it does not exist (default: "
     "mcp-token in the state folder)",
     0},
    {"no-token", 0, SNP_OPT_FLAG, NULL,
     "with --http: let every user of this machine connect without a token", 0},
    {"allow-host", 0, SNP_OPT_LIST, "NAME",
     "with --http: another host name that clients and web pages may use (repeatable)", 0},
    {"allow-remote", 0, SNP_OPT_FLAG, NULL,
     "with --http: allow a HOST that other machines can reach", 0},
    {"print-config", 0, SNP_OPT_STRING, "CLIENT",
     "print the configuration for claude, claude-desktop, cursor, vscode, codex, gemini or qwen, "
     "and exit",
     0},
    {"json", 0, SNP_OPT_FLAG, NULL, "with --http: print the address, and the token's file, as JSON",
     0},
    SNP_CLI_OPT_CONFIG,
};

/* The folder at /workspace; NULL in *ret_path: none. */
static int project_find(struct snp_cli *cli,
                        const struct snp_opts *opts,
                        const struct snp_config *config,
                        char **ret_path,
                        struct snp_err *err)
{
    const char *dir = snp_opts_str(opts, "project");
    const char *shown;
    int r;

    *ret_path = NULL;
    if (snp_opts_flag(opts, "no-project", false)) {
        return dir == NULL
                   ? 0
                   : snp_fail(err, SNP_E_INVALID, "give --project or --no-project, not both");
    }
    shown = dir == NULL ? snp_cli_workspace(config, snp_cli_tier_to_stay(config), ".") : dir;
    if (shown == NULL) {
        return 0;
    }
    r = snp_project_shown(shown, "--project", ret_path, err);
    if (r < 0 && dir == NULL) {
        /* Clients may also start servers in / or the home folder. */
        snp_cli_warn(cli, "no project: %s", err->msg);
        return 0;
    }
    return r;
}

static int exec_make(const struct snp_opts *opts,
                     const struct snp_config *config,
                     const char *project,
                     json_t **ret,
                     struct snp_err *err)
{
    bool has_checkpoint = snp_config_origin(config, SNP_KEY_CHECKPOINT) != SNP_ORIGIN_DEFAULT;
    bool has_template = snp_config_origin(config, SNP_KEY_TEMPLATE) != SNP_ORIGIN_DEFAULT;
    const char *tier = snp_cli_tier_to_stay(config); /* each session has a name */
    snp_autojson json_t *defaults = NULL;
    json_t *exec;

    SNP_TRY(snp_cli_session_defaults(config, tier, true, &defaults, err));
    /* A session opened with another tier or template is refused. */
    exec =
        SNP_WRITE(snp_exec_policy, .defaults = defaults, .project = project,
                  .tier = snp_cli_tier_is_chosen(config) ? tier : NULL,
                  .template = has_template ? snp_config_str(config, SNP_KEY_TEMPLATE) : NULL,
                  .allow_degraded = snp_opts_flag(opts, "allow-degraded", false),
                  .require_exact = snp_config_bool(config, SNP_KEY_REQUIRE_EXACT),
                  .transaction = snp_config_bool(config, SNP_KEY_TRANSACTION),
                  .durability = snp_config_str(config, SNP_KEY_DURABILITY),
                  .checkpoint = has_checkpoint ? snp_config_str(config, SNP_KEY_CHECKPOINT) : NULL);

    if (exec == NULL) {
        return snp_fail(err, SNP_E_INVALID, "the project's path is not UTF-8");
    }
    *ret = exec;
    return 0;
}

static int renew(void *ctx, json_t *defaults, struct snp_err *err)
{
    return snp_cli_session_renew(ctx, defaults, err);
}

static int serve(const struct snp_mcp_options *given,
                 snp_mcp_transport transport,
                 void *ctx,
                 struct snp_err *err)
{
    uv_loop_t loop;
    struct snp_mcp_sandboxes *service = NULL;
    int r;

    if (uv_loop_init(&loop) < 0) {
        json_decref(given->exec);
        return snp_fail(err, SNP_E_SYS, "no event loop");
    }
    r = snp_mcp_sandboxes_new(&loop, given, &service, err);
    if (r == 0) {
        r = transport(service, ctx, err);
    }
    snp_mcp_sandboxes_free(service);
    (void)uv_loop_close(&loop); /* open handles end with the process */
    return r;
}

int snp_mcp_serve(struct snp_cli *cli,
                  const struct snp_opts *opts,
                  snp_mcp_transport transport,
                  void *ctx,
                  struct snp_err *err)
{
    const struct snp_config *config = NULL;
    snp_autofree char *project = NULL;
    snp_autojson json_t *facts = NULL;
    const char *tools = snp_opts_str(opts, "tools");
    struct snp_mcp_options given = {.tools = tools};
    snp_cleanup(snp_mcp_agent_done) struct snp_mcp_agent agent = {0};
    int r;

    r = snp_cli_config(cli, opts, &config, err);
    r = r < 0 ? r : snp_cli_tier_check(config, err);
    if (r == 0) {
        snp_cli_tier_stand_in(cli, config, snp_cli_tier_to_stay(config));
    }
    r = r < 0 ? r : snp_cli_template_check(config, err);
    r = r < 0 ? r : project_find(cli, opts, config, &project, err);
    r = r < 0 ? r : snp_mcp_agent_make(&agent, opts, config, project, err);
    r = r < 0 ? r : exec_make(opts, config, project, &given.exec, err);
    if (r == 0) {
        const char *script = snp_config_str(config, SNP_KEY_REPLAY_FILE);
        bool has_model = snp_config_is_chosen(config, SNP_KEY_MODEL) ||
                         (snp_streq(snp_config_str(config, SNP_KEY_BACKEND), "replay") &&
                          script != NULL && script[0] != '\0');

        if (tools == NULL) { /* agents cost money: offered only if a model is configured */
            given.tools = has_model ? "all,agent" : "all";
        }
        given.renew = renew;
        given.renew_ctx = (void *)(uintptr_t)config; /* only read */
        given.log_dir = snp_config_str(config, SNP_KEY_LOG_DIR);
        given.agent_argv = agent.argv[0] == NULL ? NULL : agent.argv;
        given.agent_env = agent.env;
        given.project = project;
        given.missing_tier = snp_cli_tier_missing(config);
        facts = snp_mcp_facts(config, given.exec, project);
        given.facts = facts;
        given.trust = snp_config_str(config, SNP_KEY_TRUST_LEVEL);
        r = serve(&given, transport, ctx, err);
    }
    return r;
}

static int stdio_run(struct snp_mcp_sandboxes *service, void *ctx, struct snp_err *err)
{
    const struct snp_mcp_stdio_options stdio = {
        .in_fd = STDIN_FILENO,
        .out_fd = STDOUT_FILENO,
        .ending = snp_mcp_sandboxes_ending,
        .is_settled = snp_mcp_sandboxes_settled,
        .ctx = service,
    };

    (void)ctx;
    return snp_mcp_stdio_run(&service->hub, &stdio, err);
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    static const char *const of_http[] = {"token-file", "no-token", "allow-host", "allow-remote",
                                          "json"};
    const char *client = snp_opts_str(opts, "print-config");
    struct snp_err err;
    int r;

    if (client != NULL) {
        return snp_mcp_client_print(cli, opts, client);
    }
    if (snp_opts_str(opts, "http") != NULL) {
        (void)!snp_become("mcp-http", cli->argv, &err);
        return snp_cli_fail(cli, &err);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(of_http); i++) {
        if (snp_opts_given(opts, of_http[i])) {
            return snp_cli_usage(cli, "--%s needs --http", of_http[i]);
        }
    }
    r = snp_mcp_serve(cli, opts, stdio_run, NULL, &err);
    return r < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
}

const struct snp_verb snp_verb_mcp_serve = {
    .name = "mcp-serve",
    .summary = "serve AI clients over MCP, on standard input and output or HTTP",
    .description = "Serve Claude Code, Claude Desktop, Cursor, VS Code, Codex, Gemini and other "
                   "MCP clients: tools that run Python and shell commands in sandboxes. The client "
                   "starts the server; mcp-install configures the client. The working directory is "
                   "the project, shown at /workspace and never changed. Sessions stay when the "
                   "server ends. With --http clients connect to a server that you start, and send "
                   "the bearer token that its first start created.",
    .spec = SNP_OPTIONS(options),
    .asks_models = true,
    .examples = "mcp-serve --print-config claude\n"
                "mcp-serve --tools core,files --memory 1g\n"
                "mcp-serve --http 8765",
    .run = run,
};
