/* SPDX-License-Identifier: Apache-2.0 */
#include "base/session/tier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/config/config.h"
#include "base/fd.h"
#include "base/policy/engine_socket.h"
#include "base/policy/guarantee.h"
#include "base/process.h"
#include "base/rundir.h"
#include "base/str.h"

enum {
    MARK_MAX = 64
};

/* Names reserved for future tiers, and their replacements. */
static const struct {
    const char *name;
    const char *instead;
} stand_ins[] = {
    {"docker", "native"},
    {"wasm", "native"},
};

static const char *configured(const struct snp_config *config)
{
    const char *name = snp_config_str(config, SNP_KEY_ENVIRONMENT);

    return name == NULL ? "" : name;
}

/* A container tier needs an engine that answers. */
static bool has_engine(const char *name)
{
    char socket[SNP_ENGINE_PATH_MAX + 1];
    struct snp_err ignored;

    return !snp_streq(name, "docker") || snp_engine_find(socket, &ignored) == 0;
}

static const char *tier_of(const char *name, const struct snp_tier_files *files)
{
    if (snp_tier_files_of(files, name) != NULL && has_engine(name)) {
        return name;
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(stand_ins); i++) {
        if (strcmp(stand_ins[i].name, name) == 0) {
            return stand_ins[i].instead;
        }
    }
    return NULL;
}

json_t *snp_cli_guarantees(const struct snp_config *config)
{
    const char *const *names = NULL;
    size_t n = snp_config_list(config, SNP_KEY_GUARANTEES, &names);
    json_t *list = snp_need(json_array());

    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, json_string(names[i]));
    }
    return list;
}

/*
 * Resolve auto: the daemon chooses, unless a requirement is met only by a tier that is never chosen
 * automatically. Then the strongest usable one of those.
 */
static const char *auto_tier(const struct snp_config *config)
{
    static char chosen[SNP_TIER_NAME_MAX + 1];
    snp_autotierfiles struct snp_tier_files files = {0};
    snp_autojson json_t *wanted = snp_cli_guarantees(config);
    const char *runtime = snp_config_str(config, SNP_KEY_DOCKER_RUNTIME);
    struct snp_err ignored;

    if (json_array_size(wanted) == 0 || snp_tier_files_find(&files, &ignored) < 0) {
        return SNP_TIER_AUTO;
    }
    snp_tier_files_rank(&files);
    for (size_t i = 0; i < files.n && !files.files[i].is_users; i++) {
        const struct snp_tier_file *file = &files.files[i];

        if (file->rank >= SNP_TIER_RANK_WHOLE && has_engine(file->name) &&
            snp_guarantees_of(file->name, file->about, runtime, wanted, &ignored) == 0) {
            (void)snprintf(chosen, sizeof(chosen), "%s", file->name);
            return snp_json_bool(file->about, "by_name", false) ? chosen : SNP_TIER_AUTO;
        }
    }
    return SNP_TIER_AUTO;
}

const char *snp_cli_tier(const struct snp_config *config)
{
    snp_autotierfiles struct snp_tier_files files = {0};
    const char *name = configured(config);
    struct snp_err ignored;

    if (strcmp(name, SNP_TIER_AUTO) == 0) {
        return auto_tier(config);
    }
    return snp_tier_files_find(&files, &ignored) < 0 ? NULL : tier_of(name, &files);
}

const char *snp_cli_tier_to_stay(const struct snp_config *config)
{
    snp_autotierfiles struct snp_tier_files files = {0};
    const char *name = configured(config);
    struct snp_err ignored;

    return snp_tier_files_find(&files, &ignored) == 0 && snp_tier_files_of(&files, name) != NULL
               ? name
               : snp_cli_tier(config);
}

static int guarantees_check(const struct snp_config *config, struct snp_err *err)
{
    const char *const *names = NULL;
    size_t n = snp_config_list(config, SNP_KEY_GUARANTEES, &names);

    for (size_t i = 0; i < n; i++) {
        if (snp_guarantee_check(names[i], err) < 0) {
            return snp_err_wrap(err, "%s", snp_config_source(config, SNP_KEY_GUARANTEES));
        }
    }
    return 0;
}

int snp_cli_tier_check(const struct snp_config *config, struct snp_err *err)
{
    snp_autotierfiles struct snp_tier_files files = {0};
    const struct snp_tier_file *file;
    const char *name = configured(config);
    const char *source = snp_config_source(config, SNP_KEY_ENVIRONMENT);
    int r = guarantees_check(config, err);

    r = r < 0 || strcmp(name, SNP_TIER_AUTO) == 0 ? r : snp_tier_files_find(&files, err);

    if (r < 0 || strcmp(name, SNP_TIER_AUTO) == 0) {
        return r;
    }
    if (tier_of(name, &files) == NULL) {
        snp_tier_files_rank(&files);
        if (snp_tier_files_get(&files, name, &file, err) == SNP_E_UNSUPPORTED) {
            err->code = SNP_E_INVALID; /* as for any unknown name */
        }
        return snp_err_wrap(err, "%s", source);
    }
    file = snp_tier_files_of(&files, name);
    return file == NULL || !file->is_users || snp_config_is_users(config, SNP_KEY_ENVIRONMENT)
               ? 0
               : snp_fail(err, SNP_E_DENIED, "%s may not name your own tier \"%s\"; use --env %s",
                          source, name, name);
}

