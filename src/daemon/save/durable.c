/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/save/durable.h"

#include "daemon/save/checkpoint.h"
#include "daemon/save/journal_entry.h"
#include "daemon/session.h"
#include "store/rows.h"

/* Replaces all facts about the previous checkpoint. */
static void checkpoint_set(struct snp_session *session, const struct snp_durable_row *row)
{
    struct snp_session_durable *durable = &session->durable;

    durable->checkpoint = row->checkpoint;
    durable->checkpoint_cell = row->checkpoint_cell;
    durable->checkpoint_bytes = row->checkpoint_bytes;
    durable->has_image = row->has_image;
    json_decref(durable->checkpoint_lost);
    durable->checkpoint_lost = json_incref(row->lost);
}

void snp_durable_row_done(struct snp_durable_row *row)
{
    json_decref(row->lost);
    *row = (struct snp_durable_row){0};
}

void snp_durable_row_read(const struct snp_journal_session *from, struct snp_durable_row *ret)
{
    snp_durable_row_done(ret);
    *ret = (struct snp_durable_row){
        .disk_bytes = from->disk_bytes,
        .checkpoint = from->checkpoint,
        .checkpoint_cell = from->checkpoint_cell,
        .checkpoint_bytes = from->checkpoint_bytes,
        .has_image = from->has_image,
        .lost = from->lost == NULL ? NULL : json_loads(from->lost, 0, NULL),
    };
}

void snp_durable_row_adopt(struct snp_session *session, const struct snp_durable_row *row)
{
    session->durable.is_recorded = true;
    session->durable.disk_bytes = row->disk_bytes;
    checkpoint_set(session, row);
}

void snp_durable_known(struct snp_session *session,
                       uint64_t checkpoint,
                       uint64_t checkpoint_cell,
                       json_t *lost)
{
    session->durable.is_recorded = true;
    checkpoint_set(session, &(struct snp_durable_row){.checkpoint = checkpoint,
                                                      .checkpoint_cell = checkpoint_cell,
                                                      .lost = lost});
}

void snp_durable_rolled_back(struct snp_session *session, uint64_t checkpoint, json_t *lost)
{
    checkpoint_set(session, &(struct snp_durable_row){.checkpoint = checkpoint,
                                                      .checkpoint_cell = session->cells,
                                                      .lost = lost});
    json_decref(SNP_TAKE_PTR(session->durable.missing));
    session->durable.is_last_unknown = false;
    snp_checkpoint_unneeded(session);
    session->unsaved.unsavable_us = 0;
}

void snp_durable_accept(struct snp_session *session, uint64_t from)
{
    session->durable.accepted_cell = session->cells;
    session->durable.accepted_from = from;
}

void snp_durable_last_unknown(struct snp_session *session, bool is_unknown)
{
    session->durable.is_last_unknown = is_unknown;
}

void snp_durable_found(struct snp_session *session, json_t *missing)
{
    json_decref(session->durable.missing);
    session->durable.missing = json_incref(missing);
}

void snp_durable_clear(struct snp_session *session)
{
    struct snp_session_durable *durable = &session->durable;

    snp_entry_forgive(session);
    json_decref(durable->checkpoint_lost);
    json_decref(durable->unrestorable);
    json_decref(durable->missing);
    *durable = (struct snp_session_durable){.is_recorded = durable->is_recorded,
                                            .is_suspect = durable->is_suspect,
                                            .state_format = durable->state_format};
    snp_checkpoint_unneeded(session);
}
