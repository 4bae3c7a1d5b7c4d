/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_SNAPSHOT_SNAPSHOT_H
#define SNP_TIER_ENGINE_SNAPSHOT_SNAPSHOT_H

/*
 * What a session can go back to, snapshots: sleeping copies of its interpreter, each with a copy
 * of the workspace of the same number (docs/wire.md, HOLD and KEEP). One of them stands by: it
 * is as the session was when its last cell had been answered. Those that somebody asked for stay.
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

/* A session begins: the pristine copy and the workspace as it is are the first to go back to. */
void snp_snapshot_begin(struct snp_sandbox *s);

/* Files came from outside: what stands by is not as the session is any more. */
void snp_snapshot_stale(struct snp_sandbox *s);

/*
 * Have one stand by that is as the session is now. True: it does, or none can be had (the
 * guarantee says why). False: cb runs once that is so. No cell may be running.
 */
bool snp_snapshot_prepare(struct snp_sandbox *s, snp_snapshot_cb cb, void *data);

/* A cell was kept: what stood by is of the past. again: have another one. */
void snp_snapshot_spent(struct snp_sandbox *s, bool again);

/* What stands by, number: after a return to it. */
void snp_snapshot_set_standby(struct snp_sandbox *s, uint32_t number);

/* A copy is there: only then a sweep spares it. */
void snp_snapshot_on_came(struct snp_sandbox *s, uint32_t number);

struct snp_tier_snapshot *snp_snapshot_find(struct snp_sandbox *s, uint32_t number);

/* A save reads it, and has done so; meanwhile it is not ended. */
void snp_snapshot_use(struct snp_sandbox *s, uint32_t number);
void snp_snapshot_release(struct snp_sandbox *s, uint32_t number);

/* No cell begins from here on (snp_snapshot_prepare waits), until it is undone. */
void snp_snapshot_pause(struct snp_sandbox *s);
void snp_snapshot_resume(struct snp_sandbox *s);

/* End one that nobody wants any more; not the pristine copy, not what stands by. */
void snp_snapshot_drop(struct snp_sandbox *s, uint32_t number);

/* HELD, from the interpreter; false if nobody waits for it. */
bool snp_snapshot_on_held(struct snp_sandbox *s, const struct snp_frame *f);

/* The interpreter is gone. */
void snp_snapshot_on_lost(struct snp_sandbox *s);

/* One has died by itself. */
void snp_snapshot_on_gone(struct snp_sandbox *s, uint32_t number);

/* A cell begins or ends: while it runs what stands by makes room for memory that is short. */
void snp_snapshot_watch(struct snp_sandbox *s, bool is_running);

/* Callbacks with this data are not to run any more. */
void snp_snapshot_forget(struct snp_sandbox *s, const void *data);

/* Nothing is answered any more: whoever waits is told. */
void snp_snapshot_sandbox_ended(struct snp_sandbox *s);

/* For a session that goes. */
void snp_snapshots_done(struct snp_sandbox *s);

#endif
