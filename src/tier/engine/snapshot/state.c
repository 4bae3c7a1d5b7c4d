/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   save:  wake a copy of the snapshot as a job -> SAVE, and PACK by pid 1 -> pass on the output
 *          of the first, then of the second
 *   load:  LOAD (read) -> UNPACK by pid 1 -> LOAD (restore)
 *
 * The woken copy, the saver, runs the session's code and is not trusted: it writes into a relay,
 * never into the daemon's pipe, has a time and a size limit, and is killed before pid 1's output is
 * passed on. A rollback of the session kills it too, and the daemon repeats the request. Until then
 * pid 1's output waits in a pipe; if pid 1 packs the live workspace, which the saver could change,
 * it begins after the saver. Without a snapshot of the interpreter (threads run), the interpreter
 * itself forks the saver; without one of the files, pid 1 packs the live workspace. Both happen
 * between cells only, and no cell begins until they are done. Saves and clones of a session
 * (clone.c) wait for one another, except once pid 1 has packed.
 */
#include "tier/engine/snapshot/state.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/wire/result.h"
#include "base/wire/rpc.h"
#include "guest/pid1/wire.h"
#include "tier/engine/answer.h"
#include "tier/engine/cell/running.h"
#include "tier/engine/inside.h"
#include "tier/engine/process.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/snapshot/snapshot.h"
#include "tier/engine/stream/handle.h"
#include "tier/engine/stream/relay.h"
#include "tier/engine/supervisor.h"
#include "wire/guest.h"
#include "wire/tier.h"

enum {
    BUDGET_MS = 15000,     /* for the interpreter to save or restore */
    STALL_MS = 18000,      /* without data; below the daemon's timeout */
    WHOLE_MS = 240 * 1000, /* for a request; below the daemon's timeout */
    PRISTINE_MS = 50,      /* between checks for a missing pristine copy */
    SEED_TRIES = 60,
    LATE_MS = 6000,          /* from the end of the output to the answer */
    BYTES_SPARE = 256 << 20, /* that serialized variables may take beyond the memory limit */
    HEAD_MAX = 1 << 20,      /* bytes of JSON of an answer */
    FAILED_MAX = 900,        /* unrestored variables, by name */
    WHY_MAX = 150,
    EFFORT_IMAGE = 3, /* of a load */
};

/* The usual cause is its memory limit. */
static const char ENDED[] = "the interpreter has ended; it may have met its memory limit";

struct snp_saving {
    struct snp_sandbox *sandbox; /* borrowed */
    uint32_t id;                 /* of the request; 0 = answered */
    bool wants_snapshot;
    bool wants_image;
    uint64_t cell;      /* the last that may be in the state */
    uint32_t number;    /* the snapshot used, with any of these */
    bool has_copy;      /* ... it has an interpreter */
    bool has_files;     /* ... it has files */
    bool uses_snapshot; /* marked as its user */
    bool is_held;       /* cells may not begin */
    bool is_waiting;    /* for clones of the session */
    bool is_waking;     /* pid 1 was asked to wake a saver */
    bool is_saved;      /* SAVED was received */
    bool has_all;       /* the relay has ended */
    bool is_packing;
    bool is_ahead;   /* pid 1 packs while the saver runs, into the pipe behind files_fd */
    bool is_packed;  /* pid 1 has packed everything */
    bool has_passed; /* its output was passed on */
    int files_fd;    /* owned; -1 = none, or taken by the relay */
    int out_fd;      /* owned */
    pid_t pid;       /* of the saver, in the sandbox; 0 = unknown */
    struct snp_relay *relay;
    struct snp_link guest; /* to the saver */
    uv_timer_t *timer;     /* owned */
    struct snp_buf known;
    unsigned n_pending; /* pending answers of pid 1 */
    unsigned n_tries;
    uint64_t start_us;
};

struct snp_loading {
    struct snp_sandbox *sandbox; /* borrowed */
    uint32_t id;                 /* 0 = answered */
    bool is_unpacking;
    bool is_restoring;
    bool is_gone;    /* the interpreter, while it restored an image */
    unsigned effort; /* 0 = everything, 1 = what fits, 2 = no variables, 3 = the image */
    int in_fd;       /* owned */
    uv_timer_t *timer;
    unsigned n_pending;
    uint64_t start_us;
};

static uv_timer_t *timer_new(struct snp_sandbox *s, uv_timer_cb cb, void *data)
{
    uv_timer_t *timer = snp_timer_new(s->supervisor->loop, data);

    if (timer != NULL) {
        (void)uv_timer_start(timer, cb, WHOLE_MS, 0);
    }
    return timer;
}

