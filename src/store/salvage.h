/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_STORE_SALVAGE_H
#define SNP_STORE_SALVAGE_H

/* Recovery of a damaged database. */

#include <stdbool.h>

#include "base/err.h"

/*
 * Make a new database from the readable rows of the damaged one at path, move that one aside
 * (path.broken-TIME, with its log) and put the new one in its place; an event in it reports this.
 * why: the damage found. No process may have it open. On failure the damaged one stays in place.
 */
int snp_salvage(const char *path, const char *why, struct snp_err *err) SNP_NODISCARD;
/*
 * Before opening: finish or undo an interrupted salvage, and rename the log of a database that is
 * gone.
 */
int snp_salvage_resume(const char *path, struct snp_err *err) SNP_NODISCARD;
/* An unused name path.broken-TIME; owned by the caller. NULL when out of memory. */
char *snp_salvage_aside(const char *path);
/*
 * A damaged database still exists beside path: then contents without rows are kept. text: only if
 * it names the file; NULL: any.
 */
bool snp_salvage_is_kept(const char *path, const char *text);

#endif
