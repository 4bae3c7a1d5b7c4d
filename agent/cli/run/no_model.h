/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_NO_MODEL_H
#define SNP_CLI_RUN_NO_MODEL_H

/* `run` and `agent` without a model. */

#include "cli/run/front.h"

/*
 * why: the missing setting. A prompt of `run` that is Python with a call in it is run, with a note
 * on standard error; otherwise the missing setting, and commands that need no model, are printed.
 * Returns the exit status.
 */
int snp_run_direct(struct snp_front *front,
                   const struct snp_run_spec *spec,
                   const struct snp_err *why);

#endif
