/* SPDX-License-Identifier: Apache-2.0 */
/* The growing buffer: its cap holds at every edge, and as a queue it keeps every byte. */
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "unit/harness.h"

TEST(cap_is_exact_and_a_refused_add_changes_nothing)
{
    snp_autobuf struct snp_buf buf;
    snp_buf_init(&buf, 10);
    assert_int_equal(snp_buf_add(&buf, "0123456789", 10), 0);
    assert_int_equal(snp_buf_add(&buf, "x", 1), SNP_E_LIMIT);
    assert_int_equal(snp_buf_adds(&buf, ""), 0);
    assert_int_equal(snp_buf_addf(&buf, "%d", 1), SNP_E_LIMIT);
    assert_int_equal(buf.len, 10);
    assert_string_equal(snp_buf_cstr(&buf), "0123456789");
    snp_buf_consume(&buf, 1);
    assert_int_equal(snp_buf_add(&buf, "xy", 2), SNP_E_LIMIT);
    assert_int_equal(snp_buf_add(&buf, "x", 1), 0);
    assert_string_equal(snp_buf_cstr(&buf), "123456789x");
}

TEST(sizes_near_the_end_of_the_type_are_refused)
{
    snp_autobuf struct snp_buf buf;
    char *space = NULL;
    snp_buf_init(&buf, SIZE_MAX);
    assert_int_equal(snp_buf_adds(&buf, "abc"), 0);
    assert_int_equal(snp_buf_reserve(&buf, SIZE_MAX, &space), SNP_E_LIMIT);
    assert_int_equal(snp_buf_reserve(&buf, SIZE_MAX - 2, &space), SNP_E_LIMIT);
    assert_null(space);
    assert_string_equal(snp_buf_cstr(&buf), "abc");
}

TEST(an_empty_buffer_holds_nothing)
{
    snp_autobuf struct snp_buf buf;
    snp_buf_init(&buf, 0);
    assert_null(snp_buf_bytes(&buf));
    assert_int_equal(snp_buf_add(&buf, NULL, 0), 0);
    assert_int_equal(snp_buf_add(&buf, "x", 1), SNP_E_LIMIT);
    assert_string_equal(snp_buf_cstr(&buf), "");
    snp_buf_consume(&buf, 0);
    snp_buf_clear(&buf);
    assert_int_equal(buf.len, 0);
}

TEST(formatted_text_of_every_length_fits)
{
    snp_autobuf struct snp_buf buf;
    snp_buf_init(&buf, 600);
    for (int width = 250; width <= 600; width++) {
        assert_int_equal(snp_buf_addf(&buf, "%*d", width, 7), 0);
        assert_int_equal(buf.len, width);
        assert_int_equal(snp_buf_bytes(&buf)[width - 1], '7');
        assert_int_equal(strlen(snp_buf_cstr(&buf)), width);
        snp_buf_clear(&buf);
    }
    assert_int_equal(snp_buf_addf(&buf, "%601d", 7), SNP_E_LIMIT);
    assert_int_equal(buf.len, 0);
}

TEST(reserve_then_commit_less)
{
    snp_autobuf struct snp_buf buf;
    char *space = NULL;
    snp_buf_init(&buf, 1000);
    assert_int_equal(snp_buf_reserve(&buf, 1000, &space), 0);
    memset(space, 'a', 3);
    snp_buf_commit(&buf, 3);
    assert_int_equal(snp_buf_reserve(&buf, 998, &space), SNP_E_LIMIT);
    assert_int_equal(snp_buf_reserve(&buf, 997, &space), 0);
    assert_string_equal(snp_buf_cstr(&buf), "aaa");
}

TEST(as_a_queue_it_keeps_order_and_stays_small)
{
    enum {
        MAX = 5000
    };
    snp_autobuf struct snp_buf buf;
    snp_buf_init(&buf, MAX);
    unsigned in = 0;
    unsigned out = 0;
    uint32_t random = 1;
    for (int round = 0; round < 20000; round++) {
        random = random * 1664525U + 1013904223U;
        size_t n = (random >> 16U) % 300;
        bool fits = n <= MAX - buf.len;
        char bytes[300];
        for (size_t i = 0; i < n; i++) {
            bytes[i] = (char)(in + i);
        }
        assert_int_equal(snp_buf_add(&buf, bytes, n), fits ? 0 : SNP_E_LIMIT);
        in += fits ? (unsigned)n : 0;
        size_t drop = (random >> 8U) % 305;
        drop = drop < buf.len ? drop : buf.len;
        for (size_t i = 0; i < drop; i++) {
            assert_int_equal(snp_buf_bytes(&buf)[i], (char)(out + i));
        }
        out += (unsigned)drop;
        snp_buf_consume(&buf, drop);
        assert_int_equal(buf.len, in - out);
        assert_true(buf.cap <= 2 * ((size_t)MAX + 1));
    }
}

TEST(a_large_buffer_gives_its_memory_back_when_empty)
{
    snp_autobuf struct snp_buf buf;
    char *space = NULL;
    snp_buf_init(&buf, 1 << 20);
    assert_int_equal(snp_buf_reserve(&buf, 1 << 20, &space), 0);
    memset(space, 'a', 1 << 20);
    snp_buf_commit(&buf, 1 << 20);
    snp_buf_consume(&buf, 1 << 20);
    assert_int_equal(buf.cap, 0);
    assert_int_equal(snp_buf_adds(&buf, "again"), 0);
    assert_string_equal(snp_buf_cstr(&buf), "again");
}

TEST(done_may_be_called_twice_and_the_buffer_used_again)
{
    struct snp_buf buf;
    snp_buf_init(&buf, 8);
    assert_int_equal(snp_buf_adds(&buf, "x"), 0);
    snp_buf_done(&buf);
    snp_buf_done(&buf);
    assert_int_equal(snp_buf_adds(&buf, "12345678"), 0);
    assert_int_equal(snp_buf_adds(&buf, "9"), SNP_E_LIMIT);
    snp_buf_done(&buf);
}

RUN(UNIT(cap_is_exact_and_a_refused_add_changes_nothing),
    UNIT(sizes_near_the_end_of_the_type_are_refused),
    UNIT(an_empty_buffer_holds_nothing),
    UNIT(formatted_text_of_every_length_fits),
    UNIT(reserve_then_commit_less),
    UNIT(as_a_queue_it_keeps_order_and_stays_small),
    UNIT(a_large_buffer_gives_its_memory_back_when_empty),
    UNIT(done_may_be_called_twice_and_the_buffer_used_again))
