/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_JOURNAL_H
#define SNP_STORE_JOURNAL_H

/*
 * The rows of the journal and what can be done with them. Every function here belongs into a
 * job (store.h) and works on its transaction.
 *
 * Texts and bytes given are copied. Those of a row that is handed to a callback are
 * borrowed until it returns; a row that is asked for by snp_journal_*_get lives as
 * long as the job. A text that may be missing is NULL. Times are microseconds since 1970.
 * Sessions are named by their id (32 hex digits), snapshots too; checkpoints and events
 * by a number that is never used twice.
 *
 * All fail with SNP_E_SYS or SNP_E_LIMIT (disk full) when the database does; the message names the file.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/store.h"

enum {
    SNP_JOURNAL_LIST_MAX = 1000,     /* rows of one page */
    SNP_JOURNAL_SEEN_MAX = 64 << 10, /* bytes kept of each stream while a cell runs: the last */
    SNP_JOURNAL_KNOWN_MAX = 1 << 20, /* bytes of a list of keys */
    SNP_JOURNAL_PART_MAX = 256 << 20, /* bytes of one part of a cell */
    SNP_JOURNAL_EVENTS_MAX = 10000,   /* events kept; the oldest go */
};

/* Sessions ------------------------------------------------------------------------------ */

struct snp_journal_session {
    const char *id;
    const char *name;  /* NULL = has none */
    const char *spec;  /* JSON: policy, limits, tier, ...: the daemon's affair */
    const char *state; /* a word of the daemon's: idle, hibernated, unknown, ... */
    uint64_t epoch;
    uint64_t cells; /* number of the last cell */
    uint64_t created_us;
    uint64_t used_us;
    const char *head_snapshot; /* id of the snapshot it stands on, or NULL */
    /* What follows is computed; ignored by put. */
    uint64_t disk_bytes; /* what its rows and blobs have added to the disk */
    uint64_t checkpoint; /* the latest usable one; 0 = none */
    uint64_t checkpoint_cell;
    uint64_t snapshots; /* how many */
};

typedef int (*snp_journal_session_fn)(const struct snp_journal_session *row,
                                      void *arg,
                                      struct snp_err *err);

/* Insert. SNP_E_INVALID: id or name is taken. */
int snp_journal_session_add(struct snp_tx *tx,
                            const struct snp_journal_session *row,
                            struct snp_err *err) SNP_NODISCARD;
/* Write all columns but id and created_us. SNP_E_NOT_FOUND, SNP_E_INVALID: the name is taken. */
int snp_journal_session_put(struct snp_tx *tx,
                            const struct snp_journal_session *row,
                            struct snp_err *err) SNP_NODISCARD;
/* Only state and used_us. SNP_E_NOT_FOUND. */
int snp_journal_session_touch(struct snp_tx *tx,
                              const char *id,
                              const char *state,
                              uint64_t used_us,
                              struct snp_err *err) SNP_NODISCARD;
/* Set a new epoch. SNP_E_DENIED if it is not larger than the one that is there; SNP_E_NOT_FOUND. */
int snp_journal_session_epoch(struct snp_tx *tx,
                              const char *id,
                              uint64_t epoch,
                              struct snp_err *err) SNP_NODISCARD;
/* By id, else by name. SNP_E_NOT_FOUND. */
int snp_journal_session_get(struct snp_tx *tx,
                            const char *ref,
                            struct snp_journal_session *ret,
                            struct snp_err *err) SNP_NODISCARD;
/* All, the last used first. */
int snp_journal_session_each(struct snp_tx *tx,
                             snp_journal_session_fn each,
                             void *arg,
                             struct snp_err *err) SNP_NODISCARD;
/* Its cells, snapshots, checkpoints and effects go; name, spec and created stay, cells is 0. */
int snp_journal_session_clear(struct snp_tx *tx,
                              const char *id,
                              uint64_t epoch,
                              struct snp_err *err) SNP_NODISCARD;
/* With all that belongs to it. SNP_E_NOT_FOUND. */
int snp_journal_session_remove(struct snp_tx *tx,
                               const char *id,
                               struct snp_err *err) SNP_NODISCARD;

/* Cells --------------------------------------------------------------------------------- */

/* What belongs to a cell and may be large. */
enum snp_journal_part {
    SNP_PART_CODE = 0,
    SNP_PART_STDIN,
    SNP_PART_RESULT,      /* JSON */
    SNP_PART_RAW,         /* bytes that go with the result */
    SNP_PART_SEEN_STDOUT, /* of a running or unknown cell */
    SNP_PART_SEEN_STDERR,
    SNP_PART_N,
};

struct snp_bytes {
    const void *data; /* borrowed */
    size_t n;
};

struct snp_journal_cell {
    const char *session;
    uint64_t cell; /* number in its session, from 1; given by the daemon */
    uint64_t epoch;
    const char *kind;   /* python, command */
    const char *argv;   /* JSON array, or NULL */
    const char *spec;   /* JSON: limits and options of the call, or NULL */
    const char *status; /* "running" until its outcome is written; "unknown" after a recovery */
    const char *state;  /* kept, rolled_back, ...; NULL while it runs */
    uint64_t started_us;
    uint64_t wall_us;
    const char *first_line; /* of the code, at most 200 bytes of UTF-8; made by cell_begin */
    uint64_t stdin_bytes;
    bool has_result; /* its result is still there (gc may have taken it) */
    bool is_dropped; /* gc has taken result or output */
};

