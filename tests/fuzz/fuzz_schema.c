/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas and patterns of strangers, and values of models. The first byte says which: 's' or 'l': a
 * schema, strict or lenient, a line end, a value; 'r': a pattern, a line end, a text. A value is
 * judged the same twice, a lenient schema takes whatever a strict one takes, and a search keeps to
 * its budget.
 */
#include <string.h>

#include "base/json.h"
#include "base/macro.h"
#include "base/str.h"
#include "fuzz/target.h"
#include "schema/regex.h"
#include "schema/schema.h"

enum {
    BUDGET = 1 << 20,
};

static int schema_make(const char *text,
                       size_t n,
                       enum snp_schema_manner manner,
                       struct snp_schema **ret)
{
    snp_autojson json_t *json = NULL;
    struct snp_err err = {0};
    int r = snp_json_parse(text, n, &json, &err);

    *ret = NULL;
    if (r == 0) {
        r = snp_schema_new(json, manner, ret, &err);
        SNP_ASSERT(r == 0 || err.msg[0] != '\0');
    }
    SNP_ASSERT((r == 0) == (*ret != NULL));
    return r;
}

static void schema_try(
    const char *text, size_t n, const char *value, size_t value_n, bool is_strict)
{
    snp_autoschema struct snp_schema *schema = NULL;
    snp_autoschema struct snp_schema *other = NULL;
    snp_autojson json_t *json = NULL;
    struct snp_err err = {0};
    struct snp_err again = {0};
    int first;

    if (schema_make(text, n, is_strict ? SNP_SCHEMA_STRICT : SNP_SCHEMA_LENIENT, &schema) < 0) {
        return;
    }
    SNP_ASSERT(!is_strict || schema_make(text, n, SNP_SCHEMA_LENIENT, &other) == 0);
    if (snp_json_parse(value, value_n, &json, &err) < 0) {
        return;
    }
    err = (struct snp_err){0};
    first = snp_schema_check(schema, json, &err);
    SNP_ASSERT(first == 0 || err.msg[0] != '\0');
    SNP_ASSERT(snp_schema_check(schema, json, &again) == first);
    SNP_ASSERT(first == 0 || strcmp(err.msg, again.msg) == 0);
    SNP_ASSERT(other == NULL || (snp_schema_check(other, json, &again) == 0) == (first == 0));
}

static void regex_try(const char *pattern, size_t n, const char *text, size_t text_n)
{
    struct snp_regex *regex = NULL;
    struct snp_err err = {0};
    uint64_t budget = BUDGET;
    bool found = false;
    int r = snp_regex_new(pattern, n, &regex, &err);

    SNP_ASSERT((r == 0) == (regex != NULL) && (r == 0 || err.msg[0] != '\0'));
    if (r == 0) {
        r = snp_regex_search(regex, text, text_n, &budget, &found);
        SNP_ASSERT(budget <= BUDGET && (r == 0 || r == SNP_E_LIMIT));
    }
    snp_regex_free(regex);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    const char *text = (const char *)bytes + 1;
    const char *end = n < 2 ? NULL : memchr(text, '\n', n - 1);
    size_t len;
    size_t rest;

    if (end == NULL) {
        return 0;
    }
    len = (size_t)(end - text);
    rest = n - 2 - len;
    if (bytes[0] == 'r') {
        if (!snp_utf8_valid(text, n - 1)) { /* texts of JSON are */
            return 0;
        }
        regex_try(text, len, end + 1, rest);
    } else {
        schema_try(text, len, end + 1, rest, bytes[0] == 's');
    }
    return 0;
}
