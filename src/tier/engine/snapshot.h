/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_H
#define SNP_TIER_ENGINE_SNAPSHOT_H

/*
 * The moments a session can go back to: sleeping copies of its interpreter, each with a copy
 * of the workspace of the same number (docs/wire.md, HOLD and KEEP). One of them stands by: it
 * is as the session was when its last cell had been answered. Snapshots are pinned.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"

struct snp_session;
struct snp_frame;

enum {
    SNP_BRANCHES_MAX = 64,
    SNP_BRANCH_WAITS_MAX = 8,
};

enum snp_cover_interpreter {
    SNP_COVER_OFF = 0,
    SNP_COVER_UNAVAILABLE,
    SNP_COVER_DROPPED, /* for the memory */
    SNP_COVER_STANDBY,
};

enum snp_cover_workspace {
    SNP_COVER_FILES_OFF = 0,
    SNP_COVER_FILES_UNAVAILABLE,
    SNP_COVER_FILES_COPIED,
};

/* What a cell is protected by. */
struct snp_cover {
    enum snp_cover_interpreter interpreter;
    enum snp_cover_workspace workspace;
    json_t *notes; /* owned array of texts: what is not covered; NULL = none */
};

struct snp_branch {
    uint32_t number;
    pid_t pid; /* as pid 1 numbers it; -1 = none, only files are kept */
    bool is_pinned;
    bool has_files;
    uint32_t others;  /* processes that ran when it was made, besides ours */
    unsigned n_users; /* saves that read it; it stays till they are done */
};

/* One under way: three answers to wait for. */
struct snp_branch_making {
    bool is_on;
    bool is_delayed; /* until the one before is gone, because memory is short */
    bool is_for_memory;
    bool is_stale;  /* files came from outside meanwhile */
    bool is_spent;  /* it is of before what has been run or loaded meanwhile */
    bool hold_done; /* pid 1 has heard of the copy, or will not */
    bool held_done; /* the interpreter has answered */
    bool keep_done; /* the files are copied, or cannot be */
    bool held_ok;
    bool
        is_refused; /* the interpreter has said that it cannot be copied: it has threads and the like */
    bool files_ok;
    int keep_errno;
    uint8_t keep_flags;
    uint32_t number;
    pid_t pid;
    uint32_t others; /* processes besides it, the interpreter and branches */
    char why[208];
    json_t *written; /* owned; names of files open for writing, as the interpreter says */
};

/* Runs once: no copy is being made any more. */
typedef void (*snp_branch_cb)(void *data);

struct snp_branches {
    struct snp_branch at[SNP_BRANCHES_MAX + 3]; /* the pinned, the seed, two in passing */
    size_t n;
    uint32_t last;        /* the number given last */
    bool is_current;      /* standby and cover are as the last cell or put left things */
    bool is_fresh;        /* ... and of this moment: who waited for it is told */
    bool has_seed;        /* it has said that it is there */
    bool is_past;         /* a cell has run since the standby was made */
    bool is_hurried;      /* somebody waited for the last one: make the next at once */
    bool has_standby;     /* its interpreter, or its files alone, can be gone back to */
    uint32_t standby;     /* 0 = the seed */
    uint32_t leaving;     /* it stood by, and ends soon; 0 = none */
    bool is_short;        /* one was given up because memory is short */
    uint64_t has_reserve; /* bytes above the limit, until it is gone */
    unsigned n_holds;     /* requests during which no cell begins */
    unsigned n_dying;     /* dropped and not reaped yet */
    unsigned n_allowed;   /* processes allowed besides those of the limit */
    struct snp_cover cover;
    struct snp_branch_making making;
    struct {
        snp_branch_cb cb; /* NULL = free */
        void *data;
    } waits[SNP_BRANCH_WAITS_MAX];
    uv_timer_t *timer; /* owned; bounds a making, or watches the memory of a cell */
};

/* A session begins: the seed and the workspace as it is are the first to go back to. */
void snp_branch_begin(struct snp_session *s);

/* Files came from outside: what stands by is not as the session is any more. */
void snp_branch_stale(struct snp_session *s);

/*
 * Have one stand by that is as the session is now. True: it does, or none can be had (the
 * cover says why). False: cb runs once that is so. No cell may be running.
 */
bool snp_branch_prepare(struct snp_session *s, snp_branch_cb cb, void *data);

/* A cell was kept: what stood by is of the past. again: have another one. */
void snp_branch_spent(struct snp_session *s, bool again);

/* What stands by, number: after a return to it. */
void snp_branch_set_standby(struct snp_session *s, uint32_t number);

/* The seed is there: only then a sweep spares it. */
void snp_branch_on_seed(struct snp_session *s);

struct snp_branch *snp_branch_find(struct snp_session *s, uint32_t number);

/* A save reads it, and has done so; meanwhile it is not ended. */
void snp_branch_use(struct snp_session *s, uint32_t number);
void snp_branch_release(struct snp_session *s, uint32_t number);

/* No cell begins from here on (snp_branch_prepare waits), until it is undone. */
void snp_branch_hold(struct snp_session *s);
void snp_branch_unhold(struct snp_session *s);

/* End one that nobody wants any more; not the seed, not what stands by. */
void snp_branch_drop(struct snp_session *s, uint32_t number);

/* HELD, from the interpreter; false if nobody waits for it. */
bool snp_branch_on_held(struct snp_session *s, const struct snp_frame *f);

/* The interpreter is gone. */
void snp_branch_on_lost(struct snp_session *s);

/* One has died by itself. */
void snp_branch_on_gone(struct snp_session *s, uint32_t number);

/* A cell begins or ends: while it runs what stands by makes room for memory that is short. */
void snp_branch_watch(struct snp_session *s, bool is_running);

/* Callbacks with this data are not to run any more. */
void snp_branch_forget(struct snp_session *s, const void *data);

/* Nothing is answered any more: whoever waits is told. */
void snp_branch_session_ended(struct snp_session *s);

/* For a session that goes. */
void snp_branches_done(struct snp_session *s);

/* Copies, with a new reference of the notes. */
struct snp_cover snp_cover_copy(const struct snp_cover *cover);

/* One more, unless it says so already. */
void snp_cover_note(struct snp_cover *cover, const char *text);

/* docs/result.md, `transaction`; new reference. */
json_t *snp_cover_json(const struct snp_cover *cover);

#endif
