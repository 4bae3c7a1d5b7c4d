/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions without an executor.
 *
 * Nobody's variables are dropped for the sake of order: what a checkpoint cannot hold keeps its
 * session alive, unless it was asked for by name or the daemon ends.
 */
#include "daemon/session/hibernate.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/entry.h"
#include "daemon/save/memory.h"
#include "daemon/save/missing.h"
#include "daemon/save/prove.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/executor.h"
#include "daemon/session/session.h"
#include "daemon/session/wake.h"
#include "store/journal.h"
#include "wire/session.h"

struct hibernation {
    struct snp_session *session; /* one reference */
    bool is_gentle;
    snp_hibernate_done *done;
    void *ctx;
    struct snp_spill_waiter spill;
};

/*
 * How many of what could not be saved keep a session awake; *ret_first: the first of them, borrowed. Folders for
 * temporary files do not: they are told when it comes back.
 */
static size_t count_unsaved(const json_t *lost, const json_t **ret_first)
{
    size_t n = 0;
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)(uintptr_t)lost, i, one)
    {
        if (snp_json_str(one, "name", "")[0] != '/') { /* no variable has such a name */
            *ret_first = n++ == 0 ? one : *ret_first;
        }
    }
    return n;
}

json_t *snp_hibernate_lost(const struct snp_session *session)
{
    json_t *list = session->durable.checkpoint_lost == NULL
                       ? json_array()
                       : json_deep_copy(session->durable.checkpoint_lost);
    size_t i;
    json_t *one;

    json_array_foreach(session->durable.unrestorable, i, one)
    {
        snp_autojson json_t *name = json_string(snp_json_str(one, "name", ""));
        snp_autojson json_t *reason = json_string(snp_json_str(one, "reason", ""));
        snp_autojson json_t *type = json_string(snp_json_str(one, "type", "variable"));

        (void)json_array_append_new(
            list, SNP_WRITE(snp_lost_row, .name = name, .type = type, .reason = reason));
    }
    return list;
}

void snp_hibernate_tell_end(const struct snp_session *session, const struct snp_err *err)
{
    struct snp_server *server = session->server;
    json_t *lost = snp_hibernate_lost(session);
    const json_t *first = NULL;
    size_t n = count_unsaved(lost, &first);

    if (err != NULL || n > 0) {
        (void)json_array_append_new(
            server->end_lost, SNP_WRITE(snp_shutdown_row, .session = session->name,
                                        .reason = err == NULL ? "" : err->msg, .lost = lost));
        snp_entry_event(server, "end_lost", session,
                        "session %s: %zu items cannot be restored%s%.64s%s%.200s",
                        session->name, n, n == 0 ? "" : ", first ",
                        snp_json_str(first, "name", ""), err == NULL ? "" : "; ",
                        err == NULL ? "" : err->msg);
    }
    json_decref(lost);
}

/* The daemon ends, but not yet. */
static bool is_tried_again(const struct snp_session *session)
{
    return !session->server->has_ended_tiers &&
           (session->unsaved.is_dirty || session->unsaved.n_putting > 0) &&
           (session->unsaved.end_tries < SNP_CAP_END_TRIES ||
            session->unsaved.end_changes != session->unsaved.changes);
}

static void end(struct hibernation *h, const struct snp_err *err)
{
    struct snp_session *session = h->session;

    if (session->server->is_ending && (err == NULL || !is_tried_again(session))) {
        snp_hibernate_tell_end(session, err);
    }
    if (h->done != NULL) {
        h->done(h->ctx, err);
    }
    free(h);
    snp_exec_pump(session);
    snp_hibernate_serve(session->server);
    snp_session_unref(session);
}

/* Closing ----------------------------------------------------------------------------------- */

static void closed(void *ctx, const struct snp_err *err)
{
    struct hibernation *h = ctx;
    struct snp_session *session = h->session;

    if (err != NULL) {
        snp_log(SNP_LOG_ERROR, "hibernate", "session=%s error=\"%s\"", session->id, err->msg);
    }
    if (session->state == SNP_SESSION_HIBERNATING) {
        snp_hibernate_rest(session);
    }
    end(h, err);
}

/* Snapshots in its memory were promised to come to disk: they go first. */
static void memory_leave(struct hibernation *h)
{
    struct snp_session *session = h->session;

    if (session->live.executor == NULL || session->state != SNP_SESSION_HIBERNATING) {
        closed(h, NULL); /* it was lost or destroyed meanwhile */
    } else if (!snp_memory_wait_any(session, &h->spill)) {
        snp_executor_close(session->live.executor, closed, h);
    }
}

static void spilled(struct snp_spill_waiter *waiter)
{
    memory_leave(snp_container_of(waiter, struct hibernation, spill));
}

