/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After each cell's answer, pid 1 is asked to expect a copy (HOLD), the interpreter to fork one,
 * and pid 1 to copy the files (KEEP). After all three answers the new copy replaces the old one.
 * The next cell waits for this, at most as long as pid 1 does. Making starts shortly after the
 * answer, to leave it the processors, or with the next cell; if cells follow each other closely,
 * with the answer.
 *
 * A copy shares its memory with the interpreter until one of them writes. Its private pages count
 * against the limit; it is dropped before the limit would kill the cell, and no copy is made while
 * memory is short.
 */
#include "tier/engine/snapshot/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/wire/rpc.h"
#include "guest/pid1/wire.h"
#include "tier/engine/cell/guarantee.h"
#include "tier/engine/cell/running.h"
#include "tier/engine/inside.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/snapshot/rollback.h"
#include "tier/engine/snapshot/state.h"
#include "tier/engine/stream/handle.h"
#include "tier/engine/supervisor.h"

enum {
    MAKING_MS = 4000, /* a little above pid 1's timeout */
    AFTER_MS = 2,     /* after a cell, so that its answer has the processors first */
    LEAVE_MS = 10,    /* after a rollback, whose answer waits for a disk */
    WATCH_MS_MIN = 4,
    WATCH_MS_MAX = 200,
    WATCH_SHARE = 20,                           /* checks use at most 1/20 of the time */
    GROWTH = 4 << 20,                           /* bytes that a cell may write in a millisecond */
    OWN_SHARE = 16,                             /* dropping frees at least 1/16 of the limit */
    SHORT_SHARE = 8,                            /* memory is short when less than 1/8 is left */
    FILES_BYTES_MAX = SNP_COPIES_BYTES_MAX / 2, /* of a copied workspace */
    FILES_MAX = 20000,
    NAMES_MAX = 5,
    NAME_CHARS = 200,
};

static struct snp_tier_snapshots *of(struct snp_sandbox *s)
{
    return &s->snapshots;
}

static bool is_wanted(const struct snp_sandbox *s)
{
    return s->spec.is_lasting && s->wants_snapshot;
}

/* Guarantee ------------------------------------------------------------------------------------ */

static json_t *names_text(const json_t *names)
{
    snp_autobuf struct snp_buf text = {0};
    size_t i;
    json_t *name;

    snp_buf_init(&text, (size_t)NAMES_MAX * (NAME_CHARS + 2) * 4);
    json_array_foreach((json_t *)(uintptr_t)names, i, name)
    {
        (void)!snp_buf_adds(&text, i == 0 ? "" : ", ");
        (void)!snp_buf_add(&text, json_string_value(name), json_string_length(name));
    }
    return snp_json_bytes(snp_buf_bytes(&text), text.len);
}

static void note_interpreter(struct snp_guarantee *guarantee, const struct snp_snapshot_making *m)
{
    if (m->others > 0) {
        snp_guarantee_add(
            guarantee, json_sprintf("%u processes run in the background: they end if the cell is "
                                    "killed, and do not come back",
                                    (unsigned)m->others));
    }
    if (json_array_size(m->written) > 0) {
        snp_autojson json_t *names = names_text(m->written);
        snp_guarantee_add(
            guarantee,
            json_sprintf("files are open for writing: what the cell writes to them may stay (%s)",
                         json_string_value(names)));
    }
}

static void note_files(struct snp_guarantee *guarantee, const struct snp_snapshot_making *m)
{
    if ((m->files_flags & SNP_KEEP_LOST) != 0) {
        snp_guarantee_add(
            guarantee,
            json_string("sockets, FIFOs and unreadable files in the workspace are not restored"));
    }
    if (m->files_ok) {
        return;
    }
    if (m->files_errno == EOPNOTSUPP) {
        snp_guarantee_add(guarantee,
                          json_string("files are not copied here: what a cell writes stays"));
    } else if (m->files_errno != 0) {
        snp_guarantee_add(guarantee,
                          json_sprintf("files could not be copied (%s): what the cell writes "
                                       "stays",
                                       strerrordesc_np(m->files_errno)));
    } else if ((m->files_flags & SNP_KEEP_SHORT) != 0) {
        snp_guarantee_add(guarantee,
                          json_string("there is too little memory to copy files: what the cell "
                                      "writes stays, unless the memory limit is raised"));
    } else {
        snp_guarantee_add(guarantee,
                          json_sprintf("the workspace is larger than the limit for copies (%d "
                                       "MiB, %d files): what the cell writes stays",
                                       FILES_BYTES_MAX >> 20, FILES_MAX));
    }
}

