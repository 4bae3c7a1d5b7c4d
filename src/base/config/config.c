/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loading: a slot per key, filled by one source after the other, each overwriting weaker ones.
 * Every value is checked when it is set, so that a loaded configuration has only valid ones, and
 * getters cannot fail.
 */

#include "base/config/config.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/config/allow.h"
#include "base/config/dotenv.h"
#include "base/config/toml.h"
#include "base/config/value.h"
#include "base/str.h"
#include "base/text/escape.h"

enum {
    FILE_MAX_BYTES = 1 << 20,
    WARNINGS_MAX = 100,
    NAME_SHOWN = 60,   /* bytes of an unknown key */
    IGNORED_NAMES = 8, /* named in a line */
    IGNORED_LINE = 4096,
};

static const char *const file_names[] = {"snipara-sandbox.toml", "rlm.toml"};
static const char *const table_names[] = {"snipara_sandbox", "rlm"};

struct config_slot {
    json_t *value;      /* owned; NULL = none */
    char *source;       /* owned; NULL = default */
    const char **items; /* of lists: owned array of borrowed texts; NULL-terminated */
    enum snp_config_origin origin;
};

/* A file of the working folder. */
struct config_file {
    char *path;                    /* owned; NULL = none */
    struct snp_config_text source; /* its text only while it is parsed */
    enum snp_trust trust;
    json_t *asks; /* owned; see struct snp_config_source; NULL = nothing */
};

struct snp_config {
    struct config_slot slots[SNP_KEY_N];
    const char *const *environ; /* borrowed; NULL = the process's */
    json_t *dotenv;             /* owned; NULL = no file */
    struct config_file toml;
    struct config_file env;
    json_t *tools; /* owned; NULL = none */
    char *warnings[WARNINGS_MAX + 1];
    size_t n_warnings;
};

static int out_of_memory(struct snp_err *err)
{
    return snp_fail(err, SNP_E_NOMEM, "out of memory");
}

/* ---- slots ---- */

static void slot_clear(struct config_slot *slot)
{
    json_decref(slot->value);
    free(slot->source);
    free(slot->items);
    *slot = (struct config_slot){0};
}

/* The texts of a list value as an array; NULL for an empty list. */
static int list_items(const json_t *list, const char ***ret)
{
    size_t n = json_array_size(list);
    const char **items = NULL;
    if (n > 0) {
        items = calloc(n + 1, sizeof(*items));
        if (items == NULL) {
            return -1;
        }
    }
    for (size_t i = 0; i < n; i++) {
        items[i] = json_string_value(json_array_get(list, i));
    }
    *ret = items;
    return 0;
}

/* Replace a slot; takes over value, also on failure. source NULL = default. */
static int slot_set(struct config_slot *slot,
                    json_t *value,
                    enum snp_config_origin origin,
                    const char *source,
                    struct snp_err *err)
{
    struct config_slot made = {.value = value, .origin = origin};
    if (source != NULL) {
        made.source = strdup(source);
        if (made.source == NULL) {
            slot_clear(&made);
            return out_of_memory(err);
        }
    }
    if (json_is_array(value) && list_items(value, &made.items) < 0) {
        slot_clear(&made);
        return out_of_memory(err);
    }
    slot_clear(slot);
    *slot = made;
    return 0;
}

static int set_defaults(struct snp_config *config, struct snp_err *err)
{
    int r = 0;
    for (int key = SNP_KEY_NONE + 1; r == 0 && key < SNP_KEY_N; key++) {
        const struct snp_config_info *info = snp_config_info((enum snp_config_key)key);
        json_t *value = NULL;
        if (info->fallback != NULL) {
            r = snp_value_from_text((enum snp_config_key)key, info->fallback, info->name, &value,
                                    err);
        }
        if (r == 0) {
            r = slot_set(&config->slots[key], value, SNP_ORIGIN_DEFAULT, NULL, err);
        }
    }
    return r;
}

/* ---- warnings ---- */

