/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parse `exec`. A client has the daemon's user id, but its data goes to a tier, so every text and
 * number is checked for form and size here.
 */
#include "daemon/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/policy/guarantee.h"
#include "base/policy/session_name.h"
#include "base/policy/template_name.h"
#include "base/str.h"
#include "base/wire/record.h"
#include "base/wire/result.h"
#include "daemon/tiers.h"
#include "store/job.h"

/* The tier decides whether the template exists. */
static int template_check(const char *name, struct snp_err *err)
{
    return name == NULL ? 0 : snp_template_name_check(name, err);
}

/*
 * The requested tier, else that of the defaults, else auto. Its existence is checked when it is
 * opened.
 */
static int tier_read(struct snp_exec_spec *spec, struct snp_err *err)
{
    const char *asked = spec->asked.tier;
    const json_t *fallback = json_object_get(spec->asked.defaults, "tier");

    if (fallback != NULL && !json_is_string(fallback)) {
        return snp_fail(err, SNP_E_INVALID, "exec: the tier in 'defaults' must be a string");
    }
    spec->tier = asked != NULL      ? asked
                 : fallback != NULL ? json_string_value(fallback)
                                    : SNP_TIER_AUTO;
    return snp_tier_name_check(spec->tier, err);
}

static int argv_check(const struct snp_exec_spec *spec, struct snp_err *err)
{
    bool is_command = strcmp(spec->asked.kind, "python") != 0;
    size_t total = 0;
    size_t i;
    json_t *word;

    if (is_command && json_array_size(spec->asked.argv) == 0) {
        return snp_fail(err, SNP_E_INVALID, "exec: a command needs 'argv'");
    }
    if (is_command && spec->asked.code_len > 0) {
        return snp_fail(err, SNP_E_INVALID, "exec: a command has no code");
    }
    json_array_foreach(spec->asked.argv, i, word)
    {
        const char *text = json_string_value(word);

        if (text == NULL || strlen(text) != json_string_length(word)) {
            return snp_fail(err, SNP_E_INVALID, "exec: argv[%zu] must be a string without NUL", i);
        }
        total += json_string_length(word) + 1;
    }
    if (total > SNP_CAP_ARGV_BYTES) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'argv' has at most %d bytes",
                        SNP_CAP_ARGV_BYTES);
    }
    if (is_command && json_string_length(json_array_get(spec->asked.argv, 0)) == 0) {
        return snp_fail(err, SNP_E_INVALID, "exec: the command's name is empty");
    }
    return 0;
}

/* Read checkpointing and durability: words that the form allows, or none. */
static void keeping_read(struct snp_exec_spec *spec)
{
    int durability = snp_word_find(snp_exec_durabilities, spec->asked.durability);
    int when = snp_word_find(snp_exec_checkpoints, spec->asked.checkpoint);
    int recover = snp_word_find(snp_exec_recovers, spec->asked.recover);

    spec->durability = durability < 0 ? SNP_DURABILITY_SYNCED : (enum snp_durability)durability;
    spec->has_checkpoint = when >= 0;
    spec->checkpoint = when < 0 ? SNP_CHECKPOINT_IDLE : (enum snp_checkpoint_when)when;
    spec->recover = recover < 0 ? SNP_RECOVER_ASK : (enum snp_recover)recover;
}

static bool is_env_name(const char *name)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char rest[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

    return name[0] != '\0' && strchr(first, name[0]) != NULL && strspn(name, rest) == strlen(name);
}

static int env_check(json_t *env, struct snp_err *err)
{
    const char *key;
    json_t *value;
    size_t total = 0;

    if (json_object_size(env) > SNP_CAP_ENV) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'env' has at most %d variables", SNP_CAP_ENV);
    }
    json_object_foreach(env, key, value)
    {
        const char *text = json_string_value(value);

        if (!is_env_name(key)) {
            return snp_fail(err, SNP_E_INVALID, "exec: '%.64s' is not a valid variable name", key);
        }
        if (text == NULL || strlen(text) != json_string_length(value)) {
            return snp_fail(err, SNP_E_INVALID, "exec: variable %.64s must be a string without NUL",
                            key);
        }
        total += strlen(key) + strlen(text) + 2;
    }
    if (total > SNP_CAP_ENV_BYTES) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'env' has at most %d bytes", SNP_CAP_ENV_BYTES);
    }
    return 0;
}

