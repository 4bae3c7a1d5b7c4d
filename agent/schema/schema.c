/* SPDX-License-Identifier: Apache-2.0 */
/* Parse schemas: all errors in one are found before it is used. */
#include "schema/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "schema/schema_priv.h"

enum {
    PLACE_MAX = 200,
    WORD_SHOWN = 60,
};

/* The required form of a keyword's value. */
enum shape {
    NOTE = 0, /* anything: it asserts nothing */
    SCHEMA,
    SCHEMAS,    /* a non-empty array of schemas */
    SCHEMA_MAP, /* member -> schema */
    PATTERN_MAP,
    PATTERN,
    ITEMS,   /* a schema, or an array of schemas */
    DEPENDS, /* member -> schema or list of members */
    NAMES_MAP,
    NAMES,
    TYPES,
    LIST,
    NUMBER,
    POSITIVE,
    COUNT,
    BOOLEAN,
    REFERENCE,
    ID,
    UNSUPPORTED,
};

static const struct {
    const char *name;
    enum shape shape;
} keywords[] = {
    {"$anchor", NOTE},
    {"$comment", NOTE},
    {"$defs", SCHEMA_MAP},
    {"$dynamicAnchor", NOTE},
    {"$dynamicRef", UNSUPPORTED},
    {"$id", ID},
    {"$recursiveAnchor", NOTE},
    {"$recursiveRef", UNSUPPORTED},
    {"$ref", REFERENCE},
    {"$schema", NOTE},
    {"$vocabulary", NOTE},
    {"additionalItems", SCHEMA},
    {"additionalProperties", SCHEMA},
    {"allOf", SCHEMAS},
    {"anyOf", SCHEMAS},
    {"const", NOTE},
    {"contains", SCHEMA},
    {"contentEncoding", NOTE},
    {"contentMediaType", NOTE},
    {"contentSchema", NOTE},
    {"default", NOTE},
    {"definitions", SCHEMA_MAP},
    {"dependencies", DEPENDS},
    {"dependentRequired", NAMES_MAP},
    {"dependentSchemas", SCHEMA_MAP},
    {"deprecated", NOTE},
    {"description", NOTE},
    {"else", SCHEMA},
    {"enum", LIST},
    {"examples", NOTE},
    {"exclusiveMaximum", NUMBER},
    {"exclusiveMinimum", NUMBER},
    {"format", NOTE},
    {"if", SCHEMA},
    {"items", ITEMS},
    {"maxContains", COUNT},
    {"maxItems", COUNT},
    {"maxLength", COUNT},
    {"maxProperties", COUNT},
    {"maximum", NUMBER},
    {"minContains", COUNT},
    {"minItems", COUNT},
    {"minLength", COUNT},
    {"minProperties", COUNT},
    {"minimum", NUMBER},
    {"multipleOf", POSITIVE},
    {"not", SCHEMA},
    {"oneOf", SCHEMAS},
    {"pattern", PATTERN},
    {"patternProperties", PATTERN_MAP},
    {"prefixItems", SCHEMAS},
    {"properties", SCHEMA_MAP},
    {"propertyNames", SCHEMA},
    {"readOnly", NOTE},
    {"required", NAMES},
    {"then", SCHEMA},
    {"title", NOTE},
    {"type", TYPES},
    {"unevaluatedItems", UNSUPPORTED},
    {"unevaluatedProperties", UNSUPPORTED},
    {"uniqueItems", BOOLEAN},
    {"writeOnly", NOTE},
};

struct schema_reader {
    struct snp_schema *made;
    enum snp_schema_manner manner;
    json_t *seen; /* schemas already read, by address */
    char place[PLACE_MAX];
    unsigned depth;
    struct snp_err *err;
};

void snp_schema_free(struct snp_schema *schema)
{
    if (schema == NULL) {
        return;
    }
    for (size_t i = 0; i < schema->n_regexes; i++) {
        snp_regex_free(schema->regexes[i]);
    }
    json_decref(schema->patterns);
    json_decref(schema->root);
    free(schema);
}

/* References -------------------------------------------------------------------------------- */

/* The value of a hexadecimal digit; -1: not a digit. */
static int hex_value(char c)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    const char *digit = c == '\0' ? NULL : strchr(digits, c);
    int value = digit == NULL ? -1 : (int)(digit - digits);

    return value > 15 ? value - 6 : value;
}

/* Decode "%2F" to "/". out has room for n bytes and a NUL; returns the length. */
static size_t percent_decode(const char *part, size_t n, char *out)
{
    size_t to = 0;

    for (size_t i = 0; i < n; i++) {
        int high = part[i] == '%' && i + 2 < n ? hex_value(part[i + 1]) : -1;
        int low = high < 0 ? -1 : hex_value(part[i + 2]);

        out[to++] = low < 0 ? part[i] : (char)(high * 16 + low);
        i += low < 0 ? 0 : 2;
    }
    return to;
}

