/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SNP_BASE_JSON_H
#define SNP_BASE_JSON_H

/* JSON through jansson, with shared limits and reading rules. No other module parses JSON text. */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum {
    SNP_JSON_DEPTH_MAX = 32
};

/*
 * Parse an object: UTF-8, no duplicate keys, at most SNP_JSON_DEPTH_MAX levels.
 * n == 0 reads as {}. *ret is a new reference. SNP_E_INVALID says what and where.
 */
int snp_json_parse(const char *text, size_t n, json_t **ret, struct snp_err *err) SNP_NODISCARD;

/* The same for an object or an array; n == 0 is neither. */
int snp_json_parse_any(const char *text, size_t n, json_t **ret, struct snp_err *err) SNP_NODISCARD;

/* Compact text, caller frees; NULL when out of memory. */
char *snp_json_text(const json_t *value);

/*
 * Members of an object; absent, null or of another type read as the fallback. Borrowed.
 * A string with a NUL inside reads as the fallback too: take claimed text of a guest with
 * json_string_value and json_string_length.
 */
const char *snp_json_str(const json_t *object, const char *key, const char *fallback);
int64_t snp_json_int(const json_t *object, const char *key, int64_t fallback);
bool snp_json_bool(const json_t *object, const char *key, bool fallback);

/* A JSON string of bytes that may be invalid UTF-8 (repaired with U+FFFD). New reference. */
json_t *snp_json_bytes(const char *bytes, size_t n);

/*
 * {"code": "not_found", "message": "...", "errno": 2?, "object"?, "limit": {"name", "value"}?,
 * "remedy": {"kind", "name"?, "value"?, "ways"?}?} and back. New reference.
 */
json_t *snp_json_from_err(const struct snp_err *err);
int snp_json_to_err(const json_t *object, struct snp_err *err);
/* SNP_WAY_* to names and back; unknown ones are ignored. */
json_t *snp_json_from_ways(int64_t ways);
int64_t snp_json_to_ways(const json_t *list);
json_t *snp_json_from_remedy(const struct snp_remedy *remedy);
void snp_json_to_remedy(const json_t *object, struct snp_remedy *ret);

/* json_decref for snp_cleanup. */
void snp_json_unref(json_t *value);
SNP_DEFINE_CLEANUP(json_t *, snp_json_unref)
#define snp_autojson snp_cleanup(snp_json_unrefp)

#endif
