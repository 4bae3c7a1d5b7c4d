/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes from a model's name to a provider.
 *
 * Keys and addresses set by a project's files are ignored until the user trusts the files
 * (config/trust.h). A project may choose a model if its provider has a well-known address; the key
 * is sent only to that provider.
 */
#include "model/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/http/http.h"
#include "base/http/url.h"
#include "base/str.h"

static const char bearer[] = "Authorization: Bearer ";

/* clang-format off */
static const struct snp_model_route routes[] = {
    /* name, driver, address, header of the key, variables of address and key */
    {"openai", &snp_model_openai, "https://api.openai.com/v1", bearer,
     {"OPENAI_BASE_URL", "OPENAI_API_BASE"}, {"OPENAI_API_KEY"}},
    {"anthropic", &snp_model_anthropic, "https://api.anthropic.com", "X-Api-Key: ",
     {"ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"}, {"ANTHROPIC_API_KEY"}},
    {"gemini", &snp_model_gemini, "https://generativelanguage.googleapis.com", "X-Goog-Api-Key: ",
     {"GOOGLE_GEMINI_BASE_URL", "GEMINI_API_BASE"}, {"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
    {"openrouter", &snp_model_openai, "https://openrouter.ai/api/v1", bearer,
     {"OPENROUTER_API_BASE"}, {"OPENROUTER_API_KEY"}},
    {"mistral", &snp_model_openai, "https://api.mistral.ai/v1", bearer,
     {"MISTRAL_API_BASE"}, {"MISTRAL_API_KEY"}},
    {"groq", &snp_model_openai, "https://api.groq.com/openai/v1", bearer,
     {"GROQ_API_BASE"}, {"GROQ_API_KEY"}},
    {"deepseek", &snp_model_openai, "https://api.deepseek.com", bearer,
     {"DEEPSEEK_API_BASE"}, {"DEEPSEEK_API_KEY"}},
    {"xai", &snp_model_openai, "https://api.x.ai/v1", bearer,
     {"XAI_API_BASE"}, {"XAI_API_KEY"}},
    {"together_ai", &snp_model_openai, "https://api.together.xyz/v1", bearer,
     {"TOGETHER_AI_API_BASE"}, {"TOGETHERAI_API_KEY", "TOGETHER_API_KEY"}},
    {"azure", &snp_model_openai, NULL, "api-key: ",
     {"AZURE_API_BASE"}, {"AZURE_API_KEY"}, .version_env = "AZURE_API_VERSION",
     .version = "2024-10-21"},
    {"ollama", &snp_model_openai, "http://localhost:11434/v1", bearer,
     {"OLLAMA_API_BASE"}, {"OLLAMA_API_KEY"}, .base_suffix = "/v1", .needs_no_key = true},
    {"lm_studio", &snp_model_openai, "http://localhost:1234/v1", bearer,
     {"LM_STUDIO_API_BASE"}, {"LM_STUDIO_API_KEY"}, .needs_no_key = true},
    {"llamafile", &snp_model_openai, "http://localhost:8080/v1", bearer,
     {"LLAMAFILE_API_BASE"}, {NULL}, .needs_no_key = true},
    {"hosted_vllm", &snp_model_openai, NULL, bearer,
     {"HOSTED_VLLM_API_BASE"}, {"HOSTED_VLLM_API_KEY"}, .needs_no_key = true},
    {"replay", .needs_no_key = true},
};
/* clang-format on */

/* Prefixes of model names without a provider. */
static const struct {
    const char *begin;
    const char *route;
} families[] = {
    {"gpt-", "openai"},        {"chatgpt-", "openai"},    {"ft:", "openai"},
    {"o1", "openai"},          {"o3", "openai"},          {"o4", "openai"},
    {"claude-", "anthropic"},  {"gemini-", "gemini"},     {"mistral-", "mistral"},
    {"ministral-", "mistral"}, {"magistral-", "mistral"}, {"codestral-", "mistral"},
    {"devstral-", "mistral"},  {"deepseek-", "deepseek"}, {"grok-", "xai"},
};

const struct snp_model_route *snp_model_route_at(size_t i)
{
    return i < SNP_ARRAY_LEN(routes) ? &routes[i] : NULL;
}

static const struct snp_model_route *route_named(const char *name, size_t n)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(routes); i++) {
        if (strlen(routes[i].name) == n && memcmp(routes[i].name, name, n) == 0) {
            return &routes[i];
        }
    }
    return NULL;
}