/* One part of a pointer, decoded ("~1" and "%2F" are "/"), into out of the text's size. */
static void part_decode(const char *part, size_t n, char *out)
{
    size_t len = percent_decode(part, n, out);
    size_t to = 0;

    for (size_t i = 0; i < len; i++) {
        bool is_escape = out[i] == '~' && i + 1 < len && (out[i + 1] == '0' || out[i + 1] == '1');

        i += is_escape ? 1 : 0;
        out[to++] = !is_escape ? out[i] : out[i] == '0' ? '~' : '/';
    }
    out[to] = '\0';
}

static json_t *member_of(const json_t *value, const char *name)
{
    uint64_t index = 0;

    if (json_is_array(value)) {
        return snp_parse_u64(name, &index) < 0 ? NULL : json_array_get(value, (size_t)index);
    }
    return json_object_get(value, name);
}

json_t *snp_schema_ref(const json_t *root, const char *ref)
{
    const json_t *at = root;
    snp_autofree char *part = strdup(ref);

    if (part == NULL || ref[0] != '#' || (ref[1] != '/' && ref[1] != '\0')) {
        return NULL;
    }
    ref++;
    while (at != NULL && *ref == '/') {
        size_t n = strcspn(ref + 1, "/");

        part_decode(ref + 1, n, part);
        at = member_of(at, part);
        ref += n + 1;
    }
    return (json_t *)(uintptr_t)at;
}

/* Reading ----------------------------------------------------------------------------------- */

static const char *place_of(const struct schema_reader *reading)
{
    return reading->place[0] == '\0' ? "the schema" : reading->place;
}

static int malformed(const struct schema_reader *reading, const char *keyword, const char *what)
{
    return snp_fail(reading->err, SNP_E_INVALID, "%s: %.60s must be %s", place_of(reading), keyword,
                    what);
}

/* An unsupported part: refused, or skipped. */
static int passed_over(struct schema_reader *reading, const char *keyword, const char *why)
{
    reading->made->is_partial = true;
    return reading->manner == SNP_SCHEMA_LENIENT
               ? 0
               : snp_fail(reading->err, SNP_E_UNSUPPORTED, "%s: %.60s %s", place_of(reading),
                          keyword, why);
}

/* Enter a part; returns the argument of place_leave. */
static size_t place_enter(struct schema_reader *reading, const char *name)
{
    size_t n = strlen(reading->place);

    (void)snprintf(reading->place + n, sizeof(reading->place) - n, "/%.*s", WORD_SHOWN, name);
    return n;
}

static void place_leave(struct schema_reader *reading, size_t before)
{
    reading->place[before] = '\0';
}

static int schema_read(struct schema_reader *reading, const json_t *schema);

static int inner_read(struct schema_reader *reading, const char *name, const json_t *schema)
{
    size_t before = place_enter(reading, name);
    int r = schema_read(reading, schema);

    place_leave(reading, before);
    return r;
}

static int pattern_read(struct schema_reader *reading, const char *keyword, const json_t *pattern)
{
    struct snp_schema *made = reading->made;
    const char *text = json_string_value(pattern);
    struct snp_regex *regex = NULL;
    struct snp_err err;
    int index = -1;
    int r;

    if (text == NULL) {
        return malformed(reading, keyword, "a regular expression");
    }
    if (json_object_get(made->patterns, text) != NULL) {
        return 0;
    }
    if (made->n_regexes >= SNP_SCHEMA_PATTERNS_MAX) {
        return snp_fail(reading->err, SNP_E_LIMIT, "the schema has more than %d patterns",
                        SNP_SCHEMA_PATTERNS_MAX);
    }
    r = snp_regex_new(text, json_string_length(pattern), &regex, &err);
    if (r == SNP_E_NOMEM || (r < 0 && reading->manner == SNP_SCHEMA_STRICT)) {
        *reading->err = err;
        return snp_err_wrap(reading->err, "%s: %.60s", place_of(reading), keyword);
    }
    if (r < 0) { /* another engine may accept it, and the server may mean that */
        made->is_partial = true;
    } else {
        index = (int)made->n_regexes;
        made->regexes[made->n_regexes++] = regex;
    }
    return json_object_set_new(made->patterns, text, json_integer(index)) < 0
               ? snp_fail(reading->err, SNP_E_NOMEM, "out of memory")
               : 0;
}