/* Room ---------------------------------------------------------------------------------------- */

static bool is_copy(const struct snp_tier_snapshot *b)
{
    return b->number != 0 && b->pid > 0;
}

static unsigned n_copies(const struct snp_tier_snapshots *bs)
{
    unsigned n = bs->making.is_on && bs->making.number != 0 ? 1 : 0;

    for (size_t i = 0; i < bs->n; i++) {
        n += is_copy(&bs->at[i]) ? 1 : 0;
    }
    return n;
}

/*
 * Copies do not count as the code's processes. Memory of a copy that was dropped because memory is
 * short does not count until the copy has ended.
 */
static void make_room(struct snp_sandbox *s)
{
    struct snp_tier_snapshots *bs = of(s);
    const uint64_t *limit = s->spec.limits.value;
    unsigned n = n_copies(bs) + bs->n_dying + (s->transfer.saving != NULL ? 1 : 0);
    uint64_t reserve = bs->n_dying > 0 && bs->is_short ? limit[SNP_LIMIT_MEMORY] / 4 : 0;

    if (s->cgroup == NULL) {
        return;
    }
    if (n != bs->n_allowed &&
        snp_cgroup_set_processes(&s->supervisor->cgroups, s->cgroup,
                                 limit[SNP_LIMIT_PROCESSES] + SNP_OWN_PROCESSES + n) == 0) {
        bs->n_allowed = n;
    }
    if (reserve != bs->has_reserve &&
        snp_cgroup_set_memory(&s->supervisor->cgroups, s->cgroup,
                              limit[SNP_LIMIT_MEMORY] + reserve) == 0) {
        bs->has_reserve = reserve;
    }
}

/* The table ----------------------------------------------------------------------------------- */

struct snp_tier_snapshot *snp_snapshot_find(struct snp_sandbox *s, uint32_t number)
{
    struct snp_tier_snapshots *bs = of(s);

    for (size_t i = 0; i < bs->n; i++) {
        if (bs->at[i].number == number) {
            return &bs->at[i];
        }
    }
    return NULL;
}

static void make_now(struct snp_sandbox *s);

static void on_dropped(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_sandbox *s = data;

    (void)eno;
    (void)bytes;
    (void)n;
    s->snapshots.n_dying--;
    if (eno == EPIPE || s->snapshots.n_dying > 0) {
        return;
    }
    s->snapshots.is_short = false;
    make_room(s);
    if (s->snapshots.making.is_delayed) {
        s->snapshots.making.is_delayed = false;
        make_now(s);
    }
}

static void ask_drop(struct snp_sandbox *s, uint32_t number)
{
    s->snapshots.n_dying++;
    snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_DROP, &number, sizeof(number), -1), on_dropped, s);
}

/* Remove it from the table, and end it. */
static void remove_snapshot(struct snp_sandbox *s, uint32_t number)
{
    struct snp_tier_snapshots *bs = of(s);
    struct snp_tier_snapshot *b = snp_snapshot_find(s, number);

    if (b == NULL || number == 0) {
        return;
    }
    *b = bs->at[--bs->n];
    ask_drop(s, number);
}

void snp_snapshot_drop(struct snp_sandbox *s, uint32_t number)
{
    struct snp_tier_snapshots *bs = of(s);

    const struct snp_tier_snapshot *b = snp_snapshot_find(s, number);

    if (b != NULL && b->n_users == 0 && !(bs->has_standby && bs->standby == number)) {
        remove_snapshot(s, number);
    }
}

