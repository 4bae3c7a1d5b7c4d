/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   sweep -> RESTORE (if the snapshot has files), repeat later PUTs -> WAKE -> done
 *
 * One at a time. The old interpreter's stream is closed before the new one is woken, so that late
 * frames of the old one are not taken for the new one's.
 */
#include "tier/engine/snapshot/rollback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "guest/pid1/wire.h"
#include "tier/engine/answer.h"
#include "tier/engine/inside.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/snapshot/puts.h"
#include "tier/engine/snapshot/snapshot.h"
#include "tier/engine/supervisor.h"
#include "wire/tier.h"

/* Sweeping ---------------------------------------------------------------------------------- */

void snp_return_sweep(struct snp_sandbox *s, snp_swept_cb cb)
{
    s->swept_cb = cb;
    s->supervisor->ops->sweep(s);
}

/* Waking ------------------------------------------------------------------------------------ */

/* Ask for an interpreter of that snapshot, on a new stream. */
static int wake(struct snp_sandbox *s, uint32_t number, snp_init_cb cb, struct snp_err *err)
{
    snp_autoclose int fd = -1;
    const struct snp_init_wake raw = {.number = number};
    int r = snp_sandbox_new_guest(s, &fd, err);

    if (r < 0) {
        return r;
    }
    s->is_waking = true;
    s->has_interpreter = true;
    snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_WAKE, &raw, sizeof(raw), fd), cb, s);
    if (number == 0) {
        snp_sandbox_start_guest(s); /* other interpreters are started elsewhere */
    }
    return 0;
}

static void on_pristine_woken(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_sandbox *s = data;

    (void)bytes;
    (void)n;
    s->is_waking = false;
    if (eno != 0 && eno != EPIPE) {
        snp_sandbox_kill(
            s, "the interpreter could not be started again (its template process is gone)");
    }
}

static void on_standby_woken(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_sandbox *s = data;

    (void)bytes;
    (void)n;
    s->is_waking = false;
    if (eno != 0 && eno != EPIPE) { /* the next comes from the pristine copy, if allowed */
        snp_sandbox_drop_interpreter(s);
        s->has_interpreter = false;
        s->was_restarted = true;
        snp_snapshot_spent(s, false);
        snp_return_check(s);
    }
}

/* The snapshot of the state after the last cell; NULL = none. */
static const struct snp_tier_snapshot *standby_of(struct snp_sandbox *s)
{
    const struct snp_tier_snapshots *bs = &s->snapshots;
    const struct snp_tier_snapshot *b =
        bs->has_standby && !bs->is_past ? snp_snapshot_find(s, bs->standby) : NULL;

    return b != NULL && b->number != 0 && b->pid > 0 ? b : NULL;
}

static const char lost_between[] = "the interpreter ended between cells and had no standby";

int snp_return_restart(struct snp_sandbox *s, struct snp_err *err)
{
    const struct snp_tier_snapshot *b = standby_of(s);

    if (b != NULL) {
        int r = wake(s, b->number, on_standby_woken, err);
        s->was_restarted = s->was_restarted && r < 0;
        return r;
    }
    if (s->holds_state && s->spec.is_lasting) {
        snp_sandbox_kill(s, lost_between);
        return snp_fail(err, SNP_E_NOT_FOUND,
                        "the cell was not run: %s; the next cell continues from the "
                        "checkpoint, or asks how to continue",
                        lost_between);
    }
    s->was_restarted = s->was_lost;
    return wake(s, 0, on_pristine_woken, err);
}

void snp_return_check(struct snp_sandbox *s)
{
    if (s->has_interpreter || s->state != SNP_SANDBOX_READY) {
        return;
    }
    if (s->is_pooled) {
        snp_sandbox_kill(s, "its interpreter has ended");
    } else if (s->holds_state && s->spec.is_lasting && !s->snapshots.making.is_on &&
               s->swept_cb == NULL && !s->returning.is_on && s->rollback.id == 0 &&
               standby_of(s) == NULL) {
        snp_sandbox_kill(s, lost_between);
    }
}

/* Rolling back ------------------------------------------------------------------------------ */

static void returned(struct snp_sandbox *s, bool ok)
{
    struct snp_return done = s->returning;

    s->returning = (struct snp_return){0};
    s->is_unwritten = false;
    if (ok) {
        s->was_restarted = false;
        snp_snapshot_set_standby(s, done.number);
        if (s->puts.n > 0) {
            snp_snapshot_stale(s);
        }
    } else {
        snp_sandbox_drop_interpreter(s);
        s->has_interpreter = false;
        s->was_restarted = true;
        s->was_lost = true; /* reported by the cell or the rollback */
        s->holds_state = false;
    }
    if (done.cb != NULL) {
        done.cb(done.data, ok);
    }
    if (s->cell == NULL) {
        snp_puts_forget(s);
    }
}

