/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a cell.
 *
 *   waiting --(a snapshot is ready, or impossible)-------------> running
 *   running --(done | command exits)--------------------------> finishing
 *   running --(limit | interrupt)--> stopping --(done in time)--> finishing
 *   stopping --(grace over)--> sweeping --(all killed)--> returning -> finishing
 *   running --(interpreter died | broke the protocol)--> sweeping
 *   running --(done with an error, and is atomic)------> sweeping
 *
 * Returning wakes the standby. Without one it is skipped, and the next cell gets a pristine
 * interpreter.
 *
 * Finishing drains the pipes, asks pid 1 for the changes, and sends the result. If pid 1 does not
 * answer in time the whole sandbox is killed.
 */
#include "tier/engine/cell/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/wire/result.h"
#include "base/wire/rpc.h"
#include "guest/pid1/wire.h"
#include "tier/engine/answer.h"
#include "tier/engine/cell/guarantee.h"
#include "tier/engine/cell/result.h"
#include "tier/engine/cell/running.h"
#include "tier/engine/inside.h"
#include "tier/engine/process.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/snapshot/clone.h"
#include "tier/engine/snapshot/puts.h"
#include "tier/engine/snapshot/rollback.h"
#include "tier/engine/snapshot/snapshot.h"
#include "tier/engine/snapshot/state.h"
#include "tier/engine/stream/handle.h"
#include "tier/engine/stream/output.h"
#include "tier/engine/supervisor.h"
#include "wire/guest.h"

enum {
    GRACE_MS = 1000,
    /* a fresh interpreter's share of its template, which the user is not charged for */
    FRESH_BYTES = 16 << 20,
    /*
     * Pid 1 may compete with all processes of a fork bomb, and giving up loses the session: longer
     * than pid 1's own timeout.
     */
    SWEEP_MS = 15000,
    FINISH_MS = 20000,
    DISPLAYS_MAX = 64,
    DISPLAY_BYTES_MAX = 24 << 20, /* of all displays of a cell */
    FRAMES_MAX = 4096,            /* per cell; more is a flood */
    STRAYS_MAX = 64,              /* frames between cells */
    GUEST_HEAD_MAX = 64 << 10,    /* bytes of JSON in a frame, except the last of a cell */
    CALLS_MAX = 1000,             /* per cell */
    MIMES_MAX = 16,
    MIME_NAME_MAX = 100
};

/*
 * Drop pending calls. Pid 1 answers in order, but is not trusted to: no answer may find a freed
 * cell.
 */
static void forget_calls(struct snp_tier_cell *c)
{
    for (size_t i = 0; i < SNP_INIT_CALLS_MAX; i++) {
        struct snp_init_call *call = &c->sandbox->calls[i];
        if (call->id != 0 && call->data == c) {
            call->cb = snp_sandbox_ignore;
            call->data = NULL;
        }
    }
}

static void pending_free(struct snp_cell_request *rq)
{
    if (rq != NULL) {
        json_decref((json_t *)(uintptr_t)rq->argv);
        free((char *)(uintptr_t)rq->code);
        free(rq);
    }
}

/* A copy of the request that outlives its frame; NULL when out of memory. */
static struct snp_cell_request *pending_copy(const struct snp_cell_request *rq)
{
    struct snp_cell_request *copy = malloc(sizeof(*copy));
    char *bytes = copy == NULL ? NULL : malloc(rq->code_len + rq->input_len + 1);

    if (bytes == NULL) {
        free(copy);
        return NULL;
    }
    *copy = *rq;
    memcpy(bytes, rq->code, rq->code_len);
    memcpy(bytes + rq->code_len, rq->input, rq->input_len);
    copy->code = bytes;
    copy->input = bytes + rq->code_len;
    copy->argv = json_incref((json_t *)(uintptr_t)rq->argv);
    return copy;
}

static void cell_free(struct snp_tier_cell *c)
{
    forget_calls(c);
    snp_detached_forget(c->sandbox, c);
    snp_snapshot_forget(c->sandbox, c);
    snp_return_forget(c->sandbox, c);
    pending_free(c->pending);
    json_decref(c->guarantee.notes);
    c->sandbox->cell = NULL;
    snp_detached_tell(c->sandbox);
    if (!c->sandbox->returning.is_on) {
        snp_puts_forget(c->sandbox);
    }
    snp_handle_close(&c->timer);
    snp_output_done(&c->output[0]);
    snp_output_done(&c->output[1]);
    snp_denials_done(&c->denials);
    json_decref(c->done);
    json_decref(c->files);
    free(c);
}

/* The destination of shown output: one stream of the daemon's request. */
struct show {
    struct snp_tier_cell *cell;
    int stream;
};

static const char *stream_name(int stream)
{
    return stream == 0 ? "stdout" : "stderr";
}

static void show_bytes(void *data, const char *bytes, size_t n)
{
    const struct show *show = data;
    json_t *head =
        snp_record_write(show->stream == 0 ? &snp_event_stdout_form : &snp_event_stderr_form, NULL);

    snp_answer_event(show->cell->sandbox->supervisor, show->cell->id, head, bytes, n);
    json_decref(head);
}

