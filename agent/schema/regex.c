/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions without backtracking: the pattern becomes a program, and a search keeps the
 * set of all positions reachable by the text so far. Jumps are relative, so that a part of the
 * program can be moved and repeated unchanged.
 */
#include "schema/regex.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum {
    GROUPS_MAX = 50, /* nested */
    REPEAT_MAX = 1000,
    RANGES_MAX = 4096,
    LAST_CHAR = 0x10ffff,
};

enum op {
    OP_SET = 0, /* a character of ranges[first .. first + count) */
    OP_SPLIT,   /* both continue: the next, and at + jump */
    OP_JUMP,    /* at + jump */
    OP_BEGIN,
    OP_END,
    OP_WORD,     /* \b */
    OP_NOT_WORD, /* \B */
    OP_MATCH,
};

struct character_range {
    uint32_t low;
    uint32_t high;
};

struct instruction {
    enum op op;
    bool is_not; /* OP_SET: a character outside the ranges */
    int jump;
    unsigned first;
    unsigned count;
};

struct snp_regex {
    struct instruction *program; /* owned */
    size_t n;
    struct character_range *ranges; /* owned */
    size_t n_ranges;
};

struct parser {
    struct snp_regex *regex;
    const char *at;
    const char *end;
    unsigned depth;
    struct snp_err *err;
};

void snp_regex_free(struct snp_regex *regex)
{
    if (regex != NULL) {
        free(regex->program);
        free(regex->ranges);
        free(regex);
    }
}

/* The program ------------------------------------------------------------------------------- */

static int wrong(struct parser *parser, const char *what)
{
    return snp_fail(parser->err, SNP_E_INVALID, "not a valid regular expression: %s", what);
}

/* Make room for n instructions at `at`; later ones move up. */
static int make_room(struct parser *parser, size_t at, size_t n)
{
    struct snp_regex *regex = parser->regex;

    if (regex->n + n > SNP_REGEX_PROGRAM_MAX) {
        return snp_fail(parser->err, SNP_E_LIMIT,
                        "the regular expression is too large: written out it has more than %d "
                        "steps",
                        SNP_REGEX_PROGRAM_MAX);
    }
    memmove(regex->program + at + n, regex->program + at,
            (regex->n - at) * sizeof(*regex->program));
    regex->n += n;
    return 0;
}

static int insert(struct parser *parser, size_t at, enum op op, int jump)
{
    int r = make_room(parser, at, 1);

    if (r == 0) {
        parser->regex->program[at] = (struct instruction){.op = op, .jump = jump};
    }
    return r;
}

static int emit(struct parser *parser, enum op op, int jump)
{
    return insert(parser, parser->regex->n, op, jump);
}

static int range_add(struct parser *parser, uint32_t low, uint32_t high)
{
    struct snp_regex *regex = parser->regex;

    if (regex->n_ranges >= RANGES_MAX) {
        return snp_fail(parser->err, SNP_E_LIMIT, "the regular expression has more than %d ranges",
                        RANGES_MAX);
    }
    regex->ranges[regex->n_ranges++] = (struct character_range){low, high};
    return 0;
}

static int set_emit(struct parser *parser, size_t first, bool is_not)
{
    int r = emit(parser, OP_SET, 0);

    if (r == 0) {
        struct instruction *set = &parser->regex->program[parser->regex->n - 1];

        set->is_not = is_not;
        set->first = (unsigned)first;
        set->count = (unsigned)(parser->regex->n_ranges - first);
    }
    return r;
}

/* Characters -------------------------------------------------------------------------------- */

/* One character of well-formed UTF-8; the length. */
static size_t char_take(const char *at, uint32_t *ret)
{
    const unsigned char *c = (const unsigned char *)at;

    if (c[0] < 0x80) {
        *ret = c[0];
        return 1;
    }
    if (c[0] < 0xe0) {
        *ret = (c[0] & 0x1fU) << 6 | (c[1] & 0x3fU);
        return 2;
    }
    if (c[0] < 0xf0) {
        *ret = (c[0] & 0xfU) << 12 | (c[1] & 0x3fU) << 6 | (c[2] & 0x3fU);
        return 3;
    }
    *ret = (c[0] & 0x7U) << 18 | (c[1] & 0x3fU) << 12 | (c[2] & 0x3fU) << 6 | (c[3] & 0x3fU);
    return 4;
}

