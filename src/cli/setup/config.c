/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `config show`: every effective value and its source. Secrets are shown as yes or no. Rows and
 * sections come from the table of keys, plus a few made of several keys.
 */

#include "base/config/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cli/need.h"
#include "base/cli/term.h"
#include "base/session/tier.h"
#include "base/str.h"
#include "cli/cli.h"

enum {
    VALUE_MAX_BYTES = 64 * 1024,
};

/* Add a row; value is taken over. */
static void add_row(
    struct snp_table *table, const char *section, const char *name, char *value, const char *source)
{
    snp_autofree char *owned = snp_need(value);

    snp_table_add(table, section);
    snp_table_style(table, SNP_STYLE_CYAN);
    snp_table_add(table, name);
    snp_table_add(table, owned);
    snp_table_add(table, source);
    snp_table_style(table, snp_streq(source, "default") ? SNP_STYLE_DIM : SNP_STYLE_GREEN);
}

static void add_noted(struct snp_table *table,
                      const char *section,
                      const char *name,
                      char *value,
                      const char *source,
                      const char *note)
{
    snp_autofree char *noted = note == NULL ? NULL : snp_need_format("%s (%s)", source, note);
    add_row(table, section, name, value, note == NULL ? source : noted);
}

static char *yes_no(bool value)
{
    return strdup(value ? "yes" : "no");
}

static char *float_text(double value)
{
    return snp_format(fabs(value) < 1e15 && round(value) == value ? "%.1f" : "%.15g", value);
}

static char *join_items(const char *const *items, size_t n)
{
    snp_autobuf struct snp_buf out = {0};
    snp_buf_init(&out, VALUE_MAX_BYTES);
    for (size_t i = 0; i < n; i++) {
        if (snp_buf_addf(&out, "%s%s", i == 0 ? "" : ", ", items[i]) < 0) {
            return snp_format("%zu items", n);
        }
    }
    return snp_need_copy(snp_need(snp_buf_cstr(&out)));
}

static char *limit_text(const struct snp_config *config, enum snp_config_key key)
{
    char text[32];
    struct snp_limits limits;
    enum snp_limit limit = (enum snp_limit)(key - SNP_KEY_LIMIT_FIRST);
    snp_config_limits(config, &limits);
    return strdup(snp_limit_format(limit, limits.value[limit], text, sizeof(text)));
}

/* ---- rows made of several keys ---- */

static char *mount_text(const struct snp_config *config)
{
    const char *path = snp_config_str(config, SNP_KEY_DOCKER_WORKSPACE_PATH);
    if (!snp_config_bool(config, SNP_KEY_DOCKER_MOUNT_WORKSPACE)) {
        return strdup("disabled");
    }
    return snp_format("%s (read-only)", path == NULL ? "current working directory" : path);
}

static char *setup_text(const struct snp_config *config)
{
    const char *const *items = NULL;
    size_t n = snp_config_list(config, SNP_KEY_DOCKER_WORKSPACE_INSTALL_EXTRAS, &items);
    snp_autofree char *extras = join_items(items, n);
    bool is_custom = snp_config_str(config, SNP_KEY_DOCKER_WORKSPACE_INSTALL_COMMAND) != NULL;
    return snp_format("%s%s%s%s%s", snp_config_str(config, SNP_KEY_DOCKER_WORKSPACE_SETUP),
                      is_custom ? " via custom install command" : "", n > 0 ? " + extras [" : "",
                      extras, n > 0 ? "]" : "");
}

static char *paths_text(const struct snp_config *config)
{
    const char *const *items = NULL;
    size_t n = snp_config_list(config, SNP_KEY_ALLOWED_PATHS, &items);
    return n == 0 ? strdup("current working directory only") : join_items(items, n);
}

static char *slug_text(const struct snp_config *config)
{
    const char *slug = snp_config_str(config, SNP_KEY_SNIPARA_PROJECT_SLUG);
    return strdup(slug == NULL ? "not set" : slug);
}

static const struct {
    enum snp_config_key key;
    char *(*text)(const struct snp_config *config);
} special[] = {
    {SNP_KEY_DOCKER_MOUNT_WORKSPACE, mount_text},
    {SNP_KEY_DOCKER_WORKSPACE_SETUP, setup_text},
    {SNP_KEY_ALLOWED_PATHS, paths_text},
    {SNP_KEY_SNIPARA_PROJECT_SLUG, slug_text},
};

