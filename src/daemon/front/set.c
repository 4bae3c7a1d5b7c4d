/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The method `sessions.set`: lowered limits are tried by restoring the session in a second sandbox.
 * Then the limits are written to the policy, then the sandbox, if there is one, then the journal.
 * The sandbox keeps limits that it cannot change; the next one is opened with the policy.
 */
#include "base/str.h"
#include "base/wire/session.h"
#include "daemon/co.h"
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
#include "wire/tier.h"

struct setting_change {
    struct snp_session *session; /* one reference */
    json_t *asked;               /* owned */
    struct snp_limits was;
    struct snp_limits now;
    json_t *at_wake;        /* owned: keys */
    struct snp_place place; /* of the trial, with `limits` */
    struct snp_limits limits;
    struct snp_trial trial;
    struct snp_departure departure;
    struct snp_err untried; /* why there was no trial; code 0 = there was one, or none was needed */
};

static void setting_done(struct setting_change *setting)
{
    json_decref(setting->asked);
    json_decref(setting->at_wake);
    json_decref(setting->trial.failed);
    json_decref(setting->place.manifest);
    snp_session_unref(setting->session);
}

/* Applying ------------------------------------------------------------------------------------- */

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

/* An invalid manifest ends the tier. */
static int limited(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    int r = answer->head == NULL
                ? 0
                : snp_manifest_check(json_object_get(answer->head, "manifest"), ret_bad);

    snp_await_end(ctx, answer->head, answer->err);
    return r;
}