static int ref_read(struct schema_reader *reading, const char *keyword, const json_t *value)
{
    const char *ref = json_string_value(value);
    const json_t *target;

    if (ref == NULL) {
        return malformed(reading, keyword, "a text");
    }
    target = reading->made->has_ids ? NULL : snp_schema_ref(reading->made->root, ref);
    if (target == NULL) {
        return passed_over(reading, keyword,
                           "must be \"#\" or \"#/...\", and name a part of the schema");
    }
    return schema_read(reading, target);
}

static int schemas_read(struct schema_reader *reading, const char *keyword, const json_t *list)
{
    size_t before;
    size_t i;
    json_t *schema;
    int r = 0;

    if (!json_is_array(list) || json_array_size(list) == 0) {
        return malformed(reading, keyword, "an array of schemas, not an empty one");
    }
    before = place_enter(reading, keyword);
    json_array_foreach((json_t *)(uintptr_t)list, i, schema)
    {
        char index[24];

        (void)snprintf(index, sizeof(index), "%zu", i);
        r = r < 0 ? r : inner_read(reading, index, schema);
    }
    place_leave(reading, before);
    return r;
}

static bool is_names(const json_t *list)
{
    size_t i;
    json_t *name;

    json_array_foreach((json_t *)(uintptr_t)list, i, name)
    {
        if (!json_is_string(name)) {
            return false;
        }
    }
    return json_is_array(list);
}

static int map_read(struct schema_reader *reading,
                    const char *keyword,
                    enum shape shape,
                    const json_t *map)
{
    size_t before;
    const char *name;
    json_t *value;
    int r = 0;

    if (!json_is_object(map)) {
        return malformed(reading, keyword, "an object");
    }
    before = place_enter(reading, keyword);
    json_object_foreach((json_t *)(uintptr_t)map, name, value)
    {
        if (shape == PATTERN_MAP) {
            snp_autojson json_t *pattern = json_string(name);

            r = r < 0 ? r : pattern_read(reading, keyword, pattern);
        }
        if (r == 0 && (shape == NAMES_MAP || (shape == DEPENDS && json_is_array(value)))) {
            r = is_names(value) ? 0 : malformed(reading, keyword, "lists of members");
        } else if (r == 0) {
            r = inner_read(reading, name, value);
        }
    }
    place_leave(reading, before);
    return r;
}

static bool is_type(const char *name)
{
    static const char *const names[] = {"array",  "boolean", "integer", "null",
                                        "number", "object",  "string"};

    for (size_t i = 0; name != NULL && i < SNP_ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int types_read(struct schema_reader *reading, const char *keyword, const json_t *value)
{
    static const char what[] =
        "array, boolean, integer, null, number, object or string, or a list of these";
    size_t i;
    json_t *name;

    json_array_foreach((json_t *)(uintptr_t)value, i, name)
    {
        if (!is_type(json_string_value(name))) {
            return malformed(reading, keyword, what);
        }
    }
    return json_array_size(value) > 0 || is_type(json_string_value(value))
               ? 0
               : malformed(reading, keyword, what);
}

static bool is_count(const json_t *value)
{
    double real = json_real_value(value);

    return json_is_integer(value)
               ? json_integer_value(value) >= 0
               : json_is_real(value) && real >= 0 && real < 1e15 && real == (double)(int64_t)real;
}

static int number_read(struct schema_reader *reading,
                       const char *keyword,
                       enum shape shape,
                       const json_t *value)
{
    if (shape == NUMBER && json_is_boolean(value)) { /* in the form of draft 4 */
        return passed_over(reading, keyword, "as true or false is not supported; write a number");
    }
    if (shape == COUNT) {
        return is_count(value) ? 0 : malformed(reading, keyword, "a whole number from 0 on");
    }
    if (shape == POSITIVE) {
        return json_number_value(value) > 0 ? 0 : malformed(reading, keyword, "a number above 0");
    }
    return json_is_number(value) ? 0 : malformed(reading, keyword, "a number");
}

static int id_read(struct schema_reader *reading, const char *keyword)
{
    if (reading->depth == 1) {
        return 0; /* definitions are checked when referenced */
    }
    reading->made->has_ids = true;
    return passed_over(reading, keyword, "inside a schema is not supported");
}

static int keyword_read(struct schema_reader *reading,
                        const char *keyword,
                        enum shape shape,
                        const json_t *value)
{
    switch (shape) {
    case SCHEMA:
        return inner_read(reading, keyword, value);
    case ITEMS:
        return json_is_array(value)
                   ? json_array_size(value) == 0 ? 0 : schemas_read(reading, keyword, value)
                   : inner_read(reading, keyword, value);
    case SCHEMAS:
        return schemas_read(reading, keyword, value);
    case SCHEMA_MAP:
    case PATTERN_MAP:
    case NAMES_MAP:
    case DEPENDS:
        return map_read(reading, keyword, shape, value);
    case PATTERN:
        return pattern_read(reading, keyword, value);
    case NAMES:
        return is_names(value) ? 0 : malformed(reading, keyword, "a list of members");
    case TYPES:
        return types_read(reading, keyword, value);
    case LIST:
        return json_is_array(value) ? 0 : malformed(reading, keyword, "a list");
    case NUMBER:
    case POSITIVE:
    case COUNT:
        return number_read(reading, keyword, shape, value);
    case BOOLEAN:
        return json_is_boolean(value) ? 0 : malformed(reading, keyword, "true or false");
    case REFERENCE:
        return ref_read(reading, keyword, value);
    case ID:
        return id_read(reading, keyword);
    case UNSUPPORTED:
        return passed_over(reading, keyword, "is not supported");
    case NOTE:
    default:
        return 0;
    }
}

static int unknown_read(struct schema_reader *reading, const char *keyword)
{
    const char *names[SNP_ARRAY_LEN(keywords)];
    const char *nearest;

    if (reading->manner == SNP_SCHEMA_LENIENT || snp_has_prefix(keyword, "x-")) {
        return 0; /* an annotation for other programs */
    }
    for (size_t i = 0; i < SNP_ARRAY_LEN(keywords); i++) {
        names[i] = keywords[i].name;
    }
    nearest = snp_suggest(keyword, names, SNP_ARRAY_LEN(keywords));
    return snp_fail(reading->err, SNP_E_UNSUPPORTED,
                    "%s: unknown keyword %.60s%s%s%s (names of your own notes start with x-)",
                    place_of(reading), keyword, nearest == NULL ? "" : "; did you mean ",
                    nearest == NULL ? "" : nearest, nearest == NULL ? "" : "?");
}

static int members_read(struct schema_reader *reading, const json_t *schema)
{
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)schema, name, value)
    {
        size_t at = 0;

        while (at < SNP_ARRAY_LEN(keywords) && strcmp(keywords[at].name, name) != 0) {
            at++;
        }
        r = at == SNP_ARRAY_LEN(keywords) ? unknown_read(reading, name)
                                          : keyword_read(reading, name, keywords[at].shape, value);
        if (r < 0) {
            break;
        }
    }
    return r;
}