static void on_return_woken(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_sandbox *s = data;

    (void)bytes;
    (void)n;
    s->is_waking = false;
    if (eno != 0 && eno != EPIPE) {
        snp_log(SNP_LOG_ERROR, "wake", "session=%s snapshot=%u error=%s", s->spec.id,
                (unsigned)s->returning.number, strerrordesc_np(eno));
    }
    if (eno != EPIPE) {
        returned(s, eno == 0);
    }
}

/* The workspace is restored: wake the interpreter. */
static void wake_returned(struct snp_sandbox *s)
{
    struct snp_err err;

    if (!s->returning.has_interpreter || wake(s, s->returning.number, on_return_woken, &err) < 0) {
        returned(s, false);
    }
}

static void on_restored(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_sandbox *s = data;

    (void)bytes;
    (void)n;
    if (eno == EPIPE) {
        return;
    }
    if (eno != 0) {
        snp_log(SNP_LOG_ERROR, "restore", "session=%s snapshot=%u error=%s", s->spec.id,
                (unsigned)s->returning.number, strerrordesc_np(eno));
        returned(s, false);
    } else if (s->returning.has_files) {
        snp_puts_again(s, wake_returned);
    } else {
        wake_returned(s);
    }
}

void snp_return_to(struct snp_sandbox *s, uint32_t number, snp_return_cb cb, void *data)
{
    const struct snp_tier_snapshot *b = snp_snapshot_find(s, number);

    s->returning = (struct snp_return){.is_on = true,
                                       .number = number,
                                       .has_files = b != NULL && b->has_files,
                                       .has_interpreter = b != NULL && b->pid >= 0,
                                       .cb = cb,
                                       .data = data};
    snp_sandbox_drop_interpreter(s);
    if (s->rollback.id != 0) {
        snp_puts_forget(s); /* a rollback to a state before them */
    }
    if (s->returning.has_files) {
        snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_RESTORE, &number, sizeof(number), -1), on_restored,
                             s);
    } else {
        on_restored(s, 0, NULL, 0);
    }
}

void snp_return_forget(struct snp_sandbox *s, const void *data)
{
    if (s->returning.data == data) {
        s->returning.cb = NULL;
    }
}

/* Methods ----------------------------------------------------------------------------------- */

struct snapshot {
    struct snp_sandbox *sandbox;
    uint32_t id;
    uint64_t start_us;
};

static void snapshot_fail(const struct snp_sandbox *s, uint32_t id)
{
    const json_t *notes = s->snapshots.guarantee.notes;
    const char *why = json_string_value(json_array_get(notes, 0));
    struct snp_err err;

    (void)snp_fail(&err, s->state == SNP_SANDBOX_READY ? SNP_E_UNSUPPORTED : SNP_E_PEER,
                   "no snapshot can be made: %.400s",
                   s->state != SNP_SANDBOX_READY ? "the session has ended"
                   : why == NULL                 ? "the session cannot be copied now"
                                                 : why);
    snp_answer_error(s->supervisor, id, &err);
}

static void snapshot_ready(void *data)
{
    snp_autofree struct snapshot *wanted = data;
    struct snp_sandbox *s = wanted->sandbox;
    struct snp_tier_snapshots *bs = &s->snapshots;
    struct snp_tier_snapshot *b;
    snp_autojson json_t *answer = NULL;

    if (s->state == SNP_SANDBOX_READY && s->cell == NULL &&
        !snp_snapshot_prepare(s, snapshot_ready, wanted)) {
        wanted = NULL; /* waits again: others were served first */
        return;
    }
    b = bs->has_standby ? snp_snapshot_find(s, bs->standby) : NULL;
    if (s->state != SNP_SANDBOX_READY || b == NULL || b->pid < 0 || !b->has_files) {
        snapshot_fail(s, wanted->id);
        return;
    }
    b->is_permanent = true;
    answer = SNP_WRITE(snp_tier_snapshot_answer, .branch = b->number,
                       .us = snp_now_us() - wanted->start_us);
    snp_answer_response(s->supervisor, wanted->id, answer, NULL, 0);
}

static unsigned n_permanent(const struct snp_sandbox *s)
{
    unsigned n = 0;

    for (size_t i = 0; i < s->snapshots.n; i++) {
        n += s->snapshots.at[i].is_permanent ? 1 : 0;
    }
    return n;
}

int snp_method_snapshot(struct snp_sandbox *s, uint32_t id, struct snp_err *err)
{
    struct snapshot *wanted;

    if (s->cell != NULL || s->returning.is_on) {
        return snp_fail(err, SNP_E_LIMIT, "the session is running a cell");
    }
    if (!s->has_pristine) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "the session ends with its call; only named sessions have snapshots");
    }
    if (n_permanent(s) > SNP_SNAPSHOTS_MAX) { /* the pristine copy included */
        return snp_fail(err, SNP_E_LIMIT,
                        "the session has reached its limit of %d snapshots in memory; remove one",
                        SNP_SNAPSHOTS_MAX);
    }
    wanted = malloc(sizeof(*wanted));
    if (wanted == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *wanted = (struct snapshot){.sandbox = s, .id = id, .start_us = snp_now_us()};
    if (snp_snapshot_prepare(s, snapshot_ready, wanted)) {
        snapshot_ready(wanted);
    }
    return 0;
}

