/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   two pipes each for a copy of the origin's interpreter (the writer) and the new one, with the
 *   supervisor relaying between them: first the new one lists what it has, and when its end is
 *   closed the writer writes the rest -> the new one reports success -> the supervisor closes its
 *   ends, the files are copied the same way -> the new one opens the files that were open
 *
 * No pipe or socket connects the two sandboxes directly: after restoring the image the new one runs
 * the session's code, which may have kept any descriptor open. Descriptors kept on either side lead
 * to the supervisor, and nowhere once it has closed its end.
 *
 * The writer runs the session's code, as in a save (state.c), and may write anything: its output
 * goes only into an interpreter confined like the writer. Memory is charged to its holder; data in
 * transit is in the pipe. Clones of a session are made one at a time, and not while pid 1 writes
 * its files for a save.
 */
#include "tier/engine/snapshot/clone.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/wire/rpc.h"
#include "guest/pid1/wire.h"
#include "tier/engine/answer.h"
#include "tier/engine/cell/running.h"
#include "tier/engine/inside.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/snapshot/snapshot.h"
#include "tier/engine/snapshot/state.h"
#include "tier/engine/stream/handle.h"
#include "tier/engine/stream/relay.h"
#include "tier/engine/supervisor.h"
#include "wire/guest.h"
#include "wire/tier.h"

enum {
    BUDGET_MS = 15000,
    WHOLE_MS = 30 * 1000, /* for a clone, and for each wait */
    LATE_MS = 1000,       /* for the writer's reason */
    HEAD_MAX = 64 << 10,
    WHY_MAX = 160,
};

/* The supervisor's part of one direction of transfer between the sandboxes. */
struct way {
    struct snp_relay *relay; /* owned; NULL = idle */
    int in_fd;               /* owned; -1 = closed, or taken by the relay */
    int out_fd;              /* owned; -1 = closed */
    int read_fd;             /* owned; the reader's end of untrusted data; or -1 */
};

enum clone_step {
    CLONE_WAITING, /* for the previous clone, or for a snapshot */
    CLONE_THAWING,
    CLONE_COPYING,
    CLONE_MOVING,
};

struct snp_cloning {
    struct snp_sandbox *sandbox; /* the new one; borrowed */
    struct snp_sandbox *origin;  /* borrowed */
    struct snp_cloning *next;    /* the next in the origin's queue; borrowed */
    uint32_t id;                 /* of the request; 0 = answered */
    uint64_t epoch;
    uint64_t cell;
    enum clone_step step;
    bool has_begun;
    bool has_changed;      /* the new sandbox has changed */
    bool is_using;         /* number is marked as used */
    bool is_waking;        /* pid 1 was asked to wake the writer */
    uint32_t number;       /* of the woken snapshot */
    pid_t writer;          /* in the pid namespace of origin; 0 = unknown */
    bool is_refused;       /* by the new one */
    bool is_written;       /* the writer has answered or ended */
    char why[WHY_MAX + 1]; /* the writer's refusal; "" = none */
    unsigned n_copying;    /* helpers still copying files */
    struct way image;      /* from the writer to the new one */
    struct way answer;     /* the other direction */
    struct way files;      /* from one helper to the other */
    int null_fd;           /* owned */
    struct snp_link guest; /* to the writer */
    uv_timer_t *timer;     /* owned */
    unsigned n_pending;    /* pending answers of pid 1 */
    uint64_t start_us;
};

static void clone_begin(struct snp_cloning *v);

/* Ways ----------------------------------------------------------------------------------------- */

/* End the reader's stream, and the writer's reader. */
static void way_end(struct way *way)
{
    snp_relay_free(SNP_TAKE_PTR(way->relay));
    snp_closep(&way->in_fd);
    snp_closep(&way->out_fd);
}

