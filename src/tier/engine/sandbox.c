/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening: search the project for secrets (worker thread), then take over a pooled sandbox that
 * was made the same, or get a pending sandbox, send the spec, wait for the reply of the set-up.
 * A pooled sandbox goes the same way, asked for by nobody. Closing: kill pid 1, wait
 * for its pidfd, remove the cgroups; only then is the request answered, so "closed" means
 * that nothing is left.
 */
#include "tier/engine/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/magic.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "guest/pid1/wire.h"
#include "os/idmap.h"
#include "tier/engine/cell.h"
#include "tier/engine/pool.h"
#include "tier/engine/serve.h"
#include "tier/engine/supervisor.h"
#include "tier/host/procs.h"
#include "tier/host/secrets.h"
#include "tier/local/emulate.h"
#include "tier/local/folder.h"
#include "tier/local/local.h"
#include "tier/native/signals.h"
#include "wire/rpc.h"

enum {
    SETUP_TIMEOUT_MS = 30000,
    CALL_TIMEOUT_US = 30000000, /* half of the daemon's patience */
    TRANSFER_TIMEOUT_US = 600000000,
    REMOVE_RETRY_MS = 5,
    MARGIN_MIN = 12 << 20, /* bytes a fresh interpreter writes to its copy of the template */
    REMOVALS_MAX = 400,
    END_MS = 4000,
    READ_CHUNK = 64 << 10,
    READS_MAX = 4,
    NEARLY_FULL = 64 << 10 /* bytes; where pid 1 would say that it is full */
};

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

static void close_poll(uv_poll_t **poll)
{
    if (*poll != NULL) {
        (void)uv_poll_stop(*poll);
        uv_close((uv_handle_t *)SNP_TAKE_PTR(*poll), free_handle);
    }
}

static uv_poll_t *watch(struct snp_sandbox *s, int fd, uv_poll_cb cb)
{
    uv_poll_t *poll = calloc(1, sizeof(*poll));

    if (poll != NULL && uv_poll_init(s->supervisor->loop, poll, fd) < 0) {
        free(poll);
        return NULL;
    }
    if (poll != NULL) {
        poll->data = s;
        (void)uv_poll_start(poll, UV_READABLE, cb);
    }
    return poll;
}

/* Everything but the process and its cgroups. */
static void close_streams(struct snp_sandbox *s)
{
    close_poll(&s->setup_poll);
    for (int i = 0; i < 2; i++) {
        close_poll(&s->out_poll[i]);
        snp_closep(&s->out_fd[i]);
        snp_closep(&s->out_wr_fd[i]);
    }
    for (int i = 0; i < SNP_SETUP_FS_N; i++) {
        snp_closep(&s->fs_fd[i]);
    }
    snp_closep(&s->project_fd);
    snp_meter_done(&s->meter);
    snp_notify_close(&s->notify);
    snp_link_close(&s->guest);
    snp_link_close(&s->init);
    snp_buf_done(&s->guest.in);
    snp_buf_done(&s->init.in);
}

static void fail_calls(struct snp_sandbox *s)
{
    for (size_t i = 0; i < SNP_CALLS_MAX; i++) {
        struct snp_init_call call = s->calls[i];
        if (call.id != 0) {
            s->calls[i].id = 0;
            call.cb(call.data, EPIPE, NULL, 0);
        }
    }
}

/* Ids are random hex digits, so a few of them are hash enough. */
static struct snp_sandbox **chain(struct snp_supervisor *supervisor, const char *id)
{
    uint32_t hash = 0;

    for (size_t i = 0; i < 8 && id[i] != '\0'; i++) {
        hash = hash * 31 + (unsigned char)id[i];
    }
    return &supervisor->by_id[(hash ^ hash >> 16U) & (SNP_SUPERVISOR_SANDBOXES_MAX - 1)];
}

static void lists_enter(struct snp_supervisor *supervisor, struct snp_sandbox *s)
{
    struct snp_sandbox **head = s->is_pooled ? &supervisor->pooled : &supervisor->sandboxes;

    s->next = *head;
    s->before = head;
    if (s->next != NULL) {
        s->next->before = &s->next;
    }
    *head = s;
    if (!s->is_pooled) {
        struct snp_sandbox **first = chain(supervisor, s->spec.id);
        s->same_id = *first;
        *first = s;
        supervisor->n_sandboxes++;
    }
}

static void lists_leave(struct snp_supervisor *supervisor, struct snp_sandbox *s)
{
    if (s->before == NULL) {
        return; /* it is in none */
    }
    *s->before = s->next;
    if (s->next != NULL) {
        s->next->before = s->before;
    }
    s->before = NULL;
    if (!s->is_pooled) {
        struct snp_sandbox **at = chain(supervisor, s->spec.id);
        while (*at != s) {
            at = &(*at)->same_id;
        }
        *at = s->same_id;
        supervisor->n_sandboxes--;
    }
}

static void sandbox_free(struct snp_sandbox *s)
{
    struct snp_supervisor *supervisor = s->supervisor;

    lists_leave(supervisor, s);
    supervisor->n_opening -= s->state == SNP_SANDBOX_OPENING ? 1 : 0;
    close_streams(s);
    if (s->has_process) {
        snp_pending_drop(supervisor, &s->process);
    } else {
        snp_supervisor_free_slot(supervisor, s->process.slot);
    }
    if (s->timer != NULL) {
        uv_close((uv_handle_t *)SNP_TAKE_PTR(s->timer), free_handle);
    }
    if (s->watch != NULL) {
        uv_close((uv_handle_t *)SNP_TAKE_PTR(s->watch), free_handle);
    }
    snp_snapshots_done(s);
    snp_puts_forget(s);
    snp_buf_done(&s->mask);
    json_decref(s->masked);
    json_decref(s->degraded);
    snp_python_done(&s->spec.python);
    free(s->spec.project);
    free(s->spec.env);
    free(s->spec.instead_of);
    free(s);
}

