/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session->live.copies has the newest first. An entry whose executor is gone leaves the list once
 * it is unused.
 */
#include "daemon/save/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire/session.h"
#include "base/wire/snapshot.h"
#include "daemon/co.h"
#include "daemon/save/checkpoint.h"
#include "daemon/server.h"
#include "daemon/session/executor.h"
#include "daemon/session/table.h"
#include "daemon/tier.h"
#include "store/journal.h"
#include "wire/tier.h"

enum {
    TRIES_MAX = 3,     /* attempts to write a copy */
    MEASURED_MAX = 64, /* copies in one answer */
};

static bool is_alive(const struct snp_session *session, const struct snp_memory_copy *copy)
{
    return session->live.executor != NULL && session->live.executor->state == SNP_EXECUTOR_OPEN &&
           strcmp(session->live.executor->id, copy->executor) == 0;
}

void snp_memory_forget(struct snp_session *session)
{
    while (session->live.copies != NULL) {
        struct snp_memory_copy *copy = session->live.copies;

        session->live.copies = copy->next;
        free(copy);
    }
}

/* Waiting for one ------------------------------------------------------------------------------ */

/* A coroutine waits until a snapshot is on disk or has failed. */
struct snp_spill_waiter {
    struct snp_spill_waiter *next;
    char snapshot[SNP_SESSION_ID_LEN + 1];
    struct snp_await wait;
};

static void waiters_call(struct snp_server *server, const char *snapshot)
{
    struct snp_spill_waiter **at = &server->spill_waiters;
    struct snp_spill_waiter *called = NULL;

    while (*at != NULL) {
        struct snp_spill_waiter *waiter = *at;

        if (strcmp(waiter->snapshot, snapshot) == 0) {
            *at = waiter->next;
            waiter->next = called;
            called = waiter;
        } else {
            at = &waiter->next;
        }
    }
    while (called != NULL) {
        struct snp_spill_waiter *waiter = called;

        called = waiter->next;
        snp_await_ended(&waiter->wait, NULL);
    }
}

/* The copy that is not on disk; NULL = none. */
static struct snp_memory_copy *unsaved_find(struct snp_session *session, const char *snapshot)
{
    struct snp_memory_copy *b = session == NULL ? NULL : session->live.copies;

    while (b != NULL && (b->is_on_disk || strcmp(b->snapshot, snapshot) != 0)) {
        b = b->next;
    }
    return b;
}

bool snp_memory_await(struct snp_server *server, const char *snapshot, bool again)
{
    struct snp_spill_waiter **first = &server->spill_waiters;
    struct snp_spill_waiter waiter = {0};
    struct snp_session *session = NULL;
    struct snp_memory_copy *b = NULL;
    struct snp_err ignored;

    for (size_t i = 0; i < server->sessions.n_slots && b == NULL; i++) {
        session = server->sessions.slots[i];
        b = unsaved_find(session, snapshot);
    }
    if (b == NULL || (b->is_failed && (!again || !is_alive(session, b) || b->is_doomed))) {
        return false;
    }
    memcpy(waiter.snapshot, b->snapshot, sizeof(waiter.snapshot));
    waiter.next = *first;
    *first = &waiter;
    if (b->is_failed) {
        b->is_failed = false;
        b->tries = 0;
        snp_memory_spill(session);
    }
    return snp_await(&waiter.wait, NULL, &ignored) == 0;
}

/* A copy to be written to disk. */
static const struct snp_memory_copy *leaving_find(const struct snp_session *session)
{
    const struct snp_memory_copy *b = session->live.copies;

    while (b != NULL && (!is_alive(session, b) || b->is_on_disk || b->is_failed || b->is_doomed)) {
        b = b->next;
    }
    return b;
}

bool snp_memory_is_leaving(const struct snp_session *session)
{
    return leaving_find(session) != NULL;
}

bool snp_memory_await_any(struct snp_session *session)
{
    const struct snp_memory_copy *b = leaving_find(session);

    return b != NULL && snp_memory_await(session->server, b->snapshot, false);
}

void snp_memory_retry(struct snp_session *session)
{
    for (struct snp_memory_copy *b = session->live.copies; b != NULL; b = b->next) {
        if (b->is_failed) {
            b->is_failed = false;
            b->tries = 0;
        }
    }
    snp_memory_spill(session);
}

