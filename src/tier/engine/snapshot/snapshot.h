/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_SNAPSHOT_H
#define SNP_TIER_ENGINE_SNAPSHOT_SNAPSHOT_H

/*
 * Snapshots of a session: sleeping copies of its interpreter, each with a copy of the workspace of
 * the same number (docs/wire.md, HOLD and KEEP). One of them, the standby, holds the state after
 * the last cell. Snapshots that a user requested are kept.
 */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "tier/engine/record.h"

struct snp_sandbox;
struct snp_frame;

/* A session begins: its first snapshot is the pristine copy with the current workspace. */
void snp_snapshot_begin(struct snp_sandbox *s);

/* Files were put from outside: the standby is out of date. */
void snp_snapshot_stale(struct snp_sandbox *s);

/*
 * Make a standby of the current state. True: there is one, or none is possible (the guarantee says
 * why). False: cb runs once when that is so. No cell may be running.
 */
bool snp_snapshot_prepare(struct snp_sandbox *s, snp_snapshot_cb cb, void *data);

/* A cell was committed: the standby is out of date. again: make another. */
void snp_snapshot_spent(struct snp_sandbox *s, bool again);

/* Set the standby after a rollback to it. */
void snp_snapshot_set_standby(struct snp_sandbox *s, uint32_t number);

/* The copy exists: from now on a sweep spares it. */
void snp_snapshot_on_came(struct snp_sandbox *s, uint32_t number);

struct snp_tier_snapshot *snp_snapshot_find(struct snp_sandbox *s, uint32_t number);

/* Begin and end the use by a save; a snapshot in use is not ended. */
void snp_snapshot_use(struct snp_sandbox *s, uint32_t number);
void snp_snapshot_release(struct snp_sandbox *s, uint32_t number);

/* Keep cells from starting (snp_snapshot_prepare waits); snp_snapshot_resume undoes it. */
void snp_snapshot_pause(struct snp_sandbox *s);
void snp_snapshot_resume(struct snp_sandbox *s);

/* End an unused snapshot; never the pristine copy or the standby. */
void snp_snapshot_drop(struct snp_sandbox *s, uint32_t number);

/* Handle HELD from the interpreter; false if no snapshot waits for it. */
bool snp_snapshot_on_held(struct snp_sandbox *s, const struct snp_frame *f);

/* The interpreter has ended. */
void snp_snapshot_on_lost(struct snp_sandbox *s);

/* A snapshot's process died without a request. */
void snp_snapshot_on_gone(struct snp_sandbox *s, uint32_t number);

/* A cell begins or ends: while it runs, the standby is dropped if memory is short. */
void snp_snapshot_watch(struct snp_sandbox *s, bool is_running);

/* Cancel callbacks with this data. */
void snp_snapshot_forget(struct snp_sandbox *s, const void *data);

/* The sandbox has ended: pending requests are answered. */
void snp_snapshot_sandbox_ended(struct snp_sandbox *s);

/* Free the snapshots of an ending session. */
void snp_snapshots_done(struct snp_sandbox *s);

#endif
