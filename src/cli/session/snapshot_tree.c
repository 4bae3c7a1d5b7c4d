/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of snapshots.
 *
 * A row's parent may be missing (removed, or of a session that is not listed): then it is
 * a root. Rows are drawn once each whatever their parents say, so a ring ends too.
 */
#include "cli/session/snapshot_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/show/human.h"
#include "cli/show/term.h"
#include "text/escape.h"

enum {
    LIST_COLUMNS = 9,
    SIZE_MAX_BYTES = 32,
    PLACES_MAX = 32,
    DEPTH_DRAWN = 48, /* what is deeper is drawn at this depth */
    LABEL_MAX = 1024,
    HEADS_MAX = 512,
    GAP = 2,
    DETAILS_COLUMNS = 48, /* cell, places, size and age, with gaps */
};

/* One snapshot; texts are borrowed from the answer. */
struct node {
    const json_t *row;
    const char *id;
    size_t parent; /* its index; SIZE_MAX = it is a root */
    bool is_drawn;
    char *label;    /* owned: lines and name, as printed without colour */
    size_t width;   /* its columns */
    size_t name_at; /* where the name begins in it */
};

struct tree {
    struct node *nodes; /* owned */
    size_t n;
    size_t *order; /* owned: as they are drawn */
    size_t n_drawn;
    const json_t *heads; /* borrowed */
    bool is_ascii;
};

static const char *variable(const char *name)
{
    return getenv(name); /* NOLINT(concurrency-mt-unsafe) */
}

/* Whether the locale's characters are UTF-8; the first variable that is set counts. */
static bool is_utf8_locale(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        const char *value = variable(names[i]);

        if (value != NULL && value[0] != '\0') {
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
        }
    }
    return false;
}

static const char *name_of(const json_t *row)
{
    return snp_json_str(row, "name", snp_json_str(row, "id", "?"));
}

static const char *session_of(const json_t *row)
{
    return snp_json_str(row, "session_name", snp_json_str(row, "session", "?"));
}

/* "memory, disk" */
static const char *places_text(const json_t *row, char *out, size_t out_len)
{
    const json_t *where = json_object_get(row, "where");
    size_t used = 0;

    (void)snprintf(out, out_len, "nowhere");
    for (size_t i = 0; i < json_array_size(where) && used < out_len; i++) {
        const char *place = json_string_value(json_array_get(where, i));

        used += (size_t)snprintf(out + used, out_len - used, "%s%s", i == 0 ? "" : ", ",
                                 place == NULL ? "?" : place);
    }
    return out;
}

/* The names of the sessions that stand on a snapshot: "work, try-1"; "" = none. */
static void heads_text(const json_t *heads, const char *id, struct snp_buf *out)
{
    bool any = false;

    for (size_t i = 0; i < json_array_size(heads); i++) {
        const json_t *head = json_array_get(heads, i);
        const char *session = snp_json_str(head, "name", snp_json_str(head, "session", "?"));

        if (snp_streq(snp_json_str(head, "snapshot", NULL), id)) {
            if (snp_buf_addf(out, "%s%s", any ? ", " : "", session) < 0) {
                return; /* what fits is shown */
            }
            any = true;
        }
    }
}

/* The plain list ---------------------------------------------------------------------------- */

/* The texts of one row that are not in the JSON as they are shown. */
struct line {
    char cell[SNP_HUMAN_MAX];
    char where[PLACES_MAX];
    char size[SIZE_MAX_BYTES];
    char when[SNP_HUMAN_MAX];
    struct snp_buf heads;
};

static const char *parent_name(const json_t *rows, const json_t *row)
{
    const char *parent = snp_json_str(row, "parent", NULL);

    for (size_t i = 0; parent != NULL && i < json_array_size(rows); i++) {
        const json_t *other = json_array_get(rows, i);

        if (snp_streq(snp_json_str(other, "id", NULL), parent)) {
            return name_of(other);
        }
    }
    return parent == NULL ? "-" : parent;
}

static void line_fill(const json_t *answer,
                      const json_t *row,
                      struct line *line,
                      const char **cells)
{
    const char *heads;

    snp_buf_init(&line->heads, HEADS_MAX);
    (void)snprintf(line->cell, sizeof(line->cell), "%lld",
                   (long long)snp_json_int(row, "cell", 0));
    heads_text(json_object_get(answer, "heads"), snp_json_str(row, "id", ""), &line->heads);
    heads = line->heads.len == 0 ? NULL : snp_buf_cstr(&line->heads);
    cells[0] = name_of(row);
    cells[1] = session_of(row);
    cells[2] = line->cell;
    cells[3] = places_text(row, line->where, sizeof(line->where));
    cells[4] = snp_format_bytes((uint64_t)snp_json_int(row, "bytes", 0), line->size,
                                sizeof(line->size));
    cells[5] = snp_human_when(snp_json_number(row, "created"), line->when, sizeof(line->when));
    cells[6] = parent_name(json_object_get(answer, "snapshots"), row);
    cells[7] = heads == NULL ? "-" : heads;
    cells[8] = snp_json_str(row, "id", "?");
}