/* Nothing of it runs any more: tell whoever asked and forget it. */
static void sandbox_gone(struct snp_sandbox *s)
{
    if (s->is_pooled) {
        snp_log(SNP_LOG_DEBUG, "pool_gone", "reason=%s", s->reason);
    } else if (s->state == SNP_SANDBOX_OPENING && s->open_id != 0) {
        struct snp_err err = s->open_err;
        if (err.code == SNP_OK) {
            (void)snp_fail(&err, SNP_E_INTERNAL, "the sandbox could not be set up: %s",
                           s->reason[0] == '\0' ? "it ended before it was ready" : s->reason);
        }
        snp_serve_error(s->supervisor, s->open_id, &err);
    } else if (s->close_id != 0) {
        snp_serve_response(s->supervisor, s->close_id, NULL, NULL, 0);
    } else {
        snp_serve_gone(s->supervisor, s->spec.id,
                       s->reason[0] == '\0' ? "pid 1 of the sandbox ended" : s->reason);
    }
    sandbox_free(s);
}

static void on_remove(uv_timer_t *timer)
{
    struct snp_sandbox *s = timer->data;

    if (snp_local_is_busy(s) ||
        (s->process.has_cgroup &&
         !snp_cgroup_remove(&s->supervisor->cgroups, s->process.cgroup) &&
         s->removals++ < REMOVALS_MAX)) {
        (void)uv_timer_start(timer, on_remove, REMOVE_RETRY_MS, 0);
        return;
    }
    s->process.has_cgroup = false;
    sandbox_gone(s);
}

static void on_buried(struct snp_sandbox *s)
{
    on_remove(s->timer);
}

/* Pid 1 ended, and with it, says the kernel, every process of its namespace. */
static void on_pidfd(uv_poll_t *poll, int status, int events)
{
    struct snp_sandbox *s = poll->data;

    (void)status;
    (void)events;
    close_poll(&s->pidfd_poll);
    if (s->state == SNP_SANDBOX_READY) {
        s->state = SNP_SANDBOX_CLOSING; /* while its cgroups go it takes no cell any more */
    }
    snp_sandbox_drain(s);
    close_streams(s);
    fail_calls(s);
    snp_snapshot_sandbox_ended(s);
    snp_rollback_sandbox_ended(s);
    snp_state_sandbox_ended(s);
    if (s->cell != NULL) {
        snp_cell_sandbox_ended(s->cell);
    }
    if (s->supervisor->is_local) {
        snp_local_bury(s, on_buried);
    } else {
        on_remove(s->timer);
    }
}

void snp_sandbox_kill(struct snp_sandbox *s, const char *reason)
{
    if (reason != NULL && s->reason[0] == '\0') {
        (void)snprintf(s->reason, sizeof(s->reason), "%s", reason);
    }
    if (s->state == SNP_SANDBOX_READY) {
        s->state = SNP_SANDBOX_CLOSING;
    }
    if (!s->has_process) {
        return; /* still waiting for one: it is dropped when it comes */
    }
    if (s->supervisor->is_local) {
        snp_local_kill(s);
    } else {
        (void)syscall(SYS_pidfd_send_signal, s->process.pidfd, SIGKILL, NULL, 0);
    }
}

static void kill_list(struct snp_sandbox *first)
{
    for (struct snp_sandbox *s = first; s != NULL; s = s->next) {
        snp_sandbox_kill(s, "the tier is ending");
    }
}

static void await_list(struct snp_supervisor *supervisor, struct snp_sandbox *first)
{
    for (struct snp_sandbox *s = first; s != NULL; s = s->next) {
        struct pollfd ended = {.fd = s->process.pidfd, .events = POLLIN};
        (void)poll(&ended, s->has_process ? 1 : 0, s->has_process ? END_MS : 0);
        for (int i = 0; s->process.has_cgroup && i < REMOVALS_MAX &&
                        !snp_cgroup_remove(&supervisor->cgroups, s->process.cgroup);
             i++) {
            (void)poll(NULL, 0, REMOVE_RETRY_MS);
        }
    }
}

void snp_sandbox_end_all(struct snp_supervisor *supervisor)
{
    if (supervisor->is_local) {
        snp_local_release(supervisor); /* the keepers kill all at once */
    } else {
        kill_list(supervisor->sandboxes);
        kill_list(supervisor->pooled);
    }
    await_list(supervisor, supervisor->sandboxes);
    await_list(supervisor, supervisor->pooled);
}

void snp_sandboxes_watch(struct snp_supervisor *supervisor)
{
    uint64_t now = snp_now_us();

    for (struct snp_sandbox *s = supervisor->sandboxes; s != NULL; s = s->next) {
        for (size_t i = 0; i < SNP_CALLS_MAX; i++) {
            if (s->calls[i].id != 0 && now - s->calls[i].start_us > s->calls[i].timeout_us) {
                snp_sandbox_kill(s, "pid 1 of the sandbox does not answer");
                break;
            }
        }
    }
}

struct snp_sandbox *snp_sandbox_find(struct snp_supervisor *supervisor, const char *id)
{
    for (struct snp_sandbox *s = *chain(supervisor, id); s != NULL; s = s->same_id) {
        if (s->state == SNP_SANDBOX_READY && snp_streq(s->spec.id, id)) {
            return s;
        }
    }
    return NULL;
}

bool snp_sandbox_exists(struct snp_supervisor *supervisor, const char *id)
{
    for (struct snp_sandbox *s = *chain(supervisor, id); s != NULL; s = s->same_id) {
        if (snp_streq(s->spec.id, id)) {
            return true;
        }
    }
    return false;
}

