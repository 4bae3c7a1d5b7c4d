/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_CHECKPOINT_H
#define SNP_DAEMON_SAVE_CHECKPOINT_H

/*
 * Checkpoints of sessions: from the tier through a pipe into the store. A session has one save at a
 * time; a failed one leaves the previous checkpoint intact.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

struct snp_server;
struct snp_session;

/* report: borrowed, as `checkpoint` answers it; NULL = it failed, see err. */
typedef void snp_checkpoint_made(void *ctx, json_t *report, const struct snp_err *err);

/*
 * Save the state after the last ended cell. The session has an executor; an IDLE one is SAVING
 * until the end. Waits for a pending save. made: NULL = none; always called, once, perhaps before
 * this returns.
 */
void snp_checkpoint_make(struct snp_session *session, snp_checkpoint_made *made, void *ctx);

/* In a coroutine: the same. ret_report: owned by the caller; NULL = not wanted. */
int snp_checkpoint_await(struct snp_session *session,
                         json_t **ret_report,
                         struct snp_err *err) SNP_NODISCARD;

/*
 * The same, but the session is free as soon as the tier has a copy: cells and files continue while
 * that is written. If the tier can make no copy, it is as above.
 */
void snp_checkpoint_make_aside(struct snp_session *session, snp_checkpoint_made *made, void *ctx);

/* A snapshot in memory, to be written to disk; cells continue. */
struct snp_checkpoint_copy {
    uint32_t number;
    /* When it was made. */
    uint64_t epoch;
    uint64_t cell;
    uint64_t effect;
    const char *snapshot; /* id; the snapshot's row is in the journal; copied */
};
void snp_checkpoint_make_copy(struct snp_session *session,
                              const struct snp_checkpoint_copy *copy,
                              snp_checkpoint_made *made,
                              void *ctx);

/* A file transfer begins: no state is saved until it ends. */
void snp_checkpoint_put_begin(struct snp_session *session);
void snp_checkpoint_put_end(struct snp_session *session);
/* Files were put, or it was rolled back, and no checkpoint may have that. */
void snp_checkpoint_has_puts(struct snp_session *session);

/* A cell begins: earlier changes belong to the state before it. */
void snp_checkpoint_cell_begins(struct snp_session *session);

/* The session has changed: schedule its save. */
void snp_checkpoint_schedule(struct snp_session *session);

/* Cancel its automatic save for now. */
void snp_checkpoint_unplan(struct snp_session *session);
/* The session holds nothing that is not on disk. */
void snp_checkpoint_unneeded(struct snp_session *session);

/*
 * Something runs in the session between its cells, according to its last checkpoint, which is
 * therefore outdated soon even without calls.
 */
bool snp_checkpoint_is_moving(const struct snp_session *session);

/* The last checkpoint has no image, although variables do not hold all. */
bool snp_checkpoint_lacks_image(const struct snp_session *session);

/* A request waits for a save of the session's state. */
bool snp_checkpoint_is_awaited(const struct snp_session *session);

/* The session has a checkpoint of its current state. */
bool snp_checkpoint_is_current(const struct snp_session *session);

/* Save the sessions that are due, up to SNP_CAP_SAVING at once. */
void snp_checkpoint_tick(struct snp_server *server);

#endif
