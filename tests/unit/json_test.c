/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON reader: what it refuses, and how absent or odd members read. */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "unit/harness.h"

static int parse(const char *text, json_t **ret)
{
    struct snp_err err;
    int r = snp_json_parse(text, strlen(text), ret, &err);
    assert_true(r == 0 || (r == SNP_E_INVALID && err.msg[0] != '\0'));
    return r;
}

TEST(nothing_reads_as_an_empty_object)
{
    struct snp_err err;
    snp_autojson json_t *object = NULL;
    assert_int_equal(snp_json_parse(NULL, 0, &object, &err), 0);
    assert_int_equal(json_object_size(object), 0);
}

TEST(only_one_well_formed_object_is_taken)
{
    static const char *const bad[] = {
        " ",
        "null",
        "[]",
        "\"a\"",
        "1",
        "{",
        "}",
        "{}}",
        "{} {}",
        "{}x",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":1,}",
        "{\"a\":1,\"a\":1}",
        "{\"a\":{\"b\":1,\"b\":2}}",
        "{\"a\":01}",
        "{\"a\":+1}",
        "{\"a\":.5}",
        "{\"a\":1.}",
        "{\"a\":0x1}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":1e999}",
        "{\"a\":9223372036854775808}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\xc0\xaf\"}",
        "{\"a\":\"\xed\xa0\x80\"}",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":\"\\udc00\\ud800\"}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":tru}",
        "{\"a\\u0000\":1}",
        "// c\n{}",
        "\xEF\xBB\xBF{}",
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(bad); i++) {
        json_t *object = NULL;
        if (parse(bad[i], &object) == 0) {
            fail_msg("accepted: %s", bad[i]);
        }
        assert_null(object);
    }
}

TEST(a_text_cut_anywhere_is_refused)
{
    static const char text[] =
        "{\"m\":\"\xC3\xA9\\u00e9\\n\",\"n\":[1,-2.5e3,true,null,{\"x\":{}}]}";
    struct snp_err err;
    for (size_t n = 1; n < sizeof(text) - 1; n++) {
        json_t *object = NULL;
        snp_autofree char *copy = malloc(n); /* exact, so that a sanitizer sees a read past it */
        assert_non_null(copy);
        memcpy(copy, text, n);
        assert_int_equal(snp_json_parse(copy, n, &object, &err), SNP_E_INVALID);
    }
    snp_autojson json_t *whole = NULL;
    assert_int_equal(snp_json_parse(text, sizeof(text) - 1, &whole, &err), 0);
}

/* {"a": and then n brackets, so n + 1 levels. */
static int parse_deep(size_t n, char open, char close)
{
    size_t len = 5 + 2 * n + 1;
    snp_autofree char *text = malloc(len + 1);
    assert_non_null(text);
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, open, n);
    memset(text + 5 + n, close, n);
    text[len - 1] = '}';
    text[len] = '\0';
    snp_autojson json_t *object = NULL;
    return parse(text, &object);
}

TEST(depth_has_a_limit)
{
    assert_int_equal(parse_deep(SNP_JSON_DEPTH_MAX - 1, '[', ']'), 0);
    assert_int_equal(parse_deep(SNP_JSON_DEPTH_MAX, '[', ']'), SNP_E_INVALID);
    assert_int_equal(parse_deep(1 << 20, '[', ']'), SNP_E_INVALID);
    assert_int_equal(parse_deep(1 << 20, '{', '}'), SNP_E_INVALID);
}

TEST(brackets_in_strings_are_not_depth)
{
    char text[256];
    snp_autojson json_t *object = NULL;
    (void)snprintf(text, sizeof(text),
                   "{\"a\":\"\\\"%064d[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\\\"}", 0);
    assert_int_equal(parse(text, &object), 0);
}

TEST(members_of_another_type_read_as_the_fallback)
{
    snp_autojson json_t *object = NULL;
    assert_int_equal(parse("{\"s\":\"x\",\"i\":-5,\"t\":true,\"f\":false,\"n\":null,\"r\":1.0,"
                           "\"z\":\"a\\u0000b\",\"e\":\"\"}",
                           &object),
                     0);
    assert_string_equal(snp_json_str(object, "s", "-"), "x");
    assert_string_equal(snp_json_str(object, "e", "-"), "");
    assert_string_equal(snp_json_str(object, "i", "-"), "-");
    assert_string_equal(snp_json_str(object, "n", "-"), "-");
    assert_string_equal(snp_json_str(object, "z", "-"), "-");
    assert_null(snp_json_str(object, "absent", NULL));
    assert_int_equal(snp_json_int(object, "i", 9), -5);
    assert_int_equal(snp_json_int(object, "r", 9), 9);
    assert_int_equal(snp_json_int(object, "s", 9), 9);
    assert_int_equal(snp_json_int(object, "t", 9), 9);
    assert_true(snp_json_bool(object, "t", false));
    assert_false(snp_json_bool(object, "f", true));
    assert_true(snp_json_bool(object, "i", true));
    assert_true(snp_json_bool(object, "n", true));
    assert_string_equal(snp_json_str(NULL, "s", "-"), "-");
    assert_int_equal(snp_json_int(NULL, "i", 3), 3);
}

