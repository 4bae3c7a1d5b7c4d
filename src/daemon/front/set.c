/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The method `sessions.set`: lowered limits are tried by restoring the session in a second sandbox.
 * Then the limits are written to the policy, then the sandbox, if there is one, then the journal.
 * The sandbox keeps limits that it cannot change; the next one is opened with the policy.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "daemon/request.h"
#include "daemon/save/hibernate.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/prove.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/result.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "daemon/session/turn.h"
#include "daemon/tier.h"
#include "daemon/work.h"
#include "wire/session.h"
#include "wire/tier.h"

struct setting_change {
    struct snp_request *request; /* owned */
    struct snp_session *session; /* one reference */
    struct snp_waiter waiter;
    json_t *asked; /* owned */
    struct snp_limits was;
    struct snp_limits now;
    json_t *at_wake; /* owned: keys */
    struct snp_turn turn;
    struct snp_place place; /* of the trial, with `limits` */
    struct snp_limits limits;
    struct snp_trial trial;
    struct snp_departure departure;
    struct snp_err untried; /* why there was no trial; code 0 = there was one, or none was needed */
};

static void setting_free(struct setting_change *setting)
{
    json_decref(setting->asked);
    json_decref(setting->at_wake);
    json_decref(setting->trial.failed);
    json_decref(setting->place.manifest);
    snp_session_unref(setting->session);
    free(setting);
}

/* Restore the old limits, except those that another request has changed since. */
static void setting_fail(struct setting_change *setting, const struct snp_err *why)
{
    uint64_t *value = setting->session->policy.limits.value;
    struct snp_err err = *why;

    for (int i = 0; i < SNP_LIMIT_N; i++) {
        value[i] = value[i] == setting->now.value[i] ? setting->was.value[i] : value[i];
    }
    (void)snp_err_wrap(&err, "the limits of session %s are unchanged", setting->session->name);
    snp_request_fail(setting->request, &err);
    setting_free(setting);
}

/* Without a sandbox that can change limits, changed limits apply to the next one. */
static void all_at_wake(struct setting_change *setting)
{
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        /* Each cell request has its time limit. */
        if (i != SNP_LIMIT_WALL && setting->now.value[i] != setting->was.value[i]) {
            (void)json_array_append_new(setting->at_wake,
                                        json_string(snp_limit_info((enum snp_limit)i)->key));
        }
    }
}

static void written(void *ctx, const struct snp_err *why)
{
    struct setting_change *setting = ctx;
    snp_autojson json_t *was = NULL;
    snp_autojson json_t *limits = NULL;
    snp_autojson json_t *untried = NULL;
    struct snp_err err;

    if (why != NULL) {
        (void)snp_fail(&err, why->code, "the journal cannot be written (%.300s)", why->msg);
        setting_fail(setting, &err);
        return;
    }
    if (setting->untried.code != SNP_OK) {
        untried = json_string(setting->untried.msg);
    }
    was = snp_limits_to_json(&setting->was);
    limits = snp_limits_to_json(&setting->now);
    snp_request_answer(setting->request,
                       SNP_WRITE(snp_sessions_set_answer, .was = was, .limits = limits,
                                 .at_wake = setting->at_wake, .untried = untried,
                                 .state = snp_session_state_text(setting->session)));
    setting_free(setting);
}

static void write_down(struct setting_change *setting)
{
    struct snp_err err;

    if (setting->session->state == SNP_SESSION_CLOSING) {
        (void)snp_fail(&err, SNP_E_NOT_FOUND, "another request destroyed the session");
        setting_fail(setting, &err);
    } else if (snp_entry_session(setting->session, written, setting, &err) < 0) {
        written(setting, &err);
    }
}

static int limited(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct setting_change *setting = ctx;
    struct snp_session *session = setting->session;
    json_t *manifest;
    struct snp_err ignored;
    int r;

    if (answer->head == NULL) { /* the sandbox has ended, or its tier lacks the method */
        all_at_wake(setting);
        write_down(setting);
        return 0;
    }
    manifest = json_object_get(answer->head, "manifest");
    r = snp_manifest_check(manifest, ret_bad);
    if (r == 0 && snp_tier_mark(session->policy.tier, manifest) == 0) {
        (void)!snp_session_policy_opened(session, manifest,
                                         &ignored); /* on failure the old manifest stays */
    }
    json_decref(setting->at_wake);
    setting->at_wake = json_incref(json_object_get(answer->head, "later"));
    write_down(setting);
    return r;
}

static int tier_ask(struct setting_change *setting, struct snp_err *err)
{
    struct snp_executor *executor = setting->session->live.executor;
    snp_autojson json_t *limits = snp_limits_to_json(&setting->session->policy.limits);
    const struct snp_tier_call call = {
        .head = SNP_WRITE(snp_tier_limit_request, .session = executor->id, .limits = limits),
        .timeout_ms = setting->session->server->options.tier_ms,
        .answer = &snp_tier_limit_answer_form,
        .done = limited,
        .ctx = setting,
    };

    return snp_tier_ask(executor->tier, &call, err);
}

/* Data that fit now may not fit with these limits. */
static bool is_tighter(const struct snp_limits *wanted, const struct snp_limits *now)
{
    for (int i = 0; i < SNP_LIMIT_N; i++) {
        if (i != SNP_LIMIT_WALL && i != SNP_LIMIT_CPUS && i != SNP_LIMIT_OUTPUT &&
            wanted->value[i] < now->value[i]) {
            return true;
        }
    }
    return false;
}

