/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_RECORD_H
#define SNP_TIER_ENGINE_RECORD_H

/* State of a sandbox, one struct for each part of the engine; only that part changes it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/json.h"

struct snp_cloning;
struct snp_loading;
struct snp_sandbox;
struct snp_saving;

/* snapshot/snapshot.h, cell/guarantee.h ------------------------------------------------- */

enum {
    SNP_SNAPSHOTS_MAX = 64,
    SNP_SNAPSHOT_WAITS_MAX = 8,
};

enum snp_guarantee_interpreter {
    SNP_GUARANTEE_OFF = 0,
    SNP_GUARANTEE_UNAVAILABLE,
    SNP_GUARANTEE_DROPPED, /* because memory was short */
    SNP_GUARANTEE_STANDBY,
};

enum snp_guarantee_workspace {
    SNP_GUARANTEE_FILES_OFF = 0,
    SNP_GUARANTEE_FILES_UNAVAILABLE,
    SNP_GUARANTEE_FILES_COPIED,
};

/* The protection of a cell. */
struct snp_guarantee {
    enum snp_guarantee_interpreter interpreter;
    enum snp_guarantee_workspace workspace;
    json_t *notes; /* owned array of texts: effects that rollback cannot undo; NULL = none */
};

struct snp_tier_snapshot {
    uint32_t number;
    pid_t pid; /* in pid 1's namespace; -1 = none, only files are kept */
    bool is_permanent;
    bool has_files;
    uint32_t others;  /* processes at its creation, in addition to ours */
    unsigned n_users; /* saves that read it; it is not freed before they end */
};

/* A snapshot being made: three answers are pending. */
struct snp_snapshot_making {
    bool is_on;
    bool is_delayed; /* until the previous one is gone, because memory is short */
    bool is_for_memory;
    bool is_stale;         /* files were put from outside since */
    bool is_spent;         /* code was run or loaded since: it is out of date */
    bool init_done;        /* pid 1 has reported the copy, or never will */
    bool interpreter_done; /* the interpreter has answered */
    bool files_done;       /* the files are copied, or cannot be */
    bool interpreter_ok;
    /* the interpreter cannot be copied (threads and the like) */
    bool is_refused;
    bool files_ok;
    int files_errno;
    uint8_t files_flags;
    uint32_t number;
    pid_t pid;
    uint32_t others; /* processes besides the copy, the interpreter and snapshots */
    char why[208];
    json_t *written; /* owned; names of files open for writing, from the interpreter */
};

/* Runs once, when no copy is being made. */
typedef void (*snp_snapshot_cb)(void *data);

struct snp_tier_snapshots {
    /* permanent and pristine copies, two in transition */
    struct snp_tier_snapshot at[SNP_SNAPSHOTS_MAX + 3];
    size_t n;
    uint32_t last;        /* number given last */
    bool is_current;      /* standby and guarantee match the state after the last cell or put */
    bool is_fresh;        /* ... and are new: waiting requests were answered */
    bool has_pristine;    /* it has reported that it exists */
    bool is_past;         /* a cell has run since the standby was made */
    bool is_hurried;      /* a request waited for the last one: make the next at once */
    bool has_standby;     /* rollback is possible, of the interpreter or of files alone */
    uint32_t standby;     /* 0 = the pristine copy */
    uint32_t leaving;     /* the previous standby, which ends soon; 0 = none */
    bool is_short;        /* one was dropped because memory is short */
    uint64_t has_reserve; /* bytes above the limit, until it is gone */
    unsigned n_pauses;    /* requests that keep cells from starting */
    unsigned n_dying;     /* dropped, not reaped yet */
    unsigned n_allowed;   /* processes allowed above the limit */
    struct snp_guarantee guarantee;
    struct snp_snapshot_making making;
    struct {
        snp_snapshot_cb cb; /* NULL = free */
        void *data;
    } waits[SNP_SNAPSHOT_WAITS_MAX];
    uv_timer_t *timer; /* owned; bounds a making, or checks the memory of a cell */
};

/* snapshot/puts.h ------------------------------------------------------------------------- */

struct snp_puts {
    struct snp_buf *frame; /* owned, n of them: requests to pid 1, in their order */
    size_t n;
    size_t bytes;
    size_t at; /* the next to repeat */
};
typedef void (*snp_puts_cb)(struct snp_sandbox *s);

/* snapshot/rollback.h ---------------------------------------------------------------------- */

/*
 * ok: interpreter and files match the snapshot. Otherwise none of the session's code runs, and its
 * next interpreter comes from the pristine copy.
 */
typedef void (*snp_return_cb)(void *data, bool ok);

struct snp_return {
    bool is_on;
    uint32_t number;
    bool has_files;
    bool has_interpreter; /* the snapshot has one */
    snp_return_cb cb;
    void *data;
};

/* State of a `rollback` or `snapshot` request. */
struct snp_rollback {
    uint32_t id; /* of the request; 0 = none */
    uint32_t number;
    uint64_t epoch;
    uint64_t start_us;
};

/* Runs after a sweep, with 0 or an errno. */
typedef void (*snp_swept_cb)(struct snp_sandbox *s, int eno);

/* snapshot/state.h --------------------------------------------------------------------------- */

/* Saves and loads in progress. */
struct snp_state {
    struct snp_saving *saving;   /* owned; NULL = none in progress */
    struct snp_loading *loading; /* owned; NULL = none in progress */
    struct snp_cloning *cloning; /* owned; this sandbox becomes a clone */
    struct snp_cloning *copied;  /* queue of future clones, the first is next; borrowed */
    void (*copied_next)(struct snp_sandbox *s); /* starts the first of them, if allowed */
    bool has_run;                               /* a cell, or a load: too late for another load */
};

#endif