static int check_epoch(const struct snp_sandbox *s, uint64_t epoch, struct snp_err *err)
{
    if (epoch != 0 && s->epoch != 0 && epoch != s->epoch) {
        return snp_fail(err, SNP_E_INVALID, "the session is in epoch %llu, not %llu",
                        (unsigned long long)s->epoch, (unsigned long long)epoch);
    }
    return 0;
}

/* The end of a save --------------------------------------------------------------------------- */

/* Free it, but never in a callback of its link: hence the wait for the timer's end. */
static void saving_unref(struct snp_saving *v)
{
    if (v->id != 0 || v->n_pending > 0 || v->timer != NULL) {
        return;
    }
    snp_buf_done(&v->guest.in);
    snp_buf_done(&v->known);
    free(v);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct snp_saving *v = handle->data;

    free(SNP_TAKE_PTR(v->timer));
    saving_unref(v);
}

/* Kill the saver's process group. It may have ended already. */
static void kill_saver(struct snp_saving *v)
{
    const struct snp_init_signal raw = {
        .target = SNP_INIT_JOB_TARGET, .number = SIGKILL, .pid = (int32_t)v->pid};

    if (v->pid > 1) {
        v->pid = 0;
        snp_sandbox_ask_init(v->sandbox, SNP_ASK(SNP_INIT_SIGNAL, &raw, sizeof(raw), -1),
                             snp_sandbox_ignore, NULL);
    }
}

static void end_vars(struct snp_saving *v)
{
    snp_relay_free(SNP_TAKE_PTR(v->relay));
    snp_link_close(&v->guest);
    kill_saver(v);
}

static void let_go(struct snp_saving *v)
{
    if (v->uses_snapshot) {
        v->uses_snapshot = false;
        snp_snapshot_release(v->sandbox, v->number);
    }
    if (v->is_held) {
        v->is_held = false;
        snp_snapshot_resume(v->sandbox);
    }
}

/* Begin the next clone of the session. */
static void copied_next(struct snp_sandbox *s)
{
    if (s->transfer.copied != NULL) {
        s->transfer.copied_next(s);
    }
}

/* Answer and end; err NULL = success. */
static void saving_end(struct snp_saving *v, const struct snp_err *err)
{
    struct snp_sandbox *s = v->sandbox;
    uint32_t id = v->id;

    if (id == 0) {
        return;
    }
    v->id = 0;
    s->transfer.saving = NULL;
    end_vars(v);
    snp_closep(&v->files_fd);
    snp_closep(&v->out_fd);
    snp_snapshot_forget(s, v);
    uv_close((uv_handle_t *)v->timer, on_timer_closed);
    if (err != NULL) {
        snp_answer_error(s->supervisor, id, err);
    } else {
        snp_autojson json_t *answer =
            SNP_WRITE(snp_tier_save_answer, .us = snp_now_us() - v->start_us);
        snp_answer_response(s->supervisor, id, answer, NULL, 0);
    }
    let_go(v);
    copied_next(s);
}

static void saving_fail(struct snp_saving *v, enum snp_code code, const char *why)
{
    struct snp_err err;

    (void)snp_fail(&err, code, "%.190s", why);
    saving_end(v, &err);
}

bool snp_state_is_aside(const struct snp_sandbox *s)
{
    const struct snp_saving *v = s->transfer.saving;

    return v != NULL && !v->wants_snapshot && v->uses_snapshot && !v->is_held;
}

bool snp_state_lets_clone(const struct snp_sandbox *s)
{
    const struct snp_saving *v = s->transfer.saving;

    return v == NULL || (snp_state_is_aside(s) && v->is_ahead && v->is_packed);
}

void snp_state_give_up(struct snp_sandbox *s)
{
    if (snp_state_is_aside(s)) {
        saving_fail(s->transfer.saving, SNP_E_LIMIT,
                    "a cell needs the memory that a copy of the session takes; save the "
                    "session when the cell has ended");
    }
}

static void on_saving_timeout(uv_timer_t *timer)
{
    saving_fail(timer->data, SNP_E_TIMEOUT, "the session could not be saved in four minutes");
}

/* Files --------------------------------------------------------------------------------------- */

static void pack(struct snp_saving *v);

static void files_step(struct snp_saving *v)
{
    if (v->is_packed && (v->has_passed || !v->is_ahead)) {
        saving_end(v, NULL);
    }
}

