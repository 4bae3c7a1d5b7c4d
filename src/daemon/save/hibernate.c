/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hibernating: save, try to restore, close the executor.
 *
 * Variables are never dropped for tidiness: values that a checkpoint cannot hold keep their session
 * alive, unless the hibernation was requested by name or the daemon ends.
 */
#include "daemon/save/hibernate.h"

#include "base/clock.h"
#include "daemon/co.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/close.h"
#include "daemon/save/prove.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"
#include "store/store.h"

/* On its coroutine's stack. */
struct snp_hibernation {
    struct snp_session *session; /* one reference */
    bool is_gentle;
    struct snp_departure *departure; /* borrowed; NULL = it wakes in the same place */
    snp_hibernate_done *done;
    void *ctx;
    struct snp_hibernation *next; /* waits for this one */
    struct snp_await previous;    /* its outcome, for this one, which waits */
    bool is_begun;
};

/* The daemon is ending, with time for another attempt. */
static bool is_tried_again(const struct snp_session *session)
{
    return !session->server->has_ended_tiers &&
           (session->unsaved.is_dirty || session->unsaved.n_putting > 0) &&
           (session->unsaved.end_tries < SNP_CAP_END_TRIES ||
            session->unsaved.end_changes != session->unsaved.changes);
}

/* The session no longer has an executor to close. */
static int check_there(const struct snp_session *session, struct snp_err *err)
{
    if (session->state == SNP_SESSION_CLOSING) {
        return snp_fail(err, SNP_E_NOT_FOUND, "the session was destroyed");
    }
    return session->live.executor == NULL
               ? snp_fail(err, SNP_E_PEER, "the sandbox ended: %s", session->live.loss)
               : 0;
}

/* Proving ------------------------------------------------------------------------------------- */

/* Wait for a pending save, perhaps of a snapshot, by queueing another behind it. */
static bool needs_saving(const struct snp_session *session)
{
    return session->unsaved.save != NULL || session->unsaved.is_dirty ||
           session->unsaved.n_putting > 0 || snp_checkpoint_is_moving(session) ||
           snp_checkpoint_lacks_image(session);
}

/* Not now; the work in it may have ended after the same idle time. */
static void put_off(struct snp_session *session)
{
    session->unsaved.unsavable_us = snp_now_us() + session->server->options.session_idle_ms * 1000;
}

static bool is_unused(const struct snp_session *session)
{
    return session->state == SNP_SESSION_IDLE && !session->unsaved.is_dirty &&
           session->unsaved.n_putting == 0;
}

/* An automatic hibernation must lose nothing. */
static int check_lost(const struct snp_hibernation *h, const json_t *lost, struct snp_err *err)
{
    const json_t *first = NULL;
    size_t n = h->is_gentle ? snp_lost_count(lost, &first) : 0;

    return n == 0 ? 0
                  : snp_fail(err, SNP_E_LIMIT, "%zu %s cannot be saved (%.64s: %.100s)", n,
                             n == 1 ? "item" : "items", snp_json_str(first, "name", "?"),
                             snp_json_str(first, "reason", "?"));
}

/* Values that did not fit in the trial restore; NULL: all did. */
static const json_t *misfit(const json_t *failed)
{
    size_t i;
    json_t *one;

    json_array_foreach(failed, i, one)
    {
        if (snp_json_str(one, "cause", NULL) != NULL) {
            return one;
        }
    }
    return NULL;
}

/* A session that would not fit on waking stays where it is. */
static int check_room(const struct snp_session *session, struct snp_err *err)
{
    const json_t *one = misfit(session->durable.unrestorable);

    return one == NULL
               ? 0
               : snp_fail(err, SNP_E_LIMIT,
                          "%.64s could not be restored when tried: %.100s; the session stays "
                          "awake. Write it to a file in smaller parts, or delete it",
                          snp_json_str(one, "name", "?"), snp_json_str(one, "reason", "?"));
}

/* 1: the session has changed. Start over, but give way to other requests if this is automatic. */
static int disturbed(const struct snp_hibernation *h, struct snp_err *err)
{
    SNP_TRY(check_there(h->session, err));
    return h->is_gentle ? snp_fail(err, SNP_E_LIMIT, "a request used the session first") : 1;
}

