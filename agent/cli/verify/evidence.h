/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_VERIFY_EVIDENCE_H
#define SNP_CLI_VERIFY_EVIDENCE_H

/* Store and print a verdict. */

#include "cli/verify/applied.h"

/* Text for a person, in Markdown. Quotes are untrusted and set as code. The caller frees. */
char *snp_evidence_summary(const json_t *evidence);

/* Text for a model: without names and output of hidden tests. The caller frees. */
char *snp_evidence_feedback(const json_t *evidence);

/*
 * Write STATE/evidence/PATCH: patch.json, evidence.json, summary.md; and record the verdict.
 * evidence: gets folder and hash.
 */
int snp_evidence_keep(const struct snp_patch *of,
                      struct snp_applied *applied,
                      json_t *evidence,
                      struct snp_err *err) SNP_NODISCARD;

#endif
