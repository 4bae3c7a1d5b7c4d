/* SPDX-License-Identifier: Apache-2.0 */
#include "context/rank.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "context/meaning.h"
#include "context/words.h"

enum {
    TERMS_MAX = 32,
    MATCH_MAX = 8192,
    LIST_MAX = 60,     /* hits of one list */
    MATCHED_MAX = 150, /* hits with words of the query, before they are ranked */
    FUSE = 60,         /* constant of reciprocal rank fusion: how little the first places differ */
    IMPORTS_MAX = 200,
    USERS_MAX = 20,  /* of a name: tests, and other code */
    CALLS_MAX = 200, /* of a name: one with more callers tells little about each */
    RECENT_MAX = 32, /* files */
};

/*
 * The best hit has a BM25 of about 20. The weights were chosen with the tuning half of tools/bench
 * --only retrieval.
 */
#define COVER_WEIGHT   3.0
#define BESIDE_WEIGHT  0.25 /* of the best BM25 in the same class or, outside of classes, file */
#define CALLER_WEIGHT  0.1  /* of the best BM25 of its callers */
#define MEANING_WEIGHT 15.0
#define OTHERS_SHARE   0.9 /* of the least BM25, for hits without a word of the query */

#define USER_WEIGHT 0.5
/*
 * For the last changed file about three places at the top, among equals; half of that for the file
 * before it, then a third, ...
 */
#define RECENT_WEIGHT 0.05

/* A checkout gives all files the same time; files this much newer than most were edited since. */
#define RECENT_NS INT64_C(3600000000000)

/* The weight of names written as code in the query: before all others. */
#define FIRST 3.0

/* The question ------------------------------------------------------------------------- */

/* A query of the full-text search: "a" OR "b". Common words only if there are no others. */
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

/* Add a list's score for a chunk; rank: its place in that list, from 0. */
static struct snp_hit *fuse(
    struct snp_hits *hits, int64_t chunk, int64_t file, unsigned why, size_t rank, double weight)
{
    struct snp_hit *hit = hit_of(hits, chunk, file);

    if (hit != NULL && (hit->why & why) == 0) {
        hit->why |= why;
        hit->score += weight / (double)(FUSE + rank);
    }
    return hit;
}

/* Fuse rows of (chunk, file) as a list; with a weight of FIRST (chunk, file, level). */
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
            hit->level = (unsigned)snp_col_u64(rows, 2);
        }
        r = 0;
    }
    if (ret_n != NULL) {
        *ret_n = n;
    }
    return r;
}

/* Words and meaning ---------------------------------------------------------------------- */

/* A chunk with words of the query or a similar meaning; the score is a sum of both. */
struct candidate {
    int64_t chunk;
    int64_t file;
    uint64_t parent; /* number among its file's chunks, from 1; 0 = none */
    unsigned why;
    double words; /* BM25; 0 = no words of the query */
    double score;
};

struct candidates {
    struct candidate items[MATCHED_MAX + LIST_MAX];
    size_t n;
    struct snp_meants meant;
};

/* A query is more often about a function than about other definitions. */
static double kind_weight(uint64_t kind)
{
    static const double weights[SNP_CHUNK_KINDS] = {
        [SNP_CHUNK_FILE] = 0.7,   [SNP_CHUNK_SECTION] = 1,    [SNP_CHUNK_METHOD] = 1,
        [SNP_CHUNK_FUNCTION] = 1, [SNP_CHUNK_CLASS] = 0.8,    [SNP_CHUNK_INTERFACE] = 0.8,
        [SNP_CHUNK_TYPE] = 0.7,   [SNP_CHUNK_CONSTANT] = 0.6, [SNP_CHUNK_MODULE] = 0.8,
        [SNP_CHUNK_MACRO] = 0.8,
    };

    return kind < SNP_CHUNK_KINDS ? weights[kind] : 1;
}

