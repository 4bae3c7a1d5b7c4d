/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/store_wait.h"

static int job_run(struct snp_tx *tx, void *arg, struct snp_err *err)
{
    const struct snp_store_wait *job = arg;

    return job->run(tx, job->arg, err);
}

static void done(void *arg, const struct snp_err *err)
{
    struct snp_store_wait *job = arg;

    snp_await_ended(&job->wait, err);
}

void snp_store_start(struct snp_store *store, struct snp_store_wait *job)
{
    SNP_STORE_DO(store, .run = job_run, .done = done, .arg = job, .durability = job->durability);
}

int snp_store_await(struct snp_store *store, snp_store_run_fn run, void *arg, struct snp_err *err)
{
    struct snp_store_wait job = {.run = run, .arg = arg};

    snp_store_start(store, &job);
    return snp_await(&job.wait, NULL, err);
}

int snp_store_await_synced(struct snp_store *store,
                           snp_store_run_fn run,
                           void *arg,
                           struct snp_err *err)
{
    struct snp_store_wait job = {.run = run, .arg = arg, .durability = SNP_DURABILITY_SYNCED};

    snp_store_start(store, &job);
    return snp_await(&job.wait, NULL, err);
}
