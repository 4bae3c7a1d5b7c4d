/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CONFIG_CONFIG_H
#define SNP_BASE_CONFIG_CONFIG_H

/*
 * The configuration: one table of keys, filled from the command line, the environment, a .env file,
 * a TOML file and defaults, in this order of precedence. Every value has its source. The process's
 * environment is not changed here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config/trust.h"
#include "base/err.h"
#include "base/json.h"
#include "base/policy/limits.h"

enum snp_config_key {
    SNP_KEY_NONE = 0,

    SNP_KEY_BACKEND,
    SNP_KEY_MODEL,
    SNP_KEY_TEMPERATURE,
    SNP_KEY_BASE_URL,
    SNP_KEY_MODEL_RETRIES,
    SNP_KEY_PRICE_FILE,
    SNP_KEY_REPLAY_FILE,
    SNP_KEY_RECORD_FILE,
    SNP_KEY_ENVIRONMENT,
    SNP_KEY_TRUST_LEVEL,
    SNP_KEY_TEMPLATE,
    SNP_KEY_REQUIRE_EXACT,
    SNP_KEY_GUARANTEES,
    SNP_KEY_DURABILITY,
    SNP_KEY_CHECKPOINT,
    SNP_KEY_TRANSACTION,

    SNP_KEY_DOCKER_IMAGE,
    SNP_KEY_DOCKER_RUNTIME,
    SNP_KEY_DOCKER_CPUS,
    SNP_KEY_DOCKER_MEMORY,
    SNP_KEY_DOCKER_NETWORK_DISABLED,
    SNP_KEY_DOCKER_MOUNT_WORKSPACE,
    SNP_KEY_DOCKER_WORKSPACE_PATH,
    SNP_KEY_DOCKER_WORKSPACE_SETUP,
    SNP_KEY_DOCKER_WORKSPACE_INSTALL_COMMAND,
    SNP_KEY_DOCKER_WORKSPACE_INSTALL_EXTRAS,
    SNP_KEY_DOCKER_WORKSPACE_BUILD_NETWORK,
    SNP_KEY_DOCKER_TIMEOUT,

    SNP_KEY_MAX_DEPTH,
    SNP_KEY_MAX_SUBCALLS,
    SNP_KEY_TOKEN_BUDGET,
    SNP_KEY_COST_LIMIT,
    SNP_KEY_TOOL_BUDGET,
    SNP_KEY_TIMEOUT_SECONDS,
    SNP_KEY_PARALLEL_TOOLS,
    SNP_KEY_MAX_PARALLEL,

    SNP_KEY_SUB_CALLS_ENABLED,
    SNP_KEY_SUB_CALLS_MAX_PER_TURN,
    SNP_KEY_SUB_CALLS_BUDGET_INHERITANCE,
    SNP_KEY_SUB_CALLS_MAX_COST_PER_SESSION,

    SNP_KEY_CONTEXT_EMBEDDINGS,

    SNP_KEY_ALLOWED_PATHS,
    SNP_KEY_API_KEY, /* secret */
    SNP_KEY_LOG_DIR,
    SNP_KEY_VERBOSE,
    SNP_KEY_LOG_LEVEL,

    SNP_KEY_SNIPARA_PROJECT_SLUG,
    SNP_KEY_SNIPARA_BASE_URL,
    SNP_KEY_SNIPARA_API_KEY, /* secret */
    SNP_KEY_MEMORY_ENABLED,

    /* The limits of a session, in the order of enum snp_limit. */
    SNP_KEY_LIMIT_FIRST,
    SNP_KEY_LIMIT_LAST = SNP_KEY_LIMIT_FIRST + SNP_LIMIT_N - 1,

    SNP_KEY_N,
};

/* The key of a limit. */
#define SNP_KEY_OF_LIMIT(limit) ((enum snp_config_key)(SNP_KEY_LIMIT_FIRST + (int)(limit)))

enum snp_config_type {
    SNP_CONFIG_STRING = 0,
    SNP_CONFIG_PATH,
    SNP_CONFIG_BOOL,
    SNP_CONFIG_INT,
    SNP_CONFIG_FLOAT,
    SNP_CONFIG_LIST,  /* of strings */
    SNP_CONFIG_LIMIT, /* number or text, as snp_limit_parse reads it */
};