/* How many words of a name the query has. */
struct cover {
    const struct terms *terms;
    size_t last; /* start of the previous word, which is not counted if it has parts */
    size_t n, n_said;
    bool was_said;
};

static int cover_word(
    void *arg, const char *word, size_t n, size_t start, size_t end SNP_UNUSED, bool is_part)
{
    struct cover *cover = arg;
    bool is_said = false;

    for (size_t i = 0; i < cover->terms->n && !is_said; i++) {
        const char *term = cover->terms->seen[i];

        is_said = strlen(term) == n && memcmp(term, word, n) == 0;
    }
    if (is_part && start == cover->last) { /* the first part replaces the whole */
        cover->n--;
        cover->n_said -= cover->was_said;
    }
    cover->last = is_part ? SIZE_MAX : start;
    cover->was_said = is_said;
    cover->n++;
    cover->n_said += is_said;
    return 0;
}

static double cover_of(const struct terms *terms, const char *name)
{
    struct cover cover = {.terms = terms, .last = SIZE_MAX};

    (void)snp_words(name, strlen(name), cover_word, &cover);
    return cover.n == 0 ? 0 : (double)cover.n_said / (double)cover.n;
}

static int terms_make(const char *text, struct terms *ret, struct snp_err *err)
{
    int r = snp_words(text, strlen(text), term, ret);

    if (r == 0 && ret->n == 0) {
        ret->takes_common = true;
        r = snp_words(text, strlen(text), term, ret);
    }
    return r == 0 && snp_buf_cstr(&ret->match) != NULL
               ? 0
               : snp_fail(err, SNP_E_NOMEM, "out of memory");
}

static int by_words(struct snp_index *index,
                    const struct terms *terms,
                    bool is_hybrid,
                    struct candidates *ret,
                    struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    int r;

    if (terms->n == 0) {
        return 0;
    }
    r = snp_db_ask(
        &index->db, &rows, err,
        "SELECT f.rowid, c.file, f.rank, c.kind, c.name, c.parent FROM (SELECT rowid, rank"
        " FROM fts WHERE fts MATCH ? AND rank MATCH 'bm25(6.0, 2.0, 3.0, 1.0)'"
        " ORDER BY rank LIMIT 150) f CROSS JOIN chunk c ON c.id = f.rowid",
        "t", snp_buf_bytes(&terms->match));
    while (r == 0 && ret->n < MATCHED_MAX && (r = snp_db_step(&rows, err)) > 0) {
        struct candidate *one = &ret->items[ret->n++];
        const char *name = snp_col_text(&rows, 4);

        *one = (struct candidate){.chunk = (int64_t)snp_col_u64(&rows, 0),
                                  .file = (int64_t)snp_col_u64(&rows, 1),
                                  .parent = snp_col_u64(&rows, 5),
                                  .why = SNP_WHY_WORDS,
                                  .words = -sqlite3_column_double(rows.stmt, 2)};
        one->score = one->words;
        if (is_hybrid) {
            one->score = one->words * kind_weight(snp_col_u64(&rows, 3)) +
                         COVER_WEIGHT * cover_of(terms, name == NULL ? "" : name);
        }
        r = 0;
    }
    return r;
}

/* Raise a chunk's score by the best score of words among its siblings. */
static void by_place(struct candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        double best = 0;

        for (size_t k = 0; k < c->n; k++) {
            if (k != i && c->items[k].file == c->items[i].file &&
                c->items[k].parent == c->items[i].parent && c->items[k].words > best) {
                best = c->items[k].words;
            }
        }
        c->items[i].score += BESIDE_WEIGHT * best;
    }
}

static int by_chunk(const void *a, const void *b)
{
    const struct candidate *one = a;
    const struct candidate *other = b;

    return (one->chunk > other->chunk) - (one->chunk < other->chunk);
}

/*
 * Also rank definitions called by code with words of the query: the caller describes their purpose
 * in other words.
 */
