/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records by their tables: a struct goes out and comes back, and what departs from the form
 * is named.
 */
#include "base/wire/record.h"

#include <string.h>

#include "unit/harness.h"

static const char *const colours[] = {"red", "green", "blue", NULL};

/* clang-format off */
#define PART(F, S) \
    F(S, INT,  size, MUST, 0, 0, "")
SNP_RECORD_DECLARE(part, "part", PART)
SNP_RECORD_DEFINE(part, "part", PART)
#define SAMPLE(F, S) \
    F(S, STR,  name,  MUST,   4, 0, "") \
    F(S, WORD, hue,   OPTNIL, 0, colours, "") \
    F(S, INT,  count, OPT,    9, 0, "") \
    F(S, NEG,  exit,  NIL,    0, 0, "") \
    F(S, YES,  warm,  OPT,    0, 0, "") \
    F(S, ARR,  parts, OPT,    2, &part_form, "") \
    F(S, STRS, words, OPT,    0, 0, "")
SNP_RECORD_DECLARE(sample, "sample", SAMPLE)
SNP_RECORD_DEFINE(sample, "sample", SAMPLE, .tag = "method")
/* clang-format on */

TEST(what_is_written_reads_back)
{
    struct sample back;
    struct snp_err err;
    snp_autojson json_t *parts = json_pack("[o]", SNP_WRITE(part, .size = 7));
    snp_autojson json_t *object = SNP_WRITE(sample, .name = "a", .hue = "blue", .count = 3,
                                            .exit = SNP_NO_NUMBER, .parts = parts);
    snp_autofree char *text = snp_json_text(object);
    assert_string_equal(text, "{\"method\":\"sample\",\"name\":\"a\",\"hue\":\"blue\",\"count\":3,"
                              "\"exit\":null,\"warm\":false,\"parts\":[{\"size\":7}]}");
    assert_int_equal(snp_record_check(object, &sample_form, &err), 0);
    snp_record_read(object, &sample_form, &back);
    assert_string_equal(back.name, "a");
    assert_string_equal(back.hue, "blue");
    assert_true(back.count == 3 && back.exit == SNP_NO_NUMBER && !back.warm);
    assert_ptr_equal(back.parts, parts);
    assert_null(back.words);
    assert_null(SNP_WRITE(sample, .hue = "red")); /* its name is missing */
}

TEST(nothing_reads_as_the_defaults)
{
    struct sample back;
    snp_autojson json_t *odd =
        json_pack("{s:i, s:s, s:s, s:s}", "name", 1, "count", "x", "exit", "0", "parts", "none");
    const json_t *const given[] = {NULL, odd};
    for (size_t i = 0; i < SNP_ARRAY_LEN(given); i++) {
        snp_record_read(given[i], &sample_form, &back);
        assert_null(back.name);
        assert_null(back.parts);
        assert_true(back.count == 0 && back.exit == SNP_NO_NUMBER && back.warm);
    }
}

TEST(each_departure_is_named)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"[]", "sample: must be an object"},
        {"{\"name\": \"a\", \"exit\": 1}", "'method' is missing"},
        {"{\"method\": \"sample\", \"exit\": 1}", "'name' is missing"},
        {"{\"method\": \"sample\", \"name\": \"abcde\", \"exit\": 1}", "at most 4 bytes"},
        {"{\"method\": \"sample\", \"name\": \"a\", \"exit\": \"1\"}", "an integer or null"},
        {"{\"method\": \"sample\", \"name\": \"a\", \"exit\": 1, \"count\": 10}", "at most 9"},
        {"{\"method\": \"sample\", \"name\": \"a\", \"exit\": 1, \"hue\": \"pink\"}",
         "'hue' is red, green or blue, not 'pink'"},
        {"{\"method\": \"sample\", \"name\": \"a\", \"exit\": 1, \"parts\": [{}]}",
         "part: 'size' is missing"},
        {"{\"method\": \"sample\", \"name\": \"a\", \"exit\": 1, \"words\": [1]}",
         "words: element 0 must be a string"},
        {"{\"method\": \"sample\", \"name\": \"a\", \"exit\": 1, \"worm\": true}",
         "unknown member 'worm'; did you mean 'warm'?"},
    };
    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autojson json_t *value = json_loads(rows[i].text, 0, NULL);
        struct snp_err err = {0};
        assert_int_equal(snp_record_check(value, &sample_form, &err), SNP_E_INVALID);
        if (strstr(err.msg, rows[i].says) == NULL) {
            fail_msg("%s: %s", rows[i].text, err.msg);
        }
    }
}

RUN(UNIT(what_is_written_reads_back),
    UNIT(nothing_reads_as_the_defaults),
    UNIT(each_departure_is_named))
