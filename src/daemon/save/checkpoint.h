/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SAVE_CHECKPOINT_H
#define SNP_DAEMON_SAVE_CHECKPOINT_H

/*
 * Checkpoints of sessions: from the tier through a pipe into the store. Never two at once of a
 * session; one that fails leaves the one before as it was.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

struct snp_server;
struct snp_session;

/* report: borrowed, as `checkpoint` answers it; NULL = it failed, see err. */
typedef void snp_checkpoint_made(void *ctx, const json_t *report, const struct snp_err *err);

/*
 * Save the state after the last cell that ended. The session has an executor; if it is IDLE it is
 * SAVING until the end. Waits for one that is being made already. made: NULL = nobody waits; always
 * called, once, perhaps before this returns.
 */
void snp_checkpoint_make(struct snp_session *session, snp_checkpoint_made *made, void *ctx);

/*
 * The same, but the session is free again as soon as the tier has a copy of it: cells and files
 * come while that is written. Where the tier can make no copy it is as above.
 */
void snp_checkpoint_make_aside(struct snp_session *session, snp_checkpoint_made *made, void *ctx);

/* A snapshot in memory, to be written to disk; cells go on meanwhile. */
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

/* A file is on its way into it: no state is taken of it until it has come, or will not come. */
void snp_checkpoint_put_begin(struct snp_session *session);
void snp_checkpoint_put_end(struct snp_session *session);
/* Files were put, or it was rolled back, and no checkpoint may have that. */
void snp_checkpoint_has_puts(struct snp_session *session);

/* A cell begins in it: what changed so far was before it. */
void snp_checkpoint_cell_begins(struct snp_session *session);

/* Something has changed in the session: it is to be saved when its time has come. */
void snp_checkpoint_schedule(struct snp_session *session);

/* It is not to be saved by itself for now. */
void snp_checkpoint_unplan(struct snp_session *session);
/* It holds nothing that is not on disk. */
void snp_checkpoint_unneeded(struct snp_session *session);

/*
 * Does something run in it between its cells, as its last checkpoint says? Then that is soon of the
 * past, although nothing was called.
 */
bool snp_checkpoint_is_moving(const struct snp_session *session);

/* Has its last checkpoint no image, although variables do not hold all? */
bool snp_checkpoint_lacks_image(const struct snp_session *session);

/* Does a request wait for a save of the session's state? */
bool snp_checkpoint_is_awaited(const struct snp_session *session);

/* Has the session a checkpoint, and is that as the session is now? */
bool snp_checkpoint_is_current(const struct snp_session *session);

/* Save those whose time has come, as many as may be saved at once. */
void snp_checkpoint_tick(struct snp_server *server);

#endif
