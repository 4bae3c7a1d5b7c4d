/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How sessions end.
 *
 * One that is destroyed is no longer found from then on, so that its name is free; it is
 * answered only when its executor is gone.
 */
#include "daemon/session_end.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "daemon/exec.h"
#include "daemon/executor.h"
#include "daemon/server.h"
#include "daemon/session.h"

/* sessions.destroy or an internal end on its way. */
struct ending {
    struct snp_session *session; /* one reference */
    struct snp_request *request; /* owned, or NULL */
};

static void end_answer(struct snp_request *request, const struct snp_err *err)
{
    if (request != NULL && err != NULL) {
        snp_request_fail(request, err);
    } else if (request != NULL) {
        snp_request_answer(request, json_pack("{s:b}", "destroyed", 1));
    }
}

static void executor_closed(void *ctx, const struct snp_err *err)
{
    struct ending *ending = ctx;

    snp_session_remove(ending->session);
    snp_session_unref(ending->session);
    end_answer(ending->request, err);
    free(ending);
}

void snp_session_end(struct snp_session *session, struct snp_request *request)
{
    struct ending *ending;
    struct snp_err err;

    if (session->executor == NULL) {
        snp_session_remove(session);
        end_answer(request, NULL);
        return;
    }
    snp_session_set_state(session, SNP_SESSION_CLOSING);
    (void)snp_fail(&err, SNP_E_NOT_FOUND, "the session was destroyed");
    (void)snp_exec_fail_waiting(session, &err);
    ending = calloc(1, sizeof(*ending));
    if (ending == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        snp_executor_close(session->executor, NULL, NULL);
        snp_session_remove(session);
        end_answer(request, &err);
        return;
    }
    snp_session_ref(session);
    *ending = (struct ending){session, request};
    snp_executor_close(session->executor, executor_closed, ending);
}

void snp_session_lost(struct snp_session *session, const char *reason)
{
    enum snp_session_state before = session->state;
    struct snp_err err;

    if (before == SNP_SESSION_LOST || before == SNP_SESSION_CLOSING) {
        return;
    }
    snp_log(session->server->is_ending ? SNP_LOG_INFO : SNP_LOG_WARN, "session-lost",
            "session=%s why=\"%s\"", session->id, reason);
    (void)snprintf(session->loss, sizeof(session->loss), "%.190s", reason);
    snp_session_set_state(session, SNP_SESSION_LOST);
    (void)snp_fail(&err, SNP_E_PEER, "the session was lost: %s", session->loss);
    if (snp_exec_fail_waiting(session, &err)) {
        session->loss_told = true;
    }
    if (session->name[0] == '\0') {
        snp_session_remove(session);
    }
}
