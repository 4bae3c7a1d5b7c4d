/* SPDX-License-Identifier: Apache-2.0 */
/* `mcp`: call any MCP server. The options and help of its verbs. */
#include "cli/server/ask.h"
#include "main/verbs.h"

/* Rows of all verbs. */
/* clang-format off */
#define SERVER_ROWS                                                                              \
    {"url", 0, SNP_OPT_STRING, "URL", "the server's URL, in place of a command after --", 0},    \
    {"token-file", 0, SNP_OPT_STRING, "PATH",                                                    \
     "file with the bearer token for the URL (default: the variable SNIPARA_SANDBOX_MCP_TOKEN)", \
      0},                                                                                        \
    {"header-file", 0, SNP_OPT_STRING, "PATH",                                                   \
     "file with a header for the URL in each line, as in 'X-API-Key: ...'", 0},                  \
    {"ca-file", 0, SNP_OPT_STRING, "PATH",                                                       \
     "certificates to trust instead of the system's", 0},                                        \
    {"set-env", 0, SNP_OPT_LIST, "NAME=VALUE", "a variable for the command (repeatable)", 0},    \
    {"pass-env", 0, SNP_OPT_LIST, "NAME", "pass your variable NAME to the command (repeatable)", \
     0},                                                                                         \
    {"protocol", 0, SNP_OPT_STRING, "ERA",                                                       \
     "auto (default), modern (2026-07-28 only) or legacy (with a handshake)", 0},                \
    {"timeout", 0, SNP_OPT_FLOAT, "S",                                                           \
     "seconds for opening, and for each request: 0.1 to 3600 (default 60)", 0},                  \
    {"accept-defaults", 0, SNP_OPT_FLAG, NULL,                                                   \
     "answer the server's questions with the defaults that it names", 0},                        \
    {"verbose", 'v', SNP_OPT_FLAG, NULL,                                                         \
     "show progress, and what the command writes to its standard error", 0},                     \
    SNP_CLI_OPT_JSON
/* clang-format on */

static const struct snp_opt options[] = {SERVER_ROWS};

static const struct snp_opt tools_options[] = {
    SERVER_ROWS,
    {"pins", 0, SNP_OPT_STRING, "PATH",
     "compare the tools with the fingerprints in this file; made if it does not exist", 0},
};

static const struct snp_opt call_options[] = {
    SERVER_ROWS,
    {"pins", 0, SNP_OPT_STRING, "PATH",
     "refuse a tool that differs from its fingerprint in this file", 0},
    {"arg", 'a', SNP_OPT_LIST, "NAME=VALUE",
     "one argument (repeatable): a text, or JSON if the tool expects another type", 0},
};

static const struct snp_opt_arg server_args[] = {
    {"-- COMMAND", "the server's command and its arguments, instead of --url", 0, 0},
};
static const struct snp_opt_arg call_args[] = {
    {"TOOL", "the tool", 1, 1},
    {"ARGUMENTS", "a JSON object; - reads it from standard input", 0, 1},
    {"-- COMMAND", "the server's command and its arguments, instead of --url", 0, 0},
};
static const struct snp_opt_arg read_args[] = {
    {"URI", "the resource", 1, 1},
    {"-- COMMAND", "the server's command and its arguments, instead of --url", 0, 0},
};
static const struct snp_opt_arg prompt_args[] = {
    {"PROMPT", "the prompt", 1, 1},
    {"-- COMMAND", "the server's command and its arguments, instead of --url", 0, 0},
};
static const struct snp_opt prompt_options[] = {
    SERVER_ROWS,
    {"arg", 'a', SNP_OPT_LIST, "NAME=VALUE", "one argument (repeatable)", 0},
};

/* The verbs ------------------------------------------------------------------------------- */

static const struct snp_verb verb_info = {
    .name = "info",
    .summary = "show a server's name, protocol and capabilities",
    .description = "Connect to a server, and show the name it gives, the protocol version "
                   "agreed on, and what it offers.",
    .spec = SNP_SPEC(options, server_args),
    .examples = "mcp info -- snipara-sandbox mcp-serve\n"
                "mcp info --url https://example.com/mcp --token-file token",
    .run = snp_mcp_ask_info,
};

