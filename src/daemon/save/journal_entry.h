/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_JOURNAL_ENTRY_H
#define SNP_DAEMON_SAVE_JOURNAL_ENTRY_H

/*
 * The journal entries for cells and named sessions. Each call makes one job of the store; done() is
 * called on the loop when it is committed or has failed.
 *
 * A session whose last job failed is suspect: its next cell is not sent before its intent is on
 * disk, so that nothing runs whose record would be lost.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "store/journal.h"
#include "store/store.h"

struct snp_exec;
struct snp_entry;
struct snp_server;
struct snp_session;

/* err: NULL = success. */
typedef void snp_entry_done(void *ctx, const struct snp_err *err);

/* The journal may fail the next job of this session. */
bool snp_entry_is_suspect(const struct snp_session *session);

/* Write a cell's intent, and before the first one the session's row. done: NULL = none. */
int snp_entry_begin(struct snp_exec *exec, snp_entry_done *done, struct snp_err *err) SNP_NODISCARD;

/* Write the output so far. Best effort. */
void snp_entry_seen(struct snp_exec *exec);

struct snp_outcome {
    const char *status;
    const char *state;
    uint64_t wall_us;
    char *result; /* JSON; taken over; NULL = none */
};
/*
 * Write the outcome, with the intent if that is due. done(exec, err) always follows; if the job
 * could not be made, before this returns: exec must not be used afterwards.
 */
void snp_entry_end(struct snp_exec *exec, const struct snp_outcome *outcome, snp_entry_done *done);

/* Write how the process of a cell ended: its exit code, or the name of a signal. Best effort. */
void snp_entry_process(struct snp_session *session, uint64_t cell, const char *how);

/* In a coroutine: write the session's current epoch and policy. */
int snp_entry_session(struct snp_session *session, struct snp_err *err) SNP_NODISCARD;

/* The same, and its cells after that one read "undone": they were given up. */
int snp_entry_accepted(struct snp_session *session,
                       uint64_t after,
                       struct snp_err *err) SNP_NODISCARD;

/* In a coroutine: remove its cells, snapshots and checkpoints; write the current epoch. */
int snp_entry_clear(struct snp_session *session, struct snp_err *err) SNP_NODISCARD;

/* Remove all records; keep_steps: except the steps of a run. */
int snp_entry_remove(struct snp_session *session,
                     bool keep_steps,
                     snp_entry_done *done,
                     void *ctx,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * Write the owed cells, which ran and could not be recorded, as unknown. True: done(ctx, err) will
 * be called; false: nothing is owed.
 */
bool snp_entry_pay(struct snp_session *session, snp_entry_done *done, void *ctx);
/* Call each for the owed cells that the journal lacks, in order; internal ones are left out. */
int snp_entry_owed_each(const struct snp_session *session,
                        snp_journal_cell_fn each,
                        void *arg,
                        struct snp_err *err) SNP_NODISCARD;
/* The session was rolled back to its state after that cell: later owed cells will read so. */
void snp_entry_undone(struct snp_session *session, uint64_t after);
/* Forget the debts: the session ends. */
void snp_entry_forgive(struct snp_session *session);

/*
 * Note that a file is about to be put into the session: until a checkpoint has it, its loss can be
 * reported.
 */
int snp_entry_put(struct snp_session *session,
                  const char *path,
                  snp_entry_done *done,
                  void *ctx,
                  struct snp_err *err) SNP_NODISCARD;
/* Remove that note: the file did not reach the session. */
int snp_entry_put_undo(struct snp_session *session,
                       const char *path,
                       snp_entry_done *done,
                       void *ctx,
                       struct snp_err *err) SNP_NODISCARD;
/* Files put before are given up. Best effort. */
void snp_entry_puts_forgiven(struct snp_session *session);

/* Add a line for `doctor`. Best effort. */
void snp_entry_event(struct snp_server *server,
                     const char *kind,
                     const struct snp_session *session,
                     const char *fmt,
                     ...) SNP_PRINTF(4, 5);

#endif