struct snp_journal_outcome {
    const char *status;
    const char *state;
    uint64_t wall_us;
    struct snp_bytes result; /* JSON */
    struct snp_bytes raw;
};

typedef int (*snp_journal_cell_fn)(const struct snp_journal_cell *row,
                                   void *arg,
                                   struct snp_err *err);

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
/* The outcome. SNP_E_NOT_FOUND; SNP_E_DENIED: it has one, or epoch is not the cell's. */
int snp_journal_cell_end(struct snp_tx *tx,
                         const char *session,
                         uint64_t cell,
                         uint64_t epoch,
                         const struct snp_journal_outcome *outcome,
                         struct snp_err *err) SNP_NODISCARD;
/* What a running cell has printed last: replaces what was kept before; at most SNP_JOURNAL_SEEN_MAX. */
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
 * Append a part to buf. SNP_E_NOT_FOUND: the cell has no such part, gc has taken it, or
 * its blob is damaged; the message says which. SNP_E_LIMIT: buf is too small.
 */
int snp_journal_cell_part(struct snp_tx *tx,
                          const char *session,
                          uint64_t cell,
                          enum snp_journal_part part,
                          struct snp_buf *buf,
                          struct snp_err *err) SNP_NODISCARD;
/* Which cells: of a session, numbers below `before` (0 = all), at most limit of them. */
struct snp_journal_page {
    const char *session;
    uint64_t before;
    size_t limit; /* at most SNP_JOURNAL_LIST_MAX */
};
/* The newest first. SNP_E_NOT_FOUND: no such session. */
int snp_journal_cell_each(struct snp_tx *tx,
                          const struct snp_journal_page *page,
                          snp_journal_cell_fn each,
                          void *arg,
                          struct snp_err *err) SNP_NODISCARD;
/* The oldest first: numbers above `after`, all of them: for replay and `missing`. */
int snp_journal_cell_after(struct snp_tx *tx,
                           const char *session,
                           uint64_t after,
                           snp_journal_cell_fn each,
                           void *arg,
                           struct snp_err *err) SNP_NODISCARD;
/*
 * The session has gone back to its state after a cell: those after it that have ended get the
 * state "undone". Their numbers stay taken.
 */
int snp_journal_cell_undo(struct snp_tx *tx,
                          const char *session,
                          uint64_t after,
                          struct snp_err *err) SNP_NODISCARD;
/* The same of those alone that repeat another cell: what they did went with their executor. */
int snp_journal_cell_undo_replays(struct snp_tx *tx,
                                  const char *session,
                                  uint64_t after,
                                  struct snp_err *err) SNP_NODISCARD;
/*
 * When records of sessions were lost with a damaged database: names then may have been in use. 0:
 * never, or what was set aside of it is gone.
 */
int snp_journal_sessions_lost(struct snp_tx *tx,
                              uint64_t *ret_us,
                              struct snp_err *err) SNP_NODISCARD;

/*
 * At start: each cell that reads "running" becomes "unknown", an event says so, each()
 * is told (may be NULL). *ret_n: how many.
 */
int snp_journal_cell_recover(struct snp_tx *tx,
                             snp_journal_cell_fn each,
                             void *arg,
                             uint64_t *ret_n,
                             struct snp_err *err) SNP_NODISCARD;

/* Snapshots ----------------------------------------------------------------------------- */

struct snp_journal_snapshot {
    const char *id;
    const char *name; /* unique in its session, or NULL */
    const char *session;
    const char *session_name; /* not for add */
    const char *parent;       /* snapshot id, or NULL */
    uint64_t cell;
    uint64_t epoch;
    uint64_t created_us;
    uint64_t checkpoint; /* its copy on disk; 0 = none (yet) */
    bool is_usable;      /* that copy is whole; not for add */
    uint64_t bytes;      /* that copy holds; not for add */
    const char *lost;    /* JSON array of what the copy could not hold; not for add */
};

typedef int (*snp_journal_snapshot_fn)(const struct snp_journal_snapshot *row,
                                       void *arg,
                                       struct snp_err *err);

/* SNP_E_INVALID: the name is taken in this session; SNP_E_NOT_FOUND: no such session. */
int snp_journal_snapshot_add(struct snp_tx *tx,
                             const struct snp_journal_snapshot *row,
                             struct snp_err *err) SNP_NODISCARD;
/*
 * By id, by SESSION@NAME, or by a name that only one snapshot has. SNP_E_NOT_FOUND;
 * SNP_E_INVALID: several have the name; the message says how to name one.
 */
int snp_journal_snapshot_get(struct snp_tx *tx,
                             const char *ref,
                             struct snp_journal_snapshot *ret,
                             struct snp_err *err) SNP_NODISCARD;