/* Lost before it was on disk ------------------------------------------------------------------- */

struct loss {
    struct snp_server *server; /* borrowed */
    char snapshot[SNP_SESSION_ID_LEN + 1];
    char session[SNP_SESSION_NAME_MAX + 1];
    uint64_t now_us;
    char *text; /* owned; written by the store's thread: the losses; NULL = none */
};

/*
 * A row without a checkpoint and a copy is no snapshot. ret_text: may be NULL; owned by the caller.
 */
static int row_remove(
    struct snp_tx *tx, const char *id, uint64_t now_us, char **ret_text, struct snp_err *err)
{
    struct snp_journal_snapshot row;
    snp_autofree char *text = NULL;
    snp_autofree char *session = NULL;
    bool is_step;
    struct snp_journal_event event = {.at_us = now_us, .kind = "snapshot_lost"};
    int r = snp_journal_snapshot_get(tx, id, &row, err);

    if (r == SNP_E_NOT_FOUND || (r == 0 && row.checkpoint != 0)) {
        return 0;
    }
    SNP_TRY(r);
    text = snp_format("snapshot %s@%s is lost: it was in memory only, and its sandbox ended",
                      row.session_name == NULL ? row.session : row.session_name,
                      row.name == NULL ? row.id : row.name);
    session = strdup(row.session);
    SNP_TRY_MEMORY(text != NULL && session != NULL, err);
    event.session = session;
    event.text = text;
    is_step = row.name != NULL && snp_has_prefix(row.name, SNP_STEP_PREFIX);
    r = snp_journal_snapshot_remove(tx, id, err);
    r = r < 0 || is_step ? r : snp_journal_event_add(tx, &event, err); /* `back` reports it */
    if (r == 0 && !is_step && ret_text != NULL) {
        free(*ret_text); /* of an earlier attempt */
        *ret_text = SNP_TAKE_PTR(text);
    }
    return r;
}

static int run_loss(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct loss *loss = arg;

    return row_remove(tx, loss->snapshot, loss->now_us, &loss->text, err);
}

/* Also tell the request for the daemon's end. */
static void loss_noted(void *arg, const struct snp_err *err)
{
    struct loss *loss = arg;

    if (err->code != SNP_OK) {
        snp_log(SNP_LOG_WARN, "journal", "error=\"%s\"", err->msg);
    }
    if (loss->server->end_lost != NULL && loss->text != NULL) {
        snp_autojson json_t *none = json_array();

        (void)json_array_append_new(loss->server->end_lost,
                                    SNP_WRITE(snp_shutdown_row, .session = loss->session,
                                              .reason = loss->text, .lost = none));
    }
    free(loss->text);
    free(loss);
}

static void loss_note(const struct snp_session *session, const char *snapshot)
{
    struct snp_server *server = session->server;
    struct loss *loss = calloc(1, sizeof(*loss));

    if (loss == NULL) {
        return; /* the next start finds it */
    }
    loss->server = server;
    memcpy(loss->snapshot, snapshot, sizeof(loss->snapshot));
    memcpy(loss->session, session->name, sizeof(loss->session));
    loss->now_us = snp_wall_us();
    SNP_STORE_DO(server->store, .run = run_loss, .done = loss_noted, .arg = loss,
                 .durability = SNP_DURABILITY_SYNCED);
}

/* Ids of snapshots without a checkpoint, "ID\n" each. */
static int unsaved_note(const struct snp_journal_snapshot *row, void *arg, struct snp_err *err)
{
    if (row->checkpoint == 0 && snp_buf_addf(arg, "%s\n", row->id) < 0) {
        return snp_fail(err, SNP_E_LIMIT, "too many snapshots");
    }
    return 0;
}

int snp_memory_recover(struct snp_tx *tx, uint64_t now_us, struct snp_err *err)
{
    enum {
        LINE = SNP_SESSION_ID_LEN + 1,
        LINES_MAX = 1000 * 1000,
    };
    snp_autobuf struct snp_buf ids = {0};
    int r;

    snp_buf_init(&ids, (size_t)LINE * LINES_MAX);
    r = snp_journal_snapshot_each(tx, NULL, unsaved_note, &ids, err);
    while (r == 0 && ids.len >= LINE) {
        char id[LINE];

        memcpy(id, snp_buf_bytes(&ids), LINE - 1);
        id[LINE - 1] = '\0';
        snp_buf_consume(&ids, LINE);
        r = row_remove(tx, id, now_us, NULL, err);
    }
    return r;
}

