/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of configuration keys. Loader, `config show`, command line and documents read
 * this and nothing else. Rows of the limits repeat names and defaults of
 * policy/limits.c in the form people write; a unit test holds the two together.
 */

#include "base/str.h"
#include "config/config.h"

/* The two prefixes, and before them a name of its own. */
#define ENV(suffix)                                    \
    {                                                  \
        "SNIPARA_SANDBOX_" suffix, "RLM_" suffix, NULL \
    }
#define ENV_OWN(name, suffix)                          \
    {                                                  \
        name, "SNIPARA_SANDBOX_" suffix, "RLM_" suffix \
    }

static const struct snp_config_info table[SNP_KEY_N] = {
    [SNP_KEY_BACKEND] =
        {
                           .name = "backend",
                           .type = SNP_CONFIG_STRING,
                           .fallback = "litellm",
                           .env = ENV("BACKEND"),
                           .choices = {"litellm", "openai", "anthropic", "gemini", "replay"},
                           .section = "Runtime",
                           .row = "Backend",
                           .help = "who asks models",
                           },
    [SNP_KEY_MODEL] =
        {
                           .name = "model",
                           .type = SNP_CONFIG_STRING,
                           .trust = SNP_CONFIG_NAME,
                           .fallback = "gpt-4o-mini",
                           .env = ENV("MODEL"),
                           .section = "Runtime",
                           .row = "Model",
                           .help = "model that runs and agents ask",
                           },
    [SNP_KEY_TEMPERATURE] =
        {
                           .name = "temperature",
                           .type = SNP_CONFIG_FLOAT,
                           .trust = SNP_CONFIG_FREE,
                           .fallback = "0.0",
                           .env = ENV("TEMPERATURE"),
                           .min = 0,
                           .max = 2,
                           .section = "Runtime",
                           .row = "Temperature",
                           .help = "sampling temperature",
                           },
    [SNP_KEY_BASE_URL] =
        {
                           .name = "base_url",
                           .type = SNP_CONFIG_STRING,
                           .env = ENV("BASE_URL"),
                           .section = "Runtime",
                           .row = "Base URL",
                           .help = "address of the model's API; not set: the provider's",
                           },
    [SNP_KEY_MODEL_RETRIES] =
        {
                           .name = "model_retries",
                           .type = SNP_CONFIG_INT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "3",
                           .env = ENV("MODEL_RETRIES"),
                           .min = 0,
                           .max = 20,
                           .section = "Runtime",
                           .row = "Model retries",
                           .help = "retries of a request after a temporary failure",
                           },
    [SNP_KEY_PRICE_FILE] =
        {
                           .name = "price_file",
                           .type = SNP_CONFIG_PATH,
                           .env = ENV("PRICE_FILE"),
                           .help = "prices of models, looked up before the built-in ones",
                           },
    [SNP_KEY_REPLAY_FILE] =
        {
                           .name = "replay_file",
                           .type = SNP_CONFIG_PATH,
                           .env = ENV("REPLAY_FILE"),
                           .help = "answers of the backend replay",
                           },
    [SNP_KEY_RECORD_FILE] =
        {
                           .name = "record_file",
                           .type = SNP_CONFIG_PATH,
                           .env = ENV("RECORD_FILE"),
                           .help = "file that records answers of models for a replay",
                           },
    [SNP_KEY_ENVIRONMENT] =
        {
                           .name = "environment",
                           .type = SNP_CONFIG_STRING,
                           .trust = SNP_CONFIG_SAFE,
                           .safe = {"native", "docker", "wasm", "vm"},
                           .fallback = "auto",
                           .env = ENV("ENVIRONMENT"),
                           .choices = {"auto", "docker", "wasm", "vm"},
                           .is_tier = true,
                           .section = "Runtime",
                           .row = "Environment",
                           .help = "isolation tier",
                           },
    [SNP_KEY_TRUST_LEVEL] =
        {
                           .name = "trust_level",
                           .type = SNP_CONFIG_STRING,
                           .trust = SNP_CONFIG_SAFE,
                           .safe = {"docker"},
                           .fallback = "sandboxed",
                           .env = ENV("TRUST_LEVEL"),
                           .choices = {"sandboxed", "docker", "local"},
                           .section = "Runtime",
                           .row = "Trust level",
                           .help = "kind of session of the MCP server",
                           },
    [SNP_KEY_TEMPLATE] =
        {
                           .name = "template",
                           .type = SNP_CONFIG_STRING,
                           .trust = SNP_CONFIG_FREE,
                           .fallback = "base",
                           .env = ENV("TEMPLATE"),
                           .section = "Runtime",
                           .row = "Template",
                           .help =
                "template of new sessions: base, data, plot or one that template list shows", },
    [SNP_KEY_REQUIRE_EXACT] =
        {
                           .name = "require_exact",
                           .type = SNP_CONFIG_BOOL,
                           .trust = SNP_CONFIG_FREE,
                           .fallback = "false",
                           .env = ENV("REQUIRE_EXACT"),
                           .section = "Runtime",
                           .row = "Require exact",
                           .help = "refuse to run where a control or limit is missing or only approximate",
                           },
    [SNP_KEY_DURABILITY] =
        {
                           .name = "durability",
                           .type = SNP_CONFIG_STRING,
                           .fallback = "synced",
                           .env = ENV("DURABILITY"),
                           .choices = {"synced", "process"},
                           .section = "Sessions",
                           .row = "Durability",
                           .help = "what an answered result survives: synced, a power cut; process, a crash "
                    "of the daemon", },
    [SNP_KEY_CHECKPOINT] =
        {
                           .name = "checkpoint",
                           .type = SNP_CONFIG_STRING,
                           .trust = SNP_CONFIG_SAFE,
                           .safe = {"after", "cell"},
                           .fallback = "idle",
                           .env = ENV("CHECKPOINT"),
                           .choices = {"idle", "after", "cell", "off"},
                           .section = "Sessions",
                           .row = "Checkpoint",
                           .help =
                "when a session is saved: idle, a moment after its last cell; after, from each "
                "answer on, beside what comes next; cell, before each answer; off", },
    [SNP_KEY_TRANSACTION] =
        {
                           .name = "transaction",
                           .type = SNP_CONFIG_BOOL,
                           .fallback = "true",
                           .env = ENV("TRANSACTION"),
                           .section = "Sessions",
                           .row = "Transaction",
                           .help = "undo what a cell of a session did if it has to be killed",
                           },
    [SNP_KEY_DOCKER_IMAGE] =
        {
                           .name = "docker_image",
                           .type = SNP_CONFIG_STRING,
                           .fallback = "python:3.11-slim",
                           .env = ENV("DOCKER_IMAGE"),
                           .section = "Docker",
                           .row = "Image",
                           .help = "image of the docker tier",
                           },
    [SNP_KEY_DOCKER_CPUS] =
        {
                           .name = "docker_cpus",
                           .type = SNP_CONFIG_FLOAT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "1.0",
                           .env = ENV("DOCKER_CPUS"),
                           .min = 0.01,
                           .max = 1024,
                           .section = "Docker",
                           .row = "CPUs",
                           .help = "processors; the sandbox's cpus where that is not set",
                           },
    [SNP_KEY_DOCKER_MEMORY] =
        {
                           .name = "docker_memory",
                           .type = SNP_CONFIG_STRING,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "512m",
                           .env = ENV("DOCKER_MEMORY"),
                           .section = "Docker",
                           .row = "Memory",
                           .help = "memory; the sandbox's memory where that is not set",
                           },
    [SNP_KEY_DOCKER_NETWORK_DISABLED] =
        {
                           .name = "docker_network_disabled",
                           .type = SNP_CONFIG_BOOL,
                           .fallback = "true",
                           .env = ENV("DOCKER_NETWORK_DISABLED"),
                           .section = "Docker",
                           .row = "Network disabled",
                           .help = "containers have no network",
                           },
    [SNP_KEY_DOCKER_MOUNT_WORKSPACE] =
        {
                           .name = "docker_mount_workspace",
                           .type = SNP_CONFIG_BOOL,
                           .trust = SNP_CONFIG_FREE,
                           .fallback = "true",
                           .env = ENV("DOCKER_MOUNT_WORKSPACE"),
                           .section = "Docker",
                           .row = "Workspace mount",
                           .help = "the workspace is visible in containers",
                           },
    [SNP_KEY_DOCKER_WORKSPACE_PATH] =
        {
                           .name = "docker_workspace_path",
                           .type = SNP_CONFIG_PATH,
                           .env = ENV("DOCKER_WORKSPACE_PATH"),
                           .help = "workspace to mount; the current directory where not set",
                           },
    [SNP_KEY_DOCKER_WORKSPACE_SETUP] =
        {
                           .name = "docker_workspace_setup",
                           .type = SNP_CONFIG_STRING,
                           .fallback = "none",
                           .env = ENV("DOCKER_WORKSPACE_SETUP"),
                           .choices = {"none", "package", "tests-only", "dev"},
                           .section = "Docker",
                           .row = "Workspace setup",
                           .help = "what is installed into a workspace image",
                           },
    [SNP_KEY_DOCKER_WORKSPACE_INSTALL_COMMAND] =
        {
                           .name = "docker_workspace_install_command",
                           .type = SNP_CONFIG_STRING,
                           .env = ENV("DOCKER_WORKSPACE_INSTALL_COMMAND"),
                           .help = "command that installs instead of the inferred one",
                           },
    [SNP_KEY_DOCKER_WORKSPACE_INSTALL_EXTRAS] =
        {
                           .name = "docker_workspace_install_extras",
                           .type = SNP_CONFIG_LIST,
                           .fallback = "",
                           .env = ENV("DOCKER_WORKSPACE_INSTALL_EXTRAS"),
                           .help = "more packages to install",
                           },
    [SNP_KEY_DOCKER_TIMEOUT] =
        {
                           .name = "docker_timeout",
                           .type = SNP_CONFIG_INT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "30",
                           .env = ENV("DOCKER_TIMEOUT"),
                           .min = 1,
                           .max = 86400,
                           .section = "Docker",
                           .row = "Timeout",
                           .help = "seconds; the sandbox's timeout where that is not set",
                           },
    [SNP_KEY_MAX_DEPTH] =
        {
                           .name = "max_depth",
                           .type = SNP_CONFIG_INT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "30",
                           .env = ENV("MAX_DEPTH"),
                           .min = 1,
                           .max = 10000,
                           .section = "Limits",
                           .row = "Max depth",
                           .help = "turns of the model in one run",
                           },
    [SNP_KEY_MAX_SUBCALLS] =
        {
                           .name = "max_subcalls",
                           .type = SNP_CONFIG_INT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "60",
                           .env = ENV("MAX_SUBCALLS"),
                           .zero_lifts = true,
                           .min = 0,
                           .max = 1000000,
                           .section = "Limits",
                           .row = "Max subcalls",
                           .help = "calls of the model in one completion, sub-calls apart",
                           },
    [SNP_KEY_TOKEN_BUDGET] =
        {
                           .name = "token_budget",
                           .type = SNP_CONFIG_INT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "400000",
                           .env = ENV("TOKEN_BUDGET"),
                           .min = 1,
                           .max = 1000000000000,
                           .section = "Limits",
                           .row = "Token budget",
                           .help = "tokens of one run",
                           },
    [SNP_KEY_COST_LIMIT] =
        {
                           .name = "cost_limit",
                           .type = SNP_CONFIG_FLOAT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "2.0",
                           .env = ENV("COST_LIMIT"),
                           .min = 0,
                           .max = 1000000,
                           .section = "Limits",
                           .row = "Cost limit",
                           .help = "USD that one run may cost, if its price is known",
                           },
    [SNP_KEY_TOOL_BUDGET] =
        {
                           .name = "tool_budget",
                           .type = SNP_CONFIG_INT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "100",
                           .env = ENV("TOOL_BUDGET"),
                           .zero_lifts = true,
                           .min = 0,
                           .max = 1000000,
                           .section = "Limits",
                           .row = "Tool budget",
                           .help = "tool calls of one run",
                           },
    [SNP_KEY_TIMEOUT_SECONDS] =
        {
                           .name = "timeout_seconds",
                           .type = SNP_CONFIG_INT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "900",
                           .env = ENV("TIMEOUT_SECONDS"),
                           .min = 1,
                           .max = 604800,
                           .section = "Limits",
                           .row = "Timeout seconds",
                           .help = "wall clock of one run of the model",
                           },
    [SNP_KEY_PARALLEL_TOOLS] =
        {
                           .name = "parallel_tools",
                           .type = SNP_CONFIG_BOOL,
                           .trust = SNP_CONFIG_FREE,
                           .fallback = "false",
                           .env = ENV("PARALLEL_TOOLS"),
                           .section = "Limits",
                           .row = "Parallel tools",
                           .help = "calls of user tools in one turn run at once, not one after the other",
                           },
    [SNP_KEY_MAX_PARALLEL] =
        {
                           .name = "max_parallel",
                           .type = SNP_CONFIG_INT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "5",
                           .env = ENV("MAX_PARALLEL"),
                           .min = 1,
                           .max = 1000,
                           .section = "Limits",
                           .row = "Max parallel",
                           .help = "how many at once, with parallel_tools; 16 at most",
                           },
    [SNP_KEY_SUB_CALLS_ENABLED] =
        {
                           .name = "sub_calls_enabled",
                           .type = SNP_CONFIG_BOOL,
                           .trust = SNP_CONFIG_FREE,
                           .fallback = "true",
                           .env = ENV("SUB_CALLS_ENABLED"),
                           .section = "Sub-calls",
                           .row = "Enabled",
                           .help = "the model of a run may make sub-calls (docs/reference/cli.md)",
                           },
    [SNP_KEY_SUB_CALLS_MAX_PER_TURN] =
        {
                           .name = "sub_calls_max_per_turn",
                           .type = SNP_CONFIG_INT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "5",
                           .env = ENV("SUB_CALLS_MAX_PER_TURN"),
                           .min = 0,
                           .max = 1000000,
                           .section = "Sub-calls",
                           .row = "Max per turn",
                           .help = "sub-calls of a completion between two answers of its model",
                           },
    [SNP_KEY_SUB_CALLS_BUDGET_INHERITANCE] =
        {
                           .name = "sub_calls_budget_inheritance",
                           .type = SNP_CONFIG_FLOAT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "0.5",
                           .env = ENV("SUB_CALLS_BUDGET_INHERITANCE"),
                           .min = 0,
                           .max = 1,
                           .section = "Sub-calls",
                           .row = "Budget inheritance",
                           .help = "share of the remaining tokens and money that one sub-call gets",
                           },
    [SNP_KEY_SUB_CALLS_MAX_COST_PER_SESSION] =
        {
                           .name = "sub_calls_max_cost_per_session",
                           .type = SNP_CONFIG_FLOAT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "1.0",
                           .env = ENV("SUB_CALLS_MAX_COST_PER_SESSION"),
                           .min = 0,
                           .max = 1000000,
                           .section = "Sub-calls",
                           .row = "Max cost/session",
                           .help = "USD that all sub-calls of a run may cost, on all levels",
                           },
    [SNP_KEY_ALLOWED_PATHS] =
        {
                           .name = "allowed_paths",
                           .type = SNP_CONFIG_LIST,
                           .fallback = "",
                           .env = ENV("ALLOWED_PATHS"),
                           .section = "Security",
                           .row = "Allowed paths",
                           .help = "folders the file tools may read",
                           },
    [SNP_KEY_API_KEY] =
        {
                           .name = "api_key",
                           .type = SNP_CONFIG_STRING,
                           .is_secret = true,
                           .env = {"SNIPARA_SANDBOX_LLM_API_KEY", "RLM_API_KEY", NULL},
                           .section = "Security",
                           .row = "Provider API key",
                           .help = "key of the model provider",
                           },
    [SNP_KEY_LOG_DIR] =
        {
                           .name = "log_dir",
                           .type = SNP_CONFIG_PATH,
                           .trust = SNP_CONFIG_BELOW,
                           .fallback = "./logs",
                           .env = ENV("LOG_DIR"),
                           .section = "Logging",
                           .row = "Log dir",
                           .help = "folder of the trajectories",
                           },
    [SNP_KEY_VERBOSE] =
        {
                           .name = "verbose",
                           .type = SNP_CONFIG_BOOL,
                           .trust = SNP_CONFIG_FREE,
                           .fallback = "false",
                           .env = ENV("VERBOSE"),
                           .section = "Logging",
                           .row = "Verbose",
                           .help = "print more details",
                           },
    [SNP_KEY_LOG_LEVEL] =
        {
                           .name = "log_level",
                           .type = SNP_CONFIG_STRING,
                           .trust = SNP_CONFIG_FREE,
                           .fallback = "INFO",
                           .env = ENV("LOG_LEVEL"),
                           .section = "Logging",
                           .row = "Log level",
                           .help = "lowest severity that is logged",
                           },
    [SNP_KEY_SNIPARA_PROJECT_SLUG] =
        {
                           .name = "snipara_project_slug",
                           .type = SNP_CONFIG_STRING,
                           .trust = SNP_CONFIG_FREE,
                           .env = ENV_OWN("SNIPARA_PROJECT_SLUG",                                          "SNIPARA_PROJECT_SLUG"),
                           .section = "Snipara",
                           .row = "Project slug",
                           .help = "project of the Snipara service",
                           },
    [SNP_KEY_SNIPARA_BASE_URL] =
        {
                           .name = "snipara_base_url",
                           .type = SNP_CONFIG_STRING,
                           .fallback = "https://api.snipara.com/mcp",
                           .env = ENV_OWN("SNIPARA_BASE_URL",                                                                                            "SNIPARA_BASE_URL"),
                           .section = "Snipara",
                           .row = "Base URL",
                           .help = "address of the Snipara service",
                           },
    [SNP_KEY_SNIPARA_API_KEY] =
        {
                           .name = "snipara_api_key",
                           .type = SNP_CONFIG_STRING,
                           .is_secret = true,
                           .env = ENV_OWN("SNIPARA_API_KEY",                                                                "SNIPARA_API_KEY"),
                           .section = "Snipara",
                           .row = "API key",
                           .help = "key of the Snipara service",
                           },
    [SNP_KEY_MEMORY_ENABLED] =
        {
                           .name = "memory_enabled",
                           .type = SNP_CONFIG_BOOL,
                           .fallback = "false",
                           .env = ENV_OWN("SNIPARA_MEMORY_ENABLED",                                                 "MEMORY_ENABLED"),
                           .section = "Snipara",
                           .row = "Memory enabled",
                           .help = "offer the Snipara memory tools",
                           },
    [SNP_KEY_OF_LIMIT(SNP_LIMIT_WALL)] =
        {
                           .name = "timeout",
                           .type = SNP_CONFIG_LIMIT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "30",
                           .env = ENV("TIMEOUT"),
                           .section = "Sandbox",
                           .row = "Timeout",
                           .help = "wall clock of one cell, in seconds",
                           },
    [SNP_KEY_OF_LIMIT(SNP_LIMIT_CPUS)] =
        {
                           .name = "cpus",
                           .type = SNP_CONFIG_LIMIT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "1.0",
                           .env = ENV("CPUS"),
                           .section = "Sandbox",
                           .row = "CPUs",
                           .help = "processors the sandbox may keep busy",
                           },
    [SNP_KEY_OF_LIMIT(SNP_LIMIT_MEMORY)] =
        {
                           .name = "memory",
                           .type = SNP_CONFIG_LIMIT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "512m",
                           .env = ENV("MEMORY"),
                           .section = "Sandbox",
                           .row = "Memory",
                           .help = "memory of the whole sandbox, no swap",
                           },
    [SNP_KEY_OF_LIMIT(SNP_LIMIT_PROCESSES)] =
        {
                           .name = "processes",
                           .type = SNP_CONFIG_LIMIT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "64",
                           .env = ENV("PROCESSES"),
                           .section = "Sandbox",
                           .row = "Processes",
                           .help = "processes and threads of the code",
                           },
    [SNP_KEY_OF_LIMIT(SNP_LIMIT_TMP)] =
        {
                           .name = "tmp_size",
                           .type = SNP_CONFIG_LIMIT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "64m",
                           .env = ENV("TMP_SIZE"),
                           .section = "Sandbox",
                           .row = "Size of /tmp",
                           .help = "size of /tmp, and of /dev/shm",
                           },
    [SNP_KEY_OF_LIMIT(SNP_LIMIT_WORKSPACE)] =
        {
                           .name = "workspace_size",
                           .type = SNP_CONFIG_LIMIT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "1g",
                           .env = ENV("WORKSPACE_SIZE"),
                           .section = "Sandbox",
                           .row = "Workspace size",
                           .help = "bytes the code may write to /workspace",
                           },
    [SNP_KEY_OF_LIMIT(SNP_LIMIT_INODES)] =
        {
                           .name = "workspace_files",
                           .type = SNP_CONFIG_LIMIT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "100000",
                           .env = ENV("WORKSPACE_FILES"),
                           .section = "Sandbox",
                           .row = "Workspace files",
                           .help = "files the code may create in /workspace",
                           },
    [SNP_KEY_OF_LIMIT(SNP_LIMIT_FILE)] =
        {
                           .name = "file_size",
                           .type = SNP_CONFIG_LIMIT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "512m",
                           .env = ENV("FILE_SIZE"),
                           .section = "Sandbox",
                           .row = "File size",
                           .help = "size of one file",
                           },
    [SNP_KEY_OF_LIMIT(SNP_LIMIT_OPEN_FILES)] =
        {
                           .name = "open_files",
                           .type = SNP_CONFIG_LIMIT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "256",
                           .env = ENV("OPEN_FILES"),
                           .section = "Sandbox",
                           .row = "Open files",
                           .help = "open files of one process",
                           },
    [SNP_KEY_OF_LIMIT(SNP_LIMIT_OUTPUT)] =
        {
                           .name = "output",
                           .type = SNP_CONFIG_LIMIT,
                           .trust = SNP_CONFIG_DOWN,
                           .fallback = "100000",
                           .env = ENV("OUTPUT"),
                           .section = "Sandbox",
                           .row = "Output characters",
                           .help = "characters of stdout and of stderr that are shown",
                           },
};

const struct snp_config_info *snp_config_info(enum snp_config_key key)
{
    SNP_ASSERT(key > SNP_KEY_NONE && key < SNP_KEY_N);
    return &table[key];
}

enum snp_config_key snp_config_key_from_name(const char *name)
{
    for (int i = SNP_KEY_NONE + 1; i < SNP_KEY_N; i++) {
        if (snp_streq(table[i].name, name)) {
            return (enum snp_config_key)i;
        }
    }
    return SNP_KEY_NONE;
}