/* Fails if the sandbox has ended, or its tier lacks the method. */
static int sandbox_limit(struct setting_change *setting, struct snp_err *err)
{
    struct snp_session *session = setting->session;
    struct snp_executor *executor = session->live.executor;
    snp_autojson json_t *limits = snp_limits_to_json(&session->policy.limits);
    snp_autojson json_t *answer = NULL;
    struct snp_await wait = {0};
    const struct snp_tier_call call = {
        .head = SNP_WRITE(snp_tier_limit_request, .session = executor->id, .limits = limits),
        .timeout_ms = session->server->options.tier_ms,
        .answer = &snp_tier_limit_answer_form,
        .done = limited,
        .ctx = &wait,
    };
    json_t *manifest;
    struct snp_err ignored;

    SNP_TRY(snp_tier_ask(executor->tier, &call, err));
    SNP_TRY(snp_await(&wait, &answer, err));
    manifest = json_object_get(answer, "manifest");
    if (snp_manifest_check(manifest, &ignored) == 0 &&
        snp_tier_mark(session->policy.place.tier, manifest) == 0) {
        (void)!snp_session_policy_opened(session, manifest,
                                         &ignored); /* on failure the old manifest stays */
    }
    json_decref(setting->at_wake);
    setting->at_wake = json_incref(json_object_get(answer, "later"));
    json_decref(executor->at_wake);
    executor->at_wake = json_incref(setting->at_wake);
    return 0;
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

static int apply(struct setting_change *setting,
                 const struct snp_limits *wanted,
                 struct snp_err *err)
{
    struct snp_session *session = setting->session;
    struct snp_err why;

    if (is_tighter(wanted, &session->policy.limits)) {
        session->durable.proven = 0; /* it was restored with the old limits */
    }
    setting->was = session->policy.limits;
    setting->now = *wanted;
    session->policy.limits = *wanted;
    if (setting->untried.code == SNP_OK && setting->trial.failed != NULL) {
        snp_prove_note(session, setting->trial.checkpoint, setting->trial.failed);
    }
    if (session->live.executor == NULL || sandbox_limit(setting, &why) < 0) {
        all_at_wake(setting);
    }
    if (session->state == SNP_SESSION_CLOSING) {
        return snp_fail(err, SNP_E_NOT_FOUND, "another request destroyed the session");
    }
    return snp_entry_session(session, &why) < 0
               ? snp_fail(err, why.code, "the journal cannot be written (%.300s)", why.msg)
               : 0;
}

/* Restore the old limits, except those that another request has changed since. */
static void undo(const struct setting_change *setting)
{
    uint64_t *value = setting->session->policy.limits.value;

    for (int i = 0; i < SNP_LIMIT_N; i++) {
        value[i] = value[i] == setting->now.value[i] ? setting->was.value[i] : value[i];
    }
}

/* Trying --------------------------------------------------------------------------------------- */

/* The requested limits, and the session's others. */
static struct snp_limits wanted_find(const struct setting_change *setting)
{
    struct snp_limits wanted = setting->session->policy.limits;
    struct snp_err ignored;

    (void)!snp_limits_from_json(setting->asked, &wanted, &ignored); /* it was parsed before */
    return wanted;
}

static int refuse(const struct snp_session *session, const struct snp_err *why, struct snp_err *err)
{
    uint64_t used = session->live.memory_bytes; /* 0: this daemon has run no cell of it */
    char text[32];

    return snp_fail(
        err, SNP_E_LIMIT,
        "a trial restore failed: %.200s (%s: %s). Set a higher limit, or delete data "
        "first",
        why->msg, used != 0 ? "memory used" : "saved data",
        snp_format_bytes(used != 0 ? used : session->durable.checkpoint_bytes, text, sizeof(text)));
}

/*
 * Fails if the data do not fit the lowered limits. 1: the session had hibernated first. *wanted is
 * replaced: other limits may have changed.
 */
static int try_out(struct setting_change *setting, struct snp_limits *wanted, struct snp_err *err)
{
    struct snp_session *session = setting->session;
    struct snp_await tried = {0};
    struct snp_err why;
    int r;

    json_decref(setting->trial.failed);
    json_decref(setting->place.manifest);
    setting->limits = *wanted;
    setting->place = session->policy.place;
    setting->place.manifest = NULL;
    setting->place.limits = &setting->limits;
    setting->trial = (struct snp_trial){.place = &setting->place};
    setting->departure = (struct snp_departure){.trial = &setting->trial, .stays = true};
    snp_hibernate_for(session, &setting->departure, snp_await_ended, &tried);
    r = snp_await(&tried, NULL, &why);
    if (r < 0 && setting->departure.has_losses) {
        return refuse(session, &why, err);
    }
    if (r == 0 && setting->trial.failed == NULL) {
        return 1;
    }
    *wanted = wanted_find(setting);
    if (r < 0) {
        setting->untried = why;
    } else if (is_tighter(wanted, &setting->limits)) {
        (void)snp_fail(&setting->untried, SNP_E_LIMIT,
                       "another request lowered limits during the trial");
    }
    return 0;
}

/* 1: after a wait, the session must be checked again. */
static int session_await(struct snp_session *session, bool is_lower, struct snp_err *err)
{
    const struct snp_turn turn = {.kind = SNP_TURN_REST, .survives_clear = true};
    bool needs_live = snp_session_is_asleep(session) ? is_lower : !snp_session_is_live(session);
    int r;

    if (session->unsaved.n_departing > 0 || /* it is being tried with its present limits */
        (!needs_live && is_lower && snp_hibernate_must_wait(session))) {
        r = snp_turn_await(session, &turn, err);
    } else if (needs_live) {
        r = snp_session_await_live(session, err);
    } else {
        return 0;
    }
    return r < 0 ? r : 1;
}

/* Wait until the limits can be applied, and were tried, if that is needed. */
static int limits_await(struct setting_change *setting,
                        struct snp_limits *ret_wanted,
                        struct snp_err *err)
{
    struct snp_session *session = setting->session;
    int r;

    do {
        bool is_lower;

        *ret_wanted = wanted_find(setting);
        is_lower = is_tighter(ret_wanted, &session->policy.limits);
        r = session_await(session, is_lower, err);
        if (r == 0 && is_lower) {
            r = try_out(setting, ret_wanted, err);
        }
    } while (r == 1);
    return r;
}

/* The change ----------------------------------------------------------------------------------- */

static void answer(struct snp_request *request, const struct setting_change *setting)
{
    snp_autojson json_t *was = snp_limits_to_json(&setting->was);
    snp_autojson json_t *limits = snp_limits_to_json(&setting->now);
    snp_autojson json_t *untried =
        setting->untried.code == SNP_OK ? NULL : json_string(setting->untried.msg);

    snp_request_answer(request, SNP_WRITE(snp_sessions_set_answer, .was = was, .limits = limits,
                                          .at_wake = setting->at_wake, .untried = untried,
                                          .state = snp_session_state_text(setting->session)));
}

static int run(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(setting_done) struct setting_change setting = {
        .session = work->session,
        .asked = json_incref(json_object_get(work->head, "limits")),
        .at_wake = json_array(),
    };
    struct snp_limits wanted = work->session->policy.limits;
    int r;

    snp_session_ref(setting.session);
    if (setting.session->name[0] == '\0') {
        return snp_fail(err, SNP_E_INVALID, "an unnamed session ends with its call");
    }
    SNP_TRY(snp_limits_from_json(setting.asked, &wanted, err));
    r = limits_await(&setting, &wanted, err);
    SNP_THEN(r, apply(&setting, &wanted, err));
    if (r < 0) {
        undo(&setting);
        return snp_err_wrap(err, "the limits of session %s are unchanged", setting.session->name);
    }
    answer(request, &setting);
    return 0;
}

void snp_run_set(const struct snp_work *work)
{
    snp_work_start(work, run);
}
