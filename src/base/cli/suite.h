/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SUITE_H
#define SNP_BASE_CLI_SUITE_H

/*
 * The verbs of the suite, the program `agent`. It writes their tables to the file agent.json when
 * it is built. snipara-sandbox reads them from there for help, completion and the manual page, and
 * to find the program that runs a verb.
 */

#include "base/cli/verb.h"

/* Print the tables as JSON to standard output. Returns the exit status. */
int snp_suite_print(const struct snp_verb *const *verbs);

/*
 * Read agent.json in the program's folder, once; the result lives until the process ends.
 * NULL-terminated; NULL if the suite is not installed, or has another version.
 */
const struct snp_verb *const *snp_suite_verbs(void);

#endif
