/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_STATE_H
#define SNP_TIER_ENGINE_SNAPSHOT_STATE_H

/*
 * The methods `save` and `load`: write a session's variables and workspace as a bundle
 * (docs/wire.md) to a pipe from the daemon, or read one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/wire/frame.h"
#include "tier/engine/record.h"

struct snp_sandbox;
struct snp_saving;
struct snp_loading;

struct snp_save_request {
    uint32_t id;
    bool has_snapshot;
    uint32_t snapshot; /* else the state after the last cell */
    uint64_t epoch;    /* 0 = not given */
    uint64_t cell;     /* the last that may be in the state; INT64_MAX = any */
    const char *known; /* borrowed; keys, one a line */
    size_t known_len;
    bool wants_image; /* also an image, if possible */
};

/*
 * Both answer later unless they fail, and then take *fd (it becomes -1). SNP_E_LIMIT: the session
 * is busy with another, or runs a cell and has no copy of the state before it. SNP_E_DENIED: a cell
 * after the request's has ended.
 */
int snp_method_save(struct snp_sandbox *s,
                    const struct snp_save_request *rq,
                    int *fd,
                    struct snp_err *err) SNP_NODISCARD;
/* Begin a save that waited for clones of the session; false = no such save. */
bool snp_state_save_next(struct snp_sandbox *s);
/* May a clone be made now? Pid 1 writes the files of one at a time. */
bool snp_state_lets_clone(const struct snp_sandbox *s);

struct snp_load_request {
    uint32_t id;
    uint64_t epoch;
    /* 0 = everything, 1 = variables that fit into memory, 2 = no variables, 3 = the image */
    unsigned effort;
};
int snp_method_load(struct snp_sandbox *s,
                    const struct snp_load_request *rq,
                    int *fd,
                    struct snp_err *err) SNP_NODISCARD;

/* Handle SAVED or LOADED from the interpreter; false if nothing waits for it. */
bool snp_state_on_guest(struct snp_sandbox *s, const struct snp_frame *f);

/* The interpreter has ended. */
void snp_state_on_guest_end(struct snp_sandbox *s);

/* Is a copy being saved while cells may run? Give up that save, to free its memory. */
bool snp_state_is_aside(const struct snp_sandbox *s);
void snp_state_give_up(struct snp_sandbox *s);

/* The session ends: pending requests are answered. */
void snp_state_sandbox_ended(struct snp_sandbox *s);

#endif
