/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SESSION_H
#define SNP_DAEMON_SESSION_H

/*
 * Sessions: what the daemon knows of each. A session is reference counted, because answers of the
 * tier may be on their way when it ends. Only types: what is done with them is in table.h
 * and life.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/process.h"
#include "daemon/caps.h"
#include "policy/limits.h"
#include "policy/session_name.h"

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

/* life.c says how one follows another. */
enum snp_session_state {
    SNP_SESSION_OPENING = 0, /* unnamed: its executor has been asked for */
    SNP_SESSION_IDLE,
    SNP_SESSION_RUNNING,     /* a cell, until its outcome is on disk */
    SNP_SESSION_SAVING,      /* a checkpoint is being made; cells wait */
    SNP_SESSION_HIBERNATING, /* its executor is being closed, what is to stay has been saved */
    SNP_SESSION_ASLEEP,      /* no executor */
    SNP_SESSION_WAKING,      /* the next executor has been asked for, or is being filled */
    SNP_SESSION_REPLAYING,   /* the same, and a missing cell runs again */
    SNP_SESSION_ROLLING_BACK,
    SNP_SESSION_CLOSING, /* no longer found; the tier is clearing up */
    SNP_SESSION_N,
};

/* When a session is saved by itself. */
enum snp_checkpoint_when {
    SNP_CHECKPOINT_IDLE = 0, /* a while after the last cell */
    SNP_CHECKPOINT_CELL,     /* before each answer */
    SNP_CHECKPOINT_OFF,
    SNP_CHECKPOINT_AFTER, /* from each answer on, beside what comes next */
};

/* Somebody who needs the session to have an executor. Embedded in its owner. */
struct snp_waiter {
    struct snp_waiter *next;
    /* Called once. err: NULL = session->live.executor is there. */
    void (*run)(struct snp_waiter *waiter, struct snp_session *session, const struct snp_err *err);
};

/* What of a session's policy another place changes: a tier, and what it is told. */
struct snp_place {
    struct snp_found_tier *tier; /* tiers.c's */
    bool is_auto;                /* nobody asked for this one */
    char *instead_of;            /* why it is not in a stronger one; owned, NULL = it need not be */
    char *rootfs;                /* owned, or NULL */
    bool has_network;            /* as the user has asked; few tiers give one */
    bool allow_degraded;
    json_t *manifest; /* owned: of the latest executor; NULL until it was open once */
    const struct snp_limits *limits; /* borrowed, for a trial; NULL = the session's */
};

/* What it was opened with, and stays so. Written by cell/open.c and session/spec.c. */
struct snp_session_policy {
    struct snp_found_tier *tier; /* tiers.c's */
    bool is_auto;                /* nobody asked for this one */
    char *instead_of;            /* why it is not in a stronger one; owned, NULL = it need not be */
    char template_name[32];
    char *project; /* owned, or NULL */
    char *rootfs;  /* owned, or NULL */
    json_t *env;   /* owned, an object */
    struct snp_limits limits;
    json_t *guarantees; /* owned: that its tier must give, as the latest cell says; or NULL */
    bool has_network;   /* as the user has asked; few tiers give one */
    bool allow_degraded;
    bool require_exact;
    bool transaction;                 /* its tier makes copies to go back to */
    char owner[SNP_PROCESS_MARK_MAX]; /* it ends with this process; "" = it lasts */
    json_t *manifest; /* owned: of the latest executor; NULL until it was open once */
};

/* What the journal has of it, and so outlives executors. Written by save/. */
struct snp_session_durable {
    bool is_recorded;          /* the journal has its row */
    bool is_suspect;           /* the journal failed it: an intent is waited for */
    struct snp_entry *debt;    /* cells that ran and are not in the journal; entry.c's; or NULL */
    uint64_t state_format;     /* of its checkpoints, as recorded; 0 = this program's */
    uint64_t checkpoint;       /* the latest usable one; 0 = none */
    uint64_t checkpoint_cell;  /* it holds the state after this cell */
    uint64_t checkpoint_bytes; /* of its contents; 0 = not known */
    json_t *checkpoint_lost;   /* owned: what variables could not hold; or NULL */
    bool has_image;            /* it is known to hold that all the same */
    uint64_t proven;           /* the checkpoint that was restored once; 0 = none */
    json_t *unrestorable;      /* owned: what of that could not be; or NULL */
    uint64_t accepted_cell;    /* the loss of cells up to this one was accepted */
    uint64_t accepted_from;    /* ... beside a checkpoint of after this one: not beside an older */
    bool is_last_unknown;      /* how its last cell ended is not known */
    bool has_puts;   /* files were put, or it was rolled back, and no checkpoint may have that */
    json_t *missing; /* owned: what it lacks (missing.h); NULL = it is awake, or not known yet */
    uint64_t disk_bytes; /* as the journal said last */
};

/*
 * What no checkpoint has yet, and when one is made. Written by save/; end_changes and end_tries by
 * front/end.c.
 */
