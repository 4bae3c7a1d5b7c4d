/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of new sessions, shared by the verbs that open some. */
#include "base/session/policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/config/config.h"
#include "base/policy/engine_socket.h"
#include "base/policy/template_name.h"
#include "base/registry/registry.h"
#include "base/rundir.h"
#include "base/session/image.h"
#include "base/session/tier.h"
#include "base/str.h"

int snp_cli_template_check(const struct snp_config *config, struct snp_err *err)
{
    const char *name = snp_config_str(config, SNP_KEY_TEMPLATE);
    snp_autofree char *state = NULL;
    snp_autojson json_t *record = NULL;
    int r = snp_template_name_check(name, err);

    if (r == 0 && !snp_template_is_builtin(name) && !snp_streq(name, "venv")) {
        r = snp_state_dir(&state, err);
        r = r < 0 ? r : snp_registry_read(state, name, &record, err);
    }
    return r;
}

int snp_cli_recover_check(const char *word, struct snp_err *err)
{
    const char *const *way = snp_recover_ways;

    while (*way != NULL && !snp_streq(*way, word)) {
        way++;
    }
    return word == NULL || snp_streq(word, "ask") || *way != NULL
               ? 0
               : snp_fail(err, SNP_E_INVALID,
                          "--recover is ask, replay, skip or checkpoint, not '%.40s'", word);
}

/*
 * Whether the user set the docker tier to show the workspace; by default only runs and servers do.
 */
static bool is_workspace_wanted(const struct snp_config *config)
{
    static const enum snp_config_key keys[] = {SNP_KEY_DOCKER_MOUNT_WORKSPACE,
                                               SNP_KEY_DOCKER_WORKSPACE_PATH,
                                               SNP_KEY_DOCKER_WORKSPACE_SETUP};

    for (size_t i = 0; i < SNP_ARRAY_LEN(keys); i++) {
        if (snp_config_origin(config, keys[i]) != SNP_ORIGIN_DEFAULT) {
            return true;
        }
    }
    return false;
}

const char *snp_cli_workspace(const struct snp_config *config, const char *tier, const char *usual)
{
    const char *path = snp_config_str(config, SNP_KEY_DOCKER_WORKSPACE_PATH);

    if (!snp_streq(tier, "docker")) {
        return usual;
    }
    if (!snp_config_bool(config, SNP_KEY_DOCKER_MOUNT_WORKSPACE)) {
        return NULL;
    }
    return path != NULL ? path : is_workspace_wanted(config) ? "." : usual;
}

/*
 * IMAGE, IMAGE#RUNTIME or IMAGE#RUNTIME#SOCKET: the image, runtime and engine of a container. The
 * daemon may have been started with another DOCKER_HOST.
 */
static int container_of(const struct snp_config *config,
                        const char *image,
                        json_t **ret,
                        struct snp_err *err)
{
    const char *host = snp_config_process_env(config, "DOCKER_HOST");
    const char *runtime = snp_config_str(config, SNP_KEY_DOCKER_RUNTIME);
    bool has_engine = host != NULL && host[0] != '\0';
    char socket[SNP_ENGINE_PATH_MAX + 1] = "";
    struct snp_err ignored;

    if (has_engine && snp_engine_socket(socket, &ignored) < 0) {
        /* An open session may be in another tier; the docker tier refuses this engine by name. */
        (void)snprintf(socket, sizeof(socket), "%s", host);
    }
    runtime = runtime == NULL ? "" : runtime;
    *ret = json_sprintf("%s%s%s%s%s", image, runtime[0] != '\0' || has_engine ? "#" : "", runtime,
                        has_engine ? "#" : "", socket);
    return *ret == NULL ? snp_fail(err, SNP_E_INVALID, "DOCKER_HOST is not UTF-8") : 0;
}

/* Add the docker tier's settings of a new session. */
static int add_docker(const struct snp_config *config,
                      enum snp_cli_image_way way,
                      json_t *defaults,
                      struct snp_err *err)
{
    snp_autofree char *image = NULL;
    json_t *container;

    SNP_TRY(snp_cli_image(config, way, &image, err));
    SNP_TRY(container_of(config, image, &container, err));
    (void)json_object_set_new(defaults, "rootfs", container);
    if (!snp_config_bool(config, SNP_KEY_DOCKER_NETWORK_DISABLED)) {
        (void)json_object_set_new(defaults, "network", json_true());
    }
    return 0;
}

/*
 * The keys for a setting, by its name in requests and results. Limits have the names of their keys.
 */
static const struct {
    const char *setting;
    enum snp_config_key key;
} keys_of[] = {
    {"tier", SNP_KEY_ENVIRONMENT},
    {"template", SNP_KEY_TEMPLATE},
    {"project", SNP_KEY_DOCKER_WORKSPACE_PATH},
    {"project", SNP_KEY_DOCKER_MOUNT_WORKSPACE},
    {"rootfs", SNP_KEY_DOCKER_IMAGE},
    {"rootfs", SNP_KEY_DOCKER_RUNTIME},
    {"rootfs", SNP_KEY_DOCKER_WORKSPACE_SETUP},
    {"network", SNP_KEY_DOCKER_NETWORK_DISABLED},
};

