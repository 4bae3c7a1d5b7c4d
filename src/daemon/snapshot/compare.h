/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SNAPSHOT_COMPARE_H
#define SNP_DAEMON_SNAPSHOT_COMPARE_H

/* The differences between two checkpoints. Runs on the store's thread, in a job. */

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/wire/snapshot.h"

struct snp_tx;

/*
 * On success fills variables, files (new references) and truncated. Contents are compared by their
 * keys, without reading them. Checkpoint 0 is empty. SNP_E_NOT_FOUND: no such checkpoint.
 */
int snp_compare(struct snp_tx *tx,
                uint64_t a,
                uint64_t b,
                struct snp_diff_answer *ret,
                struct snp_err *err) SNP_NODISCARD;

#endif
