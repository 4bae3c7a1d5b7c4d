/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check values against parsed schemas. Each keyword is a row of a table and depends only on its
 * neighbours. Parts that a lenient schema skips are treated as fulfilled, also inside `not`,
 * `oneOf` and the like: there they make the whole keyword fulfilled.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "schema/schema.h"
#include "schema/schema_priv.h"

enum {
    MEMBER_MAX = 160,
    NAME_SHOWN = 60,
    VALUE_SHOWN = 60,
    RULE_MAX = 200,
    STEP_COST = 100,
};

struct schema_check {
    const struct snp_schema *schema;
    uint64_t budget; /* steps that are left */
    unsigned depth;
    unsigned n_passed; /* keywords skipped so far */
    char member[MEMBER_MAX];
    bool is_silent; /* only the result is needed, not the reason */
    struct snp_err *err;
};

/* Reports ----------------------------------------------------------------------------------- */

/* The JSON of the actual value, cut. */
static void value_show(const json_t *value, char out[VALUE_SHOWN + 4])
{
    snp_autofree char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    size_t n = text == NULL ? 0 : strlen(text);
    bool is_cut = n > VALUE_SHOWN;

    n = is_cut ? VALUE_SHOWN : n;
    while (is_cut && n > 0 && ((unsigned char)text[n] & 0xc0U) == 0x80U) {
        n--;
    }
    (void)snprintf(out, VALUE_SHOWN + 4, "%.*s%s", (int)n, text == NULL ? "" : text,
                   is_cut ? "..." : "");
}

static const char *member_name(const struct schema_check *check)
{
    return check->member[0] == '\0' ? "the arguments" : check->member;
}

/* "limit: must be at most 80 (maximum), not 200". */
static int broken(struct schema_check *check,
                  const json_t *value,
                  const char *keyword,
                  const char *rule)
{
    char shown[VALUE_SHOWN + 4] = "";

    if (check->is_silent) {
        return SNP_E_INVALID;
    }
    value_show(value, shown);
    return snp_fail(check->err, SNP_E_INVALID, "%s: %s (%s), not %s", member_name(check), rule,
                    keyword, shown);
}

static int broken_number(struct schema_check *check,
                         const json_t *value,
                         const char *keyword,
                         const char *rule,
                         const json_t *number)
{
    char shown[VALUE_SHOWN + 4];
    char text[RULE_MAX];

    value_show(number, shown);
    (void)snprintf(text, sizeof(text), "%s %s", rule, shown);
    return broken(check, value, keyword, text);
}

/* Report a missing or forbidden member. */
static int broken_member(struct schema_check *check,
                         const char *keyword,
                         const char *name,
                         const char *what)
{
    return check->is_silent
               ? SNP_E_INVALID
               : snp_fail(check->err, SNP_E_INVALID, "%s%s%.*s %s (%s)", check->member,
                          check->member[0] == '\0' ? "" : ".", NAME_SHOWN, name, what, keyword);
}

static int too_long(struct schema_check *check)
{
    return snp_fail(check->err, SNP_E_LIMIT, "%s: it takes too long to check this by the schema",
                    member_name(check));
}

static int step_take(struct schema_check *check, uint64_t cost)
{
    if (check->budget <= cost) {
        check->budget = 0;
        return too_long(check);
    }
    check->budget -= cost;
    return 0;
}

/* Going into a part ------------------------------------------------------------------------- */

static int value_check(struct schema_check *check, const json_t *schema, const json_t *value);

static int member_check(struct schema_check *check,
                        const json_t *schema,
                        const char *name,
                        const json_t *value)
{
    size_t n = strlen(check->member);
    int r;

    (void)snprintf(check->member + n, sizeof(check->member) - n, "%s%.*s", n == 0 ? "" : ".",
                   NAME_SHOWN, name);
    r = value_check(check, schema, value);
    check->member[n] = '\0';
    return r;
}

