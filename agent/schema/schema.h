/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_SCHEMA_SCHEMA_H
#define SNP_SCHEMA_SCHEMA_H

/*
 * JSON Schema (2020-12, and the other meaning of items and dependencies in drafts 6 to 2019-09):
 * whether a value matches a schema, and if not, which member breaks which rule.
 *
 * Nothing is fetched: references stay inside the schema. Schemas and values may be untrusted: size,
 * depth, references and time are limited, and a check that exceeds a limit fails.
 *
 * Not supported are $dynamicRef, $recursiveRef, unevaluatedProperties, unevaluatedItems, references
 * by $anchor or $id. `format` and contentSchema are annotations, as in 2020-12.
 */

#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"

enum {
    SNP_SCHEMA_BYTES_MAX = 256 << 10, /* of the schema's text */
    SNP_SCHEMA_DEPTH_MAX = 64,        /* nested applications of schemas */
    SNP_SCHEMA_PATTERNS_MAX = 256,
    SNP_SCHEMA_STEPS_MAX = 20000000, /* of one check */
};

struct snp_schema;

enum snp_schema_manner {
    SNP_SCHEMA_STRICT = 0, /* unsupported parts, and schemas without keywords, are refused */
    SNP_SCHEMA_LENIENT,    /* they are skipped: others check too. A malformed schema is refused */
};

/*
 * schema: copied. *ret is the caller's: snp_schema_free(). SNP_E_INVALID: it is not a schema;
 * SNP_E_UNSUPPORTED, SNP_E_LIMIT; the message has the place ("/properties/a: ...").
 */
int snp_schema_new(const json_t *schema,
                   enum snp_schema_manner manner,
                   struct snp_schema **ret,
                   struct snp_err *err) SNP_NODISCARD;
void snp_schema_free(struct snp_schema *schema);
SNP_DEFINE_CLEANUP(struct snp_schema *, snp_schema_free)
#define snp_autoschema snp_cleanup(snp_schema_freep)

/*
 * Check a value. SNP_E_INVALID: it does not match; the message has the member, the rule and the
 * actual value ("limit: must be at most 80 (maximum), not 200"); bytes of the value in it are not
 * cleaned. SNP_E_LIMIT: the check takes too long.
 */
int snp_schema_check(const struct snp_schema *schema,
                     const json_t *value,
                     struct snp_err *err) SNP_NODISCARD;

#endif