void snp_snapshot_use(struct snp_sandbox *s, uint32_t number)
{
    struct snp_tier_snapshot *b = snp_snapshot_find(s, number);

    if (b != NULL) {
        b->n_users++;
        make_room(s);
    }
}

void snp_snapshot_release(struct snp_sandbox *s, uint32_t number)
{
    struct snp_tier_snapshot *b = snp_snapshot_find(s, number);

    if (b != NULL) {
        b->n_users--;
        if (!b->is_permanent) {
            snp_snapshot_drop(s, number); /* unless it is the standby */
        }
        make_room(s);
    }
}

/* Leave no standby. */
static void drop_standby(struct snp_sandbox *s)
{
    struct snp_tier_snapshots *bs = of(s);
    const struct snp_tier_snapshot *b = bs->has_standby ? snp_snapshot_find(s, bs->standby) : NULL;
    bool is_permanent = b != NULL && (b->is_permanent || b->n_users > 0);

    bs->has_standby = false;
    if (b != NULL && !is_permanent) {
        remove_snapshot(s, bs->standby);
    }
}

/* End the previous standby. */
static void see_off(struct snp_sandbox *s)
{
    uint32_t number = SNP_TAKE(of(s)->leaving, 0);

    if (number != 0) {
        snp_snapshot_drop(s, number);
    }
}

void snp_snapshot_on_gone(struct snp_sandbox *s, uint32_t number)
{
    struct snp_tier_snapshots *bs = of(s);
    struct snp_tier_snapshot *b = snp_snapshot_find(s, number);

    if (b == NULL) {
        return;
    }
    b->pid = -1;
    if (number == 0) {
        s->has_pristine = false;
    }
    if (bs->has_standby && bs->standby == number) {
        bs->guarantee.interpreter = SNP_GUARANTEE_UNAVAILABLE;
        snp_guarantee_add(&bs->guarantee, json_string("the copy of the interpreter has died"));
    }
    if (s->state != SNP_SANDBOX_READY) {
        return;
    }
    snp_log(SNP_LOG_WARN, "snapshot-gone", "session=%s snapshot=%u", s->spec.id, (unsigned)number);
}

/* Waiting -------------------------------------------------------------------------------------- */

static void run_waits(struct snp_sandbox *s)
{
    struct snp_tier_snapshots *bs = of(s);

    bs->is_fresh = true;
    for (size_t i = 0; i < SNP_SNAPSHOT_WAITS_MAX; i++) {
        snp_snapshot_cb cb = bs->waits[i].cb;
        if (cb != NULL && !bs->making.is_on && bs->n_pauses == 0) {
            bs->waits[i].cb = NULL;
            cb(bs->waits[i].data);
        }
    }
    bs->is_fresh = false;
}

void snp_snapshot_pause(struct snp_sandbox *s)
{
    of(s)->n_pauses++;
}

void snp_snapshot_resume(struct snp_sandbox *s)
{
    of(s)->n_pauses--;
    run_waits(s);
}

static bool has_waits(const struct snp_tier_snapshots *bs)
{
    for (size_t i = 0; i < SNP_SNAPSHOT_WAITS_MAX; i++) {
        if (bs->waits[i].cb != NULL) {
            return true;
        }
    }
    return false;
}

void snp_snapshot_forget(struct snp_sandbox *s, const void *data)
{
    for (size_t i = 0; i < SNP_SNAPSHOT_WAITS_MAX; i++) {
        if (s->snapshots.waits[i].data == data) {
            s->snapshots.waits[i].cb = NULL;
        }
    }
}

/* Making --------------------------------------------------------------------------------------- */

/* Is there a free slot? */
static bool has_place(const struct snp_tier_snapshots *bs)
{
    return bs->n < SNP_ARRAY_LEN(bs->at);
}

