/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_H
#define SNP_DAEMON_SESSION_H

/*
 * Sessions: the daemon's record of each. A session is reference counted, because answers of the
 * tier may arrive after its end. Only types: their functions are in table.h and life.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/policy/limits.h"
#include "base/policy/session_name.h"
#include "base/process.h"
#include "daemon/caps.h"

struct snp_exec;
struct snp_executor;
struct snp_found_tier;
struct snp_entry;
struct snp_server;
struct snp_memory_copy;
struct snp_save;
struct snp_session;
struct snp_turn;
struct snp_wake;

/* life.c has the transitions. */
enum snp_session_state {
    SNP_SESSION_OPENING = 0, /* unnamed: its executor was requested */
    SNP_SESSION_IDLE,
    SNP_SESSION_RUNNING,     /* a cell, until its outcome is on disk */
    SNP_SESSION_SAVING,      /* a checkpoint is being made; cells wait */
    SNP_SESSION_HIBERNATING, /* its state was saved; its executor is being closed */
    SNP_SESSION_ASLEEP,      /* no executor */
    SNP_SESSION_WAKING,      /* the next executor was requested, or is being filled */
    SNP_SESSION_REPLAYING,   /* the same, and a missing cell is replayed */
    SNP_SESSION_ROLLING_BACK,
    SNP_SESSION_CLOSING, /* no longer found; the tier is clearing up */
    SNP_SESSION_N,
};

/* When a session is saved automatically. */
enum snp_checkpoint_when {
    SNP_CHECKPOINT_IDLE = 0, /* a while after the last cell */
    SNP_CHECKPOINT_CELL,     /* before each answer */
    SNP_CHECKPOINT_OFF,
    SNP_CHECKPOINT_AFTER, /* after each answer, while the session continues */
};

/* The part of a session's policy that depends on its place: a tier and its settings. */
struct snp_place {
    struct snp_found_tier *tier; /* tiers.c's */
    bool is_auto;                /* chosen automatically */
    char *instead_of;            /* why it is not in a stronger one; owned, or NULL */
    char *rootfs;                /* owned, or NULL */
    bool has_network;            /* the user's setting; few tiers have a network */
    bool allow_degraded;
    json_t *manifest;                /* owned: of the latest executor; NULL before the first */
    const struct snp_limits *limits; /* borrowed, for a trial; NULL = the session's */
};

/* Set when the session was opened, then constant. Written by cell/open.c and session/spec.c. */
struct snp_session_policy {
    struct snp_place place;
    char template_name[32];
    char *project; /* owned, or NULL */
    json_t *env;   /* owned, an object */
    struct snp_limits limits;
    json_t *guarantees; /* owned: required of its tier by the latest cell; or NULL */
    bool require_exact;
    bool transaction;                 /* its tier makes copies for rollback */
    char owner[SNP_PROCESS_MARK_MAX]; /* it ends with this process; "" = it stays */
};

/* The journaled facts of a session, which outlive executors. Written by save/. */
struct snp_session_durable {
    bool is_recorded;       /* the journal has its row */
    bool is_suspect;        /* the journal failed it: cells wait for their intent */
    struct snp_entry *debt; /* cells that are not in the journal; save/journal_entry.c's; or NULL */
    uint64_t state_format;  /* of its checkpoints, as recorded; 0 = this program's */
    uint64_t checkpoint;    /* the latest usable one; 0 = none */
    uint64_t checkpoint_cell;  /* it holds the state after this cell */
    uint64_t checkpoint_bytes; /* of its contents; 0 = not known */
    json_t *checkpoint_lost;   /* owned: values that variables could not hold; or NULL */
    bool has_image;            /* its image is known to hold those */
    uint64_t proven;           /* the checkpoint that a trial restored; 0 = none */
    json_t *unrestorable;      /* owned: the exceptions in that trial; or NULL */
    uint64_t accepted_cell;    /* the loss of cells up to this one was accepted */
    uint64_t accepted_from; /* ... beside a checkpoint after this cell, not beside an older one */
    bool is_last_unknown;   /* the outcome of its last cell is unknown */
    bool has_puts;   /* files were put, or it was rolled back, and perhaps no checkpoint has that */
    json_t *missing; /* owned: the missing parts (missing.h); NULL = awake, or not known yet */
    uint64_t disk_bytes; /* as last read from the journal */
};

/*
 * State that is in no checkpoint, and when to save it. Written by save/; end_changes and end_tries
 * by front/end.c.
 */
