/* SPDX-License-Identifier: Apache-2.0 */
/* Line by line: a pattern never matches across a line end. */
#include <stdlib.h>
#include <string.h>

#include "standard/standard.h"

struct rule_matches {
    struct {
        const char *at;
        size_t n;
        uint32_t number;
    } lines[SNP_RULE_LINES_MAX];
    size_t n;
    bool is_full;
};

/* The matching lines; is_one: only the first. SNP_E_LIMIT: out of steps. */
static int lines_find(const struct snp_rule *rule,
                      const struct snp_rule_text *text,
                      bool is_one,
                      uint64_t *steps,
                      struct rule_matches *ret)
{
    uint32_t number = 0;

    ret->n = 0;
    ret->is_full = false;
    for (size_t i = 0; text->bytes != NULL && i < text->n && !(is_one && ret->n > 0);) {
        const char *line = text->bytes + i;
        const char *end = memchr(line, '\n', text->n - i);
        size_t n = end == NULL ? text->n - i : (size_t)(end - line);
        bool is_match = false;

        number++;
        i += n + 1;
        n -= n > 0 && line[n - 1] == '\r';
        SNP_TRY(snp_regex_search(rule->regex, line, n, steps, &is_match));
        if (is_match && ret->n == SNP_RULE_LINES_MAX) {
            ret->is_full = true;
            return 0;
        }
        if (is_match) {
            ret->lines[ret->n].at = line;
            ret->lines[ret->n].n = n;
            ret->lines[ret->n++].number = number;
        }
    }
    return 0;
}

/* The number of the first n lines with the text of line `as` of other. */
static size_t n_same(const struct rule_matches *of,
                     size_t n,
                     const struct rule_matches *other,
                     size_t as)
{
    size_t same = 0;

    for (size_t i = 0; i < n; i++) {
        same += of->lines[i].n == other->lines[as].n &&
                memcmp(of->lines[i].at, other->lines[as].at, of->lines[i].n) == 0;
    }
    return same;
}

/* The first line that is new, or more frequent; it may have moved. 0: none. */
static uint32_t first_new(const struct rule_matches *before, const struct rule_matches *after)
{
    for (size_t i = 0; i < after->n; i++) {
        if (n_same(after, i, after, i) >= n_same(before, before->n, after, i)) {
            return after->lines[i].number;
        }
    }
    return after->is_full ? after->lines[0].number : 0;
}

struct match_pair {
    struct rule_matches before;
    struct rule_matches after;
};

int snp_rule_judge(const struct snp_rule *rule,
                   const struct snp_rule_text *before,
                   const struct snp_rule_text *after,
                   uint64_t *steps,
                   enum snp_rule_judged *ret,
                   uint32_t *ret_line)
{
    bool is_require = rule->kind == SNP_RULE_REQUIRE;
    snp_autofree struct match_pair *pair = malloc(sizeof(*pair));
    int r = pair == NULL ? SNP_E_NOMEM
            : is_require ? 0
                         : lines_find(rule, before, false, steps, &pair->before);

    *ret = SNP_RULE_UNJUDGED;
    *ret_line = 0;
    SNP_THEN(r, lines_find(rule, after, is_require, steps, &pair->after));
    if (r < 0) {
        return r == SNP_E_LIMIT ? 0 : r;
    }
    if (is_require) {
        *ret = pair->after.n > 0 ? SNP_RULE_HELD : SNP_RULE_BROKEN;
        return 0;
    }
    *ret_line = first_new(&pair->before, &pair->after);
    *ret = *ret_line > 0        ? SNP_RULE_BROKEN
           : pair->after.n == 0 ? SNP_RULE_HELD
                                : SNP_RULE_BROKEN_BEFORE;
    if (*ret == SNP_RULE_BROKEN_BEFORE) {
        *ret_line = pair->after.lines[0].number;
    }
    return 0;
}
