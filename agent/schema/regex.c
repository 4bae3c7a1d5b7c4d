/* SPDX-License-Identifier: Apache-2.0 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "schema/regex.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum {
    GROUPS_MAX = 50,     /* nested */
    HEAP_KIB = 16 << 10, /* of one search */
    TEXT_PER_STEP = 128, /* bytes passed in the time of a few steps */
    MORE_STEPS = 8,      /* times as many, if a search needs more */
};

struct snp_regex {
    pcre2_code *code; /* owned */
};

void snp_regex_free(struct snp_regex *regex)
{
    if (regex != NULL) {
        pcre2_code_free(regex->code);
        free(regex);
    }
}

/*
 * PCRE2 counts steps for each place of the text where a match may begin. A pattern that may begin
 * anywhere therefore gets a prefix that passes over text, and a match begins at the first byte
 * only, so that a limit of steps holds for the whole search.
 */
static pcre2_code *compile(const char *pattern, size_t n, bool is_wrapped, int *ret_error)
{
    const uint32_t options = PCRE2_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C |
                             PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_DOLLAR_ENDONLY |
                             PCRE2_MATCH_UNSET_BACKREF | (is_wrapped ? PCRE2_ANCHORED : 0);
    snp_autofree char *wrapped =
        is_wrapped ? snp_format("(?s:.)*?(?:%.*s)", (int)n, pattern) : NULL;
    pcre2_compile_context *how = pcre2_compile_context_create(NULL);
    const char *text = is_wrapped ? wrapped : pattern;
    pcre2_code *code = NULL;
    PCRE2_SIZE place;

    *ret_error = PCRE2_ERROR_NOMEMORY;
    if (how != NULL && text != NULL) {
        (void)pcre2_set_newline(how, PCRE2_NEWLINE_ANYCRLF);
        (void)pcre2_set_parens_nest_limit(how, GROUPS_MAX + 2);
        (void)pcre2_set_compile_extra_options(how, PCRE2_EXTRA_ALT_BSUX);
        code = pcre2_compile((PCRE2_SPTR)text, is_wrapped ? strlen(text) : n, options, ret_error,
                             &place, how);
    }
    pcre2_compile_context_free(how);
    return code;
}

static bool is_anchored(const pcre2_code *code)
{
    uint32_t options = 0;

    (void)pcre2_pattern_info(code, PCRE2_INFO_ALLOPTIONS, &options);
    return (options & PCRE2_ANCHORED) != 0;
}

static int refuse(int error, struct snp_err *err)
{
    char why[120] = "";

    if (error == PCRE2_ERROR_NOMEMORY || error == PCRE2_ERROR_HEAP_FAILED) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    (void)pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof(why));
    return error == PCRE2_ERROR_PATTERN_TOO_LARGE || error == PCRE2_ERROR_QUANTIFIER_TOO_BIG ||
                   error == PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP
               ? snp_fail(err, SNP_E_LIMIT, "the regular expression is too large: %s", why)
               : snp_fail(err, SNP_E_INVALID, "not a valid regular expression: %s", why);
}

int snp_regex_new(const char *pattern, size_t n, struct snp_regex **ret, struct snp_err *err)
{
    struct snp_regex *regex;
    int error;

    if (n > SNP_REGEX_PATTERN_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "a regular expression has at most %d bytes",
                        SNP_REGEX_PATTERN_MAX);
    }
    regex = calloc(1, sizeof(*regex));
    SNP_TRY_MEMORY(regex, err);
    regex->code = compile(pattern, n, false, &error);
    if (regex->code != NULL && !is_anchored(regex->code)) {
        pcre2_code_free(regex->code);
        regex->code = compile(pattern, n, true, &error);
    }
    if (regex->code == NULL) {
        free(regex);
        return refuse(error, err);
    }
    *ret = regex;
    return 0;
}

/*
 * Search with more and more steps: PCRE2 does not tell how many it took, so a search is charged
 * with its limit.
 */
static int search(const struct snp_regex *regex,
                  pcre2_match_context *how,
                  pcre2_match_data *found,
                  const char *text,
                  size_t n,
                  uint64_t *budget)
{
    uint64_t cost = 1 + n / TEXT_PER_STEP;
    uint64_t steps = 2 * n + GROUPS_MAX;
    int r = PCRE2_ERROR_MATCHLIMIT;

    for (; r == PCRE2_ERROR_MATCHLIMIT && *budget >= cost; steps *= MORE_STEPS) {
        steps = steps < *budget / cost ? steps : *budget / cost;
        steps = steps < UINT32_MAX ? steps : UINT32_MAX;
        *budget -= steps * cost;
        (void)pcre2_set_match_limit(how, (uint32_t)steps);
        r = pcre2_match(regex->code, (PCRE2_SPTR)text, n, 0, 0, found, how);
    }
    return r;
}

int snp_regex_search(
    const struct snp_regex *regex, const char *text, size_t n, uint64_t *budget, bool *ret)
{
    pcre2_match_context *how = pcre2_match_context_create(NULL);
    pcre2_match_data *found = pcre2_match_data_create(1, NULL);
    int r = PCRE2_ERROR_NOMEMORY;

    if (how != NULL && found != NULL) {
        (void)pcre2_set_heap_limit(how, HEAP_KIB);
        r = search(regex, how, found, text, n, budget);
        if (r <= PCRE2_ERROR_UTF8_ERR1 && r >= PCRE2_ERROR_UTF8_ERR21) {
            snp_autofree char *clean = snp_utf8_clean(text, n, &n);

            r = clean == NULL ? PCRE2_ERROR_NOMEMORY : search(regex, how, found, clean, n, budget);
        }
    }
    pcre2_match_data_free(found);
    pcre2_match_context_free(how);
    *ret = r >= 0;
    return r >= 0 || r == PCRE2_ERROR_NOMATCH ? 0
           : r == PCRE2_ERROR_NOMEMORY        ? SNP_E_NOMEM
                                              : SNP_E_LIMIT;
}
