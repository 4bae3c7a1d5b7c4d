/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_PARSER_EXTRACT_H
#define SNP_CONTEXT_PARSER_EXTRACT_H

/* From a text to its items, and to its whole tree. */

#include <stdbool.h>

#include "context/parsed.h"
#include "context/parser/grammar.h"

/*
 * Items of the text, sorted by where they begin. *ret stays this module's until the next call.
 * False: it took longer than it may, or there is no such grammar.
 */
bool snp_extract(uint32_t language,
                 const char *text,
                 uint32_t n,
                 const struct snp_parse_item **ret,
                 uint32_t *ret_n);

/* The same for the tree: bytes as context/parsed.h has them. False also: it has too many nodes. */
bool snp_tree_write(
    uint32_t language, const char *text, uint32_t n, const char **ret, uint32_t *ret_n);

/* The caller's. NULL: none before the deadline, which this sets. grammar may be NULL. */
TSTree *snp_tree_parse(const struct snp_grammar *grammar,
                       const char *text,
                       uint32_t n,
                       uint64_t *deadline);

#endif
