/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_ROWS_H
#define SNP_STORE_ROWS_H

/*
 * The rows of the journal. A missing optional text is NULL. Times are microseconds since 1970.
 * Sessions and snapshots are named by their id (32 hex digits); checkpoints and events by a number
 * that is never reused.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/job.h"

enum {
    SNP_JOURNAL_LIST_MAX = 1000,      /* rows of one page */
    SNP_JOURNAL_LINE_MAX = 200,       /* bytes of the first line of a cell */
    SNP_JOURNAL_SEEN_MAX = 64 << 10,  /* bytes kept of the end of each stream while a cell runs */
    SNP_JOURNAL_KNOWN_MAX = 1 << 20,  /* bytes of a list of keys */
    SNP_JOURNAL_PART_MAX = 256 << 20, /* bytes of one part of a cell */
    SNP_JOURNAL_EVENTS_MAX = 10000,   /* events kept; the oldest are removed */
};

/* Sessions ------------------------------------------------------------------------------ */

struct snp_journal_session {
    const char *id;
    const char *name;  /* NULL = none */
    const char *spec;  /* JSON: policy, limits, tier, ...; defined by the daemon */
    const char *state; /* defined by the daemon: idle, hibernated, unknown, ... */
    uint64_t epoch;
    uint64_t cells; /* number of the last cell */
    uint64_t created_us;
    uint64_t used_us;
    const char *head_snapshot; /* id of the snapshot it is based on, or NULL */
    /* The rest is computed; ignored by put. */
    uint64_t disk_bytes; /* disk space of its rows and blobs */
    uint64_t checkpoint; /* the latest usable one; 0 = none */
    uint64_t checkpoint_cell;
    uint64_t checkpoint_bytes; /* of contents */
    bool has_image;            /* the checkpoint has one */
    const char *lost;          /* JSON array of the checkpoint's losses, or NULL */
};

typedef int (*snp_journal_session_fn)(const struct snp_journal_session *row,
                                      void *arg,
                                      struct snp_err *err);

/* Cells --------------------------------------------------------------------------------- */

/* Parts of a cell that may be large. */
enum snp_journal_part {
    SNP_PART_CODE = 0,
    SNP_PART_STDIN,
    SNP_PART_RESULT,      /* JSON */
    SNP_PART_RAW,         /* bytes sent with the result */
    SNP_PART_SEEN_STDOUT, /* of a running or unknown cell */
    SNP_PART_SEEN_STDERR,
    SNP_PART_DISPLAYS, /* number of displays in the raw bytes, in digits; missing = none */
    SNP_PART_ENDED,    /* of a process: its exit code, or the name of a signal */
    SNP_PART_N,
};

struct snp_bytes {
    const void *data; /* borrowed */
    size_t n;
};

struct snp_journal_cell {
    const char *session;
    uint64_t cell; /* number in its session, from 1; assigned by the daemon */
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
    uint64_t displays; /* number in its raw bytes, while those exist */
    const char *ended; /* of a process that has: its exit code, or the name of a signal */
    bool has_result;   /* false if gc removed its result */
    bool is_dropped;   /* gc removed its result or output */
};

struct snp_journal_outcome {
    const char *status;
    const char *state;
    uint64_t wall_us;
    struct snp_bytes result; /* JSON */
    struct snp_bytes raw;
    uint64_t displays; /* number in raw */
};

typedef int (*snp_journal_cell_fn)(const struct snp_journal_cell *row,
                                   void *arg,
                                   struct snp_err *err);

/* A range of cells: of a session, numbers below `before` (0 = all), at most limit of them. */
struct snp_journal_page {
    const char *session;
    uint64_t before;
    size_t limit; /* at most SNP_JOURNAL_LIST_MAX */
};
/* Snapshots ----------------------------------------------------------------------------- */

struct snp_journal_snapshot {
    const char *id;
    const char *name; /* unique in its session, or NULL */
    const char *session;
    const char *session_name; /* ignored by add */
    const char *parent;       /* snapshot id, or NULL */
    uint64_t cell;
    uint64_t epoch;
    uint64_t created_us;
    uint64_t checkpoint; /* its copy on disk; 0 = none (yet) */
    bool is_usable;      /* that copy is intact; ignored by add */
    uint64_t bytes;      /* of that copy; ignored by add */
    const char *lost;    /* JSON array of the copy's losses; ignored by add */
};

typedef int (*snp_journal_snapshot_fn)(const struct snp_journal_snapshot *row,
                                       void *arg,
                                       struct snp_err *err);

/* Checkpoints --------------------------------------------------------------------------- */

struct snp_journal_checkpoint {
    uint64_t id;
    const char *session;
    uint64_t cell; /* the state after this cell; 0 = before any */
    uint64_t epoch;
    uint64_t items;
    uint64_t bytes;   /* of contents */
    bool is_usable;   /* false: a blob it needs is damaged or gone */
    const char *lost; /* JSON array of {name, type, reason} */
    uint64_t effect;  /* the session's last effect before the checkpoint; 0 = none */
};

enum snp_item_kind {
    SNP_ITEM_VARS = 0,
    SNP_ITEM_FILE,
    SNP_ITEM_DIR,
    SNP_ITEM_LINK,
    SNP_ITEM_WHITEOUT,
    SNP_ITEM_LOST,
    SNP_ITEM_IMAGE, /* of the interpreter's memory; in addition to `vars`, never instead */
    SNP_ITEM_N,
};

struct snp_journal_item {
    enum snp_item_kind kind;
    struct snp_bytes name; /* UTF-8 without NUL, paths as in docs/wire.md; NUL-terminated */
    const char *key;
    uint64_t size;
    const char *meta; /* JSON text from the sandbox: a claim, its form checked */
    const char *hash; /* of its blob; NULL = no content */
    bool is_damaged;  /* that blob is damaged or gone */
};

typedef int (*snp_journal_item_fn)(const struct snp_journal_item *row,
                                   void *arg,
                                   struct snp_err *err);

/* Effects, events ----------------------------------------------------------------------- */

struct snp_journal_effect {
    uint64_t id; /* ignored by add */
    const char *session;
    uint64_t cell;
    const char *kind;   /* an effect outside the sandbox */
    const char *detail; /* JSON */
    uint64_t at_us;
};
typedef int (*snp_journal_effect_fn)(const struct snp_journal_effect *row,
                                     void *arg,
                                     struct snp_err *err);
/* Actions of recovery, gc and repair: for `doctor`. */
struct snp_journal_event {
    uint64_t at_us;
    const char *kind; /* a word: salvage, damaged_blob, unusable_checkpoint, unknown_cells, ... */
    const char *session; /* id, or NULL; that session may be gone */
    const char *text;    /* one line: the problem, the action, the remedy */
    bool is_solved;      /* only read: its file was removed, or its session destroyed */
};
typedef int (*snp_journal_event_fn)(const struct snp_journal_event *row,
                                    void *arg,
                                    struct snp_err *err);

#endif