static int item_check(struct schema_check *check,
                      const json_t *schema,
                      size_t i,
                      const json_t *value)
{
    size_t n = strlen(check->member);
    int r;

    (void)snprintf(check->member + n, sizeof(check->member) - n, "[%zu]", i);
    r = value_check(check, schema, value);
    check->member[n] = '\0';
    return r;
}

/*
 * Whether a value matches a schema: 1 or 0; below 0: a failure. *ret_unsure: a keyword was skipped,
 * so 1 may be wrong; 0 is right.
 */
static int holds(struct schema_check *check,
                 const json_t *schema,
                 const json_t *value,
                 bool *ret_unsure)
{
    bool was_silent = check->is_silent;
    unsigned n_passed = check->n_passed;
    int r;

    check->is_silent = true;
    r = value_check(check, schema, value);
    check->is_silent = was_silent;
    *ret_unsure = check->n_passed != n_passed;
    return r == 0 ? 1 : r == SNP_E_INVALID ? 0 : r;
}

/* Equality ---------------------------------------------------------------------------------- */

static long double number_of(const json_t *value)
{
    return json_is_integer(value) ? (long double)json_integer_value(value)
                                  : (long double)json_real_value(value);
}

/* JSON's equality: 1 equals 1.0. The parser has limited the depth. */
static bool is_equal(struct schema_check *check, const json_t *a, const json_t *b)
{
    const char *name;
    json_t *value;
    size_t i;

    check->budget -= check->budget > 0 ? 1 : 0;
    if (json_is_number(a) && json_is_number(b)) {
        return number_of(a) == number_of(b);
    }
    if (json_typeof(a) != json_typeof(b) || json_object_size(a) != json_object_size(b) ||
        json_array_size(a) != json_array_size(b)) {
        return false;
    }
    if (!json_is_object(a) && !json_is_array(a)) {
        return json_equal(a, b) != 0;
    }
    json_array_foreach((json_t *)(uintptr_t)a, i, value)
    {
        if (check->budget == 0 || !is_equal(check, value, json_array_get(b, i))) {
            return false;
        }
    }
    json_object_foreach((json_t *)(uintptr_t)a, name, value)
    {
        const json_t *other = json_object_get(b, name);

        if (check->budget == 0 || other == NULL || !is_equal(check, value, other)) {
            return false;
        }
    }
    return true;
}

/* Keywords of all types --------------------------------------------------------------------- */

/*
 * keyword: as written; one function may check several. Most functions use only some of the
 * parameters.
 */
#define KEYWORD(name)                                                                      \
    static int name(struct schema_check *check SNP_UNUSED, const char *keyword SNP_UNUSED, \
                    const json_t *schema SNP_UNUSED, const json_t *argument SNP_UNUSED,    \
                    const json_t *value SNP_UNUSED)

static bool has_type(const json_t *value, const char *type)
{
    static const struct {
        const char *name;
        json_type type;
    } rows[] = {
        {"array", JSON_ARRAY},     {"boolean", JSON_TRUE},  {"boolean", JSON_FALSE},
        {"integer", JSON_INTEGER}, {"null", JSON_NULL},     {"number", JSON_INTEGER},
        {"number", JSON_REAL},     {"object", JSON_OBJECT}, {"string", JSON_STRING},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        if (json_typeof(value) == rows[i].type && strcmp(rows[i].name, type) == 0) {
            return true;
        }
    }
    return json_is_real(value) && strcmp(type, "integer") == 0 &&
           floor(json_real_value(value)) == json_real_value(value);
}

KEYWORD(check_type)
{
    char rule[RULE_MAX] = "must be";
    size_t i;
    json_t *type;

    if (json_is_string(argument)) {
        (void)snprintf(rule, sizeof(rule), "must be of type %s", json_string_value(argument));
        return has_type(value, json_string_value(argument)) ? 0
                                                            : broken(check, value, "type", rule);
    }
    json_array_foreach((json_t *)(uintptr_t)argument, i, type)
    {
        size_t n = strlen(rule);

        if (has_type(value, json_string_value(type))) {
            return 0;
        }
        (void)snprintf(rule + n, sizeof(rule) - n, "%s %s", i == 0 ? "" : " or",
                       json_string_value(type));
    }
    return broken(check, value, "type", rule);
}

