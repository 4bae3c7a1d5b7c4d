/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_PARSER_GRAMMAR_H
#define SNP_CONTEXT_PARSER_GRAMMAR_H

/* The built-in grammars, and the queries for each. */

#include <stdint.h>
#include <tree_sitter/api.h>

struct snp_grammar {
    const TSLanguage *language;
    TSQuery *query; /* made at first use, and never freed */
};

/* NULL: no such language, or its query does not fit its grammar. */
const struct snp_grammar *snp_grammar_of(uint32_t language);

#endif