static void show_gap(void *data, uint64_t chars)
{
    const struct show *show = data;
    char hash[17];
    json_t *head;

    (void)snprintf(hash, sizeof(hash), "%016llx",
                   (unsigned long long)snp_output_hash(&show->cell->output[show->stream]));
    head = SNP_WRITE(snp_event_gap, .stream = stream_name(show->stream), .omitted_chars = chars,
                     .hash = hash);

    snp_answer_event(show->cell->sandbox->supervisor, show->cell->id, head, NULL, 0);
    json_decref(head);
}

/* Already answered; later frames have no recipient. */
static void cell_ended(struct snp_tier_cell *c)
{
    struct snp_sandbox *s = c->sandbox;
    bool is_back = c->is_abandoned && c->is_rolled_back;
    bool is_kept = !c->is_rolled_back;
    bool again = c->is_transactional;

    s->ended_cell = c->number;
    snp_snapshot_watch(s, false);
    cell_free(c);
    if (s->state == SNP_SANDBOX_READY && is_kept && s->spec.is_lasting && s->rollback.id == 0) {
        snp_snapshot_spent(s, again);
    }
    snp_return_check(s);
    snp_rollback_cell_ended(s, is_back);
}

static void send_result(struct snp_tier_cell *c)
{
    struct snp_sandbox *s = c->sandbox;
    struct snp_meter_reading usage = {0};
    json_t *result;

    c->end_us = c->end_us == 0 ? snp_now_us() : c->end_us;
    for (int i = 0; i < 2; i++) {
        struct show show = {c, i};
        (void)snp_output_finish(&c->output[i], show_bytes, &show, show_gap);
    }
    if (s->cgroup != NULL) {
        snp_meter_read(&s->meter, &s->supervisor->cgroups, s->cgroup, &usage);
        c->usage = usage;
    }
    result = snp_result_json(c);
    if (s->cgroup != NULL) {
        s->last_usage = usage;
    }
    s->last_flags = c->changes_flags;
    s->last_written_bytes = c->written_bytes;
    s->last_cpu_us = c->init_cpu_us > 0 ? c->init_cpu_us : s->last_cpu_us;
    s->was_restarted = false;
    if (snp_result_is_lost(c)) {
        s->was_lost = true;
        s->holds_state = false;
    } else if (c->kind == SNP_EXEC_PYTHON) {
        s->was_lost = false;
    }
    snp_answer_response(s->supervisor, c->id, result, NULL, 0);
    json_decref(result);
    cell_ended(c);
}

/* The folder below the overlay, if unchanged since it was opened; -1 = none. */
static int project_open(const struct snp_sandbox *s)
{
    snp_autoclose int fd = -1;
    struct stat st;

    if (s->spec.project == NULL || !s->supervisor->ops->shows_project) {
        return -1;
    }
    fd = open(s->spec.project, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != s->project_stat.st_dev ||
        st.st_ino != s->project_stat.st_ino) {
        return -1;
    }
    return SNP_TAKE_FD(fd);
}

static void on_changes(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_tier_cell *c = data;
    const struct snp_tier_ops *ops = c->sandbox->supervisor->ops;
    struct snp_changes_head changes = {0};
    snp_autoclose int project_fd = -1;

    if (eno == EPIPE) {
        return; /* the sandbox is ending; snp_cell_sandbox_ended follows */
    }
    project_fd = project_open(c->sandbox);
    c->files = eno == 0 ? snp_result_files(bytes, n, project_fd, &changes) : NULL;
    c->changes_flags = changes.flags;
    c->init_cpu_us = ops->cpu == NULL ? changes.cpu_us : ops->cpu(c->sandbox);
    c->written_bytes = changes.written_bytes;
    if (!ops->bounds_workspace && c->ended_by == SNP_CELL_END_NONE &&
        changes.written_bytes > c->sandbox->spec.limits.value[SNP_LIMIT_WORKSPACE]) {
        c->ended_by = SNP_CELL_END_DISK;
        c->disk_limit = SNP_LIMIT_WORKSPACE;
    }
    send_result(c);
}

static void on_timer(uv_timer_t *timer);

static void finish(struct snp_tier_cell *c)
{
    if (c->phase == SNP_CELL_FINISHING) {
        return;
    }
    c->phase = SNP_CELL_FINISHING;
    c->end_us = snp_now_us();
    snp_sandbox_drain(c->sandbox);
    if (snp_sandbox_is_unwritten(c->sandbox, &c->written_bytes) &&
        snp_cgroups_count(&c->sandbox->supervisor->cgroups)) {
        c->files = snp_result_no_files(false);
        send_result(c); /* no change, and no need for pid 1 */
        return;
    }
    (void)uv_timer_start(c->timer, on_timer, FINISH_MS, 0);
    c->sandbox->supervisor->ops->watch(c->sandbox, snp_detached_is_running(c->sandbox));
    snp_sandbox_ask_init(c->sandbox, SNP_ASK(SNP_INIT_CHANGES, NULL, 0, -1), on_changes, c);
}

static void on_returned(void *data, bool ok)
{
    struct snp_tier_cell *c = data;

    c->is_rolled_back = ok;
    finish(c);
}

/* Is there a state to roll back to? */
static bool can_return(const struct snp_tier_cell *c)
{
    return c->is_abandoned || c->guarantee.interpreter == SNP_GUARANTEE_STANDBY ||
           c->guarantee.workspace == SNP_GUARANTEE_FILES_COPIED;
}