/* Keep a line (owned from here on); beyond WARNINGS_MAX they are dropped. */
static void warning_add(struct snp_config *config, char *line)
{
    if (line == NULL || config->n_warnings == WARNINGS_MAX) {
        free(line);
        return;
    }
    config->warnings[config->n_warnings++] = line;
}

static void warn_unknown(struct snp_config *config, const char *name)
{
    const char *known[SNP_KEY_N];
    size_t n = 0;
    for (int key = SNP_KEY_NONE + 1; key < SNP_KEY_N; key++) {
        known[n++] = snp_config_info((enum snp_config_key)key)->name;
    }
    const char *nearest = snp_suggest(name, known, n);
    warning_add(config, snp_format("%s: unknown key '%.*s'%s%s%s", config->toml.path, NAME_SHOWN,
                                   name, nearest == NULL ? "" : "; did you mean ",
                                   nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?"));
}

static void warn_dotenv(void *arg, unsigned line, const char *what)
{
    struct snp_config *config = arg;
    warning_add(config, snp_format("%s:%u: %s; line skipped", config->env.path, line, what));
}

/* ---- settings that need the user's trust ---- */

/* Note a name that needs the user's trust, and its value. */
static void asks_add(struct config_file *file, const char *name, json_t *shown)
{
    if (file->asks == NULL) {
        file->asks = json_object();
    }
    (void)json_object_set_new(file->asks, name, shown);
}

/*
 * The file may set the key to the value, written there as name = given. said: the user's value, or
 * NULL.
 */
static bool is_allowed(struct config_file *file,
                       enum snp_config_key key,
                       const json_t *said,
                       const char *name,
                       json_t *given,
                       const json_t *value)
{
    if (snp_config_is_harmless(key, value) &&
        (said == NULL || snp_config_keeps(key, value, said))) {
        return true;
    }
    asks_add(file, name,
             snp_config_info(key)->is_secret ? json_string("(a secret)") : json_incref(given));
    return file->trust == SNP_TRUST_GIVEN;
}

/* ---- the TOML file ---- */

/* dir/name, or name alone if it is absolute. NULL when out of memory. */
static char *join(const char *dir, const char *name)
{
    while (snp_has_prefix(name, "./")) {
        name += 2;
    }
    if (name[0] == '/') {
        return strdup(name);
    }
    return snp_format("%s%s%s", dir, snp_streq(dir, "/") ? "" : "/", name);
}

/* Find and read the file; config->toml.path stays NULL if there is none. */
static int read_file(struct snp_config *config,
                     const char *config_path,
                     const char *cwd,
                     struct snp_err *err)
{
    struct config_file *file = &config->toml;
    if (config_path != NULL) {
        file->path = join(cwd, config_path);
        if (file->path == NULL) {
            return out_of_memory(err);
        }
        file->trust = SNP_TRUST_GIVEN; /* a file named by the user is trusted */
        return snp_source_read(file->path, FILE_MAX_BYTES, &file->source, NULL, err);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(file_names); i++) {
        bool is_foreign = false;
        snp_autofree char *path = join(cwd, file_names[i]);
        if (path == NULL) {
            return out_of_memory(err);
        }
        int r = snp_source_read(path, FILE_MAX_BYTES, &file->source, &is_foreign, err);
        if (is_foreign) {
            warning_add(config, strdup(err->msg));
        } else if (r != SNP_E_NOT_FOUND) {
            file->path = SNP_TAKE_PTR(path);
            file->trust = r < 0 ? SNP_TRUST_NONE : snp_trust_of(file->path, &file->source);
            return r;
        }
    }
    return 0;
}

/* Our table of a document; NULL if it has none. */
static int find_table(struct snp_config *config,
                      const json_t *document,
                      json_t **ret,
                      struct snp_err *err)
{
    *ret = NULL;
    for (size_t i = 0; *ret == NULL && i < SNP_ARRAY_LEN(table_names); i++) {
        json_t *table = json_object_get(document, table_names[i]);
        if (table != NULL && !json_is_object(table)) {
            return snp_fail(err, SNP_E_INVALID, "%s: %s: expected a table", config->toml.path,
                            table_names[i]);
        }
        *ret = table;
    }
    if (*ret == NULL && json_object_size(document) > 0) {
        warning_add(config, snp_format("%s: no table [%s]; the file is ignored", config->toml.path,
                                       table_names[0]));
    }
    return 0;
}

/* Tables that are not keys: their users interpret them. */
static bool is_tools(const char *name)
{
    return strcmp(name, "tools") == 0 || strcmp(name, "mcp_servers") == 0;
}

static int tools_keep(struct snp_config *config,
                      const char *name,
                      const json_t *given,
                      struct snp_err *err)
{
    if (!json_is_object(given)) {
        return snp_fail(err, SNP_E_INVALID, "%s in %s: expected a table", name, config->toml.path);
    }
    if (config->tools == NULL) {
        config->tools = json_object();
    }
    return json_object_set(config->tools, name, (json_t *)(uintptr_t)given) < 0 ? out_of_memory(err)
                                                                                : 0;
}

static int set_from_file(struct snp_config *config,
                         const char *name,
                         json_t *given,
                         struct snp_err *err)
{
    enum snp_config_key key = snp_config_key_from_name(name);
    if (is_tools(name)) {
        return tools_keep(config, name, given, err);
    }
    if (key == SNP_KEY_NONE) {
        warn_unknown(config, name);
        return 0;
    }
    snp_autofree char *place = snp_format("%s in %s", name, config->toml.path);
    json_t *value = NULL;
    if (place == NULL) {
        return out_of_memory(err);
    }
    int r = snp_value_from_json(key, given, place, &value, err);
    if (r < 0) {
        return r;
    }
    if (!is_allowed(&config->toml, key, NULL, name, given, value)) {
        json_decref(value);
        return 0;
    }
    return slot_set(&config->slots[key], value, SNP_ORIGIN_FILE, config->toml.path, err);
}

static int load_file(struct snp_config *config,
                     const char *config_path,
                     const char *cwd,
                     struct snp_err *err)
{
    snp_autojson json_t *document = NULL;
    const struct config_file *file = &config->toml;
    int r = read_file(config, config_path, cwd, err);
    if (r < 0) {
        return snp_err_wrap(err, "configuration");
    }
    if (file->path == NULL) {
        return 0;
    }
    struct snp_toml_fault fault = {0};
    if (snp_toml_parse(file->source.text, file->source.len, &document, &fault) < 0) {
        return snp_fail(err, SNP_E_INVALID, "%s:%u:%u: %s", file->path, fault.line, fault.column,
                        fault.text);
    }
    json_t *table = NULL;
    const char *name = NULL;
    json_t *given = NULL;
    r = find_table(config, document, &table, err);
    json_object_foreach(table, name, given)
    {
        r = r < 0 ? r : set_from_file(config, name, given, err);
    }
    return r;
}

/* ---- the environment ---- */

/* The folder of a path: the part before its last slash. NULL when out of memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return strdup(".");
    }
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* Variables of models' providers are not our keys, but choose keys and addresses. */
static void ask_for_providers(struct snp_config *config)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(config->dotenv, name, value)
    {
        if (snp_config_is_provider_variable(name) && json_string_length(value) > 0) {
            asks_add(&config->env, name,
                     snp_has_suffix(name, "_API_KEY") ? json_string("(a secret)")
                                                      : json_incref(value));
        }
    }
}

static int load_dotenv(struct snp_config *config, const char *cwd, struct snp_err *err)
{
    struct config_file *file = &config->env;
    snp_autofree char *foreign = NULL;
    snp_autofree char *dir = config->toml.path == NULL ? strdup(cwd) : folder_of(config->toml.path);
    if (dir == NULL) {
        return out_of_memory(err);
    }
    int r = snp_dotenv_find(dir, &file->path, &file->source, &foreign, err);
    warning_add(config, SNP_TAKE_PTR(foreign));
    if (r < 0 && file->path != NULL) {
        /* Other programs also use the file: an unreadable one is no reason to stop. */
        warning_add(config, snp_format("%s; not used", err->msg));
        free(SNP_TAKE_PTR(file->path));
        return 0;
    }
    if (r < 0 || file->path == NULL) {
        return r;
    }
    file->trust = snp_trust_of(file->path, &file->source);
    r = snp_dotenv_parse(file->source.text, file->source.len, warn_dotenv, config, &config->dotenv,
                         err);
    ask_for_providers(config);
    return r;
}

/* A variable of the process; NULL if it is not set. */
static const char *process_env(const struct snp_config *config, const char *name)
{
    const char *const *vars =
        config->environ != NULL ? config->environ : (const char *const *)environ;
    size_t n = strlen(name);
    for (; vars != NULL && *vars != NULL; vars++) {
        if (strncmp(*vars, name, n) == 0 && (*vars)[n] == '=') {
            return *vars + n + 1;
        }
    }
    return NULL;
}

static int value_from_env(const struct snp_config *config,
                          enum snp_config_key key,
                          const char *name,
                          const char *text,
                          json_t **ret,
                          struct snp_err *err)
{
    const char *key_name = snp_config_info(key)->name;
    snp_autofree char *place =
        process_env(config, name) != NULL
            ? snp_format("%s from %s", key_name, name)
            : snp_format("%s from %s in %s", key_name, name, config->env.path);
    return place == NULL ? out_of_memory(err) : snp_value_from_text(key, text, place, ret, err);
}

/* The process sets the key by one of its names. */
static bool is_in_process(const struct snp_config *config, enum snp_config_key key)
{
    const char *const *names = snp_config_info(key)->env;
    for (size_t i = 0; i < SNP_CONFIG_ENV_NAMES && names[i] != NULL; i++) {
        const char *text = process_env(config, names[i]);
        if (text != NULL && text[0] != '\0') {
            return true;
        }
    }
    return false;
}

/*
 * 1 if the variable is set and not empty. An untrusted .env cannot set a key to more than the
 * process does under another of its names.
 */
static int try_env(struct snp_config *config,
                   enum snp_config_key key,
                   const char *name,
                   struct snp_err *err)
{
    const char *text = snp_config_env_any(config, name);
    if (text == NULL || text[0] == '\0') {
        return 0;
    }
    bool is_process = process_env(config, name) != NULL;
    json_t *value = NULL;
    int r = value_from_env(config, key, name, text, &value, err);
    if (r < 0) {
        return r;
    }
    bool is_lesser = config->env.trust != SNP_TRUST_GIVEN && is_in_process(config, key);
    const json_t *said = snp_config_is_chosen(config, key) ? config->slots[key].value : NULL;
    if (!is_process &&
        (!is_allowed(&config->env, key, said, name, json_object_get(config->dotenv, name), value) ||
         is_lesser)) {
        json_decref(value);
        return 0;
    }
    snp_autofree char *source =
        is_process ? strdup(name) : snp_format(".env: %s", config->env.path);
    if (source == NULL) {
        json_decref(value);
        return out_of_memory(err);
    }
    r = slot_set(&config->slots[key], value, is_process ? SNP_ORIGIN_ENV : SNP_ORIGIN_DOTENV,
                 source, err);
    return r < 0 ? r : 1;
}

/* The first name of each key that is set. */
static int load_env(struct snp_config *config, struct snp_err *err)
{
    int r = 0;
    for (int key = SNP_KEY_NONE + 1; r >= 0 && key < SNP_KEY_N; key++) {
        const char *const *names = snp_config_info((enum snp_config_key)key)->env;
        r = 0;
        for (size_t i = 0; i < SNP_CONFIG_ENV_NAMES && names[i] != NULL && r == 0; i++) {
            r = try_env(config, (enum snp_config_key)key, names[i], err);
        }
    }
    return r < 0 ? r : 0;
}

/* ---- limits from the keys of the docker tier ---- */

static const struct {
    enum snp_config_key from;
    enum snp_limit to;
} docker_limits[] = {
    {SNP_KEY_DOCKER_TIMEOUT, SNP_LIMIT_WALL},
    {SNP_KEY_DOCKER_CPUS, SNP_LIMIT_CPUS},
    {SNP_KEY_DOCKER_MEMORY, SNP_LIMIT_MEMORY},
};

static int apply_docker_limits(struct snp_config *config, struct snp_err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < SNP_ARRAY_LEN(docker_limits); i++) {
        enum snp_config_key key = SNP_KEY_OF_LIMIT(docker_limits[i].to);
        const struct config_slot *from = &config->slots[docker_limits[i].from];
        struct config_slot *to = &config->slots[key];
        if (from->origin <= to->origin) {
            /* A file's value for one key must not exceed the environment's value for the other. */
            continue;
        }
        snp_autofree char *source =
            snp_format("%s: %s", snp_config_info(docker_limits[i].from)->name, from->source);
        json_t *value = NULL;
        if (source == NULL) {
            return out_of_memory(err);
        }
        r = snp_value_from_json(key, from->value, source, &value, err);
        if (r == 0 && !snp_config_is_users(config, docker_limits[i].from) &&
            snp_config_is_chosen(config, key) && !snp_config_keeps(key, value, to->value)) {
            json_decref(value); /* an untrusted file cannot raise the user's value */
        } else if (r == 0) {
            r = slot_set(to, value, from->origin, source, err);
        }
    }
    return r;
}