static void on_packed(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_saving *v = data;
    struct snp_err err;

    (void)bytes;
    (void)n;
    v->n_pending--;
    if (v->id == 0) {
        saving_unref(v);
    } else if (eno == 0) {
        v->is_packed = true;
        copied_next(v->sandbox);
        files_step(v);
    } else if (eno == EBUSY && v->is_ahead) { /* overlaps the end of the previous save */
        v->is_ahead = false;
        snp_closep(&v->files_fd);
        if (v->is_packing) {
            pack(v);
        }
    } else {
        (void)snp_fail(&err, eno == EPIPE ? SNP_E_PEER : SNP_E_INTERNAL,
                       "the workspace could not be saved: %s", strerrordesc_np(eno));
        saving_end(v, &err);
    }
}

static void ask_pack(struct snp_saving *v, int fd)
{
    const uint32_t number = v->has_files ? v->number : UINT32_MAX;
    snp_autobuf struct snp_buf raw = {0};

    snp_buf_init(&raw, v->known.len + 16);
    if (snp_buf_add(&raw, &number, sizeof(number)) < 0 ||
        snp_buf_add(&raw, snp_buf_bytes(&v->known), v->known.len) < 0) {
        saving_fail(v, SNP_E_NOMEM, "out of memory");
        return;
    }
    v->n_pending++;
    snp_sandbox_ask_init(v->sandbox, SNP_ASK(SNP_INIT_PACK, snp_buf_bytes(&raw), raw.len, fd),
                         on_packed, v);
}

/* Pack while the saver runs, if the files are a snapshot that it cannot change; else later. */
static void pack_ahead(struct snp_saving *v)
{
    snp_autoclose int fd = -1;
    int ends[2];

    if (!v->has_copy || !v->has_files || pipe2(ends, O_CLOEXEC) < 0) {
        return;
    }
    fd = ends[1];
    v->files_fd = ends[0];
    v->is_ahead = true;
    ask_pack(v, fd);
}

static void on_passed(void *data, enum snp_relay_end end)
{
    struct snp_saving *v = data;

    if (end == SNP_RELAY_EOF) {
        v->has_passed = true;
        files_step(v);
    } else {
        saving_fail(v, end == SNP_RELAY_STALLED ? SNP_E_TIMEOUT : SNP_E_PEER,
                    end == SNP_RELAY_STALLED ? "the workspace could not be saved in four minutes"
                                             : "the reader of the saved data has gone");
    }
}

/* Pass on the output of pid 1, also while it writes. */
static void pass_files(struct snp_saving *v)
{
    const int in_fd = SNP_TAKE_FD(v->files_fd);
    const struct snp_relay_spec spec = {
        .loop = v->sandbox->supervisor->loop,
        .in_fd = in_fd,
        .out_fd = v->out_fd,
        .stall_ms = WHOLE_MS,
        .bytes_max = UINT64_MAX, /* the reader has a limit */
        .cb = on_passed,
        .data = v,
    };
    struct snp_err err;
    int none = -1;

    if (snp_relay_new(&spec, &none, &v->relay, &err) < 0) {
        saving_end(v, &err);
    }
}

/* The variables are written: pack the files. */
static void pack(struct snp_saving *v)
{
    v->is_packing = true;
    end_vars(v);
    if (v->is_ahead) {
        pass_files(v);
    } else if (snp_set_nonblock(v->out_fd, false) < 0) {
        saving_fail(v, SNP_E_SYS, "the pipe cannot be made blocking");
    } else {
        ask_pack(v, v->out_fd);
    }
}

/* Variables ----------------------------------------------------------------------------------- */

static void vars_step(struct snp_saving *v)
{
    if (v->is_saved && v->has_all && !v->is_packing) {
        pack(v);
    }
}

static void on_saver_late(uv_timer_t *timer)
{
    saving_fail(timer->data, SNP_E_PEER,
                "the variables could not be saved: the process that does it has ended (memory "
                "may be short)");
}

static void on_relay_end(void *data, enum snp_relay_end end)
{
    struct snp_saving *v = data;

    switch (end) {
    case SNP_RELAY_EOF:
        v->has_all = true;
        if (!v->is_saved) { /* the snapshot that it was woken from may hold its stream */
            (void)uv_timer_start(v->timer, on_saver_late, LATE_MS, 0);
        }
        vars_step(v);
        break;
    case SNP_RELAY_STALLED:
        saving_fail(v, SNP_E_TIMEOUT,
                    "the variables could not be saved: nothing was written for 18 s");
        break;
    case SNP_RELAY_TOO_MUCH:
        saving_fail(v, SNP_E_LIMIT,
                    "the variables could not be saved: they are larger than the session's memory");
        break;
    case SNP_RELAY_GONE:
    default:
        saving_fail(v, SNP_E_PEER, "the reader of the saved data has gone");
        break;
    }
}