void snp_sandbox_ask_init(struct snp_sandbox *s,
                          uint8_t type,
                          const struct snp_buf *raw,
                          int fd,
                          snp_init_cb cb,
                          void *data)
{
    bool is_transfer = type == SNP_INIT_PACK || type == SNP_INIT_UNPACK;
    struct snp_init_call *slot = NULL;
    struct snp_frame frame = {.type = type,
                              .raw = raw == NULL ? NULL : snp_buf_bytes(raw),
                              .raw_len = raw == NULL ? 0 : raw->len};

    for (size_t i = 0; i < SNP_CALLS_MAX && slot == NULL; i++) {
        slot = s->calls[i].id == 0 ? &s->calls[i] : NULL;
    }
    if (slot == NULL || !snp_link_is_open(&s->init)) {
        cb(data, slot == NULL ? EBUSY : EPIPE, NULL, 0);
        return;
    }
    s->next_call = s->next_call == UINT32_MAX ? 1 : s->next_call + 1;
    *slot = (struct snp_init_call){
        .start_us = snp_now_us(),
        .timeout_us = is_transfer ? TRANSFER_TIMEOUT_US : CALL_TIMEOUT_US,
        .id = s->next_call,
        .cb = cb,
        .data = data,
    };
    if (type == SNP_INIT_RESTORE || type == SNP_INIT_UNPACK) {
        s->is_unwritten = false; /* what a cell changes from here on shows in no count */
    }
    frame.id = s->next_call;
    if (fd < 0) {
        snp_link_send(&s->init, &frame);
        return;
    }
    if (snp_link_send_fd(&s->init, &frame, fd) < 0) {
        slot->id = 0;
        cb(data, EAGAIN, NULL, 0);
    }
}

static void sandbox_opened(struct snp_sandbox *s);

static void on_spared(struct snp_sandbox *s, const char *raw)
{
    int32_t pid;
    uint32_t number;

    memcpy(&pid, raw, sizeof(pid));
    memcpy(&number, raw + 4, sizeof(number));
    snp_spared_set(&s->spared, pid, raw[8] != 0);
    if (s->is_pooled && raw[8] == 0) {
        snp_sandbox_kill(s, "its pristine copy has ended"); /* before anybody counts on it */
    } else if (raw[8] == 0 && pid > 1 && number != UINT32_MAX) {
        snp_snapshot_on_gone(s, number);
    } else if (raw[8] != 0 && number == 0) {
        snp_snapshot_on_pristine(s);
    }
    /* Only now it has seen what is in the workspace, to tell what a cell changes. */
    if (s->supervisor->is_local && s->state == SNP_SANDBOX_OPENING) {
        sandbox_opened(s);
    }
}

static void on_init_frame(struct snp_link *link, const struct snp_frame *f)
{
    struct snp_sandbox *s = link->owner;
    uint32_t eno;

    if (f->type == SNP_INIT_EXIT && f->raw_len == 21) {
        snp_cell_on_exit(s, f->id, f->raw);
        return;
    }
    if (f->type == SNP_INIT_MEMORY && f->raw_len == 8) {
        uint64_t bytes;
        memcpy(&bytes, f->raw, sizeof(bytes));
        snp_cell_on_memory(s, bytes);
        return;
    }
    if (f->type == SNP_INIT_SPARED && f->raw_len == 9) {
        on_spared(s, f->raw);
        return;
    }
    if (f->type != SNP_INIT_REPLY || f->raw_len < sizeof(eno)) {
        snp_sandbox_kill(s, "pid 1 broke its protocol");
        return;
    }
    memcpy(&eno, f->raw, sizeof(eno));
    for (size_t i = 0; i < SNP_CALLS_MAX; i++) {
        if (s->calls[i].id == f->id && f->id != 0) {
            struct snp_init_call call = s->calls[i];
            s->calls[i].id = 0;
            call.cb(call.data, (int)eno, f->raw + sizeof(eno), f->raw_len - sizeof(eno));
            return;
        }
    }
}

static void on_init_end(struct snp_link *link, const struct snp_err *err)
{
    (void)err;
    snp_sandbox_kill(link->owner, "pid 1 of the sandbox ended");
}

static const struct snp_link_ops init_ops = {.body_max = SNP_FRAME_BODY_MAX,
                                             .queue_max = 64U << 20,
                                             .on_frame = on_init_frame,
                                             .on_end = on_init_end};

static void on_guest_frame(struct snp_link *link, const struct snp_frame *frame)
{
    snp_cell_on_guest(link->owner, frame);
}

static void on_guest_end(struct snp_link *link, const struct snp_err *err)
{
    snp_cell_on_guest_end(link->owner, err);
}

static const struct snp_link_ops guest_ops = {.body_max = SNP_GUEST_BODY_MAX,
                                              .queue_max = 64U << 20,
                                              .on_frame = on_guest_frame,
                                              .on_end = on_guest_end};

void snp_sandbox_drop_interpreter(struct snp_sandbox *s)
{
    snp_link_close(&s->guest);
}

int snp_sandbox_new_guest(struct snp_sandbox *s, int *ret_fd, struct snp_err *err)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
        return snp_fail_sys(err, errno, "socket pair");
    }
    snp_link_close(&s->guest);
    snp_buf_done(&s->guest.in);
    if (snp_link_open(&s->guest, s->supervisor->loop, pair[0], &guest_ops, s, err) < 0) {
        (void)close(pair[1]);
        return err->code;
    }
    *ret_fd = pair[1];
    s->strays = 0;
    return 0;
}

static int which_stream(const struct snp_sandbox *s, const uv_poll_t *poll)
{
    return poll == s->out_poll[1] ? 1 : 0;
}