static void guarantee_made(struct snp_sandbox *s,
                           const struct snp_snapshot_making *m,
                           bool has_copy)
{
    struct snp_guarantee *guarantee = &of(s)->guarantee;

    snp_guarantee_done(guarantee);
    guarantee->interpreter = has_copy           ? SNP_GUARANTEE_STANDBY
                             : m->is_for_memory ? SNP_GUARANTEE_DROPPED
                                                : SNP_GUARANTEE_UNAVAILABLE;
    guarantee->workspace =
        m->files_ok ? SNP_GUARANTEE_FILES_COPIED : SNP_GUARANTEE_FILES_UNAVAILABLE;
    if (has_copy) {
        note_interpreter(guarantee, m);
    } else {
        snp_autojson json_t *why = snp_json_bytes(m->why, strlen(m->why));
        snp_guarantee_add(guarantee,
                          json_sprintf("no copy of the interpreter: %s", json_string_value(why)));
    }
    note_files(guarantee, m);
}

static void make(struct snp_sandbox *s);

/* All have answered: replace the old standby. */
static void conclude(struct snp_sandbox *s)
{
    struct snp_tier_snapshots *bs = of(s);
    struct snp_snapshot_making *m = &bs->making;
    bool has_copy = m->pid >= 0 && m->interpreter_ok;
    uint32_t old = bs->standby;
    bool had_old = bs->has_standby && old != m->number;

    if (!m->is_on || !m->init_done || !m->interpreter_done || !m->files_done) {
        return;
    }
    m->is_on = false;
    if (bs->timer != NULL) {
        (void)uv_timer_stop(bs->timer);
    }
    if (had_old) {
        drop_standby(s);
    }
    if (m->number != 0 && has_copy != (m->pid > 0)) {
        ask_drop(s, m->number); /* a copy exists that the interpreter did not confirm */
        m->files_ok = false;
    } else if (m->number != 0 && (has_copy || m->files_ok)) {
        bs->at[bs->n++] = (struct snp_tier_snapshot){.number = m->number,
                                                     .pid = has_copy ? m->pid : -1,
                                                     .has_files = m->files_ok,
                                                     .others = m->others};
    } else if (m->number == 0) {
        snp_snapshot_find(s, 0)->has_files = m->files_ok;
    }
    bs->has_standby = has_copy || m->files_ok;
    bs->standby = m->number;
    bs->is_current = !m->is_stale && !m->is_spent;
    bs->is_past = m->is_spent;
    bs->is_hurried = has_waits(bs);
    guarantee_made(s, m, has_copy);
    json_decref(SNP_TAKE_PTR(m->written));
    make_room(s);
    if (s->cell == NULL) {
        snp_return_check(s); /* the interpreter may have ended during this */
    }
    if (!bs->is_current && has_waits(bs)) {
        make(s); /* a waiting request needs the current state */
    }
    run_waits(s);
}

static void on_copied(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_sandbox *s = data;
    struct snp_snapshot_making *m = &of(s)->making;
    int32_t pid = -1;

    m->init_done = true;
    if (eno == 0 && n >= 8) {
        memcpy(&pid, bytes, 4);
        memcpy(&m->others, bytes + 4, 4);
        if (s->supervisor->ops->others != NULL) {
            m->others = s->supervisor->ops->others(s, pid);
        }
    } else {
        /* The interpreter gives the reason, if it can. */
        m->interpreter_done =
            m->interpreter_done || eno == ETIMEDOUT || !snp_link_is_open(&s->guest);
        if (m->why[0] == '\0') {
            (void)snprintf(m->why, sizeof(m->why), "%s",
                           eno == ETIMEDOUT ? "the interpreter does not answer"
                                            : "the interpreter could not be copied");
        }
    }
    m->pid = pid > 1 ? pid : -1;
    conclude(s);
}

static void on_files(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_sandbox *s = data;
    struct snp_snapshot_making *m = &of(s)->making;

    m->files_done = true;
    m->files_errno = eno;
    m->files_flags = n >= 13 ? (uint8_t)bytes[12] : 0;
    m->files_ok = eno == 0 && (m->files_flags & SNP_KEEP_OVER) == 0;
    conclude(s);
}

