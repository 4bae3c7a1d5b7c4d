/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/hooks.h"

#include "daemon/cell/end.h"
#include "daemon/cell/wake.h"
#include "daemon/front/dispatch.h"
#include "daemon/front/end.h"
#include "daemon/front/recover.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/memory.h"
#include "daemon/save/room.h"
#include "daemon/save/unsaved.h"
#include "daemon/session/executor.h"
#include "daemon/session/table.h"
#include "daemon/snapshot/project.h"

static void saved(struct snp_session *session, bool is_made)
{
    if (is_made) {
        snp_memory_measure(session);
    }
    snp_room_serve(session->server);
    snp_server_saved(session->server);
}

static json_t *unsaved(const struct snp_server *server, const char *id)
{
    const struct snp_session *session = snp_sessions_find(server, id);

    return session == NULL ? NULL : snp_unsaved_row(session);
}

static void forget(struct snp_session *session)
{
    snp_entry_forgive(session);
    snp_memory_forget(session);
}

static void recover(struct snp_server *server)
{
    snp_recover(server, NULL);
}

static void sandbox_gone(const struct snp_tier *tier,
                         struct snp_server *server,
                         const char *id,
                         const char *reason)
{
    struct snp_executor *executor = snp_executor_find(server, id);

    if (executor != NULL && executor->tier == tier) {
        snp_executor_gone(executor, reason);
    }
}

static void process_ended(const struct snp_tier *tier,
                          struct snp_server *server,
                          const char *id,
                          uint64_t process,
                          const char *how)
{
    const struct snp_executor *executor = snp_executor_find(server, id);

    if (executor != NULL && executor->tier == tier && executor->session != NULL) {
        snp_entry_process(executor->session, process, how);
    }
}

static void tier_lost(const struct snp_tier *tier, struct snp_server *server, const char *reason)
{
    snp_executor_tier_lost(server, tier, reason);
}

const struct snp_hooks snp_daemon_hooks = {
    .end = snp_session_end,
    .wake = snp_wake_start,
    .wake_step = snp_wake_go_on,
    .begun = snp_snapshot_project,
    .lost = snp_session_lost,
    .executor_gone = snp_memory_check,
    .saved = saved,
    .again = snp_dispatch,
    .unsaved = unsaved,
    .forget = forget,
    .room = snp_room_serve,
    .recover = recover,
    .sandbox_gone = sandbox_gone,
    .process_ended = process_ended,
    .tier_lost = tier_lost,
    .tier_gone = snp_server_tier_gone,
};