static void on_saved(struct snp_saving *v, const struct snp_frame *f)
{
    snp_autojson json_t *head = NULL;
    char why[WHY_MAX + 48];
    struct snp_err err;

    if (v->is_saved || f->head_len > HEAD_MAX ||
        snp_json_parse(f->head, f->head_len, &head, &err) < 0) {
        saving_fail(v, SNP_E_PEER,
                    "the variables could not be saved: the process that does it broke the "
                    "protocol");
        return;
    }
    if (!snp_json_bool(head, "ok", false)) {
        (void)snprintf(why, sizeof(why), "the variables could not be saved: %.*s", WHY_MAX,
                       snp_json_str(head, "error", "no reason was given"));
        saving_fail(v, SNP_E_PEER, why);
        return;
    }
    v->is_saved = true;
    (void)uv_timer_start(v->timer, on_saving_timeout, WHOLE_MS, 0);
    if (!v->has_all) {
        snp_relay_finish(v->relay); /* all its output is in the pipe */
    } else {
        vars_step(v);
    }
}

static void on_saver_frame(struct snp_link *link, const struct snp_frame *f)
{
    struct snp_saving *v = link->owner;

    if (f->type == SNP_GUEST_SAVED && f->id == v->id) {
        on_saved(v, f);
    } else if (f->type != SNP_GUEST_READY) {
        saving_fail(v, SNP_E_PEER,
                    "the variables could not be saved: the process that does it broke the "
                    "protocol");
    }
}

static void on_saver_end(struct snp_link *link, const struct snp_err *err)
{
    struct snp_saving *v = link->owner;

    (void)err;
    if (!v->is_saved && !v->is_waking) { /* else pid 1 gives the reason */
        saving_fail(v, SNP_E_PEER,
                    "the variables could not be saved: the process that does it has ended (memory "
                    "may be short)");
    }
}

static const struct snp_link_ops saver_ops = {.body_max = HEAD_MAX,
                                              .queue_max = 4U << 20,
                                              .on_frame = on_saver_frame,
                                              .on_end = on_saver_end};

/*
 * Why no image is saved, or NULL. An image holds the interpreter only, not other processes, and
 * only a fork of the same template can be woken from it.
 */
static const char *why_not_kept(const struct snp_saving *v, const struct snp_tier_snapshot *b)
{
    const char *why = v->sandbox->snapshots.making.why;

    if (snp_sandbox_why_no_image(v->sandbox) != NULL) {
        return snp_sandbox_why_no_image(v->sandbox);
    }
    if (!v->has_copy || b == NULL) {
        return why[0] != '\0' ? why : "the session has no copy in memory";
    }
    if (b->number == 0) {
        return "no cell has run in the session";
    }
    return b->others > 0 ? "processes run in the background" : NULL;
}

static int send_save(struct snp_saving *v, struct snp_link *link, int fd, struct snp_err *err)
{
    const struct snp_tier_snapshot *b =
        v->uses_snapshot ? snp_snapshot_find(v->sandbox, v->number) : NULL;
    const struct snp_frame frame = {.type = SNP_GUEST_SAVE,
                                    .id = v->id,
                                    .raw = snp_buf_bytes(&v->known),
                                    .raw_len = v->known.len};
    const char *why = v->wants_image ? why_not_kept(v, b) : NULL;
    bool is_kept = v->wants_image && why == NULL;
    snp_autojson json_t *detached = snp_detached_names(v->sandbox);
    const size_t n_detached = json_array_size(detached);
    const size_t n_others = b == NULL ? v->sandbox->snapshots.making.others : b->others;
    json_t *head = SNP_WRITE(snp_guest_save, .final = link == &v->guest, .budget_ms = BUDGET_MS,
                             .processes = n_others > n_detached ? n_others - n_detached : 0,
                             .detached = detached, .keep = is_kept, .no_image = why);

    if (is_kept && v->sandbox->supervisor->ops->keep_template != NULL) {
        v->sandbox->supervisor->ops->keep_template(v->sandbox);
    }
    return snp_guest_send(link, &frame, head, fd) < 0
               ? snp_fail(err, SNP_E_PEER, "the interpreter cannot be asked to save")
               : 0;
}

static void on_again(uv_timer_t *timer);