static int list_print(FILE *out, const json_t *answer, struct snp_err *err)
{
    static const char *const heads[LIST_COLUMNS] = {
        "Name", "Session", "Cell", "Where", "Size", "Created", "Parent", "Head of", "ID"};
    const json_t *rows = json_object_get(answer, "snapshots");
    size_t n = json_array_size(rows);
    snp_autofree struct line *lines = calloc(n + 1, sizeof(*lines));
    snp_autofree const char **cells = calloc((n + 1) * LIST_COLUMNS, sizeof(*cells));
    struct snp_table table = {.heads = heads, .n_cols = LIST_COLUMNS, .n_rows = n};

    if (lines == NULL || cells == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        line_fill(answer, json_array_get(rows, i), &lines[i], &cells[i * LIST_COLUMNS]);
    }
    table.cells = cells;
    snp_table_print(out, &table);
    for (size_t i = 0; i < n; i++) {
        snp_buf_done(&lines[i].heads);
    }
    return 0;
}

/* The picture ------------------------------------------------------------------------------- */

static void tree_done(struct tree *tree)
{
    for (size_t i = 0; tree->nodes != NULL && i < tree->n; i++) {
        free(tree->nodes[i].label);
    }
    free(tree->nodes);
    free(tree->order);
}

static int tree_init(struct tree *tree, const json_t *answer, struct snp_err *err)
{
    const json_t *rows = json_object_get(answer, "snapshots");

    tree->n = json_array_size(rows);
    tree->heads = json_object_get(answer, "heads");
    tree->is_ascii = !is_utf8_locale();
    tree->nodes = calloc(tree->n + 1, sizeof(*tree->nodes));
    tree->order = calloc(tree->n + 1, sizeof(*tree->order));
    if (tree->nodes == NULL || tree->order == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < tree->n; i++) {
        tree->nodes[i].row = json_array_get(rows, i);
        tree->nodes[i].id = snp_json_str(tree->nodes[i].row, "id", "");
    }
    for (size_t i = 0; i < tree->n; i++) {
        const char *parent = snp_json_str(tree->nodes[i].row, "parent", NULL);

        tree->nodes[i].parent = SIZE_MAX;
        for (size_t j = 0; parent != NULL && j < tree->n; j++) {
            if (j != i && strcmp(tree->nodes[j].id, parent) == 0) {
                tree->nodes[i].parent = j;
            }
        }
    }
    return 0;
}

static bool has_later_sibling(const struct tree *tree, size_t at)
{
    for (size_t i = at + 1; i < tree->n; i++) {
        if (!tree->nodes[i].is_drawn && tree->nodes[i].parent == tree->nodes[at].parent) {
            return true;
        }
    }
    return false;
}

/* A child of the same session needs no more than its name. */
static int label_name(const struct tree *tree, size_t at, struct snp_buf *out)
{
    const struct node *node = &tree->nodes[at];
    const char *session = session_of(node->row);
    bool is_known = node->parent != SIZE_MAX &&
                    strcmp(session_of(tree->nodes[node->parent].row), session) == 0;

    return is_known ? snp_buf_adds(out, name_of(node->row))
                    : snp_buf_addf(out, "%s@%s", session, name_of(node->row));
}

/* before: the lines of what it hangs on. */
static int label_make(struct tree *tree, size_t at, const char *before, bool is_last)
{
    struct node *node = &tree->nodes[at];
    snp_autobuf struct snp_buf text = {0};
    snp_autobuf struct snp_buf shown = {0};
    const char *branch = tree->is_ascii ? (is_last ? "`- " : "|- ") : (is_last ? "└─ " : "├─ ");
    const char *whole;
    int r;

    snp_buf_init(&text, LABEL_MAX);
    snp_buf_init(&shown, (size_t)8 * LABEL_MAX);
    r = snp_buf_addf(&shown, "%s%s", before, node->parent == SIZE_MAX ? "" : branch);
    node->name_at = shown.len;
    if (r == 0) {
        r = label_name(tree, at, &text);
    }
    if (r == 0) {
        r = snp_escape(&shown, snp_buf_bytes(&text), text.len);
    }
    whole = r < 0 ? NULL : snp_buf_cstr(&shown);
    node->label = whole == NULL ? NULL : strdup(whole);
    node->width = shown.len == 0 ? 0 : snp_utf8_count(snp_buf_bytes(&shown), shown.len);
    return node->label == NULL ? SNP_E_NOMEM : 0;
}

