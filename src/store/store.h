/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_STORE_H
#define SNP_STORE_STORE_H

/*
 * What outlives processes: the journal (SQLite) and the blobs (files named by their
 * content), behind one thread and one queue.
 *
 * A job is a function that runs on the store's thread, inside a transaction, under a savepoint
 * of its own: one that fails undoes itself and nobody else. All jobs that waited share one
 * commit. done() is called on the loop, in the order of submission, after that commit: what
 * it reports as done is as durable as was asked for.
 *
 * Everything of the store lives in DIR/journal; a lock in it keeps a second daemon out. If it cannot
 * be used (read-only, full, made by a newer program, locked), opening succeeds
 * all the same and each job fails with the reason; where time can mend it, it is tried again.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct uv_loop_s;
struct snp_store;
struct snp_tx; /* an open transaction; exists only while a job runs */

enum {
    SNP_STORE_QUEUE_MAX = 8192,     /* jobs that wait */
    SNP_STORE_BATCH_MAX = 512,      /* jobs of one commit */
    SNP_STORE_ID_LEN = 32,          /* sessions, snapshots: lower-case hex digits */
    SNP_STORE_HASH_LEN = 64,        /* hex digits of SHA-256 */
    SNP_STORE_INLINE_MAX = 4 << 10, /* blobs up to so many bytes live in the database */
    SNP_STORE_VERSION = 3,          /* of the schema this program writes */
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
    snp_store_done_fn done; /* NULL: nobody waits; a failure becomes a line of the log */
    void *arg;              /* borrowed until done() */
    enum snp_durability durability; /* of a job that only reads: has no meaning */
};

struct snp_store_options {
    const char *dir;       /* the state folder; journal/ is made in it with mode 0700; copied */
    uint64_t budget_bytes; /* what gc holds the store to by itself; 0 = whatever it takes */
};

/*
 * Start the store's thread, which opens the database. Jobs may be submitted at once and wait for
 * it. Call from the loop's thread. Fails only without memory or threads. *ret_store is freed
 * by snp_store_close.
 */
int snp_store_open(struct uv_loop_s *loop,
                   const struct snp_store_options *options,
                   struct snp_store **ret_store,
                   struct snp_err *err) SNP_NODISCARD;

/*
 * No further jobs; those that wait are run and their done() called, transfers of checkpoints are
 * broken off, the database is closed. Then closed(arg) on the loop, and the store is gone.
 */
void snp_store_close(struct snp_store *store, void (*closed)(void *arg), void *arg);

/*
 * Is there room for files of so many bytes now? SNP_E_LIMIT: the budget is reached, in words for the user. From any
 * thread; another may take the room at once.
 */
int snp_store_room(struct snp_store *store, uint64_t bytes, struct snp_err *err) SNP_NODISCARD;

/*
 * Loop thread only. The job is copied. SNP_E_LIMIT: SNP_STORE_QUEUE_MAX jobs wait already;
 * SNP_E_DENIED: the store is being closed, or was (NULL).
 */
int snp_store_submit(struct snp_store *store,
                     const struct snp_store_job *job,
                     struct snp_err *err) SNP_NODISCARD;

/* Counters since the start, for `stats` and tests. Any thread. */
struct snp_store_stats {
    uint64_t jobs;
    uint64_t failed;
    uint64_t commits;
    uint64_t synced;    /* commits that waited for the disk */
    uint64_t waiting;   /* jobs in the queue now */
    uint64_t transfers; /* checkpoints on their way now */
};
void snp_store_get_stats(struct snp_store *store, struct snp_store_stats *ret);

/*
 * 0 if the last attempt to use the database succeeded (or none was made yet), else the code of
 * its failure with *err filled. Any thread.
 */
int snp_store_health(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;

#endif