/* Names come from the code: accept a few short texts only. */
static json_t *read_names(const json_t *list)
{
    json_t *names = json_array();
    size_t i;
    json_t *name;

    json_array_foreach((json_t *)(uintptr_t)list, i, name)
    {
        if (i < NAMES_MAX && json_is_string(name) &&
            json_string_length(name) <= (size_t)4 * NAME_CHARS) {
            (void)json_array_append(names, name);
        }
    }
    return names;
}

bool snp_snapshot_on_held(struct snp_sandbox *s, const struct snp_frame *f)
{
    struct snp_snapshot_making *m = &of(s)->making;
    snp_autojson json_t *head = NULL;
    struct snp_err err;

    if (!m->is_on || m->interpreter_done || m->number == 0 || f->id != m->number ||
        snp_json_parse(f->head, f->head_len, &head, &err) < 0) {
        return false;
    }
    m->interpreter_done = true;
    m->interpreter_ok = snp_json_bool(head, "ok", false);
    if (m->interpreter_ok) {
        m->written = read_names(json_object_get(head, "written"));
    } else {
        m->is_refused = true;
        (void)snprintf(m->why, sizeof(m->why), "%s",
                       snp_json_str(head, "why", "the interpreter gave no reason"));
    }
    conclude(s);
    return true;
}

void snp_snapshot_on_lost(struct snp_sandbox *s)
{
    struct snp_snapshot_making *m = &of(s)->making;

    if (m->is_on && !m->is_delayed && m->number != 0) {
        m->interpreter_done = true; /* it will not answer */
        conclude(s);
    }
}

static void on_making_timeout(uv_timer_t *timer)
{
    struct snp_sandbox *s = timer->data;
    struct snp_snapshot_making *m = &of(s)->making;

    /* Pid 1 has its own timeouts, and an unanswered call ends the sandbox elsewhere. */
    if (m->is_on && m->number == 0 && !m->init_done) {
        m->init_done = true;
        m->pid = -1;
        (void)snprintf(m->why, sizeof(m->why), "the pristine copy is not there");
        conclude(s);
    } else if (m->is_on && m->is_delayed) {
        m->is_delayed = false;
        make_now(s);
    } else if (m->is_on && !m->interpreter_done) {
        m->interpreter_done = true;
        (void)snprintf(m->why, sizeof(m->why), "the interpreter does not answer");
        conclude(s);
    }
}

/*
 * Bytes of files that may be copied. Copies use the sandbox's memory: an out-of-memory kill would
 * cost more than a cell without undo.
 */
static uint64_t room_for_files(struct snp_sandbox *s)
{
    const uint64_t limit = s->spec.limits.value[SNP_LIMIT_MEMORY];
    const uint64_t enough = limit - limit / SHORT_SHARE;
    uint64_t used = 0;

    if (!s->supervisor->ops->holds_files_in_memory) {
        return UINT64_MAX; /* copies are on a disk */
    }
    if (s->cgroup == NULL ||
        !snp_meter_usage(&s->meter, &s->supervisor->cgroups, s->cgroup, enough, &used)) {
        return limit / 4;
    }
    return used < enough ? enough - used : 0;
}

static void send_keep(struct snp_sandbox *s, uint32_t number)
{
    const struct snp_init_keep raw = {.number = number,
                                      .most_bytes = FILES_BYTES_MAX,
                                      .most_files = FILES_MAX,
                                      .most_new = room_for_files(s)};

    snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_KEEP, &raw, sizeof(raw), -1), on_files, s);
}

static void send_hold(struct snp_sandbox *s, uint32_t number)
{
    const struct snp_frame frame = {
        .type = SNP_GUEST_HOLD, .id = number, .head = "{}", .head_len = 2};
    const int on = 1;
    int pair[2] = {-1, -1};

    /* The copy may write before pid 1 listens; the kernel must attach its pid then, too. */
    bool has_pair = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 &&
                    setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0;

    if (has_pair && s->supervisor->ops->paired != NULL) {
        s->supervisor->ops->paired(s, pair);
    }
    if (!has_pair || snp_link_send_fd(&s->guest, &frame, pair[1]) < 0) {
        on_copied(s, ECHILD, NULL, 0);
    } else {
        snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_HOLD, &number, sizeof(number), pair[0]), on_copied,
                             s);
    }
    snp_closep(&pair[0]);
    snp_closep(&pair[1]);
}

