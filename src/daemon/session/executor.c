/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executors: opening and closing sandboxes, and tracking which are gone.
 *
 * Invariants: the table holds every executor that is not gone; each of these has a session and a
 * tier. When a tier ends, its executors are gone; a new tier of that kind starts only after the old
 * process was reaped (tier.c), so no wait is needed.
 */
#include "daemon/session/executor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "daemon/co.h"
#include "daemon/server.h"
#include "daemon/session/result.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "daemon/tier.h"
#include "wire/tier.h"

/* A pending `open` or `close`. */
struct step {
    struct snp_executor *executor; /* one reference */
    const struct snp_found_tier *found;
    snp_executor_closed *closed;
    void *ctx;
    bool is_last; /* no retry if the tier dies */
};

static int open_ask(struct snp_executor *executor,
                    const struct snp_place *place,
                    bool is_last,
                    struct snp_err *err);

/* The table ------------------------------------------------------------------------------ */

/* Ids are random. */
static struct snp_executor **bucket(struct snp_executors *table, const char *id)
{
    uint32_t hash = 0;

    for (size_t i = 0; i < 8 && id[i] != '\0'; i++) {
        hash = hash << 4U ^ (unsigned char)id[i];
    }
    return &table->by_id[(hash ^ hash >> 16U) & (SNP_CAP_SESSIONS - 1)];
}

static void table_leave(struct snp_executor *executor)
{
    struct snp_executor **at = bucket(&executor->server->executors, executor->id);

    while (*at != executor) {
        at = &(*at)->same_id;
    }
    *at = executor->same_id;
}

struct snp_executor *snp_executor_find(const struct snp_server *server, const char *id)
{
    struct snp_executor *at = *bucket((struct snp_executors *)(uintptr_t)&server->executors, id);

    while (at != NULL && strcmp(at->id, id) != 0) {
        at = at->same_id;
    }
    return at;
}

void snp_executor_ref(struct snp_executor *executor)
{
    executor->refs++;
}

void snp_executor_unref(struct snp_executor *executor)
{
    SNP_ASSERT(executor == NULL || executor->refs > 0);
    if (executor != NULL && --executor->refs == 0) {
        SNP_ASSERT(executor->state == SNP_EXECUTOR_GONE);
        json_decref(executor->at_wake);
        free(executor);
    }
}

/* The executor is gone. The caller holds another reference. */
static void forget(struct snp_executor *executor)
{
    struct snp_session *session = SNP_TAKE_PTR(executor->session);

    table_leave(executor);
    executor->state = SNP_EXECUTOR_GONE;
    executor->tier = NULL;
    if (session->live.executor == executor) {
        session->live.executor = NULL;
        snp_executor_unref(executor);
        session->server->hooks->executor_gone(session);
    }
    snp_session_unref(session);
}

/* Opening -------------------------------------------------------------------------------- */

/*
 * The strongest tier cannot run here. Ask the next one if it supports the request, a weak one only
 * if allowed; its manifest then has the reason. 0 when asked; else err has the remedies.
 */
static int open_weaker(struct snp_executor *executor, struct snp_err *err)
{
    struct snp_session *session = executor->session;
    struct snp_found_tier *next;
    struct snp_err ignored;

    if (err->code != SNP_E_UNSUPPORTED || !session->policy.place.is_auto ||
        session->live.executor != executor) {
        return err->code;
    }
    next = snp_tiers_weaker(&session->server->tiers, session->policy.place.tier,
                            session->policy.place.rootfs == NULL ? NULL : "rootfs");
    if (next == NULL || snp_tier_guarantees(next, session->policy.place.rootfs,
                                            session->policy.guarantees, &ignored) < 0) {
        return err->code;
    }
    if (snp_tier_is_weak(next) && !session->policy.place.allow_degraded) {
        return snp_err_remedy(err, err->code, SNP_REMEDY_WEAKER_TIER, next->name, 0);
    }
    if (snp_session_policy_weaken(session, next, err) < 0 ||
        snp_tier_get(session->server, session->policy.place.tier, &executor->tier, err) < 0) {
        return err->code;
    }
    return open_ask(executor, NULL, false, err);
}

/* The tier died. No cell has run in a sandbox that was never open, so another tier may open one. */
static int open_again(struct snp_executor *executor, struct snp_err *err)
{
    struct snp_session *session = executor->session;

    if (session->live.executor != executor) {
        return err->code;
    }
    SNP_TRY(snp_tier_get(session->server, session->policy.place.tier, &executor->tier, err));
    return open_ask(executor, NULL, true, err);
}

