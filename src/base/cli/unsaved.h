/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_CLI_UNSAVED_H
#define SNP_BASE_CLI_UNSAVED_H

/* Report variables that a checkpoint could not save. */

#include "base/json.h"

struct snp_cli;

/*
 * Print a line on stderr for each row of list ({name, type?, reason}; may be NULL): "what: name
 * (type): reason". Names and reasons come from the sandbox and are escaped; beyond a limit they are
 * only counted.
 */
void snp_lost_tell(const json_t *list, const char *what);
/* The reason in rows that a memory image holds. */
#define SNP_LOST_IMAGE "saved by image only"

/*
 * "session NAME: not saved since cell N: disk full; WHY; FIX", of a row of SNP_UNSAVED; the
 * caller frees.
 */
char *snp_unsaved_text(const json_t *row);
/* The same as warnings, a line for each row; beyond a limit they are only counted. */
void snp_unsaved_tell(const struct snp_cli *cli, const json_t *rows);

/*
 * Print a line on stderr about a session with missing cells, and the remedies. row: of
 * sessions.list, or the answer of history; prints nothing if nothing is missing.
 */
void snp_missing_tell(const json_t *row, const char *session);

#endif