static int by_callers(struct snp_index *index, struct candidates *c, struct snp_err *err)
{
    qsort(c->items, c->n, sizeof(c->items[0]), by_chunk);
    for (size_t i = 0; i < c->n; i++) {
        snp_autorows struct snp_rows rows = {0};
        double best = 0;
        int r = snp_db_ask(&index->db, &rows, err,
                           "SELECT r.chunk FROM chunk c CROSS JOIN reference r ON r.name = c.name"
                           " WHERE c.id = ? AND c.kind > 1 LIMIT ?",
                           "ii", c->items[i].chunk, (int64_t)CALLS_MAX);

        while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
            struct candidate key = {.chunk = (int64_t)snp_col_u64(&rows, 0)};
            const struct candidate *caller =
                bsearch(&key, c->items, c->n, sizeof(c->items[0]), by_chunk);

            if (caller != NULL && caller != &c->items[i] && caller->words > best) {
                best = caller->words;
            }
            r = 0;
        }
        SNP_TRY(r);
        c->items[i].score += CALLER_WEIGHT * best;
    }
    return 0;
}

/*
 * Hits with words of the query gain by likeness at any rank; other chunks are added if they are
 * among the first.
 */
static int by_meaning(struct snp_index *index,
                      const struct snp_query *query,
                      struct candidates *c,
                      struct snp_err *err)
{
    size_t n_words = c->n;
    double least = n_words == 0 ? 0 : c->items[0].score;
    float floor;

    SNP_TRY(snp_meaning_search(index, query->encoding, query->text, &c->meant, err));
    if (c->meant.n == 0) {
        return 0;
    }
    floor = c->meant.items[c->meant.n - 1].likeness;
    for (size_t i = 0; i < n_words; i++) {
        float likeness = floor;

        for (size_t k = 0; k < c->meant.n; k++) {
            if (c->meant.items[k].chunk == c->items[i].chunk) {
                likeness = c->meant.items[k].likeness;
                c->items[i].why |= k < LIST_MAX ? SNP_WHY_MEANING : 0;
                c->meant.items[k].chunk = 0;
                break;
            }
        }
        least = c->items[i].score < least ? c->items[i].score : least;
        c->items[i].score += MEANING_WEIGHT * (double)likeness;
    }
    for (size_t k = 0; k < c->meant.n && k < LIST_MAX; k++) {
        if (c->meant.items[k].chunk != 0) {
            c->items[c->n++] =
                (struct candidate){.chunk = c->meant.items[k].chunk,
                                   .file = c->meant.items[k].file,
                                   .why = SNP_WHY_MEANING,
                                   .score = OTHERS_SHARE * least +
                                            MEANING_WEIGHT * (double)c->meant.items[k].likeness};
        }
    }
    return 0;
}

static int by_sum(const void *a, const void *b)
{
    const struct candidate *one = a;
    const struct candidate *other = b;

    return one->score > other->score   ? -1
           : one->score < other->score ? 1
                                       : (one->chunk > other->chunk) - (one->chunk < other->chunk);
}

static int by_text(struct snp_index *index,
                   const struct snp_query *query,
                   struct snp_hits *hits,
                   struct snp_err *err)
{
    snp_autofree struct candidates *found = calloc(1, sizeof(*found));
    struct terms terms = {.match = SNP_BUF(MATCH_MAX)};
    int r;

