/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TEXT_OUTCOME_H
#define SNP_TEXT_OUTCOME_H

/*
 * What the result of a cell says of its session: was it rolled back, restarted, restored, saved. People and models
 * read the same sentences. Which of them a front end prints, and how it cleans them, is its own.
 */

#include "base/json.h"

/*
 * Lines in the order of printing, [{label, text}]: labels are "restarted", "state", "not undone", "not saved",
 * "restored", "not restored" and "no image"; a text is one sentence or a list, and names in it are untrusted. At most
 * `most` of what was not restored are named, the others counted. [] = the session is as the code left it. The caller
 * owns it; NULL = out of memory. result: as in docs/result.md.
 */
json_t *snp_outcome(const json_t *result, size_t most);

#endif
