/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a reference to a checkpoint.
 *
 *   session: its turn -> a checkpoint, if it changed since the last one -> its row
 *   snapshot: its row -> the end of writing it, if that is pending
 */
#include "daemon/snapshot/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/memory.h"
#include "daemon/save/missing.h"
#include "daemon/server.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "daemon/session/turn.h"
#include "store/journal.h"
#include "wire/snapshot.h"

struct source_search {
    struct snp_server *server; /* borrowed */
    struct snp_turn turn;
    struct snp_spill_waiter waiter;
    snp_source_found *found;
    void *ctx;
    char ref[SNP_SOURCE_REF_MAX + 1];
    struct snp_source source; /* owned */
    bool is_usable;
    bool has_waited; /* for the snapshot to be on disk */
    bool is_asleep;  /* the session: then nothing may be missing */
    struct snp_missing_place place;
    char *lost; /* owned: JSON; written by the store's thread */
};

void snp_source_done(struct snp_source *source)
{
    free(source->spec);
    json_decref(source->lost);
    *source = (struct snp_source){0};
}

static bool is_named_in(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (snp_streq(snp_json_str(json_array_get(list, i), "name", NULL), name)) {
            return true;
        }
    }
    return false;
}

json_t *snp_source_failed(struct snp_session *session, const json_t *lost)
{
    snp_autojson json_t *restored = SNP_TAKE_PTR(session->live.restored);
    const json_t *all = json_object_get(restored, "failed");
    json_t *failed = json_array();

    for (size_t i = 0; failed != NULL && i < json_array_size(all); i++) {
        json_t *row = json_array_get(all, i);

        if (!is_named_in(lost, snp_json_str(row, "name", NULL)) &&
            json_array_append(failed, row) < 0) {
            json_decref(failed);
            return NULL;
        }
    }
    return failed;
}

static void search_end(struct source_search *search, const struct snp_err *err)
{
    search->found(search->ctx, err == NULL ? &search->source : NULL, err);
    snp_source_done(&search->source);
    free(search->lost);
    free(search);
}

/* Current state of a session ------------------------------------------------------------------- */

static int run_session(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct source_search *search = arg;
    struct snp_journal_session row;

    SNP_TRY(search->is_asleep ? snp_missing_check(tx, &search->place, err) : 0);
    SNP_TRY(snp_journal_session_get(tx, search->source.session, &row, err));
    (void)snprintf(search->source.head, sizeof(search->source.head), "%s",
                   row.head_snapshot == NULL ? "" : row.head_snapshot);
    return 0;
}

static void session_read(void *arg, const struct snp_err *err)
{
    search_end(arg, err->code == SNP_OK ? NULL : err);
}

/* The session is saved: the rest is in its row. */
static void session_saved(struct source_search *search, struct snp_session *session)
{
    struct snp_source *source = &search->source;
    struct snp_err err;

    source->checkpoint = session->durable.checkpoint;
    source->cell = session->cells;
    source->is_live = session->live.executor != NULL;
    source->epoch = session->epoch;
    source->spec = snp_session_spec_copy(session);
    source->lost = session->durable.checkpoint_lost == NULL
                       ? json_array()
                       : json_incref(session->durable.checkpoint_lost);
    if (source->spec == NULL || source->lost == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        search_end(search, &err);
    } else {
        SNP_STORE_DO(search->server->store, .run = run_session, .done = session_read,
                     .arg = search);
    }
}

static void checkpoint_made(void *ctx, const json_t *report, const struct snp_err *err)
{
    struct source_search *search = ctx;
    struct snp_session *session = snp_sessions_find(search->server, search->source.session);
    struct snp_err why;

    (void)report;
    if (err == NULL && session == NULL) {
        (void)snp_fail(&why, SNP_E_NOT_FOUND, "the session was destroyed");
        err = &why;
    }
    if (err != NULL) {
        search_end(search, err);
    } else {
        session_saved(search, session);
    }
}

static void session_turn(struct snp_turn *turn,
                         struct snp_session *session,
                         const struct snp_err *err)
{
    struct source_search *search = snp_container_of(turn, struct source_search, turn);

    if (err != NULL) {
        search_end(search, err);
        return;
    }
    search->is_asleep = session->live.executor == NULL;
    snp_missing_place(session, &search->place);
    if (search->is_asleep || snp_checkpoint_is_current(session)) {
        session_saved(search, session);
        return;
    }
    snp_checkpoint_make(session, checkpoint_made, search);
}

