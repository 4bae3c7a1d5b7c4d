/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SANDBOX_H
#define SNP_TIER_ENGINE_SANDBOX_H

/*
 * A sandbox, from the request that opens it until its removal: its streams, limits, and the state
 * of its parts. The tier's state is behind `own`.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "base/policy/limits.h"
#include "base/policy/session_name.h"
#include "base/registry/python.h"
#include "guest/spec.h"
#include "os/meter.h"
#include "tier/engine/record.h"
#include "tier/engine/stream/link.h"

struct snp_detached;
struct snp_tier_cell;
struct snp_supervisor;

enum {
    SNP_INIT_CALLS_MAX = 64,
};

enum snp_sandbox_state {
    SNP_SANDBOX_OPENING = 0,
    SNP_SANDBOX_READY,
    SNP_SANDBOX_CLOSING,
};

/* The daemon's request; plain copy. */
struct snp_sandbox_spec {
    char id[SNP_SESSION_ID_LEN + 1];
    struct snp_python python; /* owned by the session */
    struct snp_limits limits;
    char *project; /* owned by the session; NULL = none */
    char *env;     /* owned; env_len bytes of "K=V\0" */
    uint32_t env_len;
    bool has_network; /* requested by the user */
    bool allow_degraded;
    bool require_exact;
    bool is_lasting; /* more cells will follow: make a pristine copy, in case a cell is killed */
    bool is_to_load; /* will be filled before its first cell */
    uint64_t epoch;  /* 0 = not given */
    bool is_transactional; /* default of its cells */
    char *instead_of;      /* owned; why no stronger tier was chosen, NULL = none needed */
};

/* Answer of pid 1: eno 0 and the payload of the REPLY, or an errno. */
typedef void (*snp_init_cb)(void *data, int eno, const char *bytes, size_t n);

struct snp_init_call {
    uint64_t start_us;
    uint64_t timeout_us; /* after this pid 1 counts as dead */
    uint32_t id;         /* 0 = free */
    snp_init_cb cb;
    void *data;
};

/* Pids of snapshots and of pid 1's jobs, reported by pid 1. Plain values. */
enum {
    SNP_SPARED_MAX = 144
};
struct snp_spared {
    pid_t pid[SNP_SPARED_MAX];
    size_t n;
};