/* A few chunks at most, so that a flood from one sandbox leaves room for the others. False at the end. */
static bool read_output(struct snp_sandbox *s, int stream, unsigned max_reads)
{
    static char chunk[READ_CHUNK];

    for (unsigned i = 0; i < max_reads; i++) {
        ssize_t n = SNP_RETRY(read(s->out_fd[stream], chunk, sizeof(chunk)));
        if (n <= 0) {
            return n != 0;
        }
        snp_cell_on_output(s, stream, chunk, (size_t)n);
        if ((size_t)n < sizeof(chunk)) {
            break;
        }
    }
    return true;
}

static void on_output(uv_poll_t *poll, int status, int events)
{
    struct snp_sandbox *s = poll->data;

    (void)events;
    /* At the end nobody inside can write any more: the rest of the sandbox is on its way out. */
    if (status < 0 || !read_output(s, which_stream(s, poll), READS_MAX)) {
        (void)uv_poll_stop(poll);
    }
}

void snp_sandbox_drain(struct snp_sandbox *s)
{
    for (int i = 0; i < 2; i++) {
        if (s->out_fd[i] >= 0) {
            (void)read_output(
                s, i, 32); /* a pipe holds 1 MiB at most, what comes later belongs to no cell */
        }
    }
}

static void on_denial(void *data, const struct snp_denial *denial)
{
    snp_cell_on_denial(data, denial);
}

static void send_guest(struct snp_sandbox *s, uint8_t type, const char *raw, size_t n)
{
    const struct snp_frame frame = {
        .type = type, .head = "{}", .head_len = 2, .raw = raw, .raw_len = n};

    snp_link_send(&s->guest, &frame);
}

static void send_pristine(struct snp_sandbox *s)
{
    if (!s->has_pristine) {
        s->has_pristine = true;
        send_guest(s, SNP_GUEST_SEED, NULL, 0);
    }
}

void snp_sandbox_start_guest(struct snp_sandbox *s)
{
    send_guest(s, SNP_GUEST_START, s->spec.env, s->spec.env_len);
}

/* It is somebody's session from here on. */
static void sandbox_begin(struct snp_sandbox *s)
{
    if (s->spec.is_lasting) {
        send_pristine(s);
    }
    snp_sandbox_start_guest(s);
    s->epoch = s->spec.epoch;
    s->wants_snapshot = s->spec.is_transactional;
    snp_snapshot_begin(s);
    s->setup_us = (uint32_t)(snp_now_us() - s->open_us);
    json_t *answer =
        json_pack("{s:o,s:I}", "manifest", snp_manifest(s), "open_us", (json_int_t)s->setup_us);
    snp_serve_response(s->supervisor, s->open_id, answer, NULL, 0);
    json_decref(answer);
    s->open_id = 0;
}

/* from, which has opened its project at most, takes over the sandbox of pooled. */
static void adopt(struct snp_sandbox *pooled, struct snp_sandbox *from)
{
    struct snp_supervisor *supervisor = pooled->supervisor;
    struct snp_sandbox_spec spec = from->spec;

    lists_leave(supervisor, from);
    lists_leave(supervisor, pooled);
    from->spec = pooled->spec;
    pooled->spec = spec;
    pooled->open_id = from->open_id;
    pooled->open_us = from->open_us;
    pooled->is_pooled = false;
    pooled->was_pooled = true;
    sandbox_free(from);
    lists_enter(supervisor, pooled);
    sandbox_begin(pooled);
}

/* Everything stands: cells can come. */
static void sandbox_opened(struct snp_sandbox *s)
{
    (void)uv_timer_stop(s->timer);
    s->state = SNP_SANDBOX_READY;
    s->supervisor->n_opening--;
    s->has_interpreter = true;
    if (!s->is_pooled) {
        sandbox_begin(s);
        return;
    }
    if (s->spec.is_lasting) {
        send_pristine(s);
    }
    send_guest(s, SNP_GUEST_WARM, NULL,
               0); /* after the pristine copy, which would share the pages again */
}

static void on_secret(void *data, int eno, const char *bytes, size_t n)
{
    (void)data;
    (void)eno;
    (void)bytes;
    (void)n;
}

/* Pid 1's signals are to go past the code's. */
static void send_secret(struct snp_sandbox *s)
{
    snp_autobuf struct snp_buf raw = {0};

    snp_buf_init(&raw, sizeof(s->mark));
    if (s->mark != 0 && snp_buf_add(&raw, &s->mark, sizeof(s->mark)) == 0) {
        snp_sandbox_ask_init(s, SNP_INIT_SECRET, &raw, -1, on_secret, NULL);
    }
}

static void sandbox_ready(struct snp_sandbox *s, int listener_fd)
{
    struct statfs fs;
    struct snp_err err;

    if (snp_link_open(&s->init, s->supervisor->loop, SNP_TAKE_FD(s->process.control_fd),
                      &init_ops, s, &err) < 0 ||
        (listener_fd >= 0 && snp_notify_open(&s->notify, s->supervisor->loop, listener_fd,
                                             on_denial, s, &err) < 0)) {
        snp_sandbox_kill(s, err.msg);
        return;
    }
    if (s->supervisor->is_local && s->spec.is_lasting &&
        snp_folder_close(s->folder, &err) < 0) {
        snp_sandbox_kill(s, err.msg);
        return;
    }
    s->notify.emulate = snp_signals_emulate;
    send_secret(s);
    if (s->supervisor->is_local) {
        s->notify.emulate = snp_local_emulate;
        snp_local_watch(s, false);
    }
    for (int i = 0; i < 2; i++) {
        s->out_poll[i] = watch(s, s->out_fd[i], on_output);
        if (s->out_poll[i] == NULL) {
            snp_sandbox_kill(s, "out of memory");
            return;
        }
    }
    if (fstatfs(s->fs_fd[SNP_SETUP_WORKSPACE], &fs) == 0) {
        s->empty_files = fs.f_ffree;
        s->empty_blocks = fs.f_bfree;
        s->is_unwritten = true;
    }
    if (!s->supervisor->is_local) {
        sandbox_opened(s); /* there pid 1 looks at the workspace first */
    }
}

