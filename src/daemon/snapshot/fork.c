/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `fork`: new sessions that begin with another one's present or past state. Each has a separate
 * sandbox, opened as the first was, with separate namespaces, control group, ids and random state;
 * the policy is applied again. All are made, or none.
 *
 *   a checkpoint of the origin (source.h) -> rows of all forks, each with that checkpoint, in
 *   one job -> sessions in the table -> each wakes from it -> the answer
 *
 * If one sandbox cannot be opened, all forks end. A crash before the answer leaves either no rows
 * or all of them, complete.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire/snapshot.h"
#include "daemon/cell/end.h"
#include "daemon/request.h"
#include "daemon/save/durable.h"
#include "daemon/server.h"
#include "daemon/session/exec.h"
#include "daemon/session/spec.h"
#include "daemon/session/table.h"
#include "daemon/snapshot/source.h"
#include "daemon/store_wait.h"
#include "daemon/work.h"
#include "store/journal.h"

/* One of the new sessions. */
struct forked_session {
    struct snp_turn turn;
    struct snp_await woken;
    struct forking *forking;     /* borrowed */
    struct snp_session *session; /* one reference; NULL = not in the table */
    char id[SNP_SESSION_ID_LEN + 1];
    char name[SNP_SESSION_NAME_MAX + 1];
    uint64_t checkpoint; /* the id of its copy's row; set by the store's thread */
};

struct forking {
    struct snp_server *server; /* borrowed */
    struct forked_session children[SNP_CAP_FORKS];
    unsigned n;
    uint64_t now_us;
    char prefix[SNP_SESSION_NAME_MAX + 1];
    bool is_exact;                    /* prefix is the full name of a single fork */
    char owner[SNP_PROCESS_MARK_MAX]; /* they end with this process; "" = they stay */
    struct snp_source source;         /* owned */
    json_t *failed;     /* owned: losses of the first fork that was not made by image */
    bool is_image;      /* all were made by image */
    char no_image[200]; /* why one was not; "" = not tried */
};

static void forking_free(struct forking *forking)
{
    for (unsigned i = 0; forking != NULL && i < forking->n; i++) {
        snp_session_unref(forking->children[i].session);
    }
    if (forking != NULL) {
        snp_source_done(&forking->source);
        json_decref(forking->failed);
        free(forking);
    }
}
SNP_DEFINE_CLEANUP(struct forking *, forking_free)

/* The end -------------------------------------------------------------------------------------- */

static int run_remove(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct forking *forking = arg;
    int r = 0;

    for (unsigned i = 0; r == 0 && i < forking->n; i++) {
        r = snp_journal_session_remove(tx, forking->children[i].id, err);
        r = r == SNP_E_NOT_FOUND ? 0 : r;
    }
    return r;
}

/* Remove all forks: those in the table end with their rows, the other rows are removed here. */
static void forking_undo(struct forking *forking)
{
    struct snp_err err;

    for (unsigned i = 0; i < forking->n; i++) {
        if (forking->children[i].session != NULL) {
            snp_session_end(forking->children[i].session);
        }
    }
    if (snp_store_await_synced(forking->server->store, run_remove, forking, &err) < 0) {
        snp_log(SNP_LOG_ERROR, "fork", "error=\"%s\"", err.msg);
    }
}

static void answer(struct snp_request *request, const struct forking *forking, uint64_t begun_us)
{
    json_t *sessions = json_array();
    snp_autojson json_t *failed = NULL;
    snp_autojson json_t *lost = NULL;

    for (unsigned i = 0; i < forking->n; i++) {
        const struct forked_session *child = &forking->children[i];

        if (json_array_append_new(sessions,
                                  SNP_WRITE(snp_fork_row, .session = child->id, .name = child->name,
                                            .epoch = child->session->epoch)) < 0) {
            json_decref(sessions);
            sessions = NULL;
            break;
        }
    }
    failed = forking->failed == NULL ? json_array() : json_incref(forking->failed);
    lost = forking->is_image ? json_array() : json_incref(forking->source.lost);
    snp_request_answer(
        request, SNP_WRITE(snp_fork_answer, .sessions = sessions,
                           .how = forking->is_image ? "image" : "checkpoint",
                           .no_image = forking->no_image[0] == '\0' ? NULL : forking->no_image,
                           .parent = forking->source.head[0] == '\0' ? NULL : forking->source.head,
                           .lost = lost, .failed = failed, .us = snp_now_us() - begun_us));
    json_decref(sessions);
}

