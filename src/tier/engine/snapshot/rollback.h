/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_ROLLBACK_H
#define SNP_TIER_ENGINE_SNAPSHOT_ROLLBACK_H

/*
 * Rollback: all processes are killed, the workspace is restored, and the snapshot is woken. Also
 * the tier's methods for snapshots.
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
 * After a sweep: roll back to the snapshot. cb runs later, once, unless the session ends first.
 * Ends the sandbox if the outcome cannot be reported.
 */
void snp_return_to(struct snp_sandbox *s, uint32_t number, snp_return_cb cb, void *data);

/*
 * After a kill: wake the standby, or else the pristine copy. SNP_E_NOT_FOUND: there is no standby,
 * and the ended interpreter held state whose loss was not reported; then the sandbox ends.
 */
int snp_return_restart(struct snp_sandbox *s, struct snp_err *err) SNP_NODISCARD;

/*
 * The interpreter has ended outside a cell. If its state is lost, or it was still unused (a pooled
 * sandbox), the sandbox ends too: a session never continues silently from an empty state.
 */
void snp_return_check(struct snp_sandbox *s);

/* A cell has ended; a rollback may wait for this. is_back: the cell has already rolled back. */
void snp_rollback_cell_ended(struct snp_sandbox *s, bool is_back);

/* Methods; they answer request id, now or later. */
int snp_method_snapshot(struct snp_sandbox *s, uint32_t id, struct snp_err *err) SNP_NODISCARD;
int snp_method_rollback(struct snp_sandbox *s,
                        uint32_t id,
                        uint32_t number,
                        uint64_t epoch,
                        struct snp_err *err) SNP_NODISCARD;
/* Memory in use, and the list of snapshots. */
int snp_method_memory(struct snp_sandbox *s, uint32_t id, struct snp_err *err) SNP_NODISCARD;
int snp_method_drop(struct snp_sandbox *s, uint32_t id, uint32_t number, struct snp_err *err)
    SNP_NODISCARD;

/* Cancel callbacks with this data. */
void snp_return_forget(struct snp_sandbox *s, const void *data);

/* The session ends: pending requests are answered. */
void snp_rollback_sandbox_ended(struct snp_sandbox *s);

#endif
