/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/save/at_rest.h"

#include <stdlib.h>

#include "base/log.h"
#include "daemon/save/durable.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/missing.h"
#include "daemon/server.h"
#include "daemon/session/life.h"
#include "daemon/session/missing_cells.h"
#include "daemon/session/table.h"
#include "store/journal.h"

struct look {
    struct snp_session *session; /* one reference */
    struct snp_missing_place place;
    uint64_t accepted_cell;
    uint64_t accepted_from;
    struct snp_durable_row row; /* owned */
    bool wants_missing;
    struct snp_missing missing; /* owned */
};

static int run_look(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct look *look = arg;
    struct snp_journal_session row;

    SNP_TRY(snp_journal_session_get(tx, look->place.id, &row, err));
    look->place.checkpoint = row.checkpoint;
    look->place.checkpoint_cell = row.checkpoint_cell;
    look->place.after =
        snp_session_floor_of(row.checkpoint_cell, look->accepted_cell, look->accepted_from);
    snp_durable_row_read(&row, &look->row);
    return look->wants_missing ? snp_missing_find(tx, &look->place, &look->missing, err) : 0;
}

static void looked(void *arg, const struct snp_err *err)
{
    struct look *look = arg;
    struct snp_session *session = look->session;
    bool is_due = false;

    if (err->code == SNP_OK) {
        snp_durable_row_adopt(session, &look->row);
        if (snp_session_is_asleep(session) && session->live.running == NULL) {
            is_due = !look->wants_missing; /* it lost its executor in between */
            json_decref(SNP_TAKE_PTR(session->durable.missing));
            session->durable.missing = is_due ? NULL : snp_missing_to_json(&look->missing);
        }
    } else {
        snp_log(SNP_LOG_WARN, "journal", "session=%s error=\"%s\"", session->id, err->msg);
    }
    if (is_due) {
        snp_session_rest(session);
    }
    snp_missing_done(&look->missing);
    snp_durable_row_done(&look->row);
    snp_session_unref(session);
    free(look);
}

void snp_rest_look(struct snp_session *session)
{
    struct look *look = calloc(1, sizeof(*look));

    if (look == NULL) {
        return;
    }
    snp_missing_place(session, &look->place);
    look->accepted_cell = session->durable.accepted_cell;
    look->accepted_from = session->durable.accepted_from;
    look->wants_missing = session->live.executor == NULL;
    snp_session_ref(session);
    look->session = session;
    SNP_STORE_DO(session->server->store, .run = run_look, .done = looked, .arg = look);
}

void snp_session_rest(struct snp_session *session)
{
    snp_session_event(session, SNP_EV_RESTED);
    if (session->durable.is_recorded && session->server->store != NULL && /* its end closes it */
        (session->durable.missing != NULL || snp_session_is_lacking(session) ||
         session->durable.has_puts)) {
        (void)snp_entry_pay(session, NULL, NULL); /* owed cells are then in the journal */
        snp_rest_look(session);
    }
}