TEST(whole_range_of_integers_survives)
{
    snp_autojson json_t *object = NULL;
    assert_int_equal(parse("{\"a\":-9223372036854775808,\"b\":9223372036854775807}", &object), 0);
    assert_true(snp_json_int(object, "a", 0) == INT64_MIN);
    assert_true(snp_json_int(object, "b", 0) == INT64_MAX);
    snp_autofree char *text = snp_json_text(object);
    assert_string_equal(text, "{\"a\":-9223372036854775808,\"b\":9223372036854775807}");
}

TEST(bytes_become_text)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } cases[] = {
        {NULL, 0, "\"\""},
        {"a\xFF\0b", 4, "\"a\xEF\xBF\xBD\\u0000b\""},
        {"\xC3\xA9\n", 3, "\"\xC3\xA9\\n\""},
        {"\xE2\x82", 2, "\"\xEF\xBF\xBD\""},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(cases); i++) {
        snp_autojson json_t *value = snp_json_bytes(cases[i].bytes, cases[i].n);
        snp_autofree char *text = snp_json_text(value);
        assert_string_equal(text, cases[i].text);
    }
}

TEST(errors_survive_the_way)
{
    for (int code = -1; code >= SNP_CODE_MIN; code--) {
        struct snp_err sent;
        struct snp_err got;
        (void)snp_err_set(&sent, (enum snp_code)code, code == SNP_E_SYS ? 13 : 0, "f", 1,
                          "caf\xC3\xA9");
        snp_err_about(&sent, "work");
        snp_err_limit(&sent, "memory", 1LL << 40U);
        (void)snp_err_remedy(&sent, code, (enum snp_remedy_kind) - code, "caf\xC3\xA9",
                             code == -SNP_REMEDY_RECOVER ? SNP_WAY_REPLAY | SNP_WAY_CHECKPOINT
                                                         : code);
        snp_autojson json_t *object = snp_json_from_err(&sent);
        assert_non_null(object);
        assert_int_equal(snp_json_to_err(object, &got), code);
        assert_int_equal(got.code, code);
        assert_int_equal(got.sys_errno, sent.sys_errno);
        assert_string_equal(got.msg, sent.msg);
        assert_string_equal(got.object, "work");
        assert_string_equal(got.limit, "memory");
        assert_true(got.limit_value == sent.limit_value);
        assert_int_equal(got.remedy.kind, sent.remedy.kind);
        assert_string_equal(got.remedy.name, sent.remedy.name);
        assert_true(got.remedy.value == sent.remedy.value);
    }
}

TEST(an_error_that_is_not_one_is_the_peers_fault)
{
    static const char *const bad[] = {
        "{}",
        "{\"code\":\"limit\"}",
        "{\"message\":\"x\"}",
        "{\"code\":\"ok\",\"message\":\"x\"}",
        "{\"code\":-3,\"message\":\"x\"}",
        "{\"code\":\"limit\",\"message\":null}",
    };
    struct snp_err err;
    for (size_t i = 0; i < SNP_ARRAY_LEN(bad); i++) {
        snp_autojson json_t *object = NULL;
        assert_int_equal(parse(bad[i], &object), 0);
        assert_int_equal(snp_json_to_err(object, &err), SNP_E_PEER);
    }
    assert_int_equal(snp_json_to_err(NULL, &err), SNP_E_PEER);
}

TEST(odd_codes_and_numbers_of_a_peer_are_tamed)
{
    struct snp_err err;
    snp_autojson json_t *unknown = NULL;
    assert_int_equal(parse("{\"code\":\"what\",\"message\":\"a\\nb\",\"errno\":5}", &unknown), 0);
    assert_int_equal(snp_json_to_err(unknown, &err), SNP_E_INTERNAL);
    assert_int_equal(err.sys_errno, 0);
    assert_string_equal(err.msg, "a b");
    snp_autojson json_t *huge = NULL;
    assert_int_equal(parse("{\"code\":\"system\",\"message\":\"m\",\"errno\":4294967298}", &huge),
                     0);
    assert_int_equal(snp_json_to_err(huge, &err), SNP_E_SYS);
    assert_int_equal(err.sys_errno, 0);
    snp_autojson json_t *odd = NULL;
    assert_int_equal(parse("{\"code\":\"limit\",\"message\":\"m\",\"limit\":3,\"object\":[],"
                           "\"remedy\":{\"kind\":\"pray\"}}",
                           &odd),
                     0);
    assert_int_equal(snp_json_to_err(odd, &err), SNP_E_LIMIT);
    assert_int_equal(err.remedy.kind, SNP_REMEDY_NONE);
    assert_string_equal(err.object, "");
}

RUN(UNIT(nothing_reads_as_an_empty_object),
    UNIT(only_one_well_formed_object_is_taken),
    UNIT(a_text_cut_anywhere_is_refused),
    UNIT(depth_has_a_limit),
    UNIT(brackets_in_strings_are_not_depth),
    UNIT(members_of_another_type_read_as_the_fallback),
    UNIT(whole_range_of_integers_survives),
    UNIT(bytes_become_text),
    UNIT(errors_survive_the_way),
    UNIT(an_error_that_is_not_one_is_the_peers_fault),
    UNIT(odd_codes_and_numbers_of_a_peer_are_tamed))
