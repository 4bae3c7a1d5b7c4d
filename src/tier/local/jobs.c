/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that walks /proc or a folder runs in a worker. Each job counts as a user of its session,
 * which is not freed before; it works on copies of the session's data.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "guest/pid1/wire.h"
#include "tier/engine/inside.h"
#include "tier/engine/process.h"
#include "tier/host/procs.h"
#include "tier/local/deleted.h"
#include "tier/local/folder.h"
#include "tier/local/local.h"

enum {
    SWEEP_MS = 12000, /* below a cell's timeout */
    KILL_MS = 12000,
    MEMORY_MS = 20,
    DISK_MS = 50,
    DISK_SHARE = 10, /* checks use at most 1/10 of the time */
    IDLE_MS = 1000
};

/* Jobs ------------------------------------------------------------------------------------- */

struct sandbox_job {
    uv_work_t work;
    struct snp_sandbox *sandbox;
    void (*run)(struct sandbox_job *);  /* in a worker */
    void (*done)(struct sandbox_job *); /* on the loop */
    struct snp_family family;
    struct snp_spared spared; /* of the family */
    int project_fd;           /* owned */
    int pidfd;                /* borrowed from the session, which outlives the job */
    int result;
    struct snp_err err;
    uid_t owner;
    uint64_t start_us;
    void (*session_cb)(struct snp_sandbox *);
    void (*swept_cb)(struct snp_sandbox *, int eno);
    struct snp_folder_size size[2]; /* of workspace and tmp */
    struct snp_deleted deleted;
    pid_t *others; /* owned */
};

static void job_run(uv_work_t *work)
{
    struct sandbox_job *job = work->data;

    job->run(job);
}

static void job_done(uv_work_t *work, int status)
{
    struct sandbox_job *job = work->data;

    (void)status;
    snp_forked_of(job->sandbox)->n_jobs--;
    job->done(job);
    free(job);
}

static struct sandbox_job *job_new(struct snp_sandbox *s,
                                   void (*run)(struct sandbox_job *),
                                   void (*done)(struct sandbox_job *))
{
    struct sandbox_job *job = calloc(1, sizeof(*job));

    if (job != NULL) {
        job->work.data = job;
        job->sandbox = s;
        job->run = run;
        job->done = done;
        job->pidfd = snp_forked_of(s)->process.pidfd;
        job->owner = snp_host_code_uid(s->supervisor, snp_forked_of(s)->process.slot);
        job->spared = s->spared;
        job->family = (struct snp_family){
            .top = s->has_process ? snp_forked_of(s)->process.pid : -1, .spared = &job->spared};
    }
    return job;
}

/* Without memory or threads the job runs here: it must not be skipped. */
static void job_start(struct sandbox_job *job)
{
    snp_forked_of(job->sandbox)->n_jobs++;
    if (uv_queue_work(job->sandbox->supervisor->loop, &job->work, job_run, job_done) < 0) {
        job_run(&job->work);
        job_done(&job->work, 0);
    }
}

static void prepare_run(struct sandbox_job *job)
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

static void prepare_done(struct sandbox_job *job)
{
    struct snp_sandbox *s = job->sandbox;

    if (job->result < 0) {
        s->open_err = job->err;
    }
    job->session_cb(s);
}

