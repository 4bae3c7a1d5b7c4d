/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that walks /proc or a folder runs in a worker. Each such job counts on its session,
 * which stays until the last is done; what a job needs of it is copied before it starts.
 */
#include "tier/local/local.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "os/idmap.h"
#include "tier/engine/cell.h"
#include "tier/engine/result.h"
#include "tier/engine/sandbox.h"
#include "tier/engine/supervisor.h"
#include "tier/host/procs.h"
#include "tier/local/deleted.h"
#include "tier/local/emulate.h"
#include "tier/local/filter.h"
#include "tier/local/folder.h"

enum {
    SWEEP_MS = 12000, /* less than a cell's patience */
    KILL_MS = 12000,
    MEMORY_MS = 20,
    DISK_MS = 50,
    DISK_SHARE = 10, /* of the time at most is spent on looking */
    IDLE_MS = 1000,
    FILE_MAX = 8 << 20,
    GUEST_DEPTH = 2 /* folders in the driver's */
};

/* Start ---------------------------------------------------------------------------------- */

/* Real root with the rights to be other users and to end them. */
static bool has_rights(void)
{
    const uint32_t wanted = 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_FOWNER |
                            1U << CAP_KILL | 1U << CAP_SETGID | 1U << CAP_SETUID |
                            1U << CAP_SETPCAP;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};

    return geteuid() == 0 && snp_idmap_has_ranges() &&
           syscall(SYS_capget, &header, data) == 0 && (data[0].effective & wanted) == wanted;
}

static int copy_file(const char *from, const char *to, struct snp_err *err)
{
    snp_autofree char *bytes = NULL;
    size_t n;
    int r = snp_file_read(from, FILE_MAX, &bytes, &n, err);

    r = r == 0 ? snp_file_write_atomic(to, bytes, n, 0644, err) : r;
    if (r == 0 && chmod(to, 0644) < 0) {
        r = snp_fail_sys(err, errno, "chmod %.200s", to);
    }
    return r;
}

