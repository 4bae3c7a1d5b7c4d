/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_REMEDY_H
#define SNP_BASE_TEXT_REMEDY_H

/* The way out of an error, in the words of a front end's table. */

#include "base/buf.h"
#include "base/err.h"

struct snp_remedy_limit {
    const char *limit; /* NULL ends a table */
    const char *words;
};

/*
 * {name} in words is the remedy's name, {object} what the error is about; NULL = nothing helps
 * these users.
 */
struct snp_remedy_words {
    const char *kind[SNP_REMEDY_KINDS];
    const struct snp_remedy_limit *limits; /* of SNP_REMEDY_RAISE_LIMIT */
    int (*ways)(struct snp_buf *out, int64_t ways, const char *object); /* of SNP_REMEDY_RECOVER */
    int (*set_limit)(struct snp_buf *out, const struct snp_err *err); /* of SNP_REMEDY_SET_LIMIT */
};

/* Add what helps; nothing if nothing does. */
int snp_remedy_add(struct snp_buf *out,
                   const struct snp_remedy_words *words,
                   const struct snp_err *err) SNP_NODISCARD;

#endif
