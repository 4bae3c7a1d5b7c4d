/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening: order the first process from its template, send the spec, and wait for the set-up's
 * reply; its stream then becomes pid 1's. Closing: wait for its pidfd, then remove the cgroups.
 * Only then it is gone, so "closed" means that nothing remains.
 */
#include "tier/host/forked.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/random.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "guest/pid1/wire.h"
#include "os/idmap.h"
#include "tier/engine/inside.h"
#include "tier/engine/open.h"
#include "tier/engine/stream/handle.h"
#include "tier/host/host.h"
#include "tier/host/procs.h"

enum {
    SETUP_TIMEOUT_MS = 30000,
    REMOVE_RETRY_MS = 5,
    MARGIN_MIN = 12 << 20, /* bytes a fresh interpreter writes to its copy of the template */
    REMOVALS_MAX = 400,
    END_MS = 4000
};

static uv_poll_t *watch(struct snp_sandbox *s, int fd, uv_poll_cb cb)
{
    uv_poll_t *poll = snp_poll_new(s->supervisor->loop, fd, s);

    if (poll != NULL) {
        (void)uv_poll_start(poll, UV_READABLE, cb);
    }
    return poll;
}

int snp_forked_make(struct snp_sandbox *s, size_t size)
{
    struct snp_forked *f = calloc(1, size);

    if (f == NULL || (f->timer = snp_timer_new(s->supervisor->loop, s)) == NULL) {
        free(f);
        return -1;
    }
    f->process = (struct snp_pending){.pidfd = -1, .control_fd = -1, .slot = -1};
    f->out_wr_fd[0] = f->out_wr_fd[1] = -1;
    for (int i = 0; i < SNP_SETUP_FS_N; i++) {
        f->fs_fd[i] = -1;
    }
    s->own = f;
    return 0;
}

/* Close everything but the process and its cgroups. */
static void close_streams(struct snp_forked *f)
{
    snp_handle_close(&f->setup_poll);
    for (int i = 0; i < 2; i++) {
        snp_closep(&f->out_wr_fd[i]);
    }
    for (int i = 0; i < SNP_SETUP_FS_N; i++) {
        snp_closep(&f->fs_fd[i]);
    }
    snp_notify_close(&f->notify);
}

void snp_forked_unmake(struct snp_sandbox *s)
{
    struct snp_forked *f = snp_forked_of(s);

    close_streams(f);
    if (s->has_process) {
        snp_pending_drop(s->supervisor, &f->process);
    } else {
        snp_host_free_slot(s->supervisor, f->process.slot);
    }
    snp_handle_close(&f->timer);
    free(SNP_TAKE_PTR(s->own));
}

/* The end ------------------------------------------------------------------------------- */

static void on_remove(uv_timer_t *timer)
{
    struct snp_sandbox *s = timer->data;
    struct snp_forked *f = snp_forked_of(s);

    if (f->n_jobs > 0 ||
        (f->process.has_cgroup && !snp_cgroup_remove(&s->supervisor->cgroups, f->process.cgroup) &&
         f->removals++ < REMOVALS_MAX)) {
        (void)uv_timer_start(timer, on_remove, REMOVE_RETRY_MS, 0);
        return;
    }
    f->process.has_cgroup = false;
    s->cgroup = NULL;
    snp_sandbox_gone(s);
}

static void on_buried(struct snp_sandbox *s)
{
    on_remove(snp_forked_of(s)->timer);
}

void snp_forked_abandon(struct snp_sandbox *s)
{
    const struct snp_host_ops *ops = snp_host_ops_of(s->supervisor);

    if (ops->bury == NULL) {
        on_buried(s);
    } else {
        ops->bury(s, on_buried);
    }
}

/* Pid 1 has ended, and with it every process of its namespace, if it has one. */
static void on_pidfd(uv_poll_t *poll, int status, int events)
{
    struct snp_sandbox *s = poll->data;
    struct snp_forked *f = snp_forked_of(s);

    (void)status;
    (void)events;
    snp_handle_close(&f->pidfd_poll);
    snp_sandbox_ended(s);
    close_streams(f);
    snp_forked_abandon(s);
}

