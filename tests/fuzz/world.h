/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TESTS_FUZZ_WORLD_H
#define SNP_TESTS_FUZZ_WORLD_H

/*
 * A supervisor with one session whose cell runs, and no process behind it: what the parsers of
 * the inside's streams touch, and a daemon that checks what it is sent.
 */

#include "tier/engine/sandbox.h"
#include "tier/engine/supervisor.h"
#include "tier/host/forked.h"
#include "tier/native/native.h"

struct world {
    uv_loop_t loop;
    struct snp_supervisor supervisor;
    struct snp_sandbox sandbox;
    struct snp_native native;
    struct snp_forked forked;
    int daemon_fd; /* our end of the daemon's stream */
};

/* Freed by world_free. */
struct world *world_new(void);

/* Begin a cell: Python code, or a command, for which session.init must be open. */
void world_start_cell(struct world *w, bool is_command);

/* The sandbox is gone: a cell that still runs is answered, and what was sent is checked. */
void world_free(struct world *w);

#endif
