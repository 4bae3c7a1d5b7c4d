/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_HISTORY_HISTORY_H
#define SNP_CONTEXT_HISTORY_HISTORY_H

/* Which files git's last commits changed, kept in the index. */

#include "context/index.h"

/*
 * Read them again if commits came or went since. Without git, a repository at the top of the
 * project, or a kernel that can contain git (context-history), there are none. For who holds the
 * index's lock; not within a transaction.
 */
int snp_history_refresh(struct snp_index *index, struct snp_err *err) SNP_NODISCARD;

#endif
