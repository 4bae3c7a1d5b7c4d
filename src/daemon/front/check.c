/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking records against a table. Used for what clients ask and for what tiers
 * answer, so that past this point no code meets a member of a type it did not expect.
 */
#include "daemon/front/check.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

enum {
    TYPES_TEXT_MAX = 96,
    NAMES_MAX = 32,
};

static unsigned type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_STRING:
        return SNP_T_STR | SNP_T_TEXT;
    case JSON_INTEGER:
        return SNP_T_INT;
    case JSON_TRUE:
    case JSON_FALSE:
        return SNP_T_BOOL;
    case JSON_OBJECT:
        return SNP_T_OBJ;
    case JSON_ARRAY:
        return SNP_T_ARR;
    case JSON_NULL:
        return SNP_T_NULL;
    case JSON_REAL:
        return SNP_T_REAL;
    default:
        return 0;
    }
}

/* "a string or null" */
static const char *types_text(unsigned types, char *out, size_t out_len)
{
    static const struct {
        unsigned type;
        const char *text;
    } names[] = {
        {SNP_T_STR | SNP_T_TEXT, "a string"     },
        {SNP_T_INT,              "an integer"   },
        {SNP_T_REAL,             "a number"     },
        {SNP_T_BOOL,             "true or false"},
        {SNP_T_OBJ,              "an object"    },
        {SNP_T_ARR,              "an array"     },
        {SNP_T_NULL,             "null"         },
    };
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        if ((types & names[i].type) != 0 && len < out_len) {
            int n = snprintf(out + len, out_len - len, "%s%s", len > 0 ? " or " : "",
                             names[i].text);

            len += n > 0 ? (size_t)n : 0;
        }
    }
    return out;
}

static int unknown_member(const struct snp_record *record, const char *key, struct snp_err *err)
{
    const char *names[NAMES_MAX];
    size_t n = 0;
    const char *near;

    while (n < record->n_fields && n < NAMES_MAX) {
        names[n] = record->fields[n].name;
        n++;
    }
    near = snp_suggest(key, names, n);
    if (near != NULL) {
        return snp_fail(err, SNP_E_INVALID, "%s: unknown member '%.64s'; did you mean '%s'?",
                        record->what, key, near);
    }
    return snp_fail(err, SNP_E_INVALID, "%s: unknown member '%.64s'", record->what, key);
}

static int size_check(const json_t *value,
                      const struct snp_field *field,
                      const struct snp_record *record,
                      struct snp_err *err)
{
    if (json_is_integer(value)) {
        json_int_t number = json_integer_value(value);

        if (number < 0 && (field->types & SNP_T_NEG) == 0) {
            return snp_fail(err, SNP_E_INVALID, "%s: '%s' cannot be negative", record->what,
                            field->name);
        }
        if (field->max != 0 && number > 0 && (uint64_t)number > field->max) {
            return snp_fail(err, SNP_E_INVALID, "%s: '%s' is at most %llu", record->what,
                            field->name, (unsigned long long)field->max);
        }
    } else if (json_is_string(value)) {
        size_t n = json_string_length(value);

        if ((field->types & SNP_T_TEXT) == 0 && strlen(json_string_value(value)) != n) {
            return snp_fail(err, SNP_E_INVALID, "%s: '%s' holds a NUL character", record->what,
                            field->name);
        }
        if (field->max != 0 && n > field->max) {
            return snp_fail(err, SNP_E_INVALID, "%s: '%s' has at most %llu bytes", record->what,
                            field->name, (unsigned long long)field->max);
        }
    } else if (json_is_array(value)) {
        if (field->max != 0 && json_array_size(value) > field->max) {
            return snp_fail(err, SNP_E_INVALID, "%s: '%s' has at most %llu elements",
                            record->what, field->name, (unsigned long long)field->max);
        }
    }
    return 0;
}

static const struct snp_field *field_find(const struct snp_record *record, const char *name)
{
    for (size_t i = 0; i < record->n_fields; i++) {
        if (strcmp(record->fields[i].name, name) == 0) {
            return &record->fields[i];
        }
    }
    return NULL;
}

/* value: NULL = it is not there. */
static int field_check(const json_t *value,
                       const struct snp_field *field,
                       const struct snp_record *record,
                       struct snp_err *err)
{
    char text[TYPES_TEXT_MAX];

    if (value == NULL) {
        if ((field->types & SNP_T_OPT) != 0) {
            return 0;
        }
        return snp_fail(err, SNP_E_INVALID, "%s: '%s' is missing", record->what, field->name);
    }
    if ((type_of(value) & field->types) == 0) {
        return snp_fail(err, SNP_E_INVALID, "%s: '%s' must be %s", record->what, field->name,
                        types_text(field->types, text, sizeof(text)));
    }
    return size_check(value, field, record, err);
}

int snp_record_check(json_t *object, const struct snp_record *record, struct snp_err *err)
{
    const char *key;
    json_t *value;
    size_t n_known = 0;

    if (!json_is_object(object)) {
        return snp_fail(err, SNP_E_INVALID, "%s: must be an object", record->what);
    }
    for (size_t i = 0; i < record->n_fields; i++) {
        int r;

        value = json_object_get(object, record->fields[i].name);
        n_known += value != NULL ? 1 : 0;
        r = field_check(value, &record->fields[i], record, err);
        if (r < 0) {
            return r;
        }
    }
    if (record->allow_more || n_known == json_object_size(object)) {
        return 0;
    }
    json_object_foreach(object, key, value)
    {
        if (field_find(record, key) == NULL) {
            return unknown_member(record, key, err);
        }
    }
    return 0;
}
