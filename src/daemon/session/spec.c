/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a session's policy. Only the daemon writes it, but it is read from a disk, so it is
 * checked like any outside input.
 */
#include "daemon/session/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/policy/guarantee.h"
#include "base/str.h"
#include "base/wire/record.h"
#include "daemon/server.h"
#include "daemon/session/missing_cells.h"
#include "daemon/session/result.h"
#include "store/job.h"

enum {
    SPEC_VERSION = 1,
    STATE_FORMAT = 1, /* of saved state: raised when older state cannot be read */
};

static const struct snp_field fields[] = {
    {"version", SNP_T_INT, SPEC_VERSION},
    {"format", SNP_T_INT, 0},
    {"tier", SNP_T_STR, SNP_TIER_NAME_MAX},
    {"auto", SNP_T_BOOL, 0},
    {"template", SNP_T_STR, 31},
    {"project", SNP_T_STR | SNP_T_NULL, SNP_CAP_PATH},
    {"rootfs", SNP_T_STR | SNP_T_NULL, SNP_CAP_PATH},
    {"network", SNP_T_BOOL | SNP_T_OPT, 0},
    {"env", SNP_T_OBJ, 0},
    {"limits", SNP_T_OBJ, 0},
    {"allow_degraded", SNP_T_BOOL, 0},
    {"require_exact", SNP_T_BOOL, 0},
    {"transaction", SNP_T_BOOL, 0},
    {"checkpoint", SNP_T_INT, SNP_CHECKPOINT_AFTER},
    {"accepted", SNP_T_INT, 0},
    {"accepted_from", SNP_T_INT | SNP_T_OPT, 0},
    {"manifest", SNP_T_OBJ, 0},
    {"owner", SNP_T_STR | SNP_T_OPT, SNP_PROCESS_MARK_MAX - 1},
};
static const struct snp_record record = SNP_RECORD("session record", fields);

int snp_session_policy_opened(struct snp_session *session,
                              const json_t *manifest,
                              struct snp_err *err)
{
    struct snp_session_policy *policy = &session->policy;
    json_t *copy;

    SNP_TRY(snp_guarantees_in(policy->place.tier->name, manifest, policy->guarantees, err));
    copy = json_deep_copy(manifest);
    SNP_TRY_MEMORY(copy, err);
    json_decref(policy->place.manifest);
    policy->place.manifest = copy;
    (void)snprintf(policy->template_name, sizeof(policy->template_name), "%s",
                   snp_json_str(manifest, "template", ""));
    return 0;
}

int snp_session_policy_weaken(struct snp_session *session,
                              struct snp_found_tier *tier,
                              struct snp_err *err)
{
    char *why = strdup(err->msg);

    SNP_TRY_MEMORY(why, err);
    free(session->policy.place.instead_of);
    session->policy.place.instead_of = why;
    session->policy.place.tier = tier;
    return 0;
}

void snp_session_policy_swap(struct snp_session *session, struct snp_place *place)
{
    const struct snp_place was = session->policy.place;

    session->policy.place = *place;
    *place = was;
}

static char *spec_text(const struct snp_session *session,
                       uint64_t accepted_cell,
                       uint64_t accepted_from,
                       const char *owner)
{
    snp_autojson json_t *spec = json_pack(
        "{s:i, s:i, s:s, s:b, s:s, s:s?, s:s?, s:b, s:O, s:o, s:b, s:b, s:b, s:i, s:I, s:I, "
        "s:o, s:s*}",
        "version", SPEC_VERSION, "format", STATE_FORMAT, "tier", session->policy.place.tier->name,
        "auto", session->policy.place.is_auto, "template", session->policy.template_name, "project",
        session->policy.project, "rootfs", session->policy.place.rootfs, "network",
        session->policy.place.has_network, "env", session->policy.env, "limits",
        snp_limits_to_json(&session->policy.limits), "allow_degraded",
        session->policy.place.allow_degraded, "require_exact", session->policy.require_exact,
        "transaction", session->policy.transaction, "checkpoint", (int)session->unsaved.when,
        "accepted", (json_int_t)accepted_cell, "accepted_from", (json_int_t)accepted_from,
        "manifest", json_incref(session->policy.place.manifest), "owner",
        owner[0] == '\0' ? NULL : owner);

    return spec == NULL ? NULL : snp_json_text(spec);
}

char *snp_session_spec_text(const struct snp_session *session)
{
    return spec_text(session, session->durable.accepted_cell, session->durable.accepted_from,
                     session->policy.owner);
}

char *snp_session_spec_copy(const struct snp_session *session)
{
    return spec_text(session, 0, 0, "");
}

char *snp_session_spec_strip(const char *text)
{
    snp_autojson json_t *spec = json_loads(text, 0, NULL);

    (void)json_object_del(spec, "owner"); /* optional */
    return spec == NULL || json_object_set_new(spec, "accepted", json_integer(0)) < 0 ||
                   json_object_set_new(spec, "accepted_from", json_integer(0)) < 0
               ? NULL
               : snp_json_text(spec);
}

char *snp_session_spec_own(const char *text, const char *owner)
{
    snp_autojson json_t *spec = json_loads(text, 0, NULL);

    return spec == NULL || json_object_set_new(spec, "owner", json_string(owner)) < 0
               ? NULL
               : snp_json_text(spec);
}

