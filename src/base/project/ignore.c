/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pattern and a path are compared part by part, between slashes; a part character by character.
 * In both, only the last star is tried again, which is enough, because earlier stars can keep their
 * shortest match.
 */
#include "base/project/ignore.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct text {
    const char *at;
    const char *end;
};

struct ignore_rule {
    struct text pattern;
    bool is_kept;     /* `!` */
    bool is_folder;   /* matches folders only */
    bool is_anchored; /* has a slash: matches whole paths, not names */
};

struct snp_ignore {
    char *text; /* owned; rules borrow from it */
    struct ignore_rule *rules;
    size_t n;
};

/* One part: no slashes ----------------------------------------------------------------- */

static char unescaped(struct text *p)
{
    p->at += *p->at == '\\' && p->at + 1 < p->end;
    return *p->at++;
}

/*
 * A class as [a-z] at p->at, just after its bracket; p is moved past it. False also if it is not
 * closed.
 */
static bool class_fits(struct text *p, char c)
{
    bool is_not = p->at < p->end && (*p->at == '!' || *p->at == '^');
    bool is_in = false;

    p->at += is_not;
    for (bool is_first = true; p->at < p->end && (is_first || *p->at != ']'); is_first = false) {
        char low = unescaped(p);
        char high = low;

        if (p->end - p->at >= 2 && *p->at == '-' && p->at[1] != ']') {
            p->at++;
            high = unescaped(p);
        }
        is_in = is_in ||
                ((unsigned char)low <= (unsigned char)c && (unsigned char)c <= (unsigned char)high);
    }
    if (p->at == p->end) {
        return false;
    }
    p->at++;
    return is_in != is_not;
}

/* One character of the pattern except a star; p is moved past it. */
static bool char_fits(struct text *p, char c)
{
    if (*p->at == '?') {
        p->at++;
        return true;
    }
    if (*p->at == '[') {
        p->at++;
        return class_fits(p, c);
    }
    return unescaped(p) == c;
}

static bool part_fits(struct text p, struct text t)
{
    struct text star = {NULL, p.end};
    const char *tried = NULL;

    while (t.at < t.end) {
        if (p.at < p.end && *p.at == '*') {
            p.at++;
            star.at = p.at;
            tried = t.at;
            continue;
        }
        if (p.at < p.end && char_fits(&p, *t.at)) {
            t.at++;
            continue;
        }
        if (star.at == NULL) {
            return false;
        }
        p.at = star.at;
        t.at = ++tried;
    }
    while (p.at < p.end && *p.at == '*') {
        p.at++;
    }
    return p.at == p.end;
}

/* Paths -------------------------------------------------------------------------------- */

/* Take the part before the next slash; false: there is none (at is NULL). */
static bool part_next(struct text *rest, struct text *ret)
{
    const char *slash;

    if (rest->at == NULL) {
        return false;
    }
    slash = memchr(rest->at, '/', (size_t)(rest->end - rest->at));
    *ret = (struct text){rest->at, slash == NULL ? rest->end : slash};
    rest->at = slash == NULL ? NULL : slash + 1;
    return true;
}

static bool is_deep(struct text part)
{
    return part.end - part.at == 2 && part.at[0] == '*' && part.at[1] == '*';
}

static bool path_fits(struct text pattern, struct text path)
{
    struct text deep = {NULL, NULL}; /* the pattern after the last ** */
    struct text tried = {NULL, NULL};
    struct text t;

    while (path.at != NULL) {
        struct text p_rest = pattern;
        struct text t_rest = path;
        struct text p;
        bool has_part = part_next(&p_rest, &p);

        (void)part_next(&t_rest, &t);
        if (has_part && is_deep(p)) {
            if (p_rest.at == NULL) {
                return true; /* everything inside */
            }
            deep = pattern = p_rest;
            tried = path;
        } else if (has_part && part_fits(p, t)) {
            pattern = p_rest;
            path = t_rest;
        } else if (deep.at != NULL) {
            (void)part_next(&tried, &t);
            path = tried;
            pattern = deep;
        } else {
            return false;
        }
    }
    return pattern.at == NULL;
}

/* Files -------------------------------------------------------------------------------- */

static bool rule_read(struct text line, struct ignore_rule *ret)
{
    while (line.end > line.at && (line.end[-1] == '\r' || line.end[-1] == ' ') &&
           !(line.end - line.at > 1 && line.end[-2] == '\\')) {
        line.end--;
    }
    if (line.at == line.end || *line.at == '#' || line.end - line.at > SNP_IGNORE_RULE_MAX) {
        return false;
    }
    *ret = (struct ignore_rule){.is_kept = *line.at == '!'};
    line.at += ret->is_kept;
    if (line.at == line.end) {
        return false;
    }
    if (line.end[-1] == '/') {
        ret->is_folder = true;
        line.end--;
    }
    ret->is_anchored = memchr(line.at, '/', (size_t)(line.end - line.at)) != NULL;
    line.at += line.at < line.end && *line.at == '/';
    ret->pattern = line;
    return line.at < line.end;
}

int snp_ignore_new(const char *text, size_t n, struct snp_ignore **ret)
{
    struct snp_ignore *ignore = calloc(1, sizeof(*ignore));
    struct text rest;

    *ret = NULL;
    if (ignore == NULL) {
        return SNP_E_NOMEM;
    }
    ignore->text = malloc(n + 1);
    ignore->rules = calloc(SNP_IGNORE_RULES_MAX, sizeof(*ignore->rules));
    if (ignore->text == NULL || ignore->rules == NULL) {
        snp_ignore_free(ignore);
        return SNP_E_NOMEM;
    }
    memcpy(ignore->text, n == 0 ? "" : text, n);
    rest = (struct text){ignore->text, ignore->text + n};
    if (n >= 3 && memcmp(ignore->text, "\xef\xbb\xbf", 3) == 0) {
        rest.at += 3;
    }
    while (rest.at < rest.end && ignore->n < SNP_IGNORE_RULES_MAX) {
        const char *end = memchr(rest.at, '\n', (size_t)(rest.end - rest.at));
        struct text line = {rest.at, end == NULL ? rest.end : end};

        ignore->n += rule_read(line, &ignore->rules[ignore->n]);
        rest.at = end == NULL ? rest.end : end + 1;
    }
    *ret = ignore;
    return 0;
}

void snp_ignore_free(struct snp_ignore *ignore)
{
    if (ignore != NULL) {
        free(ignore->text);
        free(ignore->rules);
        free(ignore);
    }
}

enum snp_ignored snp_ignore_judge(const struct snp_ignore *ignore, const char *path, bool is_folder)
{
    struct text whole = {path, path + strlen(path)};
    const char *slash = strrchr(path, '/');
    struct text name = {slash == NULL ? path : slash + 1, whole.end};

    for (size_t i = ignore->n; i-- > 0;) {
        const struct ignore_rule *rule = &ignore->rules[i];

        if ((!rule->is_folder || is_folder) &&
            (rule->is_anchored ? path_fits(rule->pattern, whole)
                               : part_fits(rule->pattern, name))) {
            return rule->is_kept ? SNP_IGNORED_IN : SNP_IGNORED_OUT;
        }
    }
    return SNP_IGNORED_SILENT;
}
