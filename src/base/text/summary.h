/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_SUMMARY_H
#define SNP_BASE_TEXT_SUMMARY_H

/*
 * What the result of a cell says of its session: was it rolled back, restarted, restored, saved.
 * People and models read the same sentences. Which of them a front end prints, and how it cleans
 * them, is its own.
 */

#include "base/json.h"
#include "base/text/hint.h"

/*
 * Lines in the order of printing, [{label, text}]: labels are "restarted", "state", "not undone",
 * "not saved", "restored", "not restored" and "no image"; a text is one sentence or a list, and
 * names in it are untrusted. At most `most` of what was not restored are named, the others counted.
 * [] = the session is as the code left it. The caller owns it; NULL = out of memory. result: as in
 * docs/result.md.
 */
json_t *snp_summary_session(const json_t *result, size_t most);

/*
 * The refused operations of a result, [{text, hint}]: text as "network: connect 1.1.1.1:443 (2
 * times), no network [guest]", of which operation, object and rule are untrusted; hint, if there is
 * one and the reader has not just had it, for the reader. told: the hint that has a line already,
 * or NULL. A refusal by the limit that ended the cell is left out, as `limit` reports it. At most
 * `most`, then one with the number of the others. Ownership as above.
 */
json_t *snp_summary_denials(const json_t *result,
                            enum snp_hint_reader reader,
                            const char *told,
                            size_t most);

#endif
