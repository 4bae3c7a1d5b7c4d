/* SPDX-License-Identifier: Apache-2.0 */
#include "context/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "context/words.h"

enum {
    TERMS_MAX = 32,
    MATCH_MAX = 8192,
    LIST_MAX = 60, /* of one list */
    FUSE = 60,     /* of reciprocal rank: how little the first places differ */
    IMPORTS_MAX = 200,
};

/* The weight of what the question names as code is written: before all others. */
#define FIRST 3.0

/* The question ------------------------------------------------------------------------- */

/* For the full text search: "a" OR "b". Common words only if there are no others. */
struct terms {
    struct snp_buf match;
    char seen[TERMS_MAX][SNP_WORD_MAX + 1];
    size_t n;
    bool takes_common;
};

static int term(void *arg,
                const char *word,
                size_t n,
                size_t start SNP_UNUSED,
                size_t end SNP_UNUSED,
                bool is_part SNP_UNUSED)
{
    struct terms *terms = arg;
    char *place = terms->seen[terms->n];

    if (terms->n + 1 == TERMS_MAX || (!terms->takes_common && snp_word_is_common(word, n))) {
        return 0;
    }
    memcpy(place, word, n);
    place[n] = '\0';
    for (size_t i = 0; i < terms->n; i++) {
        if (snp_streq(terms->seen[i], place)) {
            return 0;
        }
    }
    terms->n++;
    return snp_buf_addf(&terms->match, "%s\"%s\"", terms->n > 1 ? " OR " : "", place);
}

/* Lists -------------------------------------------------------------------------------- */

static struct snp_hit *hit_of(struct snp_hits *hits, int64_t chunk, int64_t file)
{
    for (size_t i = 0; i < hits->n; i++) {
        if (hits->items[i].chunk == chunk) {
            return &hits->items[i];
        }
    }
    if (hits->n == SNP_QUERY_HITS_MAX) {
        return NULL;
    }
    hits->items[hits->n] = (struct snp_hit){.chunk = chunk, .file = file};
    return &hits->items[hits->n++];
}

/* One more list has it at this place, from 0. */
static struct snp_hit *fuse(struct snp_hits *hits,
                            int64_t chunk,
                            int64_t file,
                            unsigned why,
                            size_t rank,
                            double weight)
{
    struct snp_hit *hit = hit_of(hits, chunk, file);

    if (hit != NULL && (hit->why & why) == 0) {
        hit->why |= why;
        hit->score += weight / (double)(FUSE + rank);
    }
    return hit;
}

/* Rows of (chunk, file) as a list. */
static int list(struct snp_hits *hits,
                struct snp_rows *rows,
                unsigned why,
                double weight,
                size_t *ret_n,
                struct snp_err *err)
{
    size_t n = 0;
    int r = 0;

    while (r == 0 && n < LIST_MAX && (r = snp_db_step(rows, err)) > 0) {
        struct snp_hit *hit = fuse(hits, (int64_t)snp_col_u64(rows, 0),
                                   (int64_t)snp_col_u64(rows, 1), why, n++, weight);

        if (hit != NULL && weight >= FIRST) {
            hit->is_first = true;
        }
        r = 0;
    }
    if (ret_n != NULL) {
        *ret_n = n;
    }
    return r;
}

static int by_words(struct snp_index *index,
                    const char *text,
                    struct snp_hits *hits,
                    struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    struct terms terms = {.match = SNP_BUF(MATCH_MAX)};
    int r = snp_words(text, strlen(text), term, &terms);

    if (r == 0 && terms.n == 0) {
        terms.takes_common = true;
        r = snp_words(text, strlen(text), term, &terms);
    }
    if (r == 0 && terms.n > 0) {
        const char *match = snp_buf_cstr(&terms.match);

        r = match == NULL ? snp_fail(err, SNP_E_NOMEM, "out of memory")
                          : snp_db_ask(&index->db, &rows, err,
                                       "SELECT f.rowid, c.file FROM (SELECT rowid FROM fts"
                                       " WHERE fts MATCH ? AND rank MATCH"
                                       " 'bm25(6.0, 2.0, 3.0, 1.0)' ORDER BY rank LIMIT 60) f"
                                       " CROSS JOIN chunk c ON c.id = f.rowid",
                                       "t", match);
        SNP_THEN(r, list(hits, &rows, SNP_WHY_WORDS, 1.0, NULL, err));
    }
    snp_buf_done(&terms.match);
    return r;
}

