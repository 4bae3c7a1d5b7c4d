/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/show.h"

#include "base/clock.h"
#include "base/wire/session.h"
#include "daemon/server.h"
#include "daemon/session/life.h"
#include "daemon/session/missing_cells.h"
#include "daemon/session/no_image.h"
#include "daemon/tiers.h"

/* Process id of the last client while it is connected; 0 = none. */
static uint64_t client_of(const struct snp_session *session)
{
    for (size_t i = 0; i < SNP_CAP_CLIENTS; i++) {
        const struct snp_peer *peer = session->server->peers[i];

        if (peer != NULL && peer->pid == session->client) {
            return (uint64_t)peer->pid;
        }
    }
    return 0;
}

json_t *snp_session_to_json(const struct snp_session *session, bool with_policy)
{
    uint64_t idle_us = session->state == SNP_SESSION_IDLE ? snp_now_us() - session->used_us : 0;
    snp_autojson json_t *limits = NULL;
    struct snp_sessions_show_answer row = {
        .id = session->id,
        .name = session->name[0] == '\0' ? NULL : session->name,
        .tier = session->policy.place.tier->name,
        .rank = (uint64_t)session->policy.place.tier->rank,
        .template = session->policy.template_name,
        .state = snp_session_state_text(session),
        .cells = session->cells,
        .epoch = session->epoch,
        .created = (double)session->created_wall_us / 1e6,
        .used = (double)session->used_wall_us / 1e6,
        .idle_ms = idle_us / 1000,
        .project = session->policy.project,
        .memory_bytes = session->policy.limits.value[SNP_LIMIT_MEMORY],
        .memory_peak_bytes = session->live.executor == NULL ? 0 : session->live.memory_bytes,
        .disk_bytes = session->durable.disk_bytes,
        .checkpoint_cell = session->durable.checkpoint_cell,
        .no_image = snp_no_image_reason(session->durable.checkpoint_lost),
        .snapshots_bytes = session->live.executor == NULL ? 0 : session->live.copies_bytes,
        .missing = snp_session_missing(session),
        .client = client_of(session),
    };

    if (!with_policy) {
        return snp_record_write(&snp_session_row_form, &row); /* its first members */
    }
    limits = snp_limits_to_json(&session->policy.limits);
    row.limits = limits;
    row.manifest = session->policy.place.manifest;
    return snp_record_write(&snp_sessions_show_answer_form, &row);
}