/* The limits of a new session; `defaults` may also name a template, a file system, a project. */
static int limits_read(struct snp_exec_spec *spec, struct snp_err *err)
{
    json_t *defaults = spec->asked.defaults;
    snp_autojson json_t *copy = NULL;
    int r;

    snp_limits_default(&spec->limits);
    spec->has_network = spec->asked.network;
    if (defaults != NULL) {
        const json_t *name = json_object_get(defaults, "template");

        if (name != NULL && (!json_is_string(name) ||
                             strlen(json_string_value(name)) != json_string_length(name))) {
            return snp_fail(err, SNP_E_INVALID,
                            "exec: the template in 'defaults' must be a string");
        }
        copy = json_copy(defaults);
        SNP_TRY_MEMORY(copy, err);
        (void)json_object_del(copy, "template"); /* optional */
        (void)json_object_del(copy, "tier");
        (void)json_object_del(copy, "rootfs");
        (void)json_object_del(copy, "project");
        (void)json_object_del(copy, "network");
        (void)json_object_del(copy, "guarantees");
        (void)json_object_del(copy, "configured");
        spec->guarantees = json_object_get(defaults, "guarantees");
        spec->default_rootfs = snp_json_str(defaults, "rootfs", NULL);
        spec->default_project = snp_json_str(defaults, "project", NULL);
        spec->has_network |= snp_json_bool(defaults, "network", false);
        spec->default_template = snp_json_str(defaults, "template", NULL);
        r = template_check(spec->default_template, err);
        SNP_THEN(r, snp_limits_from_json(copy, &spec->limits, err));
        if (r < 0) {
            return snp_err_wrap(err, "exec: 'defaults'");
        }
    }
    if (spec->asked.limits != NULL) {
        r = snp_limits_from_json(spec->asked.limits, &spec->limits, err);
        if (r < 0) {
            return snp_err_wrap(err, "exec"); /* it names "limits" already */
        }
    }
    return 0;
}

static int lengths_check(const struct snp_exec_spec *spec, size_t raw_len, struct snp_err *err)
{
    if (spec->asked.code_len > raw_len) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'code_len' is %llu, but %zu bytes came",
                        (unsigned long long)spec->asked.code_len, raw_len);
    }
    if (!spec->asked.stdin && spec->asked.code_len != raw_len) {
        return snp_fail(err, SNP_E_INVALID, "exec: bytes after the code, but 'stdin' is false");
    }
    if (spec->asked.open_stdin &&
        (spec->asked.stdin || !snp_streq(spec->asked.kind, snp_exec_kinds[SNP_EXEC_PROCESS]))) {
        return snp_fail(err, SNP_E_INVALID,
                        "exec: 'open_stdin' is for kind \"process\" without 'stdin'");
    }
    return 0;
}

int snp_exec_spec_read(json_t *head,
                       size_t raw_len,
                       struct snp_exec_spec *spec,
                       struct snp_err *err)
{
    struct snp_exec_spec read = {.head = NULL};
    int r = 0;

    snp_record_read(head, &snp_exec_request_form, &read.asked);
    if (read.asked.session != NULL) {
        r = snp_session_name_check(read.asked.session, err);
    }
    if (r == 0 && read.asked.temporary && snp_streq(read.asked.session, "default")) {
        r = snp_fail(err, SNP_E_INVALID,
                     "exec: session default is never destroyed, so it cannot be temporary; use "
                     "another name");
    }
    SNP_THEN(r, tier_read(&read, err));
    SNP_THEN(r, template_check(read.asked.template, err));
    SNP_THEN(r, argv_check(&read, err));
    SNP_THEN(r, env_check(read.asked.env, err));
    SNP_THEN(r, lengths_check(&read, raw_len, err));
    SNP_THEN(r, limits_read(&read, err));
    keeping_read(&read);
    SNP_TRY(r);
    read.head = json_incref(head);
    *spec = read;
    return 0;
}

void snp_exec_spec_done(struct snp_exec_spec *spec)
{
    json_decref(spec->head);
    json_decref(spec->not_applied);
    *spec = (struct snp_exec_spec){0};
}

/*
 * Settings that a session keeps from the call that opened it, besides limits and variables: members
 * of a request and of `defaults`.
 */
enum setting {
    SETTING_TIER = 0,
    SETTING_TEMPLATE,
    SETTING_PROJECT,
    SETTING_ROOTFS,
    SETTING_ENGINE,
    SETTING_NETWORK,
    SETTING_N,
};