static const struct character_range digits[] = {{'0', '9'}};
static const struct character_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct character_range blanks[] = {
    {0x9, 0xd},       {0x20, 0x20},     {0xa0, 0xa0},     {0x1680, 0x1680}, {0x2000, 0x200a},
    {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff},
};
static const struct character_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

/* The ranges are sorted, so the complement is what lies between them. */
static int ranges_add(struct parser *parser,
                      const struct character_range *rows,
                      size_t n,
                      bool is_not)
{
    uint32_t next = 0;
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        if (!is_not) {
            r = range_add(parser, rows[i].low, rows[i].high);
        } else if (rows[i].low > next) {
            r = range_add(parser, next, rows[i].low - 1);
        }
        next = rows[i].high + 1;
    }
    return is_not && r == 0 ? range_add(parser, next, LAST_CHAR) : r;
}

/* \d and the like; 1: not a shorthand. */
static int shorthand_add(struct parser *parser, char letter)
{
    switch (letter) {
    case 'd':
    case 'D':
        return ranges_add(parser, digits, SNP_ARRAY_LEN(digits), letter == 'D');
    case 'w':
    case 'W':
        return ranges_add(parser, words, SNP_ARRAY_LEN(words), letter == 'W');
    case 's':
    case 'S':
        return ranges_add(parser, blanks, SNP_ARRAY_LEN(blanks), letter == 'S');
    default:
        return 1;
    }
}

/* Exactly n hexadecimal digits. */
static int hex_take(struct parser *parser, unsigned n, uint32_t *ret)
{
    *ret = 0;
    for (unsigned i = 0; i < n; i++) {
        static const char hex[] = "0123456789abcdef";
        char c = parser->at < parser->end ? *parser->at : '\0';
        const char *digit = c == '\0' ? NULL : strchr(hex, c >= 'A' && c <= 'F' ? c + 32 : c);

        if (digit == NULL) {
            return wrong(parser, "\\x or \\u without its digits");
        }
        *ret = *ret << 4 | (uint32_t)(digit - hex);
        parser->at++;
    }
    return 0;
}

/* After "\u": four digits, two groups of four for a surrogate pair, or {...}. */
static int unicode_take(struct parser *parser, uint32_t *ret)
{
    const char *close = parser->at < parser->end && *parser->at == '{'
                            ? memchr(parser->at, '}', (size_t)(parser->end - parser->at))
                            : NULL;
    uint32_t low = 0;
    int r;

    if (close != NULL) {
        size_t n = (size_t)(close - ++parser->at);

        r = n < 1 || n > 6 ? wrong(parser, "\\u{} has 1 to 6 digits")
                           : hex_take(parser, (unsigned)n, ret);
        parser->at = close + 1;
        return r == 0 && *ret > LAST_CHAR ? wrong(parser, "\\u{} beyond Unicode") : r;
    }
    r = hex_take(parser, 4, ret);
    if (r == 0 && *ret >= 0xd800 && *ret < 0xdc00 && parser->end - parser->at >= 6 &&
        parser->at[0] == '\\' && parser->at[1] == 'u') {
        parser->at += 2;
        r = hex_take(parser, 4, &low);
        if (r == 0 && (low < 0xdc00 || low > 0xdfff)) {
            return wrong(parser, "half a surrogate pair");
        }
        *ret = 0x10000 + ((*ret - 0xd800) << 10) + (low - 0xdc00);
    }
    return r;
}

/* An escape of a single character, after the backslash. */
static int escape_take(struct parser *parser, uint32_t *ret)
{
    static const char names[] = "tnrfv0";
    static const char values[] = "\t\n\r\f\v";
    char c = *parser->at++;
    const char *name = strchr(names, c);

    if (c != '\0' && name != NULL) {
        if (c == '0' && parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9') {
            return wrong(parser, "\\0 before a digit");
        }
        *ret = (unsigned char)values[name - names];
        return 0;
    }
    if (c == 'x') {
        return hex_take(parser, 2, ret);
    }
    if (c == 'u') {
        return unicode_take(parser, ret);
    }
    if (c == 'c' && parser->at < parser->end &&
        ((*parser->at | 32) >= 'a' && (*parser->at | 32) <= 'z')) {
        *ret = (uint32_t)*parser->at++ & 0x1fU;
        return 0;
    }
    if ((c >= '1' && c <= '9') || c == 'k' || c == 'p' || c == 'P') {
        return snp_fail(parser->err, SNP_E_UNSUPPORTED,
                        "\\%c in regular expressions is not supported", c);
    }
    if ((c | 32) >= 'a' && (c | 32) <= 'z') {
        return wrong(parser, "an unknown escape");
    }
    parser->at--;
    parser->at += char_take(parser->at, ret);
    return 0;
}

