/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redaction. The rules are read once, from the embedded text; an invalid one is our bug. At each
 * position of a text the first matching rule wins.
 */
#include "run/tool/redact.h"

#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "run/tool/embedded.h"

enum {
    RULES_MAX = 96,
    FIELDS_MAX = 24,
    LINE_MAX_LEN = 4096, /* of a PEM header, or an assigned name */
    SPACES_MAX = 8,      /* around "=" */
    QUOTED_MIN = 6,
    PLAIN_MIN = 8,   /* of letters and digits */
    NAMED_MIN = 6,   /* after a name for secrets */
    SPACE_BACK = 64, /* searched before a name */
    PAIR_SPACES = 6, /* between the halves of a pair */
    VALUE_MAX = 4096,
    BYTES = 256,
};

struct redact_rule {
    const char *kind;
    const char *name;
    const char *words[FIELDS_MAX];
    size_t n_words;
    size_t prefix_len; /* of words[0] */
    unsigned chars;    /* class of a token */
    uint64_t min;
    double bits;
};

static struct redact_rule rules[RULES_MAX];
static size_t n_rules;
/* The rules point into this text; kept until the program exits. */
static char *rules_text __attribute__((__used__));
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Rules ------------------------------------------------------------------------------------- */

enum chars {
    WORD,
    URL,
    BASE64,
    UPPER,
    HEX,
    LHEX,
    JWT,
    N_CHARS
};

static bool is_of(unsigned chars, char byte)
{
    unsigned char c = (unsigned char)byte;

    switch (chars) {
    case WORD:
        return isalnum(c) || c == '_';
    case URL:
        return isalnum(c) || c == '_' || c == '-';
    case BASE64:
        return isalnum(c) || c == '+' || c == '/' || c == '=';
    case UPPER:
        return isupper(c) || isdigit(c);
    case HEX:
        return isxdigit(c);
    case LHEX:
        return isdigit(c) || (c >= 'a' && c <= 'f');
    default:
        return isalnum(c) || c == '_' || c == '-' || c == '.';
    }
}

