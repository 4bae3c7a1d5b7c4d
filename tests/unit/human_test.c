/* SPDX-License-Identifier: Apache-2.0 */
/* Times as people say them. */
#include "base/cli/human.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "unit/harness.h"

static void span_is(uint64_t us, const char *expected)
{
    assert_string_equal(snp_human_span(us).text, expected);
}

TEST(spans_have_the_unit_that_fits)
{
    span_is(0, "0.0 ms");
    span_is(400, "0.4 ms");
    span_is(12345, "12 ms");
    span_is(999999, "999 ms");
    span_is(1500000, "1.5 s");
    span_is(59000000, "59 s");
    span_is(200000000, "3 min 20 s");
    span_is(7500000000, "2 h 5 min");
    span_is(UINT64_MAX, "213503982 d 8 h");
}

static void age_is(double back_s, const char *expected)
{
    assert_string_equal(snp_human_age((double)snp_wall_us() / 1e6 - back_s).text, expected);
}

TEST(ages_count_from_now_and_never_lie_ahead)
{
    age_is(0, "just now");
    age_is(-3600, "just now");
    age_is(12.5, "12 s ago");
    age_is(200, "3 min ago");
    age_is(7530, "2 h 5 min ago");
    age_is(90000, "1 d ago");
}

TEST(no_time_is_never)
{
    assert_string_equal(snp_human_age(0).text, "never");
    assert_string_equal(snp_human_when(0).text, "never");
    assert_int_equal(setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0", 1), 0);
    tzset();
    assert_string_equal(snp_human_when(1700000000).text, "2023-11-14 23:13:20 CET");
    assert_string_equal(snp_human_stamp("2023-07-14T22:13:20.500Z").text,
                        "2023-07-15 00:13:20 CEST");
    assert_string_equal(snp_human_stamp("long ago").text, "long ago");
}

RUN(UNIT(spans_have_the_unit_that_fits),
    UNIT(ages_count_from_now_and_never_lie_ahead),
    UNIT(no_time_is_never))