/* The list ------------------------------------------------------------------------------------- */

/* Remove copies that went with an executor, and doomed ones; then report them. */
void snp_memory_check(struct snp_session *session)
{
    struct snp_server *server = session->server;
    struct snp_memory_copy **at = &session->live.copies;
    struct snp_memory_copy *gone = NULL;

    while (*at != NULL) {
        struct snp_memory_copy *copy = *at;
        bool alive = is_alive(session, copy);

        if (copy->users > 0 || (alive && !copy->is_doomed)) {
            at = &copy->next;
            continue;
        }
        if (alive) {
            snp_memory_drop(session->live.executor, copy->number);
        }
        *at = copy->next;
        copy->next = gone;
        gone = copy;
    }
    while (gone != NULL) {
        struct snp_memory_copy *copy = gone;

        gone = copy->next;
        if (copy->has_row && !copy->is_on_disk && server->store != NULL) {
            loss_note(session, copy->snapshot);
        }
        waiters_call(server, copy->snapshot);
        free(copy);
    }
}

struct snp_memory_copy *snp_memory_find(struct snp_session *session, const char *snapshot)
{
    for (struct snp_memory_copy *b = session->live.copies; b != NULL; b = b->next) {
        if (is_alive(session, b) && !b->is_doomed && strcmp(b->snapshot, snapshot) == 0) {
            return b;
        }
    }
    return NULL;
}

struct snp_memory_copy *snp_memory_add(struct snp_session *session,
                                       const char *snapshot,
                                       uint32_t number)
{
    struct snp_memory_copy *copy = calloc(1, sizeof(*copy));

    if (copy == NULL) {
        return NULL;
    }
    memcpy(copy->snapshot, snapshot, sizeof(copy->snapshot));
    memcpy(copy->executor, session->live.executor->id, sizeof(copy->executor));
    copy->number = number;
    copy->epoch = session->epoch;
    copy->cell = session->cells;
    copy->next = session->live.copies;
    session->live.copies = copy;
    return copy;
}

void snp_memory_remove(struct snp_session *session, const char *snapshot)
{
    for (struct snp_memory_copy *b = session->live.copies; b != NULL; b = b->next) {
        if (strcmp(b->snapshot, snapshot) == 0) {
            b->is_doomed = true;
            b->has_row = false;
        }
    }
    snp_memory_check(session);
}

/* Bounds --------------------------------------------------------------------------------------- */

static unsigned copies_count(const struct snp_session *session)
{
    unsigned n = 0;

    for (const struct snp_memory_copy *b = session->live.copies; b != NULL; b = b->next) {
        n += b->is_doomed ? 0 : 1;
    }
    return n;
}

int snp_memory_room(struct snp_session *session, struct snp_err *err)
{
    unsigned n;

    snp_memory_check(session);
    n = copies_count(session);
    /* Copies beyond the bound go as soon as they are on disk. */
    if (n < (unsigned)SNP_CAP_COPIES_UNSAVED) {
        return 0;
    }
    return snp_fail(
        err, SNP_E_LIMIT,
        "%u snapshots of session %s are not on disk yet (limit %d); try again in a moment, or "
        "remove some",
        n, session->name, SNP_CAP_COPIES_UNSAVED);
}

/* Bytes that a session's snapshots in memory may hold exclusively. */
static uint64_t bytes_max(const struct snp_session *session)
{
    uint64_t given = session->server->options.snapshots_bytes;

    return given != 0 ? given
                      : session->policy.limits.value[SNP_LIMIT_MEMORY] / SNP_CAP_COPIES_SHARE;
}

