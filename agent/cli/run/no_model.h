/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_NO_MODEL_H
#define SNP_CLI_RUN_NO_MODEL_H

/* `run` and `agent` where no model can be asked. */

#include "cli/run/front.h"

/*
 * why: what is missing. A prompt of `run` that is Python with a call in it is run, with a note on
 * standard error; else what is missing, and the ways that need no model, are told. The exit status.
 */
int snp_run_direct(struct snp_front *front,
                   const struct snp_run_spec *spec,
                   const struct snp_err *why);

#endif