static uv_timer_t *timer_of(struct snp_sandbox *s)
{
    struct snp_tier_snapshots *bs = of(s);

    bs->timer = bs->timer == NULL ? snp_timer_new(s->supervisor->loop, s) : bs->timer;
    return bs->timer;
}

/* Is too little memory left for the pages that the copies share? */
static bool is_memory_short(struct snp_sandbox *s)
{
    const uint64_t limit = s->spec.limits.value[SNP_LIMIT_MEMORY];
    const uint64_t enough = limit - limit / SHORT_SHARE;
    uint64_t used = 0;

    return s->cgroup != NULL &&
           snp_meter_usage(&s->meter, &s->supervisor->cgroups, s->cgroup, enough, &used) &&
           used > enough;
}

/* Why no copy can be made; NULL = it can. */
static const char *reason_against(struct snp_sandbox *s)
{
    struct snp_err err;

    if (!has_place(of(s))) {
        return "there are too many";
    }
    if (!s->has_interpreter && snp_return_restart(s, &err) < 0) {
        return "there is no interpreter";
    }
    if (is_memory_short(s)) {
        of(s)->making.is_for_memory = true;
        return "memory is short";
    }
    return NULL;
}

static void make_now(struct snp_sandbox *s)
{
    struct snp_snapshot_making *m = &of(s)->making;
    const char *why = reason_against(s);

    make_room(s);
    if (why != NULL) {
        (void)snprintf(m->why, sizeof(m->why), "%s", why);
        m->interpreter_done = true;
        m->init_done = true;
    } else {
        send_hold(s, m->number);
    }
    send_keep(s, m->number); /* may conclude */
}

/* May finish before it returns. */
static void make(struct snp_sandbox *s)
{
    struct snp_tier_snapshots *bs = of(s);
    uv_timer_t *timer = timer_of(s);

    if (bs->making.is_on || s->state != SNP_SANDBOX_READY || timer == NULL) {
        return;
    }
    see_off(s); /* the timer is reused below */
    bs->is_current = false;
    bs->making = (struct snp_snapshot_making){.is_on = true, .number = ++bs->last, .pid = -1};
    (void)uv_timer_start(timer, on_making_timeout, MAKING_MS, 0);
    if (bs->is_past && bs->has_standby && is_memory_short(s)) {
        drop_standby(s); /* its memory may suffice */
        bs->making.is_delayed = bs->n_dying > 0;
    }
    if (!bs->making.is_delayed) {
        make_now(s);
    }
}

void snp_snapshot_begin(struct snp_sandbox *s)
{
    struct snp_tier_snapshots *bs = of(s);

    if (bs->n == 0) {
        bs->at[bs->n++] = (struct snp_tier_snapshot){.number = 0, .is_permanent = true};
    }
    if (!is_wanted(s) || !s->has_pristine) {
        return;
    }
    bs->making = (struct snp_snapshot_making){.is_on = true,
                                              .init_done = bs->has_pristine,
                                              .interpreter_done = true,
                                              .interpreter_ok = true};
    if (timer_of(s) != NULL) {
        (void)uv_timer_start(timer_of(s), on_making_timeout, MAKING_MS, 0);
    }
    send_keep(s, 0);
}

void snp_snapshot_on_came(struct snp_sandbox *s, uint32_t number)
{
    struct snp_tier_snapshots *bs = of(s);

    if (number != 0) {
        return;
    }
    bs->has_pristine = true;
    if (bs->making.is_on && bs->making.number == 0) {
        bs->making.init_done = true;
        conclude(s);
    }
}

void snp_snapshot_stale(struct snp_sandbox *s)
{
    of(s)->is_current = false;
    of(s)->making.is_stale = of(s)->making.is_on;
}