/* The session has not changed since the trial restore. */
static bool is_as_tried(const struct snp_hibernation *h, uint64_t epoch)
{
    const struct snp_session *session = h->session;

    return session->durable.checkpoint == h->departure->trial->checkpoint &&
           session->epoch == epoch &&
           (session->live.executor == NULL ? session->state == SNP_SESSION_ASLEEP
                                           : is_unused(session));
}

static int check_losses(struct snp_departure *departure,
                        const struct snp_session *session,
                        struct snp_err *err)
{
    snp_autojson json_t *lost = snp_lost_list(session, departure->trial->failed);
    const json_t *first = departure->stays ? misfit(departure->trial->failed) : NULL;
    size_t n = departure->stays ? 0 : snp_lost_count(lost, &first);

    if (departure->stays) {
        departure->has_losses = first != NULL;
        return first == NULL
                   ? 0
                   : snp_fail(err, SNP_E_LIMIT, "%.64s: %.100s", snp_json_str(first, "name", "?"),
                              snp_json_str(first, "reason", "?"));
    }
    departure->has_losses = n > 0 && !departure->may_lose;
    return departure->has_losses
               ? snp_fail(err, SNP_E_DENIED, "%zu %s cannot move (%.64s: %.100s)", n,
                          n == 1 ? "item" : "items", snp_json_str(first, "name", "?"),
                          snp_json_str(first, "reason", "?"))
               : 0;
}

/* epoch: at the beginning of the attempt. */
static int try_elsewhere(const struct snp_hibernation *h, uint64_t epoch, struct snp_err *err)
{
    struct snp_departure *departure = h->departure;
    int r = snp_prove(h->session, departure->trial, err);

    if (r < 0) {
        departure->has_losses = departure->stays;
        return r;
    }
    return is_as_tried(h, epoch) ? check_losses(departure, h->session, err) : disturbed(h, err);
}

/*
 * Close nothing before its checkpoint was restored on trial. When the daemon ends, a session that
 * is small enough to fit in any case is not tried.
 */
static int try_here(const struct snp_hibernation *h, struct snp_err *err)
{
    struct snp_session *session = h->session;
    bool is_small = session->durable.checkpoint_bytes <
                    session->policy.limits.value[SNP_LIMIT_MEMORY] / SNP_CAP_UNPACKED;
    struct snp_err why;

    if (session->durable.checkpoint == 0 || session->live.executor == NULL ||
        (session->server->is_ending &&
         (is_small || session->server->n_proving >= SNP_CAP_PROVING))) {
        return 0;
    }
    if (!snp_prove_is_done(session) && snp_prove(session, NULL, &why) < 0) {
        return snp_fail(err, SNP_E_LIMIT, "%s (%.300s)%s",
                        session->server->has_ended_tiers
                            ? "the session is saved, but there was no time to test restoring it"
                            : "the session could not be restored when tried",
                        why.msg, session->server->is_ending ? "" : "; the session stays awake");
    }
    if (!is_unused(session) || !snp_prove_is_done(session)) {
        return disturbed(h, err);
    }
    SNP_TRY(check_lost(h, session->durable.unrestorable, err));
    return session->server->is_ending ? 0 : check_room(session, err);
}

/* Saving -------------------------------------------------------------------------------------- */

static int save(const struct snp_hibernation *h, struct snp_err *err)
{
    struct snp_session *session = h->session;
    snp_autojson json_t *report = NULL;
    int r;

    if (session->unsaved.is_dirty && !session->durable.is_recorded) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the journal could not record what session %s ran, so it cannot be saved; "
                        "the session stays awake",
                        session->name);
    }
    if (session->live.executor == NULL || !needs_saving(session)) {
        SNP_TRY(snp_store_moved(session->server->store, err));
        return check_lost(h, session->durable.checkpoint_lost, err);
    }
    r = snp_checkpoint_await(session, &report, err);
    if (session->server->has_ended_tiers) {
        return snp_fail(err, SNP_E_TIMEOUT, "the session was not saved within %d s",
                        SNP_CAP_END_SAVE_MS / 1000);
    }
    SNP_TRY(r);
    if (session->state != SNP_SESSION_IDLE || session->unsaved.n_putting > 0) {
        return disturbed(h, err);
    }
    return check_lost(h, json_object_get(report, "lost"), err);
}