/* Names -------------------------------------------------------------------------------- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("_$./-:#", c) != NULL || (unsigned char)c >= 0x80;
}

/* Written as names of code are, so it is meant: a.b, a_b, aB, a/b. */
static bool is_code(const char *word)
{
    for (const char *at = word + 1; at[0] != '\0'; at++) {
        if (strchr("_./:#$", *at) != NULL || (*at >= 'A' && *at <= 'Z')) {
            return true;
        }
    }
    return false;
}

static int by_path(struct snp_index *index,
                   const char *word,
                   struct snp_hits *hits,
                   size_t *ret_n,
                   struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    snp_autofree char *end = snp_format("/%s", word);

    SNP_TRY_MEMORY(end, err);
    SNP_TRY(snp_db_ask(&index->db, &rows, err,
                       "SELECT c.id, f.id FROM file f JOIN chunk c ON c.file = f.id AND"
                       " c.ordinal = 0 WHERE f.path = ?1 OR substr(f.path, -length(?2)) = ?2"
                       " ORDER BY length(f.path) LIMIT 20",
                       "tt", word, end));
    return list(hits, &rows, SNP_WHY_PATH, FIRST, ret_n, err);
}

/* The last name of a.b or a::b; the whole where there is but one. */
static const char *last_name(const char *word)
{
    const char *last = word;

    for (const char *at = word; *at != '\0'; at++) {
        if (strchr(".:#/", *at) != NULL && at[1] != '\0') {
            last = at + 1;
        }
    }
    return last;
}

static int by_name(struct snp_index *index,
                   const char *word,
                   bool is_first,
                   struct snp_hits *hits,
                   size_t *ret_n,
                   struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    const char *name = last_name(word);

    /* one in the class or module that was named, spelt alike, with a body, before the others */
    SNP_TRY(snp_db_ask(
        &index->db, &rows, err,
        "SELECT c.id, c.file FROM chunk c WHERE c.name = ?1 COLLATE NOCASE AND c.kind > 1"
        " ORDER BY (c.qualified = ?2 OR substr(c.qualified, -length(?2) - 1) = '.' || ?2) DESC,"
        " c.name = ?1 DESC, c.last > c.first DESC, c.parent = 0 DESC, c.id LIMIT 20",
        "tt", name, word));
    return list(hits, &rows, SNP_WHY_EXACT, is_first ? FIRST : 0.3, ret_n, err);
}

static int callers(struct snp_index *index,
                   const char *name,
                   struct snp_hits *hits,
                   struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};

    SNP_TRY(snp_db_ask(&index->db, &rows, err,
                       "SELECT chunk, file FROM reference WHERE name = ? LIMIT 20", "t", name));
    return list(hits, &rows, SNP_WHY_CALLER, 0.5, NULL, err);
}

static int one_word(struct snp_index *index,
                    const char *word,
                    bool is_alone,
                    struct snp_hits *hits,
                    struct snp_err *err)
{
    bool is_first = is_alone || is_code(word);
    size_t n_names = 0;
    size_t n_paths = 0;

    if (snp_word_is_common(word, strlen(word))) {
        return 0;
    }
    SNP_TRY(by_name(index, word, is_first, hits, &n_names, err));
    SNP_TRY(is_first ? by_path(index, word, hits, &n_paths, err) : 0);
    if (is_first && n_names + n_paths > 0 && hits->named[0] == '\0') {
        (void)snprintf(hits->named, sizeof(hits->named), "%s", word);
    }
    return is_first && n_names > 0 ? callers(index, last_name(word), hits, err) : 0;
}

static int by_names(struct snp_index *index,
                    const char *text,
                    struct snp_hits *hits,
                    struct snp_err *err)
{
    size_t tried = 0;
    int r = 0;

