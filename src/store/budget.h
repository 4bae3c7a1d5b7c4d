/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_BUDGET_H
#define SNP_STORE_BUDGET_H

/*
 * Keep the journal's folder within its budget: database, log, reserve and blob files together. Old
 * results and checkpoints are removed before it is reached; then writes that exceed it are refused,
 * and acknowledged data is never removed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct snp_store;

/* Store thread only ---------------------------------------------------------------------------- */

/* Bytes of the folder on disk. */
uint64_t snp_budget_used(struct snp_store *store);
/* Before a transaction: limit the growth of the database, and of files beside it. */
int snp_budget_set(struct snp_store *store, struct snp_err *err) SNP_NODISCARD;
/* Above this, gc makes room. */
uint64_t snp_budget_soft(const struct snp_store *store);
/* Check that there is room for so many bytes. */
bool snp_budget_has(struct snp_store *store, uint64_t bytes);

#endif
