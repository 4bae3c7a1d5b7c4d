/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking a snapshot:
 *
 *   the session's turn -> a copy (tier) -> the row (journal) -> the answer -> to disk
 *
 * If the interpreter cannot be forked (because of threads, for example) there is no copy: a
 * checkpoint is made first, and the row refers to it. The same applies to a session without an
 * executor. A row is written only after the copy or checkpoint exists; if that fails, the copy is
 * dropped.
 */
#include "base/wire/snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "daemon/request.h"
#include "daemon/save/checkpoint.h"
#include "daemon/save/memory.h"
#include "daemon/save/missing.h"
#include "daemon/server.h"
#include "daemon/session/executor.h"
#include "daemon/session/life.h"
#include "daemon/session/table.h"
#include "daemon/session/turn.h"
#include "daemon/store_wait.h"
#include "daemon/tier.h"
#include "daemon/work.h"
#include "store/journal.h"
#include "wire/tier.h"

enum {
    US_PER_S = 1000 * 1000,
    LOST_SHOWN = 20,
    LIST_BYTES_MAX = 3 << 20, /* an answer's head has 4 MiB */
    WHY_MAX = 200,
};

struct snapshot_taking {
    struct snp_session *session; /* one reference */
    bool wants_disk;
    bool is_step; /* of a run */
    bool has_copy;
    uint64_t begun_us;
    uint64_t us;
    char why[WHY_MAX]; /* why there is no copy; "" = there is one, or no tier to ask */
    /* The row; read and written by the store's thread. */
    char id[SNP_SESSION_ID_LEN + 1];
    char name[SNP_SESSION_NAME_MAX + 1];
    char parent[SNP_SESSION_ID_LEN + 1];
    char session_id[SNP_SESSION_ID_LEN + 1];
    uint64_t cell;
    uint64_t epoch;
    uint64_t effect;
    uint64_t created_us;
    uint64_t checkpoint; /* 0 = made later, from the copy */
    bool is_asleep;      /* then nothing may be missing */
    struct snp_missing_place place;
    char *lost; /* owned: JSON */
    bool is_on_disk;
};

static void taking_done(struct snapshot_taking *taking)
{
    snp_session_go_on(taking->session);
    snp_session_unref(taking->session);
    free(taking->lost);
}

/* The answer ----------------------------------------------------------------------------------- */

static json_t *places_json(bool in_memory, bool on_disk)
{
    json_t *where = json_array();

    if ((in_memory && json_array_append_new(where, json_string("memory")) < 0) ||
        (on_disk && json_array_append_new(where, json_string("disk")) < 0)) {
        json_decref(where);
        return NULL;
    }
    return where;
}

static void answer(struct snp_request *request, const struct snapshot_taking *taking)
{
    bool in_memory = snp_memory_find(taking->session, taking->id) != NULL;
    snp_autojson json_t *lost =
        taking->lost == NULL ? json_array() : json_loads(taking->lost, 0, NULL);
    snp_autojson json_t *where = places_json(in_memory, taking->is_on_disk);

    snp_request_answer(request,
                       SNP_WRITE(snp_snapshot_answer, .snapshot = taking->id, .name = taking->name,
                                 .session = taking->session_id, .cell = taking->cell,
                                 .epoch = taking->epoch,
                                 .parent = taking->parent[0] == '\0' ? NULL : taking->parent,
                                 .where = where, .us = taking->us, .lost = lost,
                                 .not_in_memory = taking->why[0] == '\0' ? NULL : taking->why));
}

/* Look up the copy on disk. */
static int run_look(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snapshot_taking *taking = arg;
    struct snp_journal_snapshot row;

    SNP_TRY(snp_journal_snapshot_get(tx, taking->id, &row, err));
    taking->is_on_disk = row.checkpoint != 0 && row.is_usable;
    free(taking->lost);
    taking->lost = row.lost == NULL ? NULL : strdup(row.lost);
    return 0;
}

static int look(struct snapshot_taking *taking, struct snp_err *err)
{
    struct snp_session *session = taking->session;
    const struct snp_memory_copy *copy;
    bool is_known;

    SNP_TRY(snp_store_await(session->server->store, run_look, taking, err));
    if (!taking->wants_disk || taking->is_on_disk) {
        return 0;
    }
    copy = snp_memory_find(session, taking->id);
    is_known = copy != NULL && copy->is_failed;
    return snp_fail(err, is_known ? copy->why.code : SNP_E_SYS,
                    "snapshot %s is in memory, but could not be written to disk: %.300s",
                    taking->name, is_known ? copy->why.msg : "the session has changed");
}

