/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_PARSER_EXTRACT_H
#define SNP_CONTEXT_PARSER_EXTRACT_H

/* The items of a text, and its whole tree. */

#include <stdbool.h>

#include "context/parsed.h"
#include "context/parser/grammar.h"

/*
 * The items of the text, sorted by where they begin. *ret belongs to this module and is valid until
 * the next call. False: the time limit was reached, or there is no such grammar.
 */
bool snp_extract(uint32_t language,
                 const char *text,
                 uint32_t n,
                 const struct snp_parse_item **ret,
                 uint32_t *ret_n);

/* The same for the tree, in the format of context/parsed.h. False also: it has too many nodes. */
bool snp_tree_write(
    uint32_t language, const char *text, uint32_t n, const char **ret, uint32_t *ret_n);

/*
 * Parse a text; the caller frees the tree. Sets the deadline. NULL: it was reached. grammar may be
 * NULL.
 */
TSTree *snp_tree_parse(const struct snp_grammar *grammar,
                       const char *text,
                       uint32_t n,
                       uint64_t *deadline);

#endif