static void on_saver_woken(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_saving *v = data;
    struct snp_err err;
    int32_t pid = 0;

    v->n_pending--;
    v->is_waking = false;
    if (eno == 0 && n >= sizeof(pid)) {
        memcpy(&pid, bytes, sizeof(pid));
    }
    v->pid = pid;
    if (v->id == 0 || v->is_packing) {
        kill_saver(v); /* it was cancelled, or is done */
        saving_unref(v);
    } else if (eno == ESRCH && v->number == 0 && v->n_tries++ < SEED_TRIES) {
        end_vars(v);
        (void)uv_timer_start(v->timer, on_again, PRISTINE_MS, 0);
    } else if (eno != 0) {
        (void)snp_fail(&err, SNP_E_PEER, "no copy of the interpreter can be woken: %s",
                       strerrordesc_np(eno));
        saving_end(v, &err);
    }
}

static int wake_saver(struct snp_saving *v, int in_fd, struct snp_err *err)
{
    struct snp_sandbox *s = v->sandbox;
    const struct snp_frame start = {.type = SNP_GUEST_START,
                                    .head = "{}",
                                    .head_len = 2,
                                    .raw = s->spec.env,
                                    .raw_len = s->spec.env_len};
    const struct snp_init_wake raw = {.number = v->number, .is_job = 1};
    snp_autoclose int theirs = -1;
    int pair[2];
    int r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return snp_fail_sys(err, errno, "socket pair");
    }
    theirs = pair[1];
    r = snp_link_open(&v->guest, s->supervisor->loop, pair[0], &saver_ops, v, err);
    if (r < 0) {
        return r;
    }
    if (v->number == 0) { /* other interpreters are started elsewhere */
        snp_link_send(&v->guest, &start);
    }
    r = send_save(v, &v->guest, in_fd, err);
    if (r < 0) {
        return r;
    }
    v->n_pending++;
    v->is_waking = true;
    snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_WAKE, &raw, sizeof(raw), theirs), on_saver_woken, v);
    return 0;
}

/* Choose the snapshot to save, once none is being made. */
static int choose(struct snp_saving *v, struct snp_err *err)
{
    struct snp_sandbox *s = v->sandbox;
    const struct snp_tier_snapshots *bs = &s->snapshots;
    bool is_idle = !snp_cell_has_begun(s) && !s->returning.is_on && s->rollback.id == 0;
    const struct snp_tier_snapshot *b = NULL;

    if (v->wants_snapshot) {
        b = snp_snapshot_find(s, v->number);
        /* a dropped snapshot may still be the standby */
        b = b != NULL && b->is_permanent ? b : NULL;
    } else if (bs->has_standby && !bs->is_past) {
        b = snp_snapshot_find(s, bs->standby);
    }
    if (!v->wants_snapshot && s->ended_cell > v->cell) {
        return snp_fail(err, SNP_E_DENIED, "cell %llu has already ended",
                        (unsigned long long)s->ended_cell);
    }
    v->has_copy = b != NULL && b->pid >= 0;
    v->has_files = b != NULL && b->has_files;
    if (v->wants_snapshot && !(v->has_copy && v->has_files)) {
        return snp_fail(
            err, SNP_E_NOT_FOUND,
            "the session has no snapshot %u in memory; it may have been dropped to free memory",
            (unsigned)v->number);
    }
    if (b != NULL && (v->has_copy || v->has_files)) {
        v->number = b->number;
        v->uses_snapshot = true;
        snp_snapshot_use(s, v->number);
    }
    if (v->has_copy && v->has_files) {
        return 0;
    }
    if (!is_idle || (!v->has_copy && !s->has_interpreter)) {
        return snp_fail(err, SNP_E_LIMIT,
                        is_idle ? "the session has no interpreter now"
                                : "the session runs a cell and has no copy of the state "
                                  "before it; try again when it has ended");
    }
    v->is_held = true;
    snp_snapshot_pause(s);
    return 0;
}

static void vars_open(struct snp_saving *v)
{
    struct snp_sandbox *s = v->sandbox;
    snp_autoclose int in_fd = -1;
    struct snp_err err = {.code = SNP_OK};
    const struct snp_relay_spec spec = {
        .loop = s->supervisor->loop,
        .in_fd = -1,
        .out_fd = v->out_fd,
        .stall_ms = STALL_MS,
        .bytes_max =
            (v->wants_image ? 2 : 1) * s->spec.limits.value[SNP_LIMIT_MEMORY] + BYTES_SPARE,
        .cb = on_relay_end,
        .data = v,
    };
    int r = snp_relay_new(&spec, &in_fd, &v->relay, &err);

    if (r == 0) {
        r = v->has_copy ? wake_saver(v, in_fd, &err) : send_save(v, &s->guest, in_fd, &err);
    }
    if (r < 0) {
        saving_end(v, &err);
    }
}

