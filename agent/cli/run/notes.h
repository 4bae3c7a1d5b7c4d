/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_RUN_NOTES_H
#define SNP_CLI_RUN_NOTES_H

/* Warnings about a run's settings: with --show-config, and before it begins. */

#include "cli/run/front.h"

/*
 * --show-config: all settings, and the run's limits, on standard output; weakened settings on
 * standard error.
 */
void snp_run_notes_show(const struct snp_front *front, const struct snp_run_budget *budget);

/*
 * Check the folder of records, before one is made. Notes on standard error: a configuration of the
 * working directory moves it; it is a symbolic link, another user's, or writable by a group.
 * SNP_E_DENIED: all users may rename and delete its files.
 */
int snp_run_notes_logs(const struct snp_front *front, struct snp_err *err) SNP_NODISCARD;

#endif
