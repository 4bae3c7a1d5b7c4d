/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hibernating: save, try to restore, close the executor.
 *
 * Variables are never dropped for tidiness: values that a checkpoint cannot hold keep their session
 * alive, unless the hibernation was requested by name or the daemon ends.
 */
#include "daemon/save/hibernate.h"

#include <stdlib.h>

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

struct snp_hibernation {
    struct snp_session *session; /* one reference */
    bool is_gentle;
    struct snp_departure *departure; /* borrowed; NULL = it wakes in the same place */
    uint64_t epoch;                  /* at its beginning */
    snp_hibernate_done *done;
    void *ctx;
    struct snp_hibernation *next; /* waits for this one */
};

/* The daemon is ending, with time for another attempt. */
static bool is_tried_again(const struct snp_session *session)
{
    return !session->server->has_ended_tiers &&
           (session->unsaved.is_dirty || session->unsaved.n_putting > 0) &&
           (session->unsaved.end_tries < SNP_CAP_END_TRIES ||
            session->unsaved.end_changes != session->unsaved.changes);
}

static void begin(struct snp_hibernation *h);

static struct snp_hibernation *tell(struct snp_hibernation *h, const struct snp_err *err)
{
    struct snp_hibernation *next = h->next;
    struct snp_session *session = h->session;