static int node_draw(struct tree *tree, size_t at, const char *before, bool is_last)
{
    tree->nodes[at].is_drawn = true;
    tree->order[tree->n_drawn++] = at;
    return label_make(tree, at, before, is_last);
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
 * Below a root, depth first. The lines before a node are those of the nodes above it: each adds
 * a bar if it has siblings still to come, else blanks.
 */
static int root_draw(struct tree *tree, size_t root)
{
    size_t path[DEPTH_DRAWN];
    size_t ends[DEPTH_DRAWN]; /* length of `before` at each depth */
    size_t depth = 0;
    char before[DEPTH_DRAWN * 6 + 1] = "";
    size_t at = root;
    int r = node_draw(tree, root, "", true);

    path[0] = root;
    ends[0] = 0;
    while (r == 0) {
        at = child_next(tree, path[depth]);
        if (at == SIZE_MAX) {
            if (depth == 0) {
                return 0;
            }
            depth--;
            continue;
        }
        before[ends[depth]] = '\0';
        bool is_last = !has_later_sibling(tree, at);
        r = node_draw(tree, at, before, is_last);
        if (depth + 1 < DEPTH_DRAWN) {
            const char *bar = is_last ? "   " : tree->is_ascii ? "|  " : "│  ";

            (void)snprintf(before + ends[depth], sizeof(before) - ends[depth], "%s", bar);
            ends[depth + 1] = ends[depth] + strlen(bar);
            depth++;
            path[depth] = at;
        } else {
            path[depth] = at; /* too deep to draw: it goes on beside */
        }
    }
    return r;
}

static int tree_draw(struct tree *tree)
{
    int r = 0;

    for (size_t i = 0; i < tree->n && r == 0; i++) {
        if (tree->nodes[i].parent == SIZE_MAX) {
            r = root_draw(tree, i);
        }
    }
    /* What hangs on itself. */
    for (size_t i = 0; i < tree->n && r == 0; i++) {
        if (!tree->nodes[i].is_drawn) {
            tree->nodes[i].parent = SIZE_MAX;
            r = root_draw(tree, i);
        }
    }
    return r;
}

static void node_print(FILE *out, const struct tree *tree, size_t at, size_t width)
{
    const struct node *node = &tree->nodes[at];
    snp_autobuf struct snp_buf heads = {0};
    char cell[SNP_HUMAN_MAX];
    char where[PLACES_MAX];
    char size[SIZE_MAX_BYTES];
    char age[SNP_HUMAN_MAX];
    bool is_wide = width + DETAILS_COLUMNS <= snp_term_width(out);
    const char *names;

    snp_buf_init(&heads, HEADS_MAX);
    heads_text(tree->heads, node->id, &heads);
    names = heads.len == 0 ? NULL : snp_buf_cstr(&heads);
    (void)snprintf(cell, sizeof(cell), "cell %lld",
                   (long long)snp_json_int(node->row, "cell", 0));
    (void)fprintf(out, "%.*s", (int)node->name_at, node->label);
    snp_term_put(out, names != NULL ? SNP_STYLE_GREEN : SNP_STYLE_BOLD,
                 node->label + node->name_at);
    if (is_wide) {
        (void)fprintf(out, "%*s%-10s  %-12s  %9s  ", (int)(width - node->width) + GAP, "", cell,
                      places_text(node->row, where, sizeof(where)),
                      snp_format_bytes((uint64_t)snp_json_int(node->row, "bytes", 0), size,
                                       sizeof(size)));
        snp_term_put(out, SNP_STYLE_DIM,
                     snp_human_age(snp_json_number(node->row, "created"), age, sizeof(age)));
    } else { /* what a narrow terminal has room for */
        (void)fprintf(out, "%*s%s  %s", GAP, "", cell,
                      places_text(node->row, where, sizeof(where)));
    }
    if (names != NULL) {
        (void)fputs(is_wide ? "" : "\n  ", out);
        (void)fputs(tree->is_ascii ? "  <- " : "  ← ", out);
        snp_term_put(out, SNP_STYLE_GREEN, names);
    }
    (void)fputc('\n', out);
    if (json_array_size(json_object_get(node->row, "lost")) > 0) {
        (void)fprintf(out, "%*s", (int)width + GAP, "");
        (void)fprintf(out, "%zu not on disk\n",
                      json_array_size(json_object_get(node->row, "lost")));
    }
}

int snp_snapshots_print(FILE *out, const json_t *answer, struct snp_err *err)
{
    struct tree tree = {0};
    size_t width = 0;
    int r;

    if (!snp_term_is(out)) {
        return list_print(out, answer, err);
    }
    r = tree_init(&tree, answer, err);
    if (r == 0 && tree_draw(&tree) < 0) {
        r = snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; r == 0 && i < tree.n_drawn; i++) {
        size_t columns = tree.nodes[tree.order[i]].width;

        width = columns > width ? columns : width;
    }
    for (size_t i = 0; r == 0 && i < tree.n_drawn; i++) {
        node_print(out, &tree, tree.order[i], width);
    }
    tree_done(&tree);
    return r;
}