/* ---- public ---- */

static int load_all(struct snp_config *config,
                    const struct snp_config_request *request,
                    struct snp_err *err)
{
    char here[PATH_MAX];
    const char *cwd = request->cwd;
    if (cwd == NULL) {
        cwd = getcwd(here, sizeof(here));
        if (cwd == NULL) {
            return snp_fail_sys(err, errno, "the current directory cannot be found");
        }
    }
    int r = set_defaults(config, err);
    if (r == 0) {
        r = load_file(config, request->config_path, cwd, err);
    }
    if (r == 0) {
        r = load_dotenv(config, cwd, err);
    }
    if (r == 0) {
        r = load_env(config, err);
    }
    return r < 0 ? r : apply_docker_limits(config, err);
}

int snp_config_load(const struct snp_config_request *request,
                    struct snp_config **ret,
                    struct snp_err *err)
{
    snp_autoconfig struct snp_config *config = calloc(1, sizeof(*config));
    if (config == NULL) {
        return out_of_memory(err);
    }
    config->environ = request->environ;
    int r = load_all(config, request, err);
    if (r < 0) {
        return r;
    }
    free(SNP_TAKE_PTR(config->toml.source.text));
    free(SNP_TAKE_PTR(config->env.source.text));
    *ret = SNP_TAKE_PTR(config);
    return 0;
}

