/* SPDX-License-Identifier: Apache-2.0 */
#include "context/chunk.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

enum {
    SECTION_LINES = 40,     /* then the section ends at the next empty line */
    SECTION_LINES_MAX = 80, /* and here even without one */
    NAME_MAX_BYTES = 200,
    DEPTH_MAX = 20, /* parts of a qualified name */
};

static const char *const kind_names[SNP_CHUNK_KINDS] = {
    "file",      "section", "method",   "function", "class",
    "interface", "type",    "constant", "module",   "macro",
};

const char *snp_chunk_kind_name(enum snp_chunk_kind kind)
{
    return kind_names[kind];
}

void snp_chunks_done(struct snp_chunks *chunks)
{
    free(chunks->items);
    free(chunks->references);
    free(chunks->imports);
    *chunks = (struct snp_chunks){0};
}

/* Lines are counted forwards only: chunks are sorted by their start, not by their end. */
struct line_counter {
    const char *text;
    uint32_t at;
    uint32_t line;
};

static uint32_t line_of(struct line_counter *lines, uint32_t at)
{
    while (lines->at < at) {
        const char *end = memchr(lines->text + lines->at, '\n', at - lines->at);

        if (end == NULL) {
            lines->at = at;
        } else {
            lines->line++;
            lines->at = (uint32_t)(end - lines->text) + 1;
        }
    }
    return lines->line;
}

static void lines_set(struct line_counter *lines, const char *text, struct snp_chunk *chunk)
{
    struct line_counter inside;
    uint32_t end = chunk->all.end;

    chunk->lines[0] = line_of(lines, chunk->all.start);
    inside = (struct line_counter){text, lines->at, lines->line};
    while (end > chunk->all.start && (text[end - 1] == '\n' || text[end - 1] == '\r')) {
        end--; /* a chunk ends with its last line of text */
    }
    chunk->lines[1] = line_of(&inside, end);
}

/* Plain text --------------------------------------------------------------------------- */

static bool is_empty_line(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') {
            return false;
        }
    }
    return true;
}

static void section_end(struct snp_chunks *chunks, uint32_t end)
{
    struct snp_chunk *last = &chunks->items[chunks->n - 1];

    if (last->kind == SNP_CHUNK_SECTION) {
        last->all.end = end;
    }
}

static void section_begin(struct snp_chunks *chunks, uint32_t at, size_t len)
{
    size_t n = len < NAME_MAX_BYTES ? len : NAME_MAX_BYTES;
    struct snp_parse_range name = {at, at + (uint32_t)n};

    section_end(chunks, at);
    chunks->items[chunks->n++] = (struct snp_chunk){
        .kind = SNP_CHUNK_SECTION, .all = {at, at}, .name = name, .signature = name};
}

/*
 * A section begins at a Markdown heading, or after an empty line once the previous section is long.
 */
static int sections(const char *text, size_t n, struct snp_chunks *chunks)
{
    size_t room = 2;
    unsigned lines = 0;
    bool is_after_empty = true;
    struct snp_chunk *items;

    for (const char *at = text; (at = memchr(at, '\n', n - (size_t)(at - text))) != NULL; at++) {
        room++;
    }
    items = realloc(chunks->items, room * sizeof(*items));
    if (items == NULL) {
        return SNP_E_NOMEM;
    }
    chunks->items = items;
    for (size_t i = 0; i < n;) {
        const char *newline = memchr(text + i, '\n', n - i);
        size_t len = newline == NULL ? n - i : (size_t)(newline - (text + i));
        bool is_empty = is_empty_line(text + i, len);

        if (!is_empty && (chunks->n == 1 || text[i] == '#' || lines >= SECTION_LINES_MAX ||
                          (lines >= SECTION_LINES && is_after_empty))) {
            section_begin(chunks, (uint32_t)i, len);
            lines = 0;
        }
        is_after_empty = is_empty;
        lines++;
        i += len + (newline != NULL);
    }
    section_end(chunks, (uint32_t)n);
    return 0;
}

/* Code --------------------------------------------------------------------------------- */

static bool is_class(enum snp_chunk_kind kind)
{
    return kind == SNP_CHUNK_CLASS || kind == SNP_CHUNK_INTERFACE;
}

static uint32_t innermost(const struct snp_chunks *chunks, uint32_t last, uint32_t end)
{
    while (last != 0 && chunks->items[last].all.end < end) {
        last = chunks->items[last].parent;
    }
    return last;
}

