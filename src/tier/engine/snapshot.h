/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_H
#define SNP_TIER_ENGINE_SNAPSHOT_H

/*
 * What a session can go back to, snapshots: sleeping copies of its interpreter, each with a copy
 * of the workspace of the same number (docs/wire.md, HOLD and KEEP). One of them stands by: it
 * is as the session was when its last cell had been answered. Those that somebody asked for stay.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"

struct snp_sandbox;
struct snp_frame;

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
    bool
        is_refused; /* the interpreter has said that it cannot be copied: it has threads and the like */
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
    struct snp_tier_snapshot
        at[SNP_SNAPSHOTS_MAX + 3]; /* the permanent, the pristine copy, two in passing */
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

/* A session begins: the pristine copy and the workspace as it is are the first to go back to. */
void snp_snapshot_begin(struct snp_sandbox *s);

/* Files came from outside: what stands by is not as the session is any more. */
void snp_snapshot_stale(struct snp_sandbox *s);

/*
 * Have one stand by that is as the session is now. True: it does, or none can be had (the
 * guarantee says why). False: cb runs once that is so. No cell may be running.
 */
bool snp_snapshot_prepare(struct snp_sandbox *s, snp_snapshot_cb cb, void *data);

/* A cell was kept: what stood by is of the past. again: have another one. */
void snp_snapshot_spent(struct snp_sandbox *s, bool again);

/* What stands by, number: after a return to it. */
void snp_snapshot_set_standby(struct snp_sandbox *s, uint32_t number);

/* A copy is there: only then a sweep spares it. */
void snp_snapshot_on_came(struct snp_sandbox *s, uint32_t number);

struct snp_tier_snapshot *snp_snapshot_find(struct snp_sandbox *s, uint32_t number);

/* A save reads it, and has done so; meanwhile it is not ended. */
void snp_snapshot_use(struct snp_sandbox *s, uint32_t number);
void snp_snapshot_release(struct snp_sandbox *s, uint32_t number);

/* No cell begins from here on (snp_snapshot_prepare waits), until it is undone. */
void snp_snapshot_pause(struct snp_sandbox *s);
void snp_snapshot_resume(struct snp_sandbox *s);

/* End one that nobody wants any more; not the pristine copy, not what stands by. */
void snp_snapshot_drop(struct snp_sandbox *s, uint32_t number);

/* HELD, from the interpreter; false if nobody waits for it. */
bool snp_snapshot_on_held(struct snp_sandbox *s, const struct snp_frame *f);

/* The interpreter is gone. */
void snp_snapshot_on_lost(struct snp_sandbox *s);

/* One has died by itself. */
void snp_snapshot_on_gone(struct snp_sandbox *s, uint32_t number);

/* A cell begins or ends: while it runs what stands by makes room for memory that is short. */
void snp_snapshot_watch(struct snp_sandbox *s, bool is_running);

/* Callbacks with this data are not to run any more. */
void snp_snapshot_forget(struct snp_sandbox *s, const void *data);

/* Nothing is answered any more: whoever waits is told. */
void snp_snapshot_sandbox_ended(struct snp_sandbox *s);

/* For a session that goes. */
void snp_snapshots_done(struct snp_sandbox *s);

/* Copies, with a new reference of the notes. */
struct snp_guarantee snp_guarantee_copy(const struct snp_guarantee *guarantee);

/* One more, unless it says so already. */
void snp_guarantee_note(struct snp_guarantee *guarantee, const char *text);

/* docs/result.md, `transaction`; new reference. */
json_t *snp_guarantee_json(const struct snp_guarantee *guarantee);

#endif
