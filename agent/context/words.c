/* SPDX-License-Identifier: Apache-2.0 */
#include "context/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/macro.h"

enum {
    STEM_MIN = 3, /* letters that a stem keeps */
};

/* ASCII only, independent of the locale; other letters stay as they are. */
static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c)
{
    return (c >= 'a' && c <= 'z') || (unsigned char)c >= 0x80;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_upper(c) || is_lower(c) || is_digit(c) || c == '_';
}

static bool ends_in(const char *word, size_t n, const char *end)
{
    size_t len = strlen(end);

    return n >= len + STEM_MIN && memcmp(word + n - len, end, len) == 0;
}

/*
 * The common stem of "parse", "parses", "parsed", "parsing" and "parser": "pars". Text and query
 * are cut alike, so a stem need not be a word; exact names are found separately.
 */
static size_t stem(char *word, size_t n)
{
    static const char *const ends[] = {"ing", "ed", "er", "or"};
    size_t whole;

    if (ends_in(word, n, "s") && strchr("sui", word[n - 2]) == NULL) {
        n--;
    }
    whole = n;
    for (size_t i = 0; i < SNP_ARRAY_LEN(ends) && n == whole; i++) {
        n -= ends_in(word, n, ends[i]) ? strlen(ends[i]) : 0;
    }
    if (n == whole && (ends_in(word, n, "tion") || ends_in(word, n, "sion"))) {
        n -= 3;
    }
    if (n < whole && word[n - 1] == word[n - 2] && strchr("lsz", word[n - 1]) == NULL) {
        n--; /* running */
    }
    n -= ends_in(word, n, "e");
    if (ends_in(word, n, "y")) {
        word[n - 1] = 'i'; /* as in copies */
    }
    return n;
}

static int give(snp_word_fn fn, void *arg, const char *text, size_t start, size_t end, bool is_part)
{
    char word[SNP_WORD_MAX];
    size_t n = end - start < sizeof(word) ? end - start : sizeof(word);

    for (size_t i = 0; i < n; i++) {
        word[i] = text[start + i];
        word[i] = (char)(is_upper(word[i]) ? word[i] + ('a' - 'A') : word[i]);
    }
    n = stem(word, n);
    return fn(arg, word, n, start, end, is_part);
}

/* The end of the part that begins at i. */
static size_t part_end(const char *text, size_t i, size_t end)
{
    size_t at = i + 1;

    if (is_digit(text[i])) {
        while (at < end && is_digit(text[at])) {
            at++;
        }
        return at;
    }
    if (is_upper(text[i]) && at < end && is_upper(text[at])) {
        /* an abbreviation: up to the initial of the next word */
        while (at < end && is_upper(text[at]) && !(at + 1 < end && is_lower(text[at + 1]))) {
            at++;
        }
        return at;
    }
    while (at < end && is_lower(text[at])) {
        at++;
    }
    return at;
}

static int parts(const char *text, size_t start, size_t end, snp_word_fn fn, void *arg)
{
    int r = 0;

    for (size_t i = start; i < end && r == 0;) {
        size_t next = text[i] == '_' ? i + 1 : part_end(text, i, end);

        if (text[i] != '_' && (next - i > 1 || end - start < 3)) {
            r = give(fn, arg, text, i, next, true);
        }
        i = next;
    }
    return r;
}

int snp_words(const char *text, size_t n, snp_word_fn fn, void *arg)
{
    int r = 0;

    for (size_t i = 0; i < n && r == 0;) {
        size_t end = i;

        while (end < n && is_word(text[end])) {
            end++;
        }
        if (end == i) {
            i++;
            continue;
        }
        /* underscores around a name are not part of it: _parse is found as parse */
        size_t start = i;
        size_t last = end;
        while (start < last && text[start] == '_') {
            start++;
        }
        while (last > start && text[last - 1] == '_') {
            last--;
        }
        if (last > start) {
            r = give(fn, arg, text, start, last, false);
            r = r == 0 && part_end(text, start, last) < last ? parts(text, start, last, fn, arg)
                                                             : r;
        }
        i = end;
    }
    return r;
}

bool snp_word_is_common(const char *word, size_t n)
{
    static const char *const common[] = {
        "a",  "an",    "and",  "are",  "as",    "at",    "be",    "by",   "can",
        "do", "doe",   "for",  "from", "given", "how",   "if",    "in",   "into",
        "is", "it",    "its",  "of",   "on",    "or",    "that",  "the",  "this",
        "to", "using", "what", "when", "wher",  "where", "which", "with",
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(common); i++) {
        if (strlen(common[i]) == n && memcmp(common[i], word, n) == 0) {
            return true;
        }
    }
    return false;
}

/* SQLite ------------------------------------------------------------------------------- */

struct fts_arg {
    void *context;
    int (*token)(void *, int, const char *, int, int, int);
};

static int fts_word(void *arg, const char *word, size_t n, size_t start, size_t end, bool is_part)
{
    const struct fts_arg *fts = arg;

    return fts->token(fts->context, is_part ? FTS5_TOKEN_COLOCATED : 0, word, (int)n, (int)start,
                      (int)end);
}

static int fts_tokenize(Fts5Tokenizer *tokenizer SNP_UNUSED,
                        void *context,
                        int flags SNP_UNUSED,
                        const char *text,
                        int n,
                        int (*token)(void *, int, const char *, int, int, int))
{
    struct fts_arg arg = {context, token};

    return text == NULL || n <= 0 ? SQLITE_OK : snp_words(text, (size_t)n, fts_word, &arg);
}

static int fts_create(void *arg SNP_UNUSED,
                      const char **argv SNP_UNUSED,
                      int argc SNP_UNUSED,
                      Fts5Tokenizer **ret)
{
    static char nothing;

    *ret = (Fts5Tokenizer *)(void *)&nothing; /* it has no state */
    return SQLITE_OK;
}

static void fts_delete(Fts5Tokenizer *tokenizer SNP_UNUSED)
{
}

int snp_words_register(sqlite3 *sqlite, struct snp_err *err)
{
    static fts5_tokenizer code = {fts_create, fts_delete, fts_tokenize};
    sqlite3_stmt *stmt = NULL;
    fts5_api *api = NULL;
    int rc = sqlite3_prepare_v2(sqlite, "SELECT fts5(?1)", -1, &stmt, NULL);

    if (rc == SQLITE_OK) {
        (void)sqlite3_bind_pointer(stmt, 1, (void *)&api, "fts5_api_ptr", NULL);
        (void)sqlite3_step(stmt);
    }
    (void)sqlite3_finalize(stmt);
    if (api == NULL) {
        return snp_fail(err, SNP_E_UNSUPPORTED,
                        "this SQLite has no full text search (FTS5); install a build with it");
    }
    rc = api->xCreateTokenizer(api, "code", NULL, &code, NULL);
    return rc == SQLITE_OK ? 0 : snp_fail(err, SNP_E_INTERNAL, "%s", sqlite3_errstr(rc));
}