/* Classes ----------------------------------------------------------------------------------- */

/* A character of a class, or a shorthand (*ret_is_set; its ranges are added). */
static int class_atom(struct parser *parser, uint32_t *ret, bool *ret_is_set)
{
    *ret_is_set = false;
    if (parser->at >= parser->end) {
        return wrong(parser, "'[' without its ']'");
    }
    if (*parser->at != '\\') {
        parser->at += char_take(parser->at, ret);
        return 0;
    }
    if (++parser->at >= parser->end) {
        return wrong(parser, "it ends with a backslash");
    }
    if (*parser->at == 'b') {
        parser->at++;
        *ret = '\b';
        return 0;
    }
    int r = shorthand_add(parser, *parser->at);

    if (r == 1) {
        return escape_take(parser, ret);
    }
    parser->at++;
    *ret_is_set = true;
    return r;
}

static int class_item(struct parser *parser)
{
    uint32_t low = 0;
    uint32_t high = 0;
    bool is_set = false;
    int r = class_atom(parser, &low, &is_set);

    if (r < 0 || is_set) {
        return r;
    }
    if (parser->end - parser->at >= 2 && parser->at[0] == '-' && parser->at[1] != ']') {
        parser->at++;
        r = class_atom(parser, &high, &is_set);
        if (r == 0 && (is_set || high < low)) {
            return wrong(parser, "a range out of order");
        }
        return r < 0 ? r : range_add(parser, low, high);
    }
    return range_add(parser, low, low);
}

/* After "[". */
static int class_take(struct parser *parser)
{
    size_t first = parser->regex->n_ranges;
    bool is_not = parser->at < parser->end && *parser->at == '^';
    int r = 0;

    parser->at += is_not ? 1 : 0;
    while (r == 0 && (parser->at >= parser->end || *parser->at != ']')) {
        r = class_item(parser);
    }
    if (r == 0) {
        parser->at++;
        r = set_emit(parser, first, is_not);
    }
    return r;
}

/* Terms ------------------------------------------------------------------------------------- */

static int alternatives_take(struct parser *parser);

/* After "(". */
static int group_take(struct parser *parser)
{
    size_t left = (size_t)(parser->end - parser->at);
    int r;

    if (left >= 2 && strncmp(parser->at, "?:", 2) == 0) {
        parser->at += 2;
    } else if (left >= 3 && strncmp(parser->at, "?<", 2) == 0 && parser->at[2] != '=' &&
               parser->at[2] != '!') {
        const char *close = memchr(parser->at, '>', left);

        if (close == NULL) {
            return wrong(parser, "a group's name without its '>'");
        }
        parser->at = close + 1;
    } else if (left >= 1 && *parser->at == '?') {
        return snp_fail(
            parser->err, SNP_E_UNSUPPORTED, "(?%c in regular expressions is not supported",
            left >= 2 && parser->at[1] >= '!' && parser->at[1] <= '~' ? parser->at[1] : ' ');
    }
    if (++parser->depth > GROUPS_MAX) {
        return snp_fail(parser->err, SNP_E_LIMIT,
                        "more than %d groups of a regular expression are one inside the other",
                        GROUPS_MAX);
    }
    r = alternatives_take(parser);
    parser->depth--;
    if (r == 0 && (parser->at >= parser->end || *parser->at++ != ')')) {
        return wrong(parser, "'(' without its ')'");
    }
    return r;
}

/*
 * After a backslash. *ret_is_place: an assertion, which matches no character and cannot be
 * repeated.
 */