static bool is_configured(const struct snp_config *config, enum snp_config_key key)
{
    return key == SNP_KEY_ENVIRONMENT ? snp_cli_tier_is_chosen(config)
                                      : snp_config_origin(config, key) != SNP_ORIGIN_DEFAULT;
}

/* Names of settings that were configured explicitly. New reference. */
static json_t *configured(const struct snp_config *config)
{
    json_t *names = snp_need(json_array());

    for (size_t i = 0; i < SNP_ARRAY_LEN(keys_of); i++) {
        if (is_configured(config, keys_of[i].key)) {
            (void)json_array_append_new(names, json_string(keys_of[i].setting));
        }
    }
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        if (is_configured(config, (enum snp_config_key)SNP_KEY_OF_LIMIT(i))) {
            (void)json_array_append_new(names, json_string(snp_limit_info((enum snp_limit)i)->key));
        }
    }
    return names;
}

int snp_cli_session_defaults(const struct snp_config *config,
                             const char *tier,
                             bool may_get,
                             json_t **ret,
                             struct snp_err *err)
{
    snp_autojson json_t *defaults = NULL;
    snp_autojson json_t *names = NULL;
    struct snp_limits limits;

    tier = tier == NULL ? snp_cli_tier(config) : tier;
    snp_config_limits(config, &limits);
    defaults = snp_need(snp_limits_to_json(&limits));
    /* Left out by default, so that a project's .venv takes precedence over base. */
    if (snp_config_origin(config, SNP_KEY_TEMPLATE) != SNP_ORIGIN_DEFAULT) {
        (void)json_object_set_new(defaults, "template",
                                  json_string(snp_config_str(config, SNP_KEY_TEMPLATE)));
    }
    (void)json_object_set_new(defaults, "tier", json_string(tier));
    (void)json_object_set_new(defaults, "guarantees", snp_cli_guarantees(config));
    names = configured(config);
    if (json_array_size(names) > 0) {
        (void)json_object_set(defaults, "configured", names);
    }
    SNP_TRY(
        snp_streq(tier, "docker")
            ? add_docker(config, may_get ? SNP_CLI_IMAGE_GET : SNP_CLI_IMAGE_FIND, defaults, err)
            : 0);
    *ret = SNP_TAKE_PTR(defaults);
    return 0;
}

int snp_cli_session_renew(const struct snp_config *config, json_t *defaults, struct snp_err *err)
{
    bool is_docker = snp_streq(snp_json_str(defaults, "tier", ""), "docker");

    return is_docker ? add_docker(config, SNP_CLI_IMAGE_NAME, defaults, err) : 0;
}

int snp_cli_session_settings(const struct snp_config *config, json_t **ret, struct snp_err *err)
{
    SNP_TRY(snp_cli_tier_check(config, err));
    SNP_TRY(snp_cli_template_check(config, err));
    return snp_cli_session_defaults(config, NULL, true, ret, err);
}

/* The source of a setting's value. */
static const char *source_of(const struct snp_config *config, const char *setting)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(keys_of); i++) {
        if (strcmp(keys_of[i].setting, setting) == 0 && is_configured(config, keys_of[i].key)) {
            return snp_config_source(config, keys_of[i].key);
        }
    }
    return "DOCKER_HOST";
}

/* The option for a configured limit: "--memory 1g"; false: the setting is no limit. */
static bool limit_option(const struct snp_config *config,
                         const char *setting,
                         char *out,
                         size_t out_len)
{
    struct snp_limits limits;

    snp_config_limits(config, &limits);
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        if (strcmp(snp_limit_info((enum snp_limit)i)->key, setting) == 0) {
            (void)snp_limit_option(setting, limits.value[i], out, out_len);
            return true;
        }
    }
    return false;
}

bool snp_cli_not_applied(const struct snp_cli *cli,
                         const struct snp_config *config,
                         const char *session,
                         const json_t *not_applied)
{
    bool is_tier = false;
    size_t i;
    json_t *row;

    json_array_foreach(not_applied, i, row)
    {
        const char *setting = snp_json_str(row, "setting", "");
        const char *has = snp_json_str(row, "session", "");
        const char *asked = snp_json_str(row, "asked", "");
        char option[64];

        if (strcmp(setting, "tier") == 0) {
            is_tier = true;
            snp_cli_warn(cli,
                         "session %s is in the %s tier; %s (%s) applies to new sessions; move "
                         "it with: snipara-sandbox sessions move %s --to %s",
                         session, has, asked, source_of(config, setting), session, asked);
        } else if (limit_option(config, setting, option, sizeof(option))) {
            snp_cli_warn(cli,
                         "session %s has %s %s; %s (%s) applies to new sessions; change it "
                         "with: snipara-sandbox sessions set %s %s",
                         session, setting, has, asked,
                         snp_config_source(config, snp_config_key_from_name(setting)), session,
                         option);
        } else {
            snp_cli_warn(cli,
                         "session %s has %s %s; %s (%s) applies to new sessions: use another "
                         "name, or destroy this one",
                         session, setting, has, asked, source_of(config, setting));
        }
    }
    return is_tier;
}