static void close_start(struct hibernation *h)
{
    struct snp_session *session = h->session;
    uint64_t used_us = session->used_us;

    snp_session_set_state(session, SNP_SESSION_HIBERNATING);
    session->used_us = used_us;
    session->unsaved.due_us = 0;
    snp_log(SNP_LOG_INFO, "hibernate", "session=%s cell=%llu", session->id,
            (unsigned long long)session->durable.checkpoint_cell);
    h->spill.run = spilled;
    memory_leave(h);
}

/* Proving ------------------------------------------------------------------------------------- */

static bool needs_saving(const struct snp_session *session)
{
    return (session->unsaved.is_dirty || snp_checkpoint_is_moving(session)) &&
           session->durable.is_recorded;
}

/* Not now; but what runs in it may have ended when it would be idle for as long again. */
static void put_off(struct snp_session *session)
{
    session->unsaved.unsavable_us =
        snp_now_us() + session->server->options.session_idle_ms * 1000;
}

static int check_used(const struct snp_session *session, struct snp_err *err)
{
    return session->state == SNP_SESSION_IDLE && !session->unsaved.is_dirty &&
                   session->unsaved.n_putting == 0 && snp_prove_is_done(session)
               ? 0
               : snp_fail(err, SNP_E_LIMIT, "the session was used meanwhile");
}

/* Nobody asked for this one to sleep: then it loses nothing by it. */
static int check_lost(const struct hibernation *h, const json_t *lost, struct snp_err *err)
{
    const json_t *first = NULL;
    size_t n = h->is_gentle ? count_unsaved(lost, &first) : 0;

    return n == 0 ? 0
                  : snp_fail(err, SNP_E_LIMIT, "%zu %s cannot be saved (%.64s: %.100s)", n,
                             n == 1 ? "item" : "items", snp_json_str(first, "name", "?"),
                             snp_json_str(first, "reason", "?"));
}

/* What does not fit when it comes back is better off where it is. */
static int check_room(const struct snp_session *session, struct snp_err *err)
{
    size_t i;
    json_t *one;

    json_array_foreach(session->durable.unrestorable, i, one)
    {
        const char *reason = snp_json_str(one, "reason", "");

        if (strcmp(reason, "not enough memory") == 0 ||
            strcmp(reason, "it took too long") == 0) {
            return snp_fail(err, SNP_E_LIMIT,
                            "%.64s could not be restored when tried: %s; the session stays "
                            "awake. Write it to a file in smaller parts, or delete it",
                            snp_json_str(one, "name", "?"), reason);
        }
    }
    return 0;
}

static void stay(struct hibernation *h, const struct snp_err *err)
{
    put_off(h->session);
    end(h, err);
}

static void proven(void *ctx, const struct snp_err *err)
{
    struct hibernation *h = ctx;
    struct snp_session *session = h->session;
    struct snp_err why;

    if (err != NULL) {
        (void)snp_fail(&why, SNP_E_LIMIT, "%s (%.300s)%s",
                       session->server->has_ended_tiers
                           ? "it is saved, but there was no time to try restoring it"
                           : "it could not be restored when tried",
                       err->msg, session->server->is_ending ? "" : "; the session stays awake");
        stay(h, &why);
    } else if (check_used(session, &why) < 0 ||
               check_lost(h, session->durable.unrestorable, &why) < 0 ||
               (!session->server->is_ending && check_room(session, &why) < 0)) {
        stay(h, &why);
    } else {
        close_start(h);
    }
}

/*
 * Nothing is given up before its checkpoint was seen to come back. Of what is so small that it fits
 * however it is unpacked nobody waits for that when the daemon ends.
 */
static void prove(struct hibernation *h)
{
    struct snp_session *session = h->session;
    bool is_small = session->durable.checkpoint_bytes <
                    session->policy.limits.value[SNP_LIMIT_MEMORY] / SNP_CAP_UNPACKED;
    struct snp_err err;

    if (session->durable.checkpoint == 0 || session->live.executor == NULL ||
        (session->server->is_ending &&
         (is_small || session->server->n_proving >= SNP_CAP_PROVING))) {
        close_start(h);
    } else if (snp_prove_is_done(session)) {
        proven(h, NULL);
    } else if (session->unsaved.proof != NULL) {
        (void)snp_fail(&err, SNP_E_LIMIT, "the session is already being put to sleep");
        end(h, &err);
    } else {
        snp_prove(session, proven, h);
    }
}

/* Saving -------------------------------------------------------------------------------------- */