/*
 * May the sandbox roll back? This ends the interpreter. A command has not changed it: if no copy
 * would replace it, keep the command's file changes rather than lose all variables.
 */
static bool may_return(struct snp_tier_cell *c)
{
    struct snp_sandbox *s = c->sandbox;

    if (!can_return(c)) {
        return false;
    }
    if (c->is_abandoned || c->guarantee.interpreter == SNP_GUARANTEE_STANDBY ||
        !s->has_interpreter || !s->holds_state) {
        return true;
    }
    snp_cell_note(s, "the command's files stay: restoring them would have ended the "
                     "interpreter, which has no copy");
    return false;
}

static void cell_swept(struct snp_sandbox *s, int eno)
{
    struct snp_tier_cell *c = s->cell;

    if (c == NULL || c->phase != SNP_CELL_SWEEPING) {
        return;
    }
    if (eno == 0 && can_return(c)) {
        c->phase = SNP_CELL_RETURNING;
        (void)uv_timer_start(c->timer, on_timer, FINISH_MS, 0);
        snp_return_to(s, c->return_to, on_returned, c);
    } else if (eno == 0) {
        finish(c);
    } else if (eno != EPIPE) {
        snp_sandbox_kill(s, "processes of the sandbox could not be ended");
    }
}

/* Kill every process except init and the snapshots. */
static void sweep(struct snp_tier_cell *c)
{
    if (c->phase == SNP_CELL_WAITING || c->phase >= SNP_CELL_SWEEPING) {
        return;
    }
    c->phase = SNP_CELL_SWEEPING;
    c->was_swept = true;
    (void)uv_timer_start(c->timer, on_timer, SWEEP_MS, 0);
    snp_return_sweep(c->sandbox, cell_swept);
}

static void signal_code(struct snp_tier_cell *c, uint32_t number)
{
    const struct snp_init_signal raw = {
        .target = c->kind != SNP_EXEC_PYTHON ? SNP_INIT_COMMAND_TARGET : SNP_INIT_INTERPRETER,
        .number = number};

    snp_sandbox_ask_init(c->sandbox,
                         SNP_ASK(SNP_INIT_SIGNAL, &raw, offsetof(struct snp_init_signal, pid), -1),
                         snp_sandbox_ignore, NULL);
}

static void stop(struct snp_tier_cell *c, enum snp_cell_end why)
{
    if (c->phase != SNP_CELL_RUNNING) {
        return;
    }
    c->ended_by = why;
    c->phase = SNP_CELL_STOPPING;
    (void)uv_timer_start(c->timer, on_timer, GRACE_MS, 0);
    signal_code(c, SIGINT);
}

static void on_timer(uv_timer_t *timer)
{
    struct snp_tier_cell *c = timer->data;

    switch (c->phase) {
    case SNP_CELL_WAITING:
        break; /* this phase has no time limit */
    case SNP_CELL_RUNNING:
        stop(c, SNP_CELL_END_WALL);
        break;
    case SNP_CELL_STOPPING:
        if (c->kind != SNP_EXEC_PYTHON && !may_return(c)) {
            c->phase = SNP_CELL_KILLING;
            (void)uv_timer_start(c->timer, on_timer, SWEEP_MS, 0);
            signal_code(c, SIGKILL);
        } else {
            sweep(c);
        }
        break;
    case SNP_CELL_KILLING:
    case SNP_CELL_SWEEPING:
    case SNP_CELL_RETURNING:
    case SNP_CELL_FINISHING:
        snp_sandbox_kill(c->sandbox, "pid 1 of the sandbox does not answer");
        break;
    }
}

bool snp_cell_interrupt(struct snp_sandbox *s)
{
    struct snp_tier_cell *c = s->cell;

    if (c != NULL && c->phase == SNP_CELL_WAITING && c->ended_by == SNP_CELL_END_NONE) {
        c->ended_by = SNP_CELL_END_USER; /* it will not begin */
        return true;
    }
    if (c == NULL || c->phase != SNP_CELL_RUNNING) {
        return false;
    }
    stop(c, SNP_CELL_END_USER);
    return true;
}

void snp_cell_abandon(struct snp_sandbox *s, uint32_t snapshot)
{
    struct snp_tier_cell *c = s->cell;

    if (c->phase == SNP_CELL_WAITING) {
        c->ended_by = SNP_CELL_END_USER;
    } else if (c->phase < SNP_CELL_RETURNING) {
        c->ended_by = SNP_CELL_END_USER;
        c->is_abandoned = true;
        c->return_to = snapshot;
        sweep(c);
    }
}

void snp_cell_on_put(struct snp_sandbox *s, const struct snp_buf *raw)
{
    bool is_running = s->cell != NULL && s->cell->is_transactional;

    if (is_running || s->returning.is_on) {
        snp_puts_add(s, raw);
    }
}

/* The workspace's path inside the sandbox. */
static const char *workspace_path(const struct snp_sandbox *s, char *out, size_t len)
{
    (void)snprintf(out, len, "%s/workspace", s->folder);
    return out;
}