/* The session is new: its pristine copy did not exist yet. */
static void on_again(uv_timer_t *timer)
{
    struct snp_saving *v = timer->data;

    v->has_all = false;
    snp_buf_done(&v->guest.in);
    (void)uv_timer_start(timer, on_saving_timeout, WHOLE_MS, 0);
    vars_open(v);
}

/*
 * Is used memory at most a third of the limit? While a copy is saved, pages that a cell changes
 * exist twice.
 */
static bool has_room_for_copy(struct snp_sandbox *s)
{
    const uint64_t limit = s->spec.limits.value[SNP_LIMIT_MEMORY];
    uint64_t used = 0;

    return s->cgroup == NULL ||
           !snp_meter_usage(&s->meter, &s->supervisor->cgroups, s->cgroup, limit / 3, &used) ||
           used <= limit / 3;
}

/* The saved state is separate now: cells and puts may continue. */
static void tell_taken(const struct snp_saving *v)
{
    snp_autojson json_t *event = has_room_for_copy(v->sandbox) ? SNP_WRITE(snp_event_taken) : NULL;

    if (event != NULL) {
        snp_answer_event(v->sandbox->supervisor, v->id, event, NULL, 0);
    }
}

static void vars_start(void *data)
{
    struct snp_saving *v = data;
    struct snp_err err;

    if (v->sandbox->state != SNP_SANDBOX_READY) {
        return; /* answered when the sandbox ends */
    }
    if (choose(v, &err) < 0) {
        saving_end(v, &err);
        return;
    }
    if (snp_state_is_aside(v->sandbox)) {
        tell_taken(v);
    }
    vars_open(v);
    if (v->id != 0) {
        pack_ahead(v);
    }
}

static void save_begin(struct snp_saving *v)
{
    struct snp_sandbox *s = v->sandbox;
    bool is_running = snp_cell_has_begun(s) && !s->snapshots.making.is_on;

    v->is_waiting = false;
    if (v->wants_snapshot || is_running || s->returning.is_on ||
        snp_snapshot_prepare(s, vars_start, v)) {
        vars_start(v);
    }
}

bool snp_state_save_next(struct snp_sandbox *s)
{
    struct snp_saving *v = s->transfer.saving;

    if (v == NULL || !v->is_waiting || s->state != SNP_SANDBOX_READY) {
        return false;
    }
    save_begin(v);
    return true;
}

int snp_method_save(struct snp_sandbox *s,
                    const struct snp_save_request *rq,
                    int *fd,
                    struct snp_err *err)
{
    struct snp_saving *v;
    int r = check_epoch(s, rq->epoch, err);

