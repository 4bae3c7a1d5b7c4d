/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_SPAWN_H
#define SNP_BASE_CLI_SPAWN_H

/* Programs that a verb runs on the host, as the user who called it. */

#include "base/buf.h"
#include "base/err.h"

/*
 * Run argv (found in PATH) until it exits. out: receives its standard output, up to its cap; NULL:
 * that goes to our standard error. Standard input is /dev/null; PYTHON* variables are not passed. 0
 * when it exited with 0; SNP_E_SYS: it could not be run; SNP_E_PEER: it failed.
 */
int snp_spawn(const char *const *argv, struct snp_buf *out, struct snp_err *err) SNP_NODISCARD;

/*
 * The same, but any exit status is success and stored in *ret_status. SNP_E_PEER: ended by a
 * signal.
 */
int snp_spawn_status(const char *const *argv,
                     struct snp_buf *out,
                     int *ret_status,
                     struct snp_err *err) SNP_NODISCARD;

/*
 * Execute one of our programs in the same folder with the same arguments. Returns only on failure.
 */
int snp_become(const char *name, char *const *argv, struct snp_err *err) SNP_NODISCARD;

#endif