static int send_cell(struct snp_tier_cell *c,
                     const struct snp_cell_request *rq,
                     struct snp_err *err)
{
    char path[SNP_FOLDER_MAX + 16];
    const char *workspace = workspace_path(c->sandbox, path, sizeof(path));
    snp_autobuf struct snp_buf raw = {0};
    struct snp_frame frame = {.type = SNP_GUEST_CELL, .id = (uint32_t)rq->number};
    json_t *head;

    snp_buf_init(&raw, SNP_FRAME_BODY_MAX);
    if (snp_buf_add(&raw, rq->code, rq->code_len) < 0 ||
        snp_buf_add(&raw, rq->input, rq->input_len) < 0) {
        return snp_fail(err, SNP_E_LIMIT, "code and input are larger than %d MiB",
                        SNP_FRAME_BODY_MAX >> 20);
    }
    frame.raw = snp_buf_bytes(&raw);
    frame.raw_len = raw.len;
    head = SNP_WRITE(snp_guest_cell, .cell = rq->number, .code_len = rq->code_len,
                     .stdin = rq->has_stdin, .cwd = workspace, .calls = rq->has_calls,
                     .argv = (json_t *)(uintptr_t)rq->argv);
    return snp_guest_send(&c->sandbox->guest, &frame, head, -1) < 0
               ? snp_fail(err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static void on_command(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_tier_cell *c = data;

    (void)bytes;
    (void)n;
    if (eno != 0 && eno != EPIPE) { /* it was not started */
        c->start_errno = eno;
        finish(c);
    }
}

static void on_detached(void *data, int eno)
{
    struct snp_tier_cell *c = data;

    if (eno == EPIPE) {
        return; /* the sandbox is ending; snp_cell_sandbox_ended follows */
    }
    c->start_errno = eno;
    c->is_started = eno == 0;
    if (c->phase <= SNP_CELL_STOPPING) {
        finish(c);
    }
}

static int add_list(struct snp_buf *raw, uint32_t n)
{
    return snp_buf_add(raw, &n, sizeof(n));
}

static int send_command(struct snp_tier_cell *c,
                        const struct snp_cell_request *rq,
                        struct snp_err *err)
{
    const struct snp_sandbox_spec *spec = &c->sandbox->spec;
    char path[SNP_FOLDER_MAX + 16];
    const char *workspace = workspace_path(c->sandbox, path, sizeof(path));
    snp_autobuf struct snp_buf raw = {0};
    uint32_t envc = 0;
    uint8_t has_stdin = rq->has_stdin ? 1 : 0;
    size_t i;
    json_t *arg;
    int r;

    snp_buf_init(&raw, SNP_FRAME_BODY_MAX);
    r = add_list(&raw, (uint32_t)json_array_size(rq->argv));
    json_array_foreach((json_t *)(uintptr_t)rq->argv, i, arg)
    {
        if (r == 0) {
            r = snp_buf_add(&raw, json_string_value(arg), json_string_length(arg) + 1);
        }
    }
    for (uint32_t k = 0; k < spec->env_len; k++) {
        envc += spec->env[k] == '\0' ? 1 : 0;
    }
    if (r < 0 || add_list(&raw, envc) < 0 || snp_buf_add(&raw, spec->env, spec->env_len) < 0 ||
        snp_buf_add(&raw, workspace, strlen(workspace) + 1) < 0 ||
        snp_buf_add(&raw, &has_stdin, 1) < 0 || snp_buf_add(&raw, rq->input, rq->input_len) < 0) {
        return snp_fail(err, SNP_E_LIMIT, "command and input are larger than %d MiB",
                        SNP_FRAME_BODY_MAX >> 20);
    }
    if (c->kind == SNP_EXEC_PROCESS) {
        const struct snp_detached_spec process = {.number = rq->number,
                                                  .command = &raw,
                                                  .has_open_stdin = rq->has_open_stdin,
                                                  .argv = rq->argv,
                                                  .cb = on_detached,
                                                  .data = c};

        return snp_detached_start(c->sandbox, &process, err);
    }
    snp_sandbox_ask_init(c->sandbox, SNP_ASK(SNP_INIT_COMMAND, snp_buf_bytes(&raw), raw.len, -1),
                         on_command, c);
    return 0;
}

/* Exit statuses by which the programs of a command may report an unreachable host. */
static uint32_t quiet_exits(const json_t *argv)
{
    size_t i;
    const json_t *word;
    uint32_t exits = 0;

    json_array_foreach((json_t *)(uintptr_t)argv, i, word)
    {
        const char *text = json_string_value(word);

        if (text != NULL &&
            (strstr(text, "localhost") != NULL || strstr(text, "127.0.0.1") != NULL)) {
            return 0;
        }
        exits |= text != NULL && strstr(text, "curl") != NULL ? 1U << 6 | 1U << 7 : 0;
        exits |= text != NULL && strstr(text, "wget") != NULL ? 1U << 4 : 0;
    }
    return exits;
}

static int cell_init(struct snp_tier_cell *c,
                     struct snp_sandbox *s,
                     const struct snp_cell_request *rq)
{
    c->sandbox = s;
    c->id = rq->id;
    c->number = rq->number;
    (void)snprintf(c->owner, sizeof(c->owner), "%s", rq->owner);
    c->kind = rq->kind;
    c->quiet_exits = rq->kind != SNP_EXEC_PYTHON ? quiet_exits(rq->argv) : 0;
    c->is_transactional = rq->is_transactional && s->has_pristine;
    c->is_atomic = rq->is_atomic;
    c->has_calls = rq->has_calls;
    c->epoch = rq->epoch;
    c->wall_ms = rq->wall_ms;
    c->start_us = snp_now_us();
    c->timer = snp_timer_new(s->supervisor->loop, c);
    for (int i = 0; i < 2; i++) {
        const struct snp_output_keeper keeper = {.spools = &s->supervisor->spools,
                                                 .owner = c->owner,
                                                 .cell = rq->number,
                                                 .stream = stream_name(i)};
        snp_output_init(&c->output[i], s->spec.limits.value[SNP_LIMIT_OUTPUT], &keeper);
    }
    return c->timer == NULL ? -1 : 0;
}

/* The interpreter is unusable; the next cell gets a new one. */
static void lose_interpreter(struct snp_sandbox *s)
{
    snp_sandbox_drop_interpreter(s);
    s->has_interpreter = false;
    s->was_restarted = s->holds_state || s->was_lost;
    snp_snapshot_on_lost(s);
}

/* Set the cell's protection before it begins. */
static int take_guarantee(struct snp_tier_cell *c, struct snp_err *err)
{
    const struct snp_tier_snapshots *bs = &c->sandbox->snapshots;

    if (c->is_transactional && bs->has_standby) {
        c->return_to = bs->standby;
    }
    if (c->is_transactional) {
        c->guarantee = snp_guarantee_copy(&bs->guarantee);
    }
    if (c->is_atomic && (c->guarantee.interpreter != SNP_GUARANTEE_STANDBY ||
                         c->guarantee.workspace != SNP_GUARANTEE_FILES_COPIED)) {
        const char *why = json_string_value(json_array_get(c->guarantee.notes, 0));
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "atomic: the cell was not started, because its effects could not be "
                        "undone here: %.300s",
                        !c->is_transactional ? "transactions are off, or the session has no name"
                        : why == NULL        ? "the session cannot be copied"
                                             : why);
    }
    return 0;
}

static int cell_run(struct snp_tier_cell *c, const struct snp_cell_request *rq, struct snp_err *err)
{
    struct snp_sandbox *s = c->sandbox;
    int r = take_guarantee(c, err);

    c->phase = SNP_CELL_RUNNING;
    c->start_us = snp_now_us();
    c->was_restarted = s->was_restarted;
    s->strays = rq->kind != SNP_EXEC_PYTHON ? s->strays : 0;
    if (r == 0 && rq->kind == SNP_EXEC_PYTHON && !s->has_interpreter) {
        r = snp_return_restart(s, err);
        c->was_restarted = s->was_restarted;
    }
    if (r == 0) {
        if (s->cgroup != NULL) {
            snp_meter_start(&s->meter, &s->supervisor->cgroups, s->cgroup);
        }
        s->supervisor->ops->watch(s, true);
        snp_snapshot_watch(s, true);
        s->holds_state = s->holds_state || rq->kind == SNP_EXEC_PYTHON;
        r = rq->kind != SNP_EXEC_PYTHON ? send_command(c, rq, err) : send_cell(c, rq, err);
    }
    if (r < 0) {
        cell_free(c);
        return r;
    }
    /* If pid 1 could not be asked to start a command, the cell is already answered and freed. */
    if (s->cell == c && c->phase == SNP_CELL_RUNNING) {
        /*
         * The loop's time was read at its last wake-up, in whole milliseconds: update it, so that
         * no cell gets less than its limit.
         */
        uv_update_time(s->supervisor->loop);
        (void)uv_timer_start(c->timer, on_timer, rq->wall_ms + 1, 0);
    }
    return 0;
}

/* The snapshot is ready, or impossible. */
static void on_prepared(void *data);

/* Can the cell begin now? If not, on_prepared runs when it can. */
static bool is_prepared(struct snp_tier_cell *c)
{
    struct snp_sandbox *s = c->sandbox;

    return (!c->is_transactional && s->snapshots.n_pauses == 0) ||
           snp_snapshot_prepare(s, on_prepared, c);
}

static void on_prepared(void *data)
{
    struct snp_tier_cell *c = data;
    struct snp_supervisor *supervisor = c->sandbox->supervisor;
    struct snp_cell_request *rq;
    struct snp_err err;
    uint32_t id = c->id;

    if (c->sandbox->state == SNP_SANDBOX_READY && c->ended_by == SNP_CELL_END_NONE &&
        !is_prepared(c)) {
        return; /* waits again: others were served first */
    }
    rq = SNP_TAKE_PTR(c->pending);
    if (c->sandbox->state != SNP_SANDBOX_READY) {
        pending_free(rq); /* ended by snp_cell_sandbox_ended */
        return;
    }
    if (c->ended_by != SNP_CELL_END_NONE) {
        (void)take_guarantee(c, &err);
        (void)snprintf(c->why, sizeof(c->why), "the cell had not started");
        finish(c);
    } else if (cell_run(c, rq, &err) < 0) {
        snp_answer_error(supervisor, id, &err);
    }
    pending_free(rq);
}

static int check_start(const struct snp_sandbox *s,
                       const struct snp_cell_request *rq,
                       struct snp_err *err)
{
    if (s->cell != NULL) {
        return snp_fail(err, SNP_E_LIMIT, "the session is running another cell");
    }
    if (s->returning.is_on || s->rollback.id != 0) {
        return snp_fail(err, SNP_E_LIMIT, "the session is being rolled back");
    }
    if (rq->epoch != 0 && s->epoch != 0 && rq->epoch != s->epoch) {
        return snp_fail(err, SNP_E_INVALID, "the session is in epoch %llu, not %llu",
                        (unsigned long long)s->epoch, (unsigned long long)rq->epoch);
    }
    return 0;
}

int snp_cell_start(struct snp_sandbox *s, const struct snp_cell_request *rq, struct snp_err *err)
{
    struct snp_tier_cell *c;
    int r = check_start(s, rq, err);

    if (r < 0) {
        return r;
    }
    c = calloc(1, sizeof(*c));
    if (c == NULL || cell_init(c, s, rq) < 0) {
        free(c);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    s->cell = c;
    /* Code that forged the end of its cell may die just before the next one. */
    if (s->has_interpreter && snp_link_is_open(&s->guest) && snp_link_has_ended(&s->guest)) {
        lose_interpreter(s);
    }
    s->wants_snapshot = c->is_transactional;
    s->transfer.has_run = true;
    if (is_prepared(c)) {
        return cell_run(c, rq, err);
    }
    c->pending = pending_copy(rq);
    if (c->pending == NULL) {
        cell_free(c);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    return 0;
}

/*
 * The interpreter is lost. Returns the cell that it was running, or NULL: a waiting cell was not
 * yet running in it.
 */
static struct snp_tier_cell *lose_under_cell(struct snp_sandbox *s)
{
    bool is_its_own =
        s->cell != NULL && s->cell->kind == SNP_EXEC_PYTHON && s->cell->phase != SNP_CELL_WAITING;

    lose_interpreter(s); /* may begin or end the waiting cell */
    if (s->cell == NULL) {
        snp_return_check(s);
    }
    return is_its_own ? s->cell : NULL;
}

/* The interpreter violated the protocol. */
static void broke_protocol(struct snp_sandbox *s, const char *what)
{
    struct snp_tier_cell *c = lose_under_cell(s);

    if (c != NULL) {
        if (c->ended_by == SNP_CELL_END_NONE) {
            c->ended_by = SNP_CELL_END_PROTOCOL;
        }
        (void)snprintf(c->why, sizeof(c->why), "%s", what);
        sweep(c);
    }
}

static bool display_is_sound(const json_t *mimes, size_t raw_len)
{
    size_t i;
    json_t *pair;
    uint64_t total = 0;

    if (!json_is_array(mimes) || json_array_size(mimes) == 0 ||
        json_array_size(mimes) > MIMES_MAX) {
        return false;
    }
    json_array_foreach((json_t *)(uintptr_t)mimes, i, pair)
    {
        const json_t *name = json_array_get(pair, 0);
        const json_t *len = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_string(name) ||
            json_string_length(name) > MIME_NAME_MAX || !json_is_integer(len) ||
            json_integer_value(len) < 0 || json_integer_value(len) > SNP_GUEST_BODY_MAX) {
            return false;
        }
        total += (uint64_t)json_integer_value(len);
    }
    return total == raw_len;
}

/* The manifest shows the version, so take only characters of a version. */
static void guest_ready(struct snp_sandbox *s, const json_t *head)
{
    const char *version = snp_json_str(head, "python", "");
    size_t n = strspn(version, "0123456789.abcrc+");

    (void)snprintf(s->python, sizeof(s->python), "%.*s", (int)(n < 31 ? n : 31), version);
}

static void guest_display(struct snp_sandbox *s, const json_t *head, const struct snp_frame *f)
{
    struct snp_tier_cell *c = s->cell;
    json_t *mimes = json_object_get(head, "mime");
    json_t *event;

    if (!display_is_sound(mimes, f->raw_len)) {
        broke_protocol(s, "a display record is malformed");
        return;
    }
    if (c == NULL || c->kind != SNP_EXEC_PYTHON) {
        return;
    }
    c->display_bytes += f->raw_len;
    if (c->n_displays++ >= DISPLAYS_MAX || c->display_bytes > DISPLAY_BYTES_MAX) {
        snp_denials_add(&c->denials, &(struct snp_denial){
                                         .source = "limit",
                                         .control = "resources",
                                         .operation = "display",
                                         .object = "",
                                         .rule = "64 displays, 24 MiB in a cell",
                                         .hint = "show fewer displays, or write them to files"});
        return;
    }
    event = SNP_WRITE(snp_event_display, .mime = mimes);
    snp_answer_event(s->supervisor, c->id, event, f->raw, f->raw_len);
    json_decref(event);
}

static void guest_denial(struct snp_sandbox *s, const json_t *head)
{
    static const char *const controls[] = {"network", "resources", "filesystem", "syscalls"};
    bool is_known = false;
    /* with a network it was not refused, even if the interpreter reports so */
    bool is_true;
    const struct snp_denial d = {
        .source = "guest",
        .control = snp_json_str(head, "control", ""),
        .operation = snp_json_str(head, "operation", ""),
        .object = snp_json_str(head, "object", ""),
        .rule = snp_json_str(head, "rule", ""),
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(controls); i++) {
        is_known = is_known || snp_streq(d.control, controls[i]);
    }
    is_true = !s->spec.has_network || !snp_streq(d.control, "network");
    if (!is_known) {
        broke_protocol(s, "a denial names no control");
    } else if (s->cell != NULL && s->cell->kind == SNP_EXEC_PYTHON && is_true) {
        snp_denials_add(&s->cell->denials, &d);
    }
}

/*
 * Was the cell stopped after it reached the limit of processes? Those that missed the signal, as
 * Python's do just after a fork, would leave the next cell no time and no process for its copy.
 */
static bool leaves_crowd(struct snp_tier_cell *c)
{
    struct snp_sandbox *s = c->sandbox;

    if (c->phase != SNP_CELL_STOPPING || c->guarantee.interpreter != SNP_GUARANTEE_STANDBY) {
        return false;
    }
    if (s->cgroup != NULL) {
        snp_meter_read(&s->meter, &s->supervisor->cgroups, s->cgroup, &c->usage);
    }
    return c->is_crowded || c->usage.pids_denied > s->last_usage.pids_denied;
}

static void guest_done(struct snp_sandbox *s, const json_t *head, const struct snp_frame *f)
{
    struct snp_tier_cell *c = s->cell;
    const char *status = snp_json_str(head, "status", "");

    if (c == NULL || c->kind != SNP_EXEC_PYTHON || c->phase == SNP_CELL_WAITING ||
        f->id != (uint32_t)c->number || (!snp_streq(status, "ok") && !snp_streq(status, "error"))) {
        broke_protocol(s, "an end was reported for a cell that does not run");
        return;
    }
    if (c->phase == SNP_CELL_RUNNING || c->phase == SNP_CELL_STOPPING) {
        if (leaves_crowd(c)) {
            sweep(c);
            return;
        }
        c->done = json_incref((json_t *)(uintptr_t)head);
        if (c->is_atomic && !snp_streq(status, "ok")) {
            sweep(c);
        } else {
            finish(c);
        }
    }
}

static void answer_send(struct snp_tier_cell *c, const struct snp_cell_answer *answer)
{
    const struct snp_frame frame = {
        .type = SNP_GUEST_ANSWER,
        .id = (uint32_t)c->number,
        .raw = answer->raw,
        .raw_len = answer->raw_len,
    };
    json_t *head = SNP_WRITE(snp_guest_answer, .call = answer->call, .ok = answer->is_ok);

    c->has_open_call = false;
    /* If it could not be sent, the cell runs into its time limit. */
    (void)!snp_guest_send(&c->sandbox->guest, &frame, head, -1);
}

bool snp_cell_answer(struct snp_sandbox *s, const struct snp_cell_answer *answer)
{
    struct snp_tier_cell *c = s->cell;

    if (c == NULL || c->number != answer->cell || !c->has_open_call || c->n_calls != answer->call ||
        c->phase == SNP_CELL_WAITING || c->phase > SNP_CELL_STOPPING) {
        return false;
    }
    answer_send(c, answer);
    return true;
}

/* Pass a call to the cell's client. One at a time: the next only after an answer. */
static void guest_call(struct snp_sandbox *s, const json_t *head, const struct snp_frame *f)
{
    static const char too_many[] = "{\"error\": \"a cell makes at most 1000 calls\"}";
    struct snp_tier_cell *c = s->cell;
    json_t *event;

    if (c == NULL || c->kind != SNP_EXEC_PYTHON || !c->has_calls || c->phase == SNP_CELL_WAITING ||
        f->id != (uint32_t)c->number || c->has_open_call ||
        snp_json_int(head, "call", 0) != (int64_t)c->n_calls + 1 || f->raw_len == 0 ||
        f->raw_len > SNP_CALL_BYTES_MAX) {
        broke_protocol(s, "a call is malformed, or not to be made now");
        return;
    }
    c->n_calls++;
    c->has_open_call = true;
    if (c->n_calls > CALLS_MAX) {
        answer_send(c, &(struct snp_cell_answer){
                           .call = c->n_calls, .raw = too_many, .raw_len = sizeof(too_many) - 1});
        return;
    }
    if (c->phase != SNP_CELL_RUNNING) {
        return; /* it is being stopped */
    }
    event = SNP_WRITE(snp_event_call, .call = c->n_calls);
    snp_answer_event(s->supervisor, c->id, event, f->raw, f->raw_len);
    json_decref(event);
}

void snp_cell_on_guest(struct snp_sandbox *s, const struct snp_frame *f)
{
    snp_autojson json_t *head = NULL;
    struct snp_err err;

    if ((f->type == SNP_GUEST_HELD && f->head_len <= GUEST_HEAD_MAX &&
         snp_snapshot_on_held(s, f)) ||
        snp_state_on_guest(s, f) || snp_clone_on_guest(s, f)) {
        return;
    }
    if (s->cell == NULL || s->cell->kind != SNP_EXEC_PYTHON ? s->strays++ > STRAYS_MAX
                                                            : s->cell->n_frames++ > FRAMES_MAX) {
        broke_protocol(s, "the interpreter floods its stream");
        return;
    }
    if (f->type != SNP_GUEST_DONE && f->head_len > GUEST_HEAD_MAX) {
        broke_protocol(s, "the head of a frame is too long");
        return;
    }
    if (snp_json_parse(f->head, f->head_len, &head, &err) < 0) {
        broke_protocol(s, "a frame of the interpreter is not JSON");
        return;
    }
    switch (f->type) {
    case SNP_GUEST_READY:
        guest_ready(s, head);
        break;
    case SNP_GUEST_DISPLAY:
        guest_display(s, head, f);
        break;
    case SNP_GUEST_DENIAL:
        guest_denial(s, head);
        break;
    case SNP_GUEST_CALL:
        guest_call(s, head, f);
        break;
    case SNP_GUEST_DONE:
        guest_done(s, head, f);
        break;
    case SNP_GUEST_HELD:
    case SNP_GUEST_SAVED:
    case SNP_GUEST_LOADED:
        break; /* too late */
    default:
        broke_protocol(s, "the interpreter sent a frame of an unknown type");
    }
}

void snp_cell_on_guest_end(struct snp_sandbox *s, const struct snp_err *err)
{
    struct snp_tier_cell *c = lose_under_cell(s);

    snp_state_on_guest_end(s);
    snp_clone_on_guest_end(s);
    if (c != NULL && c->phase <= SNP_CELL_STOPPING) {
        (void)snprintf(c->why, sizeof(c->why), "%s", err->msg);
        sweep(c);
    }
}

void snp_cell_on_output(struct snp_sandbox *s, int stream, const char *bytes, size_t n)
{
    struct snp_tier_cell *c = s->cell;
    struct show show = {c, stream};

    if (c != NULL) { /* between cells: a leftover process writes; no recipient */
        snp_output_feed(&c->output[stream], bytes, n, show_bytes, &show);
    }
}

/* Was a command killed, or has an atomic one failed? */
static bool must_undo(struct snp_tier_cell *c)
{
    bool was_killed = c->phase == SNP_CELL_RUNNING && WIFSIGNALED(c->exit_status);

    return (was_killed || (c->is_atomic && c->exit_status != 0)) && may_return(c);
}

void snp_cell_on_exit(struct snp_sandbox *s, uint32_t id, const char *raw)
{
    struct snp_tier_cell *c = s->cell;
    uint32_t status;
    uint8_t target = (uint8_t)raw[0];

    (void)id;
    memcpy(&status, raw + 1, sizeof(status));
    if (target == SNP_INIT_INTERPRETER && s->is_waking) {
        return;
    }
    if (target == SNP_INIT_INTERPRETER) {
        s->has_interpreter = false;
        s->was_restarted = s->holds_state || s->was_lost;
        if (c == NULL) {
            snp_return_check(s);
        }
        if (c == NULL || c->kind != SNP_EXEC_PYTHON) {
            return;
        }
        if (c->phase != SNP_CELL_WAITING && c->phase < SNP_CELL_RETURNING) {
            c->has_exit = true;
            c->exit_status = (int)status;
            sweep(c);
        }
        return;
    }
    if (c == NULL || c->kind == SNP_EXEC_PYTHON || c->phase == SNP_CELL_FINISHING) {
        return;
    }
    c->has_exit = true;
    c->exit_status = (int)status;
    if (must_undo(c)) {
        sweep(c);
    } else if (c->phase < SNP_CELL_SWEEPING) {
        finish(c);
    }
}

void snp_cell_on_memory(struct snp_sandbox *s, uint64_t bytes, bool is_crowded)
{
    struct snp_tier_cell *c = s->cell;

    if (c == NULL) {
        if (bytes > s->spec.limits.value[SNP_LIMIT_MEMORY] + FRESH_BYTES) {
            snp_detached_kill(s);
        }
        return;
    }
    c->is_crowded |= is_crowded;
    c->watched_peak = bytes > c->watched_peak ? bytes : c->watched_peak;
    if (bytes > s->spec.limits.value[SNP_LIMIT_MEMORY] + FRESH_BYTES &&
        c->phase != SNP_CELL_WAITING && c->phase <= SNP_CELL_STOPPING) {
        c->ended_by = SNP_CELL_END_MEMORY;
        sweep(c); /* no grace: it would keep growing */
    }
}

void snp_cell_on_disk(struct snp_sandbox *s, enum snp_limit limit)
{
    struct snp_tier_cell *c = s->cell;

    if (c != NULL && c->phase != SNP_CELL_WAITING && c->phase <= SNP_CELL_STOPPING) {
        c->ended_by = SNP_CELL_END_DISK;
        c->disk_limit = limit;
        sweep(c);
    }
}

void snp_cell_on_denial(struct snp_sandbox *s, const struct snp_denial *denial)
{
    if (s->cell != NULL) {
        snp_denials_add(&s->cell->denials, denial);
    }
}

void snp_cell_sandbox_ended(struct snp_tier_cell *c)
{
    c->sandbox->has_interpreter = false;
    c->is_session_over = true;
    if (c->why[0] == '\0') {
        (void)snprintf(c->why, sizeof(c->why), "%s", c->sandbox->reason);
    }
    send_result(c);
}
