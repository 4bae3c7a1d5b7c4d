/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of snapshots.
 *
 * A row's parent may be missing (removed, or of a session that is not listed): then it is a root.
 * Each row is drawn once, so a cycle of parents ends too.
 */
#include "cli/session/snapshot_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/cli/human.h"
#include "base/cli/need.h"
#include "base/cli/session/remote.h"
#include "base/cli/term.h"
#include "base/str.h"
#include "base/wire/snapshot.h"

enum {
    DEPTH_DRAWN = 48, /* deeper nodes are drawn at this depth */
    TEXT_MAX = 1024,
    GAP = 2,
    DETAILS_COLUMNS = 48, /* cell, places, size and age, with gaps */
};

/* One snapshot; texts are borrowed from the answer. */
struct node {
    struct snp_snapshot_row row;
    size_t parent; /* its index; SIZE_MAX = a root */
    bool is_drawn;
    char *label;    /* owned: lines and name, as printed without colour */
    size_t width;   /* its columns */
    size_t name_at; /* start of the name in it */
};

struct tree {
    struct node *nodes; /* owned */
    size_t n;
    size_t *order; /* in the order of drawing */
    size_t n_drawn;
    const json_t *heads; /* borrowed */
    bool is_ascii;
};

/* Whether the locale uses UTF-8; the first variable that is set decides. */
static bool is_utf8_locale(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]); /* NOLINT(concurrency-mt-unsafe) */

        if (value != NULL && value[0] != '\0') {
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
        }
    }
    return false;
}

static const char *name_of(const struct snp_snapshot_row *row)
{
    return row->name != NULL ? row->name : row->id;
}

static const char *session_of(const struct snp_snapshot_row *row)
{
    return row->session_name != NULL ? row->session_name : row->session;
}

/* "a, b" in out, as much as fits. */
static void join(char out[TEXT_MAX], const char *text)
{
    size_t used = strlen(out);

    (void)snprintf(out + used, TEXT_MAX - used, "%s%s", used == 0 ? "" : ", ", text);
}

/* "memory, disk" */
static const char *places_text(const struct snp_snapshot_row *row, char out[TEXT_MAX])
{
    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(row->where); i++) {
        join(out, json_string_value(json_array_get(row->where, i)));
    }
    return out[0] == '\0' ? "nowhere" : out;
}

/* The names of the sessions at a snapshot: "work, try-1"; "" = none. */
static const char *heads_text(const json_t *heads, const char *id, char out[TEXT_MAX])
{
    out[0] = '\0';
    for (size_t i = 0; i < json_array_size(heads); i++) {
        SNP_READ(snp_snapshot_head, head, json_array_get(heads, i));
        if (snp_streq(head.snapshot, id)) {
            join(out, head.name != NULL ? head.name : head.session);
        }
    }
    return out;
}

/* The plain list ---------------------------------------------------------------------------- */

static void tree_init(struct tree *tree, const json_t *answer)
{
    const json_t *rows = json_object_get(answer, "snapshots");

    tree->n = json_array_size(rows);
    tree->heads = json_object_get(answer, "heads");
    tree->is_ascii = !is_utf8_locale();
    tree->nodes = snp_need(calloc(tree->n + 1, sizeof(*tree->nodes)));
    tree->order = snp_need(calloc(tree->n + 1, sizeof(*tree->order)));
    for (size_t i = 0; i < tree->n; i++) {
        snp_record_read(json_array_get(rows, i), &snp_snapshot_row_form, &tree->nodes[i].row);
    }
    for (size_t i = 0; i < tree->n; i++) {
        const char *parent = tree->nodes[i].row.parent;

        tree->nodes[i].parent = SIZE_MAX;
        for (size_t j = 0; parent != NULL && j < tree->n; j++) {
            if (j != i && snp_streq(tree->nodes[j].row.id, parent)) {
                tree->nodes[i].parent = j;
            }
        }
    }
}

static void list_print(FILE *out, const struct tree *tree)
{
    static const char *const titles[] = {"Name",    "Session", "Cell",    "Where", "Size",
                                         "Created", "Parent",  "Head of", "ID"};
    struct snp_table table = SNP_TABLE(titles);
    char text[TEXT_MAX];

    for (size_t i = 0; i < tree->n; i++) {
        const struct snp_snapshot_row *row = &tree->nodes[i].row;
        size_t parent = tree->nodes[i].parent;
        const char *heads;

        snp_table_add(&table, name_of(row));
        snp_table_add(&table, session_of(row));
        snp_table_addf(&table, "%" PRIu64, row->cell);
        snp_table_add(&table, places_text(row, text));
        snp_table_add(&table, snp_human_bytes(row->bytes).text);
        snp_table_add(&table, snp_human_when(row->created).text);
        snp_table_add(&table, row->parent == NULL  ? "-"
                              : parent == SIZE_MAX ? row->parent
                                                   : name_of(&tree->nodes[parent].row));
        heads = heads_text(tree->heads, row->id, text);
        snp_table_add(&table, heads[0] == '\0' ? "-" : heads);
        snp_table_add(&table, row->id);
    }
    snp_table_print(out, &table, "");
}

/* The picture ------------------------------------------------------------------------------- */

static bool has_later_sibling(const struct tree *tree, size_t at)
{
    for (size_t i = at + 1; i < tree->n; i++) {
        if (!tree->nodes[i].is_drawn && tree->nodes[i].parent == tree->nodes[at].parent) {
            return true;
        }
    }
    return false;
}