static const struct {
    const char *member;
    const char *name; /* in messages and results */
    const char *none; /* its text if it is not set */
} settings[SETTING_N] = {
    [SETTING_TIER] = {"tier", "tier", ""},
    [SETTING_TEMPLATE] = {"template", "template", ""},
    [SETTING_PROJECT] = {"project", "project", "(none)"},
    [SETTING_ROOTFS] = {"rootfs", "rootfs", "(the host's files)"},
    [SETTING_ENGINE] = {"rootfs", "engine", "(the daemon's)"},
    [SETTING_NETWORK] = {"network", "network", "(none)"},
};

static const char of_engine[] = "the engine's";

/* IMAGE#RUNTIME#SOCKET holds two settings, rootfs and engine. A folder is one. */
static const char *container_part(enum setting setting,
                                  const char *text,
                                  char out[SNP_CAP_PATH + 1])
{
    const char *runtime = text == NULL || text[0] == '/' ? NULL : strchr(text, '#');
    const char *engine = runtime == NULL ? NULL : strchr(runtime + 1, '#');
    int n;

    if (setting == SETTING_ENGINE) {
        return engine == NULL ? NULL : engine + 1;
    }
    if (engine == NULL) {
        return text;
    }
    n = (int)((engine == runtime + 1 ? runtime : engine) - text); /* "IMAGE##SOCKET" is IMAGE */
    (void)snprintf(out, SNP_CAP_PATH + 1, "%.*s", n, text);
    return n == 0 ? NULL : out; /* none: the tier's default */
}

/* A session's setting; NULL: none. */
static const char *setting_of(enum setting setting,
                              const struct snp_session_policy *policy,
                              char out[SNP_CAP_PATH + 1])
{
    const char *const kept[SETTING_N] = {
        [SETTING_TIER] = policy->place.tier->name,
        [SETTING_TEMPLATE] = policy->template_name,
        [SETTING_PROJECT] = policy->project,
        [SETTING_ROOTFS] = container_part(SETTING_ROOTFS, policy->place.rootfs, out),
        [SETTING_ENGINE] = container_part(SETTING_ENGINE, policy->place.rootfs, out),
        [SETTING_NETWORK] = policy->place.has_network ? of_engine : NULL,
    };

    return kept[setting];
}

/* The setting in a request or its defaults; NULL: not given. */
static const char *setting_in(enum setting setting,
                              const json_t *object,
                              char out[SNP_CAP_PATH + 1])
{
    const json_t *value = json_object_get(object, settings[setting].member);
    const char *text = json_string_value(value);

    if (setting == SETTING_ROOTFS || setting == SETTING_ENGINE) {
        return container_part(setting, text, out);
    }
    if (setting == SETTING_NETWORK) {
        return json_is_true(value) ? of_engine : NULL;
    }
    return setting == SETTING_TIER && snp_streq(text, SNP_TIER_AUTO) ? NULL : text;
}

/* That member of the defaults is the user's configuration, not a built-in default. */
static bool is_configured(const struct snp_exec_spec *spec, const char *name)
{
    const json_t *names = json_object_get(spec->asked.defaults, "configured");
    size_t i;
    json_t *each;

    json_array_foreach(names, i, each)
    {
        if (snp_streq(json_string_value(each), name)) {
            return true;
        }
    }
    return false;
}

/* Report in the result that the session keeps its setting. */
static int differs(struct snp_exec_spec *spec,
                   const char *name,
                   const char *has,
                   const char *asked,
                   struct snp_err *err)
{
    json_t *row =
        SNP_WRITE(snp_result_not_applied, .setting = name, .session = has, .asked = asked);

    if (spec->not_applied == NULL) {
        spec->not_applied = json_array();
    }
    return json_array_append_new(spec->not_applied, row) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static int setting_fits(struct snp_exec_spec *spec,
                        enum setting setting,
                        const struct snp_session_policy *policy,
                        struct snp_err *err)
{
    char buffers[3][SNP_CAP_PATH + 1];
    const char *none = settings[setting].none;
    const char *name = settings[setting].name;
    const char *has = setting_of(setting, policy, buffers[0]);
    const char *asked = setting_in(setting, spec->head, buffers[1]);
    const char *usual = setting_in(setting, spec->asked.defaults, buffers[2]);

