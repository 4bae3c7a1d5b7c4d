/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_MANIFEST_H
#define SNP_TIER_ENGINE_MANIFEST_H

/* What is enforced on a session, and what this host cannot give. */

#include "base/json.h"
#include "policy/limits.h"

struct snp_sandbox;
struct snp_supervisor;

/* What was enforced; docs/result.md. New reference. */
json_t *snp_manifest(const struct snp_sandbox *s);

/* {key: how it is enforced} of whole limits as they are by default. New reference. */
json_t *snp_manifest_limits(const struct snp_supervisor *supervisor);

/* Texts for controls that this host cannot give; appends to list. Pure reading. */
void snp_manifest_degraded(const struct snp_supervisor *supervisor,
                           const struct snp_limits *limits,
                           json_t *list);

/* The hidden paths; of very many the first ones. New reference. */
json_t *snp_manifest_masked(const struct snp_sandbox *s, size_t max, size_t max_bytes);

#endif
