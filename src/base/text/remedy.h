/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_REMEDY_H
#define SNP_BASE_TEXT_REMEDY_H

/* Remedies for an error, in the wording of a front end's table. */

#include "base/buf.h"
#include "base/err.h"

struct snp_remedy_limit {
    const char *limit; /* NULL ends a table */
    const char *words;
};

/*
 * In words, {name} is the remedy's name and {object} the object of the error; NULL = no remedy for
 * these users.
 */
struct snp_remedy_words {
    const char *kind[SNP_REMEDY_KINDS];
    const struct snp_remedy_limit *limits; /* for SNP_REMEDY_RAISE_LIMIT */
    int (*ways)(struct snp_buf *out, int64_t ways, const char *object); /* for SNP_REMEDY_RECOVER */
    int (*set_limit)(struct snp_buf *out, const struct snp_err *err); /* for SNP_REMEDY_SET_LIMIT */
};

/* Append the remedy; nothing if there is none. */
int snp_remedy_add(struct snp_buf *out,
                   const struct snp_remedy_words *words,
                   const struct snp_err *err) SNP_NODISCARD;

#endif
