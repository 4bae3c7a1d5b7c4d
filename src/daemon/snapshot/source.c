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
#include "base/wire/snapshot.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/memory.h"
#include "daemon/save/missing.h"
#include "daemon/server.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "daemon/session/turn.h"
#include "daemon/store_wait.h"
#include "store/journal.h"

struct source_search {
    struct snp_server *server; /* borrowed */
    char ref[SNP_SOURCE_REF_MAX + 1];
    struct snp_source *source; /* the caller's */
    bool is_usable;
    bool is_asleep; /* the session: then nothing may be missing */
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

/* Current state of a session ------------------------------------------------------------------- */

static int run_session(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct source_search *search = arg;
    struct snp_journal_session row;

    SNP_TRY(search->is_asleep ? snp_missing_check(tx, &search->place, err) : 0);
    SNP_TRY(snp_journal_session_get(tx, search->source->session, &row, err));
    (void)snprintf(search->source->head, sizeof(search->source->head), "%s",
                   row.head_snapshot == NULL ? "" : row.head_snapshot);
    return 0;
}

static int session_find(struct source_search *search,
                        struct snp_session *session,
                        struct snp_err *err)
{
    struct snp_source *source = search->source;

    if (session->name[0] == '\0') {
        return snp_fail(err, SNP_E_INVALID,
                        "an unnamed session ends with its call; give the session a name");
    }
    memcpy(source->session, session->id, sizeof(source->session));
    memcpy(source->session_name, session->name, sizeof(source->session_name));
    SNP_TRY(snp_turn_await(session, NULL, err));
    search->is_asleep = session->live.executor == NULL;
    snp_missing_place(session, &search->place);
    if (!search->is_asleep && !snp_checkpoint_is_current(session)) {
        SNP_TRY(snp_checkpoint_await(session, NULL, err));
        session = snp_sessions_find(search->server, source->session);
        if (session == NULL) {
            return snp_fail(err, SNP_E_NOT_FOUND, "the session was destroyed");
        }
    }
    source->checkpoint = session->durable.checkpoint;
    source->cell = session->cells;
    source->is_live = session->live.executor != NULL;
    source->epoch = session->epoch;
    source->spec = snp_session_spec_copy(session);
    source->lost = session->durable.checkpoint_lost == NULL
                       ? json_array()
                       : json_incref(session->durable.checkpoint_lost);
    SNP_TRY_MEMORY(source->spec != NULL && source->lost != NULL, err);
    return snp_store_await(search->server->store, run_session, search, err);
}

/* A snapshot ----------------------------------------------------------------------------------- */

static int run_snapshot(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct source_search *search = arg;
    struct snp_source *source = search->source;
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

static int snapshot_find(struct source_search *search, struct snp_err *err)
{
    struct snp_source *source = search->source;

    for (bool has_waited = false;; has_waited = true) {
        if (snp_store_await(search->server->store, run_snapshot, search, err) < 0) {
            return err->code == SNP_E_NOT_FOUND && strchr(search->ref, '@') == NULL
                       ? snp_sessions_unknown(search->server, "session or snapshot", search->ref,
                                              err)
                       : err->code;
        }
        /* The image with values that variables cannot hold is written after them. */
        if (has_waited || !snp_memory_await(search->server, source->snapshot, !search->is_usable)) {
            break;
        }
    }
    if (!search->is_usable) {
        return snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_DOCTOR, NULL, 0,
                             "snapshot %s is not on disk, or its copy there is damaged",
                             search->ref);
    }
    source->lost = search->lost == NULL ? json_array() : json_loads(search->lost, 0, NULL);
    SNP_TRY_MEMORY(source->lost, err);
    return 0;
}

int snp_source_find(struct snp_server *server,
                    const char *ref,
                    struct snp_source *ret,
                    struct snp_err *err)
{
    struct source_search search = {.server = server, .source = ret};
    struct snp_session *session = NULL;
    int r;

    *ret = (struct snp_source){0};
    (void)snprintf(search.ref, sizeof(search.ref), "%s", ref);
    r = snp_sessions_meant(server, ref, &session, err) == 0 ? session_find(&search, session, err)
                                                            : snapshot_find(&search, err);
    free(search.lost);
    if (r < 0) {
        snp_source_done(ret);
    }
    return r;
}