static int escaped_term(struct parser *parser, bool *ret_is_place)
{
    size_t first = parser->regex->n_ranges;
    uint32_t c = 0;
    int r;

    if (parser->at >= parser->end) {
        return wrong(parser, "it ends with a backslash");
    }
    if (*parser->at == 'b' || *parser->at == 'B') {
        *ret_is_place = true;
        return emit(parser, *parser->at++ == 'b' ? OP_WORD : OP_NOT_WORD, 0);
    }
    r = shorthand_add(parser, *parser->at);
    if (r == 1) {
        r = escape_take(parser, &c);
        r = r < 0 ? r : range_add(parser, c, c);
    } else {
        parser->at++;
    }
    return r < 0 ? r : set_emit(parser, first, false);
}

static int term_take(struct parser *parser, bool *ret_is_place)
{
    size_t first = parser->regex->n_ranges;
    uint32_t c = 0;
    int r;

    *ret_is_place = false;
    parser->at += char_take(parser->at, &c);
    switch (c) {
    case '\\':
        return escaped_term(parser, ret_is_place);
    case '^':
    case '$':
        *ret_is_place = true;
        return emit(parser, c == '^' ? OP_BEGIN : OP_END, 0);
    case '(':
        return group_take(parser);
    case '[':
        return class_take(parser);
    case '.':
        r = ranges_add(parser, line_ends, SNP_ARRAY_LEN(line_ends), false);
        return r < 0 ? r : set_emit(parser, first, true);
    case '*':
    case '+':
    case '?':
        return wrong(parser, "nothing to repeat");
    default:
        r = range_add(parser, c, c);
        return r < 0 ? r : set_emit(parser, first, false);
    }
}

/* Repetition -------------------------------------------------------------------------------- */

/* A number of at most REPEAT_MAX; -1: no number, -2: too large. */
static int number_take(const char **at, const char *end)
{
    int value = -1;

    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        value = (value < 0 ? 0 : value) * 10 + (**at - '0');
        if (value > REPEAT_MAX) {
            return -2;
        }
    }
    return value;
}

/* {2}, {2,} or {2,5}; *ret_most -1 = unlimited. 1: a literal brace. */
static int braces_take(struct parser *parser, int *ret_least, int *ret_most)
{
    const char *at = parser->at + 1;
    int least = number_take(&at, parser->end);
    int most = least;

    if (least != -1 && least != -2 && at < parser->end && *at == ',') {
        at++;
        most = number_take(&at, parser->end);
    }
    if (least == -2 || most == -2) {
        return snp_fail(parser->err, SNP_E_LIMIT,
                        "a regular expression repeats something more than %d times", REPEAT_MAX);
    }
    if (least < 0 || at >= parser->end || *at != '}') {
        return 1;
    }
    if (most >= 0 && most < least) {
        return wrong(parser, "numbers out of order in {}");
    }
    parser->at = at + 1;
    *ret_least = least;
    *ret_most = most;
    return 0;
}

/* *ret_least and *ret_most of a quantifier; 1: there is none. */
static int quantifier_take(struct parser *parser, int *ret_least, int *ret_most)
{
    int r = 0;

    if (parser->at >= parser->end) {
        return 1;
    }
    switch (*parser->at) {
    case '*':
        *ret_least = 0;
        *ret_most = -1;
        break;
    case '+':
        *ret_least = 1;
        *ret_most = -1;
        break;
    case '?':
        *ret_least = 0;
        *ret_most = 1;
        break;
    case '{':
        r = braces_take(parser, ret_least, ret_most);
        parser->at -= r == 0 ? 1 : 0;
        break;
    default:
        return 1;
    }
    if (r == 0) {
        parser->at++;
        /* Lazy: whether there is a match does not depend on it. */
        parser->at += parser->at < parser->end && *parser->at == '?' ? 1 : 0;
    }
    return r;
}

/* Append a copy of n instructions. */
static int copy_emit(struct parser *parser, const struct instruction *copy, size_t n)
{
    size_t at = parser->regex->n;
    int r = make_room(parser, at, n);

    if (r == 0) {
        memcpy(parser->regex->program + at, copy, n * sizeof(*copy));
    }
    return r;
}