    if (found == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = terms_make(query->text, &terms, err);
    if (query->mode != SNP_QUERY_SEMANTIC) {
        SNP_THEN(r, by_words(index, &terms, query->mode == SNP_QUERY_HYBRID, found, err));
    }
    if (r == 0 && query->mode == SNP_QUERY_HYBRID) {
        by_place(found);
        r = by_callers(index, found, err);
    }
    if (query->mode != SNP_QUERY_KEYWORD && query->encoding != NULL) {
        SNP_THEN(r, by_meaning(index, query, found, err));
    }
    if (r == 0) {
        qsort(found->items, found->n, sizeof(found->items[0]), by_sum);
    }
    for (size_t i = 0; r == 0 && i < found->n && i < LIST_MAX; i++) {
        (void)fuse(hits, found->items[i].chunk, found->items[i].file, found->items[i].why, i, 1.0);
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

/*
 * Whether a word is written like a name of code: a.b, a_b, aB, a/b. Capitals alone may be for
 * emphasis.
 */
static bool is_code(const char *word)
{
    for (const char *at = word + 1; at[0] != '\0'; at++) {
        if (strchr("_./:#$", *at) != NULL ||
            (*at >= 'A' && *at <= 'Z' && at[-1] >= 'a' && at[-1] <= 'z')) {
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
                       "SELECT c.id, f.id, 1 FROM file f JOIN chunk c ON c.file = f.id AND"
                       " c.ordinal = 0 WHERE f.path = ?1 OR substr(f.path, -length(?2)) = ?2"
                       " ORDER BY length(f.path) LIMIT 20",
                       "tt", word, end));
    return list(hits, &rows, SNP_WHY_PATH, FIRST, ret_n, err);
}

/* The last part of a.b or a::b, or the whole name. */
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
                   struct snp_hits *hits,
                   size_t *ret_n,
                   struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    const char *name = last_name(word);

    /* sorted: those in the named class or module, in the same case, with a body, then the others */
    SNP_TRY(snp_db_ask(
        &index->db, &rows, err,
        "SELECT c.id, c.file, 1 + (c.name = ?1) FROM chunk c"
        " WHERE c.name = ?1 COLLATE NOCASE AND c.kind > 1"
        " ORDER BY (c.qualified = ?2 OR substr(c.qualified, -length(?2) - 1) = '.' || ?2) DESC,"
        " c.name = ?1 DESC, c.last > c.first DESC, c.parent = 0 DESC, c.id LIMIT 20",
        "tt", name, word));
    return list(hits, &rows, SNP_WHY_EXACT, FIRST, ret_n, err);
}

/* Whether a path is one of a test: tests/x.py, x_test.go, x.spec.ts, XTest.java. */
static bool is_test(const char *path)
{
    static const char *const folders[] = {"test", "tests", "__tests__", "spec", "testing"};
    static const char *const ends[] = {"_test", ".test", "_spec", ".spec", "Test", "Tests"};
    const char *name = path;
    size_t n;

    for (const char *slash; (slash = strchr(name, '/')) != NULL; name = slash + 1) {
        for (size_t i = 0; i < SNP_ARRAY_LEN(folders); i++) {
            if (strlen(folders[i]) == (size_t)(slash - name) &&
                memcmp(folders[i], name, (size_t)(slash - name)) == 0) {
                return true;
            }
        }
    }
    n = strrchr(name, '.') == NULL ? strlen(name) : (size_t)(strrchr(name, '.') - name);
    for (size_t i = 0; i < SNP_ARRAY_LEN(ends); i++) {
        size_t len = strlen(ends[i]);

        if (n > len && memcmp(name + n - len, ends[i], len) == 0) {
            return true;
        }
    }
    return snp_has_prefix(name, "test_");
}

/* Users of a name: tests, first those named after it, and other code. */
static int users(struct snp_index *index,
                 const char *name,
                 struct snp_hits *hits,
                 struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    size_t n[2] = {0};
    int r;

    r = snp_db_ask(&index->db, &rows, err,
                   "SELECT r.chunk, r.file, f.path FROM (SELECT chunk, file FROM reference"
                   " WHERE name = ?1 LIMIT 200) r JOIN chunk c ON c.id = r.chunk JOIN file f"
                   " ON f.id = r.file ORDER BY instr(lower(c.name), lower(?1)) = 0, r.chunk",
                   "t", name);
    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        bool tests = is_test(snp_col_text(&rows, 2));

        if (n[tests] < USERS_MAX) {
            (void)fuse(hits, (int64_t)snp_col_u64(&rows, 0), (int64_t)snp_col_u64(&rows, 1),
                       tests ? SNP_WHY_TEST : SNP_WHY_CALLER, n[tests]++, USER_WEIGHT);
        }
        r = 0;
    }
    return r;
}

static int one_word(struct snp_index *index,
                    const char *word,
                    bool is_alone,
                    struct snp_hits *hits,
                    struct snp_err *err)
{
    size_t n_names = 0;
    size_t n_paths = 0;

