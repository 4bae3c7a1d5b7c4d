/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/save/prove.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/policy/guarantee.h"
#include "daemon/save/load.h"
#include "daemon/server.h"
#include "daemon/session/executor.h"
#include "daemon/session/spec.h"

bool snp_prove_is_done(const struct snp_session *session)
{
    return session->durable.checkpoint != 0 &&
           session->durable.proven == session->durable.checkpoint;
}

void snp_prove_note(struct snp_session *session, uint64_t checkpoint, json_t *failed)
{
    session->durable.proven = checkpoint;
    json_decref(session->durable.unrestorable);
    session->durable.unrestorable = json_deep_copy(failed);
}

/* Take over the manifest of the trial's executor, if the session can continue there. */
static int place_check(const struct snp_session *session,
                       struct snp_place *place,
                       json_t *manifest,
                       struct snp_err *err)
{
    SNP_TRY(snp_state_key_check_elsewhere(session, manifest, err));
    SNP_TRY(snp_guarantees_in(place->tier->name, manifest, session->policy.guarantees, err));
    place->manifest = json_incref(manifest);
    return 0;
}

static int prove(struct snp_session *session, struct snp_trial *trial, struct snp_err *err)
{
    const uint64_t checkpoint = session->durable.checkpoint;
    const struct snp_limits limits = session->policy.limits;
    snp_cleanup(snp_executor_endp) struct snp_executor *executor = NULL;
    snp_autojson json_t *manifest = NULL;
    snp_autojson json_t *failed = NULL;
    bool is_sent = false;

    SNP_TRY(snp_executor_open_beside(session, trial == NULL ? NULL : trial->place, &executor,
                                     &manifest, err));
    SNP_TRY(trial == NULL ? 0 : place_check(session, trial->place, manifest, err));
    if (checkpoint != 0) {
        SNP_TRY(snp_load(executor, checkpoint, SNP_LOAD_ALL, &is_sent, &failed, err));
    }
    if (trial != NULL) {
        trial->failed = failed == NULL ? json_array() : SNP_TAKE_PTR(failed);
        SNP_TRY_MEMORY(trial->failed, err);
    } else if (memcmp(&limits, &session->policy.limits, sizeof(limits)) != 0) {
        return snp_fail(err, SNP_E_LIMIT, "its limits changed during the trial");
    } else {
        snp_prove_note(session, checkpoint, failed);
    }
    return 0;
}

int snp_prove(struct snp_session *session, struct snp_trial *trial, struct snp_err *err)
{
    uint64_t checkpoint = session->durable.checkpoint;
    uint64_t begun_us = snp_now_us();
    int r;

    if (trial != NULL) {
        json_decref(SNP_TAKE_PTR(trial->failed)); /* of an earlier trial */
        json_decref(SNP_TAKE_PTR(trial->place->manifest));
        trial->checkpoint = checkpoint;
    }
    session->unsaved.is_proving = true;
    session->server->n_proving++;
    r = prove(session, trial, err);
    session->unsaved.is_proving = false;
    session->server->n_proving--;
    snp_log(r == 0 ? SNP_LOG_DEBUG : SNP_LOG_WARN, "prove",
            "session=%s checkpoint=%llu us=%llu error=\"%s\"", session->id,
            (unsigned long long)checkpoint, (unsigned long long)(snp_now_us() - begun_us),
            r == 0 ? "" : err->msg);
    return r;
}