/* Does code run between cells? It may write files, so a copy is soon out of date. */
static bool is_moving(const struct snp_tier_snapshots *bs)
{
    return bs->making.others > 0 || bs->making.is_refused;
}

bool snp_snapshot_prepare(struct snp_sandbox *s, snp_snapshot_cb cb, void *data)
{
    struct snp_tier_snapshots *bs = of(s);
    bool is_current = bs->is_current && (bs->is_fresh || !is_moving(bs));

    if (!is_current && !bs->making.is_on && bs->n_pauses == 0) {
        make(s);
    }
    if (!bs->making.is_on && bs->n_pauses == 0) {
        return true;
    }
    bs->is_hurried = true;
    for (size_t i = 0; i < SNP_SNAPSHOT_WAITS_MAX; i++) {
        if (bs->waits[i].cb == NULL) {
            bs->waits[i].cb = cb;
            bs->waits[i].data = data;
            return false;
        }
    }
    return true; /* unprotected: too many requests wait */
}

static void on_after(uv_timer_t *timer)
{
    struct snp_sandbox *s = timer->data;

    /* A running request makes one when needed, or replaces the state. */
    if (s->cell == NULL && s->rollback.id == 0 && !s->returning.is_on && !of(s)->is_current &&
        of(s)->n_pauses == 0) {
        make(s);
    }
}

void snp_snapshot_spent(struct snp_sandbox *s, bool again)
{
    struct snp_tier_snapshots *bs = of(s);

    bs->is_current = false;
    bs->is_past = true;
    bs->making.is_spent = bs->making.is_on; /* a save must not take it for the current state */
    if (again && is_wanted(s) && s->state == SNP_SANDBOX_READY) {
        if (bs->is_hurried || timer_of(s) == NULL) {
            make(s);
        } else if (!bs->making.is_on) { /* an earlier request begins it, and waits */
            (void)uv_timer_start(timer_of(s), on_after, AFTER_MS, 0);
        }
        return;
    }
    drop_standby(s);
    make_room(s);
}

static void on_leave(uv_timer_t *timer)
{
    see_off(timer->data);
}

/*
 * Retire the standby. Ending a copy takes as long as making one and could delay the rollback's
 * answer: it ends a moment later.
 */
static void set_aside(struct snp_sandbox *s)
{
    struct snp_tier_snapshots *bs = of(s);
    const struct snp_tier_snapshot *b = bs->has_standby ? snp_snapshot_find(s, bs->standby) : NULL;
    uv_timer_t *timer = timer_of(s);

    see_off(s);
    if (b == NULL || b->number == 0 || b->is_permanent || b->n_users > 0 || timer == NULL) {
        drop_standby(s);
        return;
    }
    bs->has_standby = false;
    bs->leaving = b->number;
    (void)uv_timer_start(timer, on_leave, LEAVE_MS, 0);
}

void snp_snapshot_set_standby(struct snp_sandbox *s, uint32_t number)
{
    struct snp_tier_snapshots *bs = of(s);
    const struct snp_tier_snapshot *b = snp_snapshot_find(s, number);

    if (bs->has_standby && bs->standby != number) {
        set_aside(s);
        b = snp_snapshot_find(s, number); /* the table may have changed */
    }
    bs->has_standby = b != NULL;
    bs->standby = number;
    bs->is_current = true;
    bs->is_past = false;
    snp_guarantee_done(&bs->guarantee);
    bs->guarantee.interpreter =
        b != NULL && b->pid >= 0 ? SNP_GUARANTEE_STANDBY : SNP_GUARANTEE_UNAVAILABLE;
    bs->guarantee.workspace =
        b != NULL && b->has_files ? SNP_GUARANTEE_FILES_COPIED : SNP_GUARANTEE_FILES_UNAVAILABLE;
}

/* Memory --------------------------------------------------------------------------------------- */

/* The snapshot to drop first: the standby, else the oldest. */
static struct snp_tier_snapshot *least_wanted(struct snp_sandbox *s)
{
    struct snp_tier_snapshots *bs = of(s);
    struct snp_tier_snapshot *best = NULL;

