/* SPDX-License-Identifier: Apache-2.0 */
/* A tree as bytes, each node before its children. */
#include <string.h>

#include "base/clock.h"
#include "context/parser/extract.h"

struct head {
    uint32_t kinds; /* bytes */
    uint32_t fields;
    uint32_t nodes;
};

static char out[SNP_PARSE_TREE_MAX] __attribute__((aligned(8)));

/* Append names, each followed by a NUL; return the size, or 0 without room. */
static uint32_t names_write(const TSLanguage *language, bool is_fields, char *to)
{
    uint32_t n =
        is_fields ? ts_language_field_count(language) + 1 : ts_language_symbol_count(language);
    uint32_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        const char *name = is_fields ? ts_language_field_name_for_id(language, (TSFieldId)i)
                                     : ts_language_symbol_name(language, (TSSymbol)i);
        size_t size = name == NULL ? 1 : strlen(name) + 1;

        if (at + size > SNP_PARSE_NAMES_MAX / 2) {
            return 0;
        }
        memcpy(to + at, name == NULL ? "" : name, size);
        at += (uint32_t)size;
    }
    return at;
}

static struct snp_parse_node node_of(const TSTreeCursor *cursor)
{
    TSNode node = ts_tree_cursor_current_node(cursor);

    return (struct snp_parse_node){
        .kind = ts_node_symbol(node),
        .field = ts_tree_cursor_current_field_id(cursor),
        .start = ts_node_start_byte(node),
        .end = ts_node_end_byte(node),
        .depth = ts_tree_cursor_current_depth(cursor) |
                 (ts_node_is_named(node) ? (uint32_t)SNP_PARSE_NAMED : 0) |
                 (ts_node_is_missing(node) ? (uint32_t)SNP_PARSE_MISSING : 0),
    };
}

/*
 * Move to the next node in the order of the text: a child, else the next sibling of the node or of
 * an ancestor.
 */
static bool step(TSTreeCursor *cursor)
{
    if (ts_tree_cursor_goto_first_child(cursor)) {
        return true;
    }
    while (!ts_tree_cursor_goto_next_sibling(cursor)) {
        if (!ts_tree_cursor_goto_parent(cursor)) {
            return false;
        }
    }
    return true;
}

static bool nodes_write(TSTree *tree, uint64_t deadline, char *to, uint32_t *ret_n)
{
    TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(tree));
    uint32_t n = 0;
    bool goes_on = true;

    while (goes_on && n < SNP_PARSE_NODES_MAX) {
        struct snp_parse_node node = node_of(&cursor);

        memcpy(to + (size_t)n * sizeof(node), &node, sizeof(node));
        n++;
        goes_on = step(&cursor) && (n % 1024 != 0 || snp_cpu_us() < deadline);
    }
    *ret_n = n;
    goes_on = goes_on || snp_cpu_us() >= deadline;
    ts_tree_cursor_delete(&cursor);
    return !goes_on;
}

bool snp_tree_write(
    uint32_t language, const char *text, uint32_t n, const char **ret, uint32_t *ret_n)
{
    const struct snp_grammar *grammar = snp_grammar_of(language);
    uint64_t deadline;
    TSTree *tree = snp_tree_parse(grammar, text, n, &deadline);
    struct head head = {0};
    uint32_t at;
    bool is_whole;

    *ret = out;
    *ret_n = 0;
    if (tree == NULL) {
        return false;
    }
    head.kinds = names_write(grammar->language, false, out + sizeof(head));
    head.fields = names_write(grammar->language, true, out + sizeof(head) + head.kinds);
    at = (uint32_t)(sizeof(head) + head.kinds + head.fields + 3) & ~UINT32_C(3);
    is_whole = nodes_write(tree, deadline, out + at, &head.nodes);
    memcpy(out, &head, sizeof(head));
    ts_tree_delete(tree);
    *ret_n = at + head.nodes * (uint32_t)sizeof(struct snp_parse_node);
    return is_whole && head.kinds > 0 && head.fields > 0;
}