    for (const char *at = text; r == 0 && *at != '\0' && tried < TERMS_MAX;) {
        char word[128];
        size_t n = 0;

        while (at[n] != '\0' && is_name_char(at[n])) {
            n++;
        }
        size_t end = n;
        while (end > 0 && strchr(".:/#-", at[end - 1]) != NULL) {
            end--; /* of the sentence */
        }
        if (end > 1 && end < sizeof(word)) {
            bool is_alone =
                at == text + strspn(text, " \"'`") &&
                strcspn(at + n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") ==
                    strlen(at + n);

            (void)snprintf(word, sizeof(word), "%.*s", (int)end, at);
            r = one_word(index, word, is_alone, hits, err);
            tried++;
        }
        at += n == 0 ? 1 : n;
    }
    return r;
}

/* The current file ---------------------------------------------------------------------- */

/* Whether an import may mean the file: its parts are the end of the path, without what the path ends in. */
static bool imports(const char *import, const char *path)
{
    char plain[SNP_WALK_PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash == NULL ? path : slash, '.');
    size_t n_path = dot == NULL ? strlen(path) : (size_t)(dot - path);
    size_t n = 0;

    while (*import == '.' || *import == '/' || *import == '<') {
        import++;
    }
    for (; *import != '\0' && *import != '>' && n + 1 < sizeof(plain); import++) {
        bool is_next = import[0] == ':' && import[1] == ':';

        plain[n++] = (char)(is_next ? '/' : *import);
        import += is_next;
    }
    plain[n] = '\0';
    if (n > n_path && n <= strlen(path)) {
        n_path = strlen(path); /* written with its ending, as in C */
    }
    if (n == 0 || n > n_path || (n < n_path && path[n_path - n - 1] != '/')) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        char c = path[n_path - n + i];

        if (plain[i] != c && !(plain[i] == '.' && c == '/')) {
            return false;
        }
    }
    return true;
}

struct imported {
    char *names[IMPORTS_MAX]; /* owned */
    size_t n;
};

static void imported_done(struct imported *imported)
{
    for (size_t i = 0; i < imported->n; i++) {
        free(imported->names[i]);
    }
}

static int near_current(struct snp_index *index,
                        const char *current,
                        struct snp_hits *hits,
                        struct snp_err *err)
{
    snp_cleanup(imported_done) struct imported imported = {0};
    snp_autorows struct snp_rows rows = {0};
    int64_t file;
    size_t rank = 0;
    int r;

    SNP_TRY(snp_index_file(index, current, &file, err));
    r = snp_db_ask(&index->db, &rows, err, "SELECT name FROM import WHERE file = ? LIMIT 200",
                   "i", file);
    while (r == 0 && imported.n < IMPORTS_MAX && (r = snp_db_step(&rows, err)) > 0) {
        imported.names[imported.n] = strdup(snp_col_text(&rows, 0));
        SNP_TRY_MEMORY(imported.names[imported.n], err);
        imported.n++;
        r = 0;
    }
    SNP_TRY(r);
    for (size_t i = 0, n = hits->n; i < n; i++) {
        struct snp_hit *hit = &hits->items[i];
        snp_autorows struct snp_rows row = {0};
        bool is_imported = false;

        SNP_TRY(snp_db_row(&index->db, &row, err, "SELECT path FROM file WHERE id = ?", "i",
                           hit->file));
        for (size_t k = 0; k < imported.n && !is_imported; k++) {
            is_imported = imports(imported.names[k], snp_col_text(&row, 0));
        }
        if (hit->file == file || is_imported) {
            (void)fuse(hits, hit->chunk, hit->file,
                       hit->file == file ? SNP_WHY_CURRENT : SNP_WHY_IMPORTED, rank++, 1.0);
        }
    }
    return 0;
}

static int by_score(const void *a, const void *b)
{
    const struct snp_hit *one = a;
    const struct snp_hit *other = b;

    if (one->is_first != other->is_first) {
        return one->is_first ? -1 : 1;
    }
    if (one->score != other->score) {
        return one->score > other->score ? -1 : 1;
    }
    return one->chunk < other->chunk ? -1 : one->chunk > other->chunk;
}

int snp_rank(struct snp_index *index,
             const struct snp_query *query,
             struct snp_hits *ret,
             struct snp_err *err)
{
    *ret = (struct snp_hits){0};
    SNP_TRY(by_names(index, query->text, ret, err));
    SNP_TRY(by_words(index, query->text, ret, err));
    SNP_TRY(query->current == NULL ? 0 : near_current(index, query->current, ret, err));
    qsort(ret->items, ret->n, sizeof(ret->items[0]), by_score);
    return 0;
}