static void saved(void *ctx, const json_t *report, const struct snp_err *err)
{
    struct hibernation *h = ctx;
    struct snp_session *session = h->session;
    struct snp_err why;

    if (session->server->has_ended_tiers) {
        (void)snp_fail(&why, SNP_E_TIMEOUT, "it was not saved in the %d s that the daemon had",
                       SNP_CAP_END_SAVE_MS / 1000);
        err = &why;
    } else if (err == NULL &&
               (session->state != SNP_SESSION_IDLE || session->unsaved.n_putting > 0)) {
        (void)snp_fail(&why, SNP_E_LIMIT, "the session was used meanwhile");
        err = &why;
    } else if (err == NULL && check_lost(h, json_object_get(report, "lost"), &why) < 0) {
        err = &why;
    }
    if (err != NULL) {
        stay(h, err);
        return;
    }
    prove(h);
}

void snp_hibernate(struct snp_session *session,
                   bool is_gentle,
                   snp_hibernate_done *done,
                   void *ctx)
{
    struct hibernation *h = calloc(1, sizeof(*h));
    struct snp_err err;

    if (h == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        if (done != NULL) {
            done(ctx, &err);
        }
        return;
    }
    snp_session_ref(session);
    *h = (struct hibernation){
        .session = session, .is_gentle = is_gentle, .done = done, .ctx = ctx};
    if (needs_saving(session)) {
        snp_checkpoint_make(session, saved, h);
    } else if (check_lost(h, session->durable.checkpoint_lost, &err) < 0) {
        stay(h, &err);
    } else {
        prove(h);
    }
}

void snp_hibernate_drop(struct snp_session *session)
{
    struct hibernation *h = calloc(1, sizeof(*h));

    if (h == NULL) {
        snp_executor_close(session->live.executor, NULL, NULL);
        return;
    }
    snp_session_ref(session);
    h->session = session;
    close_start(h);
}

/* What the journal has ------------------------------------------------------------------------- */

struct look {
    struct snp_session *session; /* one reference */
    struct snp_missing_place place;
    uint64_t accepted_cell;
    uint64_t accepted_from;
    uint64_t disk_bytes;
    bool wants_missing;
    struct snp_missing missing; /* owned */
};

static int run_look(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct look *look = arg;
    struct snp_journal_session row;
    int r = snp_journal_session_get(tx, look->place.id, &row, err);

    if (r < 0) {
        return r;
    }
    look->place.checkpoint = row.checkpoint;
    look->place.checkpoint_cell = row.checkpoint_cell;
    look->place.after =
        snp_session_floor_of(row.checkpoint_cell, look->accepted_cell, look->accepted_from);
    look->disk_bytes = row.disk_bytes;
    return look->wants_missing ? snp_missing_find(tx, &look->place, &look->missing, err) : 0;
}

/* Change the state of one that sleeps, which is no use of it. */
static void rest(struct snp_session *session)
{
    uint64_t used_us = session->used_us;

    snp_session_set_state(session, snp_session_resting_state(session));
    session->used_us = used_us;
}

static void look_free(struct look *look)
{
    snp_missing_done(&look->missing);
    snp_session_unref(look->session);
    free(look);
}

static void looked(void *arg, const struct snp_err *err)
{
    struct look *look = arg;
    struct snp_session *session = look->session;
    bool is_due = false;

    if (err->code == SNP_OK) {
        session->durable.disk_bytes = look->disk_bytes;
        session->durable.checkpoint = look->place.checkpoint;
        session->durable.checkpoint_cell = look->place.checkpoint_cell;
        if (snp_session_is_asleep(session) && session->live.running == NULL) {
            is_due = !look->wants_missing; /* it lost its executor meanwhile */
            json_decref(SNP_TAKE_PTR(session->durable.missing));
            session->durable.missing = is_due ? NULL : snp_missing_to_json(&look->missing);
            rest(session);
        }
    }
    if (is_due) {
        snp_hibernate_rest(session);
    }
    look_free(look);
}

void snp_hibernate_look(struct snp_session *session)
{
    struct look *look = calloc(1, sizeof(*look));
    const struct snp_store_job job = {.run = run_look, .done = looked, .arg = look};
    struct snp_err err;

    if (look == NULL) {
        return;
    }
    snp_missing_place(session, &look->place);
    look->accepted_cell = session->durable.accepted_cell;
    look->accepted_from = session->durable.accepted_from;
    look->wants_missing = session->live.executor == NULL;
    snp_session_ref(session);
    look->session = session;
    if (snp_store_submit(session->server->store, &job, &err) < 0) {
        snp_log(SNP_LOG_WARN, "journal", "session=%s error=\"%s\"", session->id, err.msg);
        look_free(look);
    }
}

void snp_hibernate_rest(struct snp_session *session)
{
    json_decref(SNP_TAKE_PTR(session->durable.missing));
    rest(session);
    if (session->durable.is_recorded &&
        session->server->store != NULL && /* its end closes it */
        (session->state != SNP_SESSION_HIBERNATED || session->durable.has_puts)) {
        (void)snp_entry_pay(session, NULL, NULL); /* what is owed is there then */
        snp_hibernate_look(session);
    }
}

