/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SANDBOX_H
#define SNP_TIER_ENGINE_SANDBOX_H

/*
 * One sandbox: its processes, streams, cgroups and limits, from the request to open it
 * until nothing of it is left.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/json.h"
#include "guest/spec.h"
#include "os/meter.h"
#include "policy/limits.h"
#include "registry/python.h"
#include "tier/engine/puts.h"
#include "tier/engine/rollback.h"
#include "tier/engine/snapshot.h"
#include "tier/engine/state.h"
#include "tier/engine/stream/link.h"
#include "tier/host/notify.h"
#include "tier/host/procs.h"
#include "tier/host/template.h"

struct snp_cell;
struct snp_supervisor;

enum {
    SNP_SESSION_ID_LEN = 32,
    SNP_CALLS_MAX = 64,
    SNP_MASKED_SHOWN = 500, /* hidden paths listed by the local tier */
};

enum snp_sandbox_state {
    SNP_SANDBOX_OPENING = 0,
    SNP_SANDBOX_READY,
    SNP_SANDBOX_CLOSING,
};

/* What the daemon asked for; plain copy. */
struct snp_sandbox_spec {
    char id[SNP_SESSION_ID_LEN + 1];
    struct snp_python python; /* owned by the session */
    struct snp_limits limits;
    char *project; /* owned by the session; NULL = none */
    char *env;     /* owned; env_len bytes of "K=V\0" */
    uint32_t env_len;
    bool allow_degraded;
    bool require_exact;
    bool
        is_lasting; /* more cells will come: leave a pristine copy, in case one has to be killed */
    bool is_to_load;       /* it will be filled before its first cell */
    uint64_t epoch;        /* 0 = none was given */
    bool is_transactional; /* cells are, unless they say otherwise */
    char *instead_of;      /* owned; why it is not in a stronger tier, NULL = it need not be */
};

/* Answer of pid 1: eno 0 and what follows it in the REPLY, or an errno. */
typedef void (*snp_init_cb)(void *data, int eno, const char *bytes, size_t n);

struct snp_init_call {
    uint64_t start_us;
    uint64_t timeout_us; /* after it pid 1 counts as dead */
    uint32_t id;         /* 0 = free */
    snp_init_cb cb;
    void *data;
};

struct snp_sandbox {
    struct snp_sandbox *next;          /* of all */
    struct snp_sandbox **before;       /* what points at us in that list */
    struct snp_sandbox *same_id;       /* next of the chain of supervisor->by_id */
    struct snp_supervisor *supervisor; /* borrowed */
    struct snp_sandbox_spec spec;
    enum snp_sandbox_state state;
    uint32_t open_id;  /* request to answer when ready */
    uint32_t close_id; /* request to answer when gone; 0 = none */
    uint64_t open_us;
    uint32_t setup_us;
    struct snp_pending process;
    bool has_process;
    bool is_pooled;  /* made ahead; nobody's session yet */
    bool was_pooled; /* it was one */
    uv_poll_t *pidfd_poll;
    uv_poll_t *setup_poll; /* waits for the reply of the set-up */
    uv_poll_t *out_poll[2];
    int out_fd[2];     /* read ends of stdout and stderr */
    int out_wr_fd[2];  /* write ends, until the spec is sent */
    uv_timer_t *timer; /* removal of cgroups, bounded set-up */
    struct snp_link init;
    struct snp_link guest;
    struct snp_notify notify;
    struct snp_init_call calls[SNP_CALLS_MAX];
    uint32_t next_call;
    int fs_fd[SNP_SETUP_FS_N]; /* the file systems the code can fill; only for fstatfs */
    uint64_t empty_files;      /* free inodes and blocks of the workspace */
    uint64_t empty_blocks;     /* ... before anything was written to it */
    bool is_unwritten;         /* it held nothing whenever a cell ended, nor was anything put */
    bool has_pristine;
    bool wants_snapshot; /* cells are to be transactional */
    uint64_t epoch;      /* 0 = none was given */
    uint64_t ended_cell; /* number of the last one that has ended; 0 = none has */
    uint64_t mark;       /* on the signals of pid 1; 0 = none */
    struct snp_tier_snapshots snapshots;
    struct snp_return returning;
    struct snp_puts puts; /* while a cell runs; if it is undone they are done again */
    snp_puts_cb puts_cb;
    struct snp_rollback rollback;
    struct snp_state transfer;
    snp_swept_cb swept_cb;    /* who waits for a sweep; NULL = nobody */
    bool is_swept;            /* in the local tier: once already, for him */
    struct snp_spared spared; /* snapshots and jobs, as pid 1 numbers them */
    bool has_interpreter;
    bool is_waking;     /* asked for a new one; till the answer exits are of the old one */
    bool was_restarted; /* the interpreter is a new one since the last cell */
    bool holds_state;   /* it has run a cell or loaded a checkpoint: its end is a loss */
    bool was_lost;      /* that has been told: the next one begins with nothing */
    unsigned strays;    /* frames of this interpreter since its last cell, if any, had ended */
    struct snp_cell *cell; /* owned; NULL = idle */
    int landlock_abi;
    char python[32];
    struct snp_buf mask;
    json_t *masked;   /* owned array of hidden paths */
    json_t *degraded; /* owned array of texts */
    int project_fd;
    struct stat project_stat; /* what was opened, to tell it from another one of its name */
    int scan_result;
    struct snp_err scan_err;
    unsigned removals;                   /* attempts to remove the cgroups */
    char reason[456];                    /* why it ended by itself */
    struct snp_meter meter;              /* of its groups */
    struct snp_meter_reading last_usage; /* at the end of the last cell */
    uint64_t last_cpu_us;                /* likewise, as pid 1 counts */
    uint8_t last_flags;                  /* likewise, of its CHANGES */
    uint64_t last_written_bytes;
    /* Of the local tier: */
    char folder[SNP_FOLDER_MAX];
    unsigned n_jobs;  /* workers that use it */
    bool is_sweeping; /* no signal of the code is passed on */
    bool is_ending;
    bool is_measuring;
    uint64_t measured_us;
    uint64_t measure_cost_us;
    uint64_t mapping_bytes;  /* of the kernel, as last measured */
    uv_timer_t *watch;       /* owned */
    struct snp_err open_err; /* why it could not be prepared; code 0 = not for that */
};