void snp_local_prepare(struct snp_sandbox *s, void (*done)(struct snp_sandbox *))
{
    struct sandbox_job *job = job_new(s, prepare_run, prepare_done);
    int project_fd = -1;

    if (s->project_fd >= 0) { /* a duplicate: the session may close its descriptor */
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

static void kill_run(struct sandbox_job *job)
{
    job->family.spared = NULL;
    job->result = snp_family_sweep(&job->family, KILL_MS);
    (void)syscall(SYS_pidfd_send_signal, job->pidfd, SIGKILL, NULL, 0);
}

static void kill_done(struct sandbox_job *job)
{
    if (job->result != 0) {
        snp_log(SNP_LOG_ERROR, "processes-left", "session=%s", job->sandbox->spec.id);
    }
}

void snp_local_kill(struct snp_sandbox *s)
{
    struct snp_local_sandbox *own = snp_local_sandbox_of(s);
    struct sandbox_job *job = own->is_ending ? NULL : job_new(s, kill_run, kill_done);

    if (job != NULL) {
        own->is_ending = true;
        own->is_sweeping = true;
        job_start(job);
    }
}

/* The keeper has adopted the children, and possibly the first processes of other sandboxes. */
static void list_others(struct sandbox_job *job)
{
    const struct snp_sandbox *s = job->sandbox;
    const struct snp_supervisor *supervisor = s->supervisor;
    size_t n = 0;

    job->others = calloc((size_t)supervisor->n_sandboxes + 1, sizeof(*job->others));
    if (job->others == NULL) {
        return;
    }
    job->others[n++] = snp_forked_of(s)->process.zygote;
    for (const struct snp_sandbox *o = supervisor->sandboxes; o != NULL; o = o->next) {
        if (o != s && o->has_process && n <= supervisor->n_sandboxes) {
            job->others[n++] = snp_forked_of(o)->process.pid;
        }
    }
    job->family.keeper = snp_forked_of(s)->process.keeper;
    job->family.others = job->others;
    job->family.n_others = n;
}

static void bury_run(struct sandbox_job *job)
{
    job->family.top = -1;
    job->family.spared = NULL;
    (void)snp_family_sweep(&job->family, KILL_MS);
    snp_folder_remove(job->sandbox->folder);
}

static void bury_done(struct sandbox_job *job)
{
    free(job->others);
    job->session_cb(job->sandbox);
}

void snp_local_bury(struct snp_sandbox *s, void (*gone)(struct snp_sandbox *))
{
    struct snp_local_sandbox *own = snp_local_sandbox_of(s);
    struct sandbox_job *job = job_new(s, bury_run, bury_done);

    own->is_ending = true;
    if (own->watch != NULL) {
        (void)uv_timer_stop(own->watch);
    }
    if (job == NULL) {
        gone(s); /* the supervisor removes the folder at its end */
        return;
    }
    job->session_cb = gone;
    list_others(job);
    job_start(job);
}

static void sweep_run(struct sandbox_job *job)
{
    job->result = snp_family_sweep(&job->family, SWEEP_MS);
}

static void sweep_done(struct sandbox_job *job)
{
    struct snp_sandbox *s = job->sandbox;
    struct snp_local_sandbox *own = snp_local_sandbox_of(s);

    own->is_sweeping = own->is_ending;
    job->swept_cb(s, job->result);
}

static void sweep(struct snp_sandbox *s, void (*swept)(struct snp_sandbox *, int eno))
{
    struct snp_local_sandbox *own = snp_local_sandbox_of(s);
    struct sandbox_job *job = job_new(s, sweep_run, sweep_done);

    if (job == NULL) {
        snp_sandbox_kill(s, "out of memory");
        return;
    }
    own->is_sweeping = true;
    job->swept_cb = swept;
    job_start(job);
}

static void on_swept(struct snp_sandbox *s, int eno);

/*
 * Pid 1 has listed the processes to spare; EAGAIN: and ended copies that had run since the last
 * request.
 */
static void on_spared_told(void *data, int eno, const char *bytes, size_t n)
{
    struct snp_sandbox *s = data;
    struct snp_local_sandbox *own = snp_local_sandbox_of(s);

    (void)bytes;
    (void)n;
    if (eno == EAGAIN || (eno == 0 && !own->is_swept)) {
        own->is_swept = true;
        sweep(s, on_swept);
    } else {
        snp_sandbox_swept(s, eno);
    }
}

static void on_swept(struct snp_sandbox *s, int eno)
{
    if (eno == 0) {
        snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_SWEEP, NULL, 0, -1), on_spared_told, s);
    } else {
        snp_sandbox_swept(s, eno);
    }
}