static void session_find(struct source_search *search, struct snp_session *session)
{
    struct snp_err err;

    if (session->name[0] == '\0') {
        (void)snp_fail(&err, SNP_E_INVALID,
                       "an unnamed session ends with its call; give the session a name");
        search_end(search, &err);
        return;
    }
    memcpy(search->source.session, session->id, sizeof(search->source.session));
    memcpy(search->source.session_name, session->name, sizeof(search->source.session_name));
    search->turn.run = session_turn;
    snp_turn_ask(session, &search->turn);
}

/* A snapshot ----------------------------------------------------------------------------------- */

static void snapshot_find(struct source_search *search);

static int run_snapshot(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct source_search *search = arg;
    struct snp_source *source = &search->source;
    struct snp_journal_snapshot row;
    struct snp_journal_session session;

    SNP_TRY(snp_journal_snapshot_get(tx, search->ref, &row, err));
    (void)snprintf(source->snapshot, sizeof(source->snapshot), "%s", row.id);
    (void)snprintf(source->head, sizeof(source->head), "%s",
                   row.name == NULL || !snp_has_prefix(row.name, SNP_STEP_PREFIX) ? row.id
                   : row.parent == NULL                                           ? ""
                                                                                  : row.parent);
    (void)snprintf(source->session, sizeof(source->session), "%s", row.session);
    (void)snprintf(source->session_name, sizeof(source->session_name), "%s",
                   row.session_name == NULL ? "" : row.session_name);
    source->checkpoint = row.checkpoint;
    source->cell = row.cell;
    source->epoch = row.epoch;
    search->is_usable = row.checkpoint != 0 && row.is_usable;
    free(search->lost);
    search->lost = row.lost == NULL ? NULL : strdup(row.lost);
    SNP_TRY(snp_journal_session_get(tx, source->session, &session, err));
    free(source->spec);
    source->spec = snp_session_spec_strip(session.spec);
    return source->spec == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static void spilled(struct snp_spill_waiter *waiter)
{
    struct source_search *search = snp_container_of(waiter, struct source_search, waiter);

    search->has_waited = true;
    snapshot_find(search);
}

static void snapshot_read(void *arg, const struct snp_err *read_err)
{
    struct source_search *search = arg;
    struct snp_err err = *read_err;

    if (err.code == SNP_E_NOT_FOUND && strchr(search->ref, '@') == NULL) {
        (void)snp_sessions_unknown(search->server, "session or snapshot", search->ref, &err);
    }
    /* The image with values that variables cannot hold is written after them. */
    if (err.code == SNP_OK && !search->has_waited) {
        search->waiter.run = spilled;
        if (snp_memory_wait(search->server, search->source.snapshot, !search->is_usable,
                            &search->waiter)) {
            return;
        }
    }
    if (err.code == SNP_OK && !search->is_usable) {
        (void)snp_fail_with(&err, SNP_E_DENIED, SNP_REMEDY_DOCTOR, NULL, 0,
                            "snapshot %s is not on disk, or its copy there is damaged",
                            search->ref);
    }
    if (err.code == SNP_OK) {
        search->source.lost =
            search->lost == NULL ? json_array() : json_loads(search->lost, 0, NULL);
        if (search->source.lost == NULL) {
            (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        }
    }
    search_end(search, err.code == SNP_OK ? NULL : &err);
}

static void snapshot_find(struct source_search *search)
{
    SNP_STORE_DO(search->server->store, .run = run_snapshot, .done = snapshot_read, .arg = search);
}

void snp_source_find(struct snp_server *server, const char *ref, snp_source_found *found, void *ctx)
{
    struct source_search *search = calloc(1, sizeof(*search));
    struct snp_session *session = NULL;
    struct snp_err err = {.code = SNP_OK};

    if (search == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        found(ctx, NULL, &err);
        return;
    }
    search->server = server;
    search->found = found;
    search->ctx = ctx;
    (void)snprintf(search->ref, sizeof(search->ref), "%s", ref);
    if (snp_sessions_meant(server, ref, &session, &err) == 0) {
        session_find(search, session);
    } else {
        snapshot_find(search);
    }
}
