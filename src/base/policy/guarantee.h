/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_POLICY_GUARANTEE_H
#define SNP_BASE_POLICY_GUARANTEE_H

/* Requirements of a user on the tier that runs code: the configuration key `guarantees`. */

#include "base/err.h"
#include "base/json.h"

/* SNP_E_INVALID: no such guarantee; lists the existing ones. */
int snp_guarantee_check(const char *name, struct snp_err *err) SNP_NODISCARD;

/*
 * Check that a tier gives all of them (an array of names; NULL = none). about: its description,
 * NULL = a user's tier. runtime: of the container engine; NULL = the engine's default.
 * SNP_E_UNSUPPORTED names each missing one, and the tiers that give it.
 */
int snp_guarantees_of(const char *tier,
                      const json_t *about,
                      const char *runtime,
                      const json_t *wanted,
                      struct snp_err *err) SNP_NODISCARD;

/* Check in the manifest that each is in force where the code runs. SNP_E_UNSUPPORTED. */
int snp_guarantees_in(const char *tier,
                      const json_t *manifest,
                      const json_t *wanted,
                      struct snp_err *err) SNP_NODISCARD;

#endif
