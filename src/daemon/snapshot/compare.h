/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_DAEMON_SNAPSHOT_COMPARE_H
#define SNP_DAEMON_SNAPSHOT_COMPARE_H

/* What differs between two checkpoints. Runs on the store's thread, in a job. */

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct snp_tx;

/*
 * {"variables": [...], "files": [...], "truncated": bool}, as docs/wire.md says; new
 * reference. Contents are compared by their keys, nothing is read. A checkpoint of 0 is
 * empty. SNP_E_NOT_FOUND: no such checkpoint.
 */
int snp_compare(struct snp_tx *tx, uint64_t a, uint64_t b, json_t **ret, struct snp_err *err)
    SNP_NODISCARD;

#endif
