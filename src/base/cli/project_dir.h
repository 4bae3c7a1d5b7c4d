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

#endif
