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
 * Everything of the store lives in DIR/journal; a lock in it keeps a second daemon out. If it
 * cannot be used (read-only, full, made by a newer program, locked), opening succeeds all the same
 * and each job fails with the reason; where time can mend it, it is tried again.
 */

#include <stdbool.h>
#include <stdint.h>

#include "store/job.h"

struct uv_loop_s;

struct snp_store_options {
    const char *dir; /* the state folder; journal/ is made in it with mode 0700; copied */
    /* of the key that seals it; NULL = the one that did before, if any; copied */
    const char *key_path;
    uint64_t budget_bytes;     /* what gc holds the store to by itself; 0 = whatever it takes */
    void (*locked)(void *arg); /* once, on the loop: no other daemon has the state folder */
    void *arg;
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
 * Is there room for files of so many bytes now? SNP_E_LIMIT: the budget is reached, in words for
 * the user. From any thread; another may take the room at once.
 */
int snp_store_room(struct snp_store *store, uint64_t bytes, struct snp_err *err) SNP_NODISCARD;

/*
 * Is what is written now sealed with the user's key (store/seal.h)? Once a job has succeeded;
 * any thread.
 */
bool snp_store_is_sealed(const struct snp_store *store);

/*
 * 0 if the last attempt to use the database succeeded (or none was made yet), else the code of
 * its failure with *err filled. Any thread.
 */
int snp_store_health(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;

/*
 * Look whether the store's paths still lead to the files that it has open: after each batch, and
 * when called. Any thread.
 */
void snp_store_look(struct snp_store *store);
/*
 * SNP_E_DENIED with the way out: they did not when last looked at, and what is written is not where
 * the next daemon looks. NULL: 0.
 */
int snp_store_moved(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;

#endif
