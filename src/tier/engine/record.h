/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_RECORD_H
#define SNP_TIER_ENGINE_RECORD_H

/* What parts of the engine remember of a sandbox: one struct each, which its part alone changes. */

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
    SNP_GUARANTEE_DROPPED, /* for the memory */
    SNP_GUARANTEE_STANDBY,
};

enum snp_guarantee_workspace {
    SNP_GUARANTEE_FILES_OFF = 0,
    SNP_GUARANTEE_FILES_UNAVAILABLE,
    SNP_GUARANTEE_FILES_COPIED,
};

/* What a cell is protected by. */
struct snp_guarantee {
    enum snp_guarantee_interpreter interpreter;
    enum snp_guarantee_workspace workspace;
    json_t *notes; /* owned array of texts: what is not undone; NULL = none */
};

struct snp_tier_snapshot {
    uint32_t number;
    pid_t pid; /* as pid 1 numbers it; -1 = none, only files are kept */
    bool is_permanent;
    bool has_files;
    uint32_t others;  /* processes that ran when it was made, besides ours */
    unsigned n_users; /* saves that read it; it stays till they are done */
};

/* One under way: three answers to wait for. */
struct snp_snapshot_making {
    bool is_on;
    bool is_delayed; /* until the one before is gone, because memory is short */
    bool is_for_memory;
    bool is_stale;         /* files came from outside meanwhile */
    bool is_spent;         /* it is of before what has been run or loaded meanwhile */
    bool init_done;        /* pid 1 has heard of the copy, or will not */
    bool interpreter_done; /* the interpreter has answered */
    bool files_done;       /* the files are copied, or cannot be */
    bool interpreter_ok;
    /* the interpreter has said that it cannot be copied: it has threads and the like */
    bool is_refused;
    bool files_ok;
    int files_errno;
    uint8_t files_flags;
    uint32_t number;
    pid_t pid;
    uint32_t others; /* processes besides it, the interpreter and snapshots */
    char why[208];
    json_t *written; /* owned; names of files open for writing, as the interpreter says */
};

/* Runs once: no copy is being made any more. */
typedef void (*snp_snapshot_cb)(void *data);

struct snp_tier_snapshots {
    /* the permanent, the pristine copy, two in passing */
    struct snp_tier_snapshot at[SNP_SNAPSHOTS_MAX + 3];
    size_t n;
    uint32_t last;        /* the number given last */
    bool is_current;      /* standby and guarantee are as the last cell or put left things */
    bool is_fresh;        /* ... and of this moment: who waited for it is told */
    bool has_pristine;    /* it has said that it is there */
    bool is_past;         /* a cell has run since the standby was made */
    bool is_hurried;      /* somebody waited for the last one: make the next at once */
    bool has_standby;     /* its interpreter, or its files alone, can be gone back to */
    uint32_t standby;     /* 0 = the pristine copy */
    uint32_t leaving;     /* it stood by, and ends soon; 0 = none */
    bool is_short;        /* one was given up because memory is short */
    uint64_t has_reserve; /* bytes above the limit, until it is gone */
    unsigned n_pauses;    /* requests during which no cell begins */
    unsigned n_dying;     /* dropped and not reaped yet */
    unsigned n_allowed;   /* processes allowed besides those of the limit */
    struct snp_guarantee guarantee;
    struct snp_snapshot_making making;
    struct {
        snp_snapshot_cb cb; /* NULL = free */
        void *data;
    } waits[SNP_SNAPSHOT_WAITS_MAX];
    uv_timer_t *timer; /* owned; bounds a making, or watches the memory of a cell */
};

/* snapshot/puts.h ------------------------------------------------------------------------- */

struct snp_puts {
    struct snp_buf *frame; /* owned, n of them: what pid 1 was asked, in its order */
    size_t n;
    size_t bytes;
    size_t at; /* the next to be put again */
};
typedef void (*snp_puts_cb)(struct snp_sandbox *s);

/* snapshot/rollback.h ---------------------------------------------------------------------- */

/*
 * ok: interpreter and files are those of the snapshot. Otherwise nothing of the session's
 * code runs, and its next interpreter comes from the pristine copy.
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

/* What one `rollback` or `snapshot` waits for. */
struct snp_rollback {
    uint32_t id; /* of the request; 0 = none */
    uint32_t number;
    uint64_t epoch;
    uint64_t start_us;
};

/* Runs when a sweep has ended, with 0 or an errno. */
typedef void (*snp_swept_cb)(struct snp_sandbox *s, int eno);

/* snapshot/state.h --------------------------------------------------------------------------- */

/* Saves and loads that are under way. */
struct snp_state {
    struct snp_saving *saving;   /* owned; NULL = none is under way */
    struct snp_loading *loading; /* likewise */
    struct snp_cloning *cloning; /* likewise: it is to become another */
    struct snp_cloning *copied;  /* who become it, in order; the first does; borrowed */
    void (*copied_next)(struct snp_sandbox *s); /* the first of them begins, if it may */
    bool has_run;                               /* a cell, or a load: too late for another load */
};

#endif
