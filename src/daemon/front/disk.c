/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods `checkpoint`, `hibernate` and `gc`.
 */
#include <stdlib.h>

#include "base/wire/session.h"
#include "daemon/co.h"
#include "daemon/front/serve.h"
#include "daemon/request.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/hibernate.h"
#include "daemon/save/missing.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/table.h"
#include "daemon/session/turn.h"
#include "daemon/store_wait.h"
#include "daemon/tier.h"
#include "daemon/work.h"
#include "store/checkpoint.h"

/* checkpoint ------------------------------------------------------------------------------- */

static void made(void *ctx, json_t *report, const struct snp_err *err)
{
    struct snp_request *request = ctx;

    if (report == NULL) {
        snp_request_fail(request, err);
    } else {
        snp_request_answer(request, json_deep_copy(report));
    }
}

void snp_run_checkpoint(const struct snp_work *work)
{
    snp_checkpoint_make_aside(work->session, made, work->request);
}

/* hibernate -------------------------------------------------------------------------------- */

static int run_asleep(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    return snp_missing_check(tx, arg, err);
}

/*
 * A session that is asleep already may lack something: the caller must not take it for a complete
 * save.
 */
static int hibernate(struct snp_session *session, struct snp_err *err)
{
    struct snp_missing_place place;
    struct snp_await wait = {0};

    if (session->live.executor == NULL) {
        snp_missing_place(session, &place);
        return snp_store_await(session->server->store, run_asleep, &place, err);
    }
    snp_hibernate(session, false, snp_await_ended, &wait);
    return snp_await(&wait, NULL, err);
}

static int run_hibernate(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(snp_session_unrefp) struct snp_session *session = work->session;
    snp_autojson json_t *lost = NULL;

    snp_session_ref(session);
    if (session->name[0] == '\0') {
        return snp_fail(err, SNP_E_INVALID, "an unnamed session ends with its call");
    }
    SNP_TRY(snp_hibernate_must_wait(session) ? snp_turn_await(session, NULL, err) : 0);
    SNP_TRY(hibernate(session, err));
    lost = snp_lost_list(session, session->durable.unrestorable);
    snp_request_answer(request, SNP_WRITE(snp_hibernate_answer, .hibernated = true,
                                          .cell = session->durable.checkpoint_cell, .lost = lost,
                                          .image = session->durable.has_image));
    return 0;
}

void snp_run_hibernate(const struct snp_work *work)
{
    snp_work_start(work, run_hibernate);
}

/* gc --------------------------------------------------------------------------------------- */

struct collecting {
    struct snp_request *request; /* owned */
    uint64_t budget;             /* 0 = any */
};

static void collected(void *arg, const struct snp_gc_report *report, const struct snp_err *err)
{
    struct collecting *collecting = arg;
    uint64_t budget = collecting->budget;

    if (err->code != SNP_OK) {
        snp_request_fail(collecting->request, err);
    } else {
        snp_request_answer(collecting->request,
                           SNP_WRITE(snp_gc_answer, .freed_bytes = report->freed_bytes,
                                     .blobs = report->blobs, .bytes = report->bytes,
                                     .budget_bytes = budget,
                                     .is_met = budget == 0 || report->bytes <= budget));
    }
    free(collecting);
}

void snp_run_gc(const struct snp_work *work)
{
    struct snp_server *server = work->request->server;
    uint64_t *limit = &server->options.budget_bytes;
    uint64_t budget;
    uint64_t store_limit = 0;
    struct snp_gc_request asked;
    struct collecting *collecting;
    struct snp_err err;

    snp_record_read(work->head, &snp_gc_request_form, &asked);
    if (asked.limit_bytes != SNP_NO_NUMBER &&
        (uint64_t)asked.limit_bytes < SNP_CAP_JOURNAL_BYTES_MIN) {
        snp_request_refuse(work->request, SNP_E_INVALID, "the journal's budget is at least 16 MiB");
        return;
    }
    collecting = snp_request_state(work->request, sizeof(*collecting));
    if (collecting == NULL) {
        return;
    }
    if (asked.limit_bytes != SNP_NO_NUMBER) {
        *limit = (uint64_t)asked.limit_bytes;
        store_limit = snp_server_divide(server);
        snp_tier_bound_outputs(server);
    }
    budget = asked.budget_bytes == SNP_NO_NUMBER ? *limit : (uint64_t)asked.budget_bytes;
    *collecting = (struct collecting){work->request, budget};
    if (snp_store_gc(server->store, store_limit, budget, collected, collecting, &err) < 0) {
        snp_request_fail(work->request, &err);
        free(collecting);
    }
}