    if (setting == SETTING_ENGINE && asked != NULL) {
        usual = asked; /* from DOCKER_HOST, never from an option */
        asked = NULL;
    } else if (usual == NULL && setting == SETTING_NETWORK) {
        usual = none;
    }
    has = has == NULL ? none : has;
    if (asked != NULL && strcmp(asked, has) != 0) {
        return snp_fail(err, SNP_E_INVALID,
                        "session %s was opened with %s %.120s, not %.120s; %sdestroy it or use "
                        "another name",
                        spec->asked.session, name, has, asked,
                        setting == SETTING_TIER ? "move it, " : "");
    }
    /*
     * Container settings do not apply to another tier. Before the first cell the template is
     * unknown.
     */
    return asked != NULL || usual == NULL || strcmp(usual, has) == 0 || has[0] == '\0' ||
                   (setting >= SETTING_ROOTFS &&
                    strcmp(spec->tier, policy->place.tier->name) != 0) ||
                   (setting != SETTING_ENGINE && !is_configured(spec, name))
               ? 0
               : differs(spec, name, has, usual, err);
}

/* Values may be secrets, so they are not shown. */
static int variables_fit(const struct snp_exec_spec *spec,
                         const struct snp_session_policy *policy,
                         struct snp_err *err)
{
    const char *key;
    json_t *value;

    json_object_foreach(spec->asked.env, key, value)
    {
        if (!json_equal(value, json_object_get(policy->env, key))) {
            return snp_fail(err, SNP_E_INVALID,
                            "variable %.64s is not what session %s was opened with; destroy it or "
                            "use another name",
                            key, spec->asked.session);
        }
    }
    return 0;
}

/* asked: the explicit value, else the session's. The wall clock belongs to each cell. */
static int limit_fits(struct snp_exec_spec *spec,
                      const struct snp_session_policy *policy,
                      enum snp_limit limit,
                      uint64_t asked,
                      struct snp_err *err)
{
    const char *key = snp_limit_info(limit)->key;
    uint64_t usual = spec->limits.value[limit]; /* the explicit one, if given */
    char has[32];
    char wants[32];

    (void)snp_limit_format(limit, policy->limits.value[limit], has, sizeof(has));
    if (limit != SNP_LIMIT_WALL && asked != policy->limits.value[limit]) {
        (void)snp_fail_with(err, SNP_E_INVALID, SNP_REMEDY_SET_LIMIT, key, (int64_t)asked,
                            "the limit %s of session %s is %s, not %s", key, spec->asked.session,
                            has, snp_limit_format(limit, asked, wants, sizeof(wants)));
        snp_err_about(err, spec->asked.session);
        return err->code;
    }
    return usual == asked || !is_configured(spec, key)
               ? 0
               : differs(spec, key, has, snp_limit_format(limit, usual, wants, sizeof(wants)), err);
}

static int limits_fit(struct snp_exec_spec *spec,
                      const struct snp_session_policy *policy,
                      uint64_t *ret_wall_ms,
                      struct snp_err *err)
{
    struct snp_limits asked = policy->limits;

    if (spec->asked.limits != NULL) {
        SNP_TRY(snp_limits_from_json(spec->asked.limits, &asked, err));
    }
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        SNP_TRY(limit_fits(spec, policy, (enum snp_limit)i, asked.value[i], err));
    }
    *ret_wall_ms = asked.value[SNP_LIMIT_WALL];
    return 0;
}

static int guarantees_fit(const struct snp_exec_spec *spec,
                          const struct snp_session_policy *policy,
                          struct snp_err *err)
{
    if (json_array_size(spec->guarantees) == 0) {
        return 0;
    }
    SNP_TRY(snp_tier_guarantees(policy->place.tier, policy->place.rootfs, spec->guarantees, err));
    return snp_guarantees_in(policy->place.tier->name, policy->place.manifest, spec->guarantees,
                             err);
}

int snp_exec_spec_fits(struct snp_exec_spec *spec,
                       const struct snp_session_policy *policy,
                       uint64_t *ret_wall_ms,
                       struct snp_err *err)
{
    SNP_TRY(guarantees_fit(spec, policy, err));
    for (int i = 0; i < SETTING_N; i++) {
        SNP_TRY(setting_fits(spec, (enum setting)i, policy, err));
    }
    SNP_TRY(variables_fit(spec, policy, err));
    return limits_fit(spec, policy, ret_wall_ms, err);
}
