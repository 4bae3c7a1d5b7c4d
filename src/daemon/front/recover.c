/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery at start. The store's thread reads the rows; the loop makes sessions of them. */
#include "daemon/front/recover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/archive/import.h"
#include "daemon/save/durable.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/memory.h"
#include "daemon/save/missing.h"
#include "daemon/server.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "store/journal.h"

struct session_row {
    char id[SNP_SESSION_ID_LEN + 1];
    char name[SNP_SESSION_NAME_MAX + 1];
    char *spec; /* owned */
    uint64_t epoch;
    uint64_t cells;
    uint64_t created_us;
    uint64_t used_us;
    struct snp_durable_row durable; /* owned */
    bool is_last_unknown;
    json_t *missing; /* owned; made by the store's thread, then the loop's */
};

struct recovery {
    struct snp_server *server;
    void (*done)(struct snp_server *server);
    struct session_row *rows; /* owned, n of them, room for SNP_CAP_SESSIONS */
    size_t n;
    size_t n_beyond; /* sessions that the table has no room for */
    uint64_t n_unknown;
    uint64_t lost_us;
};

static void rows_drop(struct recovery *recovery)
{
    for (size_t i = 0; i < recovery->n; i++) {
        free(recovery->rows[i].spec);
        snp_durable_row_done(&recovery->rows[i].durable);
        json_decref(recovery->rows[i].missing);
    }
    free(SNP_TAKE_PTR(recovery->rows));
    recovery->n = 0;
}

/* On the store's thread ----------------------------------------------------------------------- */

static int row_note(const struct snp_journal_session *from, void *arg, struct snp_err *err)
{
    struct recovery *recovery = arg;
    struct session_row *row;

    if (recovery->n == SNP_CAP_SESSIONS) {
        recovery->n_beyond++;
        return 0;
    }
    row = &recovery->rows[recovery->n];
    *row = (struct session_row){
        .spec = strdup(from->spec == NULL ? "" : from->spec),
        .epoch = from->epoch,
        .cells = from->cells,
        .created_us = from->created_us,
        .used_us = from->used_us,
    };
    (void)snprintf(row->id, sizeof(row->id), "%s", from->id);
    (void)snprintf(row->name, sizeof(row->name), "%s", from->name == NULL ? "" : from->name);
    SNP_TRY_MEMORY(row->spec, err);
    snp_durable_row_read(from, &row->durable);
    recovery->n++;
    return 0;
}

static int row_lacks(struct snp_tx *tx, struct session_row *row, struct snp_err *err)
{
    struct snp_missing_place place = {
        .after = snp_session_spec_floor(row->spec, row->durable.checkpoint_cell),
        .checkpoint = row->durable.checkpoint,
        .checkpoint_cell = row->durable.checkpoint_cell,
    };
    struct snp_missing missing = {0};
    int r;

    memcpy(place.id, row->id, sizeof(place.id));
    r = snp_missing_find(tx, &place, &missing, err);
    if (r == 0) {
        row->missing = snp_missing_to_json(&missing);
        r = row->missing == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
    }
    snp_missing_done(&missing);
    return r;
}

/* Read the columns that the list of sessions does not have. */
static int row_complete(struct snp_tx *tx, struct session_row *row, struct snp_err *err)
{
    struct snp_journal_cell cell;
    int r = 0;

    if (row->cells > 0) {
        r = snp_journal_cell_get(tx, row->id, row->cells, &cell, err);
        row->is_last_unknown = r == 0 && strcmp(cell.status, "unknown") == 0;
        r = r == SNP_E_NOT_FOUND ? 0 : r;
    }
    return r < 0 ? r : row_lacks(tx, row, err);
}

static int run_recover(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct recovery *recovery = arg;
    int r;

    rows_drop(recovery); /* of an attempt that was rolled back */
    recovery->n_beyond = 0;
    recovery->rows = calloc(SNP_CAP_SESSIONS, sizeof(*recovery->rows));
    SNP_TRY_MEMORY(recovery->rows, err);
    r = snp_journal_cell_recover(tx, &recovery->n_unknown, err);
    SNP_THEN(r, snp_journal_sessions_lost(tx, &recovery->lost_us, err));
    SNP_THEN(r, snp_import_recover(tx, snp_wall_us(), err));
    SNP_THEN(r, snp_memory_recover(tx, snp_wall_us(), err));
    SNP_THEN(r, snp_journal_session_each(tx, row_note, recovery, err));
    for (size_t i = 0; r == 0 && i < recovery->n; i++) {
        r = row_complete(tx, &recovery->rows[i], err);
    }
    return r;
}

/* On the loop ---------------------------------------------------------------------------------- */

static void session_make(struct snp_server *server, const struct session_row *row)
{
    struct snp_session *session = NULL;
    struct snp_err err;
    int r = snp_session_known(server, row->id, row->name, &session, &err);

    SNP_THEN(r, snp_session_spec_read(session, row->spec, &err));
    if (r < 0) {
        snp_log(SNP_LOG_ERROR, "recover", "session=%s error=\"%s\"", row->id, err.msg);
        snp_entry_event(
            server, "unreadable_session", NULL,
            "this version cannot use session %s (%s): %.200s; the session stays in the journal",
            row->name, row->id, err.msg);
        if (session != NULL) {
            snp_session_remove(session);
        }
        return;
    }
    SNP_ASSERT(session != NULL);
    snp_durable_row_adopt(session, &row->durable);
    snp_durable_last_unknown(session, row->is_last_unknown);
    snp_durable_found(session, row->missing);
    session->epoch = row->epoch;
    session->cells = row->cells;
    session->created_wall_us = row->created_us;
    session->used_wall_us = row->used_us;
    (void)snprintf(session->live.loss, sizeof(session->live.loss), "the daemon that ran it ended");
}

static void recovered(void *arg, const struct snp_err *err)
{
    struct recovery *recovery = arg;
    struct snp_server *server = recovery->server;

    server->is_recovering = false;
    if (err->code == SNP_OK) {
        server->is_recovered = true;
        server->sessions_lost_us = recovery->lost_us;
        for (size_t i = 0; i < recovery->n; i++) {
            session_make(server, &recovery->rows[i]);
        }
        if (recovery->n_beyond > 0) {
            snp_log(SNP_LOG_ERROR, "recover", "beyond=%zu", recovery->n_beyond);
        }
        snp_log(SNP_LOG_INFO, "recover", "sessions=%zu unknown_cells=%llu", recovery->n,
                (unsigned long long)recovery->n_unknown);
    } else {
        snp_log(SNP_LOG_ERROR, "recover", "error=\"%s\"", err->msg);
    }
    if (recovery->done != NULL) {
        recovery->done(server);
    }
    rows_drop(recovery);
    free(recovery);
}

void snp_recover(struct snp_server *server, void (*done)(struct snp_server *server))
{
    struct recovery *recovery = server->is_recovering ? NULL : calloc(1, sizeof(*recovery));

    if (recovery == NULL) {
        return;
    }
    recovery->server = server;
    recovery->done = done;
    server->is_recovering = true;
    SNP_STORE_DO(server->store, .run = run_recover, .done = recovered, .arg = recovery);
}
