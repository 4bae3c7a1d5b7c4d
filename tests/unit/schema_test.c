/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON Schemas and regular expressions: what holds, what does not and how it is told, and bounds.
 */
#include "schema/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "schema/regex.h"
#include "unit/harness.h"

static json_t *json(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

    assert_non_null(value);
    return value;
}

/* "" if it holds, else what is told. The caller frees. */
static char *told(const char *schema, enum snp_schema_manner manner, const char *value)
{
    snp_autojson json_t *rules = json(schema);
    snp_autojson json_t *given = json(value);
    snp_autoschema struct snp_schema *made = NULL;
    struct snp_err err = {0};

    if (snp_schema_new(rules, manner, &made, &err) == 0 &&
        snp_schema_check(made, given, &err) == 0) {
        return strdup("");
    }
    return strdup(err.msg);
}

TEST(a_failure_names_member_rule_and_what_was_there)
{
    static const char *const rows[][3] = {
        {"{\"type\": \"object\"}", "[]", "the arguments: must be of type object (type), not []"},
        {"{\"properties\": {\"a\": {\"items\": {\"maximum\": 3}}}}", "{\"a\": [1, 2, 9]}",
         "a[2]: must be at most 3 (maximum), not 9"},
        {"{\"properties\": {\"a\": {\"required\": [\"b\"]}}}", "{\"a\": {}}",
         "a.b is missing (required)"},
        {"{\"additionalProperties\": false, \"properties\": {\"a\": true}}", "{\"b\": 1}",
         "b is not known here (additionalProperties)"},
        {"{\"properties\": {\"a\": {\"enum\": [\"x\", 1]}}}", "{\"a\": \"y\"}",
         "a: must be one of [\"x\",1] (enum), not \"y\""},
        {"{\"properties\": {\"a\": {\"type\": [\"null\", \"integer\"]}}}", "{\"a\": \"1\"}",
         "a: must be null or integer (type), not \"1\""},
        {"{\"properties\": {\"a\": {\"minLength\": 2}}}", "{\"a\": \"\xc3\xa9\"}",
         "a: must have at least this many characters: 2 (minLength), not \"\xc3\xa9\""},
        {"{\"properties\": {\"a\": {\"multipleOf\": 5}}}", "{\"a\": 7}",
         "a: must be a multiple of 5 (multipleOf), not 7"},
        {"{\"properties\": {\"a\": false}}", "{\"a\": 7}", "a: must not be there"},
        {"{\"uniqueItems\": true}", "[1, 1.0]",
         "the arguments: must not have the same member twice (uniqueItems), not 1.0"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autofree char *text = told(rows[i][0], SNP_SCHEMA_STRICT, rows[i][1]);

        assert_string_equal(text, rows[i][2]);
    }
}

TEST(what_is_told_is_bounded)
{
    snp_autofree char *word = calloc(1, 100001);
    snp_autofree char *value = NULL;
    snp_autofree char *text = NULL;

    memset(word, 'x', 100000);
    value = snp_format("{\"%s\": \"%s\"}", word, word);
    text = told("{\"additionalProperties\": {\"maxLength\": 1}}", SNP_SCHEMA_STRICT, value);
    assert_true(strlen(text) < 300);
    assert_non_null(strstr(text, "(maxLength), not \"xxx"));
}

/* 1: holds; 0: does not. */
static void holds_check(const char *schema, const char *value, bool expected)
{
    snp_autofree char *text = told(schema, SNP_SCHEMA_STRICT, value);

    if ((text[0] == '\0') != expected) {
        fail_msg("%s of %s: %s", schema, value, text);
    }
}

TEST(keywords_mean_what_they_mean)
{
    static const struct {
        const char *schema;
        const char *good;
        const char *bad;
    } rows[] = {
        {"{\"type\": \"integer\"}", "1.0", "1.5"},
        {"{\"const\": {\"a\": [1]}}", "{\"a\": [1.0]}", "{\"a\": [2]}"},
        {"{\"const\": {\"a\": 1}}", "{\"a\": 1}", "{\"a\": 1, \"b\": 2}"},
        {"{\"exclusiveMinimum\": 1}", "1.1", "1"},
        {"{\"minimum\": 9007199254740993}", "9007199254740993", "9007199254740992"},
        {"{\"multipleOf\": 0.1}", "0.3", "0.35"},
        {"{\"maxProperties\": 1}", "{\"a\": 1}", "{\"a\": 1, \"b\": 2}"},
        {"{\"prefixItems\": [true, {\"type\": \"null\"}], \"items\": false}", "[1, null]",
         "[1, null, 2]"},
        {"{\"items\": [{\"type\": \"null\"}], \"additionalItems\": {\"type\": \"string\"}}",
         "[null, \"a\"]", "[null, 1]"},
        {"{\"contains\": {\"type\": \"null\"}, \"maxContains\": 1}", "[1, null]", "[null, null]"},
        {"{\"contains\": {\"type\": \"null\"}}", "[1, null]", "[1]"},
        {"{\"patternProperties\": {\"^x-\": {\"type\": \"null\"}}, \"additionalProperties\": "
         "false}",
         "{\"x-a\": null}", "{\"x-a\": 1}"},
        {"{\"propertyNames\": {\"maxLength\": 1}}", "{\"a\": 1}", "{\"ab\": 1}"},
        {"{\"dependentRequired\": {\"a\": [\"b\"]}}", "{\"b\": 1}", "{\"a\": 1}"},
        {"{\"dependencies\": {\"a\": [\"b\"], \"c\": {\"maxProperties\": 1}}}", "{\"c\": 1}",
         "{\"c\": 1, \"d\": 1}"},
        {"{\"allOf\": [{\"minimum\": 1}, {\"maximum\": 2}]}", "2", "3"},
        {"{\"anyOf\": [{\"type\": \"null\"}, {\"type\": \"string\"}]}", "null", "1"},
        {"{\"oneOf\": [{\"minimum\": 1}, {\"maximum\": 2}]}", "3", "1"},
        {"{\"not\": {\"type\": \"null\"}}", "1", "null"},
        {"{\"if\": {\"minimum\": 5}, \"then\": {\"maximum\": 6}, \"else\": {\"minimum\": 1}}", "6",
         "0"},
        {"{\"$defs\": {\"a/b\": {\"type\": \"null\"}}, \"$ref\": \"#/$defs/a~1b\"}", "null", "1"},
        {"{\"properties\": {\"next\": {\"$ref\": \"#\"}}, \"additionalProperties\": false}",
         "{\"next\": {\"next\": {}}}", "{\"next\": {\"x\": {}}}"},
        {"{\"$schema\": \"http://json-schema.org/draft-07/schema#\", \"definitions\": {\"a\": "
         "true}, \"properties\": {\"x\": {\"$ref\": \"#/definitions/a\", \"type\": \"null\"}}, "
         "\"type\": \"object\"}",
         "{\"x\": 1}", "1"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        holds_check(rows[i].schema, rows[i].good, true);
        holds_check(rows[i].schema, rows[i].bad, false);
    }
}

TEST(a_schema_that_is_none_is_refused_and_told_where)
{
    static const char *const rows[][2] = {
        {"{\"properties\": {\"a\": {\"type\": \"objekt\"}}}", "/properties/a: type must be"},
        {"{\"properties\": {\"a\": 1}}", "/properties/a: a schema is an object"},
        {"{\"required\": \"a\"}", "required must be a list"},
        {"{\"maxLength\": -1}", "maxLength must be a whole number"},
        {"{\"multipleOf\": 0}", "multipleOf must be a number above 0"},
        {"{\"anyOf\": []}", "anyOf must be an array of schemas"},
        {"{\"requird\": []}", "did you mean required?"},
        {"{\"unevaluatedProperties\": false}", "unevaluatedProperties is not supported"},
        {"{\"$ref\": \"https://example.org/x\"}", "$ref must be"},
        {"{\"$ref\": \"#/nowhere\"}", "$ref must be"},
        {"{\"pattern\": \"(a\"}", "pattern: not a valid regular expression"},
        {"{\"pattern\": \"(?~a)\"}", "not a valid regular expression"},
        {"{\"allOf\": [{\"items\": {\"pattern\": \"*\"}}]}",
         "/allOf/0/items: pattern: not a valid regular"},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autofree char *text = told(rows[i][0], SNP_SCHEMA_STRICT, "{}");

        if (strstr(text, rows[i][1]) == NULL) {
            fail_msg("%s: '%s'", rows[i][0], text);
        }
    }
}

/* A server's schema may say what we do not understand: it must not make us refuse what it takes. */
TEST(what_a_lenient_schema_passes_over_refuses_nothing)
{
    static const char *const rows[][3] = {
        {"{\"pattern\": \"(?~a)\"}", "\"b\"", ""},
        {"{\"not\": {\"pattern\": \"(?~a)\"}}", "\"b\"", ""},
        {"{\"oneOf\": [{\"pattern\": \"(?~a)\"}, {\"type\": \"string\"}]}", "\"b\"", ""},
        {"{\"if\": {\"pattern\": \"(?~a)\"}, \"then\": false}", "\"b\"", ""},
        {"{\"$ref\": \"https://example.org/x\", \"type\": \"string\"}", "\"b\"", ""},
        {"{\"exclusiveMinimum\": true, \"minimum\": 3}", "3", ""},
        {"{\"made-up\": 1, \"unevaluatedProperties\": false, \"type\": \"object\"}", "3",
         "the arguments: must be of type object (type), not 3"},
        {"{\"not\": {\"allOf\": [{\"pattern\": \"(?~a)\"}, {\"type\": \"null\"}]}}", "\"b\"", ""},
        {"{\"oneOf\": [{\"pattern\": \"(?~a)\"}, {\"type\": \"null\"}]}", "3", ""},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autofree char *text = told(rows[i][0], SNP_SCHEMA_LENIENT, rows[i][1]);

        assert_string_equal(text, rows[i][2]);
    }
}

TEST(a_schema_cannot_take_for_ever)
{
    static const char doubling[] =
        "{\"$ref\": \"#/$defs/a\", \"$defs\": {"
        "\"a\": {\"allOf\": [{\"$ref\": \"#/$defs/b\"}, {\"$ref\": \"#/$defs/b\"}, {\"$ref\": "
        "\"#/$defs/b\"}]},"
        "\"b\": {\"items\": {\"$ref\": \"#/$defs/a\"}, \"anyOf\": [{\"$ref\": \"#/$defs/c\"}, "
        "{\"$ref\": \"#/$defs/c\"}]},"
        "\"c\": {\"not\": {\"items\": {\"$ref\": \"#/$defs/a\"}, \"type\": \"null\"}}}}";
    snp_autofree char *loop = told("{\"$ref\": \"#\"}", SNP_SCHEMA_STRICT, "1");
    snp_autofree char *doubled =
        told(doubling, SNP_SCHEMA_STRICT,
             "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], "
             "1], 1], "
             "1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1], 1]");

    assert_non_null(strstr(loop, "more than 64 deep"));
    assert_true(strstr(doubled, "takes too long") != NULL ||
                strstr(doubled, "more than 64 deep") != NULL);
}

/* Regular expressions ------------------------------------------------------------------------- */

static int search(const char *pattern, const char *text, size_t n, bool *ret)
{
    struct snp_regex *regex = NULL;
    uint64_t budget = SNP_SCHEMA_STEPS_MAX;
    struct snp_err err = {0};
    int r = snp_regex_new(pattern, strlen(pattern), &regex, &err);

    if (r == 0) {
        r = snp_regex_search(regex, text, n, &budget, ret);
    }
    snp_regex_free(regex);
    return r;
}

TEST(patterns_find_what_they_should)
{
    static const struct {
        const char *pattern;
        const char *text;
        bool has_match;
    } rows[] = {
        {"", "", true},
        {"b", "abc", true},
        {"^b", "abc", false},
        {"^(?:a|bc)+$", "abcabc", true},
        {"^(?:a|bc)+$", "abcb", false},
        {"^a{2,3}$", "a", false},
        {"^a{2,3}$", "aaa", true},
        {"^a{2,3}$", "aaaa", false},
        {"^a{2,}$", "aaaaa", true},
        {"^(a*)*$", "aaa", true},
        {"^(a*)*b$", "aaa", false},
        {"^[^a-c]$", "d", true},
        {"^[^a-c]$", "b", false},
        {"^[]$", "a", false},
        {"^[^]$", "\n", true},
        {"^.$", "\n", false},
        {"^.$", "\xf0\x9f\x98\x80", true},
        {"^\\u00e9$", "\xc3\xa9", true},
        {"^\\u{1F600}$", "\xf0\x9f\x98\x80", true},
        {"^\\d+-\\w*\\s$", "12-a_B\t", true},
        {"^[\\D]$", "1", false},
        {"\\bfoo\\b", "a foo.", true},
        {"\\bfoo\\b", "afoo", false},
        {"\\Boo", "foo", true},
        {"^(?<year>\\d{4})-\\d\\d$", "2026-11", true},
        {"^a+?$", "aa", true},
        {"^[\\w.-]+@[\\w-]+\\.com$", "a.b@c-d.com", true},
        {"a$b", "ab", false},
        {"x|", "", true},
        {"^(a|b)\\1$", "aa", true},
        {"^(?!a)\\w+$", "ab", false},
        {"(?<=\\$)\\d", "a $5", true},
        {"^\\p{Lu}", "\xc3\x89t\xc3\xa9", true},
        {"a.c",
         "\xff a\xff"
         "c",
         true},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        bool has_match = false;

        assert_int_equal(search(rows[i].pattern, rows[i].text, strlen(rows[i].text), &has_match),
                         0);
        if (has_match != rows[i].has_match) {
            fail_msg("%s in %s", rows[i].pattern, rows[i].text);
        }
    }
}

TEST(patterns_that_are_none_are_refused)
{
    static const char *const rows[] = {"(",      ")",           "[a",    "a**",    "*a",
                                       "^*",     "\\",          "[b-a]", "a{3,2}", "\\q",
                                       "[\\w-a", "\\u{110000}", "(?<a"};

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        bool has_match = false;

        assert_int_equal(search(rows[i], "", 0, &has_match), SNP_E_INVALID);
    }
}

/* A search that would go back for ever uses up its budget. */
TEST(patterns_cannot_take_for_ever)
{
    static const char *const patterns[] = {"^(a+)+$", "^(a|aa)+$", "^(a*)*b", "(a?){50}a{50}x"};
    const size_t n = 20000;
    snp_autofree char *text = calloc(1, n + 2);

    memset(text, 'a', n);
    text[n] = '!';
    for (size_t i = 0; i < SNP_ARRAY_LEN(patterns); i++) {
        bool has_match = true;
        int r = search(patterns[i], text, n + 1, &has_match);

        assert_true(r == SNP_E_LIMIT || r == 0);
        assert_false(has_match);
    }
}

/* A text that many servers take, and its pattern, are far from the limit. */
TEST(long_texts_are_searched)
{
    const size_t n = 20000;
    snp_autofree char *text = calloc(1, n + 1);
    bool has_match = false;

    memset(text, 'a', n);
    text[n - 1] = 'b';
    assert_int_equal(search("^[ab]+$", text, n, &has_match), 0);
    assert_true(has_match);
    assert_int_equal(search("^(?:a|b)+$", text, n, &has_match), 0);
    assert_true(has_match);
    assert_int_equal(search("ab$", text, n, &has_match), 0);
    assert_true(has_match);
}

TEST(patterns_have_bounds)
{
    snp_autofree char *deep = calloc(1, 4000);
    bool has_match = false;
    uint64_t budget = 1000;
    snp_autofree char *text = calloc(1, 5001);
    struct snp_regex *regex = NULL;
    struct snp_err err = {0};

    memset(deep, '(', 3000);
    memset(text, 'a', 5000);
    assert_int_equal(search(deep, "", 0, &has_match), SNP_E_LIMIT);
    assert_int_equal(search("((a{1000}){1000}){1000}", "", 0, &has_match), SNP_E_LIMIT);
    assert_int_equal(search("a{99999}", "", 0, &has_match), SNP_E_LIMIT);
    assert_int_equal(search(text, "", 0, &has_match), SNP_E_LIMIT);
    assert_int_equal(snp_regex_new("a*b", 3, &regex, &err), 0);
    assert_int_equal(snp_regex_search(regex, text, 5000, &budget, &has_match), SNP_E_LIMIT);
    snp_regex_free(regex);
}

RUN(UNIT(a_failure_names_member_rule_and_what_was_there),
    UNIT(what_is_told_is_bounded),
    UNIT(keywords_mean_what_they_mean),
    UNIT(a_schema_that_is_none_is_refused_and_told_where),
    UNIT(what_a_lenient_schema_passes_over_refuses_nothing),
    UNIT(a_schema_cannot_take_for_ever),
    UNIT(patterns_find_what_they_should),
    UNIT(patterns_that_are_none_are_refused),
    UNIT(patterns_cannot_take_for_ever),
    UNIT(long_texts_are_searched),
    UNIT(patterns_have_bounds))
