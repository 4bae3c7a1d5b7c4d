/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_MEMORY_H
#define SNP_DAEMON_SAVE_MEMORY_H

/*
 * Snapshots in memory: for each a copy that sleeps in the session's executor, and its way to disk.
 *
 * They are bounded in number: the oldest goes first, and only one whose checkpoint is whole. A
 * snapshot whose copy is gone before it is on disk does not exist any more; its row goes, and an
 * event says so.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/session_name.h"

struct snp_executor;
struct snp_server;
struct snp_session;
struct snp_tx;

struct snp_memory_copy {
    struct snp_memory_copy *next; /* the one made before it */
    char snapshot[SNP_SESSION_ID_LEN + 1];
    char executor[SNP_SESSION_ID_LEN + 1]; /* that has it */
    uint32_t number;                       /* in that executor */
    /* When it was made. */
    uint64_t epoch;
    uint64_t cell;
    uint64_t effect;    /* known once the journal has it */
    bool has_row;       /* the journal has it */
    bool is_on_disk;    /* its checkpoint is whole */
    bool is_spilling;   /* it is being written */
    bool is_failed;     /* writing it failed each time */
    bool is_doomed;     /* it goes when nobody uses it */
    bool is_step;       /* of a run: it goes when it is on disk */
    struct snp_err why; /* of is_failed */
    unsigned tries;
    unsigned users; /* writing it, or going back to it */
};

/* Somebody who waits for a snapshot's way to disk to end. Embedded in its owner. */
struct snp_spill_waiter {
    struct snp_spill_waiter *next;
    void (*run)(struct snp_spill_waiter *waiter);
    char snapshot[SNP_SESSION_ID_LEN + 1];
};

/* SNP_E_LIMIT: so many are in memory only that one more must wait. */
int snp_memory_room(struct snp_session *session, struct snp_err *err) SNP_NODISCARD;

/*
 * Note one that the executor has made, of the session as it is now. NULL when out of
 * memory. Borrowed.
 */
struct snp_memory_copy *snp_memory_add(struct snp_session *session,
                                       const char *snapshot,
                                       uint32_t number);

/* The copy of a snapshot; NULL = it is not in memory. Borrowed. */
struct snp_memory_copy *snp_memory_find(struct snp_session *session, const char *snapshot);

/* The snapshot is no more: its copy goes too, once nobody uses it. */
void snp_memory_remove(struct snp_session *session, const char *snapshot);

/* Have the executor drop one that no snapshot has. */
void snp_memory_drop(const struct snp_executor *executor, uint32_t number);

/* The journal has its row: its way to disk begins, if it is not there already. */
void snp_memory_noted(struct snp_session *session,
                      struct snp_memory_copy *copy,
                      uint64_t effect,
                      bool is_on_disk);

/* Write those to disk that are not there yet, one after the other. */
void snp_memory_spill(struct snp_session *session);

/*
 * Ask the tier what the session takes, and which it still has in memory: it gives some up when
 * memory is short. The oldest that are on disk go while they hold more than they may. While
 * SNP_CAP_MEASURING sessions are being measured nothing happens; snp_room_tick asks again.
 */
void snp_memory_measure(struct snp_session *session);

/* Look at them again: the executor is gone, or a snapshot has come to disk another way. */
void snp_memory_check(struct snp_session *session);

/*
 * If it is on its way to disk: waiter->run is called when that has ended, however; true. again: one
 * that could not be written is written now, for the disk may have room again.
 */
bool snp_memory_wait(struct snp_server *server,
                     const char *snapshot,
                     bool again,
                     struct snp_spill_waiter *waiter);

/*
 * The same for any of the session's that is not on disk yet; false: its executor may go without
 * a loss.
 */
bool snp_memory_wait_any(struct snp_session *session, struct snp_spill_waiter *waiter);

/* Some are to come to disk. */
bool snp_memory_is_leaving(const struct snp_session *session);

/* Try once more to write those that could not be written. */
void snp_memory_retry(struct snp_session *session);

/* The session's memory goes. */
void snp_memory_forget(struct snp_session *session);

/* At the start of the daemon, in a job: snapshots that were in memory only are no more. */
int snp_memory_recover(struct snp_tx *tx, uint64_t now_us, struct snp_err *err) SNP_NODISCARD;

#endif