static bool has_room(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize >= NEARLY_FULL;
}

bool snp_sandbox_is_unwritten(struct snp_sandbox *s, uint64_t *ret_bytes)
{
    struct statfs fs;

    if (s->supervisor->is_local) {
        return false; /* on a file system of others counts say nothing */
    }
    s->is_unwritten = s->is_unwritten && fstatfs(s->fs_fd[SNP_SETUP_WORKSPACE], &fs) == 0 &&
                      fs.f_ffree == s->empty_files && fs.f_bfree == s->empty_blocks;
    if (!s->is_unwritten) {
        return false;
    }
    *ret_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    return has_room(s->fs_fd[SNP_SETUP_TMP]) && has_room(s->fs_fd[SNP_SETUP_SHM]);
}

/* The set-up's reply; pid 1 takes over the stream behind it. */
static void on_setup(uv_poll_t *poll, int status, int events)
{
    struct snp_sandbox *s = poll->data;
    struct snp_setup_reply reply;
    int fds[SNP_FDS_MAX];
    size_t n_fds = 0;
    ssize_t n = snp_recv_fds(s->process.control_fd, &reply, sizeof(reply), fds, &n_fds);

    (void)status;
    (void)events;
    close_poll(&s->setup_poll);
    if (n > 0 && n < (ssize_t)sizeof(reply)) {
        ssize_t rest =
            snp_read_all(s->process.control_fd, (char *)&reply + n, sizeof(reply) - (size_t)n);
        n += rest > 0 ? rest : 0;
    }
    if (n != (ssize_t)sizeof(reply) || reply.magic != SNP_SPEC_MAGIC || reply.ok == 0 ||
        n_fds < SNP_SETUP_FS_N || n_fds > SNP_SETUP_FS_N + 1) {
        reply.err.msg[sizeof(reply.err.msg) - 1] = '\0';
        snp_sandbox_kill(s, n == (ssize_t)sizeof(reply) && reply.ok == 0 &&
                                    reply.err.msg[0] != '\0'
                                ? reply.err.msg
                                : "the set-up ended early");
        for (size_t i = 0; i < n_fds; i++) {
            snp_closep(&fds[i]);
        }
        return;
    }
    s->landlock_abi = reply.landlock_abi;
    memcpy(s->fs_fd, fds, sizeof(s->fs_fd));
    if (!snp_cgroup_contains(&s->supervisor->cgroups, s->process.cgroup, s->process.pid)) {
        snp_sandbox_kill(s, "it did not enter its control groups");
        if (n_fds > SNP_SETUP_FS_N) {
            (void)close(fds[SNP_SETUP_FS_N]);
        }
        return;
    }
    sandbox_ready(s, n_fds > SNP_SETUP_FS_N ? fds[SNP_SETUP_FS_N] : -1);
}

static void on_setup_timeout(uv_timer_t *timer)
{
    snp_sandbox_kill(timer->data, "the set-up took too long");
}

static int make_pipes(struct snp_sandbox *s, struct snp_err *err)
{
    uid_t owner = snp_supervisor_code_uid(s->supervisor, s->process.slot);

    for (int i = 0; i < 2; i++) {
        int pair[2];
        if (pipe2(pair, O_CLOEXEC) < 0) {
            return snp_fail_sys(err, errno, "pipe");
        }
        s->out_fd[i] = pair[0];
        s->out_wr_fd[i] = pair[1];
        /* The code may open its own streams again, as /dev/stdout. */
        if (owner != 0) {
            (void)!fchown(pair[1], owner, owner);
        }
        if (snp_set_nonblock(pair[0], true) < 0) {
            return snp_fail_sys(err, errno, "pipe");
        }
    }
    return 0;
}

static int limit_cgroups(struct snp_sandbox *s, struct snp_err *err)
{
    const struct snp_limits *l = &s->spec.limits;
    const struct snp_cgroup_limits limits = {
        .memory_bytes = l->value[SNP_LIMIT_MEMORY],
        .processes = l->value[SNP_LIMIT_PROCESSES] + SNP_OWN_PROCESSES,
        .cpus_milli = l->value[SNP_LIMIT_CPUS],
    };

    return snp_cgroup_limit(&s->supervisor->cgroups, s->process.cgroup, &limits, err);
}

/*
 * A process that asks for more is told so, and Python raises MemoryError and keeps its
 * state; the cgroup behind it can only kill. So this limit is a little below that one.
 */
static uint64_t data_limit(const struct snp_sandbox *s)
{
    uint64_t memory = s->spec.limits.value[SNP_LIMIT_MEMORY];
    uint64_t margin = memory / 32 > MARGIN_MIN ? memory / 32 : MARGIN_MIN;

    if (!snp_cgroups_has(&s->supervisor->cgroups, SNP_CGROUP_MEMORY)) {
        return memory;
    }
    margin += snp_cgroups_socket_part(&s->supervisor->cgroups, memory);
    return memory > 2 * margin ? memory - margin : memory / 2;
}

/*
 * Where a sample counts page tables, what a process can ask of them before the next is bounded:
 * 2 MiB for each GiB. Threads, arenas and arithmetic reserve far more than they use.
 */
