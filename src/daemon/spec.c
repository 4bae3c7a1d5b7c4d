/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading `exec`. A client is the same user as the daemon, but what it sends goes on to
 * a tier, so every text and number is held to its form and size here.
 */
#include "daemon/spec.h"

#include <string.h>

#include "base/str.h"
#include "daemon/caps.h"
#include "daemon/tier.h"
#include "policy/project.h"
#include "policy/session_name.h"
#include "policy/template_name.h"
#include "wire/frame.h"

static const struct snp_field exec_fields[] = {
    {"method",         SNP_T_STR,                          32                  },
    {"session",        SNP_T_STR | SNP_T_NULL | SNP_T_OPT, SNP_SESSION_NAME_MAX},
    {"kind",           SNP_T_STR,                          16                  },
    {"code_len",       SNP_T_INT | SNP_T_OPT,              SNP_FRAME_BODY_MAX  },
    {"stdin",          SNP_T_BOOL | SNP_T_OPT,             0                   },
    {"argv",           SNP_T_ARR | SNP_T_NULL | SNP_T_OPT, SNP_CAP_ARGV        },
    {"tier",           SNP_T_STR | SNP_T_NULL | SNP_T_OPT, 32                  },
    {"template",       SNP_T_STR | SNP_T_NULL | SNP_T_OPT, 32                  },
    {"limits",         SNP_T_OBJ | SNP_T_NULL | SNP_T_OPT, 0                   },
    {"defaults",       SNP_T_OBJ | SNP_T_NULL | SNP_T_OPT, 0                   },
    {"project",        SNP_T_STR | SNP_T_NULL | SNP_T_OPT, SNP_PROJECT_PATH_MAX},
    {"rootfs",         SNP_T_STR | SNP_T_NULL | SNP_T_OPT, SNP_PROJECT_PATH_MAX},
    {"env",            SNP_T_OBJ | SNP_T_NULL | SNP_T_OPT, 0                   },
    {"allow_degraded", SNP_T_BOOL | SNP_T_OPT,             0                   },
    {"require_exact",  SNP_T_BOOL | SNP_T_OPT,             0                   },
    {"stream",         SNP_T_BOOL | SNP_T_OPT,             0                   },
    {"tell_wait",      SNP_T_BOOL | SNP_T_OPT,             0                   },
    {"attached",       SNP_T_BOOL | SNP_T_OPT,             0                   },
    {"transaction",    SNP_T_BOOL | SNP_T_OPT,             0                   },
    {"atomic",         SNP_T_BOOL | SNP_T_OPT,             0                   },
    {"calls",          SNP_T_BOOL | SNP_T_OPT,             0                   },
    {"durability",     SNP_T_STR | SNP_T_NULL | SNP_T_OPT, 16                  },
    {"checkpoint",     SNP_T_STR | SNP_T_NULL | SNP_T_OPT, 16                  },
    {"recover",        SNP_T_STR | SNP_T_NULL | SNP_T_OPT, 16                  },
    {"rerun_of",       SNP_T_INT | SNP_T_OPT,              0                   },
};
const struct snp_record snp_exec_record = SNP_RECORD("exec", exec_fields);

static json_t *member(json_t *head, const char *name)
{
    json_t *value = json_object_get(head, name);

    return json_is_null(value) ? NULL : value;
}

/* Whether there is such a template is the tier's to say. */
static int template_check(const char *name, struct snp_err *err)
{
    return name == NULL ? 0 : snp_template_name_check(name, err);
}

/* The kind asked for, else that of the defaults, else auto. */
static int tier_read(const json_t *head,
                     const json_t *defaults,
                     struct snp_exec_spec *spec,
                     struct snp_err *err)
{
    const char *asked = snp_json_str(head, "tier", NULL);
    const json_t *fallback = json_object_get(defaults, "tier");

    if (fallback != NULL && !json_is_string(fallback)) {
        return snp_fail(err, SNP_E_INVALID, "exec: the tier in 'defaults' must be a string");
    }
    spec->has_tier = asked != NULL && strcmp(asked, snp_tier_name(SNP_TIER_AUTO)) != 0;
    asked = asked != NULL      ? asked
            : fallback != NULL ? json_string_value(fallback)
                               : snp_tier_name(SNP_TIER_AUTO);
    return snp_tier_kind_read(asked, &spec->tier, err);
}

