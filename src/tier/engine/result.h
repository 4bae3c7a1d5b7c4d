/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_RESULT_H
#define SNP_TIER_ENGINE_RESULT_H

/* A cell's state, and the JSON of its result (docs/result.md). */

#include <uv.h>

#include "base/json.h"
#include "os/meter.h"
#include "policy/limits.h"
#include "tier/engine/cell.h"
#include "tier/engine/denials.h"
#include "tier/engine/snapshot.h"
#include "tier/engine/stream/output.h"

struct snp_supervisor;

enum snp_cell_phase {
    SNP_CELL_WAITING = 0, /* for a copy of the session as it is now */
    SNP_CELL_RUNNING,
    SNP_CELL_STOPPING,  /* asked to stop, grace runs */
    SNP_CELL_KILLING,   /* a command was sent SIGKILL */
    SNP_CELL_SWEEPING,  /* all processes are being killed */
    SNP_CELL_RETURNING, /* all were killed, and what stood by takes their place */
    SNP_CELL_FINISHING,
};

enum snp_cell_end {
    SNP_CELL_END_NONE = 0, /* by itself */
    SNP_CELL_END_WALL,
    SNP_CELL_END_USER,
    SNP_CELL_END_MEMORY,
    SNP_CELL_END_PROTOCOL,
    SNP_CELL_END_DISK,
};

struct snp_cell {
    struct snp_sandbox *sandbox; /* borrowed */
    uint32_t id;                 /* of the daemon's request */
    uint64_t number;
    bool is_command;
    bool is_transactional;
    bool has_calls;
    bool has_open_call; /* the last one has no answer yet */
    uint32_t n_calls;
    bool is_atomic;
    bool is_abandoned;    /* a rollback ends it; return_to is given */
    bool is_rolled_back;  /* interpreter and files are as before it */
    bool was_swept;       /* everything inside was killed, for its sake */
    bool is_session_over; /* the sandbox ended with it */
    bool was_restarted;   /* it began in a new interpreter */
    bool has_exit;
    int exit_status; /* wait status of interpreter or command */
    int start_errno; /* a command that could not be started */
    enum snp_cell_phase phase;
    enum snp_cell_end ended_by;
    uint32_t return_to; /* snapshot */
    uint64_t epoch;
    struct snp_guarantee guarantee;   /* what protects it */
    struct snp_cell_request *pending; /* owned; while it waits */
    enum snp_limit disk_limit;        /* with SNP_CELL_END_DISK */
    char why[456];
    uint64_t wall_ms;
    uint64_t start_us;
    uint64_t end_us;
    uv_timer_t *timer; /* owned */
    unsigned n_displays;
    unsigned n_frames; /* that the interpreter sent */
    uint64_t display_bytes;
    json_t *done;  /* owned; what the driver reported */
    json_t *files; /* owned */
    struct snp_denials denials;
    struct snp_output output[2];
    struct snp_meter_reading usage; /* at the end */
    uint64_t watched_peak;
    uint64_t init_cpu_us;
    uint64_t written_bytes;
    uint8_t changes_flags; /* of the CHANGES reply */
};

/* What a CHANGES reply says besides the files. */
struct snp_changes_head {
    uint8_t flags;
    uint64_t cpu_us;
    uint64_t written_bytes;
};

/* The result; new reference. Adds denials for limits that were met. */
json_t *snp_result_json(struct snp_cell *c);

/* Does its result say that the variables are lost? */
bool snp_result_is_lost(const struct snp_cell *c);

/* `files` when none is known; truncated = there may be some all the same. New reference. */
json_t *snp_result_no_files(bool truncated);

/*
 * Read a CHANGES reply (after its errno) into docs/result.md's `files`; NULL if it is malformed.
 * project_fd: the project's folder, -1 = none. New reference.
 */
json_t *snp_result_files(const char *at,
                         size_t n,
                         int project_fd,
                         struct snp_changes_head *ret);

/* Read an LS reply (after its errno) into docs/wire.md's answer to `ls`, bounded to one frame. New reference. */
json_t *snp_result_entries(const char *at, size_t n);

#endif