static void definition(struct snp_chunks *chunks, const struct snp_parse_item *item)
{
    uint32_t last = (uint32_t)chunks->n - 1;
    const struct snp_chunk *before = &chunks->items[last];
    struct snp_chunk chunk = {
        .kind = (enum snp_chunk_kind)(SNP_CHUNK_FUNCTION + item->kind),
        .all = item->all,
        .name = item->name,
        .signature = item->signature,
        .doc = item->doc,
    };

    if (before->kind != SNP_CHUNK_FILE &&
        (before->name.start == item->name.start || item->all.start < before->all.start)) {
        return; /* found by two patterns */
    }
    chunk.parent = innermost(chunks, last, item->all.start + 1);
    if (chunks->items[chunk.parent].all.end < chunk.all.end) {
        return; /* overlaps its parent without lying in it: no grammar does that */
    }
    if (chunk.kind == SNP_CHUNK_FUNCTION && is_class(chunks->items[chunk.parent].kind)) {
        chunk.kind = SNP_CHUNK_METHOD;
    }
    chunks->items[chunks->n++] = chunk;
}

static int definitions(const struct snp_parse_item *items,
                       size_t n_items,
                       struct snp_chunks *chunks)
{
    struct snp_chunk *more = realloc(chunks->items, (n_items + 1) * sizeof(*more));

    chunks->items = more == NULL ? chunks->items : more;
    chunks->references = malloc((n_items + 1) * sizeof(*chunks->references));
    chunks->imports = malloc((n_items + 1) * sizeof(*chunks->imports));
    if (more == NULL || chunks->references == NULL || chunks->imports == NULL) {
        return SNP_E_NOMEM;
    }
    for (size_t i = 0; i < n_items; i++) {
        uint32_t in = innermost(chunks, (uint32_t)chunks->n - 1, items[i].all.end);

        if (items[i].kind == SNP_PARSE_IMPORT) {
            chunks->imports[chunks->n_imports++] = (struct snp_mention){items[i].name, 0};
        } else if (items[i].kind == SNP_PARSE_REFERENCE) {
            chunks->references[chunks->n_references++] = (struct snp_mention){items[i].name, in};
        } else {
            definition(chunks, &items[i]);
        }
    }
    return 0;
}

int snp_chunks_make(const char *text,
                    size_t n,
                    const struct snp_parse_item *items,
                    size_t n_items,
                    struct snp_chunks *ret)
{
    struct line_counter lines = {text, 0, 1};
    int r;

    *ret = (struct snp_chunks){.items = calloc(1, sizeof(*ret->items)), .n = 1};
    if (ret->items == NULL) {
        return SNP_E_NOMEM;
    }
    ret->items[0].all.end = (uint32_t)n;
    r = items == NULL ? sections(text, n, ret) : definitions(items, n_items, ret);
    if (r < 0) {
        snp_chunks_done(ret);
        return r;
    }
    for (size_t i = 0; i < ret->n; i++) {
        lines_set(&lines, text, &ret->items[i]);
    }
    return 0;
}

/* Texts -------------------------------------------------------------------------------- */

static int range_add(struct snp_buf *out, const char *text, struct snp_parse_range range)
{
    return range.start >= range.end ? 0
                                    : snp_buf_add(out, text + range.start, range.end - range.start);
}

int snp_chunk_qualified(const struct snp_chunks *chunks,
                        size_t i,
                        const char *text,
                        struct snp_buf *out)
{
    size_t path[DEPTH_MAX];
    size_t n = 0;

    for (size_t at = i; at != 0 && n < DEPTH_MAX; at = chunks->items[at].parent) {
        path[n++] = at;
    }
    while (n-- > 0) {
        SNP_TRY(range_add(out, text, chunks->items[path[n]].name));
        SNP_TRY(n == 0 ? 0 : snp_buf_adds(out, "."));
    }
    return 0;
}

int snp_chunk_body(const struct snp_chunks *chunks, size_t i, const char *text, struct snp_buf *out)
{
    const struct snp_chunk *chunk = &chunks->items[i];
    struct snp_parse_range rest = chunk->all;

    int r = 0;

    if (chunk->doc.end > chunk->doc.start && chunk->doc.start >= rest.start &&
        chunk->doc.end <= rest.end) {
        r = range_add(out, text, (struct snp_parse_range){rest.start, chunk->doc.start});
        rest.start = chunk->doc.end;
    }
    for (size_t child = i + 1;
         r == 0 && child < chunks->n && chunks->items[child].all.start < chunk->all.end; child++) {
        const struct snp_parse_range *inner = &chunks->items[child].all;

        if (chunks->items[child].parent == i && inner->end > rest.start) {
            r = range_add(out, text, (struct snp_parse_range){rest.start, inner->start});
            rest.start = inner->end;
        }
    }
    return r < 0 ? r : range_add(out, text, rest);
}