static char *text_copy(const json_t *object, const char *key, bool *ret_failed)
{
    const char *text = snp_json_str(object, key, NULL);
    char *copy = text == NULL ? NULL : strdup(text);

    *ret_failed |= text != NULL && copy == NULL;
    return copy;
}

int snp_session_spec_read(struct snp_session *session, const char *text, struct snp_err *err)
{
    snp_autojson json_t *spec = NULL;
    bool failed = false;

    SNP_TRY(snp_json_parse(text, strlen(text), &spec, err));
    SNP_TRY(snp_record_check(spec, &record, err));
    SNP_TRY(snp_tiers_recorded(&session->server->tiers, snp_json_str(spec, "tier", ""),
                               &session->policy.place.tier, err));
    snp_limits_default(&session->policy.limits);
    SNP_TRY(snp_limits_from_json(json_object_get(spec, "limits"), &session->policy.limits, err));
    SNP_TRY(snp_manifest_check(json_object_get(spec, "manifest"), err));
    session->policy.place.is_auto = snp_json_bool(spec, "auto", false);
    (void)snprintf(session->policy.template_name, sizeof(session->policy.template_name), "%s",
                   snp_json_str(spec, "template", ""));
    session->policy.project = text_copy(spec, "project", &failed);
    session->policy.place.rootfs = text_copy(spec, "rootfs", &failed);
    session->policy.place.has_network = snp_json_bool(spec, "network", false);
    session->policy.env = json_incref(json_object_get(spec, "env"));
    (void)snprintf(session->policy.owner, sizeof(session->policy.owner), "%s",
                   snp_json_str(spec, "owner", ""));
    session->policy.place.allow_degraded = snp_json_bool(spec, "allow_degraded", false);
    session->policy.require_exact = snp_json_bool(spec, "require_exact", false);
    session->policy.transaction = snp_json_bool(spec, "transaction", true);
    session->unsaved.when =
        (enum snp_checkpoint_when)snp_json_int(spec, "checkpoint", SNP_CHECKPOINT_IDLE);
    session->durable.accepted_cell = (uint64_t)snp_json_int(spec, "accepted", 0);
    session->durable.accepted_from = (uint64_t)snp_json_int(spec, "accepted_from", 0);
    session->durable.state_format = (uint64_t)snp_json_int(spec, "format", 0);
    session->policy.place.manifest = json_incref(json_object_get(spec, "manifest"));
    if (failed || session->policy.place.manifest == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

uint64_t snp_session_spec_floor(const char *text, uint64_t checkpoint_cell)
{
    snp_autojson json_t *spec = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

    return snp_session_floor_of(checkpoint_cell, (uint64_t)snp_json_int(spec, "accepted", 0),
                                (uint64_t)snp_json_int(spec, "accepted_from", 0));
}

/* "3.11.2" -> "3.11": pickles depend on no more. */
static void series_of(const json_t *manifest, char *out, size_t out_len)
{
    const char *version = snp_json_str(manifest, "python", "");
    const char *dot = strchr(version, '.');
    size_t n = dot == NULL ? strlen(version) : strcspn(dot + 1, ".") + (size_t)(dot + 1 - version);

    (void)snprintf(out, out_len, "%.*s", (int)n, version);
}

static int differs(const struct snp_session *session,
                   const char *what,
                   const char *then,
                   const char *now,
                   bool is_elsewhere,
                   struct snp_err *err)
{
    const char *name = session->name[0] == '\0' ? session->id : session->name;

    then = then == NULL || *then == '\0' ? "(none)" : then;
    now = now == NULL || *now == '\0' ? "(none)" : now;
    if (is_elsewhere) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "it has %s %s here, but %s there", what, then, now);
    }
    return snp_fail_with(
        err, SNP_E_INVALID, SNP_REMEDY_CLEAR_SESSION, name, 0,
        "session %s was saved with %s %s, but here it is %s; make the former available again", name,
        what, then, now);
}

static int key_check(const struct snp_session *session,
                     const json_t *now,
                     bool is_elsewhere,
                     struct snp_err *err)
{
    static const char *const members[] = {"template", "template_hash", "packages", "rootfs"};
    const size_t n = SNP_ARRAY_LEN(members) - (is_elsewhere ? 1 : 0);
    const json_t *then = session->policy.place.manifest;
    char was[32];
    char is[32];

    SNP_TRY_MEMORY(then, err);
    series_of(then, was, sizeof(was));
    series_of(now, is, sizeof(is));
    if (strcmp(was, is) != 0) {
        return differs(session, "Python", was, is, is_elsewhere, err);
    }
    for (size_t i = 0; i < n; i++) {
        const char *a = snp_json_str(then, members[i], NULL);
        const char *b = snp_json_str(now, members[i], NULL);

        if (!snp_streq(a, b)) {
            return differs(session, members[i], a, b, is_elsewhere, err);
        }
    }
    if (session->durable.state_format != 0 && session->durable.state_format != STATE_FORMAT) {
        return differs(session, "state format", "of another version", "this version's",
                       is_elsewhere, err);
    }
    return 0;
}

int snp_state_key_check(const struct snp_session *session, const json_t *now, struct snp_err *err)
{
    return key_check(session, now, false, err);
}

int snp_state_key_check_elsewhere(const struct snp_session *session,
                                  const json_t *now,
                                  struct snp_err *err)
{
    return key_check(session, now, true, err);
}