/*
 * Begin to open; answers the request open_id later. spec's owned members are taken, on
 * failure too. SNP_E_LIMIT, SNP_E_UNSUPPORTED, SNP_E_DENIED (a degraded control without
 * allow_degraded, or anything less than whole with require_exact) come back at once.
 */
int snp_sandbox_open(struct snp_supervisor *supervisor,
                     struct snp_sandbox_spec *spec,
                     uint32_t open_id,
                     struct snp_err *err) SNP_NODISCARD;

/* Is every control and limit of it whole? SNP_E_DENIED names what is not, and the way out. */
int snp_sandbox_check_exact(const struct snp_sandbox *s, struct snp_err *err) SNP_NODISCARD;

/*
 * Begin to make a sandbox ahead, for a session like spec, of which a copy is taken. It
 * shows up in supervisor->pooled, and nowhere else, with is_pooled set.
 */
int snp_sandbox_prepare(struct snp_supervisor *supervisor,
                        const struct snp_sandbox_spec *spec,
                        struct snp_err *err) SNP_NODISCARD;

/* Send the guest what makes an interpreter this session's; for each new one. */
void snp_sandbox_start_guest(struct snp_sandbox *s);

/*
 * Whether the workspace has held nothing at every look and holds nothing now, and no file
 * system is full: then there is nothing to ask pid 1. Once it has held something pid 1 may
 * know files of which it has to report the end. *ret_bytes: what is written to it.
 */
bool snp_sandbox_is_unwritten(struct snp_sandbox *s, uint64_t *ret_bytes);

/* NULL if there is none that is ready. */
struct snp_sandbox *snp_sandbox_find(struct snp_supervisor *supervisor, const char *id);

/* Is there one of this id, in whatever state? */
bool snp_sandbox_exists(struct snp_supervisor *supervisor, const char *id);

/* Kill everything in it; it disappears from the loop. reason: for the daemon when nobody asked. */
void snp_sandbox_kill(struct snp_sandbox *s, const char *reason);

/* The tier ends: kill all and wait (bounded) until their cgroups are gone. Answers nothing. */
void snp_sandbox_end_all(struct snp_supervisor *supervisor);

/*
 * End the sandboxes whose pid 1 leaves a call unanswered for long; for a timer. Otherwise
 * one of them would make the daemon think that the whole tier hangs.
 */
void snp_sandboxes_watch(struct snp_supervisor *supervisor);

/* Ask pid 1. cb runs once, with EPIPE when it goes away first. fd: passed along, or -1; stays the caller's. */
void snp_sandbox_ask_init(struct snp_sandbox *s,
                          uint8_t type,
                          const struct snp_buf *raw,
                          int fd,
                          snp_init_cb cb,
                          void *data);

/* Drop the interpreter's stream, e.g. after it broke the protocol. */
void snp_sandbox_drop_interpreter(struct snp_sandbox *s);

/* Make a new guest stream; *ret_fd is the interpreter's end (caller closes). */
int snp_sandbox_new_guest(struct snp_sandbox *s,
                          int *ret_fd,
                          struct snp_err *err) SNP_NODISCARD;

/* Read what is in the output pipes now (bounded). */
void snp_sandbox_drain(struct snp_sandbox *s);

/* What was enforced; docs/result.md. New reference. */
json_t *snp_manifest(const struct snp_sandbox *s);
/* {key: how it is enforced} of whole limits as they are by default. New reference. */
json_t *snp_manifest_limits(const struct snp_supervisor *supervisor);

/* Texts for controls that this host cannot give; appends to list. Pure reading. */
void snp_manifest_degraded(const struct snp_supervisor *supervisor,
                           const struct snp_limits *limits,
                           json_t *list);

#endif
