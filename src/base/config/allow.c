/* SPDX-License-Identifier: Apache-2.0 */
#include "base/config/allow.h"

#include <string.h>

#include "base/config/value.h"
#include "base/str.h"

/* Convert to a number: values of type limit are numbers; docker_memory is a text with one. */
static bool to_number(enum snp_config_key key, const json_t *value, double *ret)
{
    snp_autojson json_t *parsed = NULL;
    struct snp_err err;

    if (json_is_string(value) && key == SNP_KEY_DOCKER_MEMORY &&
        snp_value_from_json(SNP_KEY_OF_LIMIT(SNP_LIMIT_MEMORY), value, "", &parsed, &err) == 0) {
        value = parsed;
    }
    *ret = json_number_value(value);
    return json_is_number(value);
}

static bool is_less(enum snp_config_key key, const json_t *value, const json_t *fallback)
{
    double given;
    double most;

    return to_number(key, value, &given) && to_number(key, fallback, &most) && given <= most &&
           (given > 0 || !snp_config_info(key)->zero_lifts);
}

/*
 * True for no model, or one of a provider with a well-known address and TLS. At other addresses,
 * such as a port of this machine, anyone may listen. A unit test keeps the list and model/route.c
 * in step.
 */
static bool is_well_known(const char *model)
{
    static const char *const providers[] = {"openai",     "anthropic", "gemini",
                                            "openrouter", "mistral",   "groq",
                                            "deepseek",   "xai",       "together_ai"};
    size_t n = strcspn(model, "/");

    for (size_t i = 0; model[n] != '\0' && i < SNP_ARRAY_LEN(providers); i++) {
        if (strlen(providers[i]) == n && memcmp(providers[i], model, n) == 0) {
            return true;
        }
    }
    return model[n] == '\0';
}

/* Relative, and without '..'. */
static bool is_below(const char *path)
{
    if (path[0] == '/') {
        return false;
    }
    while (*path != '\0') {
        size_t n = strcspn(path, "/");
        if (n == 2 && path[0] == '.' && path[1] == '.') {
            return false;
        }
        path += n + (path[n] == '/' ? 1 : 0);
    }
    return true;
}

static bool is_safe(const struct snp_config_info *info, const json_t *value)
{
    for (size_t i = 0; i < SNP_CONFIG_SAFE_VALUES && info->safe[i] != NULL; i++) {
        if (snp_streq(info->safe[i], json_string_value(value))) {
            return true;
        }
    }
    return false;
}

bool snp_config_is_harmless(enum snp_config_key key, const json_t *value)
{
    const struct snp_config_info *info = snp_config_info(key);
    snp_autojson json_t *fallback = NULL;
    struct snp_err err;

    if (value == NULL || info->trust == SNP_CONFIG_FREE) {
        return true;
    }
    if (info->fallback != NULL &&
        snp_value_from_text(key, info->fallback, info->name, &fallback, &err) < 0) {
        return false;
    }
    if (fallback != NULL && json_equal(value, fallback)) {
        return true;
    }
    switch (info->trust) {
    case SNP_CONFIG_DOWN:
        return is_less(key, value, fallback);
    case SNP_CONFIG_SAFE:
        return is_safe(info, value);
    case SNP_CONFIG_NAME:
        return is_well_known(json_string_value(value));
    case SNP_CONFIG_BELOW:
        return is_below(json_string_value(value));
    case SNP_CONFIG_FREE:
    case SNP_CONFIG_ASKS:
        break;
    }
    return false;
}

bool snp_config_keeps(enum snp_config_key key, const json_t *value, const json_t *said)
{
    return json_equal(value, said) ||
           (snp_config_info(key)->trust == SNP_CONFIG_DOWN && is_less(key, value, said));
}

bool snp_config_is_provider_variable(const char *name)
{
    static const char *const ends[] = {
        "_API_KEY", "_API_KEY_FILE", "_API_KEY_COMMAND", "_BASE_URL", "_API_BASE", "_API_VERSION",
    };
    size_t n = strlen(name);

    for (size_t i = 0; i < SNP_ARRAY_LEN(ends); i++) {
        size_t n_end = strlen(ends[i]);
        if (n > n_end && strcmp(name + n - n_end, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}
