/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_TIER_ENGINE_CELL_GUARANTEE_H
#define SNP_TIER_ENGINE_CELL_GUARANTEE_H

/* The state to which a killed cell is rolled back; each result reports it. */

#include "tier/engine/record.h"

/* Copies, with a new reference of the notes. */
struct snp_guarantee snp_guarantee_copy(const struct snp_guarantee *guarantee);

/* Add a note, unless it is already there. */
void snp_guarantee_note(struct snp_guarantee *guarantee, const char *text);

/* docs/result.md, `transaction`; new reference. */
json_t *snp_guarantee_json(const struct snp_guarantee *guarantee);

/* Add a note; text is taken. */
void snp_guarantee_add(struct snp_guarantee *guarantee, json_t *text);

void snp_guarantee_done(struct snp_guarantee *guarantee);

#endif
