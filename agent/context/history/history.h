/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_HISTORY_HISTORY_H
#define SNP_CONTEXT_HISTORY_HISTORY_H

/* The files that git's last commits changed, kept in the index. */

#include "context/index.h"

/*
 * Read the history again if its log has changed. It is empty without git, if the repository is not
 * at the top of the project, and if the kernel cannot contain git (context-history). The caller
 * holds the index's lock and is not within a transaction.
 */
int snp_history_refresh(struct snp_index *index, struct snp_err *err) SNP_NODISCARD;

#endif
