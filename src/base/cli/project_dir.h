/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_PROJECT_DIR_H
#define SNP_BASE_CLI_PROJECT_DIR_H

#include "base/err.h"

/*
 * The project folder of a verb. dir: given by the user; NULL: the Git repository around this
 * folder, else this folder. *ret: its real path, the caller's. SNP_E_NOT_FOUND; SNP_E_DENIED: a
 * home folder or /.
 */
int snp_project_dir(const char *dir, char **ret, struct snp_err *err) SNP_NODISCARD;

/*
 * The real path of the folder to show in a sandbox; the caller frees. flag: the option that named
 * it. SNP_E_NOT_FOUND, SNP_E_INVALID: no such folder; SNP_E_DENIED: as above.
 */
int snp_project_shown(const char *dir, const char *flag, char **ret, struct snp_err *err)
    SNP_NODISCARD;

#endif
