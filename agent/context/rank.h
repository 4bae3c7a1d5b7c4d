/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_RANK_H
#define SNP_CONTEXT_RANK_H

/* The chunks that a query finds, in order, and the reasons. */

#include "context/query.h"

enum snp_why {
    SNP_WHY_EXACT = 1,    /* the query names it */
    SNP_WHY_PATH = 2,     /* the query names its file */
    SNP_WHY_WORDS = 4,    /* has words of the query */
    SNP_WHY_IMPORTED = 8, /* the current file imports its file */
    SNP_WHY_CURRENT = 16, /* lies in the current file */
    SNP_WHY_CALLER = 32,  /* uses a name of the query */
    SNP_WHY_MEANING = 64, /* has a similar meaning */
    SNP_WHY_TEST = 128,   /* a test that uses a name of the query */
    SNP_WHY_RECENT = 256, /* its file was changed later than most of the project */
};

struct snp_hit {
    int64_t chunk;
    int64_t file;
    unsigned why; /* of snp_why */
    double score;
    /* 1: named as code, before all others; 2: in the same case, before level 1 */
    unsigned level;
};

struct snp_hits {
    struct snp_hit items[SNP_QUERY_HITS_MAX];
    size_t n;
    char named[128]; /* the name or path that was found exactly; "" = none */
};

int snp_rank(struct snp_index *index,
             const struct snp_query *query,
             struct snp_hits *ret,
             struct snp_err *err) SNP_NODISCARD;

#endif