static void file_done(struct config_file *file)
{
    free(file->path);
    snp_source_done(&file->source);
    json_decref(file->asks);
}

void snp_config_free(struct snp_config *config)
{
    if (config == NULL) {
        return;
    }
    for (size_t i = 0; i < SNP_KEY_N; i++) {
        slot_clear(&config->slots[i]);
    }
    for (size_t i = 0; i < config->n_warnings; i++) {
        free(config->warnings[i]);
    }
    json_decref(config->dotenv);
    json_decref(config->tools);
    file_done(&config->env);
    file_done(&config->toml);
    free(config);
}

const json_t *snp_config_tools(const struct snp_config *config)
{
    return config->tools;
}

int snp_config_set(struct snp_config *config,
                   enum snp_config_key key,
                   const char *text,
                   const char *flag,
                   struct snp_err *err)
{
    json_t *value = NULL;
    int r = snp_value_from_text(key, text, flag, &value, err);
    if (r < 0) {
        return r;
    }
    return slot_set(&config->slots[key], value, SNP_ORIGIN_CLI, flag, err);
}

/* The slot of a key, which must have one of these types. */
static const struct config_slot *slot_of(const struct snp_config *config,
                                         enum snp_config_key key,
                                         unsigned types)
{
    SNP_ASSERT((types & (1U << snp_config_info(key)->type)) != 0);
    return &config->slots[key];
}