static int argv_check(const struct snp_exec_spec *spec, struct snp_err *err)
{
    bool is_command = strcmp(spec->kind, "command") == 0;
    size_t total = 0;
    size_t i;
    json_t *word;

    if (!is_command && strcmp(spec->kind, "python") != 0) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'kind' is python or command, not '%s'",
                        spec->kind);
    }
    if (is_command && json_array_size(spec->argv) == 0) {
        return snp_fail(err, SNP_E_INVALID, "exec: a command needs 'argv'");
    }
    if (is_command && spec->code_len > 0) {
        return snp_fail(err, SNP_E_INVALID, "exec: a command has no code");
    }
    json_array_foreach(spec->argv, i, word)
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
    if (is_command && json_string_length(json_array_get(spec->argv, 0)) == 0) {
        return snp_fail(err, SNP_E_INVALID, "exec: the command's name is empty");
    }
    return 0;
}

/* A member whose value is one of a few words; NULL or absent: *ret stays. */
/* One of the words, of which there are at least two; NULL ends them. */
static int word_read(const json_t *head,
                     const char *name,
                     const char *const *words,
                     int *ret,
                     struct snp_err *err)
{
    const char *word = snp_json_str(head, name, NULL);
    char all[80] = "";
    size_t used = 0;

    if (word == NULL) {
        return 0;
    }
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], word) == 0) {
            *ret = i;
            return 0;
        }
        used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
                                 i == 0                 ? ""
                                 : words[i + 1] == NULL ? " or "
                                                        : ", ",
                                 words[i]);
        SNP_ASSERT(used < sizeof(all));
    }
    return snp_fail(err, SNP_E_INVALID, "exec: '%s' is %s, not '%s'", name, all, word);
}

/* What is to be kept of it, and how well. */
static int saving_read(const json_t *head, struct snp_exec_spec *spec, struct snp_err *err)
{
    static const char *const durabilities[] = {"process", "synced", NULL};
    static const char *const whens[] = {"idle", "cell", "off", "after", NULL};
    static const char *const recovers[] = {"ask", "replay", "checkpoint", "skip", NULL};
    int durability = SNP_DURABILITY_SYNCED;
    int when = -1;
    int recover = SNP_RECOVER_ASK;
    int r = word_read(head, "durability", durabilities, &durability, err);

    if (r == 0) {
        r = word_read(head, "checkpoint", whens, &when, err);
    }
    if (r == 0) {
        r = word_read(head, "recover", recovers, &recover, err);
    }
    spec->durability = (enum snp_durability)durability;
    spec->has_checkpoint = when >= 0;
    spec->checkpoint = when < 0 ? SNP_CHECKPOINT_IDLE : (enum snp_checkpoint_when)when;
    spec->recover = (enum snp_recover)recover;
    return r;
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
            return snp_fail(err, SNP_E_INVALID, "exec: '%.64s' is no name of a variable", key);
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

/* The limits of a new session; `defaults` may also name a template. */
static int limits_read(json_t *defaults, struct snp_exec_spec *spec, struct snp_err *err)
{
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
        if (copy == NULL) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        (void)json_object_del(copy, "template"); /* they need not be there */
        (void)json_object_del(copy, "tier");
        spec->default_template = snp_json_str(defaults, "template", NULL);
        r = template_check(spec->default_template, err);
        if (r == 0) {
            r = snp_limits_from_json(copy, &spec->limits, err);
        }
        if (r < 0) {
            return snp_err_wrap(err, "exec: 'defaults'");
        }
    }
    if (spec->explicit_limits != NULL) {
        r = snp_limits_from_json(spec->explicit_limits, &spec->limits, err);
        if (r < 0) {
            return snp_err_wrap(err, "exec: 'limits'");
        }
    }
    return 0;
}

static int lengths_check(const struct snp_exec_spec *spec, size_t raw_len, struct snp_err *err)
{
    if (spec->code_len > raw_len) {
        return snp_fail(err, SNP_E_INVALID, "exec: 'code_len' is %llu, but %zu bytes came",
                        (unsigned long long)spec->code_len, raw_len);
    }
    if (!spec->has_stdin && spec->code_len != raw_len) {
        return snp_fail(err, SNP_E_INVALID, "exec: bytes after the code, but 'stdin' is false");
    }
    return 0;
}