static int schema_read(struct schema_reader *reading, const json_t *schema)
{
    char key[32];
    int r;

    if (json_is_boolean(schema)) {
        return 0;
    }
    if (!json_is_object(schema)) {
        return snp_fail(reading->err, SNP_E_INVALID, "%s: a schema is an object, true or false",
                        place_of(reading));
    }
    (void)snprintf(key, sizeof(key), "%p", (const void *)schema);
    if (json_object_get(reading->seen, key) != NULL) {
        return 0;
    }
    if (json_object_set_new(reading->seen, key, json_true()) < 0) {
        return snp_fail(reading->err, SNP_E_NOMEM, "out of memory");
    }
    if (reading->depth >= SNP_SCHEMA_DEPTH_MAX) {
        return snp_fail(reading->err, SNP_E_LIMIT, "%s: deeper than %d levels", place_of(reading),
                        SNP_SCHEMA_DEPTH_MAX);
    }
    reading->depth++;
    r = members_read(reading, schema);
    reading->depth--;
    return r;
}

/* Whether $schema names draft 4, 6 or 7. */
static bool is_ref_alone(const json_t *schema)
{
    static const char *const drafts[] = {"json-schema.org/draft-04/", "json-schema.org/draft-06/",
                                         "json-schema.org/draft-07/"};
    const char *says = snp_json_str(schema, "$schema", "");

    for (size_t i = 0; i < SNP_ARRAY_LEN(drafts); i++) {
        if (strstr(says, drafts[i]) != NULL) {
            return true;
        }
    }
    return false;
}

int snp_schema_new(const json_t *schema,
                   enum snp_schema_manner manner,
                   struct snp_schema **ret,
                   struct snp_err *err)
{
    snp_autoschema struct snp_schema *made = calloc(1, sizeof(*made));
    snp_autojson json_t *seen = json_object();
    struct schema_reader reading = {.made = made, .manner = manner, .seen = seen, .err = err};
    int r;

    if (made == NULL || seen == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    if (json_dumpb(schema, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY) > SNP_SCHEMA_BYTES_MAX) {
        return snp_fail(err, SNP_E_LIMIT, "the schema has more than %d KiB",
                        SNP_SCHEMA_BYTES_MAX >> 10);
    }
    made->root = json_deep_copy(schema);
    made->patterns = json_object();
    made->is_ref_alone = is_ref_alone(schema);
    if (made->root == NULL || made->patterns == NULL) {
        return snp_fail(err, SNP_E_NOMEM, "out of memory");
    }
    r = schema_read(&reading, made->root);
    if (r == 0) {
        *ret = SNP_TAKE_PTR(made);
    }
    return r;
}