/*
 * The origin of a value. Environment and .env are one environment in which the process's variables
 * hide those of the file; then the first of a key's names wins.
 */
enum snp_config_origin {
    SNP_ORIGIN_DEFAULT = 0,
    SNP_ORIGIN_FILE,
    SNP_ORIGIN_DOTENV,
    SNP_ORIGIN_ENV,
    SNP_ORIGIN_CLI,
};

/*
 * How far a file of the working folder may set a key before the user has trusted it
 * (trust.h): it may be a stranger's. A value equal to the default is always accepted, and
 * every value is checked.
 */
enum snp_config_trust {
    SNP_CONFIG_ASKS = 0, /* nothing */
    SNP_CONFIG_FREE,     /* anything: it widens nothing */
    SNP_CONFIG_DOWN,     /* up to the default; see zero_lifts */
    SNP_CONFIG_SAFE,     /* one of the row's `safe` */
    SNP_CONFIG_NAME,     /* a model of a provider with a well-known address */
    SNP_CONFIG_BELOW,    /* a path below the working folder; its writers follow no links */
};

enum {
    SNP_CONFIG_ENV_NAMES = 3,
    SNP_CONFIG_CHOICES = 8,
    SNP_CONFIG_SAFE_VALUES = 4,
};

struct snp_config_info {
    const char *name; /* in TOML and in JSON */
    enum snp_config_type type;
    bool is_secret;                          /* never printed */
    const char *fallback;                    /* the first one set wins */
    const char *env[SNP_CONFIG_ENV_NAMES];   /* first wins */
    const char *choices[SNP_CONFIG_CHOICES]; /* the only values allowed; none = any */
    bool is_tier;                            /* and the tiers found here */
    double min;                              /* of numbers; both 0 = any */
    double max;
    bool zero_lifts; /* 0 means no limit, so it is the largest */
    enum snp_config_trust trust;
    const char *safe[SNP_CONFIG_SAFE_VALUES];
    bool has_no_effect;  /* a key of 2.x: read, checked and shown */
    const char *section; /* of the table of `config show`; NULL = no separate row */
    const char *row;
};

/* The row of a key, SNP_KEY_NONE excluded; static. */
const struct snp_config_info *snp_config_info(enum snp_config_key key);
/* The key of a name, SNP_KEY_NONE if there is none. */
enum snp_config_key snp_config_key_from_name(const char *name);

/* The two files of a working folder. */
enum snp_config_file_kind {
    SNP_FILE_TOML = 0,
    SNP_FILE_DOTENV,
    SNP_FILE_N,
};

struct snp_config;

struct snp_config_request {
    const char *config_path;    /* --config; NULL = look in cwd */
    const char *cwd;            /* NULL = the process's */
    const char *const *environ; /* "NAME=VALUE"..., borrowed; NULL = the process's */
};

/*
 * Load everything and check every value. Settings in a file of the working folder are used if the
 * user has trusted the file, or if they are harmless (`trust` above); strangers' files are ignored.
 * A file named by config_path is trusted. *ret belongs to the caller: snp_config_free().
 * SNP_E_NOT_FOUND: config_path does not exist. SNP_E_INVALID: malformed TOML (file:line:column),
 * wrong type or value (key, source, what was expected), out of range (the range). A missing file in
 * cwd is no error.
 */
int snp_config_load(const struct snp_config_request *request,
                    struct snp_config **ret,
                    struct snp_err *err) SNP_NODISCARD;
void snp_config_free(struct snp_config *config);
SNP_DEFINE_CLEANUP(struct snp_config *, snp_config_free)
#define snp_autoconfig snp_cleanup(snp_config_freep)

/*
 * Set a key from the command line; flag ("--memory") becomes its source. Checked like a value of
 * the environment; on failure (SNP_E_INVALID) the old value stays.
 */
int snp_config_set(struct snp_config *config,
                   enum snp_config_key key,
                   const char *text,
                   const char *flag,
                   struct snp_err *err) SNP_NODISCARD;

/* Values; the key must have the type (a path is a string). Texts are borrowed from config. */
const char *snp_config_str(const struct snp_config *config, enum snp_config_key key); /* or NULL */
/*
 * For people: without user and password, which a URL should not contain. The caller's; NULL: not
 * set, or out of memory.
 */
