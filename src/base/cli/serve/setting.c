/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cli/serve/setting.h"

#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/str.h"

enum {
    NAMES_MAX = 128,
};

/* Options that only make sense on the command line. */
static const char *const not_settings[] = {"json", "events", "attached", "show-config"};

/* Options whose configuration key has another name. */
static const struct {
    const char *setting;
    const char *option;
} other_names[] = {
    {"max_subcalls", "max-calls"},
    {"output_dir", "output"},
    {"sub_calls_max_per_turn", "max-sub-calls"},
    {"timeout_seconds", "timeout"},
};

/* Configuration keys that differ from the option of the same name. */
static bool is_limit(const char *setting)
{
    return strcmp(setting, "timeout") == 0 || strcmp(setting, "output") == 0;
}

static const struct snp_opt *option_find(const struct snp_verb *verb, const char *name)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(not_settings); i++) {
        if (strcmp(not_settings[i], name) == 0) {
            return NULL;
        }
    }
    for (size_t i = 0; i < verb->spec.n_options; i++) {
        if (strcmp(verb->spec.options[i].name, name) == 0) {
            return &verb->spec.options[i];
        }
    }
    return NULL;
}

/* The option that corresponds to a setting; NULL = none. */
static const struct snp_opt *option_of(const struct snp_verb *verb, const char *setting)
{
    snp_autofree char *name = snp_need_copy(setting);
    const struct snp_opt *option;

    for (char *at = name; *at != '\0'; at++) {
        *at = *at == '_' ? '-' : *at;
    }
    option = option_find(verb, name);
    for (size_t i = 0; option == NULL && i < SNP_ARRAY_LEN(other_names); i++) {
        option = strcmp(other_names[i].setting, setting) == 0
                     ? option_find(verb, other_names[i].option)
                     : NULL;
    }
    return option;
}

static int unknown(const struct snp_verb *verb, const char *setting, struct snp_err *err)
{
    char *names[NAMES_MAX];
    const char *known[NAMES_MAX];
    size_t n_names = 0;
    size_t n = 0;
    const char *near;
    int r;

    for (int i = SNP_KEY_NONE + 1; i < SNP_KEY_N; i++) {
        known[n++] = snp_config_info((enum snp_config_key)i)->name;
    }
    for (size_t i = 0; i < verb->spec.n_options && n < NAMES_MAX; i++) {
        const struct snp_opt *option = option_find(verb, verb->spec.options[i].name);

        if (option != NULL && option->key == SNP_KEY_NONE) {
            names[n_names] = snp_need_copy(option->name);
            for (char *at = names[n_names]; *at != '\0'; at++) {
                *at = *at == '-' ? '_' : *at;
            }
            known[n++] = names[n_names++];
        }
    }
    near = snp_suggest(setting, known, n);
    r = snp_fail_with(err, SNP_E_INVALID, near == NULL ? SNP_REMEDY_NONE : SNP_REMEDY_NEAR_NAME,
                      near, 0, "unknown setting '%.60s'", setting);
    snp_err_about(err, setting);
    while (n_names > 0) {
        free(names[--n_names]);
    }
    return r;
}

void snp_settings_add(struct snp_settings *settings, char *word)
{
    SNP_ASSERT(settings->argc < SNP_SETTINGS_MAX + 7);
    settings->argv[settings->argc++] = snp_need(word);
}

/* A flag; other options take the text. */
static int option_add(struct snp_settings *settings,
                      const struct snp_opt *option,
                      const char *text,
                      struct snp_err *err)
{
    bool is_on = strcmp(text, "true") == 0;
    bool is_switch = option->type == SNP_OPT_FLAG || option->type == SNP_OPT_BOOL;

    if (!is_switch) {
        snp_settings_add(settings, snp_format("--%s=%s", option->name, text));
    } else if (!is_on && strcmp(text, "false") != 0) {
        return snp_fail(err, SNP_E_INVALID, "%s is true or false, not '%.40s'", option->name, text);
    } else if (is_on || option->type == SNP_OPT_BOOL) {
        snp_settings_add(settings, snp_format("--%s%s", is_on ? "" : "no-", option->name));
    }
    return 0;
}

static int one_read(struct snp_settings *settings,
                    const char *text,
                    const struct snp_verb *verb,
                    struct snp_err *err)
{
    const char *equals = strchr(text, '=');
    snp_autofree char *name =
        equals == NULL ? NULL : snp_need(strndup(text, (size_t)(equals - text)));
    const struct snp_opt *option;
    enum snp_config_key key;

    if (name == NULL) {
        return snp_fail(err, SNP_E_INVALID,
                        "'%.60s' is not a setting; write KEY=VALUE, as in max_depth=8", text);
    }
    option = option_of(verb, name);
    key = snp_config_key_from_name(name);
    if (key == SNP_KEY_NONE && option != NULL) {
        key = (enum snp_config_key)option->key;
    }
    if (option != NULL && option->key == SNP_KEY_NONE && (key == SNP_KEY_NONE || !is_limit(name))) {
        return option_add(settings, option, equals + 1, err);
    }
    if (key == SNP_KEY_NONE) {
        return unknown(verb, name, err);
    }
    settings->keys[settings->n_keys++] =
        (struct snp_cli_setting){key, snp_config_info(key)->name, equals + 1};
    return 0;
}

int snp_settings_read(struct snp_settings *ret,
                      const json_t *settings,
                      const struct snp_verb *verb,
                      struct snp_err *err)
{
    size_t i;
    json_t *text;
    int r = 0;

    *ret = (struct snp_settings){0};
    if (json_array_size(settings) > SNP_SETTINGS_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "more than %d settings", SNP_SETTINGS_MAX);
    }
    json_array_foreach((json_t *)(uintptr_t)settings, i, text)
    {
        r = r < 0 ? r : one_read(ret, json_string_value(text), verb, err);
    }
    return r;
}

void snp_settings_done(struct snp_settings *settings)
{
    while (settings->argc > 0) {
        free(settings->argv[--settings->argc]);
    }
}
