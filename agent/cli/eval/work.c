/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A result is one line, appended by one write, so a killed process leaves whole lines and at most
 * one torn line at the end, which is cut off. If one process is killed the others end too, with
 * their sessions.
 */
#include "cli/eval/work.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/cli/need.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/rundir.h"
#include "base/str.h"

enum {
    LINE_MAX_BYTES = 8 << 20,
    RESULTS_MAX = 1 << 30,
    US = 1000000,
};

struct sample_job {
    const json_t *task;
    size_t sample;
    const char *text; /* NULL: call the model */
};

/* State shared by the processes. */
struct shared {
    size_t next;
    size_t done;
    size_t failed;
    char why[200]; /* of one that failed */
};

struct working {
    const struct snp_eval_work *work;
    int fd;                  /* owned: of the results, locked */
    json_t *results;         /* owned */
    json_t *known;           /* owned: "TASK\nSAMPLE" -> true */
    struct sample_job *jobs; /* owned */
    size_t n_jobs;
    struct shared *shared; /* owned: mapped */
};

static void working_done(struct working *all)
{
    snp_closep(&all->fd);
    json_decref(all->results);
    json_decref(all->known);
    free(all->jobs);
    if (all->shared != NULL) {
        (void)munmap(all->shared, sizeof(*all->shared));
    }
}

static char *key_of(const char *task, size_t sample)
{
    return snp_need_format("%s\n%zu", task, sample);
}

static int line_write(int fd, const json_t *value)
{
    snp_autofree char *text = snp_need(snp_json_text(value));
    snp_autofree char *line = snp_need_format("%s\n", text);

    return snp_write_all(fd, line, strlen(line));
}

/* Results ------------------------------------------------------------------------------------ */

static int result_take(struct working *all, char *text, size_t n, struct snp_err *err)
{
    snp_autojson json_t *line = NULL;
    snp_autofree char *key = NULL;

    if (snp_json_parse(text, n, &line, err) < 0) {
        return snp_err_wrap(err, "%.100s/results.jsonl", all->work->folder);
    }
    if (json_object_get(line, "task") == NULL) {
        return json_equal(line, all->work->head)
                   ? 0
                   : snp_fail(err, SNP_E_DENIED,
                              "%.100s has results of another data set, of other samples or "
                              "settings; name a new folder: --output DIR",
                              all->work->folder);
    }
    key = key_of(snp_json_str(line, "task", ""), (size_t)snp_json_int(line, "sample", 0));
    (void)json_object_set_new(all->known, key, json_true());
    return json_array_append(all->results, line);
}

/* Read whole lines; cut off the rest. */
static int results_read(struct working *all, struct snp_err *err)
{
    off_t size = lseek(all->fd, 0, SEEK_END);
    snp_autofree char *text = snp_need(calloc(1, (size_t)size + 1));
    size_t at = 0;

    if (size > RESULTS_MAX || pread(all->fd, text, (size_t)size, 0) != (ssize_t)size) {
        return snp_fail(err, SNP_E_SYS, "cannot read %.100s/results.jsonl", all->work->folder);
    }
    for (char *end; (end = strchr(text + at, '\n')) != NULL; at = (size_t)(end - text) + 1) {
        SNP_TRY(result_take(all, text + at, (size_t)(end - text) - at, err));
    }
    if (ftruncate(all->fd, (off_t)at) < 0) {
        return snp_fail_sys(err, errno, "cut off a torn line");
    }
    return at == 0 && line_write(all->fd, all->work->head) < 0
               ? snp_fail_sys(err, errno, "write results")
               : 0;
}

static int results_open(struct working *all, struct snp_err *err)
{
    snp_autofree char *path = snp_need_format("%s/results.jsonl", all->work->folder);

    SNP_TRY(snp_mkdir_p(all->work->folder, 0755, err));
    all->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (all->fd < 0) {
        return snp_fail_sys(err, errno, "open %.150s", path);
    }
    if (flock(all->fd, LOCK_EX | LOCK_NB) < 0) {
        return snp_fail(err, SNP_E_DENIED, "another eval writes to %.150s", all->work->folder);
    }
    return results_read(all, err);
}