    for (size_t i = 0; i < bs->n; i++) {
        struct snp_tier_snapshot *b = &bs->at[i];
        if (!is_copy(b) || b->n_users > 0) {
            continue;
        }
        if (bs->has_standby && b->number == bs->standby) {
            return b;
        }
        best = best == NULL || b->number < best->number ? b : best;
    }
    return best;
}

static void give_up(struct snp_sandbox *s, struct snp_tier_snapshot *b)
{
    struct snp_tier_snapshots *bs = of(s);
    uint32_t number = b->number;

    snp_log(SNP_LOG_INFO, "snapshot-dropped", "session=%s snapshot=%u reason=memory", s->spec.id,
            (unsigned)number);
    if (bs->has_standby && bs->standby == number) {
        bs->has_standby = false;
        bs->guarantee.interpreter = SNP_GUARANTEE_DROPPED;
        bs->guarantee.workspace = SNP_GUARANTEE_FILES_UNAVAILABLE;
        snp_cell_lose_guarantee(s);
    }
    bs->is_short = true;
    remove_snapshot(s, number);
    make_room(s);
}

static void on_watch(uv_timer_t *timer)
{
    struct snp_sandbox *s = timer->data;
    const uint64_t limit = s->spec.limits.value[SNP_LIMIT_MEMORY];
    const uint64_t enough = limit - limit / SHORT_SHARE;
    uint64_t start = snp_cpu_us(); /* CPU time, so that a busy machine does not reduce checks */
    uint64_t used = 0;
    uint64_t ms;
    bool may_lose = snp_cell_may_lose_guarantee(s);
    bool is_worth_it = false;
    struct snp_tier_snapshot *b = may_lose ? least_wanted(s) : NULL;

    if (s->cell == NULL || (n_copies(of(s)) == 0 && !snp_state_is_aside(s)) ||
        !snp_meter_usage(&s->meter, &s->supervisor->cgroups, s->cgroup, enough, &used)) {
        return;
    }
    if (used > enough && snp_state_is_aside(s)) {
        snp_log(SNP_LOG_INFO, "save-dropped", "session=%s reason=memory", s->spec.id);
        snp_state_give_up(s);
        b = may_lose ? least_wanted(s) : NULL;
        is_worth_it = true; /* the saver shares the copy's memory until it ends */
    }
    if (used > enough && b != NULL &&
        (is_worth_it || s->supervisor->ops->own_memory(s, b->pid) >= limit / OWN_SHARE)) {
        give_up(s, b);
    }
    ms = used > enough ? WATCH_SHARE * (snp_cpu_us() - start) / 1000 : (enough - used) / GROWTH;
    ms = ms < WATCH_MS_MIN ? WATCH_MS_MIN : ms > WATCH_MS_MAX ? WATCH_MS_MAX : ms;
    (void)uv_timer_start(timer, on_watch, ms, 0);
}

void snp_snapshot_watch(struct snp_sandbox *s, bool is_running)
{
    struct snp_tier_snapshots *bs = of(s);

    if (bs->timer == NULL || bs->making.is_on) {
        return;
    }
    see_off(s);
    if (is_running && s->cgroup != NULL && n_copies(bs) > 0) {
        (void)uv_timer_start(bs->timer, on_watch, WATCH_MS_MIN, 0);
    } else {
        (void)uv_timer_stop(bs->timer);
    }
}

/* The end -------------------------------------------------------------------------------------- */

void snp_snapshot_sandbox_ended(struct snp_sandbox *s)
{
    struct snp_snapshot_making *m = &of(s)->making;

    m->is_delayed = false;
    m->init_done = m->interpreter_done = m->files_done = true;
    conclude(s);
}

void snp_snapshots_done(struct snp_sandbox *s)
{
    struct snp_tier_snapshots *bs = of(s);

    snp_handle_close(&bs->timer);
    json_decref(SNP_TAKE_PTR(bs->making.written));
    snp_guarantee_done(&bs->guarantee);
}