/* Repeat the program from start on, least to most times; most -1 = unlimited. */
static int repeat(struct parser *parser, size_t start, int least, int most)
{
    struct snp_regex *regex = parser->regex;
    size_t n = regex->n - start;
    snp_autofree struct instruction *copy = calloc(n + 1, sizeof(*copy));
    int r = 0;

    if (copy == NULL) {
        return snp_fail(parser->err, SNP_E_NOMEM, "out of memory");
    }
    memcpy(copy, regex->program + start, n * sizeof(*copy));
    regex->n = start;
    for (int i = 0; i < least && r == 0; i++) {
        r = copy_emit(parser, copy, n);
    }
    if (most < 0) {
        r = r < 0 ? r : emit(parser, OP_SPLIT, (int)n + 2);
        r = r < 0 ? r : copy_emit(parser, copy, n);
        return r < 0 ? r : emit(parser, OP_JUMP, -(int)n - 1);
    }
    for (int i = least; i < most && r == 0; i++) {
        r = emit(parser, OP_SPLIT, (int)n + 1);
        r = r < 0 ? r : copy_emit(parser, copy, n);
    }
    return r;
}

static int sequence_take(struct parser *parser)
{
    int r = 0;

    while (r == 0 && parser->at < parser->end && *parser->at != '|' && *parser->at != ')') {
        size_t start = parser->regex->n;
        bool is_place = false;
        int least = 0;
        int most = 0;

        r = term_take(parser, &is_place);
        if (r < 0) {
            break;
        }
        r = quantifier_take(parser, &least, &most);
        if (r == 0 && is_place) {
            r = wrong(parser, "nothing to repeat");
        } else if (r == 0) {
            r = repeat(parser, start, least, most);
        }
        r = r == 1 ? 0 : r;
    }
    return r;
}

static int alternatives_take(struct parser *parser)
{
    struct snp_regex *regex = parser->regex;
    size_t start = regex->n;
    int r = sequence_take(parser);

    /* a|b|c: a split to the next before each except the last, and a jump to the end after it */
    while (r == 0 && parser->at < parser->end && *parser->at == '|') {
        size_t jump;

        parser->at++;
        r = insert(parser, start, OP_SPLIT, (int)(regex->n - start) + 2);
        r = r < 0 ? r : emit(parser, OP_JUMP, 0);
        jump = regex->n - 1;
        r = r < 0 ? r : sequence_take(parser);
        if (r == 0) {
            regex->program[jump].jump = (int)(regex->n - jump);
        }
    }
    return r;
}

int snp_regex_new(const char *pattern, size_t n, struct snp_regex **ret, struct snp_err *err)
{
    struct snp_regex *regex = calloc(1, sizeof(*regex));
    struct parser parser = {regex, pattern, pattern + n, 0, err};
    int r = 0;

    if (n > SNP_REGEX_PATTERN_MAX) {
        r = snp_fail(err, SNP_E_LIMIT, "a regular expression has more than %d bytes",
                     SNP_REGEX_PATTERN_MAX);
    } else if (!snp_utf8_valid(pattern, n)) {
        r = snp_fail(err, SNP_E_INVALID, "not a valid regular expression: not UTF-8");
    }
    if (regex != NULL) {
        regex->program = calloc(SNP_REGEX_PROGRAM_MAX, sizeof(*regex->program));
        regex->ranges = calloc(RANGES_MAX, sizeof(*regex->ranges));
    }
    if (regex == NULL || regex->program == NULL || regex->ranges == NULL) {
        snp_regex_free(regex);
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = r < 0 ? r : alternatives_take(&parser);
    if (r == 0 && parser.at < parser.end) {
        r = wrong(&parser, "')' without its '('");
    }
    r = r < 0 ? r : emit(&parser, OP_MATCH, 0);
    if (r < 0) {
        snp_regex_free(regex);
        return r;
    }
    /* Free unused room; a failure changes nothing. */
    struct instruction *program = realloc(regex->program, regex->n * sizeof(*program));
    struct character_range *ranges =
        realloc(regex->ranges, (regex->n_ranges + 1) * sizeof(*ranges));

    regex->program = program == NULL ? regex->program : program;
    regex->ranges = ranges == NULL ? regex->ranges : ranges;
    *ret = regex;
    return 0;
}

/* Searching --------------------------------------------------------------------------------- */

/* A set of places in the program. */
struct state_set {
    unsigned *list;
    size_t n;
};

struct regex_search {
    const struct snp_regex *regex;
    struct state_set now;
    struct state_set next;
    unsigned *stack;
    uint64_t *marks; /* of each instruction: the round in which it was added */
    uint64_t round;
    uint64_t *budget;
    bool is_begin; /* of the text */
    bool is_end;
    bool is_edge; /* at a word boundary */
    bool has_match;
};

static bool is_word(uint32_t c)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(words); i++) {
        if (c >= words[i].low && c <= words[i].high) {
            return true;
        }
    }
    return false;
}

