/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_PROGRAM_H
#define SNP_TIER_ENGINE_PROGRAM_H

#include "tier/engine/inside.h"
#include "tier/engine/ops.h"

/*
 * The rest of a tier's main(): serve until the daemon disconnects. own: value of supervisor->own.
 */
int snp_tier_main(int argc, char **argv, const struct snp_tier_ops *ops, void *own);

/* Dispatches events of sandboxes to cells and snapshots. */
extern const struct snp_sandbox_events snp_tier_events;

#endif
