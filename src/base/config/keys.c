/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of configuration keys: the only source for loader, `config show`, command line and
 * documents. Rows of the limits repeat names and defaults of policy/limits.c as people write them;
 * a unit test compares the two.
 */

#include "base/config/config.h"
#include "base/str.h"

/* The names of its variables: with the two prefixes, and before them one without. */
#define ENV_TWO(first, second) \
    {                          \
        first, second, NULL    \
    }
#define ENV_OWN(name, suffix)                          \
    {                                                  \
        name, "SNIPARA_SANDBOX_" suffix, "RLM_" suffix \
    }
/*
 * A row: key, name, type, trust, default, section and row of `config show`; then optional members.
 */
#define KEY_ENV(key, env_, name_, type_, trust_, fallback_, section_, row_, ...) \
    [key] = {.name = (name_),                                                    \
             .type = SNP_CONFIG_##type_,                                         \
             .trust = SNP_CONFIG_##trust_,                                       \
             .fallback = (fallback_),                                            \
             .env = env_,                                                        \
             .section = (section_),                                              \
             .row = (row_),                                                      \
             __VA_ARGS__}
#define RANGE(least, most) .min = (least), .max = (most)
#define CHOICES(...)       .choices = {__VA_ARGS__}
#define SAFE_ARE(...)      .safe = {__VA_ARGS__}
#define NO_EFFECT          .has_no_effect = true
#define KEY(key, ...) \
    KEY_ENV(SNP_KEY_##key, ENV_TWO("SNIPARA_SANDBOX_" #key, "RLM_" #key), __VA_ARGS__)
#define LIMIT(limit, name, suffix, fallback, row)                                           \
    KEY_ENV(SNP_KEY_OF_LIMIT(SNP_LIMIT_##limit),                                            \
            ENV_TWO("SNIPARA_SANDBOX_" suffix, "RLM_" suffix), name, LIMIT, DOWN, fallback, \
            "Sandbox", row)

/* clang-format off */
static const struct snp_config_info table[SNP_KEY_N] = {
    KEY(BACKEND,                   "backend",                 STRING,  ASKS,  "litellm",   "Runtime",   "Backend",
        CHOICES("litellm", "openai", "anthropic", "gemini", "replay")),
    KEY(MODEL,                     "model",                   STRING,  NAME,  "gpt-4o-mini", "Runtime",   "Model"),
    KEY(TEMPERATURE,               "temperature",             FLOAT,   FREE,  "0.0",       "Runtime",   "Temperature",
        RANGE(0, 2)),
    KEY(BASE_URL,                  "base_url",                STRING,  ASKS,  NULL,        "Runtime",   "Base URL"),
    KEY(MODEL_RETRIES,             "model_retries",           INT,     DOWN,  "3",         "Runtime",   "Model retries",
        RANGE(0, 20)),
    KEY(PRICE_FILE,                "price_file",              PATH,    ASKS,  NULL,        NULL,        NULL),
    KEY(REPLAY_FILE,               "replay_file",             PATH,    ASKS,  NULL,        NULL,        NULL),
    KEY(RECORD_FILE,               "record_file",             PATH,    ASKS,  NULL,        NULL,        NULL),
    KEY(ENVIRONMENT,               "environment",             STRING,  SAFE,  "auto",      "Runtime",   "Environment",
        CHOICES("auto", "wasm", "vm"), .is_tier = true, SAFE_ARE("native", "wasm", "vm")),
    KEY(TEMPLATE,                  "template",                STRING,  FREE,  "base",      "Runtime",   "Template"),
    KEY(REQUIRE_EXACT,             "require_exact",           BOOL,    FREE,  "false",     "Runtime",   "Require exact"),
    KEY(GUARANTEES,                "guarantees",              LIST,    ASKS,  "",          "Runtime",   "Guarantees"),
    KEY(DURABILITY,                "durability",              STRING,  ASKS,  "synced",    "Sessions",  "Durability",
        CHOICES("synced", "process")),
    KEY(CHECKPOINT,                "checkpoint",              STRING,  SAFE,  "idle",      "Sessions",  "Checkpoint",
        CHOICES("idle", "after", "cell", "off"), SAFE_ARE("after", "cell")),
    KEY(TRANSACTION,               "transaction",             BOOL,    ASKS,  "true",      "Sessions",  "Transaction"),
    KEY(DOCKER_IMAGE,              "docker_image",            STRING,  ASKS,  "python:3.11-slim", "Docker",    "Image"),
    KEY(DOCKER_RUNTIME,            "docker_runtime",          STRING,  ASKS,  NULL,        "Docker",    "Runtime"),
    KEY(DOCKER_CPUS,               "docker_cpus",             FLOAT,   DOWN,  "1.0",       "Docker",    "CPUs",
        RANGE(0.01, 1024)),
    KEY(DOCKER_MEMORY,             "docker_memory",           STRING,  DOWN,  "512m",      "Docker",    "Memory"),
    KEY(DOCKER_NETWORK_DISABLED,   "docker_network_disabled", BOOL,    ASKS,  "true",      "Docker",    "Network disabled"),
    KEY(DOCKER_MOUNT_WORKSPACE,    "docker_mount_workspace",  BOOL,    FREE,  "true",      "Docker",    "Workspace mount"),
    KEY(DOCKER_WORKSPACE_PATH,     "docker_workspace_path",   PATH,    ASKS,  NULL,        NULL,        NULL),
    KEY(DOCKER_WORKSPACE_SETUP,    "docker_workspace_setup",  STRING,  ASKS,  "none",      "Docker",    "Workspace setup",
        CHOICES("none", "package", "tests-only", "dev")),
    KEY(DOCKER_WORKSPACE_INSTALL_COMMAND, "docker_workspace_install_command", STRING,  ASKS,  NULL,        NULL,        NULL),
    KEY(DOCKER_WORKSPACE_INSTALL_EXTRAS, "docker_workspace_install_extras", LIST,    ASKS,  "",          NULL,        NULL),
    KEY(DOCKER_WORKSPACE_BUILD_NETWORK, "docker_workspace_build_network", STRING, ASKS, "default", NULL,       NULL,
        CHOICES("default", "host", "none")),
    KEY(DOCKER_TIMEOUT,            "docker_timeout",          INT,     DOWN,  "30",        "Docker",    "Timeout",
        RANGE(1, 86400)),
    KEY(MAX_DEPTH,                 "max_depth",               INT,     DOWN,  "30",        "Limits",    "Max depth",
        RANGE(1, 10000)),
    KEY(MAX_SUBCALLS,              "max_subcalls",            INT,     DOWN,  "60",        "Limits",    "Max subcalls",
        RANGE(0, 1000000), .zero_lifts = true),
    KEY(TOKEN_BUDGET,              "token_budget",            INT,     DOWN,  "400000",    "Limits",    "Token budget",
        RANGE(1, 1000000000000)),
    KEY(COST_LIMIT,                "cost_limit",              FLOAT,   DOWN,  "2.0",       "Limits",    "Cost limit",
        RANGE(0, 1000000)),
    KEY(TOOL_BUDGET,               "tool_budget",             INT,     DOWN,  "100",       "Limits",    "Tool budget",
        RANGE(0, 1000000), .zero_lifts = true),
    KEY(TIMEOUT_SECONDS,           "timeout_seconds",         INT,     DOWN,  "900",       "Limits",    "Timeout seconds",
        RANGE(1, 604800)),
    KEY(PARALLEL_TOOLS,            "parallel_tools",          BOOL,    FREE,  "false",     "Limits",    "Parallel tools"),
    KEY(MAX_PARALLEL,              "max_parallel",            INT,     DOWN,  "5",         "Limits",    "Max parallel",
        RANGE(1, 1000)),
    KEY(SUB_CALLS_ENABLED,         "sub_calls_enabled",       BOOL,    FREE,  "true",      "Sub-calls", "Enabled"),
    KEY(SUB_CALLS_MAX_PER_TURN,    "sub_calls_max_per_turn",  INT,     DOWN,  "5",         "Sub-calls", "Max per turn",
        RANGE(0, 1000000)),
    KEY(SUB_CALLS_BUDGET_INHERITANCE, "sub_calls_budget_inheritance", FLOAT,   DOWN,  "0.5",       "Sub-calls", "Budget inheritance",
        RANGE(0, 1)),
    KEY(SUB_CALLS_MAX_COST_PER_SESSION, "sub_calls_max_cost_per_session", FLOAT,   DOWN,  "1.0",       "Sub-calls", "Max cost/session",
        RANGE(0, 1000000)),
    KEY(CONTEXT_EMBEDDINGS,        "context_embeddings",      STRING,  ASKS,  "local",     "Context",   "Embeddings"),
    KEY(LOG_DIR,                   "log_dir",                 PATH,    BELOW, "./logs",    "Logging",   "Log dir"),
    KEY(VERBOSE,                   "verbose",                 BOOL,    FREE,  "false",     "Logging",   "Verbose"),
    KEY_ENV(SNP_KEY_API_KEY, ENV_TWO("SNIPARA_SANDBOX_LLM_API_KEY", "RLM_API_KEY"),
            "api_key", STRING, ASKS, NULL, "Security", "Provider API key", .is_secret = true),
    LIMIT(WALL, "timeout", "TIMEOUT", "30", "Timeout"),
    LIMIT(CPUS, "cpus", "CPUS", "1.0", "CPUs"),
    LIMIT(MEMORY, "memory", "MEMORY", "512m", "Memory"),
    LIMIT(PROCESSES, "processes", "PROCESSES", "64", "Processes"),
    LIMIT(TMP, "tmp_size", "TMP_SIZE", "64m", "Size of /tmp"),
    LIMIT(WORKSPACE, "workspace_size", "WORKSPACE_SIZE", "1g", "Workspace size"),
    LIMIT(INODES, "workspace_files", "WORKSPACE_FILES", "100000", "Workspace files"),
    LIMIT(FILE, "file_size", "FILE_SIZE", "512m", "File size"),
    LIMIT(OPEN_FILES, "open_files", "OPEN_FILES", "256", "Open files"),
    LIMIT(OUTPUT, "output", "OUTPUT", "100000", "Output characters"),
    /* Keys of 2.x for features that this version does not have. */
    KEY(TRUST_LEVEL,               "trust_level",             STRING,  SAFE,  "sandboxed", "Runtime",   "Trust level",
        CHOICES("sandboxed", "docker", "local"), SAFE_ARE("docker"), NO_EFFECT),
    KEY(ALLOWED_PATHS,             "allowed_paths",           LIST,    ASKS,  "",          "Security",  "Allowed paths", NO_EFFECT),
    KEY(LOG_LEVEL,                 "log_level",               STRING,  FREE,  "INFO",      "Logging",   "Log level", NO_EFFECT),
    KEY_ENV(SNP_KEY_SNIPARA_PROJECT_SLUG, ENV_OWN("SNIPARA_PROJECT_SLUG", "SNIPARA_PROJECT_SLUG"),
            "snipara_project_slug", STRING, FREE, NULL, "Snipara", "Project slug", NO_EFFECT),
    KEY_ENV(SNP_KEY_SNIPARA_BASE_URL, ENV_OWN("SNIPARA_BASE_URL", "SNIPARA_BASE_URL"),
            "snipara_base_url", STRING, ASKS, "https://api.snipara.com/mcp", "Snipara", "Base URL", NO_EFFECT),
    KEY_ENV(SNP_KEY_SNIPARA_API_KEY, ENV_OWN("SNIPARA_API_KEY", "SNIPARA_API_KEY"),
            "snipara_api_key", STRING, ASKS, NULL, "Snipara", "API key", .is_secret = true, NO_EFFECT),
    KEY_ENV(SNP_KEY_MEMORY_ENABLED, ENV_OWN("SNIPARA_MEMORY_ENABLED", "MEMORY_ENABLED"),
            "memory_enabled", BOOL, ASKS, "false", "Snipara", "Memory enabled", NO_EFFECT),
};
/* clang-format on */

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