void snp_forked_await(struct snp_sandbox *s)
{
    struct snp_forked *f = snp_forked_of(s);
    struct pollfd ended = {.fd = f->process.pidfd, .events = POLLIN};

    (void)poll(&ended, s->has_process ? 1 : 0, s->has_process ? END_MS : 0);
    for (int i = 0; f->process.has_cgroup && i < REMOVALS_MAX &&
                    !snp_cgroup_remove(&s->supervisor->cgroups, f->process.cgroup);
         i++) {
        (void)poll(NULL, 0, REMOVE_RETRY_MS);
    }
}

/* The set-up ------------------------------------------------------------------------------ */

static void on_denial(void *data, const struct snp_denial *denial)
{
    struct snp_sandbox *s = data;

    s->supervisor->events->denial(s, denial);
}

static void sandbox_ready(struct snp_sandbox *s, int listener_fd)
{
    const struct snp_host_ops *ops = snp_host_ops_of(s->supervisor);
    struct snp_forked *f = snp_forked_of(s);
    struct statfs fs;
    struct snp_err err;

    if (snp_sandbox_connect(s, SNP_TAKE_FD(f->process.control_fd), &err) < 0) {
        snp_sandbox_kill(s, err.msg);
        snp_closep(&listener_fd);
        return;
    }
    if ((listener_fd >= 0 &&
         snp_notify_open(&f->notify, s->supervisor->loop, listener_fd, on_denial, s, &err) < 0) ||
        (ops->ready != NULL && ops->ready(s, &err) < 0)) {
        snp_sandbox_kill(s, err.msg);
        return;
    }
    f->notify.emulated = ops->emulated;
    (void)uv_timer_stop(f->timer);
    if (f->mark != 0) { /* pid 1's signals bypass the checks of the code's */
        snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_SECRET, &f->mark, sizeof(f->mark), -1),
                             snp_sandbox_ignore, NULL);
    }
    if (fstatfs(f->fs_fd[SNP_SETUP_WORKSPACE], &fs) == 0) {
        f->empty_files = fs.f_ffree;
        f->empty_blocks = fs.f_bfree;
        s->is_unwritten = true;
    }
    if (ops->tier.settled == NULL) {
        snp_sandbox_opened(s);
    }
}