/*
 * Find the route by the name's prefix, then by its family; *ret_rest = the name without the prefix.
 * NULL: unknown.
 */
static const struct snp_model_route *route_of_name(const char *name, const char **ret_rest)
{
    const char *slash = strchr(name, '/');
    size_t n = slash == NULL ? 0 : (size_t)(slash - name);

    *ret_rest = slash == NULL ? name : slash + 1;
    if (n == strlen("ollama_chat") && memcmp(name, "ollama_chat", n) == 0) {
        return route_named("ollama", strlen("ollama"));
    }
    const struct snp_model_route *route = slash == NULL ? NULL : route_named(name, n);
    if (route != NULL) {
        return route;
    }
    *ret_rest = name;
    for (size_t i = 0; i < SNP_ARRAY_LEN(families); i++) {
        if (snp_has_prefix(name, families[i].begin)) {
            return route_named(families[i].route, strlen(families[i].route));
        }
    }
    return NULL;
}

/* Addresses ------------------------------------------------------------------------------- */

struct base {
    const char *url;
    const char *from;
    const char *suffix;
};

typedef const char *(*env_fn)(const struct snp_config *config, const char *name);

/* A variable by get; empty means unset. */
static const char *variable(const struct snp_config *config, env_fn get, const char *name)
{
    const char *text = get(config, name);

    return text != NULL && text[0] != '\0' ? text : NULL;
}

/* A variable of the process if set and not empty, else of a trusted .env. */
static const char *env(const struct snp_config *config, const char *name)
{
    const char *text = variable(config, snp_config_process_env, name);

    return text != NULL ? text : variable(config, snp_config_env, name);
}

static bool base_find(const struct snp_config *config,
                      const struct snp_model_route *route,
                      bool is_configured,
                      struct base *ret)
{
    const char *url = snp_config_str(config, SNP_KEY_BASE_URL);

    *ret = (struct base){0};
    if (is_configured && url != NULL && url[0] != '\0') {
        *ret = (struct base){url, snp_config_source(config, SNP_KEY_BASE_URL), NULL};
        return true;
    }
    for (size_t i = 0; i < SNP_MODEL_ENV_NAMES && route->base_env[i] != NULL; i++) {
        url = env(config, route->base_env[i]);
        if (url != NULL) {
            *ret = (struct base){url, route->base_env[i], route->base_suffix};
            return true;
        }
    }
    ret->url = route->base_url;
    return ret->url != NULL;
}

