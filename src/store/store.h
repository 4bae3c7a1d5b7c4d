/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_STORE_H
#define SNP_STORE_STORE_H

/*
 * Data that outlives processes: the journal (SQLite) and the blobs (files named by their content),
 * behind one thread and one queue.
 *
 * A job is a function that runs on the store's thread, inside a transaction, under a separate
 * savepoint: a failing job undoes only itself. All queued jobs share one commit. done() is called
 * on the loop, in the order of submission, after that commit: success means the requested
 * durability.
 *
 * All files of the store are in DIR/journal; a lock in it excludes a second daemon. If it cannot be
 * used (read-only, full, made by a newer program, locked), opening succeeds all the same and each
 * job fails with the reason; where the cause may pass, opening is retried.
 */

#include <stdbool.h>
#include <stdint.h>

#include "store/job.h"

struct uv_loop_s;

struct snp_store_options {
    const char *dir; /* the state folder; journal/ is made in it with mode 0700; copied */
    /* Path of the key that seals it; NULL = the previous one, if any; copied. */
    const char *key_path;
    uint64_t budget_bytes;     /* gc keeps the store within it automatically; 0 = no limit */
    void (*locked)(void *arg); /* once, on the loop: no other daemon has the state folder */
    void *arg;
};

/*
 * Start the store's thread, which opens the database. Jobs may be submitted at once and wait for
 * it. Call from the loop's thread. Fails only without memory or threads. *ret_store is freed by
 * snp_store_close.
 */
int snp_store_open(struct uv_loop_s *loop,
                   const struct snp_store_options *options,
                   struct snp_store **ret_store,
                   struct snp_err *err) SNP_NODISCARD;

/*
 * Accept no further jobs; queued ones are run and their done() called, transfers of checkpoints are
 * aborted, the database is closed. Then closed(arg) is called on the loop, and the store is gone.
 */
void snp_store_close(struct snp_store *store, void (*closed)(void *arg), void *arg);

/*
 * Check that there is room for files of so many bytes. SNP_E_LIMIT: the budget is reached, in a
 * message for the user. Any thread; another one may take the room at once.
 */
int snp_store_room(struct snp_store *store, uint64_t bytes, struct snp_err *err) SNP_NODISCARD;

/*
 * New data is sealed with the user's key (store/seal.h). Valid once a job has succeeded; any
 * thread.
 */
bool snp_store_is_sealed(const struct snp_store *store);

/*
 * 0 if the last attempt to use the database succeeded (or there was none), else the code of its
 * failure with *err filled. Any thread.
 */
int snp_store_health(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;

/*
 * Check that the store's paths still lead to the open files: after each batch, and when called. Any
 * thread.
 */
void snp_store_look(struct snp_store *store);
/*
 * SNP_E_DENIED with the remedy: at the last check they did not, and new data is not where the next
 * daemon looks. NULL: 0.
 */
int snp_store_moved(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;

#endif