static unsigned chars_named(const char *name)
{
    static const char *const names[N_CHARS] = {"word", "url",  "base64", "upper",
                                               "hex",  "lhex", "jwt"};

    for (unsigned i = 0; i < N_CHARS; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    SNP_ASSERT(false); /* unknown class of characters */
    return 0;
}

static void rule_read(char *line)
{
    struct redact_rule *rule = &rules[n_rules];
    const char *fields[FIELDS_MAX];
    size_t n = 0;

    for (char *at = line; *at != '\0' && n < FIELDS_MAX;) {
        at += strspn(at, " \t");
        if (*at == '\0' || *at == '#') {
            break;
        }
        fields[n++] = at;
        at += strcspn(at, " \t");
        if (*at != '\0') {
            *at++ = '\0';
        }
    }
    if (n == 0) {
        return;
    }
    SNP_ASSERT(n >= 2 && n_rules < RULES_MAX);
    rule->kind = fields[0];
    rule->name = fields[1];
    rule->n_words = n - 2;
    memcpy(rule->words, fields + 2, (n - 2) * sizeof(*fields));
    if (strcmp(rule->kind, "token") == 0 || strcmp(rule->kind, "pair") == 0) {
        SNP_ASSERT(n == 5 && snp_parse_u64(fields[4], &rule->min) == 0);
        rule->prefix_len = strlen(fields[2]);
        rule->chars = chars_named(fields[3]);
    } else if (strcmp(rule->kind, "entropy") == 0) {
        SNP_ASSERT(n >= 4 && snp_parse_u64(fields[2], &rule->min) == 0 &&
                   snp_parse_double(fields[3], &rule->bits) == 0);
    } else {
        SNP_ASSERT(strcmp(rule->kind, "block") != 0 || n == 5);
    }
    n_rules++;
}

static void rules_read(void)
{
    rules_text = strndup(snp_redaction_rules, snp_redaction_rules_len);
    SNP_ASSERT(rules_text != NULL);
    for (char *line = rules_text; line != NULL;) {
        char *next = strchr(line, '\n');

        if (next != NULL) {
            *next++ = '\0';
        }
        rule_read(line);
        line = next;
    }
}

/* Matching ---------------------------------------------------------------------------------- */

/* A part of the text to remove: bytes to keep before it, and its length; gone 0 = none. */
struct match {
    size_t kept;
    size_t gone;
};

static struct match token_match(const struct redact_rule *rule, const char *at, size_t n)
{
    size_t len = rule->prefix_len;

    if (n < len + rule->min || memcmp(at, rule->words[0], len) != 0) {
        return (struct match){0};
    }
    while (len < n && is_of(rule->chars, at[len])) {
        len++;
    }
    return (struct match){.gone = len - rule->prefix_len >= rule->min ? len : 0};
}

/* A token, and a following one of the same characters: an account and its key. */
static struct match pair_match(const struct redact_rule *rule, const char *at, size_t n)
{
    struct match match = token_match(rule, at, n);
    size_t from = match.gone;
    size_t len;

    while (from > 0 && from < n && from < match.gone + PAIR_SPACES &&
           strchr(":,'\" ", at[from]) != NULL) {
        from++;
    }
    for (len = 0; from > match.gone && from + len < n && is_of(rule->chars, at[from + len]);
         len++) {
    }
    return len < rule->min ? match : (struct match){.gone = from + len};
}

static const char *find(const char *text, size_t n, const char *what)
{
    return memmem(text, n, what, strlen(what));
}

static struct match block_match(const struct redact_rule *rule, const char *at, size_t n)
{
    size_t begin = strlen(rule->words[0]);
    size_t line;
    const char *end;

    if (n < begin || memcmp(at, rule->words[0], begin) != 0) {
        return (struct match){0};
    }
    for (line = begin; line < n && line < LINE_MAX_LEN && at[line] != '\n'; line++) {
    }
    if (find(at, line, rule->words[1]) == NULL) {
        return (struct match){0};
    }
    end = find(at + begin, n - begin, rule->words[2]);
    if (end == NULL) {
        return (struct match){.gone = n};
    }
    line = (size_t)(end - at) + strlen(rule->words[2]);
    while (line < n && at[line] != '\n' && at[line] != '"' && at[line] != '\'') {
        line++;
    }
    return (struct match){.gone = line};
}

static bool name_holds(const struct redact_rule *rule, const char *name, size_t n)
{
    for (size_t i = 0; i < rule->n_words; i++) {
        size_t len = strlen(rule->words[i]);

        for (size_t at = 0; at + len <= n; at++) {
            if (strncasecmp(name + at, rule->words[i], len) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool name_ends(const struct redact_rule *rule, const char *name, size_t n)
{
    for (size_t i = 0; i < rule->n_words; i++) {
        size_t len = strlen(rule->words[i]);

        if (len <= n && strncasecmp(name + n - len, rule->words[i], len) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a rule of the kind has the word, upper case or lower. */
static bool is_listed(const char *kind, const char *word, size_t n)
{
    for (const struct redact_rule *rule = rules; rule < rules + n_rules; rule++) {
        for (size_t i = 0; strcmp(rule->kind, kind) == 0 && i < rule->n_words; i++) {
            if (strlen(rule->words[i]) == n && strncasecmp(rule->words[i], word, n) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* The value after "=" or ":" of a name, and its form. */
struct value {
    const char *text;
    size_t n;
    char quote; /* around it, or '\0' */
    char sign;  /* '=' or ':' */
    bool is_spaced;
    bool is_first; /* of its line, except blanks, quotes and list or export markers */
    bool is_indented;
    bool is_last; /* of its line */
    char next;    /* the character after it, '\0' = none */
    bool has_letter;
    bool has_digit;
    bool has_mark; /* has a character that no identifier has */
};

/* Read the value; false: missing, or its quote is not closed. */
static bool value_read(const char *at, size_t n, struct value *ret)
{
    size_t end;

    ret->quote = n > 0 && (*at == '"' || *at == '\'') ? *at : '\0';
    at += ret->quote == '\0' ? 0 : 1;
    n -= ret->quote == '\0' ? 0 : 1;
    ret->text = at;
    for (end = 0;
         end < n && end < VALUE_MAX && at[end] != '\n' &&
         (ret->quote != '\0' ? at[end] != ret->quote : strchr(" \t\r,;\"')]}", at[end]) == NULL);
         end++) {
        unsigned char c = (unsigned char)at[end];

        ret->has_letter = ret->has_letter || isalpha(c);
        ret->has_digit = ret->has_digit || isdigit(c);
        ret->has_mark = ret->has_mark || (!isalnum(c) && c != '_' && c != '.');
    }
    ret->n = end;
    ret->next = end < n ? at[end] : '\0';
    while (end < n && (at[end] == ' ' || at[end] == '\t' || at[end] == '\r')) {
        end++;
    }
    ret->is_last = end == n || at[end] == '\n';
    return ret->quote == '\0' || ret->next == ret->quote;
}

/* Find the start of a name in its line. */
static void place_read(const char *text, size_t at, struct value *ret)
{
    static const char export[] = "export ";
    size_t word = sizeof(export) - 1;
    size_t least = at > SPACE_BACK ? at - SPACE_BACK : 0;
    bool is_listed_item = false; /* or an option, or in quotes */

    if (at >= word && memcmp(text + at - word, export, word) == 0) {
        at -= word;
    }
    while (at > least && strchr(" \t-\"'", text[at - 1]) != NULL) {
        at--;
        is_listed_item = is_listed_item || (text[at] != ' ' && text[at] != '\t');
        ret->is_indented = !is_listed_item;
    }
    ret->is_first = at == 0 || text[at - 1] == '\n' || strchr("?&", text[at - 1]) != NULL;
}

/*
 * Whether text is part of a program, a placeholder, a path or an address: it refers to a secret but
 * is not one.
 */
static bool is_no_secret(const struct value *value)
{
    static const char *const begins[] = {"$", "<", "*", "{", "%", "=", "/", "./", "~/", "--"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(begins); i++) {
        size_t len = strlen(begins[i]);

        if (value->n >= len && memcmp(value->text, begins[i], len) == 0) {
            return true;
        }
    }
    return memchr(value->text, '(', value->n) != NULL ||
           memchr(value->text, '[', value->n) != NULL ||
           memmem(value->text, value->n, "://", 3) != NULL ||
           is_listed("not", value->text, value->n);
}

/* "self.password", "user_password": the value is an identifier that also names a secret. */
static bool is_reference(const struct redact_rule *rule, const struct value *value)
{
    return memchr(value->text, '.', value->n) != NULL || name_ends(rule, value->text, value->n);
}

/*
 * An unquoted value whose name ends with a word for secrets. Marks show it is no identifier; a word
 * of letters alone is one in "f(password=given)", and a secret in a line that is a setting.
 */
static bool is_named_secret(const struct redact_rule *rule, const struct value *value)
{
    bool is_strong = strcmp(rule->kind, "assign") == 0;

    if (value->n < NAMED_MIN || !value->has_letter || is_no_secret(value)) {
        return false;
    }
    if (value->has_mark) {
        return is_strong || value->is_first || (value->sign == '=' && !value->is_spaced);
    }
    if (is_reference(rule, value) || value->next == ',' || value->next == ')') {
        return false;
    }
    if (value->sign == '=' && !value->is_spaced) {
        return value->is_first ? !value->is_indented : is_strong;
    }
    return is_strong && value->is_first && value->is_last &&
           (value->sign == '=' ? !value->is_indented : islower((unsigned char)value->text[0]) != 0);
}

static bool is_secret(const struct redact_rule *rule, const struct value *value, bool is_ending)
{
    if (value->quote != '\0') {
        return value->n >= QUOTED_MIN;
    }
    if (value->n >= PLAIN_MIN && value->has_letter && value->has_digit) {
        return memchr(value->text, '(', value->n) == NULL;
    }
    return is_ending && is_named_secret(rule, value);
}

/* Words before the secret of an Authorization header. */
static const char *const schemes[] = {"bearer ", "basic ", "token ", "digest "};

/* The length of such a word. */
static size_t scheme_length(const char *at, size_t n)
{
    for (size_t i = 0; i < SNP_ARRAY_LEN(schemes); i++) {
        size_t len = strlen(schemes[i]);

        if (n > len && strncasecmp(at, schemes[i], len) == 0) {
            return len;
        }
    }
    return 0;
}

/* i: the beginning of a word. */
static struct match assign_match(const struct redact_rule *rule,
                                 const char *text,
                                 size_t i,
                                 size_t n)
{
    const char *at = text + i;
    struct value value = {.n = 0};
    size_t name = 0;
    size_t to;
    size_t scheme;
    bool is_ending;

    n -= i;
    while (name < n && name < LINE_MAX_LEN && is_of(URL, at[name])) {
        name++;
    }
    to = name;
    if (name == 0 || !name_holds(rule, at, name)) {
        return (struct match){0};
    }
    while (to < n && to < name + SPACES_MAX && strchr(" \t\"']", at[to]) != NULL) {
        value.is_spaced = value.is_spaced || at[to] == ' ' || at[to] == '\t';
        to++;
    }
    if (to >= n || (at[to] != '=' && at[to] != ':')) {
        return (struct match){0};
    }
    value.sign = at[to++];
    for (size_t k = 0; to < n && k < SPACES_MAX && (at[to] == ' ' || at[to] == '\t'); k++) {
        value.is_spaced = true;
        to++;
    }
    scheme = scheme_length(at + to, n - to);
    to += scheme;
    place_read(text, i, &value);
    is_ending = name_ends(rule, at, name);
    if (!value_read(at + to, n - to, &value) ||
        !(is_secret(rule, &value, is_ending) ||
          (scheme > 0 && is_ending && value.n >= PLAIN_MIN && !is_no_secret(&value)))) {
        return (struct match){0};
    }
    return (struct match){.kept = to + (value.quote == '\0' ? 0 : 1), .gone = value.n};
}

/* at: behind "?" or "&" of an address. */
static struct match param_match(const struct redact_rule *rule, const char *at, size_t n)
{
    for (size_t i = 0; i < rule->n_words; i++) {
        size_t name = strlen(rule->words[i]);
        size_t end = name + 1;

        if (n <= name || strncasecmp(at, rule->words[i], name) != 0 || at[name] != '=') {
            continue;
        }
        while (end < n && end < VALUE_MAX && !isspace((unsigned char)at[end]) &&
               strchr("&\"'<>;,)", at[end]) == NULL) {
            end++;
        }
        return (struct match){.kept = name + 1,
                              .gone = end - name - 1 >= PLAIN_MIN ? end - name - 1 : 0};
    }
    return (struct match){0};
}

/* at: behind "://". */
static struct match url_match(const char *at, size_t n)
{
    size_t colon = 0;
    size_t end;

    while (colon < n && colon < LINE_MAX_LEN && !isspace((unsigned char)at[colon]) &&
           strchr(":/@\"'", at[colon]) == NULL) {
        colon++;
    }
    if (colon >= n || at[colon] != ':') {
        return (struct match){0};
    }
    for (end = colon + 1; end < n && end < colon + LINE_MAX_LEN &&
                          !isspace((unsigned char)at[end]) && strchr("/@\"'", at[end]) == NULL;
         end++) {
    }
    return end < n && at[end] == '@' ? (struct match){.kept = colon + 1, .gone = end - colon - 1}
                                     : (struct match){0};
}

static double bits_per_byte(const unsigned *counts, size_t n)
{
    double bits = 0;

    for (size_t i = 0; i < BYTES; i++) {
        if (counts[i] > 0) {
            double share = (double)counts[i] / (double)n;

            bits -= share * log2(share);
        }
    }
    return bits;
}

/* at: the beginning of a run of such characters. */
static struct match entropy_match(const struct redact_rule *rule, const char *at, size_t n)
{
    unsigned counts[BYTES] = {0};
    bool has_small = false;
    bool has_capital = false;
    bool has_digit = false;
    size_t len = 0;

    for (size_t i = 2; i < rule->n_words; i++) {
        size_t prefix = strlen(rule->words[i]);

        if (n >= prefix && memcmp(at, rule->words[i], prefix) == 0) {
            return (struct match){0};
        }
    }
    while (len < n && (is_of(BASE64, at[len]) || at[len] == '_' || at[len] == '-')) {
        unsigned char c = (unsigned char)at[len];

        counts[c]++;
        has_small = has_small || islower(c);
        has_capital = has_capital || isupper(c);
        has_digit = has_digit || isdigit(c);
        len++;
        if (c == '=' && (len == n || at[len] != '=')) {
            break; /* the end of base64, or of a name that gets a value */
        }
    }
    return (struct match){.gone = len >= rule->min && has_small && has_capital && has_digit &&
                                          bits_per_byte(counts, len) >= rule->bits
                                      ? len
                                      : 0};
}

/* Not in the middle of a word. */
static bool may_be_token(const struct redact_rule *rule, char before, char first)
{
    return first == rule->words[0][0] && !is_of(WORD, before);
}

static struct match rule_match(const struct redact_rule *rule, const char *text, size_t i, size_t n)
{
    char before = i == 0 ? ' ' : text[i - 1];
    const char *at = text + i;

    switch (rule->kind[0]) {
    case 't': /* token */
        return may_be_token(rule, before, *at) ? token_match(rule, at, n - i) : (struct match){0};
    case 'p': /* pair, param */
        if (rule->kind[2] == 'i') {
            return may_be_token(rule, before, *at) ? pair_match(rule, at, n - i)
                                                   : (struct match){0};
        }
        return before == '?' || before == '&' ? param_match(rule, at, n - i) : (struct match){0};
    case 'n': /* not: words that are not secrets */
        return (struct match){0};
    case 'b':
        return *at == rule->words[0][0] ? block_match(rule, at, n - i) : (struct match){0};
    case 'a': /* assign, also */
        return is_of(URL, *at) && !is_of(URL, before) ? assign_match(rule, text, i, n)
                                                      : (struct match){0};
    case 'u':
        return i >= 3 && memcmp(at - 3, "://", 3) == 0 ? url_match(at, n - i) : (struct match){0};
    default:
        /* Not at "=", or each position in a run of these would scan all of it. */
        return is_of(BASE64, *at) && *at != '=' &&
                       (before == '=' || (!is_of(BASE64, before) && before != '_' && before != '-'))
                   ? entropy_match(rule, at, n - i)
                   : (struct match){0};
    }
}

/* Whether any rule can begin here: most positions are inside a word. */
static bool is_place(const char *text, size_t i)
{
    char before = i == 0 ? ' ' : text[i - 1];

    return text[i] == '-' || !is_of(JWT, before);
}

int snp_redact(struct snp_buf *out, const char *text, size_t n, size_t *ret_n)
{
    size_t from = 0;
    size_t count = 0;
    int r = 0;

    SNP_ASSERT(pthread_once(&once, rules_read) == 0);
    for (size_t i = 0; i < n && r == 0; i++) {
        struct match match = {0};
        const struct redact_rule *rule = rules;

        if (!is_place(text, i)) {
            continue;
        }
        for (; rule < rules + n_rules && match.gone == 0; rule++) {
            match = rule_match(rule, text, i, n);
        }
        if (match.gone == 0) {
            continue;
        }
        r = snp_buf_add(out, text + from, i + match.kept - from);
        r = r < 0 ? r : snp_buf_addf(out, "[redacted:%s]", rule[-1].name);
        from = i + match.kept + match.gone;
        i = from - 1;
        count++;
    }
    if (ret_n != NULL) {
        *ret_n = count;
    }
    return r < 0 ? r : snp_buf_add(out, text + from, n - from);
}