/* Evict the oldest copy that is on disk; false: there is none. */
static bool oldest_evict(struct snp_session *session, const char *why)
{
    struct snp_memory_copy *oldest = NULL;

    for (struct snp_memory_copy *b = session->live.copies; b != NULL; b = b->next) {
        oldest = b->is_on_disk && !b->is_doomed && b->users == 0 ? b : oldest;
    }
    if (oldest == NULL) {
        return false;
    }
    snp_log(SNP_LOG_INFO, "snapshot-evicted", "session=%s snapshot=%s why=%s", session->id,
            oldest->snapshot, why);
    oldest->is_doomed = true;
    return true;
}

static void copies_bound(struct snp_session *session)
{
    unsigned n = copies_count(session);

    while (n > session->server->options.snapshots_max && oldest_evict(session, "number")) {
        n--;
    }
    snp_memory_check(session);
}

/* Measuring ------------------------------------------------------------------------------------ */

struct copy_measurement {
    struct snp_session *session; /* one reference */
    char executor[SNP_SESSION_ID_LEN + 1];
    uint32_t newest; /* number of the newest copy at the request */
};

static bool is_listed(const json_t *numbers, uint32_t number)
{
    for (size_t i = 0; i < json_array_size(numbers); i++) {
        if (json_integer_value(json_array_get(numbers, i)) == (json_int_t)number) {
            return true;
        }
    }
    return false;
}

/* Drop copies that the tier gave up to free memory: they are on disk, or lost. */
static void given_up_note(const struct copy_measurement *measuring, const json_t *numbers)
{
    for (struct snp_memory_copy *b = measuring->session->live.copies; b != NULL; b = b->next) {
        if (strcmp(b->executor, measuring->executor) == 0 && b->number <= measuring->newest &&
            !is_listed(numbers, b->number)) {
            b->is_doomed = true;
        }
    }
}

static void measure_take(const struct copy_measurement *measuring, const json_t *head)
{
    struct snp_session *session = measuring->session;
    size_t n = json_array_size(json_object_get(head, "branches"));
    uint64_t each;

    session->live.measured_bytes = (uint64_t)snp_json_int(head, "bytes", 0);
    session->live.copies_bytes = (uint64_t)snp_json_int(head, "copies_bytes", 0);
    given_up_note(measuring, json_object_get(head, "branches"));
    /*
     * Copies share pages: an equal share for each is a guess, which the next measurement corrects.
     */
    each = n == 0 ? 0 : session->live.copies_bytes / n;
    while (each > 0 && session->live.copies_bytes > bytes_max(session) &&
           oldest_evict(session, "memory")) {
        session->live.copies_bytes -= each;
    }
    snp_memory_check(session);
}

static int measured(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    struct copy_measurement *measuring = ctx;
    struct snp_session *session = measuring->session;

    (void)ret_bad;
    session->live.is_measuring = false;
    session->server->n_measuring--;
    if (answer->head != NULL && session->live.executor != NULL &&
        strcmp(session->live.executor->id, measuring->executor) == 0) {
        measure_take(measuring, answer->head);
    }
    snp_session_unref(session);
    free(measuring);
    return 0;
}

void snp_memory_measure(struct snp_session *session)
{
    struct copy_measurement *measuring;
    struct snp_tier_call call = {.timeout_ms = session->server->options.tier_ms,
                                 .answer = &snp_tier_memory_answer_form,
                                 .done = measured};
    struct snp_err err;

    if (session->live.is_measuring || session->server->n_measuring >= SNP_CAP_MEASURING ||
        session->live.executor == NULL || session->live.executor->state != SNP_EXECUTOR_OPEN ||
        session->name[0] == '\0') {
        return;
    }
    measuring = calloc(1, sizeof(*measuring));
    if (measuring == NULL) {
        return; /* measured again later */
    }
    memcpy(measuring->executor, session->live.executor->id, sizeof(measuring->executor));
    measuring->newest = session->live.copies == NULL ? 0 : session->live.copies->number;
    measuring->session = session;
    call.head = SNP_WRITE(snp_tier_memory_request, .session = session->live.executor->id);
    call.ctx = measuring;
    if (snp_tier_ask(session->live.executor->tier, &call, &err) < 0) {
        snp_log(SNP_LOG_WARN, "measure", "session=%s error=\"%s\"", session->id, err.msg);
        free(measuring);
        return;
    }
    snp_session_ref(session);
    session->live.is_measuring = true;
    session->server->n_measuring++;
}

