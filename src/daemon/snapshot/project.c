/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tier that copies a project does not track the session's changes. So the copy is saved before
 * any code runs, as an ordinary snapshot; later the session is compared with that.
 */
#include "daemon/snapshot/project.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire/snapshot.h"
#include "daemon/co.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/journal_entry.h"
#include "daemon/server.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"
#include "daemon/store_wait.h"
#include "store/journal.h"

struct beginning {
    struct snp_session *session; /* one reference */
    char id[SNP_SESSION_ID_LEN + 1];
    uint64_t epoch;
    uint64_t created_us;
    uint64_t checkpoint;
};

static int run_row(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct beginning *beginning = arg;
    const struct snp_journal_snapshot row = {.id = beginning->id,
                                             .name = SNP_SNAPSHOT_PROJECT,
                                             .session = beginning->session->id,
                                             .epoch = beginning->epoch,
                                             .created_us = beginning->created_us,
                                             .checkpoint = beginning->checkpoint};
    struct snp_journal_session session;

    SNP_TRY(snp_journal_session_get(tx, beginning->session->id, &session, err));
    SNP_TRY(snp_journal_snapshot_add(tx, &row, err));
    session.head_snapshot = beginning->id;
    return snp_journal_session_put(tx, &session, err);
}

static int project_save(struct beginning *beginning, struct snp_err *err)
{
    struct snp_session *session = beginning->session;
    struct snp_await made = {0};
    snp_autojson json_t *report = NULL;

    if (snp_entry_session(session, err) < 0) {
        snp_session_event(session, SNP_EV_SAVED);
        snp_session_go_on(session);
        return err->code;
    }
    snp_checkpoint_make_aside(session, snp_await_end, &made);
    SNP_TRY(snp_await(&made, &report, err));
    beginning->checkpoint = (uint64_t)snp_json_int(report, "checkpoint", 0);
    /* Later saves are also later in the store's queue: the row is in time to keep this one. */
    return snp_store_await_synced(session->server->store, run_row, beginning, err);
}

static void project_run(void *arg)
{
    struct snp_session *session = arg;
    struct beginning beginning = {
        .session = session, .epoch = session->epoch, .created_us = snp_wall_us()};
    struct snp_err err;

    if (snp_random_id(beginning.id) < 0) {
        return;
    }
    snp_session_ref(session);
    snp_session_event(session, SNP_EV_SAVE); /* no cell begins until the end */
    if (project_save(&beginning, &err) < 0) {
        snp_log(SNP_LOG_WARN, "snapshot", "session=%s name=%s error=\"%s\"", session->id,
                SNP_SNAPSHOT_PROJECT, err.msg);
    }
    snp_session_unref(session);
}

void snp_snapshot_project(struct snp_session *session)
{
    struct snp_err ignored;

    if (session->policy.project != NULL && session->unsaved.when != SNP_CHECKPOINT_OFF &&
        snp_tier_copies_projects(session->policy.place.tier)) {
        (void)!snp_co_start(project_run, session, &ignored);
    }
}