static int set_base(struct snp_model_target *target, const struct base *base, struct snp_err *err)
{
    size_t n = strlen(base->url);

    while (n > 0 && base->url[n - 1] == '/') {
        n--;
    }
    const char *suffix = base->suffix;
    if (suffix != NULL && n >= strlen(suffix) &&
        memcmp(base->url + n - strlen(suffix), suffix, strlen(suffix)) == 0) {
        suffix = NULL; /* the suffix is already there */
    }
    target->base_url = snp_format("%.*s%s", (int)n, base->url, suffix == NULL ? "" : suffix);
    target->is_origin = snp_streq(target->base_url, target->route->base_url);
    if (target->base_url == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    /* in a private network a server without TLS is common */
    if (snp_http_url_check(target->base_url, SNP_HTTP_URL_PLAIN, err) < 0) {
        return snp_err_wrap(err, "%s", base->from == NULL ? "base_url" : base->from);
    }
    return 0;
}

/* Keys ------------------------------------------------------------------------------------ */

static void set_key(struct snp_model_target *target,
                    enum snp_model_key_kind kind,
                    const char *value,
                    const char *name,
                    const char *suffix)
{
    target->key_kind = kind;
    target->key_value = value;
    (void)snprintf(target->key_name, sizeof(target->key_name), "%s%s", name, suffix);
}

/* A variable NAME, NAME_FILE or NAME_COMMAND; those of the process come before those of .env. */
static bool key_from(const struct snp_config *config,
                     struct snp_model_target *target,
                     const char *name)
{
    static const struct {
        const char *suffix;
        enum snp_model_key_kind kind;
    } kinds[] = {
        {"", SNP_MODEL_KEY_TEXT},
        {"_FILE", SNP_MODEL_KEY_FILE},
        {"_COMMAND", SNP_MODEL_KEY_COMMAND},
    };
    static const env_fn gets[] = {snp_config_process_env, snp_config_env};

    for (size_t i = 0; i < SNP_ARRAY_LEN(gets) * SNP_ARRAY_LEN(kinds); i++) {
        size_t kind = i % SNP_ARRAY_LEN(kinds);
        char full[sizeof(target->key_name)];
        (void)snprintf(full, sizeof(full), "%s%s", name, kinds[kind].suffix);
        const char *value = variable(config, gets[i / SNP_ARRAY_LEN(kinds)], full);
        if (value != NULL) {
            set_key(target, kinds[kind].kind, value, name, kinds[kind].suffix);
            return true;
        }
    }
    return false;
}

/* The key configured for this program alone. */
static bool own_key(const struct snp_config *config, struct snp_model_target *target)
{
    const char *text = snp_config_str(config, SNP_KEY_API_KEY);
    enum snp_config_origin origin = snp_config_origin(config, SNP_KEY_API_KEY);
    bool has_text = text != NULL && text[0] != '\0';

    if (has_text && origin >= SNP_ORIGIN_ENV) {
        set_key(target, SNP_MODEL_KEY_TEXT, text, snp_config_source(config, SNP_KEY_API_KEY), "");
        return true;
    }
    if (key_from(config, target, "SNIPARA_SANDBOX_LLM_API_KEY")) {
        return true;
    }
    if (has_text) {
        set_key(target, SNP_MODEL_KEY_TEXT, text, "api_key", "");
    }
    return has_text;
}

static bool key_find(const struct snp_config *config,
                     struct snp_model_target *target,
                     bool is_configured)
{
    const struct snp_model_route *route = target->route;

    if (is_configured && own_key(config, target)) {
        return true;
    }
    for (size_t i = 0; i < SNP_MODEL_ENV_NAMES && route->key_env[i] != NULL; i++) {
        if (key_from(config, target, route->key_env[i])) {
            return true;
        }
    }
    return false;
}

static int open_route(const struct snp_config *config,
                      struct snp_model_target *target,
                      bool is_configured,
                      struct snp_err *err)
{
    const struct snp_model_route *route = target->route;
    struct base base;

    bool has_key = key_find(config, target, is_configured);
    if (!base_find(config, route, is_configured, &base)) {
        return snp_fail(err, SNP_E_NOT_FOUND,
                        "%s has no default address; set %s or base_url (SNIPARA_SANDBOX_BASE_URL)",
                        route->name, route->base_env[0]);
    }
    int r = set_base(target, &base, err);
    if (r < 0) {
        return r;
    }
    if (!has_key && !route->needs_no_key && target->is_origin) {
        return snp_fail(err, SNP_E_NOT_FOUND,
                        "no key for %s: set %s (or %s_FILE, %s_COMMAND) in the environment, or "
                        "in a .env that you trust",
                        route->name, route->key_env[0], route->key_env[0], route->key_env[0]);
    }
    if (route->version_env != NULL) {
        const char *version = env(config, route->version_env);
        target->api_version = version != NULL ? version : route->version;
    }
    return 0;
}

/* Choosing -------------------------------------------------------------------------------- */

static int set_target(struct snp_model_target *target,
                      const struct snp_model_route *route,
                      const char *model,
                      struct snp_err *err)
{
    target->route = route;
    target->model = strdup(model);
    return target->model == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static int set_replay(const struct snp_config *config,
                      struct snp_model_target *target,
                      bool is_path,
                      struct snp_err *err)
{
    target->replay_file = is_path ? target->model : snp_config_str(config, SNP_KEY_REPLAY_FILE);
    if (target->replay_file == NULL || target->replay_file[0] == '\0') {
        return snp_fail(
            err, SNP_E_NOT_FOUND,
            "backend replay: set replay_file (SNIPARA_SANDBOX_REPLAY_FILE) to a file of "
            "answers, or name the model replay/FILE");
    }
    return 0;
}

/* The default model of the first provider that has a key; NULL if none has. */
static const char *ready_default(const struct snp_config *config, const json_t *defaults)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(routes); i++) {
        struct snp_model_target probe = {.route = &routes[i]};
        const char *model = snp_json_str(defaults, routes[i].name, NULL);

        if (model != NULL && key_find(config, &probe, false)) {
            return model;
        }
    }
    return NULL;
}