KEYWORD(check_enum)
{
    size_t i;
    json_t *allowed;

    json_array_foreach((json_t *)(uintptr_t)argument, i, allowed)
    {
        if (is_equal(check, allowed, value)) {
            return 0;
        }
    }
    return broken_number(check, value, "enum", "must be one of", argument);
}

KEYWORD(check_const)
{
    return is_equal(check, argument, value)
               ? 0
               : broken_number(check, value, "const", "must be", argument);
}

KEYWORD(check_ref)
{
    const struct snp_schema *whole = check->schema;
    const json_t *target =
        whole->has_ids ? NULL : snp_schema_ref(whole->root, json_string_value(argument));

    if (target == NULL) {
        check->n_passed++;
        return 0;
    }
    return value_check(check, target, value);
}

KEYWORD(check_passed)
{
    check->n_passed++;
    return 0;
}

/* Keywords that combine schemas --------------------------------------------------------------- */

KEYWORD(check_all_of)
{
    size_t i;
    json_t *each;
    int r = 0;

    json_array_foreach((json_t *)(uintptr_t)argument, i, each)
    {
        r = r < 0 ? r : value_check(check, each, value);
    }
    return r;
}

KEYWORD(check_any_of)
{
    size_t i;
    json_t *each;
    bool is_unsure = false;

    json_array_foreach((json_t *)(uintptr_t)argument, i, each)
    {
        int r = holds(check, each, value, &is_unsure);

        if (r != 0) {
            return r < 0 ? r : 0;
        }
    }
    if (json_array_size(argument) == 1) {
        return value_check(check, json_array_get(argument, 0), value);
    }
    return broken(check, value, "anyOf", "must match at least one of the allowed forms");
}

KEYWORD(check_one_of)
{
    size_t n = 0;
    size_t i;
    json_t *each;
    bool is_any_unsure = false;

    json_array_foreach((json_t *)(uintptr_t)argument, i, each)
    {
        bool is_unsure = false;
        int r = holds(check, each, value, &is_unsure);

        if (r < 0) {
            return r;
        }
        n += (size_t)r;
        is_any_unsure = is_any_unsure || (is_unsure && r == 1);
    }
    if (n == 1 || (n > 1 && is_any_unsure)) {
        return 0;
    }
    return broken(check, value, "oneOf",
                  n == 0 ? "must match one of the allowed forms"
                         : "must match only one of the allowed forms, but matches several");
}

KEYWORD(check_not)
{
    bool is_unsure = false;
    int r = holds(check, argument, value, &is_unsure);

    return r <= 0 || is_unsure ? (r < 0 ? r : 0)
                               : broken(check, value, "not", "must not match this form");
}

KEYWORD(check_if)
{
    bool is_unsure = false;
    int r = holds(check, argument, value, &is_unsure);
    const json_t *then = json_object_get(schema, r == 1 ? "then" : "else");

    return r < 0 || then == NULL || (r == 1 && is_unsure) ? (r < 0 ? r : 0)
                                                          : value_check(check, then, value);
}

/* Numbers ------------------------------------------------------------------------------------- */

/* maximum and minimum; the exclusive ones of draft 4 are not numbers. */
KEYWORD(check_bound)
{
    bool is_exclusive = snp_has_prefix(keyword, "exclusive");
    bool is_most = snp_has_suffix(keyword, "aximum");
    long double number;
    long double bound;

    if (!json_is_number(argument)) {
        check->n_passed += is_exclusive ? 1 : 0;
        return 0;
    }
    if (!json_is_number(value)) {
        return 0;
    }
    number = number_of(value);
    bound = number_of(argument);
    if ((is_most ? number < bound : number > bound) || (!is_exclusive && number == bound)) {
        return 0;
    }
    return broken_number(check, value, keyword,
                         is_exclusive ? is_most ? "must be below" : "must be above"
                         : is_most    ? "must be at most"
                                      : "must be at least",
                         argument);
}

