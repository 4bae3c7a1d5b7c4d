/* SPDX-License-Identifier: Apache-2.0 */
/* Denials: equal ones counted, others bounded, texts of any bytes. */
#include "tier/engine/cell/denials.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "unit/harness.h"

static struct snp_denial denial(const char *object)
{
    return (struct snp_denial){
        .source = "guest",
        .control = "network",
        .operation = "connect",
        .object = object,
        .rule = "no network",
        .hint = "there is none",
    };
}

TEST(equal_ones_are_counted)
{
    struct snp_denials denials = {0};
    struct snp_denial d = denial("10.0.0.1");

    for (int i = 0; i < 1000; i++) {
        snp_denials_add(&denials, &d);
    }
    assert_int_equal(json_array_size(denials.list), 1);
    assert_int_equal(snp_json_int(json_array_get(denials.list, 0), "count", 0), 1000);
    assert_string_equal(snp_json_str(json_array_get(denials.list, 0), "object", ""), "10.0.0.1");
    assert_int_equal(denials.dropped, 0);
    snp_denials_done(&denials);
}

TEST(who_says_it_tells_them_apart)
{
    struct snp_denials denials = {0};
    struct snp_denial d = denial("x");

    snp_denials_add(&denials, &d);
    d.source = "kernel";
    snp_denials_add(&denials, &d);
    assert_int_equal(json_array_size(denials.list), 2);
    snp_denials_done(&denials);
}

TEST(beyond_the_most_they_are_dropped_and_counted)
{
    struct snp_denials denials = {0};
    char object[16];

    for (int i = 0; i < SNP_DENIALS_MAX + 10; i++) {
        (void)snprintf(object, sizeof(object), "%d", i);
        struct snp_denial d = denial(object);
        snp_denials_add(&denials, &d);
    }
    assert_int_equal(json_array_size(denials.list), SNP_DENIALS_MAX);
    assert_int_equal(denials.dropped, 10);
    snp_denials_done(&denials);
    assert_null(denials.list);
    assert_int_equal(denials.dropped, 0);
}

TEST(texts_are_cut_and_repaired)
{
    struct snp_denials denials = {0};
    char text[400];
    size_t n;
    const char *shown;

    for (size_t i = 0; i + 1 < sizeof(text); i += 2) {
        memcpy(text + i, "\xc3\xa4", 2);
    }
    text[1] = '\xff'; /* and a broken one */
    text[sizeof(text) - 1] = '\0';
    struct snp_denial d = denial(text);
    snp_denials_add(&denials, &d);
    shown = snp_json_str(json_array_get(denials.list, 0), "object", NULL);
    assert_non_null(shown);
    n = strlen(shown);
    assert_true(n > 150 && n < 220);
    assert_true(snp_utf8_valid(shown, n));
    snp_denials_done(&denials);
}

RUN(UNIT(equal_ones_are_counted),
    UNIT(who_says_it_tells_them_apart),
    UNIT(beyond_the_most_they_are_dropped_and_counted),
    UNIT(texts_are_cut_and_repaired))
