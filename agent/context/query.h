/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_QUERY_H
#define SNP_CONTEXT_QUERY_H

/*
 * The parts of a project relevant to a query. Several lists (exact names, words, imports of the
 * current file, callers) are fused by reciprocal rank; those that fit the budget are returned:
 * whole definitions, then signatures, then names.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "context/index.h"

enum {
    SNP_QUERY_TEXT_MAX = 4000, /* bytes */
    SNP_QUERY_HITS_MAX = 200,
    SNP_QUERY_TOKENS = 4000, /* unless another budget is given */
    SNP_QUERY_TOKENS_MIN = 100,
    SNP_QUERY_TOKENS_MAX = 100000,
};

enum snp_query_mode {
    SNP_QUERY_HYBRID = 0,
    SNP_QUERY_KEYWORD,
    SNP_QUERY_SEMANTIC,
};

struct snp_encoding;

struct snp_query {
    const char *text;
    const char *current; /* path of the file being edited; NULL = none */
    uint64_t max_tokens;
    enum snp_query_mode mode;
    struct snp_encoding *encoding; /* NULL = by words alone, whatever the mode */
};

enum snp_section_form {
    SNP_SECTION_WHOLE = 0,
    SNP_SECTION_SKELETON, /* its signature and documentation, and the signatures in it */
    SNP_SECTION_NAME,
    SNP_SECTION_CUT, /* its beginning */
};

struct snp_section {
    bool is_standard; /* of the team, not of the index */
    char *path;       /* owned */
    char *title;      /* owned: qualified name; for a file its path */
    char *why;        /* owned: exact match: "name" */
    char *content;    /* owned; "" = shown by name only */
    enum snp_chunk_kind kind;
    enum snp_section_form form;
    uint32_t lines[2];
    double score;    /* 0 to 1; the best hit has 1 */
    uint64_t tokens; /* of its heading and content */
};

struct snp_answer {
    struct snp_section *items; /* owned, best first */
    size_t n;
    size_t left_out; /* found, but left out by the budget */
    uint64_t tokens;
};

void snp_section_done(struct snp_section *section);
void snp_answer_done(struct snp_answer *answer);

int snp_query(struct snp_index *index,
              const struct snp_query *query,
              struct snp_answer *ret,
              struct snp_err *err) SNP_NODISCARD;

/*
 * "PATH:FIRST-LAST  # WHY", the heading of a section, which is part of its tokens. The caller
 * frees; NULL: no memory.
 */
char *snp_section_heading(const struct snp_section *section);

#endif