    if (r < 0) {
        return r;
    }
    if (s->transfer.saving != NULL || s->transfer.loading != NULL || s->transfer.cloning != NULL) {
        return snp_fail(err, SNP_E_LIMIT, "the session is already being saved or loaded");
    }
    if (rq->known_len > SNP_KNOWN_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the known keys are more than %d KiB",
                        SNP_KNOWN_MAX >> 10);
    }
    v = calloc(1, sizeof(*v));
    if (v == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    *v = (struct snp_saving){.sandbox = s,
                             .id = rq->id,
                             .wants_snapshot = rq->has_snapshot,
                             .wants_image = rq->wants_image,
                             .cell = rq->cell,
                             .number = rq->snapshot,
                             .files_fd = -1,
                             .out_fd = -1,
                             .guest = {.fd = -1, .passed_fd = -1},
                             .start_us = snp_now_us()};
    snp_buf_init(&v->known, SNP_KNOWN_MAX);
    v->timer = timer_new(s, on_saving_timeout, v);
    if (v->timer == NULL || snp_buf_add(&v->known, rq->known, rq->known_len) < 0) {
        v->id = 0;
        if (v->timer != NULL) {
            uv_close((uv_handle_t *)v->timer, on_timer_closed);
        } else {
            saving_unref(v);
        }
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    v->out_fd = SNP_TAKE_FD(*fd);
    s->transfer.saving = v;
    v->is_waiting = s->transfer.copied != NULL;
    if (!v->is_waiting) {
        save_begin(v);
    } /* else after the clone in progress */
    return 0;
}

/* Load ---------------------------------------------------------------------------------------- */

static void loading_unref(struct snp_loading *v)
{
    if (v->id == 0 && v->n_pending == 0) {
        free(v);
    }
}

/* failed: variables not restored; err: nothing was loaded. */
static void loading_end(struct snp_loading *v, json_t *failed, const struct snp_err *err)
{
    struct snp_sandbox *s = v->sandbox;
    bool is_spoiled = err != NULL && (v->is_unpacking || v->is_restoring || v->is_gone);
    uint32_t id = v->id;

    if (id == 0) {
        return;
    }
    v->id = 0;
    s->transfer.loading = NULL;
    s->supervisor->n_loading--;
    snp_closep(&v->in_fd);
    snp_handle_close(&v->timer);
    if (err != NULL) {
        snp_answer_error(s->supervisor, id, err);
    } else {
        snp_autojson json_t *answer =
            SNP_WRITE(snp_tier_load_answer, .failed = failed, .us = snp_now_us() - v->start_us);
        snp_answer_response(s->supervisor, id, answer, NULL, 0);
    }
    loading_unref(v);
    if (is_spoiled) {
        snp_sandbox_kill(s, "its checkpoint could not be restored");
        return;
    }
    if (err == NULL) {
        snp_snapshot_spent(s, true); /* the pristine copy is not a standby */
    } else if (err->code == SNP_E_UNSUPPORTED) {
        s->transfer.has_run = s->holds_state = false; /* another load may follow */
    }
    snp_snapshot_resume(s);
}

static void loading_fail(struct snp_loading *v, enum snp_code code, const char *why)
{
    struct snp_err err;

    (void)snp_fail(&err, code, "the session could not be loaded: %.*s", WHY_MAX, why);
    loading_end(v, NULL, &err);
}

static void on_loading_timeout(uv_timer_t *timer)
{
    loading_fail(timer->data, SNP_E_TIMEOUT, "it took more than four minutes");
}

/* Bytes for variables; SNP_NO_NUMBER: unlimited. */
static int64_t room_of(const struct snp_loading *v)
{
    uint64_t most = v->sandbox->spec.limits.value[SNP_LIMIT_MEMORY];

    return v->effort == 0 || v->effort == EFFORT_IMAGE ? SNP_NO_NUMBER
           : v->effort == 1                            ? (int64_t)(most - most / 8)
                                                       : 0;
}

static int send_load(struct snp_loading *v, json_t *head, int fd)
{
    const struct snp_frame frame = {.type = SNP_GUEST_LOAD, .id = v->id};

    if (!snp_link_is_open(&v->sandbox->guest)) {
        json_decref(head);
        return -1;
    }
    return snp_guest_send(&v->sandbox->guest, &frame, head, fd);
}

static void on_unpacked(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_loading *v = data;
    struct snp_sandbox *s = v->sandbox;
    json_t *head;
    char workspace[SNP_FOLDER_MAX + 16];
    struct snp_err err;

    (void)bytes;
    (void)n;
    v->n_pending--;
    if (v->id == 0) {
        loading_unref(v);
        return;
    }
    v->is_unpacking = eno != EPIPE; /* else the sandbox is already ending */
    if (eno != 0) {
        (void)snp_fail(&err, eno == EBADMSG || eno == EPIPE ? SNP_E_PEER : SNP_E_INTERNAL,
                       "the workspace could not be restored: %s", strerrordesc_np(eno));
        loading_end(v, NULL, &err);
        return;
    }
    v->is_restoring = true;
    (void)snprintf(workspace, sizeof(workspace), "%s/workspace", s->folder);
    head = SNP_WRITE(snp_guest_load, .step = v->effort == EFFORT_IMAGE ? "move" : "restore",
                     .cwd = workspace, .budget_ms = BUDGET_MS, .room = room_of(v));
    if (send_load(v, head, v->effort == EFFORT_IMAGE ? -1 : v->in_fd) < 0) {
        loading_fail(v, SNP_E_LIMIT, ENDED);
    }
}

/* At most FAILED_MAX entries, with the known members only. */
static json_t *read_failed(const json_t *list)
{
    json_t *failed = json_array();
    size_t i;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        struct snp_err err;
        if (i < FAILED_MAX && snp_record_check(item, &snp_failed_row_form, &err) == 0) {
            (void)json_array_append(failed, item);
        }
    }
    return failed;
}

static void unpack(struct snp_loading *v)
{
    v->is_unpacking = true;
    v->n_pending++;
    snp_sandbox_ask_init(v->sandbox, SNP_ASK(SNP_INIT_UNPACK, NULL, 0, v->in_fd), on_unpacked, v);
}