struct snp_session_unsaved {
    enum snp_checkpoint_when when;
    bool is_dirty;          /* it has state that is in no checkpoint */
    bool is_unsynced;       /* its latest cell had durability `process`; applies to files, too */
    bool is_short;          /* no memory was left for a copy to save during a cell */
    uint64_t dirty_us;      /* monotonic: dirty since */
    uint64_t due_us;        /* monotonic: when to save it; 0 = not scheduled */
    uint64_t unsavable_us;  /* no automatic hibernation before: something cannot be saved */
    uint64_t changes;       /* number of changes so far */
    uint64_t begun_changes; /* of these: before its running cell */
    uint64_t saved_changes; /* of these: in the latest checkpoint */
    uint64_t end_changes;   /* of these: when it was saved for the daemon's end */
    unsigned end_tries;     /* attempts to save that state */
    uint64_t end_retry_us;  /* monotonic: earliest retry while it waits for disk space */
    struct snp_err failed;  /* why the latest save failed; unsaved.c sets it */
    uint64_t retry_ms;      /* the latest delay before a retry */
    bool is_tiers;          /* that save failed in the tier, not in the journal */
    unsigned n_putting;     /* pending file transfers into it: no state is saved then */
    bool has_begun_putting; /* a file transfer was pending when its running cell began */
    struct snp_save *save;  /* owned by checkpoint.c; NULL = no save is pending */
    bool is_proving;        /* a trial is pending */
    struct snp_hibernation *hibernation; /* owned by hibernate.c; NULL = none is pending */
    unsigned n_departing; /* hibernations and moves that have their turn; other requests wait */
};

/*
 * Its executor, its running cell and its queue: owned by executor.c, exec.c, turn.c, wake.c and
 * cell.c. save/memory.c owns the copies and their sizes.
 */
struct snp_session_live {
    struct snp_executor *executor;  /* one reference; NULL = none */
    struct snp_wake *wake;          /* owned by wake.c; NULL = it is not waking */
    struct snp_exec *running;       /* borrowed; or NULL */
    struct snp_turn *turns;         /* its queue (turn.h); borrowed */
    struct snp_memory_copy *copies; /* snapshots in memory, newest first; owned */
    uint64_t memory_bytes;          /* maximum of its last cell */
    uint64_t measured_bytes;        /* its memory as last measured; 0 = not since its last cell */
    uint64_t copies_bytes;          /* of that, held exclusively by its snapshots in memory */
    uint64_t wants_room;            /* its number among those waiting for room; 0 = not waiting */
    bool is_measuring;
    bool is_leaving;   /* it is about to hibernate */
    bool is_told_lost; /* its last result reported that the interpreter was lost */
    struct {
        char session[SNP_SESSION_ID_LEN + 1]; /* the origin of the fork while it wakes; "" = none */
        uint64_t epoch;
        uint64_t cell; /* the origin's cell at the fork */
        bool is_image; /* the exact state was cloned */
        char why[200]; /* else: why not; "" = not tried */
    } fork_of;
    json_t *restored; /* owned: for the next result; or NULL */
    char loss[200];   /* why its last executor ended unexpectedly */
};

struct snp_session {
    struct snp_server *server;   /* borrowed */
    uint32_t slot;               /* in the table, while it is there */
    struct snp_session *same_id; /* next of the table's chains; borrowed */
    struct snp_session *same_name;
    unsigned refs; /* the table's, one per cell, one per executor that is not gone */
    enum snp_session_state state;
    char id[SNP_SESSION_ID_LEN + 1];
    char name[SNP_SESSION_NAME_MAX + 1]; /* "" = unnamed: ends with its call */
    uint64_t epoch;                      /* of the executor, or of the previous one; from 1 */
    uint64_t cells;                      /* started so far */
    uint64_t created_wall_us;            /* since 1970 */
    uint64_t used_us;                    /* monotonic: last beginning or end of a use */
    uint64_t used_wall_us;               /* since 1970: when its last cell began */
    pid_t client;                        /* client of its last cell; 0 = none yet */
    struct snp_session_policy policy;
    struct snp_session_durable durable;
    struct snp_session_unsaved unsaved;
    struct snp_session_live live;
};

/* Finding, adding and removing take constant time. */
struct snp_sessions {
    struct snp_session *slots[SNP_CAP_SESSIONS]; /* NULL = free; holds one reference each */
    uint32_t free_slots[SNP_CAP_SESSIONS];       /* below n_slots; n_free of them */
    uint32_t n_slots;                            /* slots ever used: those beyond are free */
    uint32_t n_free;
    struct snp_session *by_id[SNP_CAP_SESSIONS]; /* chains by hash */
    struct snp_session *by_name[SNP_CAP_SESSIONS];
};

#endif
