/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SESSION_SNAPSHOT_TREE_H
#define SNP_CLI_SESSION_SNAPSHOT_TREE_H

/* Snapshots as a picture on a terminal, and as a plain list elsewhere. */

#include <stdio.h>

#include "base/err.h"
#include "base/json.h"

/*
 * Print the answer of `snapshots.list` (docs/wire.md). On a terminal each snapshot hangs
 * below the one it was made from, and those where sessions stand now are marked;
 * elsewhere it is a table with a line each, the oldest first.
 */
void snp_snapshots_print(FILE *out, const json_t *answer);

#endif
