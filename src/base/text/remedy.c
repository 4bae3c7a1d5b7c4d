/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/remedy.h"

#include <string.h>

static const char *limit_words(const struct snp_remedy_limit *row, const char *limit)
{
    while (row != NULL && row->limit != NULL && strcmp(row->limit, limit) != 0) {
        row++;
    }
    return row == NULL ? NULL : row->words;
}

static int fill(struct snp_buf *out, const char *words, const struct snp_err *err)
{
    static const char name[] = "{name}";
    static const char object[] = "{object}";
    int r = 0;

    for (const char *at = words; r == 0 && *at != '\0';) {
        size_t n = strcspn(at + 1, "{") + 1;

        if (strncmp(at, name, sizeof(name) - 1) == 0) {
            r = snp_buf_adds(out, err->remedy.name);
            n = sizeof(name) - 1;
        } else if (strncmp(at, object, sizeof(object) - 1) == 0) {
            r = snp_buf_adds(out, err->object);
            n = sizeof(object) - 1;
        } else {
            r = snp_buf_add(out, at, n);
        }
        at += n;
    }
    return r;
}

int snp_remedy_add(struct snp_buf *out,
                   const struct snp_remedy_words *words,
                   const struct snp_err *err)
{
    const struct snp_remedy *remedy = &err->remedy;
    const char *text = words->kind[remedy->kind];

    if (remedy->kind == SNP_REMEDY_RECOVER) {
        return words->ways(out, remedy->value, err->object);
    }
    if (remedy->kind == SNP_REMEDY_SET_LIMIT) {
        return words->set_limit(out, err);
    }
    if (remedy->kind == SNP_REMEDY_RAISE_LIMIT) {
        text = limit_words(words->limits, remedy->name);
    }
    return text == NULL ? 0 : fill(out, text, err);
}
