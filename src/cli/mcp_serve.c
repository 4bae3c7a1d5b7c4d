/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mcp-serve`: the MCP server on standard input and output. Standard output holds protocol messages
 * and nothing else; what we have to say goes to standard error.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/mcp_clients.h"
#include "cli/policy.h"
#include "cli/tier.h"
#include "mcp/service.h"
#include "mcp/stdio.h"

static const struct snp_opt options[] = {
    {"tools",          0,   SNP_OPT_STRING, "LIST",
     "tools to show: all (default), core, or toolsets and names, separated by commas",         0                    },
    {"project",        0,   SNP_OPT_STRING, "DIR",
     "folder seen at /workspace (default: the working directory)",                             0                    },
    {"no-project",     0,   SNP_OPT_FLAG,   NULL,     "show no folder at /workspace",          0                    },
    {"env",            'e', SNP_OPT_STRING, "TIER",
     "where code runs: native, local (weaker), or auto (default): the strongest there is",     SNP_KEY_ENVIRONMENT  },
    {"template",       0,   SNP_OPT_STRING, "NAME",
     "what new sessions have: base, data (numpy, pandas), plot (matplotlib), or one of yours", SNP_KEY_TEMPLATE     },
    SNP_CLI_OPT_LIMITS,
    {"allow-degraded", 0,   SNP_OPT_FLAG,   NULL,
     "run even if this host lacks a control; results say which",                               0                    },
    {"require-exact",  0,   SNP_OPT_BOOL,   NULL,
     "refuse if a control or limit is less than whole here",                                   SNP_KEY_REQUIRE_EXACT},
    {"print-config",   0,   SNP_OPT_STRING, "CLIENT",
     "print what to write into the configuration of claude, claude-desktop, cursor, vscode, "
     "codex or gemini, and end",                                                               0                    },
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
    int r;

    *ret_path = NULL;
    if (snp_opts_flag(opts, "no-project", false)) {
        return dir == NULL
                   ? 0
                   : snp_fail(err, SNP_E_INVALID, "give --project or --no-project, not both");
    }
    r = snp_cli_project(config, dir == NULL ? "." : dir, "--project", ret_path, err);
    if (r < 0 && dir == NULL) {
        /* Clients start servers in / or the home folder as well. */
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
    json_t *exec = json_pack(
        "{s:o, s:s?, s:b, s:b, s:b, s:s, s:s?}", "defaults", snp_cli_session_defaults(config),
        "project", project, "allow_degraded", snp_opts_flag(opts, "allow-degraded", false),
        "require_exact", snp_config_bool(config, SNP_KEY_REQUIRE_EXACT), "transaction",
        snp_config_bool(config, SNP_KEY_TRANSACTION), "durability",
        snp_config_str(config, SNP_KEY_DURABILITY), "checkpoint",
        has_checkpoint ? snp_config_str(config, SNP_KEY_CHECKPOINT) : NULL);

    if (exec == NULL) {
        return snp_fail(err, SNP_E_INVALID, "the project's path is not UTF-8");
    }
    *ret = exec;
    return 0;
}

static int serve(const struct snp_mcp_options *given, struct snp_err *err)
{
    uv_loop_t loop;
    struct snp_mcp_sandboxes *service = NULL;
    struct snp_mcp_stdio_options stdio = {
        .in_fd = STDIN_FILENO,
        .out_fd = STDOUT_FILENO,
        .ending = snp_mcp_sandboxes_ending,
        .is_settled = snp_mcp_sandboxes_settled,
    };
    int r;

    if (uv_loop_init(&loop) < 0) {
        json_decref(given->exec);
        return snp_fail(err, SNP_E_SYS, "no event loop");
    }
    r = snp_mcp_sandboxes_new(&loop, given, &service, err);
    if (r == 0) {
        stdio.ctx = service;
        r = snp_mcp_stdio_run(&service->hub, &stdio, err);
    }
    snp_mcp_sandboxes_free(service);
    (void)uv_loop_close(&loop); /* a thread that still connects keeps it; we end anyway */
    return r;
}

static int run(struct snp_cli *cli, const struct snp_opts *opts)
{
    const char *client = snp_opts_str(opts, "print-config");
    snp_autoconfig struct snp_config *config = NULL;
    snp_autofree char *project = NULL;
    const char *tools = snp_opts_str(opts, "tools");
    struct snp_mcp_options given = {.tools = tools == NULL ? "all" : tools};
    struct snp_err err;
    int r;

    if (client != NULL) {
        return snp_mcp_client_print(cli, client);
    }
    r = snp_cli_config(cli, &snp_verb_mcp_serve, opts, &config, &err);
    r = r < 0 ? r : snp_cli_tier_check(config, &err);
    r = r < 0 ? r : snp_cli_template_check(config, &err);
    r = r < 0 ? r : project_find(cli, opts, config, &project, &err);
    r = r < 0 ? r : exec_make(opts, config, project, &given.exec, &err);
    if (r == 0) {
        given.project = project;
        given.trust = snp_config_str(config, SNP_KEY_TRUST_LEVEL);
        r = serve(&given, &err);
    }
    return r < 0 ? snp_cli_fail(cli, &err) : SNP_EXIT_OK;
}

const struct snp_verb snp_verb_mcp_serve = {
    .name = "mcp-serve",
    .summary = "serve AI clients over MCP, on standard input and output",
    .description =
        "An MCP server for Claude Code, Claude Desktop, Cursor, VS Code, Codex, Gemini and "
        "others: tools that run Python and shell commands in sandboxes. The client starts it; "
        "--print-config says how to tell it to. The working directory is the project, an "
        "overlay at /workspace. Sessions stay when the server ends.",
    .spec = {options, SNP_ARRAY_LEN(options), NULL, 0, false},
    .examples = "mcp-serve --print-config claude\n"
                "mcp-serve --tools core,files --memory 1g",
    .run = run,
};