const char *snp_config_str(const struct snp_config *config, enum snp_config_key key)
{
    unsigned types = 1U << SNP_CONFIG_STRING | 1U << SNP_CONFIG_PATH;
    return json_string_value(slot_of(config, key, types)->value);
}

bool snp_config_bool(const struct snp_config *config, enum snp_config_key key)
{
    return json_is_true(slot_of(config, key, 1U << SNP_CONFIG_BOOL)->value);
}

int64_t snp_config_int(const struct snp_config *config, enum snp_config_key key)
{
    return json_integer_value(slot_of(config, key, 1U << SNP_CONFIG_INT)->value);
}

double snp_config_float(const struct snp_config *config, enum snp_config_key key)
{
    return json_real_value(slot_of(config, key, 1U << SNP_CONFIG_FLOAT)->value);
}

size_t snp_config_list(const struct snp_config *config,
                       enum snp_config_key key,
                       const char *const **ret_items)
{
    const struct config_slot *slot = slot_of(config, key, 1U << SNP_CONFIG_LIST);
    *ret_items = (const char *const *)slot->items;
    return json_array_size(slot->value);
}

const char *snp_config_source(const struct snp_config *config, enum snp_config_key key)
{
    const char *source = config->slots[key].source;
    return source == NULL ? "default" : source;
}