/* Waking --------------------------------------------------------------------------------------- */

/* At once, because the first cell of the session takes its losses, too. */
static void child_woken(struct snp_turn *turn,
                        struct snp_session *session,
                        const struct snp_err *err)
{
    struct forked_session *child = snp_container_of(turn, struct forked_session, turn);
    struct forking *forking = child->forking;

    if (err == NULL) {
        json_t *failed = snp_source_failed(session, forking->source.lost);

        if (!session->live.fork_of.is_image && forking->is_image) {
            forking->is_image = false;
            forking->failed = failed; /* the same for all */
            memcpy(forking->no_image, session->live.fork_of.why, sizeof(forking->no_image));
        } else {
            json_decref(failed);
        }
    }
    snp_await_ended(&child->woken, err);
}

static int child_enter(struct forking *forking, struct forked_session *child, struct snp_err *err)
{
    struct snp_session *session = NULL;
    int r;

    if (snp_sessions_find(forking->server, child->name) != NULL) {
        return snp_fail(err, SNP_E_INVALID, "another request made a session %s", child->name);
    }
    SNP_TRY(snp_session_known(forking->server, child->id, child->name, &session, err));
    r = snp_session_spec_read(session, forking->source.spec, err);
    if (r < 0) {
        snp_session_remove(session);
        return r;
    }
    session->epoch = 1;
    session->created_wall_us = forking->now_us;
    session->used_wall_us = forking->now_us;
    snp_durable_known(session, child->checkpoint, 0, forking->source.lost);
    if (forking->source.is_live) {
        memcpy(session->live.fork_of.session, forking->source.session,
               sizeof(session->live.fork_of.session));
        session->live.fork_of.epoch = forking->source.epoch;
        session->live.fork_of.cell = forking->source.cell;
    }
    snp_session_ref(session);
    child->session = session;
    return 0;
}

/* All at once; the first failure in their order. */
static int children_wake(struct forking *forking, struct snp_err *err)
{
    struct snp_err why;
    int r = 0;

    for (unsigned i = 0; i < forking->n; i++) {
        SNP_TRY(child_enter(forking, &forking->children[i], err));
    }
    forking->is_image = true; /* until one reports otherwise */
    for (unsigned i = 0; i < forking->n; i++) {
        forking->children[i].turn = (struct snp_turn){.kind = SNP_TURN_LIVE, .run = child_woken};
        snp_turn_ask(forking->children[i].session, &forking->children[i].turn);
    }
    for (unsigned i = 0; i < forking->n; i++) {
        if (snp_await(&forking->children[i].woken, NULL, &why) < 0 && r == 0) {
            *err = why;
            r = snp_err_wrap(err, "made no fork, because %s failed", forking->children[i].name);
        }
    }
    return r;
}

/* Rows ----------------------------------------------------------------------------------------- */

/* Choose the first free names PREFIX-1, PREFIX-2 and so on. */
static int names_choose(struct snp_tx *tx, struct forking *forking, struct snp_err *err)
{
    unsigned number = 0;

    for (unsigned i = 0; i < forking->n;) {
        struct forked_session *child = &forking->children[i];
        struct snp_journal_session row;
        int n =
            forking->is_exact
                ? snprintf(child->name, sizeof(child->name), "%s", forking->prefix)
                : snprintf(child->name, sizeof(child->name), "%s-%u", forking->prefix, ++number);
        int r;

        if (n < 0 || (size_t)n >= sizeof(child->name)) {
            return snp_fail(err, SNP_E_INVALID, "the name %s-%u is longer than %d characters",
                            forking->prefix, number, SNP_SESSION_NAME_MAX);
        }
        r = snp_journal_session_get(tx, child->name, &row, err);
        if (r < 0 && r != SNP_E_NOT_FOUND) {
            return r;
        }
        if (r == 0 && forking->is_exact) {
            return snp_fail(err, SNP_E_DENIED, "session %s already exists", child->name);
        }
        i += r == SNP_E_NOT_FOUND ? 1 : 0;
    }
    return 0;
}

