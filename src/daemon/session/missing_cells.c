/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/missing_cells.h"

uint64_t snp_session_floor_of(uint64_t checkpoint_cell,
                              uint64_t accepted_cell,
                              uint64_t accepted_from)
{
    return checkpoint_cell > accepted_cell || checkpoint_cell < accepted_from ? checkpoint_cell
                                                                              : accepted_cell;
}

uint64_t snp_session_floor(const struct snp_session *session)
{
    return snp_session_floor_of(session->durable.checkpoint_cell, session->durable.accepted_cell,
                                session->durable.accepted_from);
}

/* Until the journal has been read, every cell after the checkpoint may have had an effect. */
bool snp_session_is_lacking(const struct snp_session *session)
{
    return session->durable.missing == NULL
               ? snp_session_floor(session) < session->cells
               : snp_json_int(session->durable.missing, "n_cells", 0) > 0 ||
                     snp_json_int(session->durable.missing, "n_files", 0) > 0 ||
                     json_is_integer(json_object_get(session->durable.missing, "rollback"));
}

json_t *snp_session_missing(const struct snp_session *session)
{
    return session->state == SNP_SESSION_ASLEEP && snp_session_is_lacking(session)
               ? session->durable.missing
               : NULL;
}
