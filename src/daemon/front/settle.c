/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/settle.h"

#include "base/log.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/journal_entry.h"
#include "daemon/save/unsaved.h"
#include "daemon/server.h"
#include "daemon/session/table.h"
#include "daemon/tiers.h"
#include "store/store.h"

static void settle_end(struct snp_server *server)
{
    snp_settled *done = server->settled;
    bool is_saved = server->n_settling == 0;

    server->settled = NULL;
    if (done == NULL || server->is_ending) {
        return;
    }
    (void)uv_timer_stop(&server->end_timer);
    snp_store_look(server->store);
    for (size_t i = 0; is_saved && i < server->sessions.n_slots; i++) {
        struct snp_err ignored;

        is_saved = server->sessions.slots[i] == NULL ||
                   !snp_unsaved_is(server->sessions.slots[i], &ignored);
    }
    done(server, is_saved);
}

static void on_late(uv_timer_t *timer)
{
    struct snp_server *server = timer->data;

    snp_log(SNP_LOG_WARN, "settle", "why=\"%u sessions are not saved in time\"",
            server->n_settling);
    settle_end(server);
}

static void one_settled(struct snp_session *session)
{
    struct snp_server *server = session->server;

    snp_session_unref(session);
    server->n_settling--;
    if (server->n_settling == 0) {
        settle_end(server);
    }
}

static void saved(void *ctx, json_t *report, const struct snp_err *err)
{
    (void)report;
    (void)err; /* the failed save noted it */
    one_settled(ctx);
}

/* The owed cells are in the journal, or that failed: make the checkpoint. */
static void paid(void *ctx, const struct snp_err *err)
{
    struct snp_session *session = ctx;

    if (err == NULL && session->unsaved.is_dirty && session->live.executor != NULL) {
        snp_checkpoint_make(session, saved, session);
    } else {
        one_settled(session);
    }
}

static bool is_unsettled(const struct snp_session *session)
{
    return session->name[0] != '\0' && session->live.executor != NULL &&
           session->live.wake == NULL &&
           (session->state == SNP_SESSION_IDLE || session->state == SNP_SESSION_SAVING) &&
           (session->unsaved.is_dirty || session->durable.debt != NULL) &&
           snp_tier_can(session->policy.place.tier, "save");
}

bool snp_server_settle(struct snp_server *server, snp_settled *done)
{
    if (server->settled != NULL || server->n_settling > 0) {
        return false;
    }
    server->settled = done;
    server->n_settling = 1; /* until all saves have begun */
    (void)uv_timer_start(&server->end_timer, on_late, SNP_CAP_END_SAVE_MS, 0);
    for (size_t i = 0; i < server->sessions.n_slots; i++) {
        struct snp_session *session = server->sessions.slots[i];

        if (session != NULL && is_unsettled(session)) {
            snp_session_ref(session);
            server->n_settling++;
            if (!snp_entry_pay(session, paid, session)) {
                paid(session, NULL);
            }
        }
    }
    server->n_settling--;
    if (server->n_settling == 0) {
        settle_end(server);
    }
    return true;
}