void snp_local_sweep(struct snp_sandbox *s)
{
    snp_local_sandbox_of(s)->is_swept = false;
    snp_sandbox_ask_init(s, SNP_ASK(SNP_INIT_SWEEP, NULL, 0, -1), on_spared_told, s);
}

/* Watching --------------------------------------------------------------------------------- */

static void measure_run(struct sandbox_job *job)
{
    const uint64_t *limit = job->sandbox->spec.limits.value;
    const struct snp_folder_size most[] = {
        {limit[SNP_LIMIT_WORKSPACE], limit[SNP_LIMIT_INODES]},
        {limit[SNP_LIMIT_TMP], limit[SNP_LIMIT_INODES]},
    };
    static const char *const parts[] = {"workspace", "tmp"};
    char path[SNP_FOLDER_MAX + 16];

    for (size_t i = 0; i < SNP_ARRAY_LEN(parts); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", job->sandbox->folder, parts[i]);
        snp_folder_measure(path, &most[i], &job->size[i]);
    }
    /* Removed files of any folder count for the workspace, which has the larger limit. */
    snp_deleted_measure(job->family.top, job->sandbox->folder, &job->deleted);
    job->size[0].bytes += job->deleted.file_bytes;
}

static void measure_done(struct sandbox_job *job)
{
    struct snp_sandbox *s = job->sandbox;
    struct snp_local_sandbox *own = snp_local_sandbox_of(s);
    const uint64_t *limit = s->spec.limits.value;
    enum snp_limit over = SNP_LIMIT_N;

    own->is_measuring = false;
    own->mapping_bytes = job->deleted.mapping_bytes;
    own->measured_us = snp_now_us();
    own->measure_cost_us = own->measured_us - job->start_us;
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
        s->supervisor->events->disk(s, over);
    } else {
        snp_sandbox_kill(s, "its files exceeded their limit between cells");
    }
}

static void measure(struct snp_sandbox *s)
{
    struct snp_local_sandbox *own = snp_local_sandbox_of(s);
    struct sandbox_job *job = own->is_measuring ? NULL : job_new(s, measure_run, measure_done);

    if (job != NULL) {
        own->is_measuring = true;
        job->start_us = snp_now_us();
        job_start(job);
    }
}

static void on_watch(uv_timer_t *timer)
{
    struct snp_sandbox *s = timer->data;
    struct snp_local_sandbox *own = snp_local_sandbox_of(s);
    bool is_running = s->cell != NULL || snp_detached_is_running(s);
    uint64_t pause_us = (is_running ? DISK_MS : IDLE_MS) * 1000ULL;
    struct snp_family_usage usage;

    if (s->state != SNP_SANDBOX_READY || own->is_ending) {
        return;
    }
    if (is_running && !snp_cgroups_has(&s->supervisor->cgroups, SNP_CGROUP_MEMORY)) {
        snp_family_usage(snp_forked_of(s)->process.pid, s->spec.limits.value[SNP_LIMIT_MEMORY],
                         &usage);
        s->supervisor->events->memory(s, usage.memory_bytes + own->mapping_bytes, false);
    }
    pause_us =
        pause_us > DISK_SHARE * own->measure_cost_us ? pause_us : DISK_SHARE * own->measure_cost_us;
    if (snp_now_us() - own->measured_us >= pause_us) {
        measure(s);
    }
}

void snp_local_watch(struct snp_sandbox *s, bool is_running)
{
    struct snp_local_sandbox *own = snp_local_sandbox_of(s);
    unsigned ms = !is_running                                                   ? IDLE_MS
                  : snp_cgroups_has(&s->supervisor->cgroups, SNP_CGROUP_MEMORY) ? DISK_MS
                                                                                : MEMORY_MS;

    if (own->watch != NULL && !own->is_ending) {
        (void)uv_timer_start(own->watch, on_watch, ms, ms);
    }
}