/* Discard unread data too: by sendfile, a pipe can hold pages of a file of the writer's. */
static void way_close(struct way *way, int null_fd)
{
    way_end(way);
    if (way->read_fd >= 0) {
        (void)splice(way->read_fd, NULL, null_fd, NULL, (size_t)fcntl(way->read_fd, F_GETPIPE_SZ),
                     SPLICE_F_NONBLOCK);
    }
    snp_closep(&way->read_fd);
}

/* *ret_in_fd: for the writer; *ret_out_fd: for the reader. */
static int way_open(struct way *way, int *ret_in_fd, int *ret_out_fd)
{
    int ends[2];

    SNP_TRY(pipe2(ends, O_CLOEXEC));
    way->in_fd = ends[0];
    *ret_in_fd = ends[1];
    SNP_TRY(pipe2(ends, O_CLOEXEC));
    *ret_out_fd = ends[0];
    way->out_fd = ends[1];
    return 0;
}

/* The same for an untrusted writer. */
static int way_open_hostile(struct way *way, int *ret_in_fd, int *ret_out_fd)
{
    SNP_TRY(way_open(way, ret_in_fd, ret_out_fd));
    way->read_fd = fcntl(*ret_out_fd, F_DUPFD_CLOEXEC, 3);
    return way->read_fd;
}

static int way_start(struct snp_cloning *v, struct way *way, snp_relay_cb cb, void *data)
{
    int in_fd = SNP_TAKE_FD(way->in_fd); /* taken by the relay */
    const struct snp_relay_spec spec = {
        .loop = v->origin->supervisor->loop,
        .in_fd = in_fd,
        .out_fd = way->out_fd,
        .stall_ms = WHOLE_MS,
        .bytes_max = UINT64_MAX, /* the reader has its own limits */
        .cb = cb,
        .data = data,
    };
    struct snp_err err;
    int none = -1;

    return snp_relay_new(&spec, &none, &way->relay, &err);
}

static void on_way_end(void *data, enum snp_relay_end end)
{
    (void)end; /* the reader or the writer notices */
    way_end(data);
}

/*
 * The new one gets the untrusted image only once its own stream has ended: the image could make it
 * write anything.
 */
static void on_answer_end(void *data, enum snp_relay_end end)
{
    struct snp_cloning *v = data;

    way_end(&v->answer);
    if (end != SNP_RELAY_EOF || way_start(v, &v->image, on_way_end, &v->image) < 0) {
        way_end(&v->image);
    }
}

