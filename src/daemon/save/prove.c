/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/save/prove.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/save/load.h"
#include "daemon/server.h"
#include "daemon/session/executor.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "policy/guarantee.h"

struct snp_proof {
    struct snp_session *session;   /* one reference */
    struct snp_executor *executor; /* one reference; NULL = not opened */
    struct snp_trial *trial;       /* borrowed; NULL = where the session is */
    uint64_t checkpoint;
    struct snp_limits limits; /* the limits of the trial */
    uint64_t begun_us;
    struct snp_err err;
    snp_prove_done *done;
    void *ctx;
};

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

static void proof_end(struct snp_proof *proof)
{
    struct snp_session *session = proof->session;
    bool is_ok = proof->err.code == SNP_OK;

    session->unsaved.proof = NULL;
    session->server->n_proving--;
    snp_log(is_ok ? SNP_LOG_DEBUG : SNP_LOG_WARN, "prove",
            "session=%s checkpoint=%llu us=%llu error=\"%s\"", session->id,
            (unsigned long long)proof->checkpoint,
            (unsigned long long)(snp_now_us() - proof->begun_us), is_ok ? "" : proof->err.msg);
    proof->done(proof->ctx, is_ok ? NULL : &proof->err);
    snp_executor_unref(proof->executor);
    snp_session_unref(session);
    free(proof);
}

static void closed(void *ctx, const struct snp_err *err)
{
    (void)err; /* logged; the result of the trial stands */
    proof_end(ctx);
}

/* failed: taken over; NULL = out of memory. */
static void trial_note(struct snp_proof *proof, json_t *failed)
{
    proof->trial->failed = failed;
    if (failed == NULL) {
        (void)snp_fail(&proof->err, SNP_E_NOMEM, "out of memory");
    }
}

static void loaded(void *ctx, json_t *failed, const struct snp_err *err)
{
    struct snp_proof *proof = ctx;

    if (failed != NULL && proof->trial != NULL) {
        trial_note(proof, json_deep_copy(failed));
    } else if (failed != NULL &&
               memcmp(&proof->limits, &proof->session->policy.limits, sizeof(proof->limits)) != 0) {
        (void)snp_fail(&proof->err, SNP_E_LIMIT, "its limits changed during the trial");
    } else if (failed != NULL) {
        snp_prove_note(proof->session, proof->checkpoint, failed);
    } else {
        proof->err = *err;
    }
    snp_executor_close(proof->executor, closed, proof);
}

/* The manifest of the trial's executor. */
static int trial_open(struct snp_proof *proof, const json_t *manifest, struct snp_err *err)
{
    struct snp_trial *trial = proof->trial;

    if (trial == NULL) {
        return 0;
    }
    SNP_TRY(snp_state_key_check_elsewhere(proof->session, manifest, err));
    SNP_TRY(snp_guarantees_in(trial->place->tier->name, manifest, proof->session->policy.guarantees,
                              err));
    trial->place->manifest = json_deep_copy(manifest);
    SNP_TRY_MEMORY(trial->place->manifest, err);
    if (proof->checkpoint == 0) {
        trial_note(proof, json_array()); /* nothing to restore */
    }
    return 0;
}

static void opened(struct snp_session *session, json_t *manifest, const struct snp_err *err)
{
    struct snp_proof *proof = session->unsaved.proof;

    if (manifest == NULL) {
        proof->err = *err;
        proof_end(proof);
    } else if (trial_open(proof, manifest, &proof->err) < 0 || proof->checkpoint == 0 ||
               snp_load_start(proof->executor, proof->checkpoint, SNP_LOAD_ALL, loaded, proof,
                              &proof->err) < 0) {
        snp_executor_close(proof->executor, closed, proof);
    }
}

static void prove(struct snp_session *session,
                  struct snp_trial *trial,
                  snp_prove_done *done,
                  void *ctx)
{
    struct snp_proof *proof = calloc(1, sizeof(*proof));
    struct snp_err err;

    if (proof == NULL) {
        (void)snp_fail(&err, SNP_E_NOMEM, "out of memory");
        done(ctx, &err);
        return;
    }
    *proof = (struct snp_proof){.session = session,
                                .trial = trial,
                                .checkpoint = session->durable.checkpoint,
                                .limits = session->policy.limits,
                                .begun_us = snp_now_us(),
                                .done = done,
                                .ctx = ctx};
    snp_session_ref(session);
    session->unsaved.proof = proof;
    session->server->n_proving++;
    if (snp_executor_open_beside(session, trial == NULL ? NULL : trial->place, opened,
                                 &proof->executor, &proof->err) < 0) {
        proof_end(proof);
    }
}

void snp_prove(struct snp_session *session, snp_prove_done *done, void *ctx)
{
    prove(session, NULL, done, ctx);
}

void snp_prove_elsewhere(struct snp_session *session,
                         struct snp_trial *trial,
                         snp_prove_done *done,
                         void *ctx)
{
    json_decref(SNP_TAKE_PTR(trial->failed)); /* of an earlier trial */
    json_decref(SNP_TAKE_PTR(trial->place->manifest));
    trial->checkpoint = session->durable.checkpoint;
    prove(session, trial, done, ctx);
}