/* litellm: the name contains the provider. */
static int by_name(const struct snp_config *config,
                   const char *name,
                   struct snp_model_target *ret,
                   struct snp_err *err)
{
    const char *rest = NULL;
    const struct snp_model_route *route = route_of_name(name, &rest);

    if (route != NULL && route->driver == NULL) {
        int r = set_target(ret, route, rest, err);
        return r < 0 ? r : set_replay(config, ret, strchr(name, '/') != NULL, err);
    }
    const char *base = snp_config_str(config, SNP_KEY_BASE_URL);
    if (base != NULL && base[0] != '\0') { /* a proxy: it resolves the name */
        int r = set_target(ret, &routes[0], name, err);
        return r < 0 ? r : open_route(config, ret, true, err);
    }
    if (route == NULL) {
        return snp_fail(err, SNP_E_INVALID,
                        "No provider known for model \"%.80s\". Write openai/NAME, "
                        "anthropic/NAME, gemini/NAME, "
                        "ollama/NAME, openrouter/NAME, ..., or set base_url",
                        name);
    }
    /* this program's key is only for the provider for which the user configured it */
    const char *unused = NULL;
    const char *configured = snp_config_str(config, SNP_KEY_MODEL);
    bool is_configured = route == route_of_name(snp_config_is_users(config, SNP_KEY_MODEL)
                                                    ? configured
                                                    : snp_config_info(SNP_KEY_MODEL)->fallback,
                                                &unused);
    int r = set_target(ret, route, rest, err);
    return r < 0 ? r : open_route(config, ret, is_configured, err);
}

int snp_model_route(const struct snp_config *config,
                    const json_t *defaults,
                    const char *name,
                    struct snp_model_target *ret,
                    struct snp_err *err)
{
    const char *backend = snp_config_str(config, SNP_KEY_BACKEND);
    bool is_default = (name == NULL || name[0] == '\0') &&
                      snp_config_origin(config, SNP_KEY_MODEL) == SNP_ORIGIN_DEFAULT;
    const char *configured = snp_config_str(config, SNP_KEY_MODEL);

    *ret = (struct snp_model_target){0};
    name = name == NULL || name[0] == '\0' ? configured : name;
    if (snp_has_prefix(name, "replay/")) {
        return by_name(config, name, ret, err);
    }
    if (strcmp(backend, "litellm") != 0) {
        const struct snp_model_route *route = route_named(backend, strlen(backend));
        const char *rest = is_default ? snp_json_str(defaults, backend, name) : name;
        size_t n = strlen(route->name);

        if (snp_has_prefix(rest, route->name) && rest[n] == '/') {
            rest += n + 1;
        }
        int r = set_target(ret, route, rest, err);
        if (r < 0) {
            return r;
        }
        return route->driver == NULL ? set_replay(config, ret, false, err)
                                     : open_route(config, ret, true, err);
    }
    int r = by_name(config, name, ret, err);
    if (r == SNP_E_NOT_FOUND && is_default) { /* a default, not chosen by the user: use a model
                                               * that is available */
        const char *other = ready_default(config, defaults);
        if (other != NULL) {
            snp_model_target_done(ret);
            return by_name(config, other, ret, err);
        }
    }
    return r;
}

void snp_model_target_done(struct snp_model_target *target)
{
    free(target->model);
    free(target->base_url);
    *target = (struct snp_model_target){0};
}
