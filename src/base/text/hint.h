/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_TEXT_HINT_H
#define SNP_BASE_TEXT_HINT_H

/*
 * What helps against a mistake, in one table: for a person at a command line, who can give options
 * and files; for a program that calls the library, which gives arguments; and for a model inside,
 * which can do neither. A result names mistakes only: as the `rule` of a denial and the `cause` of
 * an error, with the `module` that was not found (docs/result.md).
 */

#include "base/json.h"

enum snp_hint_reader {
    SNP_HINT_PERSON,
    SNP_HINT_LIBRARY,
    SNP_HINT_MODEL
};

/* NULL: the table has none for it. A rule may go on with a value: "processes 64". */
const char *snp_hint(const char *cause, enum snp_hint_reader reader);

/* The mistakes of the table, one after the other; NULL = i is behind the last. */
const char *snp_hint_cause(size_t i);

/* Of a result's error or denial: the table's words, else its own hint. NULL = neither; borrowed. */
const char *snp_hint_of(const json_t *object, enum snp_hint_reader reader);

/* Write the `hint` of a result's error and denials in the reader's words. result: may be NULL. */
void snp_hints_fill(json_t *result, enum snp_hint_reader reader);

#endif
