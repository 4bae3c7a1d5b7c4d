/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records by their tables: checked, read into a struct, written from one. Outside input is checked
 * first; later code meets no member of an unexpected type.
 */
#include "base/wire/record.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

enum {
    TYPES_TEXT_MAX = 96,
    WORDS_TEXT_MAX = 128,
    NAMES_MAX = 32,
    TAG_MAX = 32, /* bytes of the name of a method or an event */
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
        {SNP_T_STR | SNP_T_TEXT, "a string"},
        {SNP_T_INT, "an integer"},
        {SNP_T_REAL, "a number"},
        {SNP_T_BOOL, "true or false"},
        {SNP_T_OBJ, "an object"},
        {SNP_T_ARR, "an array"},
        {SNP_T_NULL, "null"},
    };
    size_t len = 0;

    out[0] = '\0';
    for (size_t i = 0; i < SNP_ARRAY_LEN(names); i++) {
        if ((types & names[i].type) != 0 && len < out_len) {
            int n =
                snprintf(out + len, out_len - len, "%s%s", len > 0 ? " or " : "", names[i].text);

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
            return snp_fail(err, SNP_E_INVALID, "%s: '%s' has at most %llu elements", record->what,
                            field->name, (unsigned long long)field->max);
        }
    }
    return 0;
}

const struct snp_field *snp_record_field(const struct snp_record *record, const char *name)
{
    for (size_t i = 0; i < record->n_fields; i++) {
        if (strcmp(record->fields[i].name, name) == 0) {
            return &record->fields[i];
        }
    }
    return NULL;
}

int snp_word_find(const char *const *words, const char *word)
{
    for (int i = 0; word != NULL && words[i] != NULL; i++) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

static int word_check(const char *word,
                      const struct snp_field *field,
                      const struct snp_record *record,
                      struct snp_err *err)
{
    char all[WORDS_TEXT_MAX] = "";
    size_t used = 0;

    if (field->words == NULL || snp_word_find(field->words, word) >= 0) {
        return 0;
    }
    for (size_t i = 0; field->words[i] != NULL; i++) {
        used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
                                 i == 0                        ? ""
                                 : field->words[i + 1] == NULL ? " or "
                                                               : ", ",
                                 field->words[i]);
        SNP_ASSERT(used < sizeof(all));
    }
    return snp_fail(err, SNP_E_INVALID, "%s: '%s' is %s, not '%.64s'", record->what, field->name,
                    all, word);
}