static void apply(struct setting_change *setting, const struct snp_limits *wanted)
{
    struct snp_session *session = setting->session;
    struct snp_err err;

    if (is_tighter(wanted, &session->policy.limits)) {
        session->durable.proven = 0; /* it was restored with the old limits */
    }
    setting->was = session->policy.limits;
    setting->now = *wanted;
    session->policy.limits = *wanted;
    if (setting->untried.code == SNP_OK && setting->trial.failed != NULL) {
        snp_prove_note(session, setting->trial.checkpoint, setting->trial.failed);
    }
    if (session->live.executor == NULL || tier_ask(setting, &err) < 0) {
        all_at_wake(setting);
        write_down(setting);
    }
}

static void set(struct setting_change *setting);

static void refuse(struct setting_change *setting, const struct snp_err *why)
{
    const struct snp_session *session = setting->session;
    uint64_t used = session->live.memory_bytes; /* 0: this daemon has run no cell of it */
    struct snp_err err;
    char text[32];

    (void)snp_fail(
        &err, SNP_E_LIMIT,
        "a trial restore failed: %.200s (%s: %s). Set a higher limit, or delete data "
        "first",
        why->msg, used != 0 ? "memory used" : "saved data",
        snp_format_bytes(used != 0 ? used : session->durable.checkpoint_bytes, text, sizeof(text)));
    setting_fail(setting, &err);
}

/* The trial ended: the data fit the lowered limits, do not fit, or it is not known. */
static void tried(void *ctx, const struct snp_err *why)
{
    struct setting_change *setting = ctx;
    struct snp_limits wanted = setting->session->policy.limits;
    struct snp_err ignored;

    (void)!snp_limits_from_json(setting->asked, &wanted, &ignored); /* it was parsed before */
    if (why != NULL && setting->departure.has_losses) {
        refuse(setting, why);
    } else if (why == NULL && setting->trial.failed == NULL) {
        set(setting); /* it had hibernated first */
    } else {
        if (why != NULL) {
            setting->untried = *why;
        } else if (is_tighter(&wanted, &setting->limits)) {
            (void)snp_fail(&setting->untried, SNP_E_LIMIT,
                           "another request lowered limits during the trial");
        }
        apply(setting, &wanted);
    }
}

static void turn_come(struct snp_turn *turn, struct snp_session *session, const struct snp_err *why)
{
    struct setting_change *setting = snp_container_of(turn, struct setting_change, turn);

    (void)session;
    if (why != NULL) {
        setting_fail(setting, why);
    } else {
        set(setting);
    }
}

static void turn_ask(struct setting_change *setting)
{
    setting->turn = (struct snp_turn){.run = turn_come, .survives_clear = true};
    snp_turn_ask(setting->session, &setting->turn);
}

static void try_out(struct setting_change *setting, const struct snp_limits *wanted)
{
    struct snp_session *session = setting->session;
    const struct snp_session_policy *policy = &session->policy;

    if (snp_hibernate_must_wait(session)) {
        turn_ask(setting);
        return;
    }
    json_decref(setting->trial.failed);
    json_decref(setting->place.manifest);
    setting->limits = *wanted;
    setting->place = (struct snp_place){.tier = policy->tier,
                                        .instead_of = policy->instead_of,
                                        .rootfs = policy->rootfs,
                                        .has_network = policy->has_network,
                                        .allow_degraded = policy->allow_degraded,
                                        .limits = &setting->limits};
    setting->trial = (struct snp_trial){.place = &setting->place};
    setting->departure = (struct snp_departure){.trial = &setting->trial, .stays = true};
    snp_hibernate_for(session, &setting->departure, tried, setting);
}

static void set(struct setting_change *setting)
{
    struct snp_session *session = setting->session;
    struct snp_limits wanted = session->policy.limits;
    struct snp_err err;

    if (snp_limits_from_json(setting->asked, &wanted, &err) < 0) {
        snp_request_fail(setting->request, &err);
        setting_free(setting);
        return;
    }
    if (session->unsaved.n_departing > 0) { /* it is being tried with its present limits */
        turn_ask(setting);
        return;
    }
    if (snp_session_is_asleep(session) ? is_tighter(&wanted, &session->policy.limits)
                                       : !snp_session_is_live(session)) {
        snp_session_when_live(session, &setting->waiter);
    } else if (is_tighter(&wanted, &session->policy.limits)) {
        try_out(setting, &wanted);
    } else {
        apply(setting, &wanted);
    }
}

static void awake(struct snp_waiter *waiter, struct snp_session *session, const struct snp_err *err)
{
    struct setting_change *setting = snp_container_of(waiter, struct setting_change, waiter);

    (void)session;
    if (err != NULL) {
        setting_fail(setting, err);
    } else {
        set(setting);
    }
}

void snp_run_set(const struct snp_work *work)
{
    struct setting_change *setting;

    if (work->session->name[0] == '\0') {
        snp_request_refuse(work->request, SNP_E_INVALID, "an unnamed session ends with its call");
        return;
    }
    setting = snp_request_state(work->request, sizeof(*setting));
    if (setting == NULL) {
        return;
    }
    snp_session_ref(work->session);
    setting->request = work->request;
    setting->session = work->session;
    setting->waiter.run = awake;
    setting->asked = json_incref(json_object_get(work->head, "limits"));
    setting->at_wake = json_array();
    set(setting);
}
