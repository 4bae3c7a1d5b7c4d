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
    pid_t pid; /* 0 = does not run */
    int fd;
    char *program;                   /* owned */
    bool is_missing;                 /* this build has none */
    unsigned failed[SNP_LANGUAGE_N]; /* files of a language that it did not survive */
    struct snp_parse_item *items;    /* owned */
};

#define SNP_PARSE_NEW \
    {                 \
        .fd = -1      \
    }
void snp_parse_done(struct snp_parse *parse);

/* Look whether this build has it; it is started when it is needed. */
void snp_parse_find(struct snp_parse *parse);

/*
 * Request the items of a text; snp_parse_items waits for the answer, and the text may be freed
 * before. False: there will be none, so the file is plain text.
 */
bool snp_parse_ask(struct snp_parse *parse, enum snp_language language, const char *text, size_t n);

/*
 * What was asked for last, of a text of n bytes; every range lies in it. *ret stays parse's until
 * the next call. False: the program failed or took too long.
 */
bool snp_parse_items(struct snp_parse *parse,
                     enum snp_language language,
                     size_t n,
                     const struct snp_parse_item **ret,
                     size_t *ret_n);

/*
 * The tree of a text, behind what out has (context/parsed.h says how). False: none, for the
 * same reasons.
 */
bool snp_parse_tree(struct snp_parse *parse,
                    enum snp_language language,
                    const char *text,
                    size_t n,
                    struct snp_buf *out);

#endif