static void rollback_answer(struct snp_sandbox *s, bool ok)
{
    struct snp_rollback done = s->rollback;
    struct snp_err err;

    s->rollback = (struct snp_rollback){0};
    s->epoch = done.epoch;
    if (ok) {
        snp_autojson json_t *answer =
            SNP_WRITE(snp_tier_rollback_answer, .us = snp_now_us() - done.start_us);
        snp_answer_response(s->supervisor, done.id, answer, NULL, 0);
        return;
    }
    (void)snp_fail(&err, SNP_E_INTERNAL,
                   "the rollback failed: the session's variables are lost, and the next cell "
                   "starts with a fresh interpreter");
    snp_answer_error(s->supervisor, done.id, &err);
}

static void on_rolled_back(void *data, bool ok)
{
    rollback_answer(data, ok);
}

static void on_rollback_swept(struct snp_sandbox *s, int eno)
{
    if (eno == 0) {
        snp_return_to(s, s->rollback.number, on_rolled_back, s);
    } else if (eno != EPIPE) {
        snp_sandbox_kill(s, "processes of the sandbox could not be ended");
    }
}

static void rollback_begin(void *data)
{
    struct snp_sandbox *s = data;

    if (s->rollback.id == 0 || s->state != SNP_SANDBOX_READY) {
        return;
    }
    if (snp_snapshot_find(s, s->rollback.number) == NULL) { /* dropped while this waited */
        rollback_answer(s, false);
    } else if (s->cell == NULL) {
        snp_return_sweep(s, on_rollback_swept);
    } else {
        s->supervisor->events->abandon(s, s->rollback.number);
    }
}

void snp_rollback_cell_ended(struct snp_sandbox *s, bool is_back)
{
    if (s->rollback.id == 0) {
        return;
    }
    if (is_back) {
        rollback_answer(s, true);
    } else {
        rollback_begin(s); /* the cell ended on its own first */
    }
}

int snp_method_rollback(
    struct snp_sandbox *s, uint32_t id, uint32_t number, uint64_t epoch, struct snp_err *err)
{
    const struct snp_tier_snapshot *b = snp_snapshot_find(s, number);

    if (b == NULL || b->pid < 0 || !b->has_files) {
        return snp_fail(
            err, SNP_E_NOT_FOUND,
            "the session has no snapshot %u in memory; it may have been dropped to free memory",
            (unsigned)number);
    }
    if (s->rollback.id != 0) {
        return snp_fail(err, SNP_E_LIMIT, "the session is being rolled back");
    }
    s->rollback =
        (struct snp_rollback){.id = id, .number = number, .epoch = epoch, .start_us = snp_now_us()};
    if (s->returning.is_on) {
        return 0; /* a cell is rolling back, and begins this at its end */
    }
    if (!s->snapshots.making.is_on || snp_snapshot_prepare(s, rollback_begin, s)) {
        rollback_begin(s);
    }
    return 0;
}

int snp_method_memory(struct snp_sandbox *s, uint32_t id, struct snp_err *err)
{
    const struct snp_tier_snapshots *bs = &s->snapshots;
    snp_autojson json_t *numbers = json_array();
    snp_autojson json_t *answer = NULL;
    struct snp_copies_usage usage = {0};
    pid_t pids[SNP_SNAPSHOTS_MAX + 1];
    size_t n = 0;
    int r = 0;

    for (size_t i = 0; i < bs->n && n < SNP_ARRAY_LEN(pids); i++) {
        const struct snp_tier_snapshot *b = &bs->at[i];

        if (b->is_permanent && b->number != 0 && b->pid >= 0) {
            pids[n++] = b->pid;
            r |= json_array_append_new(numbers, json_integer((json_int_t)b->number));
        }
    }
    s->supervisor->ops->copies_usage(s, pids, n, &usage);
    answer = SNP_WRITE(snp_tier_memory_answer, .bytes = usage.bytes,
                       .copies_bytes = usage.copies_bytes, .branches = numbers);
    if (r < 0 || answer == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    snp_answer_response(s->supervisor, id, answer, NULL, 0);
    return 0;
}

int snp_method_drop(struct snp_sandbox *s, uint32_t id, uint32_t number, struct snp_err *err)
{
    struct snp_tier_snapshot *b = snp_snapshot_find(s, number);

    if (b == NULL) {
        return snp_fail(err, SNP_E_NOT_FOUND, "the session has no snapshot %u in memory",
                        (unsigned)number);
    }
    b->is_permanent = number == 0;
    snp_snapshot_drop(s, number);
    snp_answer_response(s->supervisor, id, NULL, NULL, 0);
    return 0;
}

void snp_rollback_sandbox_ended(struct snp_sandbox *s)
{
    struct snp_err err;

    if (s->rollback.id != 0) {
        (void)snp_fail(&err, SNP_E_PEER, "the session ended first");
        snp_answer_error(s->supervisor, s->rollback.id, &err);
        s->rollback.id = 0;
    }
}