static void on_loaded(struct snp_loading *v, const struct snp_frame *f)
{
    snp_autojson json_t *head = NULL;
    snp_autojson json_t *failed = NULL;
    struct snp_err err;

    if (f->head_len > HEAD_MAX || snp_json_parse(f->head, f->head_len, &head, &err) < 0) {
        loading_fail(v, SNP_E_LIMIT, "the interpreter broke the protocol");
    } else if (!snp_json_bool(head, "ok", false) && v->effort == EFFORT_IMAGE && !v->is_restoring) {
        (void)snp_fail(&err, SNP_E_UNSUPPORTED, "%.*s", WHY_MAX,
                       snp_json_str(head, "error", "no reason was given"));
        loading_end(v, NULL, &err);
    } else if (!snp_json_bool(head, "ok", false)) {
        loading_fail(v, SNP_E_LIMIT, snp_json_str(head, "error", "no reason was given"));
    } else if (v->is_restoring) {
        failed = read_failed(json_object_get(head, "failed"));
        loading_end(v, failed, NULL);
    } else if (!v->is_unpacking) {
        unpack(v);
    }
}

/* An image first: if it is refused, nothing has changed. Variables last: they may need files. */
static void load_start(struct snp_loading *v)
{
    if (v->effort != EFFORT_IMAGE) {
        unpack(v);
    } else if (send_load(v, SNP_WRITE(snp_guest_load, .step = "wake", .room = room_of(v)),
                         v->in_fd) < 0) {
        loading_fail(v, SNP_E_PEER, "the interpreter cannot be reached");
    }
}

int snp_method_load(struct snp_sandbox *s,
                    const struct snp_load_request *rq,
                    int *fd,
                    struct snp_err *err)
{
    struct snp_loading *v;
    int r = check_epoch(s, rq->epoch, err);

    if (r < 0) {
        return r;
    }
    if (s->transfer.has_run || s->cell != NULL) {
        return snp_fail(err, SNP_E_INVALID,
                        "only a session that has run nothing yet can be loaded");
    }
    if (rq->effort == EFFORT_IMAGE && snp_sandbox_why_no_image(s) != NULL) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "%s", snp_sandbox_why_no_image(s));
    }
    v = calloc(1, sizeof(*v));
    if (v != NULL) {
        *v = (struct snp_loading){.sandbox = s,
                                  .id = rq->id,
                                  .effort = rq->effort,
                                  .in_fd = -1,
                                  .start_us = snp_now_us()};
        v->timer = timer_new(s, on_loading_timeout, v);
    }
    if (v == NULL || v->timer == NULL) {
        free(v);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    v->in_fd = SNP_TAKE_FD(*fd);
    s->transfer.loading = v;
    s->supervisor->n_loading++;
    s->transfer.has_run = true;
    s->holds_state = true;
    snp_snapshot_pause(s);
    load_start(v);
    return 0;
}

/* From the session ---------------------------------------------------------------------------- */

bool snp_state_on_guest(struct snp_sandbox *s, const struct snp_frame *f)
{
    struct snp_saving *saving = s->transfer.saving;
    struct snp_loading *loading = s->transfer.loading;

    if (f->type == SNP_GUEST_SAVED && saving != NULL && !saving->has_copy &&
        saving->relay != NULL && f->id == saving->id) {
        on_saved(saving, f);
        return true;
    }
    if (f->type == SNP_GUEST_LOADED && loading != NULL && f->id == loading->id) {
        on_loaded(loading, f);
        return true;
    }
    return false;
}

void snp_state_on_guest_end(struct snp_sandbox *s)
{
    struct snp_saving *saving = s->transfer.saving;

    if (saving != NULL && saving->is_held && !saving->has_copy && !saving->is_saved) {
        saving_fail(saving, SNP_E_PEER,
                    "the variables could not be saved: the interpreter has ended");
    }
    if (s->transfer.loading != NULL) {
        s->transfer.loading->is_gone = s->transfer.loading->effort == EFFORT_IMAGE;
        loading_fail(s->transfer.loading, SNP_E_LIMIT, ENDED);
    }
}

void snp_state_sandbox_ended(struct snp_sandbox *s)
{
    if (s->transfer.saving != NULL) {
        saving_fail(s->transfer.saving, SNP_E_PEER, "the session ended first");
    }
    if (s->transfer.loading != NULL) {
        struct snp_loading *v = s->transfer.loading;
        v->is_unpacking = v->is_restoring = v->is_gone = false; /* the sandbox is already ending */
        loading_fail(v, SNP_E_LIMIT, "the session ended first");
    }
}
