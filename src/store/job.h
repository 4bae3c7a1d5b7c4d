/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_JOB_H
#define SNP_STORE_JOB_H

/* Jobs and the numbers that all parts of the store know. What a job is: store.h. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct snp_store;
struct snp_tx; /* an open transaction; exists only while a job runs */

enum {
    SNP_STORE_QUEUE_MAX = 8192,     /* jobs that wait */
    SNP_STORE_BATCH_MAX = 512,      /* jobs of one commit */
    SNP_STORE_ID_LEN = 32,          /* sessions, snapshots: lower-case hex digits */
    SNP_STORE_HASH_LEN = 64,        /* hex digits of SHA-256 */
    SNP_STORE_INLINE_MAX = 4 << 10, /* blobs up to so many bytes live in the database */
    SNP_STORE_VERSION = 4,          /* of the schema this program writes */
};

/* How much a commit survives. The larger includes the smaller. */
enum snp_durability {
    SNP_DURABILITY_PROCESS = 0, /* our own death */
    SNP_DURABILITY_SYNCED,      /* a power cut */
};

/*
 * Runs on the store's thread; may block on the disk only. It must leave arg so that it can
 * run again: when a commit fails for another job's sake, all of it is undone and each job is
 * run once more by itself. A failure undoes what this job has changed and goes to done().
 */
typedef int (*snp_store_run_fn)(struct snp_tx *tx, void *arg, struct snp_err *err);

/* On the loop, exactly once per submitted job. err->code is SNP_OK when it is committed. */
typedef void (*snp_store_done_fn)(void *arg, const struct snp_err *err);

struct snp_store_job {
    snp_store_run_fn run;
    snp_store_done_fn done;         /* NULL: nobody waits; a failure becomes a line of the log */
    void *arg;                      /* borrowed until done() */
    enum snp_durability durability; /* of a job that only reads: has no meaning */
};

/*
 * Loop thread only. The job is copied. SNP_E_LIMIT: SNP_STORE_QUEUE_MAX jobs wait already;
 * SNP_E_DENIED: the store is being closed, or was (NULL).
 */
int snp_store_submit(struct snp_store *store,
                     const struct snp_store_job *job,
                     struct snp_err *err) SNP_NODISCARD;

/* The same of a job whose done() is called in any case: at once, if it cannot be submitted. */
void snp_store_do(struct snp_store *store, const struct snp_store_job *job);
#define SNP_STORE_DO(store, ...) snp_store_do((store), &(const struct snp_store_job){__VA_ARGS__})

/* SNP_E_LIMIT, with the way out. folder: the journal's, or one in it. */
static inline int snp_fail_budget(const char *folder, struct snp_err *err)
{
    return snp_fail_with(err, SNP_E_LIMIT, SNP_REMEDY_RAISE_LIMIT, "journal_budget", 0,
                         "%s has reached its budget", folder);
}

#endif
