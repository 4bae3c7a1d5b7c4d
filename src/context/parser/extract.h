/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_PARSER_EXTRACT_H
#define SNP_CONTEXT_PARSER_EXTRACT_H

/* From a text to its items. */

#include <stdbool.h>

#include "context/parsed.h"

/*
 * Items of the text, sorted by where they begin. *ret stays this module's until the next call. False: it took longer
 * than it may, or there is no such grammar.
 */
bool snp_extract(uint32_t language,
                 const char *text,
                 uint32_t n,
                 const struct snp_parse_item **ret,
                 uint32_t *ret_n);

#endif
