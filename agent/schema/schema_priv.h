/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_SCHEMA_SCHEMA_PRIV_H
#define SNP_SCHEMA_SCHEMA_PRIV_H

/* Shared declarations of parsing and checking. */

#include "schema/regex.h"
#include "schema/schema.h"

struct snp_schema {
    json_t *root;                                       /* owned */
    json_t *patterns;                                   /* owned: pattern -> index, -1 = skipped */
    struct snp_regex *regexes[SNP_SCHEMA_PATTERNS_MAX]; /* owned */
    size_t n_regexes;
    bool is_partial;
    bool is_ref_alone; /* drafts up to 7: members beside a $ref are ignored */
    bool has_ids;      /* nested $id: references resolve differently */
};

/* The target of "#/..."; NULL: not found, or another form. Borrowed. */
json_t *snp_schema_ref(const json_t *root, const char *ref);

#endif
