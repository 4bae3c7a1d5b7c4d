/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_LIMITS_H
#define SNP_CLI_RUN_LIMITS_H

/*
 * The limits of runs and agents, from options, variables, files and settings of programs; and
 * their remedies.
 */

#include "cli/run/front.h"

/* An agent's --cost-limit: no limit, accepted only if the price of the model is unknown. */
#define SNP_COST_UNPRICED "unpriced"

/* All limits in force; front->config is loaded. SNP_E_INVALID: an option is out of range. */
int snp_run_limits(const struct snp_front *front,
                   enum snp_run_kind kind,
                   struct snp_run_budget *ret,
                   struct snp_err *err) SNP_NODISCARD;

/* Lower the new limits of a resumed agent (snp_run_changes) to an agent's maximum. */
void snp_run_limits_cap(const struct snp_front *front, json_t *budget);

/*
 * Add the remedy to a run's result (snp_run_result): `error` ends with the fix, `raise_with` is the
 * option that raises the limit, or null, and `resume_with`, an object of limits, becomes options,
 * or null. For a caller both are settings ("max_depth=8 ..."), and `error` does not change.
 */
void snp_run_way_out(json_t *result, bool is_agent, bool is_caller);

#endif
