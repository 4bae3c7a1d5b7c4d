/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as text. Positions are found in a copy of the same length in which non-JSON (comments,
 * trailing commas) is blanked; output is taken from the original. The copy is parsed before it is
 * scanned, so the scanner may rely on well-formed JSON.
 */
#include "base/cli/json_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/cli/need.h"
#include "base/str.h"

static const char nothing[] = "{}\n";

/* Blanking ------------------------------------------------------------------------------------ */

static void blank(char *text, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        text[i] = text[i] == '\n' ? '\n' : ' ';
    }
}

/* The length of the comment at the front, 0 if there is none; an unterminated one extends to n. */
static size_t comment_length(const char *text, size_t n)
{
    const char *end;

    if (n >= 2 && text[0] == '/' && text[1] == '/') {
        end = memchr(text, '\n', n);
        return end == NULL ? n : (size_t)(end - text);
    }
    if (n >= 2 && text[0] == '/' && text[1] == '*') {
        end = memmem(text + 2, n - 2, "*/", 2);
        return end == NULL ? 0 : (size_t)(end - text) + 2;
    }
    return 0;
}

static size_t blanks_skip(const char *text, size_t n, size_t i)
{
    while (i < n && strchr(" \t\r\n", text[i]) != NULL && text[i] != '\0') {
        i++;
    }
    return i;
}

/* The position after the string that begins at i. */
static size_t string_skip(const char *text, size_t n, size_t i)
{
    for (i++; i < n && text[i] != '"'; i++) {
        i += text[i] == '\\' ? 1 : 0;
    }
    return i + 1;
}

/* Blank a comma that stands between a value and a closing bracket. */
static void last_comma_blank(char *text, size_t comma, size_t bracket)
{
    size_t before = comma;

    while (before > 0 && strchr(" \t\r\n", text[before - 1]) != NULL) {
        before--;
    }
    if (before > 0 && strchr("{[,:", text[before - 1]) == NULL) {
        blank(text, comma, bracket);
    }
}

/* Strict JSON of the same length, NUL-terminated; the caller frees. NULL when out of memory. */
static char *strict_copy(const char *text, size_t n)
{
    char *copy = snp_need(malloc(n + 1));
    size_t comma = n; /* the last one, if followed only by blanks */
    size_t i = 0;

    if (copy == NULL) {
        return NULL;
    }
    memcpy(copy, text, n);
    copy[n] = '\0';
    if (n >= 3 && memcmp(copy, "\xef\xbb\xbf", 3) == 0) {
        blank(copy, 0, 3);
    }
    while (i < n) {
        size_t len = comment_length(copy + i, n - i);

        if (len > 0) {
            blank(copy, i, i + len);
            i += len;
        } else if (copy[i] == '"') {
            comma = n;
            i = string_skip(copy, n, i);
        } else {
            if ((copy[i] == '}' || copy[i] == ']') && comma < n) {
                last_comma_blank(copy, comma, i);
            }
            comma = copy[i] == ',' ? i : strchr(" \t\r\n", copy[i]) != NULL ? comma : n;
            i++;
        }
    }
    return copy;
}

/* Positions ----------------------------------------------------------------------------------- */

/* The position after the value that begins at i. */
static size_t value_skip(const char *text, size_t n, size_t i)
{
    int depth = 0;

    do {
        char c = text[i];

        if (c == '"') {
            i = string_skip(text, n, i);
            continue;
        }
        if (depth == 0 && c != '{' && c != '[') { /* a number or a word */
            while (i < n && strchr(",]} \t\r\n", text[i]) == NULL) {
                i++;
            }
            return i;
        }
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
        i++;
    } while (i < n && depth > 0);
    return i;
}

/* The value of a member of the object whose "{" is at i: from *ret_from to *ret_to. */
static bool member_find(
    const char *text, size_t n, size_t i, const char *key, size_t *ret_from, size_t *ret_to)
{
    i = blanks_skip(text, n, i + 1);
    while (i < n && text[i] == '"') {
        size_t end = string_skip(text, n, i);
        bool is_it = end - i - 2 == strlen(key) && strncmp(text + i + 1, key, end - i - 2) == 0;
        size_t from = blanks_skip(text, n, blanks_skip(text, n, end) + 1);
        size_t to = value_skip(text, n, from);

        if (is_it) {
            *ret_from = from;
            *ret_to = to;
            return true;
        }
        i = blanks_skip(text, n, to);
        i = i < n && text[i] == ',' ? blanks_skip(text, n, i + 1) : i;
    }
    return false;
}

/* Writing ------------------------------------------------------------------------------------- */

