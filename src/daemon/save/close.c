/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/save/close.h"

#include <stdlib.h>

#include "base/log.h"
#include "daemon/save/at_rest.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/memory.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"

struct leaving {
    struct snp_session *session; /* one reference */
    snp_leave_done *done;        /* NULL: it is dropped */
    void *ctx;
    struct snp_spill_waiter spill;
};

static void closed(void *ctx, const struct snp_err *err)
{
    struct leaving *leaving = ctx;
    struct snp_session *session = leaving->session;

    if (err != NULL) {
        snp_log(SNP_LOG_ERROR, "hibernate", "session=%s error=\"%s\"", session->id, err->msg);
    }
    if (session->state == SNP_SESSION_HIBERNATING) {
        snp_session_rest(session);
    }
    if (leaving->done != NULL) {
        leaving->done(leaving->ctx, err);
    } else {
        if (session->server->is_ending) {
            snp_lost_tell_end(session, err);
        }
        snp_session_go_on(session);
        session->server->hooks->room(session->server);
    }
    free(leaving);
    snp_session_unref(session);
}

/* Write snapshots in memory to disk first, as promised. */
static void memory_leave(struct leaving *leaving)
{
    struct snp_session *session = leaving->session;

    if (session->live.executor == NULL || session->state != SNP_SESSION_HIBERNATING) {
        closed(leaving, NULL); /* it was lost or destroyed in between */
    } else if (!snp_memory_wait_any(session, &leaving->spill)) {
        snp_executor_close(session->live.executor, closed, leaving);
    }
}

static void spilled(struct snp_spill_waiter *waiter)
{
    memory_leave(snp_container_of(waiter, struct leaving, spill));
}

int snp_leave(struct snp_session *session, snp_leave_done *done, void *ctx, struct snp_err *err)
{
    struct leaving *leaving = calloc(1, sizeof(*leaving));

    SNP_TRY_MEMORY(leaving, err);
    *leaving = (struct leaving){.session = session, .done = done, .ctx = ctx};
    snp_session_ref(session);
    snp_session_event(session, SNP_EV_LEAVE);
    snp_checkpoint_unplan(session);
    snp_log(SNP_LOG_INFO, "hibernate", "session=%s cell=%llu", session->id,
            (unsigned long long)session->durable.checkpoint_cell);
    leaving->spill.run = spilled;
    memory_leave(leaving);
    return 0;
}

void snp_leave_drop(struct snp_session *session)
{
    struct snp_err err;

    if (snp_leave(session, NULL, NULL, &err) < 0) {
        snp_executor_close(session->live.executor, NULL, NULL);
    }
}