/* A socket that carries the pipes of one sandbox; -1 = failed. */
static int wrap_pipes(int in_fd, int out_fd)
{
    const int fds[] = {in_fd, out_fd};
    snp_autoclose int ours = -1;
    snp_autoclose int theirs = -1;
    int ends[2];

    SNP_TRY(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
    ours = ends[0];
    theirs = ends[1];
    SNP_TRY(snp_send_fds(ours, "", 1, fds, SNP_ARRAY_LEN(fds)));
    return SNP_TAKE_FD(theirs);
}

static int ways_open(struct snp_cloning *v, int *ret_writer, int *ret_new)
{
    snp_autoclose int image_in = -1;
    snp_autoclose int image_out = -1;
    snp_autoclose int answer_in = -1;
    snp_autoclose int answer_out = -1;

    v->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    SNP_TRY(v->null_fd);
    SNP_TRY(way_open_hostile(&v->image, &image_in, &image_out));
    SNP_TRY(way_open(&v->answer, &answer_in, &answer_out));
    SNP_TRY(way_start(v, &v->answer, on_answer_end, v));
    *ret_writer = wrap_pipes(answer_out, image_in);
    *ret_new = wrap_pipes(image_out, answer_in);
    return *ret_writer < 0 || *ret_new < 0 ? -1 : 0;
}

/* Close the supervisor's ends; descriptors that a sandbox has kept then lead nowhere. */
static void ways_close(struct snp_cloning *v)
{
    way_close(&v->image, v->null_fd);
    way_close(&v->answer, v->null_fd);
    way_close(&v->files, v->null_fd);
}

/* The end -------------------------------------------------------------------------------------- */

/* Free it, but never in a callback of its link: hence the wait for the timer's end. */
static void cloning_unref(struct snp_cloning *v)
{
    if (v->id == 0 && v->n_pending == 0 && v->timer == NULL) {
        snp_buf_done(&v->guest.in);
        free(v);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct snp_cloning *v = handle->data;

    free(SNP_TAKE_PTR(v->timer));
    cloning_unref(v);
}

static void end_writer(struct snp_cloning *v)
{
    const struct snp_init_signal raw = {
        .target = SNP_INIT_JOB_TARGET, .number = SIGKILL, .pid = (int32_t)v->writer};

    snp_link_close(&v->guest);
    if (v->writer > 1) {
        v->writer = 0;
        snp_sandbox_ask_init(v->origin, SNP_ASK(SNP_INIT_SIGNAL, &raw, sizeof(raw), -1),
                             snp_sandbox_ignore, NULL);
    }
    if (v->is_using) {
        v->is_using = false;
        snp_snapshot_release(v->origin, v->number);
    }
}

/* Begin the next clone, unless a save comes first. */
static void clone_next(struct snp_sandbox *origin)
{
    struct snp_cloning *first = origin->transfer.copied;

    if (first != NULL && !first->has_begun && origin->state == SNP_SANDBOX_READY &&
        snp_state_lets_clone(origin)) {
        clone_begin(first);
    }
}

/* Leave the origin's queue; the next begins, a save first. */
static void leave_line(struct snp_cloning *v)
{
    struct snp_cloning **at = &v->origin->transfer.copied;
    bool was_first = *at == v;

    while (*at != v) {
        at = &(*at)->next;
    }
    *at = v->next;
    if (was_first && !snp_state_save_next(v->origin)) {
        clone_next(v->origin);
    }
}

/* err NULL = success. */
static void cloning_end(struct snp_cloning *v, const struct snp_err *err)
{
    struct snp_sandbox *s = v->sandbox;
    uint32_t id = v->id;

    if (id == 0) {
        return;
    }
    v->id = 0;
    s->transfer.cloning = NULL;
    s->supervisor->n_loading--;
    ways_close(v);
    snp_closep(&v->null_fd);
    end_writer(v);
    snp_snapshot_forget(v->origin, v);
    uv_close((uv_handle_t *)v->timer, on_timer_closed);
    leave_line(v);
    if (err != NULL) {
        snp_answer_error(s->supervisor, id, err);
    } else {
        snp_autojson json_t *answer =
            SNP_WRITE(snp_tier_clone_answer, .us = snp_now_us() - v->start_us);
        snp_answer_response(s->supervisor, id, answer, NULL, 0);
    }
    if (err != NULL && v->has_changed) {
        snp_sandbox_kill(s, "it could not become a copy of another session");
        return;
    }
    if (err != NULL) {
        s->transfer.has_run = s->holds_state = false;
    } else {
        snp_snapshot_spent(s, true); /* the pristine copy is not a standby */
    }
    snp_snapshot_resume(s);
}

/* why: the part that an image cannot hold, or an error. */
static void cloning_fail(struct snp_cloning *v, const char *why)
{
    struct snp_err err;

    (void)snp_fail(&err, v->has_changed ? SNP_E_PEER : SNP_E_UNSUPPORTED, "%.*s", WHY_MAX, why);
    cloning_end(v, &err);
}

static void on_timeout(uv_timer_t *timer)
{
    struct snp_cloning *v = timer->data;

    /* while it restores it reads no requests */
    v->has_changed = v->has_changed || v->step == CLONE_THAWING;
    cloning_fail(v, "the image took more than 30 s");
}

/*
 * Restoring -------------------------------------------------------------------------------------
 */

static void ask_guest(struct snp_cloning *v, const char *step, int fd)
{
    const struct snp_frame frame = {.type = SNP_GUEST_LOAD, .id = v->id};
    json_t *head = SNP_WRITE(snp_guest_load, .step = step, .room = SNP_NO_NUMBER);

    if (!snp_link_is_open(&v->sandbox->guest)) {
        json_decref(head);
        cloning_fail(v, "the new sandbox has no interpreter");
    } else if (snp_guest_send(&v->sandbox->guest, &frame, head, fd) < 0) {
        cloning_fail(v, "the new sandbox cannot be reached");
    }
}

/* One helper has finished. */
static void on_copied(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_cloning *v = data;

    (void)bytes;
    (void)n;
    v->n_pending--;
    if (v->id == 0) {
        cloning_unref(v);
        return;
    }
    if (eno != 0) {
        cloning_fail(v, "the files of the session could not be copied");
        return;
    }
    v->n_copying--;
    if (v->n_copying == 0) {
        v->step = CLONE_MOVING;
        ask_guest(v, "move", -1);
    }
}

/* Copy the files from one helper to the other. */
static void copy_files(struct snp_cloning *v)
{
    snp_autoclose int in_fd = -1;
    snp_autoclose int out_fd = -1;

    if (way_open_hostile(&v->files, &out_fd, &in_fd) < 0 ||
        way_start(v, &v->files, on_way_end, &v->files) < 0) {
        cloning_fail(v, "there is no pipe for the files");
        return;
    }
    v->step = CLONE_COPYING;
    v->n_copying = 2;
    v->n_pending += 2;
    snp_sandbox_ask_init(v->origin, SNP_ASK(SNP_INIT_PACK, &v->number, sizeof(v->number), out_fd),
                         on_copied, v);
    snp_sandbox_ask_init(v->sandbox, SNP_ASK(SNP_INIT_UNPACK, NULL, 0, in_fd), on_copied, v);
}

/* Writing -------------------------------------------------------------------------------------- */

static void on_late(uv_timer_t *timer)
{
    struct snp_cloning *v = timer->data;

    cloning_fail(v, v->why);
}

/*
 * With both answers the reason is known: the writer's, if it gives one. Its end may stay unseen,
 * because the snapshot that it was woken from can also hold its stream: hence the timer.
 */
static void refuse(struct snp_cloning *v)
{
    if (v->is_refused && v->is_written) {
        cloning_fail(v, v->why);
    } else if (v->is_refused) {
        (void)uv_timer_start(v->timer, on_late, LATE_MS, 0);
    }
}

static void on_writer_frame(struct snp_link *link, const struct snp_frame *f)
{
    struct snp_cloning *v = link->owner;
    snp_autojson json_t *head = NULL;
    struct snp_err err;

    if (f->type != SNP_GUEST_SAVED || f->id != v->id || f->head_len > HEAD_MAX ||
        snp_json_parse(f->head, f->head_len, &head, &err) < 0) {
        return; /* invalid: the image decides */
    }
    if (*snp_json_str(head, "error", "") != '\0') {
        (void)snprintf(v->why, sizeof(v->why), "%.*s", WHY_MAX, snp_json_str(head, "error", ""));
    }
    v->is_written = true;
    refuse(v);
}

static void on_writer_end(struct snp_link *link, const struct snp_err *err)
{
    struct snp_cloning *v = link->owner;

    (void)err;
    v->is_written = true;
    refuse(v);
}

static const struct snp_link_ops writer_ops = {.body_max = HEAD_MAX,
                                               .queue_max = 1U << 20,
                                               .on_frame = on_writer_frame,
                                               .on_end = on_writer_end};

static void on_writer_woken(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_cloning *v = data;
    int32_t pid = 0;

    v->n_pending--;
    v->is_waking = false;
    if (eno == 0 && n >= sizeof(pid)) {
        memcpy(&pid, bytes, sizeof(pid));
    }
    v->writer = pid;
    if (v->id == 0) {
        cloning_unref(v);
    } else if (v->step != CLONE_THAWING) {
        end_writer(v); /* it is no longer needed */
    } else if (eno != 0) {
        v->is_written = true;
        refuse(v); /* the new one reads no image, and will refuse */
    }
}

/* Open a stream to the writer; the process at the other end ends with it. */
static int open_writer(struct snp_cloning *v, int socket_fd, int *ret_theirs, struct snp_err *err)
{
    const struct snp_frame frame = {.type = SNP_GUEST_SAVE, .id = v->id};
    int pair[2];
    int r;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return snp_fail_sys(err, errno, "socket pair");
    }
    *ret_theirs = pair[1];
    r = snp_link_open(&v->guest, v->origin->supervisor->loop, pair[0], &writer_ops, v, err);
    if (r == 0 && snp_guest_send(&v->guest, &frame,
                                 SNP_WRITE(snp_guest_save, .final = true, .budget_ms = BUDGET_MS,
                                           .image = true),
                                 socket_fd) < 0) {
        r = snp_fail(err, SNP_E_PEER, "the process that writes the image cannot be reached");
    }
    return r;
}

static void wake_writer(struct snp_cloning *v)
{
    const struct snp_init_wake raw = {.number = v->number, .is_job = 1};
    snp_autoclose int theirs = -1;
    snp_autoclose int in_fd = -1;
    snp_autoclose int out_fd = -1;
    struct snp_err err;

    v->step = CLONE_THAWING;
    if (ways_open(v, &out_fd, &in_fd) < 0) {
        cloning_fail(v, "there is no pipe for the image");
        return;
    }
    if (open_writer(v, out_fd, &theirs, &err) < 0) {
        cloning_fail(v, err.msg);
        return;
    }
    v->n_pending++;
    v->is_waking = true;
    snp_sandbox_ask_init(v->origin, SNP_ASK(SNP_INIT_WAKE, &raw, sizeof(raw), theirs),
                         on_writer_woken, v);
    ask_guest(v, "thaw", in_fd);
}

/* Choose the snapshot of the state after the last cell, if there is one. */
static void choose(void *data)
{
    struct snp_cloning *v = data;
    struct snp_sandbox *o = v->origin;
    const struct snp_tier_snapshots *bs = &o->snapshots;
    const struct snp_tier_snapshot *b =
        bs->has_standby && !bs->is_past ? snp_snapshot_find(o, bs->standby) : NULL;

    if (o->state != SNP_SANDBOX_READY) {
        return; /* answered when the sandbox ends */
    }
    if (o->ended_cell > v->cell || o->epoch != v->epoch) {
        cloning_fail(v, "the session has run another cell");
    } else if (b == NULL || b->pid <= 0 || !b->has_files) {
        cloning_fail(v, bs->making.why[0] != '\0' ? bs->making.why
                                                  : "the session has no copy in memory");
    } else if (b->number == 0) {
        cloning_fail(v, "no cell has run in the session");
    } else if (b->others > 0) {
        cloning_fail(v, "processes run in the background");
    } else {
        v->number = b->number;
        v->is_using = true;
        snp_snapshot_use(o, b->number);
        wake_writer(v);
    }
}

/* The clone is first in the queue. */
static void clone_begin(struct snp_cloning *v)
{
    struct snp_sandbox *o = v->origin;
    bool is_running = snp_cell_has_begun(o) && !o->snapshots.making.is_on;

    v->has_begun = true;
    if (is_running || o->returning.is_on || snp_snapshot_prepare(o, choose, v)) {
        choose(v);
    }
}

/* The request ---------------------------------------------------------------------------------- */

static const char *why_not(const struct snp_sandbox *s, const struct snp_sandbox *o)
{
    if (o == NULL || o == s) {
        return "the session is not live";
    }
    return snp_sandbox_why_no_image(s);
}

int snp_method_clone(struct snp_sandbox *s, const struct snp_clone_request *rq, struct snp_err *err)
{
    struct snp_sandbox *o = snp_sandbox_find(s->supervisor, rq->from);
    const struct way no_way = {.in_fd = -1, .out_fd = -1, .read_fd = -1};
    struct snp_cloning **at;
    struct snp_cloning *v;
    const char *why = why_not(s, o);

    if (s->transfer.has_run || s->cell != NULL) {
        return snp_fail(err, SNP_E_INVALID,
                        "only a session that has run nothing yet can become another");
    }
    if (why != NULL) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "%s", why);
    }
    v = calloc(1, sizeof(*v));
    SNP_TRY_MEMORY(v, err);
    *v = (struct snp_cloning){.sandbox = s,
                              .origin = o,
                              .id = rq->id,
                              .epoch = rq->epoch,
                              .cell = rq->cell,
                              .image = no_way,
                              .answer = no_way,
                              .files = no_way,
                              .null_fd = -1,
                              .guest = {.fd = -1, .passed_fd = -1},
                              .start_us = snp_now_us()};
    v->timer = snp_timer_new(s->supervisor->loop, v);
    if (v->timer == NULL) {
        free(v);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    (void)uv_timer_start(v->timer, on_timeout, WHOLE_MS, 0);
    s->transfer.cloning = v;
    s->transfer.has_run = s->holds_state = true;
    s->supervisor->n_loading++;
    snp_snapshot_pause(s);
    for (at = &o->transfer.copied; *at != NULL; at = &(*at)->next) {
    }
    *at = v;
    o->transfer.copied_next = clone_next;
    clone_next(o);
    return 0;
}