KEYWORD(check_multiple_of)
{
    bool is_whole;

    if (!json_is_number(value)) {
        return 0;
    }
    if (json_is_integer(value) && json_is_integer(argument)) {
        is_whole = json_integer_value(value) % json_integer_value(argument) == 0;
    } else {
        /* 0.3 is a multiple of 0.1, within the precision of a double. */
        double times = json_number_value(value) / json_number_value(argument);

        is_whole = isfinite(times) && fabs(times - nearbyint(times)) <= 1e-9 * fmax(1, fabs(times));
    }
    return is_whole ? 0
                    : broken_number(check, value, "multipleOf", "must be a multiple of", argument);
}

/* Texts --------------------------------------------------------------------------------------- */

/* The maximum or minimum length of a text, an array or an object. */
KEYWORD(check_count)
{
    json_type type = snp_has_suffix(keyword, "Length")  ? JSON_STRING
                     : snp_has_suffix(keyword, "Items") ? JSON_ARRAY
                                                        : JSON_OBJECT;
    bool is_most = snp_has_prefix(keyword, "max");
    size_t n = json_array_size(value) + json_object_size(value);
    double bound = json_number_value(argument);
    char rule[RULE_MAX / 2];

    if (json_is_string(value)) {
        n = snp_utf8_count(json_string_value(value), json_string_length(value));
    }
    if (json_typeof(value) != type || (is_most ? (double)n <= bound : (double)n >= bound)) {
        return 0;
    }
    (void)snprintf(rule, sizeof(rule), "must have at %s this many %s:", is_most ? "most" : "least",
                   type == JSON_STRING ? "characters" : "members");
    return broken_number(check, value, keyword, rule, argument);
}

/* 1: it matches; 0: it does not; *ret_unsure: the pattern was skipped (then 1). */
static int matches(
    struct schema_check *check, const char *pattern, const char *text, size_t n, bool *ret_unsure)
{
    int64_t index = snp_json_int(check->schema->patterns, pattern, -1);
    bool is_match = true;
    int r;

    *ret_unsure = index < 0;
    if (index < 0) {
        check->n_passed++;
        return 1;
    }
    r = snp_regex_search(check->schema->regexes[index], text, n, &check->budget, &is_match);
    if (r == SNP_E_LIMIT) {
        return too_long(check);
    }
    return r < 0 ? snp_fail(check->err, r, "out of memory") : is_match ? 1 : 0;
}

KEYWORD(check_pattern)
{
    bool is_unsure = false;
    int r;

    if (!json_is_string(value)) {
        return 0;
    }
    r = matches(check, json_string_value(argument), json_string_value(value),
                json_string_length(value), &is_unsure);
    if (r != 0) {
        return r < 0 ? r : 0;
    }
    return broken_number(check, value, "pattern", "must match", argument);
}

/* Arrays -------------------------------------------------------------------------------------- */

KEYWORD(check_prefix_items)
{
    size_t i;
    json_t *each;
    int r = 0;

    json_array_foreach((json_t *)(uintptr_t)argument, i, each)
    {
        if (i < json_array_size(value)) {
            r = r < 0 ? r : item_check(check, each, i, json_array_get(value, i));
        }
    }
    return r;
}

/* Items from `first` on. */
static int rest_check(struct schema_check *check,
                      const json_t *schema,
                      size_t first,
                      const json_t *value)
{
    int r = 0;

    for (size_t i = first; i < json_array_size(value) && r == 0; i++) {
        r = item_check(check, schema, i, json_array_get(value, i));
    }
    return r;
}

KEYWORD(check_items)
{
    if (json_is_array(argument)) {
        return check_prefix_items(check, keyword, schema, argument, value);
    }
    return rest_check(check, argument, json_array_size(json_object_get(schema, "prefixItems")),
                      value);
}

