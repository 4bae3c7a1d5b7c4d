/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_MANIFEST_H
#define SNP_TIER_ENGINE_MANIFEST_H

/* Controls enforced on a session, and controls that this host cannot provide. */

#include "base/json.h"
#include "base/policy/limits.h"

struct snp_sandbox;
struct snp_supervisor;

/* The manifest of a session; docs/result.md. New reference. */
json_t *snp_manifest(const struct snp_sandbox *s);

/* {key: how it is enforced} for the default limits at full strength. New reference. */
json_t *snp_manifest_limits(const struct snp_supervisor *supervisor);

/* Append texts for controls that this host cannot provide to list. No side effects. */
void snp_manifest_degraded(const struct snp_supervisor *supervisor,
                           const struct snp_limits *limits,
                           json_t *list);

/* The hidden paths, the first max of them. New reference. */
json_t *snp_manifest_masked(const struct snp_sandbox *s, size_t max, size_t max_bytes);

#endif