/* The file, and its strict copy. */
struct json_source {
    const char *text;
    const char *strict;
    size_t n;
};

/*
 * Write `"key": value` as the first member of the object whose "{" is at i, indented by depth * 2.
 */
static int member_insert(const struct json_source *source,
                         size_t i,
                         const char *member,
                         unsigned depth,
                         struct snp_buf *out)
{
    size_t next = blanks_skip(source->strict, source->n, i + 1);
    size_t shown = blanks_skip(source->text, source->n, i + 1); /* less if a comment follows */
    bool is_empty = source->strict[next] == '}';
    int r = snp_buf_add(out, source->text, i + 1);

    r = r < 0 ? r : snp_buf_addf(out, "\n%*s%s", (int)depth * 2, "", member);
    if (is_empty && shown == next) {
        r = r < 0 ? r : snp_buf_addf(out, "\n%*s", ((int)depth - 1) * 2, "");
        return r < 0 ? r : snp_buf_add(out, source->text + next, source->n - next);
    }
    r = r < 0 || is_empty ? r : snp_buf_add(out, ",", 1);
    return r < 0 ? r : snp_buf_add(out, source->text + i + 1, source->n - i - 1);
}

static int put(const struct json_source *source,
               const struct snp_json_entry *entry,
               const char *value,
               struct snp_buf *out)
{
    size_t start = blanks_skip(source->strict, source->n, 0);
    size_t from = 0;
    size_t to = 0;
    snp_autofree char *member = snp_need_format("\"%s\": %s", entry->name, value);
    snp_autofree char *group =
        snp_need_format("\"%s\": {\n    \"%s\": %s\n  }", entry->group, entry->name, value);
    int r;

    if (member == NULL || group == NULL) {
        return SNP_E_NOMEM;
    }
    if (!member_find(source->strict, source->n, start, entry->group, &from, &to)) {
        return member_insert(source, start, group, 1, out);
    }
    if (source->strict[from] != '{') {
        return SNP_E_INVALID;
    }
    start = from;
    if (!member_find(source->strict, source->n, start, entry->name, &from, &to)) {
        return member_insert(source, start, member, 2, out);
    }
    r = snp_buf_add(out, source->text, from);
    r = r < 0 ? r : snp_buf_adds(out, value);
    return r < 0 ? r : snp_buf_add(out, source->text + to, source->n - to);
}

int snp_json_text_parse(const char *text, size_t n, json_t **ret, struct snp_err *err)
{
    snp_autofree char *strict = strict_copy(text, n);

    return blanks_skip(strict, n, 0) == n ? snp_json_parse(nothing, strlen(nothing), ret, err)
                                          : snp_json_parse(strict, n, ret, err);
}

/* Verify the output: it must parse to the old value with the entry put in. */
static int check(const json_t *old,
                 const struct snp_json_entry *entry,
                 const struct snp_buf *made,
                 struct snp_err *err)
{
    snp_autojson json_t *is = NULL;
    snp_autojson json_t *want = json_deep_copy(old);
    json_t *group = json_object_get(want, entry->group);
    int r = snp_json_text_parse(snp_buf_bytes(made), made->len, &is, err);

    if (r < 0) {
        return r;
    }
    if (group == NULL && json_object_set_new(want, entry->group, json_object()) == 0) {
        group = json_object_get(want, entry->group);
    }
    (void)json_object_set(group, entry->name, entry->value);
    return json_equal(is, want)
               ? 0
               : snp_fail(err, SNP_E_INVALID, "the entry could not be written into this file");
}

int snp_json_text_put(const char *text,
                      size_t n,
                      const struct snp_json_entry *entry,
                      struct snp_buf *out,
                      struct snp_err *err)
{
    snp_autojson json_t *old = NULL;
    snp_autofree char *strict = NULL;
    snp_autofree char *value = json_dumps(entry->value, 0);
    struct json_source source;
    int r = snp_json_text_parse(text, n, &old, err);

    if (r < 0) {
        return r;
    }
    if (blanks_skip(text, n, 0) == n) {
        text = nothing;
        n = strlen(nothing);
    }
    strict = strict_copy(text, n);
    if (blanks_skip(strict, n, 0) == n) {
        return snp_fail(err, SNP_E_INVALID, "the file has only comments");
    }
    source = (struct json_source){text, strict, n};
    r = put(&source, entry, value, out);
    if (r == SNP_E_INVALID) {
        return snp_fail(err, SNP_E_INVALID, "'%s' in the file is not an object", entry->group);
    }
    if (r < 0) {
        return snp_fail(err, (enum snp_code)r, "the file is too large");
    }
    return check(old, entry, out, err);
}
