/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_HINT_H
#define SNP_BASE_TEXT_HINT_H

/*
 * Hints for mistakes, in one table: for a person at a command line, who can give options and files;
 * for a program that calls the library, which gives arguments; and for a model inside, which can do
 * neither. A result only names mistakes: as the `rule` of a denial and the `cause` of an error,
 * with the `module` that was not found (docs/result.md).
 */

#include "base/json.h"

enum snp_hint_reader {
    SNP_HINT_PERSON,
    SNP_HINT_LIBRARY,
    SNP_HINT_MODEL
};

/* NULL: no hint in the table. A rule may end with a value: "processes 64". */
const char *snp_hint(const char *cause, enum snp_hint_reader reader);

/* The mistakes of the table in order; NULL = i is past the last. */
const char *snp_hint_cause(size_t i);

/*
 * The hint for a result's error or denial: from the table, else its `hint`. NULL = neither;
 * borrowed.
 */
const char *snp_hint_of(const json_t *object, enum snp_hint_reader reader);

/* Whether the limit was changed, but applies only at the session's next wake (`at_wake`). */
bool snp_hint_is_at_wake(const json_t *result, const char *key);

/* Set the `hint` of a result's error and denials to the reader's hint. result: may be NULL. */
void snp_hints_fill(json_t *result, enum snp_hint_reader reader);

#endif
