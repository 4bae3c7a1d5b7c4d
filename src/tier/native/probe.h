/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_NATIVE_PROBE_H
#define SNP_TIER_NATIVE_PROBE_H

/* Features of this host for the native tier, each tested. */

#include "base/json.h"

struct snp_supervisor;

/*
 * May we create namespaces? Sets supervisor->can_run, and if not, supervisor->why: the setting that
 * blocks it, the command that lifts it, and an alternative, separated by "; ".
 */
void snp_probe_namespaces(struct snp_supervisor *supervisor, int unshare_errno);

/* {"features": [...], "usable": bool} of docs/wire.md. New reference. */
json_t *snp_probe_json(struct snp_supervisor *supervisor);

#endif
