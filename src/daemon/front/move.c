/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The method `sessions.move`: save the session here, restore it there on trial, and only then end
 * it here; the next cell wakes it there. The journal says where it is, and has the new tier once
 * all steps are done.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/wire/session.h"
#include "daemon/co.h"
#include "daemon/request.h"
#include "daemon/save/hibernate.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/missing.h"
#include "daemon/save/prove.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/life.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "daemon/session/turn.h"
#include "daemon/store_wait.h"
#include "daemon/work.h"

struct moving {
    struct snp_session *session; /* one reference */
    struct snp_found_tier *from;
    struct snp_found_tier *to;
    struct snp_place place; /* the target; after the move, the source */
    struct snp_trial trial;
    struct snp_departure departure;
    struct snp_missing_place lacks;
};

static void moving_done(struct moving *moving)
{
    free(moving->place.instead_of);
    free(moving->place.rootfs);
    json_decref(moving->place.manifest);
    json_decref(moving->trial.failed);
    snp_session_unref(moving->session);
}

static void answer(struct snp_request *request, const struct moving *moving, bool is_moved)
{
    snp_autojson json_t *lost = snp_lost_list(moving->session, moving->trial.failed);

    snp_request_answer(request,
                       SNP_WRITE(snp_sessions_move_answer, .moved = is_moved,
                                 .from = moving->from->name, .to = moving->to->name,
                                 .cell = moving->session->durable.checkpoint_cell, .lost = lost));
}

static int run_lacks(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct moving *moving = arg;

    return snp_missing_check(tx, &moving->lacks, err);
}

/*
 * Over a project a session has only its changes, in a copied project all files: neither can replace
 * the other.
 */
static int project_check(const struct snp_session *session,
                         const struct snp_found_tier *to,
                         struct snp_err *err)
{
    bool is_copy = snp_tier_copies_projects(session->policy.place.tier);

    return session->policy.project == NULL || snp_tier_copies_projects(to) == is_copy
               ? 0
               : snp_fail(err, SNP_E_UNSUPPORTED,
                          "session %s has a project, and tier %s uses %s; apply its changes and "
                          "start a new session in %s",
                          session->name, session->policy.place.tier->name,
                          is_copy ? "a copy" : "the project's own files", to->name);
}

static int session_check(const struct snp_session *session, struct snp_err *err)
{
    const char *rootfs = session->policy.place.rootfs;

    if (session->name[0] == '\0') {
        return snp_fail(err, SNP_E_INVALID, "an unnamed session ends with its call");
    }
    return rootfs == NULL || rootfs[0] != '/'
               ? 0
               : snp_fail(err, SNP_E_UNSUPPORTED,
                          "session %s has its own rootfs (%.200s), which cannot move",
                          session->name, rootfs);
}

static int place_read(struct moving *moving,
                      const struct snp_sessions_move_request *asked,
                      struct snp_err *err)
{
    struct snp_place *place = &moving->place;
    struct snp_tiers *tiers = &moving->session->server->tiers;

    if (strcmp(asked->tier, SNP_TIER_AUTO) == 0) {
        return snp_fail(err, SNP_E_INVALID, "a session moves to a tier, not to %s", SNP_TIER_AUTO);
    }
    SNP_TRY(snp_tiers_find(tiers, asked->tier, &place->tier, err));
    if (place->tier == moving->from) {
        return snp_fail(err, SNP_E_INVALID, "session %s is already in the %s tier",
                        moving->session->name, place->tier->name);
    }
    SNP_TRY(project_check(moving->session, place->tier, err));
    SNP_TRY(
        snp_tier_guarantees(place->tier, asked->rootfs, moving->session->policy.guarantees, err));
    place->rootfs = asked->rootfs == NULL ? NULL : strdup(asked->rootfs);
    SNP_TRY_MEMORY(asked->rootfs == NULL || place->rootfs != NULL, err);
    place->has_network = asked->network;
    place->allow_degraded = asked->allow_degraded;
    moving->to = place->tier;
    moving->trial.place = place;
    moving->departure = (struct snp_departure){.trial = &moving->trial, .may_lose = asked->lossy};
    return 0;
}

/* Hibernate the session after a trial there. */
static int depart(struct moving *moving, struct snp_err *err)
{
    struct snp_session *session = moving->session;
    struct snp_await departed = {0};
    int r = 0;

    if (session->live.executor == NULL) {
        session->unsaved.n_departing++; /* no cell wakes it before the trial */
        snp_missing_place(session, &moving->lacks);
        r = snp_store_await(session->server->store, run_lacks, moving, err);
        if (r == 0 && !snp_session_is_asleep(session)) {
            r = snp_fail(err, SNP_E_NOT_FOUND, "the session was destroyed");
        }
        session->unsaved.n_departing--; /* of the hibernation, from now on */
    }
    if (r == 0) {
        snp_hibernate_for(session, &moving->departure, snp_await_ended, &departed);
    }
    snp_session_go_on(session);
    return r < 0 ? r : snp_await(&departed, NULL, err);
}

/* It can wake there, and is asleep: write that down. */
static int move_record(struct moving *moving, struct snp_err *err)
{
    struct snp_session *session = moving->session;
    int r;

    snp_session_policy_swap(session, &moving->place);
    snp_prove_note(session, moving->trial.checkpoint, moving->trial.failed);
    r = snp_entry_session(session, err);
    if (r == 0) {
        snp_log(SNP_LOG_INFO, "move", "session=%s from=%s to=%s", session->id, moving->from->name,
                moving->to->name);
        return 0;
    }
    /*
     * If a call has woken it there already, its journal entry has recorded the move, or its failure
     * stops the wake.
     */
    if (snp_session_is_asleep(session) && session->live.wake == NULL) {
        snp_session_policy_swap(session, &moving->place);
    }
    return snp_err_wrap(err, "the journal cannot be written");
}

/* Behind a pending hibernation the move would share its outcome, without a trial. */
static bool is_time(const struct snp_session *session)
{
    return session->unsaved.hibernation == NULL && session->unsaved.n_departing == 0 &&
           snp_session_is_at_rest(session);
}

static int turn_await(const struct moving *moving, struct snp_err *err)
{
    struct snp_session *session = moving->session;

    if (!snp_hibernate_must_wait(session) && session->unsaved.n_departing == 0 &&
        session->unsaved.hibernation == NULL) {
        return 0;
    }
    SNP_TRY(snp_turn_await(
        session, &(const struct snp_turn){.kind = SNP_TURN_SOON, .is_time = is_time}, err));
    return session->policy.place.tier != moving->from
               ? snp_fail(err, SNP_E_LIMIT, "another request moved the session first")
               : session_check(session, err);
}

static int run(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(moving_done) struct moving moving = {.session = work->session,
                                                     .from = work->session->policy.place.tier};
    struct snp_sessions_move_request asked;
    int r;

    snp_session_ref(moving.session);
    snp_record_read(work->head, &snp_sessions_move_request_form, &asked);
    SNP_TRY(session_check(moving.session, err));
    SNP_TRY(place_read(&moving, &asked, err));
    r = turn_await(&moving, err);
    SNP_THEN(r, depart(&moving, err));
    if (r < 0 && moving.departure.has_losses) {
        answer(request, &moving, false);
        return 0;
    }
    SNP_THEN(r, move_record(&moving, err));
    if (r < 0) {
        return snp_err_wrap(err, "cannot move session %s to %s", moving.session->name,
                            moving.to->name);
    }
    answer(request, &moving, true);
    return 0;
}

void snp_run_move(const struct snp_work *work)
{
    snp_work_start(work, run);
}