enum snp_config_origin snp_config_origin(const struct snp_config *config, enum snp_config_key key)
{
    return config->slots[key].origin;
}

void snp_config_limits(const struct snp_config *config, struct snp_limits *ret)
{
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        const struct config_slot *slot = &config->slots[SNP_KEY_OF_LIMIT(i)];
        ret->value[i] = (uint64_t)json_integer_value(slot->value);
    }
}

json_t *snp_config_limits_explicit(const struct snp_config *config)
{
    struct snp_limits limits;
    snp_config_limits(config, &limits);
    snp_autojson json_t *chosen = json_object();
    snp_autojson json_t *all = snp_limits_to_json(&limits);
    if (chosen == NULL || all == NULL) {
        return NULL;
    }
    /* Members are in the order of enum snp_limit. */
    void *at = json_object_iter(all);
    for (int i = 0; i < SNP_LIMIT_N; i++, at = json_object_iter_next(all, at)) {
        bool is_given = config->slots[SNP_KEY_OF_LIMIT(i)].origin == SNP_ORIGIN_CLI;
        if (is_given &&
            json_object_set(chosen, json_object_iter_key(at), json_object_iter_value(at)) < 0) {
            return NULL;
        }
    }
    return SNP_TAKE_PTR(chosen);
}

const char *snp_config_env_any(const struct snp_config *config, const char *name)
{
    const char *text = process_env(config, name);
    return text != NULL ? text : json_string_value(json_object_get(config->dotenv, name));
}

const char *snp_config_env(const struct snp_config *config, const char *name)
{
    return config->env.trust == SNP_TRUST_GIVEN ? snp_config_env_any(config, name)
                                                : process_env(config, name);
}

const char *snp_config_process_env(const struct snp_config *config, const char *name)
{
    return process_env(config, name);
}

bool snp_config_is_users(const struct snp_config *config, enum snp_config_key key)
{
    enum snp_config_origin origin = config->slots[key].origin;
    return (origin != SNP_ORIGIN_FILE || config->toml.trust == SNP_TRUST_GIVEN) &&
           (origin != SNP_ORIGIN_DOTENV || config->env.trust == SNP_TRUST_GIVEN);
}

bool snp_config_is_chosen(const struct snp_config *config, enum snp_config_key key)
{
    return config->slots[key].origin != SNP_ORIGIN_DEFAULT && snp_config_is_users(config, key);
}

/* ---- ignored settings ---- */

static const struct config_file *file_of(const struct snp_config *config,
                                         enum snp_config_file_kind kind)
{
    return kind == SNP_FILE_TOML ? &config->toml : &config->env;
}

void snp_config_source_of(const struct snp_config *config,
                          enum snp_config_file_kind kind,
                          struct snp_config_source *ret)
{
    const struct config_file *file = file_of(config, kind);
    *ret = (struct snp_config_source){file->path, &file->source, file->trust, file->asks};
}

