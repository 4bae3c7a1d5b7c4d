/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_POLICY_GUARANTEE_H
#define SNP_POLICY_GUARANTEE_H

/* What a user requires of the tier that code runs in: the configuration key `guarantees`. */

#include "base/err.h"
#include "base/json.h"

/* SNP_E_INVALID: no guarantee has such a name; lists those that there are. */
int snp_guarantee_check(const char *name, struct snp_err *err) SNP_NODISCARD;

/*
 * Does a tier give all of them (an array of names; NULL = none)? about: its description, NULL = it
 * is the user's own. runtime: of the container engine; NULL = the engine's own. SNP_E_UNSUPPORTED
 * names each that is lacking, and who gives it.
 */
int snp_guarantees_of(const char *tier,
                      const json_t *about,
                      const char *runtime,
                      const json_t *wanted,
                      struct snp_err *err) SNP_NODISCARD;

/* Is each in force where it turned out to run? What its manifest says. SNP_E_UNSUPPORTED. */
int snp_guarantees_in(const char *tier,
                      const json_t *manifest,
                      const json_t *wanted,
                      struct snp_err *err) SNP_NODISCARD;

#endif