/* The row -------------------------------------------------------------------------------------- */

/* The highest N of names sN, and the number of snapshots. */
struct snapshot_numbers {
    uint64_t highest;
    uint64_t n;
};

static int name_note(const struct snp_journal_snapshot *row, void *arg, struct snp_err *err)
{
    struct snapshot_numbers *names = arg;
    uint64_t n = 0;

    (void)err;
    names->n++;
    if (row->name != NULL && row->name[0] == 's' && snp_parse_u64(row->name + 1, &n) == 0 &&
        n < UINT32_MAX && n > names->highest) {
        names->highest = n;
    }
    return 0;
}

/* For a session that is asleep the source is its checkpoint, if nothing is missing. */
static int asleep_check(struct snp_tx *tx,
                        const struct snapshot_taking *taking,
                        struct snp_err *err)
{
    int r = snp_missing_check(tx, &taking->place, err);

    return r < 0 || taking->checkpoint != 0
               ? r
               : snp_fail(err, SNP_E_NOT_FOUND,
                          "session %s has not run a cell yet, so a snapshot of it would be empty",
                          taking->place.name);
}

/* Remove the step's previous snapshot: a run continues from there. */
static int step_forget(struct snp_tx *tx, const struct snapshot_taking *taking, struct snp_err *err)
{
    char ref[2 * (SNP_SESSION_NAME_MAX + 1)];
    struct snp_journal_snapshot row;
    int r;

    (void)snprintf(ref, sizeof(ref), "%s@%s", taking->session_id, taking->name);
    r = snp_journal_snapshot_get(tx, ref, &row, err);
    if (r == SNP_E_NOT_FOUND) {
        return 0;
    }
    return r < 0 ? r : snp_journal_snapshot_remove(tx, row.id, err);
}

static int run_row(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snapshot_taking *taking = arg;
    struct snp_journal_snapshot row = {.id = taking->id,
                                       .session = taking->session_id,
                                       .cell = taking->cell,
                                       .epoch = taking->epoch,
                                       .created_us = taking->created_us,
                                       .checkpoint = taking->checkpoint};
    struct snp_journal_session session;
    struct snapshot_numbers names = {0};
    char name[SNP_SESSION_NAME_MAX + 1];

    SNP_TRY(taking->is_step ? step_forget(tx, taking, err) : 0);
    SNP_TRY(snp_journal_snapshot_each(tx, taking->session_id, name_note, &names, err));
    if (taking->is_asleep) {
        SNP_TRY(asleep_check(tx, taking, err));
    }
    if (names.n >= SNP_CAP_SNAPSHOTS) {
        return snp_fail(err, SNP_E_LIMIT,
                        "the session already has %d snapshots (the limit); remove one first",
                        SNP_CAP_SNAPSHOTS);
    }
    (void)snprintf(name, sizeof(name), "s%llu", (unsigned long long)names.highest + 1);
    if (taking->name[0] == '\0') {
        (void)snprintf(taking->name, sizeof(taking->name), "%s", name);
    }
    SNP_TRY(snp_journal_session_get(tx, taking->session_id, &session, err));
    (void)snprintf(taking->parent, sizeof(taking->parent), "%s",
                   session.head_snapshot == NULL ? "" : session.head_snapshot);
    row.name = taking->name;
    row.parent = taking->parent[0] == '\0' ? NULL : taking->parent;
    SNP_TRY(snp_journal_snapshot_add(tx, &row, err));
    /* No transfer was pending when it was taken, and later ones are noted after this. */
    SNP_TRY(snp_journal_effect_last(tx, taking->session_id, taking->cell, &taking->effect, err));
    if (taking->is_step) {
        return 0; /* not required: later snapshots are not drawn below it */
    }
    session.head_snapshot = taking->id;
    return snp_journal_session_put(tx, &session, err);
}

/* The row is written: the copy is a snapshot now. */
static int row_written(struct snapshot_taking *taking, struct snp_err *err)
{
    struct snp_session *session = taking->session;
    struct snp_memory_copy *copy = snp_memory_find(session, taking->id);

    taking->us = snp_now_us() - taking->begun_us;
    if (copy != NULL) {
        snp_memory_noted(session, copy, taking->effect, taking->checkpoint != 0);
    }
    if (taking->checkpoint == 0) {
        if (copy == NULL) {
            return snp_fail(err, SNP_E_PEER, "the session ended while the snapshot was taken");
        }
        if (!taking->wants_disk) {
            return 0;
        }
        (void)snp_memory_await(session->server, taking->id, false);
    }
    return look(taking, err);
}