/* Check the elements of an array or the members of an object. */
static int inside_check(json_t *value, const struct snp_field *field, struct snp_err *err)
{
    size_t i;
    json_t *item;
    int r = 0;

    if (json_is_object(value) && field->of != NULL) {
        return snp_record_check(value, field->of, err);
    }
    if (!json_is_array(value) || (field->of == NULL && (field->types & SNP_T_STRS) == 0)) {
        return 0;
    }
    json_array_foreach(value, i, item)
    {
        if (field->of != NULL) {
            r = snp_record_check(item, field->of, err);
        } else if (!json_is_string(item)) {
            r = snp_fail(err, SNP_E_INVALID, "%s: element %zu must be a string", field->name, i);
        }
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* value: NULL = absent. */
static int field_check(json_t *value,
                       const struct snp_field *field,
                       const struct snp_record *record,
                       struct snp_err *err)
{
    char text[TYPES_TEXT_MAX];
    int r;

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
    r = size_check(value, field, record, err);
    if (r == 0 && json_is_string(value)) {
        r = word_check(json_string_value(value), field, record, err);
    }
    return r < 0 ? r : inside_check(value, field, err);
}

int snp_record_check(json_t *object, const struct snp_record *record, struct snp_err *err)
{
    const char *key;
    json_t *value;
    size_t n_known = 0;
    int r = 0;

    if (!json_is_object(object)) {
        return snp_fail(err, SNP_E_INVALID, "%s: must be an object", record->what);
    }
    if (record->tag != NULL) {
        const struct snp_field tag = {.name = record->tag, .types = SNP_T_STR, .max = TAG_MAX};

        r = field_check(json_object_get(object, record->tag), &tag, record, err);
        n_known = 1;
    }
    for (size_t i = 0; r == 0 && i < record->n_fields; i++) {
        value = json_object_get(object, record->fields[i].name);
        n_known += value != NULL ? 1 : 0;
        r = field_check(value, &record->fields[i], record, err);
    }
    if (r < 0 || record->allow_more || n_known == json_object_size(object)) {
        return r;
    }
    json_object_foreach(object, key, value)
    {
        if (snp_record_field(record, key) == NULL &&
            !(record->tag != NULL && strcmp(key, record->tag) == 0)) {
            return unknown_member(record, key, err);
        }
    }
    return 0;
}

/* Structs ---------------------------------------------------------------------------------- */

static void field_read(const json_t *value, const struct snp_field *field, void *at)
{
    bool has = value != NULL && !json_is_null(value) && (type_of(value) & field->types) != 0;

    switch (field->held) {
    case SNP_HELD_NOT:
        break;
    case SNP_HELD_STR:
        has = has && strlen(json_string_value(value)) == json_string_length(value);
        *(const char **)at = has ? json_string_value(value) : NULL;
        break;
    case SNP_HELD_JSON:
        *(json_t **)at = has ? (json_t *)(uintptr_t)value : NULL;
        break;
    case SNP_HELD_UINT:
        *(uint64_t *)at =
            has && json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
        break;
    case SNP_HELD_INT:
        *(int64_t *)at = has ? json_integer_value(value) : SNP_NO_NUMBER;
        break;
    case SNP_HELD_BOOL:
    case SNP_HELD_YES:
        *(bool *)at = has ? json_is_true(value) : field->held == SNP_HELD_YES;
        break;
    case SNP_HELD_REAL:
        *(double *)at = has ? json_number_value(value) : 0;
        break;
    }
}

void snp_record_read(const json_t *object, const struct snp_record *record, void *ret)
{
    for (size_t i = 0; i < record->n_fields; i++) {
        const struct snp_field *field = &record->fields[i];

        field_read(json_object_get(object, field->name), field, (char *)ret + field->offset);
    }
}

/* *ret: a new reference, NULL = it has the value for absent. False: out of memory, or not UTF-8. */
static bool field_write(const struct snp_field *field, const void *at, json_t **ret)
{
    bool is_plain = true;

    *ret = NULL;
    switch (field->held) {
    case SNP_HELD_NOT:
        return true;
    case SNP_HELD_STR:
        is_plain = *(const char *const *)at == NULL;
        *ret = is_plain ? NULL : json_string(*(const char *const *)at);
        break;
    case SNP_HELD_JSON:
        is_plain = *(json_t *const *)at == NULL;
        *ret = json_incref(*(json_t *const *)at);
        break;
    case SNP_HELD_UINT:
        is_plain = *(const uint64_t *)at == 0;
        *ret = is_plain && (field->types & (SNP_T_OPT | SNP_T_NULL)) != 0
                   ? NULL
                   : json_integer((json_int_t) * (const uint64_t *)at);
        break;
    case SNP_HELD_INT:
        is_plain = *(const int64_t *)at == SNP_NO_NUMBER;
        *ret = is_plain ? NULL : json_integer(*(const int64_t *)at);
        break;
    case SNP_HELD_BOOL:
    case SNP_HELD_YES:
        is_plain = *(const bool *)at == (field->held == SNP_HELD_YES);
        *ret = is_plain && (field->types & SNP_T_OPT) != 0 && (field->types & SNP_T_SAID) == 0
                   ? NULL
                   : json_boolean(*(const bool *)at);
        break;
    case SNP_HELD_REAL:
        is_plain = false;
        *ret = json_real(*(const double *)at);
        break;
    }
    return is_plain || *ret != NULL;
}

json_t *snp_record_write(const struct snp_record *record, const void *from)
{
    json_t *object = json_object();
    bool is_good = object != NULL;

    if (is_good && record->tag != NULL) {
        is_good = json_object_set_new_nocheck(object, record->tag, json_string(record->what)) == 0;
    }
    for (size_t i = 0; is_good && i < record->n_fields; i++) {
        const struct snp_field *field = &record->fields[i];
        json_t *value;

        is_good = field_write(field, (const char *)from + field->offset, &value);
        if (is_good && value == NULL && (field->types & SNP_T_OPT) == 0) {
            is_good = (field->types & SNP_T_NULL) != 0; /* else the caller failed to make it */
            value = json_null();
        }
        is_good = is_good &&
                  (value == NULL || json_object_set_new_nocheck(object, field->name, value) == 0);
    }
    if (!is_good) {
        json_decref(object);
        return NULL;
    }
    return object;
}
