/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_STORE_WAIT_H
#define SNP_DAEMON_STORE_WAIT_H

#include "daemon/co.h"
#include "store/job.h"

/* A job of the store, awaited by a coroutine, on whose stack it is. */
struct snp_store_wait {
    struct snp_await wait;
    snp_store_run_fn run;
    void *arg; /* of run() */
    enum snp_durability durability;
};

/* Fill run, arg and durability; then snp_await(&job->wait). */
void snp_store_start(struct snp_store *store, struct snp_store_wait *job);

/*
 * Both, for a job that survives the daemon's death, or a power cut. Fails like run() and
 * snp_store_submit().
 */
int snp_store_await(struct snp_store *store, snp_store_run_fn run, void *arg, struct snp_err *err)
    SNP_NODISCARD;
int snp_store_await_synced(struct snp_store *store,
                           snp_store_run_fn run,
                           void *arg,
                           struct snp_err *err) SNP_NODISCARD;

#endif
