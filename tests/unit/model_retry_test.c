/* SPDX-License-Identifier: Apache-2.0 */
/* What failures of providers mean, and when to try again. */
#include <string.h>

#include "base/str.h"
#include "model/retry.h"
#include "unit/harness.h"

enum {
    NOW_S = 1445412480, /* 2015-10-21 07:28:00 */
    TRIES = 40,
};

TEST(waits_are_read)
{
    static const struct {
        const char *ms;
        const char *after;
        uint64_t wait_ms;
    } rows[] = {
        {NULL, NULL, 0},
        {NULL, "2", 2000},
        {NULL, "0.5", 500},
        {"250", "7", 250},
        {"x", "7", 7000},
        {NULL, "-3", 0},
        {NULL, "soon", 0},
        {NULL, "1e300", UINT32_MAX},
        {NULL, "Wed, 21 Oct 2015 07:28:30 GMT", 30000},
        {NULL, "Wed, 21 Oct 2015 07:27:00 GMT", 0},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        assert_int_equal(snp_model_retry_after_ms(rows[i].ms, rows[i].after, NOW_S),
                         rows[i].wait_ms);
    }
}

TEST(waits_grow_to_a_limit_and_differ)
{
    uint64_t last = 0;

    for (unsigned n = 1; n < TRIES; n++) {
        uint64_t most = snp_model_backoff_ms(n, 0);
        uint64_t other = snp_model_backoff_ms(n, UINT64_MAX);
        assert_true(most >= last && most <= 8000);
        assert_true(other <= most && other >= most - most / 4);
        last = most;
    }
    assert_int_equal(snp_model_backoff_ms(1, 0), 500);
    assert_int_equal(last, 8000);
}

TEST(failures_are_told_apart)
{
    static const struct {
        int status;
        const char *error;
        enum snp_model_failure failure;
        bool is_passing;
    } rows[] = {
        {401, "{\"message\":\"no\"}", SNP_MODEL_FAILED_AUTH, false},
        {400, "{\"message\":\"API key not valid.\"}", SNP_MODEL_FAILED_AUTH, false},
        {404, "{\"type\":\"not_found_error\"}", SNP_MODEL_FAILED_MODEL, false},
        {400, "{\"message\":\"prompt is too long: 9 tokens\"}", SNP_MODEL_FAILED_CONTEXT, false},
        {400, "{\"message\":\"Your credit balance is too low\"}", SNP_MODEL_FAILED_QUOTA, false},
        {429, "{\"code\":\"insufficient_quota\",\"message\":\"quota\"}", SNP_MODEL_FAILED_QUOTA,
         false},
        {429, "{\"status\":\"RESOURCE_EXHAUSTED\"}", SNP_MODEL_FAILED_RATE, true},
        {529, "{\"type\":\"overloaded_error\"}", SNP_MODEL_FAILED_SERVER, true},
        {500, "{}", SNP_MODEL_FAILED_SERVER, true},
        {501, "{}", SNP_MODEL_FAILED_SERVER, false},
        {408, "{}", SNP_MODEL_FAILED_SERVER, true},
        {400, "{\"message\":\"bad\"}", SNP_MODEL_FAILED_REQUEST, false},
        {422, "{\"detail\":\"bad\"}", SNP_MODEL_FAILED_REQUEST, false},
        {0, "{\"type\":\"rate_limit_error\",\"message\":\"slow\"}", SNP_MODEL_FAILED_RATE, true},
    };

    for (size_t i = 0; i < SNP_ARRAY_LEN(rows); i++) {
        snp_autojson json_t *error = NULL;
        struct snp_err err;
        char why[SNP_MODEL_WHY_MAX];

        assert_int_equal(snp_json_parse(rows[i].error, strlen(rows[i].error), &error, &err), 0);
        assert_int_equal(snp_model_classify(rows[i].status, error, why), rows[i].failure);
        assert_int_equal(snp_model_is_passing(rows[i].failure, rows[i].status), rows[i].is_passing);
        assert_true(why[0] != '\0');
    }
}

TEST(words_of_others_are_bounded_and_tame)
{
    snp_autojson json_t *error = json_object();
    char why[SNP_MODEL_WHY_MAX];
    char text[4 * SNP_MODEL_WHY_MAX];

    memset(text, '\x1b', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(json_object_set_new(error, "message", json_string(text)), 0);
    (void)snp_model_classify(400, error, why);
    assert_int_equal(strlen(why), SNP_MODEL_WHY_MAX - 1);
    assert_null(strchr(why, '\x1b'));
    (void)snp_model_classify(503, NULL, why);
    assert_string_equal(why, "HTTP status 503");
}

TEST(only_parameters_that_are_refused_are_left_out)
{
    assert_int_equal(snp_model_quirk(400, "Unsupported value: 'temperature' does not support 0"),
                     SNP_MODEL_NO_TEMPERATURE);
    assert_int_equal(snp_model_quirk(422, "stream_options: Extra inputs are not permitted"),
                     SNP_MODEL_NO_STREAM_OPTIONS);
    assert_int_equal(snp_model_quirk(400, "`temperature` is deprecated for this model."),
                     SNP_MODEL_NO_TEMPERATURE);
    assert_int_equal(snp_model_quirk(400, "temperature must be between 0 and 1"), 0);
    assert_int_equal(snp_model_quirk(500, "unsupported temperature"), 0);
}

TEST(keys_are_taken_out)
{
    char text[] = "key sk-12345678 and sk-12345678!";

    snp_model_scrub(text, "sk-12345678");
    assert_string_equal(text, "key *********** and ***********!");
    snp_model_scrub(text, "and");
    snp_model_scrub(text, NULL);
    assert_string_equal(text, "key *********** and ***********!");
}

RUN(UNIT(waits_are_read),
    UNIT(waits_grow_to_a_limit_and_differ),
    UNIT(failures_are_told_apart),
    UNIT(words_of_others_are_bounded_and_tame),
    UNIT(only_parameters_that_are_refused_are_left_out),
    UNIT(keys_are_taken_out))