int snp_exec_spec_read(json_t *head,
                       size_t raw_len,
                       struct snp_exec_spec *spec,
                       struct snp_err *err)
{
    json_t *defaults = member(head, "defaults");
    struct snp_exec_spec read = {
        .session = snp_json_str(head, "session", NULL),
        .kind = snp_json_str(head, "kind", ""),
        .template_name = snp_json_str(head, "template", NULL),
        .project = snp_json_str(head, "project", NULL),
        .rootfs = snp_json_str(head, "rootfs", NULL),
        .argv = member(head, "argv"),
        .env = member(head, "env"),
        .explicit_limits = member(head, "limits"),
        .code_len = (uint64_t)snp_json_int(head, "code_len", 0),
        .has_stdin = snp_json_bool(head, "stdin", false),
        .allow_degraded = snp_json_bool(head, "allow_degraded", false),
        .require_exact = snp_json_bool(head, "require_exact", false),
        .stream = snp_json_bool(head, "stream", true),
        .tell_wait = snp_json_bool(head, "tell_wait", false),
        .attached = snp_json_bool(head, "attached", false),
        .transaction = snp_json_bool(head, "transaction", true),
        .atomic = snp_json_bool(head, "atomic", false),
        .calls = snp_json_bool(head, "calls", false),
        .rerun_of = (uint64_t)snp_json_int(head, "rerun_of", 0),
    };
    int r = 0;

    if (read.session != NULL) {
        r = snp_session_name_check(read.session, err);
    }
    if (r == 0) {
        r = tier_read(head, defaults, &read, err);
    }
    if (r == 0) {
        r = template_check(read.template_name, err);
    }
    if (r == 0) {
        r = argv_check(&read, err);
    }
    if (r == 0) {
        r = env_check(read.env, err);
    }
    if (r == 0) {
        r = lengths_check(&read, raw_len, err);
    }
    if (r == 0) {
        r = limits_read(defaults, &read, err);
    }
    if (r == 0) {
        r = saving_read(head, &read, err);
    }
    if (r < 0) {
        return r;
    }
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

    if (spec->explicit_limits != NULL) {
        int r = snp_limits_from_json(spec->explicit_limits, &asked, err);

        if (r < 0) {
            return r;
        }
    }
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        char has[32];
        char wants[32];

        if (i != SNP_LIMIT_WALL && asked.value[i] != policy->limits.value[i]) {
            return snp_fail(
                err, SNP_E_INVALID,
                "the session was opened with %s %s, not %s; destroy it or use another "
                "name",
                snp_limit_info((enum snp_limit)i)->flag,
                snp_limit_format((enum snp_limit)i, policy->limits.value[i], has, sizeof(has)),
                snp_limit_format((enum snp_limit)i, asked.value[i], wants, sizeof(wants)));
        }
    }
    *ret_wall_ms = asked.value[SNP_LIMIT_WALL];
    return 0;
}

int snp_exec_spec_fits(const struct snp_exec_spec *spec,
                       const struct snp_session_policy *policy,
                       uint64_t *ret_wall_ms,
                       struct snp_err *err)
{
    const char *key;
    json_t *value;

    if (spec->has_tier && spec->tier != policy->tier) {
        return snp_fail(err, SNP_E_INVALID,
                        "the session was opened in the %s tier, not %s; destroy it or use "
                        "another name",
                        snp_tier_name(policy->tier), snp_tier_name(spec->tier));
    }
    if (spec->template_name != NULL &&
        strcmp(spec->template_name, policy->template_name) != 0) {
        return snp_fail(err, SNP_E_INVALID,
                        "the session was opened with template %s, not %s; destroy it or use "
                        "another name",
                        policy->template_name, spec->template_name);
    }
    if (spec->project != NULL && !snp_streq(spec->project, policy->project)) {
        return snp_fail(err, SNP_E_INVALID,
                        "the session was opened with %s%s; destroy it or use "
                        "another name",
                        policy->project == NULL ? "no project" : "project ",
                        policy->project == NULL ? "" : policy->project);
    }
    if (spec->rootfs != NULL && !snp_streq(spec->rootfs, policy->rootfs)) {
        return snp_fail(err, SNP_E_INVALID,
                        "the session was opened with %s%s; destroy it or use another name",
                        policy->rootfs == NULL ? "the host's files" : "file system ",
                        policy->rootfs == NULL ? "" : policy->rootfs);
    }
    json_object_foreach(spec->env, key, value)
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