static int open_done(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct step *step = ctx;
    struct snp_executor *executor = step->executor;
    const struct snp_found_tier *found = step->found;
    const bool may_ask_again = answer->has_died && !step->is_last;
    struct snp_err err = {.code = SNP_OK};
    int r = 0;

    free(step);
    if (answer->head == NULL) {
        err = *answer->err;
    } else {
        r = snp_manifest_check(json_object_get(answer->head, "manifest"), ret_bad);
        if (r < 0) {
            (void)snp_fail(&err, SNP_E_PEER, "the tier sent an invalid answer: %s", ret_bad->msg);
        }
    }
    if (executor->state != SNP_EXECUTOR_OPENING) {
        /*
         * It was closed in between; the answer to the close matters. It may have no session any
         * more.
         */
        snp_executor_unref(executor);
        return r;
    }
    if (err.code == SNP_OK && snp_tier_mark(found, json_object_get(answer->head, "manifest")) < 0) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
    }
    if (err.code == SNP_OK) {
        executor->state = SNP_EXECUTOR_OPEN;
        executor->opened(executor->ctx, json_object_get(answer->head, "manifest"), NULL);
    } else if (r < 0 ||
               (may_ask_again ? open_again(executor, &err) : open_weaker(executor, &err)) < 0) {
        struct snp_session *session = executor->session;

        snp_session_ref(session);
        forget(executor);
        executor->opened(executor->ctx, NULL, &err);
        snp_session_unref(session);
    }
    snp_executor_unref(executor);
    return r;
}

static int open_ask(struct snp_executor *executor,
                    const struct snp_place *place,
                    bool is_last,
                    struct snp_err *err)
{
    const struct snp_session *session = executor->session;
    const struct snp_session_policy *policy = &session->policy;
    const struct snp_place *at = place == NULL ? &policy->place : place;
    struct step *step = calloc(1, sizeof(*step));
    snp_autojson json_t *limits =
        snp_limits_to_json(at->limits == NULL ? &session->policy.limits : at->limits);
    struct snp_tier_call call = {
        .head = SNP_WRITE(
            snp_tier_open_request, .session = executor->id,
            .template =
                session->policy.template_name[0] == '\0' ? NULL : session->policy.template_name,
            .limits = limits, .project = session->policy.project, .rootfs = at->rootfs,
            .network = at->has_network, .env = session->policy.env,
            .allow_degraded = at->allow_degraded, .require_exact = session->policy.require_exact,
            .lasting = session->name[0] != '\0', .loads = session->durable.checkpoint != 0,
            .instead_of = at->instead_of, .epoch = executor->epoch,
            .transaction = session->policy.transaction),
        .timeout_ms = SNP_CAP_TIER_OPEN_MS,
        .answer = &snp_tier_open_answer_form,
        .done = open_done,
        .ctx = step,
    };
    int r;

    if (step == NULL) {
        json_decref(call.head);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    step->executor = executor;
    step->found = at->tier;
    step->is_last = is_last;
    r = snp_tier_ask(executor->tier, &call, err);
    if (r < 0) {
        free(step);
        return r;
    }
    snp_executor_ref(executor);
    return 0;
}

/* The first executor has the session's id; later ones must differ from it. */
static int id_choose(struct snp_executor *executor, bool is_elsewhere, struct snp_err *err)
{
    const struct snp_session *session = executor->session;

    if (session->epoch == 1 && session->live.executor == NULL && !is_elsewhere) {
        memcpy(executor->id, session->id, sizeof(executor->id));
    } else if (snp_random_id(executor->id) < 0) {
        return snp_fail_sys(err, errno, "random id");
    }
    return 0;
}

static int open_start(struct snp_session *session,
                      const struct snp_place *place,
                      struct snp_executor **ret,
                      struct snp_err *err)
{
    struct snp_server *server = session->server;
    struct snp_executor **chain;
    struct snp_executor *executor;
    /* Beside another executor: the same tier. That is available while the daemon ends, too. */
    struct snp_tier *tier =
        session->live.executor == NULL || place != NULL ? NULL : session->live.executor->tier;
    int r;

    SNP_TRY(tier != NULL
                ? 0
                : snp_tier_get(server, place == NULL ? session->policy.place.tier : place->tier,
                               &tier, err));
    executor = calloc(1, sizeof(*executor));
    SNP_TRY_MEMORY(executor, err);
    executor->server = server;
    executor->refs = 1;
    executor->epoch = session->epoch;
    executor->session = session;
    executor->tier = tier;
    r = id_choose(executor, place != NULL, err);
    SNP_THEN(r, open_ask(executor, place, place != NULL, err));
    if (r < 0) {
        free(executor);
        return r;
    }
    snp_session_ref(session);
    chain = bucket(&server->executors, executor->id);
    executor->same_id = *chain;
    *chain = executor;
    *ret = executor;
    return 0;
}

int snp_executor_open(struct snp_session *session, snp_executor_opened *opened, struct snp_err *err)
{
    SNP_ASSERT(session->live.executor == NULL);
    SNP_TRY(open_start(session, NULL, &session->live.executor, err));
    session->live.executor->opened = opened;
    session->live.executor->ctx = session;
    return 0;
}

int snp_executor_open_await(struct snp_session *session, json_t **ret_manifest, struct snp_err *err)
{
    struct snp_await wait = {0};

    SNP_TRY(snp_executor_open(session, snp_await_end, err));
    session->live.executor->ctx = &wait;
    return snp_await(&wait, ret_manifest, err);
}

int snp_executor_open_beside(struct snp_session *session,
                             const struct snp_place *place,
                             struct snp_executor **ret,
                             json_t **ret_manifest,
                             struct snp_err *err)
{
    struct snp_await wait = {0};