static uint64_t space_limit(const struct snp_sandbox *s)
{
    const uint64_t least = 64ULL << 30;
    uint64_t wanted = 4 * s->spec.limits.value[SNP_LIMIT_MEMORY];

    if (snp_cgroups_has(&s->supervisor->cgroups, SNP_CGROUP_MEMORY)) {
        return 0;
    }
    return wanted > least ? wanted : least;
}

/* Without a file system of its own a single file is the one thing the kernel bounds. */
static uint64_t file_limit(const struct snp_sandbox *s)
{
    uint64_t file = s->spec.limits.value[SNP_LIMIT_FILE];
    uint64_t workspace = s->spec.limits.value[SNP_LIMIT_WORKSPACE];

    return s->supervisor->is_local && workspace < file ? workspace : file;
}

/* Copies of the workspace are memory, and must leave the code its part of it. */
static uint64_t copies_limit(const struct snp_sandbox *s)
{
    uint64_t half = s->spec.limits.value[SNP_LIMIT_MEMORY] / 2;

    if (!s->spec.is_lasting) {
        return 0;
    }
    return half < SNP_SHADOW_BYTES_MAX ? half : SNP_SHADOW_BYTES_MAX;
}

/* RLIMIT_NPROC counts all processes of a user, on the whole host. */
static void fill_local(struct snp_sandbox *s, struct snp_spec *spec)
{
    spec->own_id = snp_supervisor_code_uid(s->supervisor, s->process.slot);
    if (spec->own_id == 0) {
        spec->processes += snp_procs_of_user(s->supervisor->uid);
    }
    (void)snprintf(spec->folder, sizeof(spec->folder), "%s", s->folder);
}

/* RLIMIT_NPROC counts copies, too; the cgroup's limit is moved as they come and go. */
static uint32_t more_processes(const struct snp_sandbox *s, bool has_pids)
{
    return (has_pids ? 8 : 0) + (!s->spec.is_lasting ? 0
                                 : has_pids          ? SNP_SNAPSHOTS_MAX + 2
                                                     : 1 /* what stands by */);
}

static void fill_spec(struct snp_sandbox *s, struct snp_spec *spec)
{
    const uint64_t *limit = s->spec.limits.value;
    struct snp_supervisor *supervisor = s->supervisor;
    bool has_pids = snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_PIDS);

    *spec = (struct snp_spec){
        .magic = SNP_SPEC_MAGIC,
        .has_project = s->project_fd >= 0 && !supervisor->is_local,
        .tmp_bytes = limit[SNP_LIMIT_TMP],
        .workspace_bytes = limit[SNP_LIMIT_WORKSPACE],
        .workspace_inodes = limit[SNP_LIMIT_INODES],
        .shadow_bytes = copies_limit(s),
        .file_bytes = file_limit(s),
        .data_bytes = data_limit(s),
        .space_bytes = space_limit(s),
        /* With the pids cgroup that one is to be met first, because it counts refusals. */
        .processes = (uint32_t)limit[SNP_LIMIT_PROCESSES] + more_processes(s, has_pids),
        .open_files = (uint32_t)limit[SNP_LIMIT_OPEN_FILES],
        .landlock_abi = (uint32_t)supervisor->landlock_abi,
        .want_notify = 1,
        .can_setgroups = supervisor->is_root,
        .mask_len = supervisor->is_local ? 0 : (uint32_t)s->mask.len,
        .is_local = supervisor->is_local,
    };
    if (!snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_CPU)) {
        spec->cpu_count = (uint32_t)((limit[SNP_LIMIT_CPUS] + 999) / 1000);
        spec->cpu_first = supervisor->next_cpu++;
    }
    uint32_t name = 0; /* only to tell one from the other */
    (void)!getrandom(&name, sizeof(name), GRND_NONBLOCK);
    (void)snprintf(spec->hostname, sizeof(spec->hostname), "sandbox-%08x", (unsigned)name);
    if (supervisor->is_local) {
        fill_local(s, spec);
    }
    if (getrandom(&s->mark, sizeof(s->mark), 0) != (ssize_t)sizeof(s->mark)) {
        s->mark = 0; /* then the set-up fails */
    } else {
        s->mark |= 1ULL << 32U | 1U; /* no half of it is what other callers put there */
    }
    spec->mark = s->mark;
}

static int send_spec(struct snp_sandbox *s, int guest_fd, struct snp_err *err)
{
    struct snp_spec spec;
    int fds[SNP_SPEC_FD_N + SNP_CGROUP_N] = {guest_fd, s->out_wr_fd[0], s->out_wr_fd[1],
                                             s->supervisor->init_fd, s->supervisor->files_fd};
    unsigned n_fds = SNP_SPEC_FD_PROJECT;
    snp_autoclose int project = -1;
    int control = s->process.control_fd;
    int r;

    fill_spec(s, &spec);
    if (spec.has_project != 0) {
        r = snp_idmap_mount(s->project_fd, s->process.slot, SNP_INSIDE_ID, &project, err);
        if (r < 0) {
            return r;
        }
        fds[n_fds++] = project;
    }
    r = snp_cgroup_doors(&s->supervisor->cgroups, s->process.cgroup, fds + n_fds,
                         &spec.n_groups, err);
    if (r < 0) {
        return r;
    }
    if (snp_send_fds(control, &spec, sizeof(spec), fds, n_fds + spec.n_groups) < 0 ||
        snp_write_all(control, snp_buf_bytes(&s->mask), spec.mask_len) < 0) {
        r = snp_fail_sys(err, errno, "send the spec");
    }
    for (unsigned i = 0; i < spec.n_groups; i++) {
        (void)close(fds[n_fds + i]);
    }
    return r;
}