/* Dropping ------------------------------------------------------------------------------------- */

static int dropped(void *ctx, const struct snp_tier_answer *answer, struct snp_err *ret_bad)
{
    (void)ctx;
    (void)ret_bad;
    if (answer->head == NULL && answer->err->code != SNP_E_PEER &&
        answer->err->code != SNP_E_NOT_FOUND) {
        snp_log(SNP_LOG_WARN, "snapshot-drop", "error=\"%s\"", answer->err->msg);
    }
    return 0;
}

void snp_memory_drop(const struct snp_executor *executor, uint32_t number)
{
    struct snp_tier_call call = {.timeout_ms = executor->server->options.tier_ms, .done = dropped};
    struct snp_err err;

    if (executor->state != SNP_EXECUTOR_OPEN) {
        return;
    }
    call.head = SNP_WRITE(snp_tier_drop_request, .session = executor->id, .branch = number);
    if (snp_tier_ask(executor->tier, &call, &err) < 0) {
        snp_log(SNP_LOG_WARN, "snapshot-drop", "executor=%s error=\"%s\"", executor->id, err.msg);
    }
}

/* To disk -------------------------------------------------------------------------------------- */

struct spill {
    struct snp_session *session;  /* one reference */
    struct snp_memory_copy *copy; /* in use */
};

static void spilled(void *ctx, json_t *report, const struct snp_err *err)
{
    struct spill *spill = ctx;
    struct snp_session *session = spill->session;
    struct snp_memory_copy *copy = spill->copy;
    char snapshot[SNP_SESSION_ID_LEN + 1];

    memcpy(snapshot, copy->snapshot, sizeof(snapshot));
    free(spill);
    copy->users--;
    copy->is_spilling = false;
    copy->is_on_disk = report != NULL;
    copy->is_doomed |= copy->is_step && copy->is_on_disk;
    if (err != NULL) {
        /* Its writer died, or another copy was being written: retry. */
        copy->is_doomed |= err->code == SNP_E_NOT_FOUND; /* evicted: memory was short */
        copy->is_failed = ++copy->tries == TRIES_MAX;
        copy->why = *err;
        snp_log(SNP_LOG_WARN, "snapshot-spill", "session=%s snapshot=%s error=\"%s\"", session->id,
                snapshot, err->msg);
    }
    if (copy->is_on_disk || copy->is_failed) {
        waiters_call(session->server, snapshot);
    }
    snp_memory_check(session);
    copies_bound(session);
    snp_memory_measure(session);
    snp_memory_spill(session);
    snp_session_unref(session);
}

void snp_memory_spill(struct snp_session *session)
{
    struct snp_memory_copy *oldest = NULL;
    struct snp_checkpoint_copy order;
    struct spill *spill;

    for (struct snp_memory_copy *b = session->live.copies; b != NULL; b = b->next) {
        if (b->is_spilling) {
            return; /* its end calls this again */
        }
        oldest =
            is_alive(session, b) && b->has_row && !b->is_on_disk && !b->is_failed && !b->is_doomed
                ? b
                : oldest;
    }
    if (oldest == NULL) {
        return;
    }
    spill = calloc(1, sizeof(*spill));
    if (spill == NULL) {
        return;
    }
    snp_session_ref(session);
    *spill = (struct spill){session, oldest};
    oldest->is_spilling = true;
    oldest->users++;
    order = (struct snp_checkpoint_copy){.number = oldest->number,
                                         .epoch = oldest->epoch,
                                         .cell = oldest->cell,
                                         .effect = oldest->effect,
                                         .snapshot = oldest->snapshot};
    snp_checkpoint_make_copy(session, &order, spilled, spill);
}

void snp_memory_noted(struct snp_session *session,
                      struct snp_memory_copy *copy,
                      uint64_t effect,
                      bool is_on_disk)
{
    char snapshot[SNP_SESSION_ID_LEN + 1];

    memcpy(snapshot, copy->snapshot, sizeof(snapshot));
    copy->has_row = true;
    copy->effect = effect;
    copy->is_on_disk = is_on_disk;
    if (is_on_disk) {
        waiters_call(session->server, snapshot);
    }
    snp_memory_check(session);
    snp_memory_spill(session);
}