/* The next places without reading a character: one, or both for a split; 0 = none. */
static unsigned steps_from(struct regex_search *search, unsigned at, unsigned out[2])
{
    const struct instruction *step = &search->regex->program[at];
    bool is_on = true;

    switch (step->op) {
    case OP_JUMP:
        out[0] = (unsigned)((int)at + step->jump);
        return 1;
    case OP_SPLIT:
        out[0] = at + 1;
        out[1] = (unsigned)((int)at + step->jump);
        return 2;
    case OP_BEGIN:
        is_on = search->is_begin;
        break;
    case OP_END:
        is_on = search->is_end;
        break;
    case OP_WORD:
        is_on = search->is_edge;
        break;
    case OP_NOT_WORD:
        is_on = !search->is_edge;
        break;
    case OP_MATCH:
        search->has_match = true;
        return 0;
    case OP_SET:
    default:
        search->next.list[search->next.n++] = at;
        return 0;
    }
    out[0] = at + 1;
    return is_on ? 1 : 0;
}

/* Add a place, and all places that it reaches without reading a character. */
static void place_add(struct regex_search *search, unsigned from)
{
    size_t n = 0;

    if (search->marks[from] == search->round) {
        return;
    }
    search->marks[from] = search->round;
    search->stack[n++] = from;
    while (n > 0) {
        unsigned out[2] = {0, 0};
        unsigned n_out = steps_from(search, search->stack[--n], out);

        *search->budget -= *search->budget > 0 ? 1 : 0;
        for (unsigned i = 0; i < n_out; i++) {
            if (search->marks[out[i]] != search->round) {
                search->marks[out[i]] = search->round;
                search->stack[n++] = out[i];
            }
        }
    }
}

static bool set_has(const struct snp_regex *regex, const struct instruction *set, uint32_t c)
{
    const struct character_range *range = regex->ranges + set->first;

    for (unsigned i = 0; i < set->count; i++) {
        if (c >= range[i].low && c <= range[i].high) {
            return !set->is_not;
        }
    }
    return set->is_not;
}

/* One round between two characters: the places reached by the text so far, and a new start. */
static void round_make(struct regex_search *search, uint32_t before)
{
    const struct snp_regex *regex = search->regex;
    struct state_set old;

    search->round++;
    search->next.n = 0;
    for (size_t i = 0; i < search->now.n && before != UINT32_MAX; i++) {
        const struct instruction *set = &regex->program[search->now.list[i]];
        uint64_t cost = 1 + set->count / 8;

        *search->budget -= *search->budget > cost ? cost : *search->budget;
        if (set_has(regex, set, before)) {
            place_add(search, search->now.list[i] + 1);
        }
    }
    place_add(search, 0);
    old = search->now;
    search->now = search->next;
    search->next = old;
}

static int search_run(struct regex_search *search, const char *text, size_t n)
{
    uint32_t before = UINT32_MAX; /* none */
    size_t at = 0;

    for (;;) {
        uint32_t c = UINT32_MAX;
        size_t len = at < n ? char_take(text + at, &c) : 0;

        search->is_begin = at == 0;
        search->is_end = at >= n;
        search->is_edge = is_word(before) != is_word(c);
        round_make(search, before);
        if (search->has_match || at >= n) {
            return 0;
        }
        if (*search->budget == 0) {
            return SNP_E_LIMIT;
        }
        before = c;
        at += len;
    }
}

int snp_regex_search(
    const struct snp_regex *regex, const char *text, size_t n, uint64_t *budget, bool *ret)
{
    snp_autofree unsigned *lists = calloc(regex->n * 3, sizeof(*lists));
    snp_autofree uint64_t *marks = calloc(regex->n, sizeof(*marks));
    struct regex_search search = {.regex = regex, .marks = marks, .budget = budget};
    int r;

    if (lists == NULL || marks == NULL) {
        return SNP_E_NOMEM;
    }
    search.now.list = lists;
    search.next.list = lists + regex->n;
    search.stack = lists + regex->n * 2;
    r = search_run(&search, text, n);
    *ret = search.has_match;
    return r;
}
