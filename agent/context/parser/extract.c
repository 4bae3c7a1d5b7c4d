/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queries capture @definition.KIND and in it @name, and optionally @body and @doc; @import and
 * @reference capture only a name. Without @doc, comments directly above a definition are its
 * documentation.
 */
#include "context/parser/extract.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "context/parser/grammar.h"

enum {
    SECONDS = 1,
    MATCHES_MAX = 4096, /* matches in progress */
    COMMENTS_MAX = 200, /* lines above a definition, each a comment */
};

static struct snp_parse_item items[SNP_PARSE_ITEMS_MAX];

static const char *const kinds[SNP_PARSE_KINDS] = {
    [SNP_PARSE_FUNCTION] = "definition.function",
    [SNP_PARSE_CLASS] = "definition.class",
    [SNP_PARSE_INTERFACE] = "definition.interface",
    [SNP_PARSE_TYPE] = "definition.type",
    [SNP_PARSE_CONSTANT] = "definition.constant",
    [SNP_PARSE_MODULE] = "definition.module",
    [SNP_PARSE_MACRO] = "definition.macro",
    [SNP_PARSE_IMPORT] = "import",
    [SNP_PARSE_REFERENCE] = "reference",
};

/* Nodes that may wrap a definition, which then begins with the wrapper. */
static const char *const wrappers[] = {
    "decorated_definition", "export_statement", "template_declaration", "lexical_declaration",
    "variable_declaration", "type_declaration", "const_declaration",    "var_declaration",
};

