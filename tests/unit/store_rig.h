/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TESTS_UNIT_STORE_RIG_H
#define SNP_TESTS_UNIT_STORE_RIG_H

/*
 * A store in a folder of its own, with a loop, for unit tests. Jobs are submitted as synced
 * ones; their results come in the order of submission into codes[] and last.
 */

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "store/checkpoint.h"
#include "store/journal.h"
#include "store/state.h"
#include "store/store.h"
#include "unit/harness.h"

enum {
    RIG_CODES = 4096
};

struct rig {
    char dir[64];
    uv_loop_t loop;
    struct snp_store *store;
    unsigned done; /* since the last wait */
    int codes[RIG_CODES];
    struct snp_err last;
    enum snp_durability durability;
    uint64_t budget;
    const char *key_path;
    struct snp_tx *tx; /* lent by rig_enter */
    sem_t entered;
    sem_t left;
};

static SNP_UNUSED void rig_remove(const char *dir)
{
    char command[128];
    pid_t pid;

    (void)snprintf(command, sizeof(command), "%s", dir);
    pid = fork();
    if (pid == 0) {
        (void)execl("/bin/rm", "rm", "-rf", command, (char *)NULL);
        _exit(127);
    }
    (void)waitpid(pid, NULL, 0);
}

static SNP_UNUSED void rig_open(struct rig *rig)
{
    struct snp_store_options options = {
        .dir = rig->dir, .key_path = rig->key_path, .budget_bytes = rig->budget};
    struct snp_err err;

    assert_int_equal(snp_store_open(&rig->loop, &options, &rig->store, &err), 0);
}

static SNP_UNUSED void rig_begin(struct rig *rig)
{
    *rig = (struct rig){.durability = SNP_DURABILITY_SYNCED};
    (void)snprintf(rig->dir, sizeof(rig->dir), "/tmp/snp-store-XXXXXX");
    assert_non_null(mkdtemp(rig->dir));
    assert_int_equal(uv_loop_init(&rig->loop), 0);
    rig_open(rig);
}

static SNP_UNUSED void rig_closed(void *arg)
{
    *(bool *)arg = true;
}

static SNP_UNUSED void rig_close(struct rig *rig)
{
    bool closed = false;

    snp_store_close(rig->store, rig_closed, &closed);
    while (!closed) {
        (void)uv_run(&rig->loop, UV_RUN_ONCE);
    }
    rig->store = NULL;
}

static SNP_UNUSED void rig_reopen(struct rig *rig)
{
    rig_close(rig);
    rig_open(rig);
}

static SNP_UNUSED void rig_end(struct rig *rig)
{
    if (rig->store != NULL) {
        rig_close(rig);
    }
    assert_int_equal(uv_loop_close(&rig->loop), 0);
    rig_remove(rig->dir);
}

static SNP_UNUSED void rig_done(void *arg, const struct snp_err *err)
{
    struct rig *rig = arg;

    assert_true(rig->done < RIG_CODES);
    rig->codes[rig->done++] = err->code;
    rig->last = *err;
}

/* A job whose argument and whose rig both must be reached: the pair, freed by done. */
struct rig_job {
    struct rig *rig;
    snp_store_run_fn run;
    void *arg;
};

static SNP_UNUSED int rig_job_run(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    struct rig_job *job = arg;

    return job->run(tx, job->arg, err);
}

static SNP_UNUSED void rig_job_done(void *arg, const struct snp_err *err)
{
    struct rig_job *job = arg;

    rig_done(job->rig, err);
    free(job);
}

static SNP_UNUSED void rig_submit(struct rig *rig, snp_store_run_fn run, void *arg)
{
    struct rig_job *pair = malloc(sizeof(*pair));
    struct snp_store_job job = {
        .run = rig_job_run, .done = rig_job_done, .arg = pair, .durability = rig->durability};
    struct snp_err err;

    assert_non_null(pair);
    *pair = (struct rig_job){rig, run, arg};
    assert_int_equal(snp_store_submit(rig->store, &job, &err), 0);
}

static SNP_UNUSED struct snp_store_stats rig_stats(struct rig *rig)
{
    struct snp_store_stats stats;

    (void)pthread_mutex_lock(&rig->store->mutex);
    stats = rig->store->stats;
    (void)pthread_mutex_unlock(&rig->store->mutex);
    return stats;
}

static SNP_UNUSED void rig_wait(struct rig *rig, unsigned n)
{
    while (rig->done < n) {
        (void)uv_run(&rig->loop, UV_RUN_ONCE);
    }
    rig->done = 0;
}

/* One job, waited for; its code. */
static SNP_UNUSED int rig_job(struct rig *rig, snp_store_run_fn run, void *arg)
{
    rig_submit(rig, run, arg);
    rig_wait(rig, 1);
    return rig->codes[0];
}

static SNP_UNUSED void rig_ok(struct rig *rig, snp_store_run_fn run, void *arg)
{
    int code = rig_job(rig, run, arg);

    if (code != SNP_OK) {
        fail_msg("%s", rig->last.msg);
    }
}

/* A job that lends its transaction to the test, until rig_leave. */
static SNP_UNUSED int rig_lend(struct snp_tx *tx, void *arg, struct snp_err *err SNP_UNUSED)
{
    struct rig *rig = arg;

    rig->tx = tx;
    (void)sem_post(&rig->entered);
    (void)sem_wait(&rig->left);
    return 0;
}

static SNP_UNUSED struct snp_tx *rig_enter(struct rig *rig)
{
    (void)sem_init(&rig->entered, 0, 0);
    (void)sem_init(&rig->left, 0, 0);
    rig_submit(rig, rig_lend, rig);
    (void)sem_wait(&rig->entered);
    return rig->tx;
}

static SNP_UNUSED void rig_leave(struct rig *rig)
{
    (void)sem_post(&rig->left);
    rig_wait(rig, 1);
    assert_int_equal(rig->codes[0], SNP_OK);
}

#endif
