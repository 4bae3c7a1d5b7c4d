/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_VERIFY_EVIDENCE_H
#define SNP_CLI_VERIFY_EVIDENCE_H

/* Store and print a verdict. */

#include "cli/verify/applied.h"

/* For a person, in Markdown. Quotes are set as code, and untrusted. The caller frees. */
char *snp_evidence_summary(const json_t *evidence);

/* For a model: no names and no output of hidden tests. The caller frees. */
char *snp_evidence_feedback(const json_t *evidence);

/*
 * STATE/evidence/PATCH: patch.json, evidence.json, summary.md; and the verdict on record. evidence:
 * gets folder and hash.
 */
int snp_evidence_keep(const struct snp_patch *of,
                      struct snp_applied *applied,
                      json_t *evidence,
                      struct snp_err *err) SNP_NODISCARD;

#endif