static enum snp_config_key key_of_variable(const char *name)
{
    for (int key = SNP_KEY_NONE + 1; key < SNP_KEY_N; key++) {
        const char *const *names = snp_config_info((enum snp_config_key)key)->env;
        for (size_t i = 0; i < SNP_CONFIG_ENV_NAMES && names[i] != NULL; i++) {
            if (snp_streq(names[i], name)) {
                return (enum snp_config_key)key;
            }
        }
    }
    return SNP_KEY_NONE;
}

/* No stronger source sets it, and this command would have used it. */
static bool is_missed(const struct snp_config *config, const char *name, bool providers)
{
    enum snp_config_key key = snp_config_key_from_name(name);
    key = key == SNP_KEY_NONE ? key_of_variable(name) : key;
    if (!providers && snp_config_is_provider_variable(name)) {
        return false;
    }
    if (key != SNP_KEY_NONE) {
        return config->slots[key].origin < SNP_ORIGIN_ENV;
    }
    const char *text = process_env(config, name);
    return text == NULL || text[0] == '\0';
}

char *snp_config_ignored(const struct snp_config *config,
                         enum snp_config_file_kind kind,
                         bool providers)
{
    const struct config_file *file = file_of(config, kind);
    snp_autobuf struct snp_buf names = {0};
    const char *name = NULL;
    json_t *value = NULL;
    size_t n = 0;
    if (file->trust == SNP_TRUST_GIVEN) {
        return NULL;
    }
    snp_buf_init(&names, IGNORED_LINE);
    json_object_foreach(file->asks, name, value)
    {
        if (is_missed(config, name, providers) && n++ < IGNORED_NAMES) {
            (void)!snp_buf_addf(&names, "%s%.*s", n == 1 ? "" : ", ", NAME_SHOWN, name);
        }
    }
    if (n == 0) {
        return NULL;
    }
    if (n > IGNORED_NAMES) {
        (void)!snp_buf_addf(&names, " and %zu more", n - IGNORED_NAMES);
    }
    snp_autofree char *folder = folder_of(file->path);
    snp_autofree char *word = folder == NULL ? NULL : snp_shell_word(folder);
    return snp_format("%s %s, so these are not used: %s. To see and allow them: snipara-sandbox "
                      "trust %s",
                      file->path,
                      file->trust == SNP_TRUST_CHANGED ? "has changed since you trusted it"
                                                       : "is not trusted",
                      snp_buf_cstr(&names), word == NULL ? "" : word);
}

bool snp_config_snipara_enabled(const struct snp_config *config)
{
    return snp_config_str(config, SNP_KEY_SNIPARA_API_KEY) != NULL &&
           snp_config_str(config, SNP_KEY_SNIPARA_PROJECT_SLUG) != NULL;
}

const char *snp_config_file(const struct snp_config *config)
{
    return config->toml.path;
}

const char *snp_config_env_file(const struct snp_config *config)
{
    return config->env.path;
}

size_t snp_config_warnings(const struct snp_config *config, const char *const **ret_lines)
{
    *ret_lines = (const char *const *)config->warnings;
    return config->n_warnings;
}

/* ---- as JSON ---- */

/* A limit in the unit people write: seconds, processors, bytes, a count. */
static json_t *limit_to_json(enum snp_limit limit, const json_t *value)
{
    json_int_t number = json_integer_value(value);
    enum snp_limit_unit unit = snp_limit_info(limit)->unit;
    bool is_thousandths = unit == SNP_UNIT_MS || unit == SNP_UNIT_MILLI;
    return is_thousandths ? json_real((double)number / 1000.0) : json_integer(number);
}

char *snp_config_shown(const struct snp_config *config, enum snp_config_key key)
{
    const char *text = snp_config_str(config, key);
    bool is_url = key == SNP_KEY_BASE_URL || key == SNP_KEY_SNIPARA_BASE_URL;
    const char *at = text == NULL || !is_url ? NULL : strrchr(text, '@');
    const char *scheme = at == NULL ? NULL : strstr(text, "://");

    if (text == NULL || at == NULL) {
        return text == NULL ? NULL : strdup(text);
    }
    return snp_format("%.*s***%s", scheme == NULL || scheme > at ? 0 : (int)(scheme + 3 - text),
                      text, at);
}

