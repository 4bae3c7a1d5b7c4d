/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_SCHEMA_REGEX_H
#define SNP_SCHEMA_REGEX_H

/*
 * Regular expressions of JSON Schemas, standards and `context search`, by PCRE2 with the meanings
 * of ECMA-262 where the two differ, except that \s matches ASCII only. Patterns come from servers
 * and texts from models, so a search has a budget: one that would take too long fails.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SNP_REGEX_PATTERN_MAX = 4096, /* bytes */
};

struct snp_regex;

/*
 * *ret is the caller's: snp_regex_free(). SNP_E_INVALID: not a regular expression; SNP_E_LIMIT: it
 * is too large.
 */
int snp_regex_new(const char *pattern, size_t n, struct snp_regex **ret, struct snp_err *err)
    SNP_NODISCARD;
void snp_regex_free(struct snp_regex *regex);

/*
 * Whether a text has a match anywhere; invalid UTF-8 is U+FFFD. *budget: the steps left; it is
 * reduced by at least the steps taken. SNP_E_LIMIT: the budget or the memory of a search is used
 * up; SNP_E_NOMEM.
 */
int snp_regex_search(const struct snp_regex *regex,
                     const char *text,
                     size_t n,
                     uint64_t *budget,
                     bool *ret) SNP_NODISCARD;

#endif
