/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading `exec`. A client is the same user as the daemon, but what it sends goes on to
 * a tier, so every text and number is held to its form and size here.
 */
#include "daemon/spec.h"

#include <string.h>

#include "base/str.h"
#include "daemon/tiers.h"
#include "policy/guarantee.h"
#include "policy/session_name.h"
#include "policy/template_name.h"
#include "store/job.h"
#include "wire/record.h"

/* Whether there is such a template is the tier's to say. */
static int template_check(const char *name, struct snp_err *err)
{
    return name == NULL ? 0 : snp_template_name_check(name, err);
}

/* The tier asked for, else that of the defaults, else auto. Whether there is one is seen when it is opened. */
static int tier_read(struct snp_exec_spec *spec, struct snp_err *err)
{
    const char *asked = spec->asked.tier;
    const json_t *fallback = json_object_get(spec->asked.defaults, "tier");

    if (fallback != NULL && !json_is_string(fallback)) {
        return snp_fail(err, SNP_E_INVALID, "exec: the tier in 'defaults' must be a string");
    }
    spec->has_tier = asked != NULL && strcmp(asked, SNP_TIER_AUTO) != 0;
    spec->tier = asked != NULL      ? asked
                 : fallback != NULL ? json_string_value(fallback)
                                    : SNP_TIER_AUTO;
    return snp_tier_name_check(spec->tier, err);
}

static int argv_check(const struct snp_exec_spec *spec, struct snp_err *err)
{
    bool is_command = strcmp(spec->asked.kind, "command") == 0;
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
            return snp_fail(err, SNP_E_INVALID, "exec: argv[%zu] must be a string without NUL",
                            i);
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

/* What is to be kept of it, and how well: words that the form allows, or none. */
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
    static const char rest[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

    return name[0] != '\0' && strchr(first, name[0]) != NULL &&
           strspn(name, rest) == strlen(name);
}

static int env_check(json_t *env, struct snp_err *err)
{
    const char *key;
    json_t *value;
    size_t total = 0;

    if (json_object_size(env) > SNP_CAP_ENV) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'env' has at most %d variables",
                        SNP_CAP_ENV);
    }
    json_object_foreach(env, key, value)
    {
        const char *text = json_string_value(value);

        if (!is_env_name(key)) {
            return snp_fail(err, SNP_E_INVALID, "exec: '%.64s' is not a valid variable name",
                            key);
        }
        if (text == NULL || strlen(text) != json_string_length(value)) {
            return snp_fail(err, SNP_E_INVALID,
                            "exec: variable %.64s must be a string without NUL", key);
        }
        total += strlen(key) + strlen(text) + 2;
    }
    if (total > SNP_CAP_ENV_BYTES) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'env' has at most %d bytes",
                        SNP_CAP_ENV_BYTES);
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
    if (defaults != NULL) {
        const json_t *name = json_object_get(defaults, "template");

        if (name != NULL && (!json_is_string(name) ||
                             strlen(json_string_value(name)) != json_string_length(name))) {
            return snp_fail(err, SNP_E_INVALID,
                            "exec: the template in 'defaults' must be a string");
        }
        copy = json_copy(defaults);
        SNP_TRY_MEMORY(copy, err);
        (void)json_object_del(copy, "template"); /* they need not be there */
        (void)json_object_del(copy, "tier");
        (void)json_object_del(copy, "rootfs");
        (void)json_object_del(copy, "project");
        (void)json_object_del(copy, "network");
        (void)json_object_del(copy, "guarantees");
        spec->guarantees = json_object_get(defaults, "guarantees");
        spec->default_rootfs = snp_json_str(defaults, "rootfs", NULL);
        spec->default_project = snp_json_str(defaults, "project", NULL);
        spec->has_network = snp_json_bool(defaults, "network", false);
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
            return snp_err_wrap(err, "exec"); /* it says "limits" itself */
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
    *spec = (struct snp_exec_spec){0};
}

static int limits_fit(const struct snp_exec_spec *spec,
                      const struct snp_session_policy *policy,
                      uint64_t *ret_wall_ms,
                      struct snp_err *err)
{
    struct snp_limits asked = policy->limits;

    if (spec->asked.limits != NULL) {
        SNP_TRY(snp_limits_from_json(spec->asked.limits, &asked, err));
    }
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        char has[32];
        char wants[32];

        if (i != SNP_LIMIT_WALL && asked.value[i] != policy->limits.value[i]) {
            const enum snp_limit limit = (enum snp_limit)i;
            const char *key = snp_limit_info(limit)->key;

            (void)snp_fail_with(
                err, SNP_E_INVALID, SNP_REMEDY_SET_LIMIT, key, (int64_t)asked.value[i],
                "the limit %s of session %s is %s, not %s", key, spec->asked.session,
                snp_limit_format(limit, policy->limits.value[i], has, sizeof(has)),
                snp_limit_format(limit, asked.value[i], wants, sizeof(wants)));
            snp_err_about(err, spec->asked.session);
            return err->code;
        }
    }
    *ret_wall_ms = asked.value[SNP_LIMIT_WALL];
    return 0;
}

static int guarantees_fit(const struct snp_exec_spec *spec,
                          const struct snp_session_policy *policy,
                          struct snp_err *err)
{
    snp_autojson json_t *manifest = NULL;

    if (json_array_size(spec->guarantees) == 0) {
        return 0;
    }
    manifest = policy->manifest == NULL ? NULL : json_loads(policy->manifest, 0, NULL);
    SNP_TRY(snp_tier_guarantees(policy->tier, policy->rootfs, spec->guarantees, err));
    return snp_guarantees_in(policy->tier->name, manifest, spec->guarantees, err);
}

int snp_exec_spec_fits(const struct snp_exec_spec *spec,
                       const struct snp_session_policy *policy,
                       uint64_t *ret_wall_ms,
                       struct snp_err *err)
{
    const char *key;
    json_t *value;

    SNP_TRY(guarantees_fit(spec, policy, err));
    if (spec->has_tier && strcmp(spec->tier, policy->tier->name) != 0) {
        return snp_fail(err, SNP_E_INVALID,
                        "the session is in the %s tier, not %s; move it, destroy it or use "
                        "another name",
                        policy->tier->name, spec->tier);
    }
    if (spec->asked.template != NULL &&
        strcmp(spec->asked.template, policy->template_name) != 0) {
        return snp_fail(err, SNP_E_INVALID,
                        "the session was opened with template %s, not %s; destroy it or use "
                        "another name",
                        policy->template_name, spec->asked.template);
    }
    if (spec->asked.project != NULL && !snp_streq(spec->asked.project, policy->project)) {
        return snp_fail(err, SNP_E_INVALID,
                        "the session was opened with %s%s; destroy it or use "
                        "another name",
                        policy->project == NULL ? "no project" : "project ",
                        policy->project == NULL ? "" : policy->project);
    }
    if (spec->asked.rootfs != NULL && !snp_streq(spec->asked.rootfs, policy->rootfs)) {
        return snp_fail(err, SNP_E_INVALID,
                        "the session was opened with %s%s; destroy it or use another name",
                        policy->rootfs == NULL ? "the host's files" : "file system ",
                        policy->rootfs == NULL ? "" : policy->rootfs);
    }
    json_object_foreach(spec->asked.env, key, value)
    {
        if (!json_equal(value, json_object_get(policy->env, key))) {
            return snp_fail(
                err, SNP_E_INVALID,
                "variable %.64s is not what the session was opened with; destroy it or "
                "use another name",
                key);
        }
    }
    return limits_fit(spec, policy, ret_wall_ms, err);
}
