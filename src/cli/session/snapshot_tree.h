/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_SESSION_SNAPSHOT_TREE_H
#define SNP_CLI_SESSION_SNAPSHOT_TREE_H

/* Snapshots as a picture on a terminal, and as a plain list elsewhere. */

#include <stdio.h>

#include "base/err.h"
#include "base/json.h"

/*
 * Print the answer of `snapshots.list` (docs/wire.md). On a terminal each snapshot is below its
 * parent, and the current snapshots of sessions are marked; elsewhere it is a table, oldest first.
 */
void snp_snapshots_print(FILE *out, const json_t *answer);

#endif
