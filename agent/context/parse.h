/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_PARSE_H
#define SNP_CONTEXT_PARSE_H

/*
 * The program that finds definitions (agent/context/parser), which a hostile file can make fail,
 * hang or lie.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "context/language.h"
#include "context/parsed.h"

struct snp_parse {
    pid_t pid; /* 0 = not running */
    int fd;
    char *program;                   /* owned */
    bool is_missing;                 /* not part of this build */
    unsigned failed[SNP_LANGUAGE_N]; /* files of a language on which it failed */
    struct snp_parse_item *items;    /* owned */
};

#define SNP_PARSE_NEW \
    {                 \
        .fd = -1      \
    }
void snp_parse_done(struct snp_parse *parse);

/* Look up the program; it is started at the first request. */
void snp_parse_find(struct snp_parse *parse);

/*
 * Request the items of a text; snp_parse_items waits for the answer. The text may be freed before
 * that. False: there will be no answer, so the file is plain text.
 */
bool snp_parse_ask(struct snp_parse *parse, enum snp_language language, const char *text, size_t n);

/*
 * The answer to the last request, for a text of n bytes; every range lies in the text. *ret belongs
 * to parse and is valid until the next call. False: the program failed or took too long.
 */
bool snp_parse_items(struct snp_parse *parse,
                     enum snp_language language,
                     size_t n,
                     const struct snp_parse_item **ret,
                     size_t *ret_n);

/*
 * Append the tree of a text to out, in the format of context/parsed.h. False: the program failed or
 * took too long.
 */
bool snp_parse_tree(struct snp_parse *parse,
                    enum snp_language language,
                    const char *text,
                    size_t n,
                    struct snp_buf *out);

#endif