/* Hibernating --------------------------------------------------------------------------------- */

static int hibernate(const struct snp_hibernation *h, struct snp_err *err)
{
    struct snp_session *session = h->session;
    const struct snp_departure *departure = h->departure;
    int r;

    do {
        uint64_t epoch = session->epoch;

        r = save(h, err);
        SNP_THEN(r, departure == NULL ? try_here(h, err) : try_elsewhere(h, epoch, err));
    } while (r == 1);
    if (r < 0 && departure == NULL) {
        put_off(session);
    }
    if (r < 0 || (departure != NULL && (departure->stays || session->live.executor == NULL))) {
        return r;
    }
    return snp_leave(session, err);
}

static void answer(const struct snp_hibernation *h, const struct snp_err *err)
{
    if (!h->is_gentle) {
        h->session->unsaved.n_departing--;
    }
    h->done(h->ctx, err);
}

/* It ended: so do those waiting for it, or the first of them begins after a failure. */
static void end(const struct snp_hibernation *h, const struct snp_err *err)
{
    struct snp_session *session = h->session;
    struct snp_hibernation *next = h->next;
    struct snp_err awake;
    bool stays = h->departure != NULL && h->departure->stays;

    if (session->server->is_ending && h->departure == NULL &&
        (err == NULL || !is_tried_again(session))) {
        snp_lost_tell_end(session, err);
    }
    session->unsaved.hibernation = NULL;
    answer(h, err);
    if (stays && err == NULL) {
        (void)snp_fail(&awake, SNP_E_LIMIT, "the session stayed awake");
        (void)check_there(session, &awake);
        err = &awake; /* for the waiting ones: it is not hibernated */
    }
    while (next != NULL) {
        struct snp_hibernation *waiting = next;

        next = next->next;
        if (err != NULL &&
            (session->state == SNP_SESSION_IDLE || session->state == SNP_SESSION_SAVING)) {
            session->unsaved.hibernation = waiting;
            waiting->is_begun = true;
            next = NULL;
        }
        snp_await_ended(&waiting->previous, err);
    }
    snp_session_go_on(session);
    session->server->hooks->room(session->server);
}

static void run(void *arg)
{
    struct snp_hibernation h = *(const struct snp_hibernation *)arg;
    struct snp_hibernation **last = &h.session->unsaved.hibernation;
    struct snp_err err;
    int r = 0;

    snp_session_ref(h.session);
    if (!h.is_gentle) {
        h.session->unsaved.n_departing++; /* queued cells do not make it fail */
    }
    h.is_begun = *last == NULL;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = &h;
    if (!h.is_begun) {
        r = snp_await(&h.previous, NULL, &err);
    }
    if (h.is_begun) {
        r = hibernate(&h, &err);
        end(&h, r < 0 ? &err : NULL);
    } else {
        answer(&h, r < 0 ? &err : NULL);
    }
    snp_session_unref(h.session);
}

bool snp_hibernate_must_wait(const struct snp_session *session)
{
    return !snp_session_is_asleep(session) && session->state != SNP_SESSION_IDLE &&
           session->state != SNP_SESSION_SAVING &&
           (session->state != SNP_SESSION_HIBERNATING || session->unsaved.hibernation == NULL);
}

static void start(struct snp_hibernation *h)
{
    struct snp_err err;

    if (snp_co_start(run, h, &err) < 0) {
        h->done(h->ctx, &err);
    }
}

void snp_hibernate(struct snp_session *session, bool is_gentle, snp_hibernate_done *done, void *ctx)
{
    start(&(struct snp_hibernation){
        .session = session, .is_gentle = is_gentle, .done = done, .ctx = ctx});
}

void snp_hibernate_for(struct snp_session *session,
                       struct snp_departure *departure,
                       snp_hibernate_done *done,
                       void *ctx)
{
    start(&(struct snp_hibernation){
        .session = session, .departure = departure, .done = done, .ctx = ctx});
}