static bool is_one_of(TSNode node, const char *const *names, size_t n)
{
    const char *type = ts_node_type(node);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(type, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_over(const uint64_t *deadline)
{
    return snp_cpu_us() > *deadline;
}

static bool parse_goes_on(TSParseState *state)
{
    return is_over(state->payload);
}

static bool query_goes_on(TSQueryCursorState *state)
{
    return is_over(state->payload);
}

static struct snp_parse_range range_of(TSNode node)
{
    return (struct snp_parse_range){ts_node_start_byte(node), ts_node_end_byte(node)};
}

static bool is_behind(TSNode node)
{
    TSNode before = ts_node_prev_sibling(node);

    return !ts_node_is_null(before) &&
           ts_node_end_point(before).row == ts_node_start_point(node).row &&
           ts_node_end_point(before).column > 0;
}

/* Comments that end on the line before the definition, or before each other. */
static struct snp_parse_range comments_above(TSNode node)
{
    struct snp_parse_range found = {0};
    uint32_t row = ts_node_start_point(node).row;

    for (int i = 0; i < COMMENTS_MAX; i++) {
        TSNode before = ts_node_prev_sibling(node);
        TSPoint end;

        if (ts_node_is_null(before) || strstr(ts_node_type(before), "comment") == NULL) {
            break;
        }
        if (is_behind(before)) {
            break; /* it is about the text before it on the same line */
        }
        end = ts_node_end_point(before);
        end.row -= end.column == 0 && end.row > 0; /* some comments include the newline */
        if (end.row + 1 < row) {
            break;
        }
        found.end = found.end == 0 ? ts_node_end_byte(before) : found.end;
        found.start = ts_node_start_byte(before);
        row = ts_node_start_point(before).row;
        node = before;
    }
    return found;
}

static void definition(struct snp_parse_item *item, TSNode node, TSNode body)
{
    item->signature = range_of(node);
    if (!ts_node_is_null(body)) {
        item->signature.end = ts_node_start_byte(body);
    }
    for (TSNode parent = ts_node_parent(node);
         !ts_node_is_null(parent) && is_one_of(parent, wrappers, SNP_ARRAY_LEN(wrappers));
         parent = ts_node_parent(node)) {
        node = parent;
    }
    item->all = range_of(node);
    if (item->doc.end == 0) {
        item->doc = comments_above(node);
        item->all.start = item->doc.end == 0 ? item->all.start : item->doc.start;
    }
}

static bool item_of(const TSQuery *query, const TSQueryMatch *match, struct snp_parse_item *ret)
{
    TSNode node = {0};
    TSNode body = {0};
    bool is_definition = false;
    bool is_found = false;

    *ret = (struct snp_parse_item){0};
    for (uint16_t i = 0; i < match->capture_count; i++) {
        const TSQueryCapture *capture = &match->captures[i];
        uint32_t len;
        const char *name = ts_query_capture_name_for_id(query, capture->index, &len);

        if (strcmp(name, "name") == 0) {
            ret->name = range_of(capture->node);
        } else if (strcmp(name, "body") == 0) {
            body = capture->node;
        } else if (strcmp(name, "doc") == 0) {
            ret->doc = range_of(capture->node);
        }
        for (uint32_t kind = 0; kind < SNP_PARSE_KINDS; kind++) {
            if (strcmp(name, kinds[kind]) == 0) {
                ret->kind = kind;
                node = capture->node;
                is_found = true;
                is_definition = kind < SNP_PARSE_IMPORT;
            }
        }
    }
    if (is_definition) {
        definition(ret, node, body);
    } else if (is_found) {
        ret->name = range_of(node);
        ret->all = ret->name;
    }
    return is_found && ret->name.end > ret->name.start;
}

static int by_start(const void *a, const void *b)
{
    const struct snp_parse_item *one = a;
    const struct snp_parse_item *other = b;

    if (one->all.start != other->all.start) {
        return one->all.start < other->all.start ? -1 : 1;
    }
    /* Enclosing items come first. */
    return one->all.end == other->all.end ? 0 : one->all.end > other->all.end ? -1 : 1;
}

static uint32_t collect(const struct snp_grammar *grammar, TSTree *tree, uint64_t *deadline)
{
    TSQueryCursor *cursor = ts_query_cursor_new();
    TSQueryCursorOptions options = {.payload = deadline, .progress_callback = query_goes_on};
    TSQueryMatch match;
    uint32_t n = 0;

    ts_query_cursor_set_match_limit(cursor, MATCHES_MAX);
    ts_query_cursor_exec_with_options(cursor, grammar->query, ts_tree_root_node(tree), &options);
    /* finding a node's context takes time by its depth, which the cursor does not count */
    while (n < SNP_PARSE_ITEMS_MAX && !is_over(deadline) &&
           ts_query_cursor_next_match(cursor, &match)) {
        n += item_of(grammar->query, &match, &items[n]);
    }
    ts_query_cursor_delete(cursor);
    return n;
}

struct source_text {
    const char *text;
    uint32_t n;
};

static const char *read_text(void *payload, uint32_t at, TSPoint point SNP_UNUSED, uint32_t *ret_n)
{
    const struct source_text *source = payload;

    *ret_n = at < source->n ? source->n - at : 0;
    return at < source->n ? source->text + at : "";
}

TSTree *snp_tree_parse(const struct snp_grammar *grammar,
                       const char *text,
                       uint32_t n,
                       uint64_t *deadline)
{
    static TSParser *parser;
    struct source_text source = {text, n};
    TSInput input = {.payload = &source, .read = read_text, .encoding = TSInputEncodingUTF8};
    TSParseOptions options = {.payload = deadline, .progress_callback = parse_goes_on};

    *deadline = snp_cpu_us() + SECONDS * UINT64_C(1000000);
    parser = parser == NULL ? ts_parser_new() : parser;
    if (grammar == NULL || !ts_parser_set_language(parser, grammar->language)) {
        return NULL;
    }
    ts_parser_reset(parser);
    return ts_parser_parse_with_options(parser, NULL, input, options);
}

bool snp_extract(uint32_t language,
                 const char *text,
                 uint32_t n,
                 const struct snp_parse_item **ret,
                 uint32_t *ret_n)
{
    const struct snp_grammar *grammar = snp_grammar_of(language);
    uint64_t deadline;
    TSTree *tree = snp_tree_parse(grammar, text, n, &deadline);

    *ret = items;
    *ret_n = 0;
    if (tree == NULL) {
        return false;
    }
    *ret_n = collect(grammar, tree, &deadline);
    ts_tree_delete(tree);
    qsort(items, *ret_n, sizeof(items[0]), by_start);
    return !is_over(&deadline);
}