/* From the sandboxes --------------------------------------------------------------------------- */

/* The new one has restored the image, or has opened the files. */
static void become_next(struct snp_cloning *v)
{
    if (v->step == CLONE_MOVING) {
        cloning_end(v, NULL);
        return;
    }
    v->has_changed = true;
    ways_close(v);
    copy_files(v);
}

bool snp_clone_on_guest(struct snp_sandbox *s, const struct snp_frame *f)
{
    struct snp_cloning *v = s->transfer.cloning;
    snp_autojson json_t *head = NULL;
    struct snp_err err;

    if (v == NULL || f->type != SNP_GUEST_LOADED || f->id != v->id) {
        return false;
    }
    if (f->head_len > HEAD_MAX || snp_json_parse(f->head, f->head_len, &head, &err) < 0 ||
        (v->step != CLONE_THAWING && v->step != CLONE_MOVING)) {
        v->has_changed = true;
        cloning_fail(v, "the new sandbox broke the protocol");
    } else if (snp_json_bool(head, "ok", false)) {
        become_next(v);
    } else if (v->step == CLONE_THAWING) {
        if (v->why[0] == '\0') {
            (void)snprintf(v->why, sizeof(v->why), "%.*s", WHY_MAX,
                           snp_json_str(head, "error", "no reason was given"));
        }
        v->is_refused = true;
        ways_close(v); /* the writer's reader is gone */
        refuse(v);
    } else {
        cloning_fail(v, snp_json_str(head, "error", "no reason was given"));
    }
    return true;
}

void snp_clone_on_guest_end(struct snp_sandbox *s)
{
    if (s->transfer.cloning != NULL) {
        s->transfer.cloning->has_changed = true;
        cloning_fail(s->transfer.cloning,
                     "the new sandbox's interpreter has ended; it may have met "
                     "its memory limit");
    }
}

void snp_clone_sandbox_ended(struct snp_sandbox *s)
{
    if (s->transfer.cloning != NULL) {
        s->transfer.cloning->has_changed = true;
        cloning_fail(s->transfer.cloning, "the new sandbox ended");
    }
    while (s->transfer.copied != NULL) {
        cloning_fail(s->transfer.copied, "the session ended first");
    }
}