struct snp_session_unsaved {
    enum snp_checkpoint_when when;
    bool is_dirty;           /* it holds what no checkpoint holds */
    bool is_unsynced;        /* durability `process` of its latest cell; applies to files, too */
    bool is_short;           /* there was no memory for a copy that is saved beside a cell */
    uint64_t dirty_us;       /* monotonic: since when it is dirty */
    uint64_t due_us;         /* monotonic: when to save it; 0 = not planned */
    uint64_t unsavable_us;   /* it does not hibernate by itself before: something cannot be saved */
    uint64_t changes;        /* how often something changed in it */
    uint64_t begun_changes;  /* of these: before its running cell */
    uint64_t saved_changes;  /* of these: the latest checkpoint has them */
    uint64_t end_changes;    /* of these: when it was saved for the end of the daemon */
    unsigned end_tries;      /* to save it as it was then */
    uint64_t end_retry_us;   /* monotonic: not before; of one that waits for room on the disk */
    struct snp_err failed;   /* why the latest save failed; unsaved.c sets it */
    uint64_t retry_ms;       /* the latest delay before a retry */
    bool is_tiers;           /* that save failed in the tier, not in the journal */
    unsigned n_putting;      /* files on their way into it: nothing is taken of it meanwhile */
    bool has_begun_putting;  /* a file was on its way in when its running cell began */
    struct snp_save *save;   /* owned by checkpoint.c; NULL = none is being made */
    struct snp_proof *proof; /* owned by prove.c; NULL = it is not being proven */
    struct snp_hibernation *hibernation; /* owned by hibernate.c; NULL = none is under way */
    unsigned n_departing; /* requests to hibernate or move it that have their turn: what else
                             needs the session waits for their end */
};

/*
 * Its executor, and who runs or waits: executor.c's, exec.c's, turn.c's, wake.c's and cell.c's. The
 * copies and what they take are save/memory.c's.
 */
struct snp_session_live {
    struct snp_executor *executor;             /* one reference; NULL = there is none */
    struct snp_wake *wake;                     /* owned by wake.c; NULL = it is not waking */
    struct snp_exec *running;                  /* borrowed; or NULL */
    struct snp_exec *waiting[SNP_CAP_WAITING]; /* in order, n_waiting of them; borrowed */
    unsigned n_waiting;
    struct snp_waiter *waiters;     /* who needs an executor, in order; borrowed */
    struct snp_turn *turns;         /* who needs it for himself, in order; borrowed */
    struct snp_memory_copy *copies; /* snapshots in memory, the newest first; owned */
    uint64_t memory_bytes;          /* what its last cell used at most */
    uint64_t measured_bytes; /* what it takes as last measured; 0 = not since its last cell */
    uint64_t copies_bytes;   /* of that its snapshots in memory have for themselves */
    uint64_t wants_room;     /* its number among those that wait for room; 0 = it does not */
    bool is_measuring;
    bool is_leaving;   /* it is on its way to hibernate */
    bool is_told_lost; /* its last result said that the interpreter was lost */
    struct {
        char session[SNP_SESSION_ID_LEN + 1]; /* that it is a fork of, while it wakes; "" = none */
        uint64_t epoch;
        uint64_t cell; /* after which it forked off */
        bool is_image; /* it went on exactly as that was */
        char why[200]; /* else: why not; "" = nobody tried */
    } fork_of;
    json_t *restored; /* owned: for the next result; or NULL */
    char loss[200];   /* why its last executor ended by itself */
};

struct snp_session {
    struct snp_server *server;   /* borrowed */
    uint32_t slot;               /* in the table; while it is there */
    struct snp_session *same_id; /* next of the table's chains; borrowed */
    struct snp_session *same_name;
    unsigned refs; /* the table's, one per cell, one per executor that is not gone */
    enum snp_session_state state;
    char id[SNP_SESSION_ID_LEN + 1];
    char name[SNP_SESSION_NAME_MAX + 1]; /* "" = unnamed: ends with its call */
    uint64_t epoch;                      /* of the executor, or of the one before; from 1 */
    uint64_t cells;                      /* started so far */
    uint64_t created_wall_us;            /* since 1970 */
    uint64_t used_us;                    /* monotonic: last began or ended to be used */
    uint64_t used_wall_us;               /* since 1970: its last cell began */
    pid_t client;                        /* client of its last cell; 0 = none yet */
    struct snp_session_policy policy;
    struct snp_session_durable durable;
    struct snp_session_unsaved unsaved;
    struct snp_session_live live;
};

/* What finding, adding and removing cost does not depend on how many there are. */
struct snp_sessions {
    struct snp_session *slots[SNP_CAP_SESSIONS]; /* NULL = free; holds one reference each */
    uint32_t free_slots[SNP_CAP_SESSIONS];       /* below n_slots; n_free of them */
    uint32_t n_slots;                            /* slots ever used: what is beyond is free */
    uint32_t n_free;
    struct snp_session *by_id[SNP_CAP_SESSIONS]; /* chains by hash */
    struct snp_session *by_name[SNP_CAP_SESSIONS];
};

#endif