bool snp_cli_tier_stronger(const struct snp_config *config, char out[SNP_TIER_NAME_MAX + 1])
{
    snp_autotierfiles struct snp_tier_files files = {0};
    const struct snp_tier_file *file;
    struct snp_err ignored;

    if (strcmp(configured(config), SNP_TIER_AUTO) == 0 ||
        snp_tier_files_find(&files, &ignored) < 0) {
        return false;
    }
    snp_tier_files_rank(&files);
    file = snp_tier_files_of(&files, configured(config));
    if (file == NULL || file->rank >= SNP_TIER_RANK_WHOLE || files.files[0].is_users ||
        files.files[0].rank <= file->rank) {
        return false;
    }
    (void)snprintf(out, SNP_TIER_NAME_MAX + 1, "%s", files.files[0].name);
    return true;
}

int snp_cli_tier_names(struct snp_err *err)
{
    snp_autotierfiles struct snp_tier_files files = {0};

    SNP_TRY(snp_tier_files_find(&files, err));
    snp_tier_files_rank(&files);
    (void)puts(SNP_TIER_AUTO);
    for (size_t i = 0; i < files.n; i++) {
        if (files.files[i].refused == NULL) {
            (void)puts(files.files[i].name);
        }
    }
    return 0;
}

void snp_cli_tier_stand_in(const struct snp_cli *cli,
                           const struct snp_config *config,
                           const char *used)
{
    const char *name = configured(config);

    if (strcmp(name, SNP_TIER_AUTO) != 0) {
        if (!snp_streq(name, used)) {
            snp_cli_warn(cli, "no %s tier here (%s); code runs in %s", name,
                         snp_config_source(config, SNP_KEY_ENVIRONMENT), used);
        }
    } else if (!snp_streq(used, name) && snp_streq(used, snp_cli_tier(config))) {
        snp_cli_warn(cli, "auto is %s here: the strongest tier with all guarantees (%s)", used,
                     snp_config_source(config, SNP_KEY_GUARANTEES));
    }
}

bool snp_cli_tier_is_chosen(const struct snp_config *config)
{
    return snp_config_origin(config, SNP_KEY_ENVIRONMENT) != SNP_ORIGIN_DEFAULT &&
           strcmp(configured(config), SNP_TIER_AUTO) != 0 &&
           snp_streq(configured(config), snp_cli_tier_to_stay(config));
}

const char *snp_cli_tier_missing(const struct snp_config *config)
{
    const char *name = configured(config);

    return strcmp(name, SNP_TIER_AUTO) == 0 || snp_streq(name, snp_cli_tier_to_stay(config)) ? NULL
                                                                                             : name;
}

/*
 * If auto was requested by name, print its meaning: the strongest tier that the daemon chooses
 * automatically.
 */
static void auto_say(struct snp_cli *cli, const struct snp_config *config)
{
    snp_autotierfiles struct snp_tier_files files = {0};
    struct snp_err ignored;

    if (snp_config_origin(config, SNP_KEY_ENVIRONMENT) != SNP_ORIGIN_CLI ||
        strcmp(configured(config), SNP_TIER_AUTO) != 0 ||
        strcmp(snp_cli_tier(config), SNP_TIER_AUTO) != 0 ||
        snp_tier_files_find(&files, &ignored) < 0) {
        return;
    }
    snp_tier_files_rank(&files);
    for (size_t i = 0; i < files.n; i++) {
        const struct snp_tier_file *file = &files.files[i];

        if (!file->is_users && !snp_json_bool(file->about, "by_name", false) &&
            snp_remote_is_usable(cli, file->name)) {
            snp_cli_warn(cli, "auto is %s here", file->name);
            return;
        }
    }
}

void snp_cli_tier_notice(struct snp_cli *cli, const struct snp_config *config, const char *used)
{
    snp_autofree char *state = NULL;
    snp_autofree char *path = NULL;
    snp_autofree char *mark = NULL;
    snp_autofree char *boot = snp_boot_id(); /* after a reboot a stronger tier may run */
    char stronger[SNP_TIER_NAME_MAX + 1];
    struct snp_err err;
    const char *text = "said";

    snp_cli_tier_stand_in(cli, config, used);
    auto_say(cli, config);
    if (strcmp(configured(config), SNP_TIER_AUTO) == 0 || snp_state_dir(&state, &err) < 0) {
        return;
    }
    path = snp_need_format("%s/%s-notice", state, configured(config));
    if (path == NULL) {
        return;
    }
    if (snp_file_read(path, MARK_MAX, &mark, NULL, &err) == 0 &&
        (snp_streq(mark, text) || (boot != NULL && snp_streq(mark, boot)))) {
        return;
    }
    if (snp_cli_tier_stronger(config, stronger) && snp_remote_is_usable(cli, stronger)) {
        snp_cli_warn(cli,
                     "this ran in the %s tier, as configured (%s); the stronger %s tier "
                     "works on this host: --env %s, or environment = \"%s\"",
                     configured(config), snp_config_source(config, SNP_KEY_ENVIRONMENT), stronger,
                     stronger, stronger);
    } else {
        text = boot; /* checked again after a reboot */
    }
    if (text != NULL) {
        (void)!snp_file_write_atomic(path, text, strlen(text), 0600, &err);
    }
}