    if (!h->is_gentle) {
        session->unsaved.n_departing--;
    }
    if (h->done != NULL) {
        h->done(h->ctx, err);
    }
    free(h);
    snp_session_unref(session);
    return next;
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

/* Answer those waiting for this hibernation, or retry after a failure. */
static void end(struct snp_hibernation *h, const struct snp_err *err)
{
    struct snp_session *session = h->session;
    struct snp_err awake;
    bool stays = h->departure != NULL && h->departure->stays;

    if (session->server->is_ending && h->departure == NULL &&
        (err == NULL || !is_tried_again(session))) {
        snp_lost_tell_end(session, err);
    }
    snp_session_ref(session);
    session->unsaved.hibernation = NULL;
    h = tell(h, err);
    if (stays && err == NULL) {
        (void)snp_fail(&awake, SNP_E_LIMIT, "the session stayed awake");
        (void)check_there(session, &awake);
        err = &awake; /* for the waiting ones: it is not hibernated */
    }
    while (h != NULL && (err == NULL || (session->state != SNP_SESSION_IDLE &&
                                         session->state != SNP_SESSION_SAVING))) {
        h = tell(h, err);
    }
    if (h != NULL) {
        begin(h);
    }
    snp_session_go_on(session);
    session->server->hooks->room(session->server);
    snp_session_unref(session);
}

static void left(void *ctx, const struct snp_err *err)
{
    end(ctx, err);
}

static void leave(struct snp_hibernation *h)
{
    struct snp_err err;

    if (snp_leave(h->session, left, h, &err) < 0) {
        end(h, &err);
    }
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

static void stay(struct snp_hibernation *h, const struct snp_err *err)
{
    if (h->departure == NULL) {
        put_off(h->session);
    }
    end(h, err);
}

/* The session has changed: start over, but give way to other requests if this one is automatic. */
static void disturbed(struct snp_hibernation *h)
{
    struct snp_err why;

    if (check_there(h->session, &why) < 0) {
        stay(h, &why);
    } else if (h->is_gentle) {
        (void)snp_fail(&why, SNP_E_LIMIT, "a request used the session first");
        stay(h, &why);
    } else {
        begin(h);
    }
}

/* The session has not changed since the trial restore. */
static bool is_as_tried(const struct snp_hibernation *h)
{
    const struct snp_session *session = h->session;

    return session->durable.checkpoint == h->departure->trial->checkpoint &&
           session->epoch == h->epoch &&
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

static void try_elsewhere(void *arg)
{
    struct snp_hibernation *h = arg;
    struct snp_err why;

    if (snp_prove(h->session, h->departure->trial, &why) < 0) {
        h->departure->has_losses = h->departure->stays;
        end(h, &why);
    } else if (!is_as_tried(h)) {
        disturbed(h);
    } else if (check_losses(h->departure, h->session, &why) < 0) {
        end(h, &why);
    } else if (h->departure->stays || h->session->live.executor == NULL) {
        end(h, NULL);
    } else {
        leave(h);
    }
}

static void proven(void *ctx, const struct snp_err *err)
{
    struct snp_hibernation *h = ctx;
    struct snp_session *session = h->session;
    struct snp_err why;

    if (err != NULL) {
        (void)snp_fail(&why, SNP_E_LIMIT, "%s (%.300s)%s",
                       session->server->has_ended_tiers
                           ? "the session is saved, but there was no time to test restoring it"
                           : "the session could not be restored when tried",
                       err->msg, session->server->is_ending ? "" : "; the session stays awake");
        stay(h, &why);
    } else if (!is_unused(session) || !snp_prove_is_done(session)) {
        disturbed(h);
    } else if (check_lost(h, session->durable.unrestorable, &why) < 0 ||
               (!session->server->is_ending && check_room(session, &why) < 0)) {
        stay(h, &why);
    } else {
        leave(h);
    }
}

static void try_here(void *arg)
{
    struct snp_hibernation *h = arg;
    struct snp_err err;

    proven(h, snp_prove(h->session, NULL, &err) < 0 ? &err : NULL);
}

/*
 * Close nothing before its checkpoint was restored on trial. When the daemon ends, a session that
 * is small enough to fit in any case is not tried.
 */
static void prove(struct snp_hibernation *h)
{
    struct snp_session *session = h->session;
    bool is_small = session->durable.checkpoint_bytes <
                    session->policy.limits.value[SNP_LIMIT_MEMORY] / SNP_CAP_UNPACKED;
    struct snp_err err;
    int r = 0;

    if (h->departure != NULL) {
        r = snp_co_start(try_elsewhere, h, &err);
    } else if (session->durable.checkpoint == 0 || session->live.executor == NULL ||
               (session->server->is_ending &&
                (is_small || session->server->n_proving >= SNP_CAP_PROVING))) {
        leave(h);
    } else if (snp_prove_is_done(session)) {
        proven(h, NULL);
    } else {
        r = snp_co_start(try_here, h, &err);
    }
    if (r < 0) {
        stay(h, &err);
    }
}

/* Saving -------------------------------------------------------------------------------------- */

static void saved(void *ctx, json_t *report, const struct snp_err *err)
{
    struct snp_hibernation *h = ctx;
    struct snp_session *session = h->session;
    struct snp_err why;

    if (session->server->has_ended_tiers) {
        (void)snp_fail(&why, SNP_E_TIMEOUT, "the session was not saved within %d s",
                       SNP_CAP_END_SAVE_MS / 1000);
        err = &why;
    } else if (err == NULL &&
               (session->state != SNP_SESSION_IDLE || session->unsaved.n_putting > 0)) {
        disturbed(h);
        return;
    } else if (err == NULL && check_lost(h, json_object_get(report, "lost"), &why) < 0) {
        err = &why;
    }
    if (err != NULL) {
        stay(h, err);
        return;
    }
    prove(h);
}

static void begin(struct snp_hibernation *h)
{
    struct snp_session *session = h->session;
    struct snp_err err;

    session->unsaved.hibernation = h;
    h->epoch = session->epoch;
    if (session->unsaved.is_dirty && !session->durable.is_recorded) {
        (void)snp_fail(&err, SNP_E_LIMIT,
                       "the journal could not record what session %s ran, so it cannot be saved; "
                       "the session stays awake",
                       session->name);
        stay(h, &err);
    } else if (session->live.executor != NULL && needs_saving(session)) {
        snp_checkpoint_make(session, saved, h);
    } else if (snp_store_moved(session->server->store, &err) < 0 ||
               check_lost(h, session->durable.checkpoint_lost, &err) < 0) {
        stay(h, &err);
    } else {
        prove(h);
    }
}

bool snp_hibernate_must_wait(const struct snp_session *session)
{
    return !snp_session_is_asleep(session) && session->state != SNP_SESSION_IDLE &&
           session->state != SNP_SESSION_SAVING &&
           (session->state != SNP_SESSION_HIBERNATING || session->unsaved.hibernation == NULL);
}

static void hibernate(struct snp_session *session,
                      bool is_gentle,
                      struct snp_departure *departure,
                      snp_hibernate_done *done,
                      void *ctx)
{
    struct snp_hibernation *h = calloc(1, sizeof(*h));
    struct snp_hibernation *last = session->unsaved.hibernation;
    struct snp_err err;

    if (h == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        if (done != NULL) {
            done(ctx, &err);
        }
        return;
    }
    snp_session_ref(session);
    *h = (struct snp_hibernation){.session = session,
                                  .is_gentle = is_gentle,
                                  .departure = departure,
                                  .done = done,
                                  .ctx = ctx};
    if (!is_gentle) {
        session->unsaved.n_departing++; /* queued cells do not make it fail */
    }
    while (last != NULL && last->next != NULL) {
        last = last->next;
    }
    if (last != NULL) {
        last->next = h;
    } else {
        begin(h);
    }
}

void snp_hibernate(struct snp_session *session, bool is_gentle, snp_hibernate_done *done, void *ctx)
{
    hibernate(session, is_gentle, NULL, done, ctx);
}

void snp_hibernate_for(struct snp_session *session,
                       struct snp_departure *departure,
                       snp_hibernate_done *done,
                       void *ctx)
{
    hibernate(session, false, departure, done, ctx);
}
