/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_JOURNAL_H
#define SNP_STORE_JOURNAL_H

/*
 * Operations on the rows of the journal (rows.h). Every function here must run in a job (store.h)
 * and uses its transaction.
 *
 * Texts and bytes given are copied. Those of a row passed to a callback are borrowed until it
 * returns; a row from snp_journal_*_get lives as long as the job.
 *
 * All fail with SNP_E_SYS or SNP_E_LIMIT (disk full) when the database does; the message names the
 * file.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/rows.h"

/* Sessions ------------------------------------------------------------------------------ */

/* Insert. SNP_E_INVALID: id or name is taken. */
int snp_journal_session_add(struct snp_tx *tx,
                            const struct snp_journal_session *row,
                            struct snp_err *err) SNP_NODISCARD;
/* Write all columns but id and created_us. SNP_E_NOT_FOUND, SNP_E_INVALID: the name is taken. */
int snp_journal_session_put(struct snp_tx *tx,
                            const struct snp_journal_session *row,
                            struct snp_err *err) SNP_NODISCARD;
/* Set a new epoch. SNP_E_DENIED if it is not larger than the present one; SNP_E_NOT_FOUND. */
int snp_journal_session_epoch(struct snp_tx *tx,
                              const char *id,
                              uint64_t epoch,
                              struct snp_err *err) SNP_NODISCARD;
/* Find a session by id, else by name. SNP_E_NOT_FOUND. */
int snp_journal_session_get(struct snp_tx *tx,
                            const char *ref,
                            struct snp_journal_session *ret,
                            struct snp_err *err) SNP_NODISCARD;
/* All, last used first. */
int snp_journal_session_each(struct snp_tx *tx,
                             snp_journal_session_fn each,
                             void *arg,
                             struct snp_err *err) SNP_NODISCARD;
/* Remove its cells, snapshots, checkpoints and effects; name, spec and created stay, cells is 0. */
int snp_journal_session_clear(struct snp_tx *tx,
                              const char *id,
                              uint64_t epoch,
                              struct snp_err *err) SNP_NODISCARD;
/* Remove it with all its rows. SNP_E_NOT_FOUND. */
int snp_journal_session_remove(struct snp_tx *tx,
                               const char *id,
                               struct snp_err *err) SNP_NODISCARD;
/* The same, but the snapshots of a run's steps stay. */
int snp_journal_session_retire(struct snp_tx *tx,
                               const char *id,
                               struct snp_err *err) SNP_NODISCARD;

/* Cells --------------------------------------------------------------------------------- */

/*
 * The intent. Sets the session's cells and used_us. first_line, has_result, is_dropped, status,
 * state and wall_us of row are ignored. SNP_E_INVALID: this number is not larger than the
 * session's last; SNP_E_NOT_FOUND: no such session.
 */
int snp_journal_cell_begin(struct snp_tx *tx,
                           const struct snp_journal_cell *row,
                           struct snp_bytes code,
                           struct snp_bytes input,
                           struct snp_err *err) SNP_NODISCARD;
/* A cell's line in lists: the first line of its code, or the words of its command. */
void snp_journal_first_line(const char *argv,
                            struct snp_bytes code,
                            char out[SNP_JOURNAL_LINE_MAX + 1]);
/* How the process of a cell ended, also before the outcome of the cell. SNP_E_NOT_FOUND. */
int snp_journal_cell_ended(struct snp_tx *tx,
                           const char *session,
                           uint64_t cell,
                           const char *how,
                           struct snp_err *err) SNP_NODISCARD;
/* The outcome. SNP_E_NOT_FOUND; SNP_E_DENIED: it has one, or epoch is not the cell's. */
int snp_journal_cell_end(struct snp_tx *tx,
                         const char *session,
                         uint64_t cell,
                         uint64_t epoch,
                         const struct snp_journal_outcome *outcome,
                         struct snp_err *err) SNP_NODISCARD;
/* Replace the kept output of a running cell by its latest; at most SNP_JOURNAL_SEEN_MAX. */
int snp_journal_cell_seen(struct snp_tx *tx,
                          const char *session,
                          uint64_t cell,
                          enum snp_journal_part stream,
                          struct snp_bytes bytes,
                          struct snp_err *err) SNP_NODISCARD;
int snp_journal_cell_get(struct snp_tx *tx,
                         const char *session,
                         uint64_t cell,
                         struct snp_journal_cell *ret,
                         struct snp_err *err) SNP_NODISCARD;
/*
 * Append a part to buf. SNP_E_NOT_FOUND: the cell has no such part, gc has removed it, or its blob
 * is damaged; the message says which. SNP_E_LIMIT: buf is too small.
 */
int snp_journal_cell_part(struct snp_tx *tx,
                          const char *session,
                          uint64_t cell,
                          enum snp_journal_part part,
                          struct snp_buf *buf,
                          struct snp_err *err) SNP_NODISCARD;
/* Without internal ones, newest first. SNP_E_NOT_FOUND: no such session. */
int snp_journal_cell_each(struct snp_tx *tx,
                          const struct snp_journal_page *page,
                          snp_journal_cell_fn each,
                          void *arg,
                          struct snp_err *err) SNP_NODISCARD;
/* All cells with numbers above `after`, oldest first: for replay and `missing`. */
int snp_journal_cell_after(struct snp_tx *tx,
                           const char *session,
                           uint64_t after,
                           snp_journal_cell_fn each,
                           void *arg,
                           struct snp_err *err) SNP_NODISCARD;
/*
 * The session was rolled back to its state after a cell: later ended cells get the state "undone".
 * Their numbers stay taken.
 */
