/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_JOB_H
#define SNP_STORE_JOB_H

/* Jobs and numbers shared by all parts of the store. Jobs are explained in store.h. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct snp_store;
struct snp_tx; /* an open transaction; exists only while a job runs */

enum {
    SNP_STORE_QUEUE_MAX = 8192,     /* queued jobs */
    SNP_STORE_BATCH_MAX = 512,      /* jobs of one commit */
    SNP_STORE_ID_LEN = 32,          /* sessions, snapshots: lower-case hex digits */
    SNP_STORE_HASH_LEN = 64,        /* hex digits of SHA-256 */
    SNP_STORE_INLINE_MAX = 4 << 10, /* blobs up to this size are in the database */
};

/* The failures that a commit survives. The larger includes the smaller. */
enum snp_durability {
    SNP_DURABILITY_PROCESS = 0, /* the daemon's death */
    SNP_DURABILITY_SYNCED,      /* a power cut */
};

/*
 * Runs on the store's thread; may block on the disk only. It must leave arg so that it can run
 * again: when a commit fails because of another job, all of it is undone and each job is run again
 * alone. A failure undoes the changes of this job and is passed to done().
 */
typedef int (*snp_store_run_fn)(struct snp_tx *tx, void *arg, struct snp_err *err);

/* On the loop, exactly once per submitted job. err->code is SNP_OK when it is committed. */
typedef void (*snp_store_done_fn)(void *arg, const struct snp_err *err);

struct snp_store_job {
    snp_store_run_fn run;
    snp_store_done_fn done;         /* NULL: none; a failure is logged */
    void *arg;                      /* borrowed until done() */
    enum snp_durability durability; /* no effect on a job that only reads */
};

/*
 * Loop thread only. The job is copied. SNP_E_LIMIT: SNP_STORE_QUEUE_MAX jobs are queued;
 * SNP_E_DENIED: the store is being closed, or was (NULL).
 */
int snp_store_submit(struct snp_store *store,
                     const struct snp_store_job *job,
                     struct snp_err *err) SNP_NODISCARD;

/* The same for a job whose done() is always called: at once, if it cannot be submitted. */
void snp_store_do(struct snp_store *store, const struct snp_store_job *job);
#define SNP_STORE_DO(store, ...) snp_store_do((store), &(const struct snp_store_job){__VA_ARGS__})

/* SNP_E_LIMIT, with the remedy. folder: the journal's, or one in it. */
static inline int snp_fail_budget(const char *folder, struct snp_err *err)
{
    return snp_fail_with(err, SNP_E_LIMIT, SNP_REMEDY_RAISE_LIMIT, "journal_budget", 0,
                         "%s has reached its budget", folder);
}

#endif