    if (!is_alone && !is_code(word)) {
        return 0; /* a word of a sentence: if it is also a name, the search by words finds it */
    }
    SNP_TRY(by_name(index, word, hits, &n_names, err));
    SNP_TRY(by_path(index, word, hits, &n_paths, err));
    if (n_names + n_paths > 0 && hits->named[0] == '\0') {
        (void)snprintf(hits->named, sizeof(hits->named), "%s", word);
    }
    return n_names > 0 ? users(index, last_name(word), hits, err) : 0;
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
            end--; /* punctuation of the sentence */
        }
        bool is_alone = at == text + strspn(text, " \"'`") &&
                        strcspn(at + n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") ==
                            strlen(at + n);
        if (end > (is_alone ? 0 : 1) && end < sizeof(word)) {
            (void)snprintf(word, sizeof(word), "%.*s", (int)end, at);
            r = one_word(index, word, is_alone, hits, err);
            tried++;
        }
        at += n == 0 ? 1 : n;
    }
    return r;
}

/* The current file ---------------------------------------------------------------------- */

/* Whether an import may mean the file: the import is a suffix of the path without its extension. */
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
        n_path = strlen(path); /* the import has the extension, as in C */
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
    r = snp_db_ask(&index->db, &rows, err, "SELECT name FROM import WHERE file = ? LIMIT 200", "i",
                   file);
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

/* Recent ------------------------------------------------------------------------------- */

/*
 * Raise hits in recently changed files: first files an hour newer than half of all files and not
 * older than git's last commit, checkout or pull; then files of git's last commits.
 */
static int recent(struct snp_index *index, struct snp_hits *hits, struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    size_t n = 0;
    int r =
        snp_db_ask(&index->db, &rows, err,
                   "SELECT id FROM (SELECT id, 0 AS part, -mtime AS place FROM file WHERE mtime >"
                   " max(coalesce((SELECT since FROM history), 0),"
                   " (SELECT mtime FROM file ORDER BY mtime LIMIT 1"
                   " OFFSET (SELECT count(*) / 2 FROM file)) + ?)"
                   " UNION ALL SELECT file, 1, place FROM changed)"
                   " GROUP BY id ORDER BY min(part), min(place) LIMIT ?",
                   "ii", RECENT_NS, (int64_t)RECENT_MAX);

    while (r == 0 && (r = snp_db_step(&rows, err)) > 0) {
        int64_t file = (int64_t)snp_col_u64(&rows, 0);
        size_t rank = n;

        for (size_t i = 0, all = hits->n; i < all; i++) {
            if (hits->items[i].file == file) {
                (void)fuse(hits, hits->items[i].chunk, file, SNP_WHY_RECENT, 0,
                           RECENT_WEIGHT / (double)(1 + rank));
                n = rank + 1;
            }
        }
        r = 0;
    }
    return r;
}

static int by_score(const void *a, const void *b)
{
    const struct snp_hit *one = a;
    const struct snp_hit *other = b;

    if (one->level != other->level) {
        return one->level > other->level ? -1 : 1;
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
    SNP_TRY(query->mode == SNP_QUERY_SEMANTIC ? 0 : by_names(index, query->text, ret, err));
    SNP_TRY(by_text(index, query, ret, err));
    SNP_TRY(query->current == NULL ? 0 : near_current(index, query->current, ret, err));
    SNP_TRY(query->mode == SNP_QUERY_HYBRID ? recent(index, ret, err) : 0);
    qsort(ret->items, ret->n, sizeof(ret->items[0]), by_score);
    return 0;
}
