/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_MEMORY_H
#define SNP_DAEMON_SAVE_MEMORY_H

/*
 * Snapshots in memory: for each a sleeping copy in the session's executor, and its way to disk.
 *
 * Their number is bounded: the oldest goes first, and only if its checkpoint is complete. A
 * snapshot whose copy is gone before it is on disk no longer exists; its row is removed, and an
 * event reports it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/policy/session_name.h"

struct snp_executor;
struct snp_server;
struct snp_session;
struct snp_tx;

struct snp_memory_copy {
    struct snp_memory_copy *next; /* the next older one */
    char snapshot[SNP_SESSION_ID_LEN + 1];
    char executor[SNP_SESSION_ID_LEN + 1]; /* the executor that has it */
    uint32_t number;                       /* in that executor */
    /* When it was made. */
    uint64_t epoch;
    uint64_t cell;
    uint64_t effect;    /* known once the journal has it */
    bool has_row;       /* the journal has it */
    bool is_on_disk;    /* its checkpoint is complete */
    bool is_spilling;   /* it is being written */
    bool is_failed;     /* all attempts to write it failed */
    bool is_doomed;     /* freed once it is unused */
    bool is_step;       /* of a run: freed once it is on disk */
    struct snp_err why; /* of is_failed */
    unsigned tries;
    unsigned users; /* writers and rollbacks */
};

/* SNP_E_LIMIT: too many are in memory only; one more must wait. */
int snp_memory_room(struct snp_session *session, struct snp_err *err) SNP_NODISCARD;

/*
 * Add a copy that the executor made of the session's current state. NULL when out of memory.
 * Borrowed.
 */
struct snp_memory_copy *snp_memory_add(struct snp_session *session,
                                       const char *snapshot,
                                       uint32_t number);

/* The copy of a snapshot; NULL = it is not in memory. Borrowed. */
struct snp_memory_copy *snp_memory_find(struct snp_session *session, const char *snapshot);

/* The snapshot was removed: its copy goes too, once it is unused. */
void snp_memory_remove(struct snp_session *session, const char *snapshot);

/* Have the executor drop a copy without a snapshot. */
void snp_memory_drop(const struct snp_executor *executor, uint32_t number);

/* The journal has its row: begin to write it to disk, unless it is there already. */
void snp_memory_noted(struct snp_session *session,
                      struct snp_memory_copy *copy,
                      uint64_t effect,
                      bool is_on_disk);

/* Write the copies that are not on disk, one after the other. */
void snp_memory_spill(struct snp_session *session);

/*
 * Ask the tier for the session's memory and its copies: it gives up copies when memory is short.
 * The oldest that are on disk are evicted while copies exceed their bound. Does nothing while
 * SNP_CAP_MEASURING sessions are being measured; snp_room_tick asks again.
 */
void snp_memory_measure(struct snp_session *session);

/*
 * Check the copies again: the executor is gone, or a snapshot was written to disk in another way.
 */
void snp_memory_check(struct snp_session *session);

/*
 * In a coroutine: true if the snapshot was being written to disk, after the end of that, whatever
 * the outcome. again: retry one that failed, since the disk may have room now.
 */
bool snp_memory_await(struct snp_server *server, const char *snapshot, bool again);
/*
 * The same for any of the session's copies that is not on disk; false: its executor may go without
 * a loss.
 */
bool snp_memory_await_any(struct snp_session *session);

/* Copies remain to be written to disk. */
bool snp_memory_is_leaving(const struct snp_session *session);

/* Retry failed writes. */
void snp_memory_retry(struct snp_session *session);

/* The session's memory is about to be freed. */
void snp_memory_forget(struct snp_session *session);

/* At the daemon's start, in a job: remove snapshots that were only in memory. */
int snp_memory_recover(struct snp_tx *tx, uint64_t now_us, struct snp_err *err) SNP_NODISCARD;

#endif
