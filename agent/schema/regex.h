/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_SCHEMA_REGEX_H
#define SNP_SCHEMA_REGEX_H

/*
 * Regular expressions of JSON Schemas: those of ECMA-262 except features that need backtracking
 * (backreferences, lookahead and lookbehind) and \p. A search takes time proportional to text times
 * pattern, for any input: patterns come from servers, texts from models.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SNP_REGEX_PATTERN_MAX = 4096, /* bytes */
    SNP_REGEX_PROGRAM_MAX = 8192, /* instructions */
};

struct snp_regex;

/*
 * *ret is the caller's: snp_regex_free(). SNP_E_INVALID: not a regular expression;
 * SNP_E_UNSUPPORTED; SNP_E_LIMIT: it is too large.
 */
int snp_regex_new(const char *pattern, size_t n, struct snp_regex **ret, struct snp_err *err)
    SNP_NODISCARD;
void snp_regex_free(struct snp_regex *regex);

/*
 * Whether UTF-8 text has a match anywhere. *budget: the steps left, one for each instruction
 * visited; it is reduced by the steps taken. SNP_E_LIMIT: the budget is used up; SNP_E_NOMEM.
 */
int snp_regex_search(const struct snp_regex *regex,
                     const char *text,
                     size_t n,
                     uint64_t *budget,
                     bool *ret) SNP_NODISCARD;

#endif
