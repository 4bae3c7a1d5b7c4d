/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_NOTES_H
#define SNP_CLI_RUN_NOTES_H

/* What somebody should know of the settings of a run: with --show-config, and before it begins. */

#include "cli/run/front.h"

/*
 * --show-config: all of it, and the run's limits, on standard output, and what is weaker than it
 * could be on standard error.
 */
void snp_run_notes_show(const struct snp_front *front, const struct snp_run_budget *budget);

/*
 * The folder of records, before one is made. Notes on standard error: a configuration of the
 * working directory puts it elsewhere; it is a symbolic link, somebody else's, or writable by a
 * group. SNP_E_DENIED: everybody may rename and delete what is in it.
 */
int snp_run_notes_logs(const struct snp_front *front, struct snp_err *err) SNP_NODISCARD;

#endif