static int row_write(struct snp_tx *tx,
                     const struct forking *forking,
                     struct forked_session *child,
                     struct snp_err *err)
{
    const struct snp_source *source = &forking->source;
    const struct snp_journal_session row = {
        .id = child->id,
        .name = child->name,
        .spec = source->spec,
        .state = "idle",
        .epoch = 1,
        .created_us = forking->now_us,
        .used_us = forking->now_us,
        .head_snapshot = source->head[0] == '\0' ? NULL : source->head,
    };
    int r = snp_journal_session_add(tx, &row, err);

    if (r == 0 && source->checkpoint != 0) {
        const struct snp_journal_checkpoint to = {.session = child->id, .cell = 0, .epoch = 1};

        r = snp_journal_checkpoint_copy(tx, source->checkpoint, &to, &child->checkpoint, err);
    }
    return r;
}

static int run_rows(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct forking *forking = arg;
    int r = names_choose(tx, forking, err);

    for (unsigned i = 0; r == 0 && i < forking->n; i++) {
        r = row_write(tx, forking, &forking->children[i], err);
    }
    return r;
}

/* The fork ------------------------------------------------------------------------------------- */

static int request_read(const struct snp_work *work, struct forking *forking, struct snp_err *err)
{
    struct snp_fork_request asked;
    const char *prefix;

    snp_record_read(work->head, &snp_fork_request_form, &asked);
    prefix = asked.name == NULL ? "" : asked.name;
    asked.n = asked.n == SNP_NO_NUMBER ? 1 : asked.n;
    if (asked.n < 1 || asked.n > SNP_CAP_FORKS) {
        return snp_fail(err, SNP_E_INVALID, "fork: 'n' must be 1 to %d", SNP_CAP_FORKS);
    }
    if (asked.exact && (asked.n != 1 || prefix[0] == '\0')) {
        return snp_fail(err, SNP_E_INVALID, "fork: 'exact' needs 'name', and 'n' must be 1");
    }
    SNP_TRY(prefix[0] == '\0' ? 0 : snp_session_name_check(prefix, err));
    forking->server = work->request->server;
    forking->n = (unsigned)asked.n;
    forking->is_exact = asked.exact;
    if (asked.temporary) {
        snp_process_mark((uint64_t)work->request->peer->pid, forking->owner);
    }
    forking->now_us = snp_wall_us();
    (void)snprintf(forking->prefix, sizeof(forking->prefix), "%s", prefix);
    for (unsigned i = 0; i < forking->n; i++) {
        forking->children[i].forking = forking;
        if (snp_random_id(forking->children[i].id) < 0) {
            return snp_fail_sys(err, errno, "random id");
        }
    }
    return 0;
}

/* The forks' policy and names, of the source. */
static int source_use(struct forking *forking, struct snp_err *err)
{
    struct snp_source *source = &forking->source;

    if (forking->owner[0] != '\0') {
        char *spec = snp_session_spec_own(source->spec, forking->owner);

        SNP_TRY_MEMORY(spec, err);
        free(source->spec);
        source->spec = spec;
    }
    if (forking->prefix[0] == '\0') {
        (void)snprintf(forking->prefix, sizeof(forking->prefix), "%s", source->session_name);
    }
    return snp_session_name_check(forking->prefix, err);
}

static int run(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(forking_freep) struct forking *forking = calloc(1, sizeof(*forking));
    uint64_t begun_us = snp_now_us();

    SNP_TRY_MEMORY(forking, err);
    SNP_TRY(request_read(work, forking, err));
    SNP_TRY(snp_source_find(forking->server, snp_json_str(work->head, "from", ""), &forking->source,
                            err));
    SNP_TRY(source_use(forking, err));
    SNP_TRY(snp_store_await_synced(forking->server->store, run_rows, forking, err));
    if (children_wake(forking, err) < 0) {
        forking_undo(forking);
        return err->code;
    }
    answer(request, forking, begun_us);
    return 0;
}

void snp_run_fork(const struct snp_work *work)
{
    snp_work_start(work, run);
}