/* A folder of files, and of such folders, to depth levels below it. */
/* NOLINTNEXTLINE(misc-no-recursion): the depth is bounded */
static int copy_folder(const char *from, const char *to, unsigned depth, struct snp_err *err)
{
    DIR *dir = opendir(from);
    struct dirent *entry;
    int r = 0;

    if (dir == NULL || mkdir(to, 0755) < 0 || chmod(to, 0755) < 0) {
        r = snp_fail_sys(err, errno, "copy %.200s", from);
    }
    while (r == 0 && dir != NULL &&
           (entry = readdir(dir)) != NULL) { /* NOLINT(concurrency-mt-unsafe): one thread yet */
        snp_autofree char *source = NULL;
        snp_autofree char *target = NULL;

        if (entry->d_name[0] == '.' || (entry->d_type == DT_DIR && depth == 0)) {
            continue;
        }
        source = snp_format("%s/%s", from, entry->d_name);
        target = snp_format("%s/%s", to, entry->d_name);
        if (source == NULL || target == NULL) {
            r = snp_fail(err, SNP_E_NOMEM, "out of memory");
        } else if (entry->d_type == DT_DIR) {
            r = copy_folder(source, target, depth - 1, err);
        } else {
            r = copy_file(source, target, err);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return r;
}

/* The driver and what it loads, where a template's user can read them. */
static int copy_guest(struct snp_supervisor *supervisor, struct snp_err *err)
{
    char to[SNP_FOLDER_MAX + 16];
    int r;

    (void)snprintf(to, sizeof(to), "%s/guest", supervisor->folder);
    r = copy_folder(supervisor->guest_dir, to, GUEST_DEPTH, err);
    (void)snprintf(supervisor->guest_dir, sizeof(supervisor->guest_dir), "%s", to);
    return r;
}

int snp_local_init(struct snp_supervisor *supervisor, struct snp_err *err)
{
    struct snp_local_filter want = {0};
    int life[2];
    int r;

    supervisor->is_root = has_rights();
    supervisor->can_namespace = supervisor->landlock_abi > 0;
    if (!supervisor->can_namespace) {
        (void)snprintf(supervisor->why, sizeof(supervisor->why),
                       "the local tier keeps the code from your files by Landlock, which this "
                       "kernel does not offer; use one from 5.13 on with landlock in lsm=");
    }
    if (supervisor->is_root && snp_idmap_open_locks(&supervisor->locks_fd, err) < 0) {
        return err->code;
    }
    if (pipe2(life, O_CLOEXEC) < 0) {
        return snp_fail_sys(err, errno, "pipe");
    }
    supervisor->life_fd[0] = life[0];
    supervisor->life_fd[1] = life[1];
    r = snp_folders_open(supervisor->state_dir, supervisor->is_root, supervisor->folder,
                         sizeof(supervisor->folder) - 64, &supervisor->folder_lock_fd, err);
    if (r == 0) {
        r = copy_guest(supervisor, err);
    }
    want.counts_memory = snp_cgroups_has(&supervisor->cgroups, SNP_CGROUP_MEMORY);
    want.has_own_ids = supervisor->is_root;
    want.has_truncate = supervisor->landlock_abi >= 3 || supervisor->is_root;
    return r < 0 ? r
                 : snp_local_filters(&want, &supervisor->session_filter_fd,
                                     &supervisor->zygote_filter_fd, err);
}

void snp_local_release(struct snp_supervisor *supervisor)
{
    snp_closep(&supervisor->life_fd[1]);
}

void snp_local_done(struct snp_supervisor *supervisor)
{
    snp_folders_close(supervisor->state_dir, supervisor->folder, &supervisor->folder_lock_fd);
}

/* Jobs ------------------------------------------------------------------------------------- */

struct job {
    uv_work_t work;
    struct snp_sandbox *sandbox;
    void (*run)(struct job *);  /* in a worker */
    void (*done)(struct job *); /* on the loop */
    struct snp_family family;
    struct snp_spared spared; /* of the family */
    int project_fd;           /* owned */
    int pidfd;                /* borrowed from the session, which outlives us */
    int result;
    struct snp_err err;
    uid_t owner;
    uint64_t start_us;
    void (*session_cb)(struct snp_sandbox *);
    void (*swept_cb)(struct snp_sandbox *, int eno);
    struct snp_folder_size size[2]; /* of workspace and tmp */
    struct snp_deleted held;
    pid_t *others; /* owned */
};

static void job_run(uv_work_t *work)
{
    struct job *job = work->data;

    job->run(job);
}

static void job_done(uv_work_t *work, int status)
{
    struct job *job = work->data;

    (void)status;
    job->sandbox->n_jobs--;
    job->done(job);
    free(job);
}

static struct job *job_new(struct snp_sandbox *s,
                           void (*run)(struct job *),
                           void (*done)(struct job *))
{
    struct job *job = calloc(1, sizeof(*job));

    if (job != NULL) {
        job->work.data = job;
        job->sandbox = s;
        job->run = run;
        job->done = done;
        job->pidfd = s->process.pidfd;
        job->owner = snp_supervisor_code_uid(s->supervisor, s->process.slot);
        job->spared = s->spared;
        job->family = (struct snp_family){.top = s->has_process ? s->process.pid : -1,
                                          .spared = &job->spared};
    }
    return job;
}

/* Without memory or threads the work is done here and now: it may not be left out. */
static void job_start(struct job *job)
{
    job->sandbox->n_jobs++;
    if (uv_queue_work(job->sandbox->supervisor->loop, &job->work, job_run, job_done) < 0) {
        job_run(&job->work);
        job_done(&job->work, 0);
    }
}

bool snp_local_is_busy(const struct snp_sandbox *s)
{
    return s->n_jobs > 0;
}

static void prepare_run(struct job *job)
{
    struct snp_sandbox *s = job->sandbox;
    const struct snp_folder_copy copy = {
        .project_fd = job->project_fd,
        .mask = snp_buf_bytes(&s->mask),
        .mask_len = s->mask.len,
        .max_bytes = s->spec.limits.value[SNP_LIMIT_WORKSPACE],
        .max_files = s->spec.limits.value[SNP_LIMIT_INODES],
        .owner = job->owner,
    };

    job->result = snp_folder_make(s->folder, job->owner, s->spec.is_lasting, &job->err);
    if (job->result == 0 && job->project_fd >= 0) {
        job->result = snp_folder_fill(s->folder, &copy, &job->err);
    }
    snp_closep(&job->project_fd);
}

static void prepare_done(struct job *job)
{
    struct snp_sandbox *s = job->sandbox;

    if (job->result < 0) {
        s->open_err = job->err;
    }
    job->session_cb(s);
}

void snp_local_prepare(struct snp_sandbox *s, void (*done)(struct snp_sandbox *))
{
    struct job *job = job_new(s, prepare_run, prepare_done);
    int project_fd = -1;

    if (s->project_fd >= 0) { /* of its own: the session may close hers meanwhile */
        project_fd = fcntl(s->project_fd, F_DUPFD_CLOEXEC, 3);
    }
    if (job == NULL || (s->project_fd >= 0 && project_fd < 0)) {
        snp_closep(&project_fd);
        free(job);
        (void)snp_fail(&s->open_err, SNP_E_NOMEM, "out of memory or descriptors");
        done(s);
        return;
    }
    job->session_cb = done;
    job->project_fd = project_fd;
    job_start(job);
}

/* Ending ----------------------------------------------------------------------------------- */

static void kill_run(struct job *job)
{
    job->family.spared = NULL;
    job->result = snp_family_sweep(&job->family, KILL_MS);
    (void)syscall(SYS_pidfd_send_signal, job->pidfd, SIGKILL, NULL, 0);
}

static void kill_done(struct job *job)
{
    if (job->result != 0) {
        snp_log(SNP_LOG_ERROR, "processes-left", "session=%s", job->sandbox->spec.id);
    }
}

void snp_local_kill(struct snp_sandbox *s)
{
    struct job *job = s->is_ending ? NULL : job_new(s, kill_run, kill_done);

    if (job != NULL) {
        s->is_ending = true;
        s->is_sweeping = true;
        job_start(job);
    }
}

/* Its children, if there are any, are the keeper's now, as the first processes of others may be. */
static void list_others(struct job *job)
{
    const struct snp_sandbox *s = job->sandbox;
    const struct snp_supervisor *supervisor = s->supervisor;
    size_t n = 0;

    job->others = calloc((size_t)supervisor->n_sandboxes + 1, sizeof(*job->others));
    if (job->others == NULL) {
        return;
    }
    job->others[n++] = s->process.zygote;
    for (const struct snp_sandbox *o = supervisor->sandboxes; o != NULL; o = o->next) {
        if (o != s && o->has_process && n <= supervisor->n_sandboxes) {
            job->others[n++] = o->process.pid;
        }
    }
    job->family.keeper = s->process.keeper;
    job->family.others = job->others;
    job->family.n_others = n;
}

static void bury_run(struct job *job)
{
    job->family.top = -1;
    job->family.spared = NULL;
    (void)snp_family_sweep(&job->family, KILL_MS);
    snp_folder_remove(job->sandbox->folder);
}

static void bury_done(struct job *job)
{
    free(job->others);
    job->session_cb(job->sandbox);
}

void snp_local_bury(struct snp_sandbox *s, void (*gone)(struct snp_sandbox *))
{
    struct job *job = job_new(s, bury_run, bury_done);

    s->is_ending = true;
    if (s->watch != NULL) {
        (void)uv_timer_stop(s->watch);
    }
    if (job == NULL) {
        gone(s); /* the folder goes with the supervisor */
        return;
    }
    job->session_cb = gone;
    list_others(job);
    job_start(job);
}

static void sweep_run(struct job *job)
{
    job->result = snp_family_sweep(&job->family, SWEEP_MS);
}

static void sweep_done(struct job *job)
{
    struct snp_sandbox *s = job->sandbox;

    s->is_sweeping = s->is_ending;
    job->swept_cb(s, job->result);
}

void snp_local_sweep(struct snp_sandbox *s, void (*swept)(struct snp_sandbox *, int eno))
{
    struct job *job = job_new(s, sweep_run, sweep_done);

    if (job == NULL) {
        snp_sandbox_kill(s, "out of memory");
        return;
    }
    s->is_sweeping = true;
    job->swept_cb = swept;
    job_start(job);
}

/* Watching --------------------------------------------------------------------------------- */

static void measure_run(struct job *job)
{
    const uint64_t *limit = job->sandbox->spec.limits.value;
    const struct snp_folder_size most[] = {
        {limit[SNP_LIMIT_WORKSPACE], limit[SNP_LIMIT_INODES]},
        {limit[SNP_LIMIT_TMP],       limit[SNP_LIMIT_INODES]},
    };
    static const char *const parts[] = {"workspace", "tmp"};
    char path[SNP_FOLDER_MAX + 16];

    for (size_t i = 0; i < SNP_ARRAY_LEN(parts); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", job->sandbox->folder, parts[i]);
        snp_folder_measure(path, &most[i], &job->size[i]);
    }
    /* Whatever folder they were in: they are files of the code's, and most of its room is there. */
    snp_deleted_measure(job->family.top, job->sandbox->folder, &job->held);
    job->size[0].bytes += job->held.file_bytes;
}

static void measure_done(struct job *job)
{
    struct snp_sandbox *s = job->sandbox;
    const uint64_t *limit = s->spec.limits.value;
    enum snp_limit over = SNP_LIMIT_N;

    s->is_measuring = false;
    s->mapping_bytes = job->held.mapping_bytes;
    s->measured_us = snp_now_us();
    s->measure_cost_us = s->measured_us - job->start_us;
    if (job->size[0].bytes > limit[SNP_LIMIT_WORKSPACE]) {
        over = SNP_LIMIT_WORKSPACE;
    } else if (job->size[0].files > limit[SNP_LIMIT_INODES]) {
        over = SNP_LIMIT_INODES;
    } else if (job->size[1].bytes > limit[SNP_LIMIT_TMP] ||
               job->size[1].files > limit[SNP_LIMIT_INODES]) {
        over = SNP_LIMIT_TMP;
    }
    if (over == SNP_LIMIT_N || s->state != SNP_SANDBOX_READY) {
        return;
    }
    if (s->cell != NULL) {
        snp_cell_on_disk(s, over);
    } else {
        snp_sandbox_kill(s, "its files passed their limit while no cell ran");
    }
}

static void measure(struct snp_sandbox *s)
{
    struct job *job = s->is_measuring ? NULL : job_new(s, measure_run, measure_done);

    if (job != NULL) {
        s->is_measuring = true;
        job->start_us = snp_now_us();
        job_start(job);
    }
}

static void on_watch(uv_timer_t *timer)
{
    struct snp_sandbox *s = timer->data;
    bool is_running = s->cell != NULL;
    uint64_t pause_us = (is_running ? DISK_MS : IDLE_MS) * 1000ULL;
    struct snp_family_usage usage;

    if (s->state != SNP_SANDBOX_READY || s->is_ending) {
        return;
    }
    if (is_running && !snp_cgroups_has(&s->supervisor->cgroups, SNP_CGROUP_MEMORY)) {
        snp_family_usage(s->process.pid, s->spec.limits.value[SNP_LIMIT_MEMORY], &usage);
        snp_cell_on_memory(s, usage.memory_bytes + s->mapping_bytes);
    }
    pause_us =
        pause_us > DISK_SHARE * s->measure_cost_us ? pause_us : DISK_SHARE * s->measure_cost_us;
    if (snp_now_us() - s->measured_us >= pause_us) {
        measure(s);
    }
}

void snp_local_watch(struct snp_sandbox *s, bool is_running)
{
    unsigned ms = !is_running                                                   ? IDLE_MS
                  : snp_cgroups_has(&s->supervisor->cgroups, SNP_CGROUP_MEMORY) ? DISK_MS
                                                                                : MEMORY_MS;

    if (s->watch != NULL && !s->is_ending) {
        (void)uv_timer_start(s->watch, on_watch, ms, ms);
    }
}

uint64_t snp_local_cpu(const struct snp_sandbox *s)
{
    struct snp_family_usage usage;

    snp_family_usage(s->process.pid, 0, &usage);
    return usage.cpu_us;
}