KEYWORD(check_additional_items)
{
    const json_t *items = json_object_get(schema, "items");

    return json_is_array(items) ? rest_check(check, argument, json_array_size(items), value) : 0;
}

KEYWORD(check_unique_items)
{
    size_t n = json_array_size(value);

    for (size_t i = 1; i < n && json_is_true(argument); i++) {
        for (size_t k = 0; k < i; k++) {
            int r = step_take(check, 1);

            if (r < 0) {
                return r;
            }
            if (is_equal(check, json_array_get(value, i), json_array_get(value, k))) {
                return broken(check, json_array_get(value, i), "uniqueItems",
                              "must not have the same member twice");
            }
        }
    }
    return 0;
}

KEYWORD(check_contains)
{
    const json_t *least = json_object_get(schema, "minContains");
    const json_t *most = json_object_get(schema, "maxContains");
    size_t n = 0;
    size_t n_unsure = 0;
    size_t i;
    json_t *item;

    if (!json_is_array(value)) {
        return 0;
    }
    json_array_foreach((json_t *)(uintptr_t)value, i, item)
    {
        bool is_unsure = false;
        int r = holds(check, argument, item, &is_unsure);

        if (r < 0) {
            return r;
        }
        n += (size_t)r;
        n_unsure += r == 1 && is_unsure ? 1 : 0;
    }
    if ((double)n < (least == NULL ? 1 : json_number_value(least))) {
        return broken(check, value, "contains", "must have an item of the required form");
    }
    return most == NULL || (double)(n - n_unsure) <= json_number_value(most)
               ? 0
               : broken_number(check, value, "maxContains",
                               "must have items of the required form, at most", most);
}

/* Objects ------------------------------------------------------------------------------------- */

KEYWORD(check_required)
{
    size_t i;
    json_t *name;

    json_array_foreach((json_t *)(uintptr_t)argument, i, name)
    {
        if (json_is_object(value) && json_object_get(value, json_string_value(name)) == NULL) {
            return broken_member(check, "required", json_string_value(name), "is missing");
        }
    }
    return 0;
}

KEYWORD(check_properties)
{
    const char *name;
    json_t *each;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)argument, name, each)
    {
        const json_t *member = json_object_get(value, name);

        r = r < 0 || member == NULL ? r : member_check(check, each, name, member);
    }
    return r;
}

KEYWORD(check_pattern_properties)
{
    const char *pattern;
    const char *name;
    json_t *each;
    json_t *member;
    bool is_unsure = false;

    json_object_foreach((json_t *)(uintptr_t)argument, pattern, each)
    {
        json_object_foreach((json_t *)(uintptr_t)value, name, member)
        {
            int r = matches(check, pattern, name, strlen(name), &is_unsure);

            if (r == 1 && !is_unsure) {
                r = member_check(check, each, name, member);
            }
            if (r < 0) {
                return r;
            }
        }
    }
    return 0;
}

/* Is the member one of "properties" or "patternProperties"? 1, 0, or a failure. */
static int is_named(struct schema_check *check, const json_t *schema, const char *name)
{
    const json_t *patterns = json_object_get(schema, "patternProperties");
    const char *pattern;
    json_t *each;
    bool is_unsure = false;

    if (json_object_get(json_object_get(schema, "properties"), name) != NULL) {
        return 1;
    }
    json_object_foreach((json_t *)(uintptr_t)patterns, pattern, each)
    {
        int r = matches(check, pattern, name, strlen(name), &is_unsure);

        if (r != 0) {
            return r;
        }
    }
    return 0;
}