    SNP_TRY(open_start(session, place, ret, err));
    (*ret)->opened = snp_await_end;
    (*ret)->ctx = &wait;
    return snp_await(&wait, ret_manifest, err);
}

/* Closing -------------------------------------------------------------------------------- */

static int close_done(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct step *step = ctx;
    struct snp_executor *executor = step->executor;
    const struct snp_err *err = NULL;

    (void)ret_bad;
    /* If the tier does not know it, or is being killed, the executor is gone, too. */
    if (answer->head == NULL && answer->err->code != SNP_E_NOT_FOUND &&
        answer->err->code != SNP_E_PEER) {
        err = answer->err;
        snp_log(SNP_LOG_ERROR, "executor-close", "executor=%s error=\"%s\"", executor->id,
                err->msg);
    }
    if (executor->state != SNP_EXECUTOR_GONE) {
        forget(executor);
    }
    if (step->closed != NULL) {
        step->closed(step->ctx, err);
    }
    snp_executor_unref(executor);
    free(step);
    return 0;
}

static int close_ask(struct step *step, struct snp_err *err)
{
    const struct snp_tier_call call = {
        .head = SNP_WRITE(snp_tier_close_request, .session = step->executor->id),
        .timeout_ms = step->executor->server->options.tier_ms,
        .is_urgent = true,
        .done = close_done,
        .ctx = step,
    };

    return snp_tier_ask(step->executor->tier, &call, err);
}

/* Its opening was not answered yet. */
static void opening_end(const struct snp_executor *executor)
{
    struct snp_err err;

    (void)snp_fail(&err, SNP_E_PEER, "the sandbox was closed before it was open");
    executor->opened(executor->ctx, NULL, &err);
}

void snp_executor_close(struct snp_executor *executor, snp_executor_closed *closed, void *ctx)
{
    const bool is_opening = executor->state == SNP_EXECUTOR_OPENING;
    struct step *step = calloc(1, sizeof(*step));
    struct snp_err err;
    int r = 0;

    snp_executor_ref(executor);
    if (executor->state == SNP_EXECUTOR_GONE) {
        free(step);
        if (closed != NULL) {
            closed(ctx, NULL);
        }
        snp_executor_unref(executor);
        return;
    }
    if (step == NULL) {
        r = snp_fail(&err, SNP_E_NOMEM, "out of memory");
    } else {
        *step = (struct step){.executor = executor, .closed = closed, .ctx = ctx};
        r = close_ask(step, &err);
    }
    if (r == 0) {
        executor->state = SNP_EXECUTOR_CLOSING;
        if (is_opening) {
            opening_end(executor);
        }
        return;
    }
    snp_log(SNP_LOG_ERROR, "executor-close", "executor=%s error=\"%s\"", executor->id, err.msg);
    free(step);
    forget(executor);
    if (is_opening) {
        opening_end(executor);
    }
    if (closed != NULL) {
        closed(ctx, &err);
    }
    snp_executor_unref(executor);
}

void snp_executor_close_await(struct snp_executor *executor)
{
    struct snp_await wait = {0};
    struct snp_err ignored; /* logged */

    if (executor != NULL) {
        snp_executor_close(executor, snp_await_ended, &wait);
        (void)snp_await(&wait, NULL, &ignored);
    }
}

void snp_executor_end(struct snp_executor *executor)
{
    snp_executor_close_await(executor);
    snp_executor_unref(executor);
}

/* Unexpected ends ------------------------------------------------------------------------------ */

void snp_executor_gone(struct snp_executor *executor, const char *reason)
{
    struct snp_session *session = executor->session;
    bool is_current = session != NULL && session->live.executor == executor;

    if (executor->state != SNP_EXECUTOR_OPEN) {
        return; /* if opening or closing, the answer ends it */
    }
    snp_executor_ref(executor);
    snp_session_ref(session);
    forget(executor);
    if (is_current) {
        session->server->hooks->lost(session, reason);
    }
    snp_session_unref(session);
    snp_executor_unref(executor);
}

void snp_executor_tier_lost(struct snp_server *server,
                            const struct snp_tier *tier,
                            const char *reason)
{
    for (size_t i = 0; i < SNP_CAP_SESSIONS; i++) {
        struct snp_executor *next;

        for (struct snp_executor *e = server->executors.by_id[i]; e != NULL; e = next) {
            next = e->same_id;
            if (e->tier == tier && e->state == SNP_EXECUTOR_OPEN) {
                /* No handler changes the chains: answers come later. */
                snp_executor_gone(e, reason);
            }
        }
    }
}
