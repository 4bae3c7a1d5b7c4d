/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/save/close.h"

#include "base/log.h"
#include "daemon/co.h"
#include "daemon/save/at_rest.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/memory.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"

/* It was neither lost nor destroyed in between. */
static bool is_leaving(const struct snp_session *session)
{
    return session->live.executor != NULL && session->state == SNP_SESSION_HIBERNATING;
}

int snp_leave(struct snp_session *session, struct snp_err *err)
{
    struct snp_await closed = {0};
    int r = 0;

    snp_session_event(session, SNP_EV_LEAVE);
    snp_checkpoint_unplan(session);
    snp_log(SNP_LOG_INFO, "hibernate", "session=%s cell=%llu", session->id,
            (unsigned long long)session->durable.checkpoint_cell);
    /* Write snapshots in memory to disk first, as promised. */
    while (is_leaving(session) && snp_memory_await_any(session)) {
    }
    if (is_leaving(session)) {
        snp_executor_close(session->live.executor, snp_await_ended, &closed);
        r = snp_await(&closed, NULL, err);
    }
    if (r < 0) {
        snp_log(SNP_LOG_ERROR, "hibernate", "session=%s error=\"%s\"", session->id, err->msg);
    }
    if (session->state == SNP_SESSION_HIBERNATING) {
        snp_session_rest(session);
    }
    return r;
}

static void drop(void *arg)
{
    struct snp_session *session = arg;
    struct snp_err err;
    int r;

    snp_session_ref(session);
    r = snp_leave(session, &err);
    if (session->server->is_ending) {
        snp_lost_tell_end(session, r < 0 ? &err : NULL);
    }
    snp_session_go_on(session);
    session->server->hooks->room(session->server);
    snp_session_unref(session);
}

void snp_leave_drop(struct snp_session *session)
{
    struct snp_err err;

    if (snp_co_start(drop, session, &err) < 0) {
        snp_executor_close(session->live.executor, NULL, NULL);
    }
}
