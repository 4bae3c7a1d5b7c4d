/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CLI_CONTEXT_STANDARDS_H
#define SNP_CLI_CONTEXT_STANDARDS_H

#include "context/query.h"
#include "standard/standard.h"

/*
 * Put the mandatory standards into an empty answer, in at most half of the tokens; their names may
 * take more.
 */
int snp_context_mandatory(const struct snp_standards *standards,
                          uint64_t max_tokens,
                          struct snp_answer *ret,
                          struct snp_err *err) SNP_NODISCARD;

/* Append the other results, without duplicates. more: emptied. */
int snp_context_join(struct snp_answer *answer,
                     struct snp_answer *more,
                     struct snp_err *err) SNP_NODISCARD;

#endif