static const struct snp_verb verb_tools = {
    .name = "tools",
    .summary = "list a server's tools",
    .description = "List the tools of a server. Unusable definitions are left out, with a "
                   "warning. --pins records a fingerprint of every definition the first time; "
                   "later it reports every change and exits with 1.",
    .spec = SNP_SPEC(tools_options, server_args),
    .examples = "mcp tools -- snipara-sandbox mcp-serve\n"
                "mcp tools --json --pins tools.pins -- npx some-server\n"
                "mcp tools --url http://127.0.0.1:8000/mcp",
    .exit_codes = "0  done\n"
                  "1  failed, or a tool differs from its fingerprint\n"
                  "2  usage error; nothing was done",
    .run = snp_mcp_ask_tools,
};

static const struct snp_verb verb_call = {
    .name = "call",
    .summary = "call a tool",
    .description = "Call a tool and print the texts of its result; --json prints the whole result, "
                   "also of a failed call. The server's questions are refused unless "
                   "--accept-defaults is given.",
    .spec = SNP_SPEC(call_options, call_args),
    .examples = "mcp call execute_python '{\"code\": \"6 * 7\"}' -- snipara-sandbox mcp-serve\n"
                "mcp call execute_python -a code='6 * 7' -- ssh HOST snipara-sandbox mcp-serve\n"
                "mcp call search --url https://example.com/mcp --token-file token - <query.json",
    .exit_codes = "0  the tool succeeded\n"
                  "1  the tool failed, or could not be called\n"
                  "2  usage error; nothing was called",
    .run = snp_mcp_ask_call,
};

static const struct snp_verb verb_resources = {
    .name = "resources",
    .summary = "list a server's resources",
    .spec = SNP_SPEC(options, server_args),
    .examples = "mcp resources -- snipara-sandbox mcp-serve",
    .run = snp_mcp_ask_resources,
};

static const struct snp_verb verb_read = {
    .name = "read",
    .summary = "read a resource",
    .description = "Print a resource: text as it is, other contents as bytes, which are not "
                   "written to a terminal.",
    .spec = SNP_SPEC(options, read_args),
    .examples = "mcp read snipara://session/demo/files/ -- snipara-sandbox mcp-serve\n"
                "mcp read file:///a.png --url https://example.com/mcp >a.png",
    .run = snp_mcp_ask_read,
};

static const struct snp_verb verb_prompts = {
    .name = "prompts",
    .summary = "list a server's prompts",
    .spec = SNP_SPEC(options, server_args),
    .examples = "mcp prompts -- snipara-sandbox mcp-serve",
    .run = snp_mcp_ask_prompts,
};

static const struct snp_verb verb_prompt = {
    .name = "prompt",
    .summary = "fill in a prompt",
    .spec = SNP_SPEC(prompt_options, prompt_args),
    .examples = "mcp prompt repair -a command='make test' -- snipara-sandbox mcp-serve",
    .run = snp_mcp_ask_prompt,
};

static const struct snp_verb *const below[] = {
    &verb_info, &verb_tools,   &verb_call,   &verb_resources,
    &verb_read, &verb_prompts, &verb_prompt, NULL,
};

const struct snp_verb snp_verb_mcp = {
    .name = "mcp",
    .summary = "use any MCP server: tools, resources, prompts",
    .description = "Connect to an MCP server of the current or the legacy protocol: a command "
                   "after --, which is started without a shell and with few variables, or a URL. "
                   "Servers are not trusted: everything has limits, and control characters never "
                   "reach a terminal.",
    .examples = "mcp tools -- snipara-sandbox mcp-serve\n"
                "mcp call execute_python -a code='6 * 7' -- snipara-sandbox mcp-serve\n"
                "mcp info --url https://example.com/mcp",
    .verbs = below,
};
