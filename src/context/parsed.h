/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_PARSED_H
#define SNP_CONTEXT_PARSED_H

/*
 * What goes between the index and its parser, a program of its own that a hostile file may take over: a question is a
 * head and the text, an answer a head and items. All numbers are of this machine. Items are nothing but ranges
 * of the text that was sent, so whoever reads them has only to look whether they lie in it.
 */

#include <stdint.h>

enum {
    SNP_PARSE_BYTES_MAX = 4 << 20, /* of a text */
    SNP_PARSE_ITEMS_MAX = 200000,
};

struct snp_parse_question {
    uint32_t language; /* enum snp_language */
    uint32_t n_bytes;
};

struct snp_parse_answer {
    uint32_t is_whole; /* 0: it took too long, and there are no items */
    uint32_t n_items;
};

enum snp_parse_kind {
    SNP_PARSE_FUNCTION = 0,
    SNP_PARSE_CLASS,
    SNP_PARSE_INTERFACE,
    SNP_PARSE_TYPE,
    SNP_PARSE_CONSTANT,
    SNP_PARSE_MODULE,
    SNP_PARSE_MACRO,
    SNP_PARSE_IMPORT,    /* only `name` is set */
    SNP_PARSE_REFERENCE, /* likewise */
    SNP_PARSE_KINDS,
};

struct snp_parse_range {
    uint32_t start;
    uint32_t end;
};

/* In the order in which they begin in the text. */
struct snp_parse_item {
    uint32_t kind;
    struct snp_parse_range name;
    struct snp_parse_range all;       /* with decorators, and the comment above it */
    struct snp_parse_range signature; /* up to its body */
    struct snp_parse_range doc;       /* empty = has none */
};

#endif
