/* SPDX-License-Identifier: Apache-2.0 */
#include "context/search.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "schema/regex.h"

enum {
    STEPS = 50000000, /* of all matches together: about a second */
};

struct text_search {
    struct snp_regex *regex;
    char *literal; /* owned; a pattern without operators, which is searched faster */
    uint64_t steps;
    uint64_t deadline;
    const struct snp_search *what;
    struct snp_search_result *result;
    char *lower; /* owned */
    size_t room;
};

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

static int prepare(struct text_search *s, const char *pattern, struct snp_err *err)
{
    snp_autofree char *small = strdup(pattern);

    SNP_TRY_MEMORY(small, err);
    for (char *at = small; *at != '\0'; at++) {
        if (*at == '\\' && at[1] != '\0') {
            at++; /* \S differs from \s */
        } else {
            *at = lower(*at);
        }
    }
    if (strpbrk(small, "\\^$.|?*+()[]{}") == NULL) {
        s->literal = SNP_TAKE_PTR(small);
        return 0;
    }
    return snp_regex_new(small, strlen(small), &s->regex, err);
}

static bool is_match(struct text_search *s, const char *line, size_t n)
{
    bool found = false;

    if (s->literal != NULL) {
        return memmem(line, n, s->literal, strlen(s->literal)) != NULL;
    }
    if (snp_regex_search(s->regex, line, n, &s->steps, &found) < 0) {
        s->result->is_cut = true;
        s->steps = 0;
        return false;
    }
    return found;
}

static bool is_over(const struct text_search *s)
{
    return s->steps == 0 || s->result->matches >= s->what->max_results ||
           snp_now_us() > s->deadline;
}

static int one_text(
    struct text_search *s, const char *path, const char *text, size_t n, struct snp_err *err)
{
    uint32_t number = 0;

    if (n == 0) {
        return 0;
    }
    if (n > s->room) {
        char *more = realloc(s->lower, n);

        SNP_TRY_MEMORY(more, err);
        s->lower = more;
        s->room = n;
    }
    SNP_ASSERT(s->lower != NULL);
    for (size_t i = 0; i < n; i++) {
        s->lower[i] = lower(text[i]);
    }
    if (s->literal != NULL && !is_match(s, s->lower, n)) {
        return 0;
    }
    for (size_t i = 0; i < n;) {
        const char *end = memchr(text + i, '\n', n - i);
        size_t len = end == NULL ? n - i : (size_t)(end - (text + i));

        number++;
        if (is_over(s)) {
            s->result->is_cut = true;
            return 0;
        }
        if (is_match(s, s->lower + i, len)) {
            size_t shown = len < SNP_SEARCH_LINE_SHOWN ? len : SNP_SEARCH_LINE_SHOWN;

            s->result->matches++;
            s->what->fn(s->what->arg, path, number, text + i,
                        shown - snp_utf8_begun(text + i, shown));
        }
        i += len + 1;
    }
    return 0;
}

int snp_search(struct snp_index *index,
               const struct snp_search *what,
               struct snp_search_result *ret,
               struct snp_err *err)
{
    snp_autorows struct snp_rows rows = {0};
    struct text_search s = {.steps = STEPS,
                            .deadline = snp_now_us() + SNP_SEARCH_MS * UINT64_C(1000),
                            .what = what,
                            .result = ret};
    int r;

    *ret = (struct snp_search_result){0};
    if (what->pattern[0] == '\0' || strlen(what->pattern) > SNP_SEARCH_PATTERN_MAX) {
        return snp_fail(err, SNP_E_INVALID, "REGEX must have 1 to %d bytes",
                        SNP_SEARCH_PATTERN_MAX);
    }
    SNP_TRY(prepare(&s, what->pattern, err));
    r = snp_db_ask(&index->db, &rows, err,
                   "SELECT f.path, c.text FROM file f JOIN content c ON c.file = f.id"
                   " ORDER BY f.path",
                   "");
    while (r == 0 && !ret->is_cut && (r = snp_db_step(&rows, err)) > 0) {
        size_t n;
        const char *text = snp_col_bytes(&rows, 1, &n);

        ret->is_cut = is_over(&s);
        r = ret->is_cut ? 0 : one_text(&s, snp_col_text(&rows, 0), text, n, err);
    }
    snp_regex_free(s.regex);
    free(s.literal);
    free(s.lower);
    return r;
}