/* Bounds ---------------------------------------------------------------------------------------- */

static bool is_candidate(const struct snp_session *session)
{
    return session->state == SNP_SESSION_IDLE && session->name[0] != '\0' &&
           session->live.wake == NULL && session->unsaved.save == NULL &&
           session->unsaved.proof == NULL && session->unsaved.unsavable_us <= snp_now_us() &&
           session->live.n_waiting == 0 && session->durable.is_recorded;
}

static struct snp_session *least_recently_used(const struct snp_sessions *table)
{
    struct snp_session *found = NULL;

    for (size_t i = 0; i < table->n_slots; i++) {
        struct snp_session *session = table->slots[i];

        if (session != NULL && is_candidate(session) &&
            (found == NULL || session->used_us < found->used_us)) {
            found = session;
        }
    }
    return found;
}

/* As measured since its last cell, else the most that this cell took. */
static uint64_t bytes_of(const struct snp_session *session)
{
    return session->live.measured_bytes != 0 ? session->live.measured_bytes
                                             : session->live.memory_bytes;
}

/* Sessions with an executor, and what these take. */
struct living {
    uint64_t n;
    uint64_t bytes;     /* of those that stay */
    uint64_t n_leaving; /* of them */
    uint64_t n_busy;    /* of them: they will be idle, or gone */
};

static struct living live_count(const struct snp_sessions *table)
{
    struct living living = {0};

    for (size_t i = 0; i < table->n_slots; i++) {
        const struct snp_session *session = table->slots[i];

        if (session == NULL || session->live.executor == NULL || session->name[0] == '\0') {
            continue;
        }
        living.n++;
        if (session->live.is_leaving || session->state == SNP_SESSION_HIBERNATING ||
            session->state == SNP_SESSION_CLOSING) {
            living.n_leaving++;
        } else {
            living.bytes += bytes_of(session);
            living.n_busy += session->state == SNP_SESSION_IDLE ? 0 : 1;
        }
    }
    return living;
}

static void left(void *ctx, const struct snp_err *err)
{
    struct snp_session *session = ctx;

    session->live.is_leaving = false;
    if (err != NULL) {
        snp_log(SNP_LOG_INFO, "hibernate-not", "session=%s why=\"%s\"", session->id, err->msg);
    }
    snp_session_unref(session);
}

static void leave(struct snp_session *session)
{
    session->live.is_leaving = true;
    snp_session_ref(session);
    snp_hibernate(session, true, left, session);
}

int snp_hibernate_room(struct snp_server *server, struct snp_err *err)
{
    struct living living = live_count(&server->sessions);
    struct snp_session *session;

    if (living.n < server->options.live_max) {
        return 0;
    }
    session = living.n - living.n_leaving < server->options.live_max
                  ? NULL
                  : least_recently_used(&server->sessions);
    if (session != NULL) {
        leave(session);
        return 1;
    }
    if (living.n_leaving > 0 || living.n_busy > 0) {
        return 1;
    }
    (void)snp_fail_with(err, SNP_E_LIMIT, SNP_REMEDY_END_SESSION, NULL, 0,
                        "%llu sessions are awake, as many as may be, and none of them can "
                        "hibernate, for each holds what cannot be saved",
                        (unsigned long long)living.n);
    snp_err_limit(err, "live_sessions", (int64_t)server->options.live_max);
    return err->code;
}

void snp_hibernate_serve(struct snp_server *server)
{
    struct snp_sessions *table = &server->sessions;

    for (size_t i = 0; server->n_wanting > 0 && i < table->n_slots; i++) {
        if (table->slots[i] != NULL && table->slots[i]->live.wake != NULL) {
            snp_wake_go_on(table->slots[i]);
        }
    }
}

void snp_hibernate_tick(struct snp_server *server)
{
    const struct snp_server_options *options = &server->options;
    struct snp_sessions *table = &server->sessions;
    uint64_t now = snp_now_us();
    struct living living;

    for (size_t i = 0; i < table->n_slots; i++) {
        struct snp_session *session = table->slots[i];

        if (session != NULL && is_candidate(session) &&
            now - session->used_us > options->session_idle_ms * 1000) {
            leave(session);
        } else if (session != NULL && session->state == SNP_SESSION_IDLE &&
                   (session->live.measured_bytes == 0 || session->live.copies != NULL)) {
            snp_memory_measure(session);
        }
    }
    living = live_count(table);
    while (living.bytes > options->live_bytes && living.n > 1) {
        struct snp_session *session = least_recently_used(table);

        if (session == NULL) {
            return;
        }
        living.n--;
        living.bytes -= bytes_of(session);
        leave(session);
    }
}