/* Working ------------------------------------------------------------------------------------ */

/* The next sample of a task in the table, unless its result is known. */
static void job_add(struct working *all, const json_t *task, size_t sample, const char *text)
{
    snp_autofree char *key = key_of(snp_json_str(task, "id", ""), sample);

    if (json_object_get(all->known, key) == NULL) {
        all->jobs = snp_need(realloc(all->jobs, (all->n_jobs + 1) * sizeof(*all->jobs)));
        all->jobs[all->n_jobs++] = (struct sample_job){task, sample, text};
    }
}

static void jobs_make(struct working *all)
{
    const struct snp_eval_work *work = all->work;

    for (size_t i = 0; i < json_array_size(work->tasks->list); i++) {
        const json_t *task = json_array_get(work->tasks->list, i);
        const json_t *texts = json_object_get(work->tasks->samples, snp_json_str(task, "id", ""));
        size_t n = work->per_task > 0 ? work->per_task : json_array_size(texts);

        for (size_t s = 0; s < n; s++) {
            job_add(all, task, s, json_string_value(json_array_get(texts, s)));
        }
    }
}

static int job_do(const struct working *all, const struct sample_job *job, struct snp_err *err)
{
    snp_autojson json_t *result = NULL;
    uint64_t began = snp_now_us();

    SNP_TRY(snp_score_task(all->work->with, job->task, job->text, &result, err));
    (void)json_object_set(result, "task", json_object_get(job->task, "id"));
    (void)json_object_set_new(result, "sample", json_integer((json_int_t)job->sample));
    (void)json_object_set_new(result, "seconds", json_real((double)(snp_now_us() - began) / US));
    return line_write(all->fd, result) < 0 ? snp_fail_sys(err, errno, "write results") : 0;
}

/* A worker process with a new connection. */
static void worker(const struct working *all, pid_t parent)
{
    struct shared *shared = all->shared;
    struct snp_err err;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    for (;;) {
        size_t n = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED);

        if (n >= all->n_jobs) {
            _exit(0);
        }
        if (job_do(all, &all->jobs[n], &err) < 0) {
            (void)snprintf(shared->why, sizeof(shared->why), "%.190s", err.msg);
            (void)__atomic_fetch_add(&shared->failed, 1, __ATOMIC_RELAXED);
        }
        n = __atomic_add_fetch(&shared->done, 1, __ATOMIC_RELAXED);
        if (!all->work->is_quiet) {
            (void)fprintf(stderr, "\r%zu of %zu samples", n, all->n_jobs);
        }
    }
}

static int workers_run(struct working *all, struct snp_err *err)
{
    size_t n = all->work->parallel < all->n_jobs ? all->work->parallel : all->n_jobs;
    pid_t parent = getpid();
    int status;

    all->shared =
        mmap(NULL, sizeof(*all->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all->shared == MAP_FAILED) {
        all->shared = NULL;
        return snp_fail_sys(err, errno, "share memory");
    }
    (void)fflush(NULL);
    for (size_t i = 0; i < n; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            worker(all, parent);
        }
        if (pid < 0) {
            return snp_fail_sys(err, errno, "fork");
        }
    }
    while (SNP_RETRY(wait(&status)) > 0) {
        all->shared->failed += status != 0;
    }
    if (!all->work->is_quiet && n > 0) {
        (void)fputc('\n', stderr);
    }
    return all->shared->failed == 0
               ? 0
               : snp_fail(err, SNP_E_PEER,
                          "%zu samples could not be judged (%.120s); repeat the command to judge "
                          "them",
                          all->shared->failed, all->shared->why);
}

int snp_work_do(const struct snp_eval_work *work, json_t **ret, struct snp_err *err)
{
    snp_cleanup(working_done) struct working all = {.work = work,
                                                    .fd = -1,
                                                    .results = snp_need(json_array()),
                                                    .known = snp_need(json_object())};

    SNP_TRY(results_open(&all, err));
    jobs_make(&all);
    SNP_TRY(workers_run(&all, err));
    (void)json_array_clear(all.results);
    SNP_TRY(results_read(&all, err));
    *ret = json_incref(all.results);
    return 0;
}