/* The displayed value of a key; the caller's, NULL when out of memory. */
static char *value_text(const struct snp_config *config, enum snp_config_key key)
{
    const struct snp_config_info *info = snp_config_info(key);
    for (size_t i = 0; i < SNP_ARRAY_LEN(special); i++) {
        if (special[i].key == key) {
            return special[i].text(config);
        }
    }
    if (info->is_secret) {
        return yes_no(snp_config_str(config, key) != NULL);
    }
    const char *const *items = NULL;
    switch (info->type) {
    case SNP_CONFIG_STRING:
    case SNP_CONFIG_PATH: {
        char *text = snp_config_shown(config, key);
        return text == NULL ? strdup("not set") : text;
    }
    case SNP_CONFIG_BOOL:
        return yes_no(snp_config_bool(config, key));
    case SNP_CONFIG_INT:
        return snp_format("%lld", (long long)snp_config_int(config, key));
    case SNP_CONFIG_FLOAT:
        return float_text(snp_config_float(config, key));
    case SNP_CONFIG_LIST: {
        size_t n = snp_config_list(config, key, &items);
        return n == 0 ? strdup("none") : join_items(items, n);
    }
    case SNP_CONFIG_LIMIT:
        return limit_text(config, key);
    }
    return NULL;
}

/* ---- the table ---- */

/* Sections in the order of printing; those of the table of keys, and Source. */
static const char *const sections[] = {
    "Runtime",   "Sessions", "Sandbox", "Docker",  "Limits",
    "Sub-calls", "Security", "Logging", "Snipara",
};

static void add_files(struct snp_table *table, const struct snp_config *config)
{
    const char *file = snp_config_file(config);
    const char *env_file = snp_config_env_file(config);

    add_row(table, "Source", "Config file", strdup(file == NULL ? "not found" : file), "-");
    add_row(table, "Source", "Project .env", strdup(env_file == NULL ? "not found" : env_file),
            "-");
}

static void add_section(struct snp_table *table,
                        const struct snp_config *config,
                        const char *section)
{
    if (snp_streq(section, "Snipara")) {
        bool is_enabled = snp_config_snipara_enabled(config);
        add_noted(table, section, "Enabled", yes_no(is_enabled), "derived",
                  is_enabled ? snp_config_note(config, SNP_KEY_SNIPARA_API_KEY) : NULL);
    }
    for (int i = SNP_KEY_NONE + 1; i < SNP_KEY_N; i++) {
        enum snp_config_key key = (enum snp_config_key)i;
        const struct snp_config_info *info = snp_config_info(key);

        if (snp_streq(info->section, section)) {
            add_noted(table, section, info->row, value_text(config, key),
                      snp_config_source(config, key), snp_config_note(config, key));
        }
    }
}

static void print_table(const struct snp_config *config)
{
    static const char *const heads[] = {"Section", "Setting", "Value", "Source"};
    struct snp_table table = SNP_TABLE(heads);

    add_files(&table, config);
    for (size_t i = 0; i < SNP_ARRAY_LEN(sections); i++) {
        add_section(&table, config, sections[i]);
    }
    snp_term_put(stdout, SNP_STYLE_BOLD, "Effective Configuration");
    (void)fputs("\n\n", stdout);
    snp_table_print(stdout, &table, "");
}

static int run_show(struct snp_cli *cli, const struct snp_opts *opts)
{
    snp_autojson json_t *object = NULL;
    struct snp_err err;
    const struct snp_config *config = NULL;

    if (snp_cli_config(cli, opts, &config, &err) < 0) {
        return snp_cli_fail(cli, &err);
    }
    if (!cli->is_json) {
        print_table(config);
        return SNP_EXIT_OK;
    }
    object = snp_need(snp_config_to_json(config));
    (void)json_object_set_new(object, "tier", snp_need(json_pack("s?", snp_cli_tier(config))));
    return snp_cli_end(cli, 0, NULL, object);
}

static const struct snp_opt show_options[] = {
    SNP_CLI_OPT_CONFIG,
    SNP_CLI_OPT_JSON,
};

static const struct snp_verb verb_show = {
    .name = "show",
    .summary = "print every value and its source",
    .description = "Print every value in force and its source: an option, a variable, .env, "
                   "the file, or the default. Unknown keys are named on standard error. "
                   "Secrets are only shown as set or not.",
    .spec = SNP_OPTIONS(show_options),
    .asks_models = true,
    .examples = "config show\nconfig show --json",
    .exit_codes = "0  shown\n1  --config names no file\n2  usage error, or the configuration is "
                  "malformed",
    .run = run_show,
};

const struct snp_verb snp_verb_config = {
    .name = "config",
    .summary = "show the configuration",
    .verbs = (const struct snp_verb *const[]){&verb_show, NULL},
    .fallback = &verb_show,
};
