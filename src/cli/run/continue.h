/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_CONTINUE_H
#define SNP_CLI_RUN_CONTINUE_H

/* How a run that was stopped goes on, as options. */

#include <stdbool.h>

#include "base/json.h"

/*
 * In a run's result (snp_run_result): `error` says what helps, `raise_with` is the option that raises the limit
 * or null, and `resume_with`, an object of limits, becomes options or null. For a caller they are settings ("max_depth=8 ..."), and
 * `error` is left as it is.
 */
void snp_run_way_out(json_t *result, bool is_agent, bool is_caller);

#endif