/* Copy or checkpoint --------------------------------------------------------------------------- */

/*
 * The current state is saved completely: an image comes with a second checkpoint of the same state.
 */
static bool is_saved(const struct snapshot_taking *taking)
{
    return snp_checkpoint_is_current(taking->session) &&
           !snp_checkpoint_lacks_image(taking->session);
}

/* SNP_E_UNSUPPORTED: the interpreter cannot be copied. */
static int copy_make(struct snapshot_taking *taking, struct snp_err *err)
{
    struct snp_session *session = taking->session;
    struct snp_await wait = {0};
    struct snp_tier_call call = {.timeout_ms = session->server->options.tier_ms,
                                 .answer = &snp_tier_snapshot_answer_form,
                                 .done = snp_tier_answered,
                                 .ctx = &wait};
    char executor[SNP_SESSION_ID_LEN + 1];
    struct snp_tier_snapshot_answer said;
    struct snp_memory_copy *copy;
    snp_autojson json_t *head = NULL;
    int r;

    SNP_TRY(snp_memory_room(session, err));
    memcpy(executor, session->live.executor->id, sizeof(executor));
    call.head = SNP_WRITE(snp_tier_snapshot_request, .session = executor);
    SNP_TRY(snp_tier_ask(session->live.executor->tier, &call, err));
    snp_session_event(session, SNP_EV_SAVE);
    snp_session_use(session);
    r = snp_await(&wait, &head, err);
    snp_session_event(session, SNP_EV_SAVED);
    SNP_TRY(r);
    if (session->live.executor == NULL || strcmp(session->live.executor->id, executor) != 0) {
        return snp_fail(err, SNP_E_PEER, "the session ended while the snapshot was taken");
    }
    snp_record_read(head, &snp_tier_snapshot_answer_form, &said);
    copy = snp_memory_add(session, taking->id, (uint32_t)said.branch);
    if (copy == NULL) {
        snp_memory_drop(session->live.executor, (uint32_t)said.branch);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    taking->has_copy = true;
    taking->checkpoint = is_saved(taking) ? session->durable.checkpoint : 0;
    copy->is_step = taking->is_step;
    return 0;
}

/* Wait while the session continues: what was begun is about its present state. */
static int await_beside(struct snp_session *session,
                        struct snp_await *wait,
                        json_t **ret,
                        struct snp_err *err)
{
    snp_session_go_on(session);
    return snp_await(wait, ret, err);
}

/* The session's current state, in a copy or a checkpoint. */
static int state_take(struct snapshot_taking *taking, struct snp_err *err)
{
    struct snp_session *session = taking->session;
    struct snp_await made = {0};
    snp_autojson json_t *report = NULL;
    int r;

    if (session->live.executor == NULL) {
        taking->is_asleep = true;
        snp_missing_place(session, &taking->place);
        taking->checkpoint = session->durable.checkpoint;
        return 0;
    }
    if (taking->is_step && is_saved(taking)) {
        taking->checkpoint = session->durable.checkpoint; /* so no copy is needed */
        return 0;
    }
    r = copy_make(taking, err);
    if (r != SNP_E_UNSUPPORTED || !snp_tier_can(session->policy.place.tier, "snapshot") ||
        !snp_session_is_at_rest(session)) {
        return r;
    }
    (void)snprintf(taking->why, sizeof(taking->why), "%.190s", err->msg);
    if (snp_checkpoint_is_current(session)) {
        taking->checkpoint = session->durable.checkpoint;
        return 0;
    }
    snp_checkpoint_make(session, snp_await_end, &made);
    SNP_TRY(await_beside(session, &made, &report, err));
    taking->checkpoint = (uint64_t)snp_json_int(report, "checkpoint", 0);
    return 0;
}

static int take(struct snapshot_taking *taking, struct snp_err *err)
{
    struct snp_session *session = taking->session;
    struct snp_store_wait row = {
        .run = run_row, .arg = taking, .durability = SNP_DURABILITY_SYNCED};

    SNP_TRY(snp_turn_await(session, NULL, err));
    taking->cell = session->cells;
    taking->epoch = session->epoch;
    taking->begun_us = snp_now_us();
    taking->created_us = snp_wall_us();
    SNP_TRY(state_take(taking, err));
    snp_store_start(session->server->store, &row);
    if (await_beside(session, &row.wait, NULL, err) < 0) {
        if (taking->has_copy) {
            snp_memory_remove(session, taking->id);
        }
        return err->code;
    }
    return row_written(taking, err);
}

/* Names of snapshots follow the rules for session names. */
static int name_check(const char *name, struct snp_err *err)
{
    static const char session[] = "a session name";
    struct snp_err why;
    int r = snp_session_name_check(name, &why);

    if (r < 0) {
        SNP_ASSERT(snp_has_prefix(why.msg, session));
        return snp_fail(err, r, "a snapshot name%.200s", why.msg + strlen(session));
    }
    return 0;
}

static int request_read(const struct snp_work *work,
                        struct snapshot_taking *taking,
                        struct snp_err *err)
{
    struct snp_snapshot_request asked;
    const char *name;

    snp_record_read(work->head, &snp_snapshot_request_form, &asked);
    name = asked.name;
    if (taking->session->name[0] == '\0') {
        return snp_fail(err, SNP_E_INVALID,
                        "an unnamed session ends with its call; give the session a name");
    }
    if (name != NULL && snp_session_is_id(name)) {
        return snp_fail(err, SNP_E_INVALID, "'%s' looks like an id; give another name", name);
    }
    SNP_TRY(name == NULL ? 0 : name_check(name, err));
    SNP_TRY(asked.run == NULL ? 0 : name_check(asked.run, err));
    if (snp_random_id(taking->id) < 0) {
        return snp_fail_sys(err, errno, "random id");
    }
    taking->wants_disk = asked.wait;
    memcpy(taking->session_id, taking->session->id, sizeof(taking->session_id));
    (void)snprintf(taking->name, sizeof(taking->name), "%s", name == NULL ? "" : name);
    if (asked.run != NULL) {
        taking->is_step = true;
        (void)snprintf(taking->name, sizeof(taking->name), SNP_STEP_PREFIX "%s:%" PRIu64, asked.run,
                       asked.step);
    }
    return 0;
}

static int run_snapshot(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    snp_cleanup(taking_done) struct snapshot_taking taking = {.session = work->session};

    snp_session_ref(taking.session);
    SNP_TRY(request_read(work, &taking, err));
    SNP_TRY(take(&taking, err));
    answer(request, &taking);
    return 0;
}

void snp_run_snapshot(const struct snp_work *work)
{
    snp_work_start(work, run_snapshot);
}

/* snapshots.list ------------------------------------------------------------------------------- */

struct snapshot_list {
    char session[SNP_SESSION_ID_LEN + 1];
    json_t *rows;  /* owned; made by the store's thread */
    json_t *heads; /* owned; made by the store's thread */
    size_t bytes;  /* of rows, about */
    /* The prefix of the run's snapshot names; "" = of no run. */
    char steps[SNP_SESSION_NAME_MAX + 1];
    char head[SNP_SESSION_ID_LEN + 1];
};

static void listing_done(struct snapshot_list *listing)
{
    json_decref(listing->rows);
    json_decref(listing->heads);
}

/* The losses, as many as a list has room for. */
static json_t *lost_json(const char *text)
{
    json_t *lost = text == NULL ? json_array() : json_loads(text, 0, NULL);

    while (json_array_size(lost) > LOST_SHOWN) {
        (void)json_array_remove(lost, json_array_size(lost) - 1);
    }
    return lost;
}

static int snapshot_note(const struct snp_journal_snapshot *row, void *arg, struct snp_err *err)
{
    struct snapshot_list *listing = arg;
    snp_autojson json_t *lost = NULL;
    const char *name = row->name == NULL ? "" : row->name;
    bool is_step = snp_has_prefix(name, SNP_STEP_PREFIX);
    json_t *json;

    if (listing->steps[0] == '\0' ? is_step : !snp_has_prefix(name, listing->steps)) {
        return 0;
    }
    listing->bytes += 400 + (row->lost == NULL ? 0 : strlen(row->lost));
    if (listing->bytes > LIST_BYTES_MAX) {
        return snp_fail(err, SNP_E_LIMIT,
                        "too many snapshots for one list; list those of one session");
    }
    lost = lost_json(row->lost);
    json = SNP_WRITE(snp_snapshot_row, .id = row->id, .name = row->name, .session = row->session,
                     .session_name = row->session_name, .parent = row->parent, .cell = row->cell,
                     .epoch = row->epoch, .created = (double)row->created_us / US_PER_S,
                     .bytes = row->bytes, .lost = lost);
    if (row->checkpoint != 0 && row->is_usable) {
        /* For places_add, which reports it in `where`. */
        (void)json_object_set_new(json, "on_disk", json_true());
    }
    return json_array_append_new(listing->rows, json) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static int head_note(const struct snp_journal_session *row, void *arg, struct snp_err *err)
{
    struct snapshot_list *listing = arg;

    if (row->head_snapshot == NULL) {
        return 0;
    }
    if (strcmp(row->id, listing->session) == 0) {
        (void)snprintf(listing->head, sizeof(listing->head), "%s", row->head_snapshot);
    }
    return json_array_append_new(listing->heads,
                                 SNP_WRITE(snp_snapshot_head, .session = row->id, .name = row->name,
                                           .snapshot = row->head_snapshot)) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static int run_list(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snapshot_list *listing = arg;

    json_decref(listing->rows);
    json_decref(listing->heads);
    listing->rows = json_array();
    listing->heads = json_array();
    listing->bytes = 0;
    SNP_TRY(snp_journal_snapshot_each(tx, listing->session[0] == '\0' ? NULL : listing->session,
                                      snapshot_note, listing, err));
    return snp_journal_session_each(tx, head_note, listing, err);
}

/* Only the loop knows which copies are in memory. */
static int places_add(struct snp_server *server, json_t *row)
{
    struct snp_session *session = snp_sessions_find(server, snp_json_str(row, "session", ""));
    bool in_memory =
        session != NULL && snp_memory_find(session, snp_json_str(row, "id", "")) != NULL;
    int r = json_object_set_new(row, "where",
                                places_json(in_memory, snp_json_bool(row, "on_disk", false)));

    (void)json_object_del(row, "on_disk");
    return r;
}

static int run_snapshots_list(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    const char *name = snp_json_str(work->head, "session", NULL);
    const char *run = snp_json_str(work->head, "run", NULL);
    snp_cleanup(listing_done) struct snapshot_list listing = {0};
    struct snp_session *session = NULL;
    size_t i;
    json_t *row;

    SNP_TRY(name == NULL ? 0 : snp_sessions_meant(request->server, name, &session, err));
    if (session != NULL) {
        memcpy(listing.session, session->id, sizeof(listing.session));
    }
    if (run != NULL) {
        (void)snprintf(listing.steps, sizeof(listing.steps), SNP_STEP_PREFIX "%s:", run);
    }
    SNP_TRY(snp_store_await(request->server->store, run_list, &listing, err));
    json_array_foreach(listing.rows, i, row)
    {
        SNP_TRY_MEMORY(places_add(request->server, row) == 0, err);
    }
    snp_request_answer(request, SNP_WRITE(snp_snapshots_list_answer, .snapshots = listing.rows,
                                          .head = listing.head[0] == '\0' ? NULL : listing.head,
                                          .heads = listing.heads));
    return 0;
}

void snp_run_snapshots_list(const struct snp_work *work)
{
    snp_work_start(work, run_snapshots_list);
}

/* snapshots.remove ----------------------------------------------------------------------------- */

struct snapshot_removal {
    char ref[SNP_CAP_REF + 1];
    char id[SNP_SESSION_ID_LEN + 1];
    char session[SNP_SESSION_ID_LEN + 1];
};

static int run_remove(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct snapshot_removal *removal = arg;
    struct snp_journal_snapshot row;

    SNP_TRY(snp_journal_snapshot_get(tx, removal->ref, &row, err));
    (void)snprintf(removal->id, sizeof(removal->id), "%s", row.id);
    (void)snprintf(removal->session, sizeof(removal->session), "%s", row.session);
    return snp_journal_snapshot_remove(tx, removal->id, err);
}

static int run_snapshots_remove(const struct snp_work *work, struct snp_err *err)
{
    struct snp_request *request = work->request;
    struct snapshot_removal removal = {0};
    struct snp_session *session;

    (void)snprintf(removal.ref, sizeof(removal.ref), "%s",
                   snp_json_str(work->head, "snapshot", ""));
    SNP_TRY(snp_store_await_synced(request->server->store, run_remove, &removal, err));
    session = snp_sessions_find(request->server, removal.session);
    if (session != NULL) {
        snp_memory_remove(session, removal.id);
    }
    snp_request_answer(request, SNP_WRITE(snp_snapshots_remove_answer, .removed = removal.id));
    return 0;
}

void snp_run_snapshots_remove(const struct snp_work *work)
{
    snp_work_start(work, run_snapshots_remove);
}
