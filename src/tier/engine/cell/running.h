/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_CELL_RUNNING_H
#define SNP_TIER_ENGINE_CELL_RUNNING_H

/* The running or waiting cell: its record, and queries by other parts. */

#include <uv.h>

#include "base/json.h"
#include "base/policy/limits.h"
#include "base/wire/exec.h"
#include "os/meter.h"
#include "tier/engine/cell/denials.h"
#include "tier/engine/record.h"
#include "tier/engine/stream/output.h"

struct snp_cell_request;
struct snp_sandbox;

enum snp_cell_phase {
    SNP_CELL_WAITING = 0, /* for a copy of the current state */
    SNP_CELL_RUNNING,
    SNP_CELL_STOPPING,  /* asked to stop, in the grace period */
    SNP_CELL_KILLING,   /* a command was sent SIGKILL */
    SNP_CELL_SWEEPING,  /* all processes are being killed */
    SNP_CELL_RETURNING, /* all are killed; the standby is being woken */
    SNP_CELL_FINISHING,
};

enum snp_cell_end {
    SNP_CELL_END_NONE = 0, /* normally */
    SNP_CELL_END_WALL,
    SNP_CELL_END_USER,
    SNP_CELL_END_MEMORY,
    SNP_CELL_END_PROTOCOL,
    SNP_CELL_END_DISK,
};

struct snp_tier_cell {
    struct snp_sandbox *sandbox; /* borrowed */
    uint32_t id;                 /* of the daemon's request */
    uint64_t number;
    char owner[SNP_SPOOL_OWNER_LEN + 1]; /* of its full output */
    enum snp_exec_kind kind;
    bool is_started; /* of a process: pid 1 has started it */
    bool is_transactional;
    bool has_calls;
    bool has_open_call; /* the last call is unanswered */
    uint32_t n_calls;
    bool is_atomic;
    bool is_abandoned;    /* ended by a rollback to return_to */
    bool is_rolled_back;  /* interpreter and files are restored */
    bool was_swept;       /* it caused a sweep */
    bool is_session_over; /* the sandbox ended during the cell */
    bool is_crowded;      /* pid 1 found the maximum number of processes */
    bool was_restarted;   /* the interpreter was new at its start */
    bool has_exit;
    int exit_status; /* wait status of interpreter or command */
    /* bits: exit statuses of a command that indicate a missing network */
    uint32_t quiet_exits;
    int start_errno; /* of a command that failed to start */
    enum snp_cell_phase phase;
    enum snp_cell_end ended_by;
    uint32_t return_to; /* snapshot */
    uint64_t epoch;
    struct snp_guarantee guarantee;   /* its protection */
    struct snp_cell_request *pending; /* owned; while it waits */
    enum snp_limit disk_limit;        /* with SNP_CELL_END_DISK */
    char why[456];
    uint64_t wall_ms;
    uint64_t start_us;
    uint64_t end_us;
    uv_timer_t *timer; /* owned */
    unsigned n_displays;
    unsigned n_frames; /* sent by the interpreter */
    uint64_t display_bytes;
    json_t *done;  /* owned; the driver's report */
    json_t *files; /* owned */
    struct snp_denials denials;
    struct snp_output output[2];
    struct snp_meter_reading usage; /* at the end */
    uint64_t watched_peak;
    uint64_t init_cpu_us;
    uint64_t written_bytes;
    uint8_t changes_flags; /* of the CHANGES reply */
};

/* Has a cell begun? False for one that waits for its turn. */
bool snp_cell_has_begun(const struct snp_sandbox *s);

/* May the standby be dropped while the cell runs? The second records it. */
bool snp_cell_may_lose_guarantee(const struct snp_sandbox *s);
void snp_cell_lose_guarantee(struct snp_sandbox *s);

/* Add a note on protection to its result, once. */
void snp_cell_note(struct snp_sandbox *s, const char *text);

#endif
