/* SPDX-License-Identifier: Apache-2.0 */
#include "standard/front.h"

#include <stdbool.h>
#include <string.h>

struct line {
    const char *at;
    size_t n;
    size_t next; /* offset of the next line */
};

static struct line line_at(const char *text, size_t n, size_t from)
{
    const char *end = memchr(text + from, '\n', n - from);
    struct line line = {.at = text + from,
                        .n = end == NULL ? n - from : (size_t)(end - (text + from)),
                        .next = end == NULL ? n : (size_t)(end - text) + 1};

    while (line.n > 0 && (line.at[line.n - 1] == ' ' || line.at[line.n - 1] == '\t' ||
                          line.at[line.n - 1] == '\r')) {
        line.n--;
    }
    return line;
}

static void trim(const char **text, size_t *n)
{
    while (*n > 0 && (**text == ' ' || **text == '\t')) {
        (*text)++;
        (*n)--;
    }
    while (*n > 0 && ((*text)[*n - 1] == ' ' || (*text)[*n - 1] == '\t')) {
        (*n)--;
    }
    if (*n >= 2 && (**text == '"' || **text == '\'') && (*text)[*n - 1] == **text) {
        (*text)++;
        *n -= 2;
    }
}

static bool is_mark(const struct line *line)
{
    return line->n == 3 && memcmp(line->at, "---", 3) == 0;
}

/* Parse a line; its key applies to the lines below it. n: 0 = nothing. */
static void line_read(const struct line *line, struct snp_front_item *item)
{
    const char *colon = memchr(line->at, ':', line->n);
    size_t blank = 0;

    while (blank < line->n && (line->at[blank] == ' ' || line->at[blank] == '\t')) {
        blank++;
    }
    item->n = 0;
    if (blank < line->n && line->at[blank] == '-') {
        item->value = line->at + blank + 1;
        item->n = line->n - blank - 1;
    } else if (blank == 0 && line->n > 0 && line->at[0] != '#' && colon != NULL) {
        item->key = line->at;
        item->key_n = (size_t)(colon - line->at);
        item->value = colon + 1;
        item->n = line->n - item->key_n - 1;
    }
    if (item->n > 0) {
        trim(&item->value, &item->n);
    }
}

int snp_front_read(const char *text,
                   size_t n,
                   int (*item)(void *arg, const struct snp_front_item *item),
                   void *arg,
                   struct snp_front_matter *ret)
{
    size_t most = n < SNP_FRONT_BYTES_MAX ? n : SNP_FRONT_BYTES_MAX;
    struct snp_front_item now = {.key = "", .value = ""};
    struct line line = line_at(text, most, 0);
    uint32_t number = 1;
    int r = 0;

    *ret = (struct snp_front_matter){.body_line = 1};
    if (!is_mark(&line)) {
        return 0;
    }
    while (line.next < most && r >= 0) {
        line = line_at(text, most, line.next);
        number++;
        if (is_mark(&line)) {
            *ret = (struct snp_front_matter){.body = line.next, .body_line = number + 1};
            return 0;
        }
        line_read(&line, &now);
        r = now.n == 0 ? 0 : item(arg, &now);
    }
    ret->problem = "its front matter has no end";
    return r < 0 ? r : 0;
}

size_t snp_front_words(const char *list, size_t n, struct snp_front_word *ret, size_t max)
{
    size_t found = 0;

    if (n >= 2 && list[0] == '[' && list[n - 1] == ']') {
        list++;
        n -= 2;
    }
    for (size_t from = 0; from <= n && found < max;) {
        const char *comma = from == n ? NULL : memchr(list + from, ',', n - from);
        const char *word = list + from;
        size_t len = comma == NULL ? n - from : (size_t)(comma - word);

        from += len + 1;
        trim(&word, &len);
        if (len > 0) {
            ret[found++] = (struct snp_front_word){word, len};
        }
    }
    return found;
}