/* Read the set-up's reply; pid 1 takes over the stream. */
static void on_setup(uv_poll_t *poll, int status, int events)
{
    struct snp_sandbox *s = poll->data;
    struct snp_forked *f = snp_forked_of(s);
    struct snp_setup_reply reply;
    int fds[SNP_FDS_MAX];
    size_t n_fds = 0;
    ssize_t n = snp_recv_fds(f->process.control_fd, &reply, sizeof(reply), fds, &n_fds);

    (void)status;
    (void)events;
    snp_handle_close(&f->setup_poll);
    if (n > 0 && n < (ssize_t)sizeof(reply)) {
        ssize_t rest =
            snp_read_all(f->process.control_fd, (char *)&reply + n, sizeof(reply) - (size_t)n);
        n += rest > 0 ? rest : 0;
    }
    if (n != (ssize_t)sizeof(reply) || reply.magic != SNP_SPEC_MAGIC || reply.ok == 0 ||
        n_fds < SNP_SETUP_FS_N || n_fds > SNP_SETUP_FS_N + 1) {
        reply.err.msg[sizeof(reply.err.msg) - 1] = '\0';
        snp_sandbox_kill(s, n == (ssize_t)sizeof(reply) && reply.ok == 0 && reply.err.msg[0] != '\0'
                                ? reply.err.msg
                                : "the set-up ended early");
        for (size_t i = 0; i < n_fds; i++) {
            snp_closep(&fds[i]);
        }
        return;
    }
    f->landlock_abi = reply.landlock_abi;
    memcpy(f->fs_fd, fds, sizeof(f->fs_fd));
    if (!snp_cgroup_contains(&s->supervisor->cgroups, f->process.cgroup, f->process.pid)) {
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

static int limit_cgroups(struct snp_sandbox *s, struct snp_err *err)
{
    struct snp_forked *f = snp_forked_of(s);
    const struct snp_limits *l = &s->spec.limits;
    const struct snp_cgroup_limits limits = {
        .memory_bytes = l->value[SNP_LIMIT_MEMORY],
        .processes = l->value[SNP_LIMIT_PROCESSES] + SNP_OWN_PROCESSES,
        .cpus_milli = l->value[SNP_LIMIT_CPUS],
    };

    return snp_cgroup_limit(&s->supervisor->cgroups, f->process.cgroup, &limits, err);
}

/*
 * Beyond RLIMIT_DATA an allocation fails: Python raises MemoryError and keeps its state. The cgroup
 * limit can only kill, so this one is slightly lower.
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
 * The memory limit applies to the next sandbox only: few supervisors may raise a process's
 * RLIMIT_DATA, and a lower limit would kill a process that uses more.
 */
void snp_forked_limit(struct snp_sandbox *s, const struct snp_limits *wanted)
{
    const struct snp_cgroups *groups = &s->supervisor->cgroups;
    const uint64_t cpus = wanted->value[SNP_LIMIT_CPUS];

    if (s->cgroup != NULL && snp_cgroups_has(groups, SNP_CGROUP_CPU) &&
        snp_cgroup_set_cpus(groups, s->cgroup, cpus) == 0) {
        s->spec.limits.value[SNP_LIMIT_CPUS] = cpus;
    }
}

/*
 * Where samples count page tables, this bounds their growth between two samples: 2 MiB for each
 * GiB. Threads, arenas and BLAS reserve far more memory than they use.
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

/* Copies of the workspace use memory, and must leave enough to the code. */
static uint64_t copies_limit(const struct snp_sandbox *s)
{
    uint64_t half = s->spec.limits.value[SNP_LIMIT_MEMORY] / 2;

    if (!s->spec.is_lasting) {
        return 0;
    }
    return half < SNP_COPIES_BYTES_MAX ? half : SNP_COPIES_BYTES_MAX;
}

/* RLIMIT_NPROC counts copies, too; the cgroup's limit is adjusted to them. */
static uint32_t more_processes(const struct snp_sandbox *s, bool has_pids)
{
    return (has_pids ? 8 : 0) + (!s->spec.is_lasting ? 0
                                 : has_pids          ? SNP_SNAPSHOTS_MAX + 2
                                                     : 1 /* the standby */);
}

static void fill_spec(struct snp_sandbox *s, struct snp_spec *spec)
{
    struct snp_forked *f = snp_forked_of(s);
    const uint64_t *limit = s->spec.limits.value;
    struct snp_supervisor *supervisor = s->supervisor;
    struct snp_host *host = snp_host_of(supervisor);
    bool has_pids = snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_PIDS);

    *spec = (struct snp_spec){
        .magic = SNP_SPEC_MAGIC,
        .has_project = s->project_fd >= 0 && supervisor->ops->shows_project,
        .tmp_bytes = limit[SNP_LIMIT_TMP],
        .workspace_inodes = limit[SNP_LIMIT_INODES],
        .copies_bytes = copies_limit(s),
        .file_bytes = limit[SNP_LIMIT_FILE],
        .data_bytes = data_limit(s),
        .space_bytes = space_limit(s),
        /* The pids cgroup must be the first limit to be met, because it counts refusals. */
        .processes = (uint32_t)limit[SNP_LIMIT_PROCESSES] + more_processes(s, has_pids),
        .open_files = (uint32_t)limit[SNP_LIMIT_OPEN_FILES],
        .landlock_abi = (uint32_t)host->landlock_abi,
        .want_notify = 1,
        .can_setgroups = host->is_root,
        .mask_len = supervisor->ops->shows_project ? (uint32_t)s->mask.len : 0,
    };
    (void)snp_sandbox_room(s, &spec->workspace_bytes);
    if (!snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_CPU)) {
        spec->cpu_count = (uint32_t)((limit[SNP_LIMIT_CPUS] + 999) / 1000);
        spec->cpu_first = host->next_cpu++;
    }
    uint32_t name = 0; /* only to distinguish sandboxes */
    (void)!getrandom(&name, sizeof(name), GRND_NONBLOCK);
    (void)snprintf(spec->hostname, sizeof(spec->hostname), "sandbox-%08x", (unsigned)name);
    if (snp_host_ops_of(supervisor)->fill_spec != NULL) {
        snp_host_ops_of(supervisor)->fill_spec(s, spec);
    }
    if (getrandom(&f->mark, sizeof(f->mark), 0) != (ssize_t)sizeof(f->mark)) {
        f->mark = 0; /* the set-up then fails */
    } else {
        f->mark |= 1ULL << 32U | 1U; /* neither half is 0, as in other callers' arguments */
    }
    spec->mark = f->mark;
}

