/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The methods `checkpoint`, `hibernate` and `gc`.
 */
#include <stdlib.h>

#include "daemon/request.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/hibernate.h"
#include "daemon/save/missing.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/table.h"
#include "daemon/session/turn.h"
#include "daemon/work.h"
#include "store/checkpoint.h"
#include "wire/session.h"

/* checkpoint ------------------------------------------------------------------------------- */

static void made(void *ctx, const json_t *report, const struct snp_err *err)
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

struct asked {
    struct snp_request *request;
    struct snp_session *session; /* one reference */
    struct snp_turn turn;
    struct snp_missing_place place;
};

static void asked_end(struct asked *asked, const struct snp_err *err)
{
    if (err != NULL) {
        snp_request_fail(asked->request, err);
    } else {
        snp_autojson json_t *lost =
            snp_lost_list(asked->session, asked->session->durable.unrestorable);

        snp_request_answer(asked->request,
                           SNP_WRITE(snp_hibernate_answer, .hibernated = true,
                                     .cell = asked->session->durable.checkpoint_cell, .lost = lost,
                                     .image = asked->session->durable.has_image));
    }
    snp_session_unref(asked->session);
    free(asked);
}

static void hibernated(void *ctx, const struct snp_err *err)
{
    asked_end(ctx, err);
}

static int run_asleep(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct asked *asked = arg;

    return snp_missing_check(tx, &asked->place, err);
}

static void asleep_checked(void *arg, const struct snp_err *err)
{
    asked_end(arg, err->code == SNP_OK ? NULL : err);
}

/*
 * The session is asleep already; report missing parts, so that the caller does not assume a
 * complete save.
 */
static void asleep_check(struct asked *asked)
{
    snp_missing_place(asked->session, &asked->place);
    SNP_STORE_DO(asked->session->server->store, .run = run_asleep, .done = asleep_checked,
                 .arg = asked);
}

static void hibernate_turn(struct snp_turn *turn,
                           struct snp_session *session,
                           const struct snp_err *err)
{
    struct asked *asked = snp_container_of(turn, struct asked, turn);

    if (err != NULL) {
        asked_end(asked, err);
    } else if (session->live.executor == NULL) {
        asleep_check(asked);
    } else {
        snp_hibernate(session, false, hibernated, asked);
    }
}

void snp_run_hibernate(const struct snp_work *work)
{
    struct snp_session *session = work->session;
    struct asked *asked;

    if (session->name[0] == '\0') {
        snp_request_refuse(work->request, SNP_E_INVALID, "an unnamed session ends with its call");
        return;
    }
    asked = snp_request_state(work->request, sizeof(*asked));
    if (asked == NULL) {
        return;
    }
    snp_session_ref(session);
    asked->request = work->request;
    asked->session = session;
    asked->turn.run = hibernate_turn;
    if (snp_hibernate_must_wait(session)) {
        snp_turn_ask(session, &asked->turn);
    } else {
        hibernate_turn(&asked->turn, session, NULL);
    }
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
        store_limit = *limit / 2;
        if (store_limit > 2 * server->outputs_bytes) { /* the tiers keep their parts */
            store_limit = *limit - 2 * server->outputs_bytes;
        }
    }
    budget = asked.budget_bytes == SNP_NO_NUMBER ? *limit : (uint64_t)asked.budget_bytes;
    *collecting = (struct collecting){work->request, budget};
    if (snp_store_gc(server->store, store_limit, budget, collected, collecting, &err) < 0) {
        snp_request_fail(work->request, &err);
        free(collecting);
    }
}
