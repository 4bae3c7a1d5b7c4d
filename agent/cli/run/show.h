/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_SHOW_H
#define SNP_CLI_RUN_SHOW_H

/* The end of a run for people. */

#include <stdbool.h>

#include "base/json.h"
#include "run/state.h"

/* Print a result (snp_run_result) to standard output: a panel and the tables. */
void snp_run_show(const struct snp_run_state *state, const json_t *result, bool is_verbose);

#endif