int snp_journal_cell_undo(struct snp_tx *tx,
                          const char *session,
                          uint64_t after,
                          struct snp_err *err) SNP_NODISCARD;
/* The same only for replays: their effects went with their executor. */
int snp_journal_cell_undo_replays(struct snp_tx *tx,
                                  const char *session,
                                  uint64_t after,
                                  struct snp_err *err) SNP_NODISCARD;
/*
 * When records of sessions were lost with a damaged database: unknown names may have been in use.
 * 0: never, or its damaged copy is gone.
 */
int snp_journal_sessions_lost(struct snp_tx *tx,
                              uint64_t *ret_us,
                              struct snp_err *err) SNP_NODISCARD;

/*
 * At start: each cell that reads "running" becomes "unknown", reported by an event. *ret_n: their
 * number.
 */
int snp_journal_cell_recover(struct snp_tx *tx, uint64_t *ret_n, struct snp_err *err) SNP_NODISCARD;

/* Snapshots ----------------------------------------------------------------------------- */

/* SNP_E_INVALID: the name is taken in this session; SNP_E_NOT_FOUND: no such session. */
int snp_journal_snapshot_add(struct snp_tx *tx,
                             const struct snp_journal_snapshot *row,
                             struct snp_err *err) SNP_NODISCARD;
/*
 * Find a snapshot by id, by SESSION@NAME, or by a name that only one snapshot has. SNP_E_NOT_FOUND;
 * SNP_E_INVALID: several have the name; the message says how to name one.
 */
int snp_journal_snapshot_get(struct snp_tx *tx,
                             const char *ref,
                             struct snp_journal_snapshot *ret,
                             struct snp_err *err) SNP_NODISCARD;
/* Oldest first. session: id, or NULL = of all. */
int snp_journal_snapshot_each(struct snp_tx *tx,
                              const char *session,
                              snp_journal_snapshot_fn each,
                              void *arg,
                              struct snp_err *err) SNP_NODISCARD;
/* Tie a checkpoint to it; the checkpoint is kept as long as the snapshot. SNP_E_NOT_FOUND. */
int snp_journal_snapshot_checkpoint(struct snp_tx *tx,
                                    const char *id,
                                    uint64_t checkpoint,
                                    struct snp_err *err) SNP_NODISCARD;
/*
 * Its children get its parent. Its checkpoint is removed if nothing else refers to it.
 * SNP_E_NOT_FOUND.
 */
int snp_journal_snapshot_remove(struct snp_tx *tx,
                                const char *id,
                                struct snp_err *err) SNP_NODISCARD;

/* Checkpoints --------------------------------------------------------------------------- */

/* SNP_E_NOT_FOUND. */
int snp_journal_checkpoint_get(struct snp_tx *tx,
                               uint64_t id,
                               struct snp_journal_checkpoint *ret,
                               struct snp_err *err) SNP_NODISCARD;
/*
 * Copy a checkpoint to another session (fork, import) or a later epoch (rollback): costs rows, no
 * blobs. Of `to`, session, cell and epoch are read; the session's effects so far precede it.
 * SNP_E_NOT_FOUND: no such checkpoint or session; SNP_E_DENIED: it is not usable.
 */
int snp_journal_checkpoint_copy(struct snp_tx *tx,
                                uint64_t id,
                                const struct snp_journal_checkpoint *to,
                                uint64_t *ret_id,
                                struct snp_err *err) SNP_NODISCARD;
/* Items in the order of the stream. */
int snp_journal_item_each(struct snp_tx *tx,
                          uint64_t checkpoint,
                          snp_journal_item_fn each,
                          void *arg,
                          struct snp_err *err) SNP_NODISCARD;
/*
 * Keys whose contents a checkpoint holds, one per line, as `save` wants them (none of damaged
 * contents; in a sealed store none of plain files, so that they are written again). Beyond
 * SNP_JOURNAL_KNOWN_MAX only the keys of the largest contents. checkpoint 0: none.
 */
int snp_journal_known_keys(struct snp_tx *tx,
                           uint64_t checkpoint,
                           struct snp_buf *buf,
                           struct snp_err *err) SNP_NODISCARD;

/* Effects, events ----------------------------------------------------------------------- */

int snp_journal_effect_add(struct snp_tx *tx,
                           const struct snp_journal_effect *row,
                           struct snp_err *err) SNP_NODISCARD;
/* Remove the last effect of that session, kind and detail: it did not happen. */
int snp_journal_effect_drop(struct snp_tx *tx,
                            const struct snp_journal_effect *row,
                            struct snp_err *err) SNP_NODISCARD;
int snp_journal_effect_each(struct snp_tx *tx,
                            const char *session,
                            snp_journal_effect_fn each,
                            void *arg,
                            struct snp_err *err) SNP_NODISCARD;
/* The session's last effect up to this cell; 0 = none. */
int snp_journal_effect_last(struct snp_tx *tx,
                            const char *session,
                            uint64_t cell,
                            uint64_t *ret,
                            struct snp_err *err) SNP_NODISCARD;

/* The job may use a full disk's reserve, as jobs that remove something may. */
void snp_journal_use_reserve(struct snp_tx *tx);

int snp_journal_event_add(struct snp_tx *tx,
                          const struct snp_journal_event *row,
                          struct snp_err *err) SNP_NODISCARD;
/* Newest first, at most limit. */
int snp_journal_event_each(struct snp_tx *tx,
                           size_t limit,
                           snp_journal_event_fn each,
                           void *arg,
                           struct snp_err *err) SNP_NODISCARD;
/* The number of unsealed content files: those from before the store got its key. */
int snp_journal_unsealed(struct snp_tx *tx, uint64_t *ret, struct snp_err *err) SNP_NODISCARD;

#endif
