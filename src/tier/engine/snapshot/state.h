/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_STATE_H
#define SNP_TIER_ENGINE_SNAPSHOT_STATE_H

/*
 * The methods `save` and `load`: a session's variables and workspace as a bundle (docs/wire.md),
 * written to a pipe of the daemon's or read from one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tier/engine/record.h"
#include "wire/frame.h"

struct snp_sandbox;
struct snp_saving;
struct snp_loading;

struct snp_save_request {
    uint32_t id;
    bool has_snapshot;
    uint32_t snapshot; /* else the state after the last cell */
    uint64_t epoch;    /* 0 = none was given */
    uint64_t cell;     /* of the state: without what a later one did; INT64_MAX = any */
    const char *known; /* borrowed; keys, one a line */
    size_t known_len;
    bool wants_image; /* too, if there can be one */
};

/*
 * Both answer later unless they fail, and take *fd then (it becomes -1). SNP_E_LIMIT: the session
 * is busy with another, or runs a cell and has no copy of the state before it. SNP_E_DENIED: a
 * later cell than that of the request has ended.
 */
int snp_method_save(struct snp_sandbox *s,
                    const struct snp_save_request *rq,
                    int *fd,
                    struct snp_err *err) SNP_NODISCARD;
/* A save that has waited for who became a copy of the session begins; false = there is none. */
bool snp_state_save_next(struct snp_sandbox *s);
/* May somebody become a copy of it now? pid 1 writes the files for one at a time. */
bool snp_state_lets_clone(const struct snp_sandbox *s);

struct snp_load_request {
    uint32_t id;
    uint64_t epoch;
    /* 0 = all of it, 1 = variables as far as there is memory, 2 = no variables, 3 = its image */
    unsigned effort;
};
int snp_method_load(struct snp_sandbox *s,
                    const struct snp_load_request *rq,
                    int *fd,
                    struct snp_err *err) SNP_NODISCARD;

/* SAVED or LOADED from the interpreter; false if nobody waits for it. */
bool snp_state_on_guest(struct snp_sandbox *s, const struct snp_frame *f);

/* The interpreter has gone. */
void snp_state_on_guest_end(struct snp_sandbox *s);

/*
 * Whether a copy is being saved beside which cells may run; and its end, for the memory it takes.
 */
bool snp_state_is_aside(const struct snp_sandbox *s);
void snp_state_give_up(struct snp_sandbox *s);

/* The session goes: requests that wait are answered. */
void snp_state_sandbox_ended(struct snp_sandbox *s);

#endif