char *snp_config_shown(const struct snp_config *config, enum snp_config_key key);
bool snp_config_bool(const struct snp_config *config, enum snp_config_key key);
int64_t snp_config_int(const struct snp_config *config, enum snp_config_key key);
double snp_config_float(const struct snp_config *config, enum snp_config_key key);
/* The number of items; *ret_items is borrowed and NULL if there are none. */
size_t snp_config_list(const struct snp_config *config,
                       enum snp_config_key key,
                       const char *const **ret_items);

/* "--memory", "SNIPARA_SANDBOX_MEMORY", ".env: /p/.env", "/p/snipara-sandbox.toml", "default". */
const char *snp_config_source(const struct snp_config *config, enum snp_config_key key);
enum snp_config_origin snp_config_origin(const struct snp_config *config, enum snp_config_key key);

/* A note for `config show` on a key that is set; NULL = none. Static. */
const char *snp_config_note(const struct snp_config *config, enum snp_config_key key);

/*
 * The limits of a new session. If timeout, memory or cpus is not set but docker_timeout,
 * docker_memory or docker_cpus is, that applies (snp_config_source of the limit's key reports it).
 */
void snp_config_limits(const struct snp_config *config, struct snp_limits *ret);
/*
 * Only the limits given on the command line, as snp_limits_to_json names them, for
 * `limits` of an exec request; {} if none was. New reference, NULL when out of memory.
 */
json_t *snp_config_limits_explicit(const struct snp_config *config);

/*
 * A variable of the process's environment, else of a trusted .env file; NULL if in neither.
 * Borrowed.
 */
const char *snp_config_env(const struct snp_config *config, const char *name);
/* The same from the process's environment only. */
const char *snp_config_process_env(const struct snp_config *config, const char *name);
/* The same from any .env file: for values that only the sandbox gets. */
const char *snp_config_env_any(const struct snp_config *config, const char *name);

/* The value is the user's: not from an untrusted file of the working folder. */
bool snp_config_is_users(const struct snp_config *config, enum snp_config_key key);
/* The same, and it is not the default. */
bool snp_config_is_chosen(const struct snp_config *config, enum snp_config_key key);

/*
 * {"tools": {...}, "mcp_servers": {...}} from the TOML file, unchecked; NULL = neither. They name
 * programs to run, and the file may be a stranger's: use only with the user's trust. Borrowed.
 */
const json_t *snp_config_tools(const struct snp_config *config);

/* A key and a project of the Snipara service are both set. */
bool snp_config_snipara_enabled(const struct snp_config *config);

/* Absolute path of the TOML file and of the .env file that were read, NULL if none. Borrowed. */
const char *snp_config_file(const struct snp_config *config);
const char *snp_config_env_file(const struct snp_config *config);

/*
 * A file that was read: its content, its trust, and its settings that need trust: {name: value as
 * text}.
 */
struct snp_config_source {
    const char *path;                     /* NULL = there is none */
    const struct snp_config_text *source; /* without its text */
    enum snp_trust trust;
    const json_t *asks; /* an object; secrets are named, not shown */
};
void snp_config_source_of(const struct snp_config *config,
                          enum snp_config_file_kind kind,
                          struct snp_config_source *ret);
/*
 * A line about the file's ignored settings, and the remedy; NULL if there are none. Settings that
 * an option or a variable of the process overrides are left out. providers: name variables of
 * models' providers, too. The caller frees.
 */
char *snp_config_ignored(const struct snp_config *config,
                         enum snp_config_file_kind kind,
                         bool providers);

/*
 * Ignored parts: unknown keys of the TOML file, invalid lines of .env. Their number, and one line
 * each ("/p/rlm.toml: unknown key 'modle'; did you mean model?"). Borrowed.
 */
size_t snp_config_warnings(const struct snp_config *config, const char *const **ret_lines);

/*
 * The output of `config show --json`: every key but secrets (those as NAME_set), the derived
 * snipara_enabled, the files, "sources", "notes" (snp_config_note by key), and "ignored": names of
 * settings in the files that have no effect. New reference, NULL when out of memory.
 */
json_t *snp_config_to_json(const struct snp_config *config);

#endif
