/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tier that copies a project does not track the session's changes. So the copy is saved before
 * any code runs, as an ordinary snapshot; later the session is compared with that.
 */
#include "daemon/snapshot/project.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/journal_entry.h"
#include "daemon/server.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"
#include "store/journal.h"
#include "wire/snapshot.h"

struct beginning {
    struct snp_session *session; /* one reference */
    char id[SNP_SESSION_ID_LEN + 1];
    char session_id[SNP_SESSION_ID_LEN + 1];
    uint64_t epoch;
    uint64_t created_us;
    uint64_t checkpoint;
};

/* err: NULL = success. */
static void beginning_end(struct beginning *beginning, const struct snp_err *err)
{
    if (err != NULL) {
        snp_log(SNP_LOG_WARN, "snapshot", "session=%s name=%s error=\"%s\"", beginning->session_id,
                SNP_SNAPSHOT_PROJECT, err->msg);
    }
    snp_session_unref(beginning->session);
    free(beginning);
}

static int run_row(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct beginning *beginning = arg;
    const struct snp_journal_snapshot row = {.id = beginning->id,
                                             .name = SNP_SNAPSHOT_PROJECT,
                                             .session = beginning->session_id,
                                             .epoch = beginning->epoch,
                                             .created_us = beginning->created_us,
                                             .checkpoint = beginning->checkpoint};
    struct snp_journal_session session;

    SNP_TRY(snp_journal_session_get(tx, beginning->session_id, &session, err));
    SNP_TRY(snp_journal_snapshot_add(tx, &row, err));
    session.head_snapshot = beginning->id;
    return snp_journal_session_put(tx, &session, err);
}

static void row_written(void *arg, const struct snp_err *err)
{
    beginning_end(arg, err->code == SNP_OK ? NULL : err);
}

/* Later saves are also later in the store's queue: the row is in time to keep this checkpoint. */
static void saved(void *ctx, json_t *report, const struct snp_err *err)
{
    struct beginning *beginning = ctx;

    if (err != NULL) {
        beginning_end(beginning, err);
        return;
    }
    beginning->checkpoint = (uint64_t)snp_json_int(report, "checkpoint", 0);
    SNP_STORE_DO(beginning->session->server->store, .run = run_row, .done = row_written,
                 .arg = beginning, .durability = SNP_DURABILITY_SYNCED);
}

static void entered(void *ctx, const struct snp_err *err)
{
    struct beginning *beginning = ctx;
    struct snp_session *session = beginning->session;

    if (err == NULL) {
        snp_checkpoint_make_aside(session, saved, beginning);
        return;
    }
    snp_session_event(session, SNP_EV_SAVED);
    snp_session_go_on(session);
    beginning_end(beginning, err);
}

void snp_snapshot_project(struct snp_session *session)
{
    struct beginning *beginning;
    struct snp_err err;

    if (session->policy.project == NULL || session->unsaved.when == SNP_CHECKPOINT_OFF ||
        !snp_tier_copies_projects(session->policy.tier)) {
        return;
    }
    beginning = calloc(1, sizeof(*beginning));
    if (beginning == NULL || snp_random_id(beginning->id) < 0) {
        free(beginning);
        return;
    }
    snp_session_ref(session);
    beginning->session = session;
    memcpy(beginning->session_id, session->id, sizeof(beginning->session_id));
    beginning->epoch = session->epoch;
    beginning->created_us = snp_wall_us();
    snp_session_event(session, SNP_EV_SAVE); /* no cell begins until the end */
    if (snp_entry_session(session, entered, beginning, &err) < 0) {
        entered(beginning, &err);
    }
}
