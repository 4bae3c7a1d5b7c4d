/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SANDBOX_H
#define SNP_TIER_ENGINE_SANDBOX_H

/*
 * One sandbox: its streams and limits, and what its parts remember, from the request to open it
 * until nothing of it is left. What contains it is the tier's, behind `own`.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "guest/spec.h"
#include "os/meter.h"
#include "policy/limits.h"
#include "policy/session_name.h"
#include "registry/python.h"
#include "tier/engine/record.h"
#include "tier/engine/stream/link.h"

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

/* What the daemon asked for; plain copy. */
struct snp_sandbox_spec {
    char id[SNP_SESSION_ID_LEN + 1];
    struct snp_python python; /* owned by the session */
    struct snp_limits limits;
    char *project; /* owned by the session; NULL = none */
    char *env;     /* owned; env_len bytes of "K=V\0" */
    uint32_t env_len;
    bool has_network; /* the user has asked for one */
    bool allow_degraded;
    bool require_exact;
    bool is_lasting; /* more cells will come: leave a pristine copy, in case one has to be killed */
    bool is_to_load; /* it will be filled before its first cell */
    uint64_t epoch;  /* 0 = none was given */
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

/* Snapshots of a sandbox and jobs of its pid 1, as that has told us. Plain values. */
enum {
    SNP_SPARED_MAX = 144
};
struct snp_spared {
    pid_t pid[SNP_SPARED_MAX];
    size_t n;
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
    void *own;          /* the tier's; owned by it */
    bool has_process;   /* the tier has its pid 1, and kills it when told */
    const char *cgroup; /* name of its groups, the tier's; NULL = none */
    bool is_pooled;     /* made ahead; nobody's session yet */
    bool is_dropped;    /* by the pool, which needs it no more */
    bool was_pooled;    /* it was one */
    bool is_thawed;     /* its template was started from an image */
    uv_poll_t *out_poll[2];
    int out_fd[2]; /* read ends of stdout and stderr */
    struct snp_link init;
    struct snp_link guest;
    struct snp_init_call calls[SNP_INIT_CALLS_MAX];
    uint32_t next_call;
    bool is_unwritten; /* it held nothing whenever a cell ended, nor was anything put */
    bool has_pristine;
    bool wants_snapshot; /* cells are to be transactional */
    uint64_t epoch;      /* 0 = none was given */
    uint64_t ended_cell; /* number of the last one that has ended; 0 = none has */
    struct snp_tier_snapshots snapshots;
    struct snp_return returning;
    struct snp_puts puts; /* while a cell runs; if it is undone they are done again */
    snp_puts_cb puts_cb;
    struct snp_rollback rollback;
    struct snp_state transfer;
    snp_swept_cb swept_cb;    /* who waits for a sweep; NULL = nobody */
    struct snp_spared spared; /* snapshots and jobs, as pid 1 numbers them */
    bool has_interpreter;
    bool is_waking;     /* asked for a new one; till the answer exits are of the old one */
    bool was_restarted; /* the interpreter is a new one since the last cell */
    bool holds_state;   /* it has run a cell or loaded a checkpoint: its end is a loss */
    bool was_lost;      /* that has been told: the next one begins with nothing */
    unsigned strays;    /* frames of this interpreter since its last cell, if any, had ended */
    struct snp_tier_cell *cell; /* owned; NULL = idle */
    char python[32];
    struct snp_buf mask;
    json_t *masked;   /* owned array of hidden paths */
    json_t *degraded; /* owned array of texts */
    int project_fd;
    struct stat project_stat; /* what was opened, to tell it from another one of its name */
    int scan_result;
    struct snp_err scan_err;
    char reason[456];                    /* why it ended by itself */
    struct snp_meter meter;              /* of its groups */
    struct snp_meter_reading last_usage; /* at the end of the last cell */
    uint64_t last_cpu_us;                /* likewise, as pid 1 counts */
    uint8_t last_flags;                  /* likewise, of its CHANGES */
    uint64_t last_written_bytes;
    char folder[SNP_FOLDER_MAX]; /* in front of /workspace and /tmp, as the code sees it */
    struct snp_err open_err;     /* why it could not be prepared; code 0 = not for that */
};

/*
 * What sandboxes made ahead share with it: a copy without id, env and instead_of. -1: out of
 * memory; then ret owns nothing.
 */
int snp_sandbox_spec_copy(const struct snp_sandbox_spec *spec,
                          struct snp_sandbox_spec *ret) SNP_NODISCARD;
/* Free what it owns; it then owns nothing. */
void snp_sandbox_spec_done(struct snp_sandbox_spec *spec);

/* Enter the lists of the supervisor; leave them, if it is in any. */
void snp_sandbox_enter(struct snp_sandbox *s);
void snp_sandbox_leave(struct snp_sandbox *s);

/* NULL if there is none that is ready. */
struct snp_sandbox *snp_sandbox_find(struct snp_supervisor *supervisor, const char *id);

/* Is there one of this id, in whatever state? */
bool snp_sandbox_exists(struct snp_supervisor *supervisor, const char *id);

/* Kill everything in it; it disappears from the loop. reason: for the daemon when nobody asked. */
void snp_sandbox_kill(struct snp_sandbox *s, const char *reason);

/*
 * How much the workspace holds: the limit of that name, or what that of memory leaves where files
 * count as memory, and the kernel would end all of the sandbox beyond. Returns which of the two
 * it is.
 */
enum snp_limit snp_sandbox_room(const struct snp_sandbox *s, uint64_t *ret_bytes);

/*
 * Whether the workspace has held nothing at every look and holds nothing now, and no file
 * system is full: then there is nothing to ask pid 1. Once it has held something pid 1 may
 * know files of which it has to report the end. *ret_bytes: what is written to it.
 */
bool snp_sandbox_is_unwritten(struct snp_sandbox *s, uint64_t *ret_bytes);

/* Why no image of it is made, nor taken in by it; NULL = both can be. Borrowed. */
const char *snp_sandbox_why_no_image(const struct snp_sandbox *s);

/* For tiers: a sweep has ended, with 0 or an errno. */
void snp_sandbox_swept(struct snp_sandbox *s, int eno);

void snp_spared_set(struct snp_spared *spared, pid_t pid, bool is_there);
bool snp_spared_has(const struct snp_spared *spared, pid_t pid);

#endif
