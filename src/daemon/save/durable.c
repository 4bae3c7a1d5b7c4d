/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/save/durable.h"

#include "daemon/save/checkpoint.h"
#include "daemon/save/journal_entry.h"
#include "daemon/session.h"

static void checkpoint_set(struct snp_session *session,
                           uint64_t checkpoint,
                           uint64_t checkpoint_cell,
                           json_t *lost)
{
    struct snp_session_durable *durable = &session->durable;

    durable->checkpoint = checkpoint;
    durable->checkpoint_cell = checkpoint_cell;
    json_decref(durable->checkpoint_lost);
    durable->checkpoint_lost = json_incref(lost);
}

void snp_durable_known(struct snp_session *session,
                       uint64_t checkpoint,
                       uint64_t checkpoint_cell,
                       json_t *lost)
{
    session->durable.is_recorded = true;
    checkpoint_set(session, checkpoint, checkpoint_cell, lost);
}

void snp_durable_rolled_back(struct snp_session *session, uint64_t checkpoint, json_t *lost)
{
    checkpoint_set(session, checkpoint, session->cells, lost);
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

void snp_durable_found(struct snp_session *session, uint64_t disk_bytes, json_t *missing)
{
    session->durable.disk_bytes = disk_bytes;
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