/* before: the lines of the parent. A child of the same session shows only its name. */
static void node_draw(struct tree *tree, size_t at, const char *before, bool is_last)
{
    struct node *node = &tree->nodes[at];
    const char *branch = tree->is_ascii ? (is_last ? "`- " : "|- ") : (is_last ? "└─ " : "├─ ");
    const char *session = session_of(&node->row);
    bool is_known =
        node->parent != SIZE_MAX && snp_streq(session_of(&tree->nodes[node->parent].row), session);
    snp_autofree char *name = snp_need_format("%s%s%s", is_known ? "" : session,
                                              is_known ? "" : "@", name_of(&node->row));
    snp_autofree char *shown = snp_term_line(name, strlen(name));

    node->is_drawn = true;
    tree->order[tree->n_drawn++] = at;
    node->label = snp_need_format("%s%s%s", before, node->parent == SIZE_MAX ? "" : branch, shown);
    node->name_at = strlen(node->label) - strlen(shown);
    node->width = snp_utf8_count(node->label, strlen(node->label));
}

static size_t child_next(const struct tree *tree, size_t parent)
{
    for (size_t i = 0; i < tree->n; i++) {
        if (!tree->nodes[i].is_drawn && tree->nodes[i].parent == parent) {
            return i;
        }
    }
    return SIZE_MAX;
}

/*
 * Draw below a root, depth first. The lines before a node are those of its ancestors: each adds a
 * bar if it has later siblings, else blanks.
 */
static void root_draw(struct tree *tree, size_t root)
{
    size_t path[DEPTH_DRAWN];
    size_t ends[DEPTH_DRAWN]; /* length of `before` at each depth */
    size_t depth = 0;
    char before[DEPTH_DRAWN * 6 + 1] = "";

    node_draw(tree, root, "", true);
    path[0] = root;
    ends[0] = 0;
    for (;;) {
        size_t at = child_next(tree, path[depth]);

        if (at == SIZE_MAX && depth == 0) {
            return;
        }
        if (at == SIZE_MAX) {
            depth--;
            continue;
        }
        before[ends[depth]] = '\0';
        bool is_last = !has_later_sibling(tree, at);
        node_draw(tree, at, before, is_last);
        if (depth + 1 < DEPTH_DRAWN) {
            const char *bar = is_last ? "   " : tree->is_ascii ? "|  " : "│  ";

            (void)snprintf(before + ends[depth], sizeof(before) - ends[depth], "%s", bar);
            ends[depth + 1] = ends[depth] + strlen(bar);
            depth++;
        } /* else too deep to draw: it continues on the same level */
        path[depth] = at;
    }
}

static void tree_draw(struct tree *tree)
{
    for (size_t i = 0; i < tree->n; i++) {
        if (tree->nodes[i].parent == SIZE_MAX) {
            root_draw(tree, i);
        }
    }
    /* Cycles of parents. */
    for (size_t i = 0; i < tree->n; i++) {
        if (!tree->nodes[i].is_drawn) {
            tree->nodes[i].parent = SIZE_MAX;
            root_draw(tree, i);
        }
    }
}

static void node_print(FILE *out, const struct tree *tree, size_t at, size_t width)
{
    const struct node *node = &tree->nodes[at];
    const struct snp_snapshot_row *row = &node->row;
    bool is_wide = width + DETAILS_COLUMNS <= snp_term_width(out);
    char places[TEXT_MAX];
    char text[TEXT_MAX];
    char cell[32];
    const char *heads = heads_text(tree->heads, row->id, text);

    (void)snprintf(cell, sizeof(cell), "cell %" PRIu64, row->cell);
    (void)fprintf(out, "%.*s", (int)node->name_at, node->label);
    snp_term_put(out, heads[0] != '\0' ? SNP_STYLE_GREEN : SNP_STYLE_BOLD,
                 node->label + node->name_at);
    if (is_wide) {
        (void)fprintf(out, "%*s%-10s  %-12s  %9s  ", (int)(width - node->width) + GAP, "", cell,
                      places_text(row, places), snp_human_bytes(row->bytes).text);
        snp_term_put(out, SNP_STYLE_DIM, snp_human_age(row->created).text);
    } else { /* what fits on a narrow terminal */
        (void)fprintf(out, "%*s%s  %s", GAP, "", cell, places_text(row, places));
    }
    if (heads[0] != '\0') {
        (void)fputs(is_wide ? "" : "\n  ", out);
        (void)fputs(tree->is_ascii ? "  <- " : "  ← ", out);
        snp_term_put(out, SNP_STYLE_GREEN, heads);
    }
    (void)fputc('\n', out);
    if (json_array_size(row->lost) > 0) {
        (void)fprintf(out, "%*s%zu not on disk\n", (int)width + GAP, "",
                      json_array_size(row->lost));
    }
}

void snp_snapshots_print(FILE *out, const json_t *answer)
{
    struct tree tree = {0};
    size_t width = 0;

    tree_init(&tree, answer);
    if (snp_term_is(out)) {
        tree_draw(&tree);
    } else {
        list_print(out, &tree);
    }
    for (size_t i = 0; i < tree.n_drawn; i++) {
        size_t columns = tree.nodes[tree.order[i]].width;

        width = columns > width ? columns : width;
    }
    for (size_t i = 0; i < tree.n_drawn; i++) {
        node_print(out, &tree, tree.order[i], width);
    }
    for (size_t i = 0; i < tree.n; i++) {
        free(tree.nodes[i].label);
    }
    free(tree.nodes);
    free(tree.order);
}
