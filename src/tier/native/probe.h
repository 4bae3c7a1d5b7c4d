/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_NATIVE_PROBE_H
#define SNP_TIER_NATIVE_PROBE_H

/* What this host can do for the native tier, tried rather than assumed. */

#include "base/json.h"

struct snp_supervisor;

/*
 * May we make namespaces? Fills supervisor->can_run, and when not supervisor->why: the
 * setting that blocks, the command that lifts it, and the way without, with "; " between.
 */
void snp_probe_namespaces(struct snp_supervisor *supervisor, int unshare_errno);

/* {"features": [...], "usable": bool} of docs/wire.md. New reference. */
json_t *snp_probe_json(struct snp_supervisor *supervisor);

#endif