/* The oldest first. session: id, or NULL = of all. */
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
/* Its children get its parent. Its checkpoint goes when nothing else needs it. SNP_E_NOT_FOUND. */
int snp_journal_snapshot_remove(struct snp_tx *tx,
                                const char *id,
                                struct snp_err *err) SNP_NODISCARD;

/* Checkpoints --------------------------------------------------------------------------- */

struct snp_journal_checkpoint {
    uint64_t id;
    const char *session;
    uint64_t cell; /* it holds the state after this cell; 0 = before any */
    uint64_t epoch;
    uint64_t created_us;
    uint64_t items;
    uint64_t same_items;    /* taken over from the one before */
    uint64_t bytes;         /* of contents */
    uint64_t written_bytes; /* that were new on disk */
    bool is_usable;         /* false: a blob it needs is damaged or gone */
    bool is_pinned;         /* a snapshot needs it */
    const char *lost;       /* JSON array of {name, type, reason} */
    uint64_t effect; /* the last of the session that was noted before its moment; 0 = none */
};

enum snp_item_kind {
    SNP_ITEM_VARS = 0,
    SNP_ITEM_FILE,
    SNP_ITEM_DIR,
    SNP_ITEM_LINK,
    SNP_ITEM_WHITEOUT,
    SNP_ITEM_LOST,
    SNP_ITEM_N,
};

struct snp_journal_item {
    enum snp_item_kind kind;
    struct snp_bytes name; /* UTF-8 without NUL, as docs/wire.md writes paths; ended by one */
    const char *key;
    uint64_t size;
    const char *meta; /* JSON text as the sandbox wrote it: claimed, its form checked */
    const char *hash; /* of its blob; NULL = has no content */
    bool is_damaged;  /* that blob is damaged or gone */
};

typedef int (*snp_journal_item_fn)(const struct snp_journal_item *row,
                                   void *arg,
                                   struct snp_err *err);

/* SNP_E_NOT_FOUND. */
int snp_journal_checkpoint_get(struct snp_tx *tx,
                               uint64_t id,
                               struct snp_journal_checkpoint *ret,
                               struct snp_err *err) SNP_NODISCARD;
/*
 * The same contents as a checkpoint of another session (fork, import) or of a later epoch (rollback):
 * costs rows, no blobs. Of `to`, session, cell and epoch are read; the session's effects so far
 * are before it. SNP_E_NOT_FOUND: no such checkpoint or session;
 * SNP_E_DENIED: it is not usable.
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
 * Keys whose contents a checkpoint holds, one per line, as `save` wants them (of damaged
 * ones none). Beyond SNP_JOURNAL_KNOWN_MAX the largest contents' keys are given.
 * checkpoint 0: nothing.
 */
int snp_journal_known_keys(struct snp_tx *tx,
                           uint64_t checkpoint,
                           struct snp_buf *buf,
                           struct snp_err *err) SNP_NODISCARD;

/* Files, effects, events ---------------------------------------------------------------- */

/* A file that a cell has changed. change: created, modified, deleted. */
int snp_journal_file_add(struct snp_tx *tx,
                         const char *session,
                         uint64_t cell,
                         const char *path,
                         const char *change,
                         struct snp_err *err) SNP_NODISCARD;

struct snp_journal_effect {
    uint64_t id; /* not for add */
    const char *session;
    uint64_t cell;
    const char *kind;   /* what reached beyond the sandbox */
    const char *detail; /* JSON */
    uint64_t at_us;
};
typedef int (*snp_journal_effect_fn)(const struct snp_journal_effect *row,
                                     void *arg,
                                     struct snp_err *err);
int snp_journal_effect_add(struct snp_tx *tx,
                           const struct snp_journal_effect *row,
                           struct snp_err *err) SNP_NODISCARD;
int snp_journal_effect_each(struct snp_tx *tx,
                            const char *session,
                            snp_journal_effect_fn each,
                            void *arg,
                            struct snp_err *err) SNP_NODISCARD;
/* The last one of a session that was noted while this cell was its latest, or before; 0 = it has none. */
int snp_journal_effect_last(struct snp_tx *tx,
                            const char *session,
                            uint64_t cell,
                            uint64_t *ret,
                            struct snp_err *err) SNP_NODISCARD;

/* What recovery, gc and repair did: for `doctor`. */
struct snp_journal_event {
    uint64_t id; /* not for add */
    uint64_t at_us;
    const char
        *kind; /* a word: salvage, damaged_blob, unusable_checkpoint, unknown_cells, ... */
    const char *session; /* id, or NULL; that session may be gone */
    const char *text;    /* one line: what happened, what was done, what is to be done */
};
typedef int (*snp_journal_event_fn)(const struct snp_journal_event *row,
                                    void *arg,
                                    struct snp_err *err);
int snp_journal_event_add(struct snp_tx *tx,
                          const struct snp_journal_event *row,
                          struct snp_err *err) SNP_NODISCARD;
/* The newest first, at most limit. */
int snp_journal_event_each(struct snp_tx *tx,
                           size_t limit,
                           snp_journal_event_fn each,
                           void *arg,
                           struct snp_err *err) SNP_NODISCARD;

#endif
