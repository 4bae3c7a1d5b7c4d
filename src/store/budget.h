/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_BUDGET_H
#define SNP_STORE_BUDGET_H

/*
 * Keeping the journal's folder to its budget: database, log, reserve and files of blobs together.
 * Old results and checkpoints go before it is reached; what then does not fit is refused, and
 * nothing that was acknowledged is given up for it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct snp_store;

/* Of the store's thread ------------------------------------------------------------------ */

/* Bytes of the folder, as the file system gives them. */
uint64_t snp_budget_used(struct snp_store *store);
/* Before a transaction: how much the database may grow in it, and files beside it. */
int snp_budget_set(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;
/* From here on gc makes room. */
uint64_t snp_budget_soft(const struct snp_store *store);
/* Is there room for so much more? */
bool snp_budget_has(struct snp_store *store, uint64_t bytes);

#endif
