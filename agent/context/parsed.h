/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_PARSED_H
#define SNP_CONTEXT_PARSED_H

/*
 * The protocol between the index and its parser, a separate program that a hostile file may take
 * over. A question is a head and the text; an answer is a head and items, or the whole tree.
 * Numbers are in the byte order of this machine. Items consist only of ranges of the text that was
 * sent, so a reader only has to check that they lie in it.
 * A tree is read inside a sandbox (agent/ground/script_tree.py): the sizes of the names of kinds
 * and of fields, the number of nodes, the names, each followed by a NUL, padding to four bytes, and
 * the nodes, each before its children (snp_parse_node).
 */

#include <stdint.h>

enum {
    SNP_PARSE_BYTES_MAX = 4 << 20, /* of a text */
    SNP_PARSE_ITEMS_MAX = 200000,
    SNP_PARSE_NODES_MAX = 500000,
    SNP_PARSE_NAMES_MAX = 64 << 10, /* of kinds and fields of a language, in bytes */
    SNP_PARSE_TREE_MAX = SNP_PARSE_NODES_MAX * 16 + SNP_PARSE_NAMES_MAX + 16,
};

struct snp_parse_question {
    uint32_t language; /* enum snp_language */
    uint32_t n_bytes;
    uint32_t wants_tree;
};

struct snp_parse_answer {
    uint32_t is_whole; /* 0: parsing took too long or the text is too large; no items follow */
    uint32_t n_items;  /* of a tree: bytes */
};

enum {
    SNP_PARSE_NAMED = 1 << 30,   /* not an anonymous token */
    SNP_PARSE_MISSING = 1 << 29, /* inserted by the parser, not in the text */
};

struct snp_parse_node {
    uint16_t kind;
    uint16_t field; /* 0 = none */
    uint32_t start;
    uint32_t end;
    uint32_t depth; /* combined with SNP_PARSE_NAMED, SNP_PARSE_MISSING */
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
    SNP_PARSE_REFERENCE, /* as above */
    SNP_PARSE_KINDS,
};

struct snp_parse_range {
    uint32_t start;
    uint32_t end;
};

/* Sorted by where they begin in the text. */
struct snp_parse_item {
    uint32_t kind;
    struct snp_parse_range name;
    struct snp_parse_range all;       /* with decorators, and the comment above it */
    struct snp_parse_range signature; /* up to its body */
    struct snp_parse_range doc;       /* empty = none */
};

#endif