static int send_spec(struct snp_sandbox *s, int guest_fd, struct snp_err *err)
{
    struct snp_forked *f = snp_forked_of(s);
    struct snp_spec spec;
    int fds[SNP_SPEC_FD_N + SNP_CGROUP_N] = {guest_fd, f->out_wr_fd[0], f->out_wr_fd[1],
                                             snp_host_of(s->supervisor)->init_fd,
                                             snp_host_of(s->supervisor)->files_fd};
    unsigned n_fds = SNP_SPEC_FD_PROJECT;
    snp_autoclose int project = -1;
    int control = f->process.control_fd;
    int r;

    fill_spec(s, &spec);
    if (spec.has_project != 0) {
        r = snp_idmap_mount(s->project_fd, f->process.slot, SNP_INSIDE_ID, &project, err);
        if (r < 0) {
            return r;
        }
        fds[n_fds++] = project;
    }
    r = snp_cgroup_doors(&s->supervisor->cgroups, f->process.cgroup, fds + n_fds, &spec.n_groups,
                         err);
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
    struct snp_forked *f = snp_forked_of(s);
    snp_autoclose int guest_fd = -1;
    int r = snp_sandbox_new_output(s, snp_host_code_uid(s->supervisor, f->process.slot),
                                   f->out_wr_fd, err);

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
    snp_closep(&f->out_wr_fd[0]);
    snp_closep(&f->out_wr_fd[1]);
    snp_closep(&s->project_fd);
    f->setup_poll = watch(s, f->process.control_fd, on_setup);
    (void)uv_timer_start(f->timer, on_setup_timeout, SETUP_TIMEOUT_MS, 0);
    return f->setup_poll == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory") : 0;
}

static void on_pending(void *data, const struct snp_pending *pending, const struct snp_err *why)
{
    struct snp_sandbox *s = data;
    struct snp_forked *f = snp_forked_of(s);
    struct snp_err err;
    int slot;

    if (pending == NULL) {
        s->open_err = *why;
        snp_forked_abandon(s);
        return;
    }
    slot = f->process.slot;
    f->process = *pending;
    f->process.slot = snp_host_ops_of(s->supervisor)->has_slot ? slot : pending->slot;
    s->cgroup = f->process.has_cgroup ? f->process.cgroup : NULL;
    s->has_process = true;
    (void)snprintf(s->python, sizeof(s->python), "%s", pending->python);
    s->is_thawed = pending->is_thawed;
    f->pidfd_poll = watch(s, pending->pidfd, on_pidfd);
    if (s->reason[0] != '\0' || f->pidfd_poll == NULL) { /* closed while it waited */
        snp_sandbox_kill(s, "out of memory");
    } else if (begin_setup(s, &err) < 0) {
        snp_sandbox_kill(s, err.msg);
    }
}

void snp_forked_open(struct snp_sandbox *s)
{
    snp_template_request(s->supervisor, &s->spec.python, on_pending, s);
}

uint64_t snp_forked_own_memory(const struct snp_sandbox *s, pid_t copy)
{
    return snp_proc_own_memory(snp_forked_of(s)->process.pid, copy);
}

void snp_forked_copies_usage(const struct snp_sandbox *s,
                             const pid_t *copies,
                             size_t n,
                             struct snp_copies_usage *ret)
{
    snp_copies_usage(snp_forked_of(s)->process.pid, copies, n, ret);
}
