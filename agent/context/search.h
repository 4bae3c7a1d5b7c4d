/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_CONTEXT_SEARCH_H
#define SNP_CONTEXT_SEARCH_H

/*
 * Lines that match a regular expression, ignoring the case of ASCII letters, within a time limit.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "context/index.h"

enum {
    SNP_SEARCH_PATTERN_MAX = 500, /* bytes */
    SNP_SEARCH_MS = 1000,
    SNP_SEARCH_LINE_SHOWN = 500, /* bytes */
};

struct snp_search_result {
    uint64_t matches;
    bool is_cut; /* the time or result limit was reached: not all files were searched */
};

/* line: n bytes without the newline, cut at SNP_SEARCH_LINE_SHOWN. */
typedef void (*snp_search_fn)(
    void *arg, const char *path, uint32_t number, const char *line, size_t n);

struct snp_search {
    const char *pattern;
    uint64_t max_results;
    snp_search_fn fn;
    void *arg;
};

int snp_search(struct snp_index *index,
               const struct snp_search *what,
               struct snp_search_result *ret,
               struct snp_err *err) SNP_NODISCARD;

#endif