static int begin_setup(struct snp_sandbox *s, struct snp_err *err)
{
    snp_autoclose int guest_fd = -1;
    int r = make_pipes(s, err);

    if (r == 0) {
        r = snp_sandbox_new_guest(s, &guest_fd, err);
    }
    if (r == 0) {
        r = limit_cgroups(s, err);
    }
    if (r == 0) {
        r = send_spec(s, guest_fd, err);
    }
    if (r < 0) {
        return r;
    }
    snp_closep(&s->out_wr_fd[0]);
    snp_closep(&s->out_wr_fd[1]);
    snp_closep(&s->project_fd);
    s->setup_poll = watch(s, s->process.control_fd, on_setup);
    (void)uv_timer_start(s->timer, on_setup_timeout, SETUP_TIMEOUT_MS, 0);
    return s->setup_poll == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static void on_pending(void *data, const struct snp_pending *pending, const struct snp_err *why)
{
    struct snp_sandbox *s = data;
    struct snp_err err;
    int slot;

    if (pending == NULL && s->supervisor->is_local) {
        s->open_err = *why;
        snp_local_bury(s, on_buried);
        return;
    }
    if (pending == NULL) {
        if (!s->is_pooled) {
            snp_serve_error(s->supervisor, s->open_id, why);
        }
        sandbox_free(s);
        return;
    }
    slot = s->process.slot;
    s->process = *pending;
    s->process.slot = s->supervisor->is_local ? slot : pending->slot;
    s->has_process = true;
    (void)snprintf(s->python, sizeof(s->python), "%s", pending->python);
    s->pidfd_poll = watch(s, pending->pidfd, on_pidfd);
    if (s->reason[0] != '\0' || s->pidfd_poll == NULL) { /* closed while it waited */
        snp_sandbox_kill(s, "out of memory");
    } else if (begin_setup(s, &err) < 0) {
        snp_sandbox_kill(s, err.msg);
    }
}

/* Its folder stands; without a reason to give up it gets its processes. */
static void on_prepared(struct snp_sandbox *s)
{
    if (s->reason[0] != '\0' || s->open_err.code != SNP_OK) {
        snp_local_bury(s, on_buried);
    } else {
        snp_template_request(s->supervisor, &s->spec.python, on_pending, s);
    }
}

/*
 * The folder first, because a template stands still from the fork of a sandbox to the end of
 * its set-up. Whose it is must be known before.
 */
static void prepare_local(struct snp_sandbox *s)
{
    s->process.slot = snp_supervisor_take_slot(s->supervisor);
    if (s->process.slot == -2) {
        s->process.slot = -1;
        (void)snp_fail(&s->open_err, SNP_E_LIMIT, "no user ids are left for another sandbox");
        sandbox_gone(s);
        return;
    }
    snp_local_prepare(s, on_prepared);
}

/* All that can be known of it without a sandbox is known. */
static void find_sandbox(struct snp_sandbox *s)
{
    struct snp_sandbox *pooled = NULL;

    if (s->supervisor->is_local) { /* nothing ahead: a folder bears its session's name */
        prepare_local(s);
        return;
    }
    pooled = s->is_pooled ? NULL : snp_pool_find(s);
    if (!s->is_pooled) {
        snp_pool_want(s->supervisor, &s->spec);
    }
    if (pooled != NULL) {
        adopt(pooled, s);
    } else {
        snp_template_request(s->supervisor, &s->spec.python, on_pending, s);
    }
}

struct scan_work {
    uv_work_t work;
    struct snp_sandbox *sandbox;
};

static void scan_run(uv_work_t *work)
{
    struct snp_sandbox *s = ((struct scan_work *)work->data)->sandbox;

    s->scan_result = snp_secrets_scan(s->project_fd, &s->mask, s->masked, &s->scan_err);
}

static void scan_done(uv_work_t *work, int status)
{
    struct scan_work *scan = work->data;
    struct snp_sandbox *s = scan->sandbox;

    free(scan);
    if (s->scan_result < 0 || status < 0) {
        if (!s->is_pooled) {
            snp_serve_error(s->supervisor, s->open_id, &s->scan_err);
        }
        sandbox_free(s);
        return;
    }
    find_sandbox(s);
}

/* File systems of the kernel's own: no project is there, and no overlay takes them. */
static int check_project_fs(int fd, const char *path, struct snp_err *err)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } refused[] = {
        {PROC_SUPER_MAGIC,    "proc"      },
        {SYSFS_MAGIC,         "sysfs"     },
        {CGROUP_SUPER_MAGIC,  "cgroup"    },
        {CGROUP2_SUPER_MAGIC, "cgroup2"   },
        {DEBUGFS_MAGIC,       "debugfs"   },
        {TRACEFS_MAGIC,       "tracefs"   },
        {SECURITYFS_MAGIC,    "securityfs"},
        {DEVPTS_SUPER_MAGIC,  "devpts"    },
        {BPF_FS_MAGIC,        "bpf"       },
        {PSTOREFS_MAGIC,      "pstore"    },
        {EFIVARFS_MAGIC,      "efivarfs"  },
        {AUTOFS_SUPER_MAGIC,  "autofs"    },
        {0x19800202,          "mqueue"    },
        {0x62656570,          "configfs"  },
    };
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0) {
        return snp_fail_sys(err, errno, "project %.300s", path);
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(refused); i++) {
        if ((unsigned long)fs.f_type == refused[i].magic) {
            return snp_fail(
                err, SNP_E_UNSUPPORTED,
                "project %.200s: a %s file system cannot be a project; copy what is "
                "needed of it to an ordinary folder",
                path, refused[i].name);
        }
    }
    return 0;
}