struct snp_sandbox {
    struct snp_sandbox *next;          /* of all sandboxes */
    struct snp_sandbox **before;       /* the pointer to this one in that list */
    struct snp_sandbox *same_id;       /* next in the chain of supervisor->by_id */
    struct snp_supervisor *supervisor; /* borrowed */
    struct snp_sandbox_spec spec;
    enum snp_sandbox_state state;
    uint32_t open_id;  /* request to answer when ready */
    uint32_t close_id; /* request to answer when gone; 0 = none */
    uint64_t open_us;
    uint32_t setup_us;
    void *own;          /* the tier's state; owned by the tier */
    bool has_process;   /* the tier has started its pid 1, and can kill it */
    const char *cgroup; /* name of its groups, from the tier; NULL = none */
    bool is_pooled;     /* made in advance; has no session yet */
    bool is_dropped;    /* ended by the pool */
    bool was_pooled;    /* came from the pool */
    bool is_thawed;     /* its template was started from an image */
    uv_poll_t *out_poll[2];
    int out_fd[2]; /* read ends of stdout and stderr */
    struct snp_link init;
    struct snp_link guest;
    struct snp_init_call calls[SNP_INIT_CALLS_MAX];
    uint32_t next_call;
    bool is_unwritten; /* empty at the end of each cell, and no file was put */
    bool has_pristine;
    bool wants_snapshot; /* its cells are transactional */
    uint64_t epoch;      /* 0 = not given */
    uint64_t ended_cell; /* number of the last cell that ended; 0 = none */
    struct snp_tier_snapshots snapshots;
    struct snp_return returning;
    struct snp_puts puts; /* puts during a cell; repeated if the cell is undone */
    snp_puts_cb puts_cb;
    struct snp_rollback rollback;
    struct snp_state transfer;
    snp_swept_cb swept_cb;    /* waits for a sweep; NULL = none */
    struct snp_spared spared; /* pids in pid 1's namespace */
    bool has_interpreter;
    bool is_waking;             /* awaits a new interpreter; until then exits are of the old one */
    bool was_restarted;         /* the interpreter is new since the last cell */
    bool holds_state;           /* has run a cell or loaded a checkpoint: its end loses state */
    bool was_lost;              /* the loss was reported: the next interpreter starts empty */
    unsigned strays;            /* frames of this interpreter after the end of its last cell */
    struct snp_tier_cell *cell; /* owned; NULL = idle */
    struct snp_detached *processes; /* list, oldest first; owned */
    uid_t output_owner;             /* may reopen the output's pipes; 0 = no change of owner */
    char python[32];
    struct snp_buf mask;
    json_t *masked;   /* owned array of hidden paths */
    json_t *degraded; /* owned array of texts */
    int project_fd;
    struct stat project_stat; /* identifies the opened folder if its name is reused */
    int scan_result;
    struct snp_err scan_err;
    char reason[456];                    /* why it ended without a request */
    struct snp_meter meter;              /* of its groups */
    struct snp_meter_reading last_usage; /* at the end of the last cell */
    uint64_t last_cpu_us;                /* CPU time at that point, measured by pid 1 */
    uint8_t last_flags;                  /* flags of the last CHANGES */
    uint64_t last_written_bytes;
    char folder[SNP_FOLDER_MAX]; /* prefix of /workspace and /tmp inside */
    struct snp_err open_err;     /* why it could not be prepared; code 0 = other reason */
};

/*
 * Copy spec without id, env and instead_of, which pooled sandboxes do not have. -1: out of memory;
 * then ret owns nothing.
 */
int snp_sandbox_spec_copy(const struct snp_sandbox_spec *spec,
                          struct snp_sandbox_spec *ret) SNP_NODISCARD;
/* Free its owned members; it then owns nothing. */
void snp_sandbox_spec_done(struct snp_sandbox_spec *spec);

/* Add to, or remove from, the supervisor's lists; removing twice is harmless. */
void snp_sandbox_enter(struct snp_sandbox *s);
void snp_sandbox_leave(struct snp_sandbox *s);

/* The ready sandbox of this id, or NULL. */
struct snp_sandbox *snp_sandbox_find(struct snp_supervisor *supervisor, const char *id);

/* Does a sandbox of this id exist, in any state? */
bool snp_sandbox_exists(struct snp_supervisor *supervisor, const char *id);

/*
 * Kill every process in it; the loop then frees it. reason: for the daemon if nothing requested it.
 */
void snp_sandbox_kill(struct snp_sandbox *s, const char *reason);

/*
 * The workspace's capacity: the disk limit, or the remaining memory limit where files use memory
 * (beyond it the kernel would kill the whole sandbox). Returns the limit that applies.
 */
enum snp_limit snp_sandbox_room(const struct snp_sandbox *s, uint64_t *ret_bytes);

/*
 * Has the workspace been empty at every check, and is it empty now with no file system full? Then
 * pid 1 need not be asked. After a first file, pid 1 may know files whose removal it must report.
 * *ret_bytes: bytes written to it.
 */
bool snp_sandbox_is_unwritten(struct snp_sandbox *s, uint64_t *ret_bytes);

/* Why it can neither save nor restore an image; NULL = it can. Borrowed. */
const char *snp_sandbox_why_no_image(const struct snp_sandbox *s);

/* For tiers: a sweep ended, with 0 or an errno. */
void snp_sandbox_swept(struct snp_sandbox *s, int eno);

void snp_spared_set(struct snp_spared *spared, pid_t pid, bool is_there);
bool snp_spared_has(const struct snp_spared *spared, pid_t pid);

#endif
