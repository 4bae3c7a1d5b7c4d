/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reading .env. The parser is a cursor over one line at a time that never moves back; it skips
 * lines that it cannot parse, because the file also serves other tools.
 */

#include "base/config/dotenv.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/str.h"

struct dotenv_cursor {
    const char *at;
    const char *end;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_name_byte(char c, bool is_first)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           (!is_first && c >= '0' && c <= '9');
}

static void skip_blanks(struct dotenv_cursor *cur)
{
    while (cur->at < cur->end && is_blank(*cur->at)) {
        cur->at++;
    }
}

/* "export " before a name. */
static void skip_export(struct dotenv_cursor *cur)
{
    static const char word[] = "export";
    size_t n = sizeof(word) - 1;
    if ((size_t)(cur->end - cur->at) > n && memcmp(cur->at, word, n) == 0 && is_blank(cur->at[n])) {
        cur->at += n;
        skip_blanks(cur);
    }
}

/* The name and its `=`; NULL if there is none, else its text in *ret (caller frees). */
static const char *read_name(struct dotenv_cursor *cur, char **ret)
{
    const char *start = cur->at;
    while (cur->at < cur->end && is_name_byte(*cur->at, cur->at == start)) {
        cur->at++;
    }
    size_t n = (size_t)(cur->at - start);
    skip_blanks(cur);
    if (n == 0) {
        return "expected NAME=VALUE";
    }
    if (cur->at == cur->end || *cur->at != '=') {
        return "expected '=' after the name";
    }
    cur->at++;
    *ret = strndup(start, n);
    return *ret == NULL ? "out of memory" : NULL;
}

/* One quoted part, the cursor on its opening quote. */
static const char *read_quoted(struct dotenv_cursor *cur, struct snp_buf *out)
{
    char quote = *cur->at++;
    while (cur->at < cur->end && *cur->at != quote) {
        bool is_escape = quote == '"' && *cur->at == '\\' && cur->at + 1 < cur->end &&
                         strchr("\"\\$`", cur->at[1]) != NULL && cur->at[1] != '\0';
        if (is_escape) {
            cur->at++;
        }
        if (snp_buf_add(out, cur->at, 1) < 0) {
            return "out of memory";
        }
        cur->at++;
    }
    if (cur->at == cur->end) {
        return "the quote is not closed on this line";
    }
    cur->at++;
    return NULL;
}

/* Everything up to the end of line or a comment; blanks at the end are dropped. */
static const char *read_value(struct dotenv_cursor *cur, struct snp_buf *out)
{
    size_t kept = 0; /* length without unquoted blanks at the end */
    bool after_blank = true;
    skip_blanks(cur);
    while (cur->at < cur->end && !(*cur->at == '#' && after_blank)) {
        char c = *cur->at;
        after_blank = is_blank(c);
        if (c == '\'' || c == '"') {
            const char *fault = read_quoted(cur, out);
            if (fault != NULL) {
                return fault;
            }
            kept = out->len;
            continue;
        }
        if (c == '\\' && cur->at + 1 < cur->end) {
            cur->at++;
        }
        if (snp_buf_add(out, cur->at, 1) < 0) {
            return "out of memory";
        }
        cur->at++;
        kept = after_blank ? kept : out->len;
    }
    out->len = kept;
    return NULL;
}

/* One line, without its newline. NULL, or a description of the error. */
static const char *read_line(struct dotenv_cursor *cur, struct snp_buf *value, json_t *object)
{
    snp_autofree char *name = NULL;
    skip_blanks(cur);
    if (cur->at == cur->end || *cur->at == '#') {
        return NULL;
    }
    skip_export(cur);
    const char *fault = read_name(cur, &name);
    if (fault == NULL) {
        fault = read_value(cur, value);
    }
    if (fault != NULL) {
        return fault;
    }
    const char *bytes = value->len == 0 ? "" : snp_buf_bytes(value);
    if (!snp_utf8_valid(bytes, value->len) || memchr(bytes, '\0', value->len) != NULL) {
        return "the value is not text in UTF-8";
    }
    if (json_object_set_new(object, name, json_stringn(bytes, value->len)) < 0) {
        return "out of memory";
    }
    return NULL;
}

int snp_dotenv_parse(
    const char *text, size_t n, snp_dotenv_warn warn, void *arg, json_t **ret, struct snp_err *err)
{
    snp_autojson json_t *object = json_object();
    if (object == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    const char *end = text + n;
    unsigned line = 0;
    for (const char *at = text; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct dotenv_cursor cur = {at, newline == NULL ? end : newline};
        snp_autobuf struct snp_buf value = {0};
        snp_buf_init(&value, SNP_DOTENV_MAX_BYTES);
        const char *fault = read_line(&cur, &value, object);
        line++;
        if (fault != NULL && warn != NULL) {
            warn(arg, line, fault);
        }
        at = newline == NULL ? end : newline + 1;
    }
    *ret = SNP_TAKE_PTR(object);
    return 0;
}

/* Cut the last component of an absolute path; false at the root. */
static bool to_parent(char *dir)
{
    char *slash = strrchr(dir, '/');
    if (slash == NULL || dir[1] == '\0') {
        return false;
    }
    slash[slash == dir ? 1 : 0] = '\0';
    return true;
}

/* The search ends here. *ret_r: the result of reading the file. */
static bool is_nearest(const char *path,
                       struct snp_config_text *ret,
                       char **ret_foreign,
                       int *ret_r,
                       struct snp_err *err)
{
    bool is_foreign = false;

    *ret_r = snp_source_read(path, SNP_DOTENV_MAX_BYTES, ret, &is_foreign, err);
    if (is_foreign && *ret_foreign == NULL) {
        *ret_foreign = strdup(err->msg);
    }
    return !is_foreign && *ret_r != SNP_E_NOT_FOUND && *ret_r != SNP_E_INVALID;
}

int snp_dotenv_find(const char *dir,
                    char **ret_path,
                    struct snp_config_text *ret,
                    char **ret_foreign,
                    struct snp_err *err)
{
    snp_autofree char *at = strdup(dir);
    if (at == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    bool more = true;
    *ret_path = NULL;
    while (more) {
        const char *slash = snp_streq(at, "/") ? "" : "/";
        snp_autofree char *path = snp_format("%s%s.env", at, slash);
        snp_autofree char *stop = snp_format("%s%s.git", at, slash);
        int r = 0;
        if (path == NULL || stop == NULL) {
            return snp_fail(err, SNP_E_NOMEM, "out of memory");
        }
        if (is_nearest(path, ret, ret_foreign, &r, err)) {
            *ret_path = SNP_TAKE_PTR(path);
            return r;
        }
        more = access(stop, F_OK) < 0 && to_parent(at);
    }
    return 0;
}
