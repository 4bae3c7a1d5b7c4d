/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_ROLLBACK_H
#define SNP_TIER_ENGINE_SNAPSHOT_ROLLBACK_H

/*
 * Going back: everything inside is killed, the workspace is put back, and the snapshot is
 * woken. Also the tier's methods about snapshots.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "tier/engine/record.h"

struct snp_sandbox;

/* Kill everything inside but pid 1, snapshots and jobs. cb runs later with 0 or an errno. */
void snp_return_sweep(struct snp_sandbox *s, snp_swept_cb cb);

/*
 * After a sweep: go back to the snapshot. cb runs later, once, unless the session ends before.
 * The sandbox is ended if that cannot be told how it went.
 */
void snp_return_to(struct snp_sandbox *s, uint32_t number, snp_return_cb cb, void *data);

/*
 * As after a kill: wake what stands by, else the pristine copy. SNP_E_NOT_FOUND: nothing stands by,
 * and the one that has ended held what nobody was told of; then the sandbox ends.
 */
int snp_return_restart(struct snp_sandbox *s, struct snp_err *err) SNP_NODISCARD;

/*
 * The interpreter has ended and no cell is there to say so. If what it held is lost, or nobody has
 * had it yet (a pooled sandbox), the sandbox ends too: its session is never gone on with
 * from nothing.
 */
void snp_return_check(struct snp_sandbox *s);

/* A cell has ended, which a rollback may have waited for. is_back: it went back there itself. */
void snp_rollback_cell_ended(struct snp_sandbox *s, bool is_back);

/* Methods; they answer request id, now or later. */
int snp_method_snapshot(struct snp_sandbox *s, uint32_t id, struct snp_err *err) SNP_NODISCARD;
int snp_method_rollback(struct snp_sandbox *s,
                        uint32_t id,
                        uint32_t number,
                        uint64_t epoch,
                        struct snp_err *err) SNP_NODISCARD;
/* What it takes now, and which snapshots it has. */
int snp_method_memory(struct snp_sandbox *s, uint32_t id, struct snp_err *err) SNP_NODISCARD;
int snp_method_drop(struct snp_sandbox *s, uint32_t id, uint32_t number, struct snp_err *err)
    SNP_NODISCARD;

/* Callbacks with this data are not to run any more. */
void snp_return_forget(struct snp_sandbox *s, const void *data);

/* The session goes: requests that wait are answered. */
void snp_rollback_sandbox_ended(struct snp_sandbox *s);

#endif