static int open_project(struct snp_sandbox *s, struct snp_err *err)
{
    struct scan_work *scan;
    struct stat st;
    int r;

    s->project_fd = open(s->spec.project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->project_fd < 0 || fstat(s->project_fd, &st) < 0) {
        return snp_fail_sys(err, errno, "project %.300s", s->spec.project);
    }
    r = check_project_fs(s->project_fd, s->spec.project, err);
    if (r < 0) {
        return r;
    }
    s->project_stat = st;
    scan = calloc(1, sizeof(*scan));
    if (scan == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    scan->sandbox = s;
    scan->work.data = scan;
    if (uv_queue_work(s->supervisor->loop, &scan->work, scan_run, scan_done) < 0) {
        free(scan);
        return snp_fail(err, SNP_E_NOMEM, "cannot start a worker");
    }
    return 0;
}

int snp_sandbox_check_exact(const struct snp_sandbox *s, struct snp_err *err)
{
    if (json_array_size(s->degraded) == 0) {
        return 0;
    }
    return snp_fail_with(
        err, SNP_E_DENIED, SNP_REMEDY_ALLOW_INEXACT, NULL, 0,
        "exact controls are required, and not here: %.220s; run as root, have systemd "
        "delegate control groups to your user",
        json_string_value(json_array_get(s->degraded, 0)));
}

static int check_host(struct snp_sandbox *s, struct snp_err *err)
{
    struct snp_supervisor *supervisor = s->supervisor;

    if (!supervisor->can_namespace) {
        return snp_fail(err, SNP_E_UNSUPPORTED, "%s", supervisor->why);
    }
    if (supervisor->n_sandboxes > SNP_SUPERVISOR_SANDBOXES_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the tier has %d sandboxes, its most; close one",
                        SNP_SUPERVISOR_SANDBOXES_MAX);
    }
    if (snp_supervisor_folder(supervisor, s->spec.id, s->folder, sizeof(s->folder), err) < 0) {
        return err->code;
    }
    if (supervisor->landlock_abi == 0 && !s->spec.allow_degraded) {
        return snp_fail_with(err, SNP_E_DENIED, SNP_REMEDY_ALLOW_DEGRADED, NULL, 0,
                             "this kernel has no Landlock, the second fence around files");
    }
    if (s->spec.instead_of != NULL) {
        (void)json_array_append_new(
            s->degraded, json_sprintf("environment: local, because native cannot run: %s",
                                      s->spec.instead_of));
    }
    snp_manifest_degraded(supervisor, &s->spec.limits, s->degraded);
    return s->spec.require_exact ? snp_sandbox_check_exact(s, err) : 0;
}

/* Allocate one in the list; spec's owned members are taken. */
static struct snp_sandbox *sandbox_new(struct snp_supervisor *supervisor,
                                       struct snp_sandbox_spec *spec)
{
    struct snp_sandbox *s = calloc(1, sizeof(*s));
    uv_timer_t *timer = calloc(1, sizeof(*timer));
    uv_timer_t *ticks = supervisor->is_local ? calloc(1, sizeof(*ticks)) : NULL;

    if (s == NULL || timer == NULL || (supervisor->is_local && ticks == NULL)) {
        free(s);
        free(timer);
        free(ticks);
        snp_python_done(&spec->python);
        free(SNP_TAKE_PTR(spec->project));
        free(SNP_TAKE_PTR(spec->env));
        free(SNP_TAKE_PTR(spec->instead_of));
        return NULL;
    }
    s->supervisor = supervisor;
    s->spec = *spec;
    spec->project = spec->env = spec->instead_of = NULL;
    spec->python = (struct snp_python){0};
    s->open_us = snp_now_us();
    s->out_fd[0] = s->out_fd[1] = s->out_wr_fd[0] = s->out_wr_fd[1] = -1;
    s->project_fd = -1;
    for (int i = 0; i < SNP_SETUP_FS_N; i++) {
        s->fs_fd[i] = -1;
    }
    snp_meter_init(&s->meter);
    s->process = (struct snp_pending){.pidfd = -1, .control_fd = -1, .slot = -1};
    s->masked = json_array();
    s->degraded = json_array();
    snp_buf_init(&s->mask, SNP_MASK_MAX);
    s->timer = timer;
    (void)uv_timer_init(supervisor->loop, s->timer);
    s->timer->data = s;
    s->watch = ticks;
    if (ticks != NULL) {
        (void)uv_timer_init(supervisor->loop, ticks);
        ticks->data = s;
    }
    supervisor->n_opening++;
    return s;
}

static int sandbox_enter(struct snp_sandbox *s, struct snp_err *err)
{
    int r;

    lists_enter(s->supervisor, s);
    r = check_host(s, err);
    if (r == 0 && s->spec.project != NULL) {
        r = open_project(s, err);
    }
    if (r < 0) {
        sandbox_free(s);
        return r;
    }
    if (s->spec.project == NULL) {
        find_sandbox(s);
    }
    return 0;
}

int snp_sandbox_open(struct snp_supervisor *supervisor,
                     struct snp_sandbox_spec *spec,
                     uint32_t open_id,
                     struct snp_err *err)
{
    struct snp_sandbox *s = sandbox_new(supervisor, spec);

    if (s == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    s->open_id = open_id;
    return sandbox_enter(s, err);
}

int snp_sandbox_prepare(struct snp_supervisor *supervisor,
                        const struct snp_sandbox_spec *spec,
                        struct snp_err *err)
{
    struct snp_sandbox_spec own = *spec;
    struct snp_sandbox *s;

    own.id[0] = '\0';
    own.env = NULL;
    own.env_len = 0;
    own.project = spec->project == NULL ? NULL : strdup(spec->project);
    if (snp_python_copy(&spec->python, &own.python) < 0 ||
        (spec->project != NULL && own.project == NULL)) {
        snp_python_done(&own.python);
        free(own.project);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    s = sandbox_new(supervisor, &own);
    if (s == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    s->is_pooled = true;
    return sandbox_enter(s, err);
}