KEYWORD(check_additional_properties)
{
    const char *name;
    json_t *member;

    json_object_foreach((json_t *)(uintptr_t)value, name, member)
    {
        int r = is_named(check, schema, name);

        if (r == 0 && json_is_false(argument)) {
            return broken_member(check, "additionalProperties", name, "is not known here");
        }
        r = r == 0 ? member_check(check, argument, name, member) : r;
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

KEYWORD(check_property_names)
{
    const char *name;
    json_t *member;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)value, name, member)
    {
        snp_autojson json_t *text = json_string(name);

        r = r < 0 ? r : value_check(check, argument, text);
    }
    return r;
}

/* dependentRequired, dependentSchemas and, with both, dependencies. */
KEYWORD(check_dependencies)
{
    const char *name;
    json_t *each;
    int r = 0;

    json_object_foreach((json_t *)(uintptr_t)argument, name, each)
    {
        if (r < 0 || json_object_get(value, name) == NULL) {
            continue;
        }
        r = json_is_array(each) ? check_required(check, keyword, schema, each, value)
                                : value_check(check, each, value);
    }
    return r;
}

/* All of it ----------------------------------------------------------------------------------- */

/* In the order of reporting. */
static const struct {
    const char *name;
    int (*check)(struct schema_check *check,
                 const char *keyword,
                 const json_t *schema,
                 const json_t *argument,
                 const json_t *value);
} rows[] = {
    {"$ref", check_ref},
    {"$dynamicRef", check_passed},
    {"$recursiveRef", check_passed},
    {"unevaluatedItems", check_passed},
    {"unevaluatedProperties", check_passed},
    {"type", check_type},
    {"const", check_const},
    {"enum", check_enum},
    {"required", check_required},
    {"properties", check_properties},
    {"patternProperties", check_pattern_properties},
    {"additionalProperties", check_additional_properties},
    {"propertyNames", check_property_names},
    {"maxProperties", check_count},
    {"minProperties", check_count},
    {"dependentRequired", check_dependencies},
    {"dependentSchemas", check_dependencies},
    {"dependencies", check_dependencies},
    {"maximum", check_bound},
    {"minimum", check_bound},
    {"exclusiveMaximum", check_bound},
    {"exclusiveMinimum", check_bound},
    {"multipleOf", check_multiple_of},
    {"maxLength", check_count},
    {"minLength", check_count},
    {"pattern", check_pattern},
    {"maxItems", check_count},
    {"minItems", check_count},
    {"prefixItems", check_prefix_items},
    {"items", check_items},
    {"additionalItems", check_additional_items},
    {"contains", check_contains},
    {"uniqueItems", check_unique_items},
    {"allOf", check_all_of},
    {"anyOf", check_any_of},
    {"oneOf", check_one_of},
    {"not", check_not},
    {"if", check_if},
};

static int value_check(struct schema_check *check, const json_t *schema, const json_t *value)
{
    /* The first row handles references. */
    size_t n_rows = check->schema->is_ref_alone && json_object_get(schema, rows[0].name) != NULL
                        ? 1
                        : SNP_ARRAY_LEN(rows);
    int r = step_take(check, STEP_COST);

    if (r < 0 || json_is_true(schema)) {
        return r;
    }
    if (json_is_false(schema)) {
        return check->is_silent ? SNP_E_INVALID
                                : snp_fail(check->err, SNP_E_INVALID, "%s: must not be there",
                                           member_name(check));
    }
    if (check->depth >= SNP_SCHEMA_DEPTH_MAX) {
        return snp_fail(check->err, SNP_E_LIMIT, "%s: schemas more than %d deep",
                        member_name(check), SNP_SCHEMA_DEPTH_MAX);
    }
    check->depth++;
    for (size_t i = 0; i < n_rows && r == 0; i++) {
        const json_t *argument = json_object_get(schema, rows[i].name);

        r = argument == NULL ? 0 : rows[i].check(check, rows[i].name, schema, argument, value);
    }
    check->depth--;
    return r;
}

int snp_schema_check(const struct snp_schema *schema, const json_t *value, struct snp_err *err)
{
    struct schema_check check = {.schema = schema, .budget = SNP_SCHEMA_STEPS_MAX, .err = err};

    return value_check(&check, schema->root, value);
}
