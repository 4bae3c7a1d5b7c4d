/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_CELL_CELL_H
#define SNP_TIER_ENGINE_CELL_CELL_H

/*
 * One cell or command, from the request to its result. The session owns it and passes on events.
 * The result is sent when the code has ended, its output has been read and pid 1 has reported the
 * changes.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/policy/limits.h"
#include "base/wire/exec.h"
#include "base/wire/frame.h"
#include "tier/engine/cell/denials.h"

struct snp_sandbox;
struct snp_tier_cell;

struct snp_cell_request {
    uint32_t id;     /* of the daemon's request */
    uint64_t number; /* in its session */
    enum snp_exec_kind kind;
    bool is_transactional; /* undone if it is killed */
    bool is_atomic;        /* undone if it fails, too */
    bool has_calls;        /* its code may call the client */
    uint64_t epoch;        /* of the session; 0 = not given */
    const char *owner;     /* id of the session; borrowed */
    const json_t *argv;    /* of a command; for Python NULL, or sys.argv; borrowed */
    uint64_t wall_ms;
    const char *code; /* borrowed */
    size_t code_len;
    bool has_stdin;
    bool has_open_stdin; /* of a detached process */
    const char *input;   /* borrowed */
    size_t input_len;
};

/*
 * Start; the result, or an error, is sent later. SNP_E_LIMIT: a cell is running. SNP_E_INVALID:
 * wrong epoch. On failure nothing is started.
 */
int snp_cell_start(struct snp_sandbox *s,
                   const struct snp_cell_request *rq,
                   struct snp_err *err) SNP_NODISCARD;

/* Ask the running cell to stop, as its time limit would; false if none runs. */
bool snp_cell_interrupt(struct snp_sandbox *s);

/* The outcome of a call. */
struct snp_cell_answer {
    uint64_t cell;
    uint32_t call;
    bool is_ok;
    const char *raw; /* borrowed */
    size_t raw_len;
};
/* Answer the open call of the running cell; false: no such call. */
bool snp_cell_answer(struct snp_sandbox *s, const struct snp_cell_answer *answer);

/* End the running cell at once and roll back to the snapshot. */
void snp_cell_abandon(struct snp_sandbox *s, uint32_t snapshot);

/* A file is put into the session: raw is the request to pid 1. */
void snp_cell_on_put(struct snp_sandbox *s, const struct snp_buf *raw);

/* Events from the session's streams. */
void snp_cell_on_guest(struct snp_sandbox *s, const struct snp_frame *f);
void snp_cell_on_guest_end(struct snp_sandbox *s, const struct snp_err *err);
void snp_cell_on_output(struct snp_sandbox *s, int stream, const char *bytes, size_t n);
void snp_cell_on_exit(struct snp_sandbox *s,
                      uint32_t id,
                      const char *raw); /* 21 bytes of an EXIT */
/* A sample of pid 1. is_crowded: one found the maximum number of processes. */
void snp_cell_on_memory(struct snp_sandbox *s, uint64_t bytes, bool is_crowded);
/* The session's files exceed a limit that no file system enforces (local tier). */
void snp_cell_on_disk(struct snp_sandbox *s, enum snp_limit limit);
void snp_cell_on_denial(struct snp_sandbox *s, const struct snp_denial *denial);

/* The sandbox has ended: send a result with the known facts. Frees the cell. */
void snp_cell_sandbox_ended(struct snp_tier_cell *c);

#endif