static int add_key(const struct snp_config *config, enum snp_config_key key, json_t *object)
{
    const struct snp_config_info *info = snp_config_info(key);
    const json_t *value = config->slots[key].value;
    if (info->is_secret) {
        snp_autofree char *name = snp_format("%s_set", info->name);
        return name == NULL ? -1 : json_object_set_new(object, name, json_boolean(value != NULL));
    }
    json_t *copy = NULL;
    if (value == NULL) {
        copy = json_null();
    } else if (info->type == SNP_CONFIG_LIMIT) {
        copy = limit_to_json((enum snp_limit)(key - SNP_KEY_LIMIT_FIRST), value);
    } else if (info->type == SNP_CONFIG_STRING) {
        snp_autofree char *shown = snp_config_shown(config, key);

        copy = json_string(shown);
    } else {
        copy = json_deep_copy(value);
    }
    return json_object_set_new(object, info->name, copy);
}

static json_t *text_or_null(const char *text)
{
    /* A path that is not UTF-8 is shown repaired. */
    return text == NULL ? json_null() : snp_json_bytes(text, strlen(text));
}

static int add_files(const struct snp_config *config, json_t *object)
{
    const char *const paths[] = {config->toml.path, config->env.path};
    static const char *const names[][2] = {
        {"config_file", "config_file_exists"},
        {"project_env_file", "project_env_file_exists"},
    };
    int r = 0;
    for (size_t i = 0; i < SNP_ARRAY_LEN(paths); i++) {
        r |= json_object_set_new(object, names[i][0], text_or_null(paths[i]));
        r |= json_object_set_new(object, names[i][1], json_boolean(paths[i] != NULL));
    }
    return r;
}

/* The names of both files; NULL when out of memory. */
static json_t *ignored_to_json(const struct snp_config *config)
{
    json_t *names = json_array();
    const char *name = NULL;
    json_t *value = NULL;
    for (int kind = 0; kind < SNP_FILE_N; kind++) {
        const struct config_file *file = file_of(config, (enum snp_config_file_kind)kind);
        json_object_foreach(file->trust == SNP_TRUST_GIVEN ? NULL : file->asks, name, value)
        {
            if (is_missed(config, name, true)) {
                (void)json_array_append_new(names, json_string(name));
            }
        }
    }
    return names;
}

const char *snp_config_note(const struct snp_config *config, enum snp_config_key key)
{
    bool is_noted =
        snp_config_info(key)->has_no_effect && snp_config_origin(config, key) != SNP_ORIGIN_DEFAULT;
    return is_noted ? "accepted from 2.x, no effect" : NULL;
}

json_t *snp_config_to_json(const struct snp_config *config)
{
    snp_autojson json_t *object = json_object();
    snp_autojson json_t *sources = json_object();
    snp_autojson json_t *notes = json_object();
    if (object == NULL || sources == NULL || notes == NULL || add_files(config, object) < 0) {
        return NULL;
    }
    int r = 0;
    for (int i = SNP_KEY_NONE + 1; i < SNP_KEY_N; i++) {
        enum snp_config_key key = (enum snp_config_key)i;
        r |= add_key(config, key, object);
        r |= json_object_set_new(sources, snp_config_info(key)->name,
                                 text_or_null(snp_config_source(config, key)));
        const char *note = snp_config_note(config, key);
        if (note != NULL) {
            r |= json_object_set_new(notes, snp_config_info(key)->name, json_string(note));
        }
    }
    r |= json_object_set_new(object, "snipara_enabled",
                             json_boolean(snp_config_snipara_enabled(config)));
    r |= json_object_set(object, "sources", sources);
    r |= json_object_set(object, "notes", notes);
    r |= json_object_set_new(object, "ignored", ignored_to_json(config));
    return r < 0 ? NULL : SNP_TAKE_PTR(object);
}
